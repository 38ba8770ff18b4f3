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
    /// What mends it.
    pub fix: Option<Fix>,
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

/// What mends a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The id of a `gdr fix`, or `advice` where gdr only names what to do.
    pub id: String,
    /// The command to run or the setting to make.
    pub command: String,
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
