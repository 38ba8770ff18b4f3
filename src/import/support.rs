//! Support reports → files of the machine, and the output of lspci. Pure.
//!
//! A report holds copies of files and output of commands. The files that a collector asks for are recorded like
//! those of a snapshot; commands that print what a file would say are recorded as that file. Whatever else is in
//! the report is dropped where it is read, so a large report takes little memory. A path that the report does not
//! hold was not asked for: it is unknown, not absent.

mod archive;
mod recording;
mod sections;
mod tar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use recording::Recording;
use sections::Layout;

use super::ImportError;
use crate::input::Lookahead;
use crate::model::Recorded;

/// How far into a file its kind shows. People paste a report below some words of their own.
const LOOK: usize = 64 << 10;

/// What a support report holds of a machine.
#[derive(Debug, Default)]
pub struct SupportReport {
    /// The files, by path.
    pub files: BTreeMap<String, Recorded>,
    /// What lspci printed.
    pub lspci: Vec<u8>,
    /// Whether that is all of lspci's output, for all functions.
    pub complete: bool,
}

/// Reads a support report; none if the content is something else, of which nothing is consumed then.
pub fn support_report(content: &mut Lookahead<'_>) -> Result<Option<SupportReport>, ImportError> {
    let start = content.peek(LOOK)?;
    if tar::is_format(start) {
        return archive::read(content).map(Some);
    }
    if sections::is_bug_report(start) {
        let mut recording = Recording::default();
        sections::read(content, Layout::BugReport, &mut recording)?;
        return Ok(Some(recording.finish()));
    }
    Ok(None)
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}
