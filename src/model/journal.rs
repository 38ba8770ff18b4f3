//! What a repair did to the machine, written before it is done: the JSON contract `gdr.journal/1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AttributeWrite, ConfigWrite, Digest, FilePath, Hex, ImageBuild, Operation};

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
    /// The boot it was made in (`/proc/sys/kernel/random/boot_id`); absent where that could not be read.
    pub boot: Option<String>,
    /// How it stands.
    pub state: JournalState,
    /// How many steps the plan has.
    pub steps: usize,
    /// The steps that were begun, in order.
    pub entries: Vec<Entry>,
}

/// How a repair stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// It is being made, or was interrupted.
    Open,
    /// All of it was made.
    Applied,
    /// It was stopped at a step, for this reason.
    Stopped(String),
    /// It was undone.
    Undone,
}

/// A step's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The fix that it belongs to.
    pub fix: String,
    /// What it does, in a sentence.
    pub about: String,
    /// What it changes.
    #[serde(flatten)]
    pub mutation: Mutation,
    /// How far it came.
    pub progress: Progress,
}

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Begun: it may be done or not.
    Begun,
    /// Done, and read back.
    Done,
    /// Not done by gdr: the command was printed for the user.
    Printed,
    Undone,
}

/// What a step changes, with all that undoing it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Mutation {
    /// Bits of a register in PCI configuration space.
    WriteConfig(ConfigWrite),
    ReplaceFile(FileChange),
    /// A kernel attribute (sysfs, procfs).
    WriteAttribute(AttributeWrite),
    /// An initramfs image that is built again.
    RebuildImage(ImageChange),
    /// What a program does.
    Run(Operation),
}

/// A file that is written or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    pub path: FilePath,
    /// The file before; absent where there was none. Its content is kept in `/var/lib/gdr/saved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileRecord>,
    /// The file as gdr writes it; absent where it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileRecord>,
    /// The directories that the step makes, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<FilePath>,
}

/// A file by the hash of its content, with everything that a copy must keep.
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

/// An initramfs image that is built again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageChange {
    /// Which, and by what.
    #[serde(flatten)]
    pub build: ImageBuild,
    /// SHA-256 of the image before.
    pub before: Digest,
    /// SHA-256 of the image that was built; absent until it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
}
