//! What a repair did to the machine, written before it is done: the JSON contract `gdr.journal/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hex, Step};

/// The schema of a journal.
pub const JOURNAL_SCHEMA: &str = "gdr.journal/1";

/// One repair's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    /// `gdr.journal/1`.
    pub schema: String,
    /// Its number, from 1.
    pub number: u32,
    /// The version of gdr that wrote it.
    pub gdr: String,
    /// When it was begun (UTC, RFC 3339).
    pub taken: String,
    /// The boot it was made in (`/proc/sys/kernel/random/boot_id`); none where that could not be read.
    pub boot: Option<String>,
    /// How it stands.
    pub state: JournalState,
    /// The steps, in order.
    pub entries: Vec<Entry>,
}

/// How a repair stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// It is being made, or was cut short.
    Open,
    /// All of it was made.
    Applied,
    /// It was stopped at a step, for this reason.
    Stopped(String),
    /// It was taken back.
    Undone,
}

/// A step's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The fix that it belongs to.
    pub fix: String,
    /// The step.
    pub step: Step,
    /// How far it came.
    pub progress: Progress,
    /// What was there before, where the step itself does not say it.
    #[serde(default, skip_serializing_if = "Before::is_empty")]
    pub before: Before,
}

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Not begun.
    Planned,
    /// Begun: it may be done or not.
    Begun,
    /// Done, and read back.
    Done,
    /// Not done by gdr: the command was printed for the user.
    Printed,
    /// Taken back.
    Undone,
}

/// What was there before a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    /// The file that was replaced or taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileImage>,
    /// The directories that the step made, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
}

impl Before {
    fn is_empty(&self) -> bool {
        self.file.is_none() && self.made.is_empty()
    }
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileImage {
    /// Its content, in hexadecimal.
    pub content: Hex,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}
