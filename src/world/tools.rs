//! Command-line tools of the machine: where they are.

use std::path::{Path, PathBuf};

use super::Files;

/// Finds tools by name in the directories where a distribution puts them.
///
/// The caller's PATH is not asked: as an ordinary user it often lacks the sbin directories where setpci lives.
pub struct Tools;

impl Tools {
    const DIRECTORIES: [&'static str; 6] = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];

    /// The tool's path, where it is installed.
    pub fn locate(&self, files: &dyn Files, name: &str) -> Option<PathBuf> {
        Self::DIRECTORIES
            .iter()
            .map(|directory| Path::new(directory).join(name))
            .find(|path| files.exists(path).unwrap_or(false))
    }
}
