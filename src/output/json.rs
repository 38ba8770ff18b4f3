//! JSON that is also safe in a terminal: values stay exact, hidden characters are escaped.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::character::{is_hidden, plain_length};

/// Formats a document over several lines.
pub fn pretty(value: &impl Serialize) -> io::Result<String> {
    let mut text = Vec::new();
    write_pretty(&mut text, value)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes a document over several lines, as it is serialized.
pub fn write_pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(&mut Indented::new(out), value)
}

/// Writes a document on one line, as it is serialized.
pub fn write_compact(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(out, value)
}

fn write(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    // serde_json writes a few bytes at a time.
    let mut out = BufWriter::with_capacity(1 << 16, escaped(out));
    serde_json::to_writer(&mut out as &mut dyn Write, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A writer of JSON on one line, which breaks it into lines as serde_json does. serde_json's own way would be a second
/// copy of the code of all documents.
struct Indented<'w> {
    inner: &'w mut dyn Write,
    depth: usize,
    /// The last character opened a list or an object.
    opened: bool,
    text: Text,
}

#[derive(Clone, Copy, PartialEq)]
enum Text {
    Outside,
    Inside,
    Backslash,
}

impl<'w> Indented<'w> {
    fn new(inner: &'w mut dyn Write) -> Self {
        Self { inner, depth: 0, opened: false, text: Text::Outside }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

impl Write for Indented<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = Vec::with_capacity(2 * bytes.len());
        for &byte in bytes {
            if self.text != Text::Outside {
                self.text = match (self.text, byte) {
                    (Text::Inside, b'"') => Text::Outside,
                    (Text::Inside, b'\\') => Text::Backslash,
                    _ => Text::Inside,
                };
                out.push(byte);
                continue;
            }
            let opened = std::mem::take(&mut self.opened);
            if matches!(byte, b'}' | b']') {
                self.depth = self.depth.saturating_sub(1);
            }
            if opened != matches!(byte, b'}' | b']') {
                self.line(&mut out);
            }
            out.push(byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.opened = true;
                }
                b',' => self.line(&mut out),
                b':' => out.push(b' '),
                b'"' => self.text = Text::Inside,
                _ => {}
            }
        }
        self.inner.write_all(&out)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A writer for JSON that replaces hidden characters with `\u` escapes.
pub fn escaped<W: Write>(inner: W) -> impl Write {
    Escaped { inner, pending: Vec::new() }
}

/// JSON is ASCII outside of strings; inside them, an escape is equivalent to the character.
fn escape(text: String) -> String {
    if !text.contains(is_escaped) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c)
        }
    }
    out
}

/// Line breaks between values are formatting; in strings they are escaped already.
fn is_escaped(c: char) -> bool {
    is_hidden(c) && c != '\n'
}

struct Escaped<W: Write> {
    inner: W,
    /// An incomplete character.
    pending: Vec<u8>,
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.is_empty() && plain_length(bytes) == bytes.len() {
            self.inner.write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.pending.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.pending) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "JSON is UTF-8")),
        };
        let rest = self.pending.split_off(whole);
        let text = std::mem::replace(&mut self.pending, rest);
        // Checked above.
        let text = String::from_utf8(text).unwrap_or_default();
        self.inner.write_all(escape(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_serde_json() {
        let values = serde_json::json!([
            {}, [], [[]], {"a": {}}, [1, -2.5, null, true], "a\\\"}{[,:\\", {"b": [{"c": [], "d:,{": "e"}, "f"]}, "",
        ]);
        for value in values.as_array().expect("a list").iter().chain([&values]) {
            let expected = serde_json::to_string_pretty(value).expect("text") + "\n";
            assert_eq!(pretty(value).expect("text"), expected);
            for size in 1..8 {
                let mut out = Vec::new();
                let mut writer = Indented::new(&mut out);
                for part in (value.to_string() + "\n").as_bytes().chunks(size) {
                    writer.write_all(part).expect("a Vec takes all");
                }
                assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
            }
        }
    }

    const HOSTILE: &str =
        "\u{0}\u{1b}[31m\n\t\u{7f}\u{9b}\u{202e}\u{2028}\u{feff}\u{e0041}é漢\u{1f600}\"\\";

    #[test]
    fn escapes_hidden_characters_without_changing_values() {
        let mut compact = Vec::new();
        write_compact(&mut compact, &[HOSTILE]).expect("a Vec takes all");
        let compact = String::from_utf8(compact).expect("UTF-8");
        for text in [pretty(&[HOSTILE]).expect("text"), compact] {
            assert!(text.contains(r"\u007f\u009b\u202e\u2028\ufeff\udb40\udc41é漢"), "{text}");
            let read: Vec<String> = serde_json::from_str(&text).expect("JSON");
            assert_eq!(read, [HOSTILE]);
        }
    }

    #[test]
    fn escapes_at_any_split() {
        let text = serde_json::to_string(HOSTILE).expect("text");
        for size in 1..text.len() {
            let mut out = Vec::new();
            let mut writer = escaped(&mut out);
            for chunk in text.as_bytes().chunks(size) {
                writer.write_all(chunk).expect("a Vec takes all");
            }
            drop(writer);
            assert_eq!(String::from_utf8(out).expect("UTF-8"), escape(text.clone()), "{size}");
        }
    }
}
