//! Result of `gdr explain`: schema `gdr.explain/1`. Fields may be added; removing one or changing its meaning makes
//! `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Finding, Host, Severity};

/// Name of the schema.
pub const EXPLAIN_SCHEMA: &str = "gdr.explain/1";

/// The document of `gdr explain`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainReport {
    /// Kind of the input: `check`, `text`, `file FILE` or `standard input`.
    pub asked: String,
    /// Checks that the text points to, each once, the most likely first.
    pub matches: Vec<SymptomMatch>,
    /// Checks requested by id.
    pub checks: Vec<ExplainedCheck>,
    /// The inspected machine; null if none was inspected.
    pub host: Option<Host>,
    /// Profiles that the machine was checked against; empty if no machine was inspected.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Findings on that machine for the checks of the matches, in the order of the matches.
    pub findings: Vec<Finding>,
    /// Amount of text that was read; null if checks were requested by id.
    pub read: Option<ReadText>,
}

/// A check that the text points to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SymptomMatch {
    pub check: String,
    /// Confidence that this check finds the cause, 1 to 100.
    pub score: u8,
    /// The cause, as a sentence.
    pub cause: String,
    /// A public thread or document about it.
    pub source: String,
    /// Name of the symptom in the symptom table; null if only the words of the text point to the check.
    pub symptom: Option<String>,
    /// What the text is about, as far as it points to the check.
    pub words: Vec<String>,
    /// All threads and documents.
    pub sources: Vec<String>,
    /// First line that matches.
    pub line: Quote,
    /// Number of lines that match.
    pub count: u64,
    /// What the check found on the machine; null if it did not run.
    pub standing: Option<Standing>,
}

/// What a check found on a machine. Ordered as shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It fails or warns.
    Confirmed,
    /// It did not run, or did not decide.
    Open,
    /// It passes.
    Excluded,
}

/// A line of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quote {
    /// Line number, from 1.
    pub number: u64,
    /// Content without control characters; long lines are cut.
    pub text: String,
}

/// Amount of text that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadText {
    pub lines: u64,
    pub bytes: u64,
    /// The text was longer; the rest was not read.
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedCheck {
    pub id: String,
    /// The rule, as a sentence.
    pub rule: String,
    /// Why it matters.
    pub why: String,
    /// Where its facts are read from.
    pub sources: String,
    /// How to repair it.
    pub remedy: String,
    /// Severity, unless a profile changes it.
    pub severity: Severity,
    /// Documents that the rule is based on.
    pub references: Vec<String>,
}
