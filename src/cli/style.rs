//! The one owner of colour, width and the terminal.

use std::io::IsTerminal as _;

use super::ColorWhen;
use crate::render::Style;

/// Width where nothing says how wide the terminal is.
const WIDTH: usize = 100;

/// Below this nothing is worth reading.
const NARROWEST: usize = 40;

/// COLUMNS where it is set, else what the terminal says.
fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    set.or_else(|| {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(size.ws_col.into())
    })
    .filter(|columns| *columns > 0)
}

/// How to print on standard output.
pub fn style(when: ColorWhen) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Style {
        // https://no-color.org: any value that is not empty.
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
