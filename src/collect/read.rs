//! From file to fact: the meaning of errors.

use std::cmp::Ordering;
use std::path::Path;
use std::str::FromStr;

use crate::model::{Bdf, Fact, Note, Why};
use crate::world::{FileError, Files, MOST, as_text};

/// Limit of notes.
const MAX_NOTES: usize = 1_000;

/// Limit of an attribute's text (sysfs: one page). Messages for many devices may repeat it.
const MAX_ATTRIBUTE: usize = 1 << 16;

pub fn note(notes: &mut Vec<Note>, source: impl Into<String>, message: impl Into<String>) {
    match notes.len().cmp(&MAX_NOTES) {
        Ordering::Less => notes.push(Note { source: source.into(), message: message.into() }),
        Ordering::Equal => notes.push(Note {
            source: "gdr".to_owned(),
            message: format!("more notes omitted; {MAX_NOTES} are kept"),
        }),
        Ordering::Greater => {}
    }
}

/// Notes that a source is malformed, and returns the unknown fact.
pub fn malformed<T>(
    notes: &mut Vec<Note>,
    source: impl Into<String>,
    message: impl Into<String>,
) -> Fact<T> {
    note(notes, source, message);
    Fact::Unknown(Why::Broken)
}

/// The fact for a failed read. A missing file adds no note: most machines and reports lack most files.
pub fn unread<T>(notes: &mut Vec<Note>, error: &FileError) -> Fact<T> {
    let is_missing = error.is_absent() || error.is_not_in_report();
    if !is_missing && notes.len() <= MAX_NOTES {
        note(notes, error.path().display().to_string(), error.sentence());
    }
    Fact::Unknown(error.why())
}

pub fn text(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    match files.text(Path::new(path)) {
        Ok(text) => attribute(text, path, notes),
        Err(error) => unread(notes, &error),
    }
}

fn attribute(text: String, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    if text.len() > MAX_ATTRIBUTE {
        malformed(notes, path, format!("more than {MAX_ATTRIBUTE} bytes"))
    } else {
        Fact::Known(text)
    }
}

/// A file's lines, within limits.
pub fn lines(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    match files.text(Path::new(path)) {
        Ok(text) => few_lines(text, path, notes),
        Err(error) => unread(notes, &error),
    }
}

/// The part of a file that `keep` returns; the rest may be private or large and is not recorded.
pub fn kept(
    files: &dyn Files,
    path: &str,
    keep: fn(&str) -> String,
    notes: &mut Vec<Note>,
) -> Fact<String> {
    let path = Path::new(path);
    let keep = |bytes: Vec<u8>| match std::str::from_utf8(&bytes) {
        Ok(text) => keep(text).into_bytes(),
        Err(_) => bytes,
    };
    let text = files.reduced(path, MOST, &keep).and_then(|bytes| as_text(path, bytes));
    match text {
        Ok(text) => few_lines(text, &path.display().to_string(), notes),
        Err(error) => unread(notes, &error),
    }
}

/// Like `kept`, but `None` if the file is absent and its directory is not. Replaces invalid UTF-8.
pub fn kept_if_there(
    files: &dyn Files,
    path: &str,
    keep: impl Fn(&str) -> String,
    notes: &mut Vec<Note>,
) -> Fact<Option<String>> {
    let reduce = |bytes: Vec<u8>| keep(&String::from_utf8_lossy(&bytes)).into_bytes();
    match files.reduced(Path::new(path), MOST, &reduce) {
        Ok(bytes) => few_lines(String::from_utf8_lossy(&bytes).into_owned(), path, notes).map(Some),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// A file's text; `None` if the file is absent and its directory is not.
pub fn text_if_there(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    match files.text(Path::new(path)) {
        Ok(text) => attribute(text, path, notes).map(Some),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// Directories that every kernel has.
const ALWAYS: [&str; 2] = ["/sys/class", "/sys/bus"];

/// The fact for an absent path: `None` if its directory can be read.
///
/// If the directory is absent too, its own absence decides, and so on upwards. A missing `/proc`, `/sys`, `/dev` or
/// `/sys/class` was not recorded, so the fact is unknown.
pub fn absent<T>(files: &dyn Files, path: &str) -> Fact<Option<T>> {
    let mut directory = Path::new(path);
    while let Some(parent) = directory.parent() {
        if parent == Path::new("/") || ALWAYS.iter().any(|always| directory == Path::new(always)) {
            return Fact::Unknown(Why::NotCovered);
        }
        match files.list_kept(parent, &|_| false) {
            Ok(_) => return Fact::Known(None),
            Err(error) if error.is_absent() => directory = parent,
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    Fact::Unknown(Why::NotCovered)
}

pub fn value<T: FromStr>(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<T> {
    text(files, path, notes).and_then(|text| match text.trim().parse() {
        Ok(value) => Fact::Known(value),
        Err(_) => malformed(notes, path, format!("invalid value '{}'", shorten(&text))),
    })
}

pub fn is_there(files: &dyn Files, path: &str) -> Fact<bool> {
    match files.exists(Path::new(path)) {
        Ok(true) => Fact::Known(true),
        Ok(false) => absent::<()>(files, path).map(|_| false),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// Limits the lines and bytes of a text.
pub fn few_lines(text: String, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    const MOST: usize = 8192;
    const LONGEST: usize = 1 << 20;
    if text.len() > LONGEST || text.lines().nth(MOST).is_some() {
        malformed(notes, path, format!("more than {MOST} lines or {LONGEST} bytes"))
    } else {
        Fact::Known(text)
    }
}

pub fn names(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Vec<String>>> {
    match files.list(Path::new(path)) {
        Ok(names) => Fact::Known(Some(names)),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// A file's lines; `None` if the file is absent and its directory is not.
pub fn lines_if_there(
    files: &dyn Files,
    path: &str,
    notes: &mut Vec<Note>,
) -> Fact<Option<String>> {
    match files.text(Path::new(path)) {
        Ok(text) => few_lines(text, path, notes).map(Some),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// The last part of a link's target; `None` without such a link.
pub fn link_name(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    match files.read_link(Path::new(path)) {
        Ok(target) => match target.file_name().and_then(|name| name.to_str()) {
            Some(name) => Fact::Known(Some(name.to_owned())),
            None => malformed(notes, path, "the link's target has no name"),
        },
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// The last PCI address in a path: the function of a class device.
pub fn last_bdf(path: &Path) -> Option<Bdf> {
    path.components().rev().find_map(|part| part.as_os_str().to_str()?.parse().ok())
}

/// Shortens a text for a message.
pub fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_huge_list() {
        let mut notes = Vec::new();
        let text = "a\n".repeat(8192);
        assert_eq!(few_lines(text.clone(), "/x", &mut notes), Fact::Known(text.clone()));
        assert!(notes.is_empty());
        assert_eq!(few_lines(text + "a", "/x", &mut notes), Fact::Unknown(Why::Broken));
        assert_eq!(few_lines("a".repeat(1 << 21), "/x", &mut notes), Fact::Unknown(Why::Broken));
        assert_eq!(notes.len(), 2);
    }
}
