//! What a check found: the JSON contract `gdr.doctor/1`. Fields may be added; a removal is `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One verdict on one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check's stable id, as in `pcie.acs`.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How much it weighs where it fails: the check's own, unless a profile says otherwise.
    pub severity: Severity,
    /// What was judged: a device, a port, a pair, a process, the machine.
    pub subject: String,
    /// What is so, in a sentence.
    pub message: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What would turn an unknown into a verdict.
    pub needs: Option<String>,
    /// What repairs it.
    pub fix: Option<Remedy>,
    /// Where it is unknown because the source lacks a whole area: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Area>,
}

/// How a check ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is as it should be.
    Pass,
    /// It is not, and GPUDirect does not work because of it.
    Fail,
    /// It is not, and GPUDirect is slower or at risk because of it.
    Warn,
    /// Worth knowing.
    Info,
    /// It could not be determined.
    Unknown,
    /// It does not apply here.
    Skip,
}

/// How much a check weighs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Slower or at risk.
    Warn,
    /// Does not work.
    Error,
}

impl Severity {
    /// The outcome of a check of this weight whose rule does not hold.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Error => Outcome::Fail,
            Self::Warn => Outcome::Warn,
            Self::Info => Outcome::Info,
        }
    }
}

/// One thing a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Where it was read: a file, a register, a library call.
    pub source: String,
    /// What it said.
    pub value: String,
}

/// What repairs a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Remedy {
    /// `gdr fix ID` repairs it.
    Repair {
        /// The id of the fix.
        id: String,
        /// The same by hand.
        #[serde(flatten)]
        manual: Manual,
    },
    /// gdr only says what to do.
    Advice(Manual),
}

/// A repair by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Manual {
    /// A shell command that can be pasted; it may need root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do, or what to know about the command, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Remedy {
    /// The id of the fix, where gdr has one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Repair { id, .. } => Some(id),
            Self::Advice(_) => None,
        }
    }

    /// The repair by hand.
    pub fn manual(&self) -> &Manual {
        match self {
            Self::Repair { manual, .. } | Self::Advice(manual) => manual,
        }
    }
}

/// A part of a machine that a snapshot, a laid-out root or a dump may lack.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// What NVML answers.
    Nvml,
    /// What libcuda answers.
    Cuda,
    /// What libibverbs answers.
    Verbs,
    /// PCI configuration space beyond the header.
    ConfigSpace,
    /// modprobe.d and the module files.
    Modprobe,
    /// Nodes below `/dev`.
    Devices,
    /// The rest of `/sys`.
    Sys,
    /// The rest of `/proc`.
    Proc,
    /// Programs, libraries and settings in other directories.
    Files,
}

impl Area {
    /// The area that an evidence source belongs to.
    pub fn of(source: &str) -> Self {
        let has = |part: &str| source.contains(part);
        match () {
            () if source.starts_with("NVML") || source.starts_with("nvml") => Self::Nvml,
            () if has("libcuda") || source.starts_with("CUDA") => Self::Cuda,
            () if has("libibverbs") => Self::Verbs,
            () if has("/config") || has(" config") => Self::ConfigSpace,
            () if has("modprobe") || has("/lib/modules") => Self::Modprobe,
            () if source.starts_with("/proc") => Self::Proc,
            () if has("/dev/") => Self::Devices,
            () if has("/sys") => Self::Sys,
            () if has("/proc") => Self::Proc,
            () => Self::Files,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvml => "NVML",
            Self::Cuda => "CUDA",
            Self::Verbs => "libibverbs",
            Self::ConfigSpace => "PCI configuration space",
            Self::Modprobe => "modprobe.d and modules",
            Self::Devices => "/dev",
            Self::Sys => "/sys",
            Self::Proc => "/proc",
            Self::Files => "programs and settings",
        }
    }
}

/// What the findings come to for one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Readiness {
    /// The profile's name.
    pub profile: String,
    /// What it is about, as in `GPUDirect RDMA`.
    pub title: String,
    /// How it stands.
    pub state: ReadyState,
    /// GPUs, or GPUs with their partner, that are ready, as in `GPU0–NIC0`.
    pub ready: Vec<String>,
    /// What is not ready, and the finding that stands in its way.
    pub blocked: Vec<Obstacle>,
    /// All of it in a sentence.
    pub text: String,
}

/// How a profile stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadyState {
    /// Everywhere.
    Ready,
    /// In some places.
    Partly,
    /// Nowhere.
    NotReady,
    /// Nowhere that is known, and of some places not all that is required is known.
    Undetermined,
}

/// Something that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Obstacle {
    /// What is not ready: `GPU1–NIC2`; the machine where it is all of it.
    pub place: String,
    /// The check's id.
    pub check: String,
    /// What it found.
    pub message: String,
}

/// How many findings ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// As it should be.
    pub pass: usize,
    /// Does not work.
    pub fail: usize,
    /// Slower or at risk.
    pub warn: usize,
    /// Worth knowing.
    pub info: usize,
    /// Could not be determined.
    pub unknown: usize,
    /// Does not apply.
    pub skip: usize,
}

impl Summary {
    /// Counts the findings by outcome.
    pub fn of(findings: &[Finding]) -> Self {
        let count = |outcome| findings.iter().filter(|f| f.outcome == outcome).count();
        Self {
            pass: count(Outcome::Pass),
            fail: count(Outcome::Fail),
            warn: count(Outcome::Warn),
            info: count(Outcome::Info),
            unknown: count(Outcome::Unknown),
            skip: count(Outcome::Skip),
        }
    }
}
