//! Planned changes to a machine: the JSON contract `gdr.plan/1`. Fields may be added; removing one makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Digest, FilePath, Host, InitramfsBuilder, KernelRelease, Operation};

pub const PLAN_SCHEMA: &str = "gdr.plan/1";

/// The changes that a `gdr fix` would make, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The machine.
    pub host: Host,
    /// The repairs, in the order in which they run.
    pub repairs: Vec<Repair>,
    /// Number of failures found; absent if not all checks ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<usize>,
    /// The failures that the repairs do not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
    /// What could not be read, although a required check that names a fix needs it, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Plan {
    /// Creates a plan for a machine.
    pub fn new(host: Host, repairs: Vec<Repair>) -> Self {
        Self { host, repairs, failures: None, left: Vec::new(), unknown: Vec::new() }
    }

    /// All steps, with the fix that each belongs to.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &Step)> {
        self.repairs
            .iter()
            .flat_map(|repair| repair.steps.iter().map(|step| (repair.fix.as_str(), step)))
    }

    /// True if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.repairs.iter().all(|repair| repair.steps.is_empty())
    }
}

/// One fix: its reason, its steps, and what remains for the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// Id of the fix, as in `acs`.
    pub fix: String,
    /// What it repairs, as a sentence.
    pub about: String,
    /// The findings that it repairs: check and subject.
    pub findings: Vec<Cause>,
    /// The changes, in order; empty if everything already holds or the repair is rejected.
    pub steps: Vec<Step>,
    /// What the user should know first.
    pub warnings: Vec<String>,
    /// What remains to do afterwards, in order: reload, reboot.
    pub afterwards: Vec<String>,
    /// Why it is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What could not be read, so that it is unknown whether there is more to change, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A failure that a plan leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    pub check: String,
    /// Subjects of the findings.
    pub subjects: Vec<String>,
    /// The next step, as a sentence or as a command.
    pub next: String,
}

/// A finding that a repair is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    pub check: String,
    /// Subject of the finding.
    pub subject: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it does, as a sentence.
    pub about: String,
    /// The change itself.
    #[serde(flatten)]
    pub action: Action,
    /// The command line, if a program makes the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<PlannedCommand>,
}

/// Command line of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCommand {
    /// Program name and arguments.
    pub argv: Vec<String>,
    /// Exit statuses that mean success; 127 means that the program is not installed.
    pub expected: Vec<i32>,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Sets bits of a register in PCI configuration space.
    WriteConfig(ConfigWrite),
    /// Replaces a file atomically: a reader sees the old content or the new.
    WriteFile(FileWrite),
    /// Removes a file.
    RemoveFile {
        path: FilePath,
        /// SHA-256 of its content.
        old: Digest,
    },
    /// Writes a kernel attribute (sysfs, procfs).
    WriteAttribute(AttributeWrite),
    /// Rebuilds an initramfs image; the old image is kept next to it.
    RebuildImage(ImageBuild),
    /// Runs a program.
    Run(Operation),
}

/// A write to a kernel attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttributeWrite {
    /// Path of the attribute.
    pub path: FilePath,
    /// Current value.
    pub old: String,
    /// New value.
    pub new: String,
}

/// An initramfs image that is rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageBuild {
    /// Path of the image.
    pub path: FilePath,
    /// The program that builds it.
    pub builder: InitramfsBuilder,
    /// Kernel of the image; update-initramfs needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<KernelRelease>,
}

impl ImageBuild {
    /// Where the old image is kept.
    pub fn kept(&self) -> String {
        format!("{}.gdr-old", self.path)
    }
}

/// A write to a register of a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigWrite {
    /// The PCI function.
    pub bdf: Bdf,
    /// The capability with the register.
    pub capability: Capability,
    /// Offset of the register from the start of the capability, in bytes.
    pub offset: u16,
    /// Its width in bytes: 1, 2 or 4.
    pub width: u8,
    /// The bits that change.
    pub mask: u32,
    /// Current value of the whole register.
    pub old: u32,
    /// New value of the whole register.
    pub new: u32,
}

/// A capability of a PCI function (PCI Code and ID Assignment Specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// A capability in the first 256 bytes, by its id.
    Standard(u8),
    /// An extended capability, by its id.
    Extended(u16),
}

impl Capability {
    /// PCI Express (id 10h).
    pub const EXPRESS: Self = Self::Standard(0x10);
    /// Access control services (extended id 0Dh).
    pub const ACS: Self = Self::Extended(0x0d);

    /// Its name in setpci.
    pub fn setpci(self) -> String {
        match self {
            Self::EXPRESS => "CAP_EXP".to_owned(),
            Self::ACS => "ECAP_ACS".to_owned(),
            Self::Standard(id) => format!("CAP{id:x}"),
            Self::Extended(id) => format!("ECAP{id:x}"),
        }
    }
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileWrite {
    pub path: FilePath,
    /// SHA-256 of the current content; absent if the file does not exist.
    pub old: Option<Digest>,
    /// The new content.
    pub content: String,
    /// Permissions of a new file; an existing file keeps its permissions and owner.
    pub mode: u32,
}
