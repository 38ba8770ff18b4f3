//! Groups findings that differ only in their devices.

use std::collections::BTreeSet;

use crate::model::{Evidence, Finding, Outcome, Remedy, Severity};

/// Findings of one check that differ only in their devices.
pub struct Group<'a> {
    /// The findings, in the order of the report; at least one.
    pub findings: Vec<&'a Finding>,
    key: Key<'a>,
}

impl<'a> Group<'a> {
    /// The evidence of these findings; what several rest on stands once.
    pub fn evidence(&self) -> Vec<&'a Evidence> {
        let mut seen = BTreeSet::new();
        let all = self.findings.iter().flat_map(|finding| &finding.evidence);
        all.filter(|evidence| seen.insert((&evidence.source, &evidence.value))).collect()
    }
}

/// The common part of the findings of a group.
#[derive(PartialEq, Eq)]
struct Key<'a> {
    id: &'a str,
    outcome: Outcome,
    severity: Severity,
    message: String,
    needs: Option<String>,
    fix: Option<&'a str>,
    advice: Option<String>,
}

impl<'a> Key<'a> {
    fn of(finding: &'a Finding) -> Self {
        let names: BTreeSet<&str> =
            words(&finding.subject).filter(|word| is_part_name(word)).collect();
        let shape = |text: &str| shape(text, &names);
        let advice = finding.fix.as_ref().and_then(|fix| fix.manual().advice.as_deref());
        Self {
            id: &finding.id,
            outcome: finding.outcome,
            severity: finding.severity,
            message: shape(&finding.message),
            needs: finding.needs.as_deref().map(shape),
            fix: finding.fix.as_ref().and_then(Remedy::id),
            advice: advice.map(shape),
        }
    }
}

/// The groups, in the order of their first findings.
pub fn groups<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for finding in findings {
        let key = Key::of(finding);
        match groups.iter_mut().rev().find(|group| group.key == key) {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group { findings: vec![finding], key }),
        }
    }
    groups
}

const PLACEHOLDER: char = '#';

/// A text with the names of devices replaced: a list of names of any length becomes one placeholder.
fn shape(text: &str, names: &BTreeSet<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = trimmed(&rest[..end]);
        if !word.is_empty() && (names.contains(word) || is_device(word)) {
            out.push(PLACEHOLDER)
        } else {
            out.push_str(word)
        }
        rest = &rest[word.len()..];
        // A word without letters is punctuation.
        if let Some(c) = rest.chars().next().filter(|_| word.is_empty()) {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.push_str(rest);
    collapsed(out)
}

fn collapsed(mut text: String) -> String {
    // Brackets after a device contain its address or the class of a pair.
    while let Some(start) = text.find("# (")
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start + 1..=start + length, "");
    }
    for list in ["#; #", "#, #", "# and #", "#–#"] {
        while text.contains(list) {
            text = text.replace(list, "#");
        }
    }
    text
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_.:/-".contains(c)
}

/// A word without trailing punctuation.
fn trimmed(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '/', '-'])
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).map(trimmed).filter(|word| !word.is_empty())
}

/// True if a word of a subject names a device; false for ordinary words, as in `this process`.
fn is_part_name(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// `GPU0`, `NIC12`, `0000:17:00.0`.
fn is_device(word: &str) -> bool {
    let row = ["GPU", "NIC", "NVME"].iter().find_map(|kind| word.strip_prefix(kind));
    row.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        || word.parse::<crate::model::Bdf>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(subject: &str, message: &str) -> Finding {
        Finding {
            id: "pcie.acs".to_owned(),
            outcome: Outcome::Fail,
            severity: Severity::Error,
            subject: subject.to_owned(),
            message: message.to_owned(),
            evidence: Vec::new(),
            needs: None,
            fix: None,
            action: None,
            missing: None,
        }
    }

    fn count(findings: &[Finding]) -> usize {
        groups(findings).len()
    }

    #[test]
    fn groups_findings_that_differ_in_devices() {
        let port = |bdf: &str, pairs: &str| {
            finding(
                bdf,
                &format!("The port {bdf} redirects (CmpltRedir) the traffic of {pairs}: slow."),
            )
        };
        let one = port("0000:17:01.0", "GPU1 and NIC0 (PIX)");
        let two = port(
            "0000:99:02.0",
            "GPU2 and NIC2 (PIX); GPU0 and GPU1 (PIX, if no NVLink joins them)",
        );
        assert_eq!(count(&[one.clone(), two]), 1);
        let other = finding(
            "0000:17:02.0",
            "The port 0000:17:02.0 blocks (EgressCtrl) the traffic of GPU1 and NIC0: slow.",
        );
        assert_eq!(count(&[one.clone(), other]), 2);
        let lesser = Finding { severity: Severity::Warn, ..one.clone() };
        assert_eq!(count(&[one, lesser]), 2);
    }

    #[test]
    fn does_not_group_findings_that_differ_in_numbers() {
        let of = |name: &str, size: u32| finding(name, &format!("{name} has {size} MiB."));
        assert_eq!(count(&[of("mlx5_0", 64), of("mlx5_bond_1", 64)]), 1);
        assert_eq!(count(&[of("mlx5_0", 64), of("mlx5_1", 32)]), 2);
        assert_eq!(count(&[of("this process", 64), of("machine", 64)]), 2);
    }

    #[test]
    fn shapes_of_unusual_texts() {
        let none = BTreeSet::new();
        for text in ["", ".", "...", "a...b", "# (", "é–é (", "GPU", "GPU0.", "::/"] {
            let shape = shape(text, &none);
            assert_eq!(shape, if text == "GPU0." { "#." } else { text });
        }
    }
}
