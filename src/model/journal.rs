//! Record of a repair, written before each change: the JSON contract `gdr.journal/1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AttributeWrite, ConfigWrite, Digest, FilePath, Hex, ImageBuild, Operation};

pub const JOURNAL_SCHEMA: &str = "gdr.journal/1";

/// Record of one repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    /// `gdr.journal/1`.
    pub schema: String,
    /// Number of the repair, from 1.
    pub number: u32,
    /// The version of gdr that wrote it.
    pub gdr: String,
    /// Start time (UTC, RFC 3339).
    pub taken: String,
    /// Boot id at the time (`/proc/sys/kernel/random/boot_id`); absent if it could not be read.
    pub boot: Option<String>,
    /// State of the repair.
    pub state: JournalState,
    /// Number of steps in the plan.
    pub steps: usize,
    /// Steps that were started, in order.
    pub entries: Vec<Entry>,
}

/// State of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// In progress, or interrupted.
    Open,
    /// All steps are done.
    Applied,
    /// Stopped at a step, for this reason.
    Stopped(String),
    Undone,
}

/// Record of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The fix that the step belongs to.
    pub fix: String,
    /// What the step does, as a sentence.
    pub about: String,
    /// What the step changes.
    #[serde(flatten)]
    pub mutation: Mutation,
    /// Progress of the step.
    pub progress: Progress,
}

/// Progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Started; it may be done or not.
    #[serde(rename = "begun")]
    Started,
    /// Done, and verified by reading back.
    Done,
    /// Not done by gdr: the command was printed for the user.
    Printed,
    Undone,
}

/// What a step changes, with everything needed to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Mutation {
    /// Bits of a register in PCI configuration space.
    WriteConfig(ConfigWrite),
    ReplaceFile(FileChange),
    /// A kernel attribute (sysfs, procfs).
    WriteAttribute(AttributeWrite),
    /// An initramfs image that is rebuilt.
    RebuildImage(ImageChange),
    /// A program is run.
    Run(Operation),
}

/// A file that is written or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    pub path: FilePath,
    /// The file before; absent if it did not exist. Its content is kept in `/var/lib/gdr/saved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileRecord>,
    /// The file after; absent if it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileRecord>,
    /// Directories that the step creates, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<FilePath>,
}

/// A file: the hash of its content and the metadata that a copy must keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileRecord {
    /// SHA-256 of its content.
    pub sha256: Digest,
    /// Its permissions, owner and extended attributes.
    #[serde(flatten)]
    pub meta: FileMeta,
}

/// Permissions, owner and extended attributes of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMeta {
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its extended attributes by name: access control lists, security labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Hex>,
}

/// An initramfs image that is rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageChange {
    /// The image and the program that builds it.
    #[serde(flatten)]
    pub build: ImageBuild,
    /// SHA-256 of the image before.
    pub before: Digest,
    /// SHA-256 of the new image; absent until it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
}
