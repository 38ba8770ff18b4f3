//! Result of `gdr explain`: schema `gdr.explain/1`. Fields may be added; removing one or changing its meaning makes
//! `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Finding, Host, Job, Severity};

/// Name of the schema.
pub const EXPLAIN_SCHEMA: &str = "gdr.explain/1";

/// The document of `gdr explain`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainReport {
    /// Kind of the input: `check`, `text`, `file FILE`, `N logs`, `N logs of DIR` or `standard input`.
    pub asked: String,
    /// The job that the text is a log of, schema `gdr.job/1`; absent if it is of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// Checks that the text points to, each once, the most likely first.
    pub matches: Vec<SymptomMatch>,
    /// Checks requested by id.
    pub checks: Vec<ExplainedCheck>,
    /// What the words of the text suggest, too weakly for a cause; the most likely first.
    #[serde(default)]
    pub questions: Vec<SymptomMatch>,
    /// Failures in the text that gdr has no check for.
    #[serde(default)]
    pub uncovered: Vec<Uncovered>,
    /// The inspected machine; null if none was inspected.
    pub host: Option<Host>,
    /// Why no machine was inspected, as a sentence.
    #[serde(default)]
    pub not_inspected: Option<String>,
    /// Profiles that the machine was checked against; empty if no machine was inspected.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Findings on that machine for the checks of the matches, in the order of the matches.
    pub findings: Vec<Finding>,
    /// Checks of the matches that the inspected machine cannot decide.
    #[serde(default)]
    pub undecided: Vec<Undecided>,
    /// Amount of text that was read; null if checks were requested by id.
    pub read: Option<ReadText>,
}

/// A check that the text points to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SymptomMatch {
    pub check: String,
    /// Confidence that this check finds the cause, 1 to 100.
    pub score: u8,
    /// The confidence in a word.
    pub likelihood: Likelihood,
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
    /// How to repair it.
    pub remedy: String,
}

/// How likely a text has a cause.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Likelihood {
    /// The line is printed for this cause alone.
    Certain,
    Likely,
    /// The line has other causes too, or the words of the text alone point to it.
    Possible,
}

/// A failure that gdr has no check for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uncovered {
    /// What it is and where to look, as sentences.
    pub subject: String,
    /// First line that reports it.
    pub line: Quote,
}

/// A check that an inspected machine cannot decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undecided {
    pub check: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// What a check found on a machine. Ordered as shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It fails or warns.
    Confirmed,
    /// It could not be checked on this machine, or passes for gdr's own process alone.
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
    /// The log that has the line; absent if the text is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Quote {
    /// Where the line is: `line 3`, or `line 3 of rank0.log`.
    pub fn place(&self) -> String {
        match &self.file {
            None => format!("line {}", self.number),
            Some(file) => format!("line {} of {file}", self.number),
        }
    }
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
