//! The one list of checks. Help, documents and JSON ids come from it.

use super::{Ctx, Judgement};
use crate::model::Severity;

/// One check.
pub struct Check {
    /// Its stable id, `family.name`.
    pub id: &'static str,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// Where its facts come from.
    pub sources: &'static str,
    /// How much it weighs where no profile says otherwise.
    pub severity: Severity,
    /// The judgement, one for each subject.
    pub judge: fn(&Ctx<'_>) -> Vec<Judgement>,
}

/// Every check, in the order of a report.
pub const CHECKS: &[Check] = &[];

/// A check by its id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
