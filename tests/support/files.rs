//! Writes files and links below a root, and never outside of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

/// The content of a file, as machine.json gives it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    /// Lines, each of which gets its line feed.
    Lines(Vec<String>),
    /// Bytes that are not text.
    Bytes {
        /// Pairs of hexadecimal digits; blanks between them are ignored.
        hex: String,
    },
}

impl Content {
    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Lines(lines) => {
                lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes()
            }
            Self::Bytes { hex } => unhex(hex),
        }
    }
}

/// Bytes from pairs of hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| {
            let digit = c.to_digit(16).unwrap_or_else(|| panic!("'{text}' is not hexadecimal"));
            digit as u8
        })
        .collect();
    assert!(digits.len().is_multiple_of(2), "'{text}' has half a byte");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A fake root directory. Paths are relative to it, without a leading slash.
pub struct Root<'a> {
    dir: &'a Path,
}

impl<'a> Root<'a> {
    /// A root in an existing directory.
    pub fn new(dir: &'a Path) -> Self {
        Self { dir }
    }

    /// Writes a file; replaces what stands there.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let full = self.clear(path);
        fs::write(&full, bytes)
            .unwrap_or_else(|e| panic!("{} cannot be written: {e}", full.display()));
    }

    /// Writes a line, as most sysfs attributes are.
    pub fn line(&self, path: &str, text: impl std::fmt::Display) {
        self.put(path, format!("{text}\n"));
    }

    pub fn dir(&self, path: &str) {
        let full = self.inside(path);
        fs::create_dir_all(&full)
            .unwrap_or_else(|e| panic!("{} cannot be made: {e}", full.display()));
    }

    /// Links to another path of this root, relatively, as sysfs does.
    pub fn link(&self, path: &str, target: &str) {
        self.raw_link(path, &relative(path, target));
    }

    /// Links to a text that may lead anywhere.
    pub fn raw_link(&self, path: &str, target: &str) {
        let full = self.clear(path);
        symlink(target, &full)
            .unwrap_or_else(|e| panic!("{} cannot be linked: {e}", full.display()));
    }

    /// Removes a file or a link, if it is there.
    pub fn remove(&self, path: &str) {
        let full = self.inside(path);
        if full.symlink_metadata().is_ok() {
            fs::remove_file(&full)
                .unwrap_or_else(|e| panic!("{} cannot be removed: {e}", full.display()));
        }
    }

    fn clear(&self, path: &str) -> PathBuf {
        self.remove(path);
        let full = self.inside(path);
        if let Some(above) = full.parent() {
            fs::create_dir_all(above)
                .unwrap_or_else(|e| panic!("{} cannot be made: {e}", above.display()));
        }
        full
    }

    fn inside(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        assert!(
            path.components().all(|c| matches!(c, Component::Normal(_))),
            "'{}' is not a path below a root",
            path.display()
        );
        self.dir.join(path)
    }
}

fn relative(from: &str, to: &str) -> String {
    let from: Vec<&str> = from.split('/').collect();
    let to: Vec<&str> = to.split('/').collect();
    let here = &from[..from.len() - 1];
    let common = here.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", here.len() - common);
    up.chain(to[common..].iter().copied()).collect::<Vec<_>>().join("/")
}
