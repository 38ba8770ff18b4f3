//! Cleans pasted lines: removes terminal colours, quote marks and carriage returns; measures indentation.

use std::borrow::Cow;

use crate::import::find;

/// Longer lines are cut.
const LONGEST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Indentation in columns; tabs stop at multiples of eight.
    pub indent: usize,
    /// Trimmed text; empty for a blank line.
    pub text: Cow<'a, str>,
}

pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    find::lines(bytes).enumerate().map(|(at, raw)| {
        let raw = &raw[..raw.len().min(LONGEST)];
        line(at + 1, clean(raw))
    })
}

/// Removes escape sequences and replaces special blanks.
fn clean(raw: &[u8]) -> Cow<'_, str> {
    const ESCAPE: u8 = 0x1b;
    let text = String::from_utf8_lossy(raw);
    if raw.is_ascii() && !raw.contains(&ESCAPE) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // Control sequences end with a letter; other escapes take one more character.
            '\u{1b}' => {
                if chars.next() == Some('[') {
                    chars.by_ref().find(|c| ('@'..='~').contains(c));
                }
            }
            // Non-breaking spaces and byte order marks from web pages.
            '\u{a0}' => out.push(' '),
            '\u{feff}' => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn line(number: usize, text: Cow<'_, str>) -> Line<'_> {
    let (start, indent) = start(&text);
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text[start..].trim_end()),
        Cow::Owned(text) => Cow::Owned(text[start..].trim_end().to_owned()),
    };
    Line { number, indent, text }
}

/// The offset of the first word, and its column after quote marks (`> `).
fn start(text: &str) -> (usize, usize) {
    let mut column = 0;
    let mut marked = false;
    for (at, c) in text.char_indices() {
        match c {
            ' ' if marked => marked = false,
            ' ' => column += 1,
            '\t' => column = (column / 8 + 1) * 8,
            '>' => (column, marked) = (0, true),
            c if c.is_whitespace() => {}
            _ => return (at, column),
        }
        marked &= c == '>';
    }
    (text.len(), column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_quote_marks_and_colours() {
        for (raw, indent, text) in [
            ("01:00.0 VGA", 0, "01:00.0 VGA"),
            ("\tControl: I/O-\r", 8, "Control: I/O-"),
            ("    \tLnkCap:\tPort", 8, "LnkCap:\tPort"),
            ("> 01:00.0 VGA  ", 0, "01:00.0 VGA"),
            ("> > \tControl:", 8, "Control:"),
            (">>   x", 2, "x"),
            ("> ", 0, ""),
            ("\u{1b}[1;31m01:00.0\u{1b}[0m VGA\u{1b}[K", 0, "01:00.0 VGA"),
            ("\u{a0}\u{a0}x", 2, "x"),
            (" \t \r", 9, ""),
            ("\u{1b}[", 0, ""),
        ] {
            let line = lines(raw.as_bytes()).next().expect("a line");
            assert_eq!((line.indent, line.text.as_ref()), (indent, text), "{raw:?}");
        }
    }

    #[test]
    fn numbers_and_cuts_lines() {
        let long = [b"a\n".as_slice(), &[b'x'; 10_000], b"\n\xff\n"].concat();
        let found: Vec<(usize, usize)> =
            lines(&long).map(|line| (line.number, line.text.len())).collect();
        assert_eq!(found, [(1, 1), (2, LONGEST), (3, 3), (4, 0)]);
    }
}
