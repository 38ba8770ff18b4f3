//! A change to the machine before it is made: the JSON contract `gdr.plan/1`. Fields may be added; a removal is `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Digest, FilePath, Host, InitramfsBuilder, KernelRelease, Operation};

pub const PLAN_SCHEMA: &str = "gdr.plan/1";

/// What a `gdr fix` would do, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The machine.
    pub host: Host,
    /// The repairs, in the order in which they are made.
    pub repairs: Vec<Repair>,
}

impl Plan {
    /// A plan for a machine.
    pub fn new(host: Host, repairs: Vec<Repair>) -> Self {
        Self { host, repairs }
    }

    /// Every step, with the fix that it belongs to.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &Step)> {
        self.repairs
            .iter()
            .flat_map(|repair| repair.steps.iter().map(|step| (repair.fix.as_str(), step)))
    }

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.repairs.iter().all(|repair| repair.steps.is_empty())
    }
}

/// One fix: what it is for, what it does, and what it leaves to the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// The fix's id, as in `acs`.
    pub fix: String,
    /// What it mends, in a sentence.
    pub about: String,
    /// The findings that asked for it: check and subject.
    pub findings: Vec<Cause>,
    /// What it changes, in order; empty where everything is already so, or where it is refused.
    pub steps: Vec<Step>,
    /// What the user should know before.
    pub warnings: Vec<String>,
    /// What is left to do after it, in order: reload, reboot.
    pub afterwards: Vec<String>,
    /// Why it is not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A finding that asked for a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The check's id.
    pub check: String,
    /// What was judged.
    pub subject: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it does, in a sentence.
    pub about: String,
    /// How.
    #[serde(flatten)]
    pub action: Action,
    /// The command line, where a program does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<PlannedCommand>,
}

/// A program's command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCommand {
    /// Its name and arguments.
    pub argv: Vec<String>,
    /// The exit statuses that mean success; 127 stands for a program that is not installed.
    pub expected: Vec<i32>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Bits of a register in PCI configuration space are set.
    WriteConfig(ConfigWrite),
    /// A file is written in one go: a reader sees the old content or the new.
    WriteFile(FileWrite),
    /// A file is removed.
    RemoveFile {
        path: FilePath,
        /// SHA-256 of its content.
        old: Digest,
    },
    /// A kernel attribute (sysfs, procfs) is written.
    WriteAttribute(AttributeWrite),
    /// An initramfs image is built again; the image before it is kept beside it.
    RebuildImage(ImageBuild),
    /// A program is run.
    Run(Operation),
}

/// A kernel attribute that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttributeWrite {
    /// The attribute.
    pub path: FilePath,
    /// What it reads now.
    pub old: String,
    /// What is written.
    pub new: String,
}

/// An initramfs image that is built again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageBuild {
    /// The image.
    pub path: FilePath,
    /// The program that builds it.
    pub builder: InitramfsBuilder,
    /// The kernel that it is for; update-initramfs asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<KernelRelease>,
}

impl ImageBuild {
    /// Where the image before it is kept.
    pub fn kept(&self) -> String {
        format!("{}.gdr-old", self.path)
    }
}

/// A register of a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigWrite {
    /// The function.
    pub bdf: Bdf,
    /// The capability that the register belongs to.
    pub capability: Capability,
    /// The register's place from the start of the capability, in bytes.
    pub offset: u16,
    /// Its width in bytes: 1, 2 or 4.
    pub width: u8,
    /// The bits that change.
    pub mask: u32,
    /// The whole register as it reads now.
    pub old: u32,
    /// The whole register as it will read.
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

    /// As setpci names it.
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
    /// SHA-256 of what it holds now; absent where there is no such file.
    pub old: Option<Digest>,
    /// What it will hold.
    pub content: String,
    /// Its permissions; a file that is there keeps its own, and its owner.
    pub mode: u32,
}
