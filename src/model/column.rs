//! A column of a table, declared once for a terminal and for a page.

use super::Outcome;

/// A column of a table of `R`.
pub struct Column<R> {
    pub heading: &'static str,
    pub text: fn(&R) -> String,
    pub form: Form<R>,
    /// One text for rows whose other cells are equal: they are one row.
    pub merged: Option<fn(&[String]) -> String>,
    /// A terminal has no room for it.
    pub is_long: bool,
}

/// What the cells of a column hold.
pub enum Form<R> {
    Text,
    Number,
    /// The word for an outcome.
    State(fn(&R) -> Outcome),
    /// A host list, as in `n[1-8,10]`.
    Hosts,
    /// A word, or nothing.
    Flag,
    Address,
}

impl<R> Column<R> {
    pub const fn new(heading: &'static str, text: fn(&R) -> String) -> Self {
        Self { heading, text, form: Form::Text, merged: None, is_long: false }
    }

    pub const fn form(self, form: Form<R>) -> Self {
        Self { form, ..self }
    }

    pub const fn merged(self, merged: fn(&[String]) -> String) -> Self {
        Self { merged: Some(merged), ..self }
    }
}
