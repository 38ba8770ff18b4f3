//! Colour marks that external text cannot forge: [`super::Filter`] turns them into escape sequences.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use anstyle::Style;

/// ESC and a random number of this process, which no input can contain.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().build_hasher().finish()));

/// The prefix of a mark.
pub fn mark() -> &'static str {
    &MARK
}

pub fn paint(style: Style, text: &str) -> String {
    let marked = |sequence: String| sequence.replace('\u{1b}', mark());
    let (begin, end) = (style.render().to_string(), style.render_reset().to_string());
    format!("{}{text}{}", marked(begin), marked(end))
}
