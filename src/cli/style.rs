//! Colour and width of the output.

use std::io::IsTerminal as _;

use super::ColorWhen;
use crate::render::Style;

/// Width if the terminal does not report one.
const WIDTH: usize = 100;

/// Minimum width.
const NARROWEST: usize = 40;

/// COLUMNS if set, else the width of the terminal.
fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(|| {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(size.ws_col.into())
    })
    .filter(|columns| *columns > 0)
}

/// Output style for standard output.
pub fn style(when: ColorWhen) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Style {
        // https://no-color.org: any non-empty value.
        color: match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        },
        width: columns().map_or(WIDTH, |columns| columns.max(NARROWEST)),
    }
}
