//! From a file to a fact: what an error means, said once.

use std::cmp::Ordering;
use std::path::Path;
use std::str::FromStr;

use crate::model::{Bdf, Fact, Note, Why};
use crate::world::{FileError, Files, MOST, as_text};

/// The most remarks that are kept: a source may have something wrong with each of its files.
const MAX_NOTES: usize = 1_000;

/// The longest text of an attribute: those of sysfs are a page, those of procfs that are read whole not much more. What is
/// said of a thousand devices may repeat it.
const MAX_ATTRIBUTE: usize = 1 << 16;

/// Notes down what is wrong with a source, as long as there are few remarks.
pub fn note(notes: &mut Vec<Note>, source: impl Into<String>, message: impl Into<String>) {
    match notes.len().cmp(&MAX_NOTES) {
        Ordering::Less => notes.push(Note {
            source: source.into(),
            message: message.into(),
        }),
        Ordering::Equal => notes.push(Note {
            source: "gdr".to_owned(),
            message: format!("there are more remarks; {MAX_NOTES} are kept"),
        }),
        Ordering::Greater => {}
    }
}

/// Notes down that a source could not be made sense of, and returns the unknown fact.
pub fn broken<T>(
    notes: &mut Vec<Note>,
    source: impl Into<String>,
    message: impl Into<String>,
) -> Fact<T> {
    note(notes, source, message);
    Fact::Unknown(Why::Broken)
}

/// The fact that a failed read leaves. Absence is not noted: most machines lack most things.
pub fn unread<T>(notes: &mut Vec<Note>, error: &FileError) -> Fact<T> {
    if !error.is_absent() && notes.len() <= MAX_NOTES {
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
    match text.len() > MAX_ATTRIBUTE {
        true => broken(
            notes,
            path,
            format!("it has more than {MAX_ATTRIBUTE} bytes"),
        ),
        false => Fact::Known(text),
    }
}

/// A file's lines, as many as any machine has.
pub fn lines(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    match files.text(Path::new(path)) {
        Ok(text) => few_lines(text, path, notes),
        Err(error) => unread(notes, &error),
    }
}

/// What `keep` keeps of a file's text: the rest is private or large, and goes nowhere.
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
    let text = files
        .reduced(path, MOST, &keep)
        .and_then(|bytes| as_text(path, bytes));
    match text {
        Ok(text) => few_lines(text, &path.display().to_string(), notes),
        Err(error) => unread(notes, &error),
    }
}

/// What `keep` keeps of a file's text, or none where the file is not there and its directory is. Bytes that are no text
/// are replaced, never passed on.
pub fn kept_if_there(
    files: &dyn Files,
    path: &str,
    keep: fn(&str) -> String,
    notes: &mut Vec<Note>,
) -> Fact<Option<String>> {
    let reduce = |bytes: Vec<u8>| keep(&String::from_utf8_lossy(&bytes)).into_bytes();
    match files.reduced(Path::new(path), MOST, &reduce) {
        Ok(bytes) => few_lines(String::from_utf8_lossy(&bytes).into_owned(), path, notes).map(Some),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// A file's text, or none where the file is not there and its directory is.
pub fn text_if_there(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    match files.text(Path::new(path)) {
        Ok(text) => attribute(text, path, notes).map(Some),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// What the absence of a path tells: none, where the directory that would hold it can be read.
///
/// Where that directory is absent too, its own absence decides, up to the first one that is there. A whole pseudo file
/// system (`/proc`, `/sys`, `/dev`) that is missing was not recorded, and tells nothing.
pub fn absent<T>(files: &dyn Files, path: &str) -> Fact<Option<T>> {
    let mut directory = Path::new(path);
    while let Some(parent) = directory.parent() {
        if parent == Path::new("/") {
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
        Err(_) => broken(
            notes,
            path,
            format!("'{}' is not a value of its kind", shorten(&text)),
        ),
    })
}

/// Whether a path is there.
pub fn is_there(files: &dyn Files, path: &str) -> Fact<bool> {
    match files.exists(Path::new(path)) {
        Ok(true) => Fact::Known(true),
        Ok(false) => absent::<()>(files, path).map(|_| false),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// A text of at most as many lines as any machine has in such a list.
pub fn few_lines(text: String, path: &str, notes: &mut Vec<Note>) -> Fact<String> {
    const MOST: usize = 8192;
    const LONGEST: usize = 1 << 20;
    match text.len() > LONGEST || text.lines().nth(MOST).is_some() {
        true => broken(
            notes,
            path,
            format!("it has more than {MOST} lines, or more than {LONGEST} bytes"),
        ),
        false => Fact::Known(text),
    }
}

/// A directory's names; none where it is not there.
pub fn names(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Vec<String>>> {
    match files.list(Path::new(path)) {
        Ok(names) => Fact::Known(Some(names)),
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// A file's lines, or none where the file is not there and its directory is.
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

/// The last part of a link's target; none where there is no such link.
pub fn link_name(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    match files.read_link(Path::new(path)) {
        Ok(target) => match target.file_name().and_then(|name| name.to_str()) {
            Some(name) => Fact::Known(Some(name.to_owned())),
            None => broken(notes, path, "the link's target has no name"),
        },
        Err(error) if error.is_absent() => absent(files, path),
        Err(error) => unread(notes, &error),
    }
}

/// The last PCI address in a path: the function that a class device hangs from.
pub fn last_bdf(path: &Path) -> Option<Bdf> {
    path.components()
        .rev()
        .find_map(|part| part.as_os_str().to_str()?.parse().ok())
}

/// The start of a text, for a message.
pub fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_no_machine_has_is_broken() {
        let mut notes = Vec::new();
        let text = "a\n".repeat(8192);
        assert_eq!(
            few_lines(text.clone(), "/x", &mut notes),
            Fact::Known(text.clone())
        );
        assert!(notes.is_empty());
        assert_eq!(
            few_lines(text + "a", "/x", &mut notes),
            Fact::Unknown(Why::Broken)
        );
        assert_eq!(
            few_lines("a".repeat(1 << 21), "/x", &mut notes),
            Fact::Unknown(Why::Broken)
        );
        assert_eq!(notes.len(), 2);
    }
}
