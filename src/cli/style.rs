//! The one owner of colour, width and the terminal.

use std::io::IsTerminal as _;

use super::ColorWhen;
use crate::render::Style;

/// Width where nothing says how wide the terminal is.
const WIDTH: usize = 100;

/// Below this nothing is worth reading.
const NARROWEST: usize = 40;

/// How to print on standard output.
pub fn style(when: ColorWhen) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Style {
        // https://no-color.org: any value that is not empty.
        color: match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
        },
        width: std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .filter(|columns| *columns > 0)
            .map_or(WIDTH, |columns: usize| columns.max(NARROWEST)),
    }
}
