//! Colour as marks that a text from outside cannot hold: [`super::Filter`] turns them into escape sequences.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use anstyle::Style;

/// ESC, and then a number that is this process's own: no input holds it, because no other process knows it.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().build_hasher().finish()));

/// What a mark begins with.
pub fn mark() -> &'static str {
    &MARK
}

pub fn paint(style: Style, text: &str) -> String {
    let marked = |sequence: String| sequence.replace('\u{1b}', mark());
    let (begin, end) = (style.render().to_string(), style.render_reset().to_string());
    format!("{}{text}{}", marked(begin), marked(end))
}
