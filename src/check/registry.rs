//! The one list of checks: each family owns its part. Help, documents, explanations and JSON ids come from it.

use super::{Ctx, Judgement, gpu, limits, modules, param, pcie, platform, rdma, software};
use crate::model::Severity;

pub struct Check {
    /// Its stable id, `family.name`.
    pub id: &'static str,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// Where its facts come from.
    pub sources: &'static str,
    /// How much it weighs where no profile says otherwise.
    pub severity: Severity,
    /// Why it matters: what one sees where the rule does not hold.
    pub why: &'static str,
    /// How it is mended, in words.
    pub remedy: &'static str,
    /// What it rests on: addresses, and documents by title.
    pub references: &'static [&'static str],
    /// What it reads beyond devices and the small files of kernel and process, which every check may use.
    pub reads: &'static [Source],
    /// The judgement, one for each subject.
    pub judge: fn(&Ctx<'_>) -> Vec<Judgement>,
}

/// A source that costs time, and is read only for the checks that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// NVML: the driver and each GPU.
    Nvml,
    /// NVML: NVLinks between GPUs, where there are two.
    NvLinks,
    /// NVML: the peer-to-peer status of each pair.
    NvmlPeers,
    /// CUDA, without a context.
    Cuda,
    Verbs,
    /// With `--live`, a trial of mapping GPU memory.
    Mapping,
    /// With `--live`, a trial of registering GPU memory.
    Registration,
    /// modprobe.d, the initramfs and the files of kernel modules.
    Modules,
    /// Settings in the NICs' firmware, by a tool.
    Settings,
    /// Libraries and programs in user space.
    Software,
}

/// Checks of one kind.
pub struct Family {
    /// What they are about.
    pub title: &'static str,
    /// Whether they judge GPUs and NICs, each or in pairs.
    pub judges_devices: bool,
    /// The checks, in the order of a report.
    pub checks: &'static [Check],
}

/// The families, in the order of a report.
pub const FAMILIES: &[Family] = &[
    Family {
        title: "GPUs and driver",
        judges_devices: true,
        checks: gpu::CHECKS,
    },
    Family {
        title: "Driver parameters",
        judges_devices: true,
        checks: param::CHECKS,
    },
    Family {
        title: "Kernel modules and nodes",
        judges_devices: true,
        checks: modules::CHECKS,
    },
    Family {
        title: "RDMA devices",
        judges_devices: true,
        checks: rdma::CHECKS,
    },
    Family {
        title: "PCI Express",
        judges_devices: true,
        checks: pcie::CHECKS,
    },
    Family {
        title: "Limits",
        judges_devices: false,
        checks: limits::CHECKS,
    },
    Family {
        title: "Platform",
        judges_devices: false,
        checks: platform::CHECKS,
    },
    Family {
        title: "Software",
        judges_devices: false,
        checks: software::CHECKS,
    },
];

/// Every check, in the order of a report.
pub fn all() -> impl Iterator<Item = &'static Check> + Clone {
    FAMILIES.iter().flat_map(|family| family.checks)
}

/// The families by title, with the ids of their checks.
pub fn families() -> Vec<(&'static str, Vec<&'static str>)> {
    let ids = |family: &Family| family.checks.iter().map(|check| check.id).collect();
    FAMILIES
        .iter()
        .map(|family| (family.title, ids(family)))
        .collect()
}

/// Whether this names the checks whose ids begin alike, as `rdma.*` does.
pub fn is_family(name: &str) -> bool {
    let begins = |check: &Check| {
        name.strip_suffix('*')
            .is_some_and(|family| family.ends_with('.') && check.id.starts_with(family))
    };
    all().any(begins)
}

pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::testing::{findings, machine};
    use crate::model::{Facts, Outcome};
    use crate::profile::{Profile, SHIPPED};

    #[test]
    fn ids_are_unique_and_of_one_form() {
        let ids: BTreeSet<&str> = all().map(|check| check.id).collect();
        assert_eq!(ids.len(), all().count());
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        for id in ids {
            assert!(
                id.split('.').count() == 2 && id.split('.').all(word),
                "{id}"
            );
        }
    }

    #[test]
    fn profiles_name_checks_that_exist() {
        for (name, text) in SHIPPED {
            let profile =
                Profile::parse(name, text, |id| find(id).is_some() || is_family(id)).expect(name);
            assert_eq!(profile.name, name);
            assert_ne!(
                profile.checks.is_empty(),
                profile.includes.is_empty(),
                "{name}"
            );
        }
        assert!(find("gpu.nothing").is_none());
    }

    #[test]
    fn a_sound_machine_has_nothing_wrong_under_any_profile() {
        for (profile, _) in SHIPPED {
            for check in all() {
                for found in findings(check.id, &machine(), &[profile]) {
                    let fine = matches!(found.outcome, Outcome::Pass | Outcome::Skip);
                    assert!(fine, "{profile}: {found:#?}");
                    assert!(
                        found.message.ends_with('.')
                            && found.message.starts_with(char::is_alphanumeric)
                    );
                    assert!(
                        found.outcome == Outcome::Skip || !found.evidence.is_empty(),
                        "{found:#?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_unknown_is_never_a_pass_and_says_what_it_needs() {
        for check in all() {
            let found = findings(check.id, &Facts::default(), &[]);
            assert!(!found.is_empty());
            for found in found {
                // Nobody asked to try it.
                if check.id == "mapping.backend" {
                    assert_eq!(found.outcome, Outcome::Skip, "{found:#?}");
                    continue;
                }
                assert_eq!(found.outcome, Outcome::Unknown, "{found:#?}");
                assert!(found.needs.is_some(), "{found:#?}");
            }
        }
    }
}
