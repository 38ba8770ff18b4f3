//! Results of checks: the JSON contract `gdr.doctor/1`. Fields may be added; removing one makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RequiredAction, Why};

/// Result of a check for one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable id of the check, as in `pcie.acs`.
    pub id: String,
    /// Outcome of the check.
    pub outcome: Outcome,
    /// Severity of a failure: that of the check, unless a profile changes it.
    pub severity: Severity,
    /// The subject: a device, a port, a pair, a process, the machine.
    pub subject: String,
    /// The finding, as a sentence.
    pub message: String,
    /// What the finding rests on.
    pub evidence: Vec<Evidence>,
    /// What gdr needs to decide an unknown outcome.
    pub needs: Option<String>,
    /// How to repair it.
    pub fix: Option<Remedy>,
    /// Of a failure or a warning: what somebody must do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RequiredAction>,
    /// For an unknown outcome: the area that the source lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Area>,
}

/// Outcome of a check.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The rule holds.
    Pass,
    /// The rule does not hold, and GPUDirect does not work because of it.
    Fail,
    /// The rule does not hold, and GPUDirect is slower or at risk because of it.
    Warn,
    /// Useful to know.
    Info,
    /// Cannot be determined.
    Unknown,
    /// Does not apply to this machine.
    Skip,
}

impl Outcome {
    /// The lowest is the most urgent.
    pub fn urgency(self) -> u8 {
        match self {
            Self::Fail => 0,
            Self::Warn => 1,
            Self::Unknown => 2,
            Self::Info => 3,
            Self::Pass => 4,
            Self::Skip => 5,
        }
    }
}

/// Severity of a failed check.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Useful to know.
    Info,
    /// GPUDirect is slower or at risk.
    Warn,
    /// GPUDirect does not work.
    Error,
}

impl Severity {
    /// Outcome of a failed check with this severity.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Error => Outcome::Fail,
            Self::Warn => Outcome::Warn,
            Self::Info => Outcome::Info,
        }
    }
}

/// One fact that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Where it was read: a file, a register, a library call.
    pub source: String,
    /// The value that was read.
    pub value: String,
}

/// How to repair a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Remedy {
    /// `gdr fix ID` repairs it.
    Repair {
        /// Id of the fix.
        id: String,
        /// The same repair by hand.
        #[serde(flatten)]
        manual: Manual,
    },
    /// Instructions only: gdr has no fix for it.
    Advice(Manual),
}

/// A failure or warning that no other finding explains, with the subjects that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// Id of the check.
    pub check: String,
    /// `fail` or `warn`.
    pub outcome: Outcome,
    /// Its subjects.
    pub subjects: Vec<String>,
    /// Checks that fail, warn or are unknown because of it.
    pub explains: Vec<String>,
}

/// A step that helps: a repair of a root, or the probe that proves what is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// The checks that it repairs; empty for a probe.
    pub checks: Vec<String>,
    /// Shell command to paste.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What an unknown fact needs that this source does not have.
pub const ELSEWHERE: &str = "gdr doctor on the machine itself, or a snapshot of it (gdr snapshot)";

impl NextStep {
    /// A step for a check, still without a command.
    pub fn new(check: &str) -> Self {
        Self { checks: vec![check.to_owned()], command: None, advice: None }
    }

    /// The command, else the first sentence of the advice, else the checks.
    pub fn line(&self) -> String {
        match (&self.command, &self.advice) {
            (Some(command), _) => command.clone(),
            (None, Some(advice)) => {
                let end = advice.find(". ").map_or(advice.len(), |end| end + 1);
                format!("{}: {}", self.checks.join(", "), &advice[..end])
            }
            (None, None) => format!("see {}", self.checks.join(", ")),
        }
    }
}

/// A repair by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Manual {
    /// Shell command to paste; it may need root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do, or notes on the command, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Remedy {
    /// Id of the fix, if gdr has one.
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

/// A fact that an answer needs and that is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub why: Why,
    pub area: Area,
    pub source: String,
}

impl Missing {
    pub fn new(why: Why, area: Area, source: impl Into<String>) -> Self {
        Self { why, area, source: source.into() }
    }
}

/// A part of a machine that a snapshot, a sysroot or a dump may lack.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// Answers of NVML.
    Nvml,
    /// Answers of libcuda.
    Cuda,
    /// Answers of libibverbs.
    Verbs,
    /// PCI configuration space beyond the header.
    ConfigSpace,
    /// modprobe.d and module files.
    Modprobe,
    /// Device nodes below `/dev`.
    Devices,
    /// Other files of `/sys`.
    Sys,
    /// Other files of `/proc`.
    Proc,
    /// Programs, libraries and settings in other directories.
    Files,
}

impl Area {
    /// The name for people.
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

/// Result of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Readiness {
    /// The profile's name.
    pub profile: String,
    /// Its subject, as in `GPUDirect RDMA`.
    pub title: String,
    /// State of the profile.
    pub state: ReadyState,
    /// GPUs, or GPUs with their partner, that are ready, as in `GPU0–NIC0`.
    pub ready: Vec<String>,
    /// What is not ready, and the finding that blocks it.
    pub blocked: Vec<Obstacle>,
    /// The result, as a sentence.
    pub text: String,
}

/// State of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadyState {
    /// Ready everywhere.
    Ready,
    /// Ready for some devices or pairs.
    Partly,
    /// Ready nowhere.
    NotReady,
    /// Not known to be ready anywhere; for some devices or pairs a required fact is unknown.
    Undetermined,
}

/// A finding that blocks a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Obstacle {
    /// What is not ready, as in `GPU1–NIC2`; the machine if nothing is ready.
    pub place: String,
    pub check: String,
    /// Message of the finding.
    pub message: String,
}

/// Number of findings by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Rule holds.
    pub pass: usize,
    /// GPUDirect does not work.
    pub fail: usize,
    /// GPUDirect is slower or at risk.
    pub warn: usize,
    /// Useful to know.
    pub info: usize,
    /// Cannot be determined.
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
