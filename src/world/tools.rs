//! Command-line tools of the machine: where they are.

use std::path::{Path, PathBuf};

use super::Files;
use crate::model::{Fact, Why};

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

    /// The tool's path; none where it is not installed. A machine recorded without any of the directories does not tell.
    pub fn locate(&self, files: &dyn Files, name: &str) -> Fact<Option<PathBuf>> {
        let there: Vec<&Path> = Self::DIRECTORIES
            .iter()
            .map(Path::new)
            .filter(|directory| files.exists(directory).unwrap_or(false))
            .collect();
        if there.is_empty() {
            return Fact::Unknown(Why::NotCovered);
        }
        let paths = there.iter().map(|directory| directory.join(name));
        Fact::Known(paths.into_iter().find(|path| files.exists(path).unwrap_or(false)))
    }
}
