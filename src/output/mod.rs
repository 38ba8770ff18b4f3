//! Everything that a person sees passes here: no text of a machine, a file or a command line may control a terminal or hide itself.
//!
//! [`Filter`] stands before standard output and standard error, so a call site cannot forget it. Colour passes as marks that only
//! [`paint`] makes; JSON stays exact, because [`write_pretty`] escapes what the filter would replace. What the filter cannot know is which
//! line breaks are gdr's own: a value that goes into a line is made [`printable`] by whoever writes the line.

mod character;
mod document;
mod filter;
mod json;
mod mark;
mod progress;
mod shell;

pub use character::{is_hidden, printable};
pub use document::{Document, now};
pub use filter::Filter;
pub use json::{escaped, pretty, write_compact, write_pretty};
pub use mark::paint;
pub use progress::Progress;
pub use shell::{exact_word, print_exactly, shell_word};

use std::io::{self, LineWriter, Stderr, StdoutLock, Write as _};

/// Standard output for people and programs.
pub fn stdout() -> Filter<StdoutLock<'static>> {
    Filter::new(io::stdout().lock())
}

/// Standard error, a line at a time.
pub fn stderr() -> Filter<LineWriter<Stderr>> {
    Filter::new(LineWriter::new(io::stderr()))
}

/// A text as it reaches a reader.
pub fn filtered(text: &str) -> String {
    let mut filter = Filter::new(Vec::new());
    // A Vec takes all of it.
    let _ = filter
        .write_all(text.as_bytes())
        .and_then(|()| filter.flush());
    String::from_utf8_lossy(filter.inner()).into_owned()
}
