//! What a text tells of GPUDirect: schema `gdr.explain/1`. Fields may be added; a removal or a new meaning is `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Finding, Host, Severity};

/// The schema's name.
pub const EXPLAIN_SCHEMA: &str = "gdr.explain/1";

/// The document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainReport {
    /// What was asked about: `check`, `text`, `file FILE` or `standard input`.
    pub asked: String,
    /// The symptoms in the text, the surest first; none where nothing matched.
    pub matches: Vec<SymptomMatch>,
    /// The checks that were asked about by their ids.
    pub checks: Vec<ExplainedCheck>,
    /// The machine that was looked at; null where none was.
    pub host: Option<Host>,
    /// The profiles that say what that machine should be ready for; empty where none was looked at.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// What the checks that the matches lead to find on that machine, in the order of the matches.
    pub findings: Vec<Finding>,
    /// How much of a text was read; null where checks were asked about.
    pub read: Option<ReadText>,
}

/// A symptom in a text, and its probable cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SymptomMatch {
    /// The check that verifies the cause best.
    pub check: String,
    /// Confidence in the cause: 1 to 100.
    pub score: u8,
    /// The cause, in a sentence.
    pub cause: String,
    /// A public thread or document about it.
    pub source: String,
    /// The symptom's name in the table.
    pub symptom: String,
    /// All checks that verify the cause, best first.
    pub checks: Vec<String>,
    /// All threads and documents.
    pub sources: Vec<String>,
    /// The first line with this symptom.
    pub line: Quote,
    /// The number of lines with this symptom.
    pub count: u64,
    /// What the checks found on the machine; null if they did not run.
    pub standing: Option<Standing>,
}

/// What the checks of a cause found on a machine. Ordered as shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// One of its checks fails or warns.
    Confirmed,
    /// Its checks did not run, or did not decide.
    Open,
    /// Its first check passes, and no other one fails.
    Excluded,
}

/// A line of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quote {
    /// Its number, from 1.
    pub number: u64,
    /// Without control characters, shortened if long.
    pub text: String,
}

/// How much of a text was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadText {
    pub lines: u64,
    pub bytes: u64,
    /// The text is longer; the rest was not read.
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedCheck {
    pub id: String,
    /// The rule, in a sentence.
    pub rule: String,
    /// Why it matters.
    pub why: String,
    /// How it is read.
    pub sources: String,
    /// How it is mended.
    pub remedy: String,
    /// How much it weighs where no profile says otherwise.
    pub severity: Severity,
    /// What it rests on.
    pub references: Vec<String>,
}
