//! Lines of a text as people paste it: without terminal colours, quoting, carriage returns; with their indentation as a number.

use std::borrow::Cow;

/// More of a line than this says nothing of a PCI function.
const LONGEST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Columns before its first word, a tab to the next multiple of eight.
    pub indent: usize,
    /// The rest, without blanks at its ends. A blank line's is empty.
    pub text: Cow<'a, str>,
}

/// The lines of a file, and whether the last one ended.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, raw)| {
            let raw = &raw[..raw.len().min(LONGEST)];
            line(at + 1, clean(raw))
        })
}

/// Text without escape sequences and with plain blanks.
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
            // Control sequences end with a letter; of other escapes the next character is a part.
            '\u{1b}' => {
                if chars.next() == Some('[') {
                    chars.by_ref().find(|c| ('@'..='~').contains(c));
                }
            }
            // Web pages have such blanks, and byte order marks.
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
    Line {
        number,
        indent,
        text,
    }
}

/// Where the first word begins, and its column behind the marks of quoting (`> `).
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
    fn finds_the_words_behind_what_people_put_before_them() {
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
    fn counts_and_cuts() {
        let long = [b"a\n".as_slice(), &[b'x'; 10_000], b"\n\xff\n"].concat();
        let found: Vec<(usize, usize)> = lines(&long)
            .map(|line| (line.number, line.text.len()))
            .collect();
        assert_eq!(found, [(1, 1), (2, LONGEST), (3, 3), (4, 0)]);
    }
}
