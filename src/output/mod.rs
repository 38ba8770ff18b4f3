//! All output for people. Text from a machine, a file or the command line must not control a terminal or hide itself.
//!
//! [`Filter`] is in front of standard output and standard error, so no call site can forget it. Colour passes as marks
//! that only [`paint`] makes. JSON stays exact, because [`write_pretty`] escapes what the filter would replace. The
//! filter cannot know which line breaks are gdr's: code that puts a value into a line makes it [`printable`].

mod character;
mod document;
mod filter;
mod json;
mod mark;
mod progress;
mod redirect;
mod shell;
mod terminal;

pub use character::{is_hidden, printable};
pub use document::{Document, now, time_of};
pub use filter::Filter;
pub use json::{escaped, pretty, write_compact, write_pretty};
pub use mark::paint;
pub use progress::Progress;
pub use redirect::Redirected;
pub use shell::{exact_word, print_exactly, shell_word};
pub use terminal::is_foreground;

use std::io::{self, LineWriter, Stderr, StdoutLock, Write as _};

/// Standard output.
pub fn stdout() -> Filter<StdoutLock<'static>> {
    Filter::new(io::stdout().lock())
}

/// Standard error, line-buffered.
pub fn stderr() -> Filter<LineWriter<Stderr>> {
    Filter::new(LineWriter::new(io::stderr()))
}

/// Text as the filter prints it.
pub fn filtered(text: &str) -> String {
    let mut filter = Filter::new(Vec::new());
    // Writing to a Vec cannot fail.
    let _ = filter.write_all(text.as_bytes()).and_then(|()| filter.flush());
    String::from_utf8_lossy(filter.inner()).into_owned()
}
