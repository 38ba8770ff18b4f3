//! A check's result for one subject, before a profile weighs it.

use super::CheckAction;
use crate::model::{Area, ELSEWHERE, Evidence, Manual, Missing, Remedy, Severity, Why};
use crate::output::printable;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Judgement {
    pub subject: String,
    pub rule: Rule,
    pub message: String,
    /// Severity of this case, if the check grades its cases.
    pub weight: Option<Severity>,
    pub evidence: Vec<Evidence>,
    /// What would resolve an unknown.
    pub needs: Option<String>,
    pub fix: Option<Remedy>,
    /// What somebody must do, if it is not the action of the check.
    pub action: Option<CheckAction>,
    /// The area missing from the snapshot, if that is why the result is unknown.
    pub missing: Option<Area>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    Holds,
    Broken,
    /// No rule applies, but the fact is worth reporting.
    Noted,
    Unknown,
    Skipped,
}

/// Maximum bytes of a message or an evidence text; long texts can repeat for a thousand devices.
const MAX_EVIDENCE: usize = 4_096;
const MAX_MESSAGE: usize = 65_536;

/// Truncates a long text and states how much is missing.
fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = text.floor_char_boundary(max);
        let more = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("... and {more} more bytes"));
        text.shrink_to_fit();
    }
    text
}

impl Judgement {
    fn new(rule: Rule, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            rule,
            message: cut(message.into(), MAX_MESSAGE),
            weight: None,
            evidence: Vec::new(),
            needs: None,
            fix: None,
            action: None,
            missing: None,
        }
    }

    pub fn pass(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Rule::Holds, subject, message)
    }

    /// Not applicable, because the driver is not loaded.
    pub fn no_driver(subject: impl Into<String>) -> Self {
        Self::skip(subject, "The NVIDIA driver is not loaded.")
    }

    /// The rule does not hold.
    pub fn broken(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Rule::Broken, subject, message)
    }

    pub fn info(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Rule::Noted, subject, message)
    }

    pub fn skip(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Rule::Skipped, subject, message)
    }

    /// The fact is unknown in this source.
    pub fn unknown(subject: impl Into<String>, why: Why, area: Area, source: &str) -> Self {
        let needs = match why {
            Why::Denied => "root",
            // A capability that a text dump does not print.
            Why::NotCovered if area == Area::ConfigSpace => {
                "lspci -vvv or -xxxx as root; or gdr doctor on the machine itself, or a snapshot of it (gdr snapshot)"
            }
            Why::NotCovered => ELSEWHERE,
            Why::Broken => "a source that can be read",
            Why::TimedOut => "a source that answers",
        };
        let message = why.sentence(source);
        let mut judgement =
            Self::new(Rule::Unknown, subject, message).evidence(source, why.phrase()).needs(needs);
        judgement.missing = (why == Why::NotCovered).then_some(area);
        judgement
    }

    /// A device that the source does not list may exist, because the list is of some functions only.
    pub fn unlisted() -> Self {
        let functions = "the PCI functions that the text omits";
        Self::unknown("machine", Why::NotCovered, Area::Sys, functions)
    }

    /// Undetermined for a reason other than a missing source.
    pub fn undetermined(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Rule::Unknown, subject, message)
    }

    /// Unknown, because this fact is.
    pub fn missing(subject: impl Into<String>, missing: Missing) -> Self {
        let Missing { why, area, source } = missing;
        Self::unknown(subject, why, area, &source)
    }

    /// Overrides the severity for this case.
    #[must_use]
    pub fn weighing(mut self, weight: Severity) -> Self {
        self.weight = Some(weight);
        self
    }

    #[must_use]
    pub fn evidence(mut self, source: impl Into<String>, value: impl Into<String>) -> Self {
        self.evidence.push(Evidence {
            source: cut(source.into(), MAX_EVIDENCE),
            value: cut(value.into(), MAX_EVIDENCE),
        });
        self
    }

    /// States what would resolve an unknown.
    #[must_use]
    pub fn needs(mut self, needs: impl Into<String>) -> Self {
        self.needs = Some(needs.into());
        self
    }

    /// Names the `gdr fix` that applies.
    #[must_use]
    pub fn fix(mut self, id: &str) -> Self {
        let manual = std::mem::take(self.manual());
        self.fix = Some(Remedy::Repair { id: id.to_owned(), manual });
        self
    }

    /// States an action of this case, if the cases of a check need different ones.
    #[must_use]
    pub fn action(mut self, action: CheckAction) -> Self {
        self.action = Some(action);
        self
    }

    /// Sets a one-line repair command. Quote names with [`shell_word`](crate::output::shell_word).
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        // Users paste this: a line feed in a name would start a second command.
        self.manual().command = Some(printable(&command.into()));
        self
    }

    /// Appends advice on the repair or its command, in sentences.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        let advice = printable(&advice.into());
        let all = &mut self.manual().advice;
        *all = Some(match all.take() {
            Some(before) => format!("{before} {advice}"),
            None => advice,
        });
        self
    }

    fn manual(&mut self) -> &mut Manual {
        let (Remedy::Repair { manual, .. } | Remedy::Advice(manual)) =
            self.fix.get_or_insert_with(|| Remedy::Advice(Manual::default()));
        manual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_needed_source() {
        let needs = |why, area, source| {
            Judgement::unknown("0000:17:00.0", why, area, source).needs.unwrap_or_default()
        };
        assert_eq!(
            needs(Why::NotCovered, Area::Sys, "/sys/module/nvidia/version"),
            "gdr doctor on the machine itself, or a snapshot of it (gdr snapshot)"
        );
        let config = "/sys/bus/pci/devices/*/config beyond 64 bytes, of 0000:17:00.0";
        assert!(
            needs(Why::NotCovered, Area::ConfigSpace, config)
                .starts_with("lspci -vvv or -xxxx as root; or gdr doctor")
        );
        assert_eq!(needs(Why::Denied, Area::ConfigSpace, config), "root");
    }
}
