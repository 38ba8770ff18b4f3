//! The writer in front of a terminal.

use std::io::{self, Write};

use super::character::{is_hidden, plain_length};
use super::mark::mark;

/// Maximum length of a colour's parameters: `38;2;255;255;255`.
const LONGEST_COLOUR: usize = 20;

/// A writer that replaces hidden characters, except line feeds and tabs, and invalid UTF-8 with question marks. The
/// marks of [`super::paint`] become escape sequences.
pub struct Filter<W: Write> {
    inner: W,
    /// An incomplete character or mark.
    pending: Vec<u8>,
}

/// The start of a text that begins with ESC.
enum Escape {
    /// A mark: its length in bytes and its escape sequence.
    Mark(usize, String),
    /// Possibly an incomplete mark.
    Cut,
    Other,
}

impl<W: Write> Filter<W> {
    /// Filters the output to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, pending: Vec::new() }
    }

    /// The underlying writer.
    pub fn inner(&self) -> &W {
        &self.inner
    }

    /// Writes pending bytes. With `last`, an incomplete character or mark is replaced instead of kept.
    fn pass(&mut self, last: bool) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.pending);
        let mut passed = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (text, cut) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let valid =
                        std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default();
                    (valid, Some(error.error_len()))
                }
            };
            let taken = filter(text, &mut passed, last || cut.is_some());
            rest = &rest[taken..];
            match cut {
                _ if taken < text.len() => break,
                // An incomplete character.
                Some(None) if !last => break,
                Some(length) => {
                    passed.push('?');
                    rest = &rest[length.unwrap_or(rest.len())..];
                }
                None => {}
            }
        }
        self.pending = rest.to_vec();
        self.inner.write_all(passed.as_bytes())
    }
}

/// Appends the filtered text to `passed` and returns the number of bytes consumed. The rest may be an incomplete mark.
fn filter(text: &str, passed: &mut String, last: bool) -> usize {
    let mut at = 0;
    loop {
        let plain = plain_length(&text.as_bytes()[at..]);
        passed.push_str(&text[at..at + plain]);
        at += plain;
        let Some(c) = text[at..].chars().next() else {
            return at;
        };
        let mut length = c.len_utf8();
        match c {
            '\u{1b}' => match escape(&text[at..]) {
                Escape::Mark(whole, sequence) => {
                    passed.push_str(&sequence);
                    length = whole;
                }
                Escape::Cut if !last => return at,
                Escape::Cut | Escape::Other => passed.push('?'),
            },
            '\t' => passed.push(c),
            c if is_hidden(c) => passed.push('?'),
            c => passed.push(c),
        }
        at += length;
    }
}

fn escape(text: &str) -> Escape {
    let Some(rest) = text.strip_prefix(mark()) else {
        return if mark().starts_with(text) { Escape::Cut } else { Escape::Other };
    };
    let Some(parameters) = rest.strip_prefix('[') else {
        return if rest.is_empty() { Escape::Cut } else { Escape::Other };
    };
    let length =
        parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    match parameters.as_bytes().get(length) {
        Some(b'm') if length <= LONGEST_COLOUR => {
            Escape::Mark(mark().len() + length + 2, format!("\u{1b}[{}m", &parameters[..length]))
        }
        None if length <= LONGEST_COLOUR => Escape::Cut,
        _ => Escape::Other,
    }
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        self.pass(false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(true)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use anstyle::{AnsiColor, Style};

    use super::*;
    use crate::output::{filtered, paint};

    fn in_chunks(bytes: &[u8], size: usize) -> String {
        let mut filter = Filter::new(Vec::new());
        for chunk in bytes.chunks(size) {
            filter.write_all(chunk).expect("a Vec takes all");
        }
        filter.flush().expect("a Vec takes all");
        String::from_utf8(filter.inner).expect("it writes UTF-8")
    }

    #[test]
    fn replaces_hidden_characters_at_any_split() {
        let hostile = b"a\x1b[31mb\x9b2J\xc2\x9bc\xe2\x80\xaed\xe2\x80\xa8e\xf3\xa0\x80\x81f\xff\xe2\x80g\x07\x7f\r\n\th\xc3\xa9\xe2\x86\x92";
        for size in 1..hostile.len() {
            assert_eq!(in_chunks(hostile, size), "a?[31mb?2J?c?d?e?f??g???\n\thé→", "{size}");
        }
    }

    #[test]
    fn passes_colour_marks_only() {
        let painted =
            paint(Style::new().bold(), "x") + &paint(AnsiColor::Red.on_default(), "y\u{1b}[32m");
        let wanted = "\u{1b}[1mx\u{1b}[0m\u{1b}[31my?[32m\u{1b}[0m";
        assert_eq!(filtered(&painted), wanted);
        for size in 1..painted.len() {
            assert_eq!(in_chunks(painted.as_bytes(), size), wanted, "{size}");
        }
        // Even with the right mark, no other sequence passes.
        for sequence in ["[2J", "]0;title", "[31", "[31;31;31;31;31;31;31;31m", "(0", ""] {
            let text = filtered(&format!("{}{sequence}.", mark()));
            assert_eq!(text, format!("?{}{sequence}.", &mark()[1..]));
        }
    }

    #[test]
    fn flush_replaces_incomplete_input() {
        assert_eq!(in_chunks(b"a\xe2\x80", 1), "a?");
        assert_eq!(in_chunks(b"a\x1b", 1), "a?");
        assert_eq!(in_chunks(mark().as_bytes(), 1), format!("?{}", &mark()[1..]));
    }
}
