//! What the findings of a machine say about a text, which may come from another process or another machine.

use super::ENVIRONMENT;
use crate::check;
use crate::check::ground::rdma_nics;
use crate::model::{Facts, Finding, Ids, Outcome, PciDevice, Standing};

/// The subject of findings about the process that gdr runs in.
const OWN_PROCESS: &str = "this process";

/// What a machine lacks. Only the local machine counts: one that is named is the one that the text is of.
pub struct Scope {
    has_gpu: bool,
    has_nic: bool,
    /// The text shows environment variables.
    has_settings: bool,
}

impl Scope {
    pub fn new(is_live: bool, facts: &Facts, has_settings: bool) -> Self {
        let is_known = facts.pci.known().is_some() && facts.rdma.known().is_some();
        let driven = facts.driver.gpus.known();
        let has_gpu = facts.gpus().next().is_some() || driven.is_some_and(|gpus| !gpus.is_empty());
        let has_nic = rdma_nics(facts).next().is_some() || facts.devices().iter().any(is_nic);
        Self {
            has_gpu: has_gpu || !is_live || !is_known,
            has_nic: has_nic || !is_live || !is_known,
            has_settings,
        }
    }

    /// Why nothing could be checked, as a sentence: the text is of a machine with such devices.
    pub fn is_elsewhere(&self) -> Option<&'static str> {
        (!self.has_gpu && !self.has_nic).then_some(
            "Nothing could be checked here: this machine has neither an NVIDIA GPU nor an RDMA NIC, so the text is probably of \
             another one. Check that one with --from FILE (see gdr snapshot).",
        )
    }

    /// Why a check says nothing about the text, whatever it finds.
    pub fn excludes(&self, check: &str) -> Option<&'static str> {
        let family = check::family(check)?;
        let needs_nics = family.needs_nics || check::find(check).is_some_and(|of| of.needs_nics);
        match (self.has_gpu, self.has_nic) {
            (false, true) if family.needs_gpus => Some("this machine has no NVIDIA GPU"),
            (true, false) if needs_nics => Some("this machine has no RDMA NIC"),
            _ => None,
        }
    }

    /// Why the machine does not decide a check; `None` if it does.
    pub fn why_undecided(&self, check: &str, findings: &[Finding]) -> Option<String> {
        if let Some(reason) = self.excludes(check) {
            return Some(reason.to_owned());
        }
        let of_check = || findings.iter().filter(|finding| finding.id == check);
        let has = |outcome: Outcome| of_check().any(|finding| finding.outcome == outcome);
        if has(Outcome::Fail) || has(Outcome::Warn) {
            return None;
        }
        if check == ENVIRONMENT && !self.has_settings {
            return Some(
                "the variables of the program count, and the text does not show them".to_owned(),
            );
        }
        let open = |finding: &&Finding| finding.outcome == Outcome::Unknown;
        if let Some(unknown) = of_check().find(open) {
            let needs = unknown.needs.iter().map(|needs| format!(" (needs: {needs})"));
            return Some(plain(&unknown.message) + &needs.collect::<String>());
        }
        let mut others = of_check().filter(|finding| finding.outcome != Outcome::Skip);
        if let Some(other) = others.next() {
            let is_own = other.outcome == Outcome::Pass && other.subject == OWN_PROCESS;
            return (is_own && check != ENVIRONMENT).then(|| {
                "it passes for gdr itself; the program may run with other limits and rights"
                    .to_owned()
            });
        }
        let skipped = of_check().next();
        Some(skipped.map_or_else(|| "it did not run".to_owned(), |finding| plain(&finding.message)))
    }

    pub fn standing(&self, check: &str, findings: &[Finding]) -> Standing {
        let of_check = || findings.iter().filter(|finding| finding.id == check);
        let is_wrong = |finding: &Finding| matches!(finding.outcome, Outcome::Fail | Outcome::Warn);
        if of_check().any(is_wrong) {
            return Standing::Confirmed;
        }
        let mut rest = of_check().filter(|finding| finding.outcome != Outcome::Pass);
        if self.why_undecided(check, findings).is_none() && rest.next().is_none() {
            Standing::Excluded
        } else {
            Standing::Open
        }
    }
}

/// A message without the full stop, to go on behind it.
fn plain(message: &str) -> String {
    message.trim_end_matches('.').to_owned()
}

fn is_nic(device: &PciDevice) -> bool {
    let is_one = |ids: &Ids| ids.is_nvidia_nic() || ids.class_and_subclass() == 0x0207;
    device.ids.known().is_some_and(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fact, Severity};

    fn finding(id: &str, subject: &str, outcome: Outcome) -> Finding {
        Finding {
            id: id.to_owned(),
            outcome,
            severity: Severity::Error,
            subject: subject.to_owned(),
            message: "There is no such device.".to_owned(),
            evidence: Vec::new(),
            needs: None,
            fix: None,
            action: None,
            missing: None,
        }
    }

    fn empty() -> Facts {
        Facts { pci: Fact::Known(Vec::new()), rdma: Fact::Known(Vec::new()), ..Facts::default() }
    }

    /// A computer without GPU and NIC is not the one that the text is of; one that is named is.
    #[test]
    fn devices_that_a_machine_lacks_decide_nothing() {
        let here = Scope::new(true, &empty(), false);
        assert!(here.is_elsewhere().is_some());
        let named = Scope::new(false, &empty(), false);
        assert!(named.is_elsewhere().is_none());
        let failed = [finding("rdma.device", "machine", Outcome::Fail)];
        assert_eq!(named.standing("rdma.device", &failed), Standing::Confirmed);
        let without_nic = Scope { has_gpu: true, has_nic: false, has_settings: false };
        assert!(without_nic.excludes("rdma.device").is_some());
        assert!(without_nic.excludes("pcie.acs").is_none());
        let unknown = Scope::new(true, &Facts::default(), false);
        assert!(unknown.is_elsewhere().is_none(), "an unknown bus lacks nothing");
    }

    #[test]
    fn only_a_pass_of_the_machine_excludes() {
        let scope = Scope::new(false, &empty(), false);
        for (outcomes, subject, standing) in [
            (&[Outcome::Pass, Outcome::Pass][..], "GPU0", Standing::Excluded),
            (&[Outcome::Pass], OWN_PROCESS, Standing::Open),
            (&[Outcome::Pass, Outcome::Unknown], "GPU0", Standing::Open),
            (&[Outcome::Skip], "machine", Standing::Open),
            (&[Outcome::Info], "GPU0", Standing::Open),
            (&[Outcome::Pass, Outcome::Warn], OWN_PROCESS, Standing::Confirmed),
            (&[], "GPU0", Standing::Open),
        ] {
            let findings: Vec<Finding> =
                outcomes.iter().map(|outcome| finding("pcie.acs", subject, *outcome)).collect();
            assert_eq!(scope.standing("pcie.acs", &findings), standing, "{outcomes:?}");
        }
        let passed = [finding(ENVIRONMENT, "this process", Outcome::Pass)];
        assert_eq!(scope.standing(ENVIRONMENT, &passed), Standing::Open);
        let of_text = Scope::new(false, &empty(), true);
        assert_eq!(of_text.standing(ENVIRONMENT, &passed), Standing::Excluded);
    }
}
