//! The list of all checks. Help, documents, explanations and JSON ids are generated from it.

use super::{
    CheckAction, Ctx, Judgement, expect, gin, gpu, limits, modules, param, pcie, platform, rdma,
    software,
};
use crate::model::{ActionClass, FasterPath, Severity};

pub struct Check {
    /// Stable id, `family.name`.
    pub id: &'static str,
    pub rule: &'static str,
    pub sources: &'static str,
    /// Severity unless a profile overrides it.
    pub severity: Severity,
    /// The symptom if the rule does not hold.
    pub why: &'static str,
    pub remedy: &'static str,
    /// What somebody must do if the rule does not hold, and its source; required. A finding may state another.
    pub action: CheckAction,
    /// URLs, and documents by title.
    pub references: &'static [&'static str],
    /// The checks whose failure makes this one fail too, so that repairing them comes first.
    pub explained_by: &'static [&'static str],
    /// Sources beyond devices and the small kernel and process files, which every check may use.
    pub reads: &'static [Source],
    /// What `gdr explain` takes for a question about this check.
    pub hint: Option<Hint>,
    /// True if the judgements depend on the active profiles: they are made again for each.
    pub by_profile: bool,
    /// True if the evidence changes by itself (idle links, counters, memory in use): fleets compare outcomes alone.
    pub volatile: bool,
    /// True if it decides whether a GPU has a partner: where it is unknown, so is the pair.
    pub finds_partner: bool,
    /// True if it finds the GPUs: a function that may be one is not in the topology, so an unknown is of the whole machine.
    pub finds_gpus: bool,
    /// True if it judges the ACS bits of ports: they affect only the pairs whose traffic they decide.
    pub judges_acs: bool,
    /// True if it judges whether ports are active.
    pub judges_ports: bool,
    /// True if it says nothing where there is no RDMA NIC, though its family does.
    pub needs_nics: bool,
    /// The path between ranks of a job that is closed if the check fails.
    pub closes: Option<FasterPath>,
    /// True if a pass alone shows that the machine allows that path.
    pub allows_path: bool,
    /// Returns one judgement per subject.
    pub judge: fn(&Ctx<'_>) -> Vec<Judgement>,
}

/// What the concepts of a question say about a check.
#[derive(Debug, Clone, Copy)]
pub struct Hint {
    /// What the check finds if it fails.
    pub cause: &'static str,
    /// Points for each concept of `profiles/symptoms.toml` that occurs, as in `rdma=2 slow=-1`.
    pub words: &'static str,
}

impl Hint {
    /// The concepts and their points; `None` for a word without a number.
    pub fn points(self) -> impl Iterator<Item = (&'static str, Option<i8>)> {
        self.words.split_ascii_whitespace().map(|word| match word.split_once('=') {
            Some((concept, points)) => (concept, points.parse().ok()),
            None => (word, None),
        })
    }
}

impl Check {
    /// What most checks have in common.
    pub const DEFAULT: Self = Self {
        id: "",
        rule: "",
        sources: "",
        severity: Severity::Error,
        why: "",
        remedy: "",
        action: ActionClass::Examine.running(""),
        references: &[],
        explained_by: &[],
        reads: &[],
        hint: None,
        by_profile: false,
        volatile: false,
        finds_partner: false,
        finds_gpus: false,
        judges_acs: false,
        judges_ports: false,
        needs_nics: false,
        closes: None,
        allows_path: false,
        judge: |_| Vec::new(),
    };
}

/// An expensive source, read only for the checks that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// NVML: the driver and each GPU.
    Nvml,
    /// NVML: NVLinks between GPUs, where there are two.
    NvLinks,
    /// NVML: the error counters of NVLinks.
    NvLinkErrors,
    /// NVML: the peer-to-peer status of each pair.
    NvmlPeers,
    /// CUDA, without a context.
    Cuda,
    Verbs,
    /// The kernel, by netlink and ethtool: network interfaces of RDMA ports. With `--live`: counters, twice.
    Network,
    /// With `--live`: maps GPU memory.
    Mapping,
    /// With `--live`: registers GPU memory.
    Registration,
    /// modprobe.d, the initramfs and the files of kernel modules.
    Modules,
    /// NIC firmware settings, read by a tool.
    Settings,
    /// Libraries and programs in user space.
    Software,
}

pub struct Family {
    pub title: &'static str,
    /// True if the checks need a GPU.
    pub needs_gpus: bool,
    /// True if the checks need an RDMA NIC.
    pub needs_nics: bool,
    /// True if a finding about one device follows from that device alone.
    pub of_one_device: bool,
    /// True if the checks compare a machine with the table `expect` of a profile: without one they do not apply.
    pub by_table: bool,
    /// In report order.
    pub checks: &'static [Check],
}

impl Family {
    const DEFAULT: Self = Self {
        title: "",
        needs_gpus: false,
        needs_nics: false,
        of_one_device: false,
        by_table: false,
        checks: &[],
    };

    /// True if the checks judge GPUs and NICs, alone or in pairs.
    pub fn judges_devices(&self) -> bool {
        self.needs_gpus || self.needs_nics || self.by_table
    }
}

/// In report order.
pub const FAMILIES: &[Family] = &[
    Family {
        title: "GPUs and driver",
        needs_gpus: true,
        of_one_device: true,
        checks: gpu::CHECKS,
        ..Family::DEFAULT
    },
    Family {
        title: "Driver parameters",
        needs_gpus: true,
        checks: param::CHECKS,
        ..Family::DEFAULT
    },
    Family {
        title: "Kernel modules and nodes",
        needs_gpus: true,
        checks: modules::CHECKS,
        ..Family::DEFAULT
    },
    Family {
        title: "RDMA devices",
        needs_nics: true,
        of_one_device: true,
        checks: rdma::CHECKS,
        ..Family::DEFAULT
    },
    Family { title: "PCI Express", needs_gpus: true, checks: pcie::CHECKS, ..Family::DEFAULT },
    Family { title: "Limits", checks: limits::CHECKS, ..Family::DEFAULT },
    Family { title: "Platform", checks: platform::CHECKS, ..Family::DEFAULT },
    Family {
        title: "GPU-initiated networking",
        needs_gpus: true,
        needs_nics: true,
        checks: gin::CHECKS,
        ..Family::DEFAULT
    },
    Family { title: "Software", checks: software::CHECKS, ..Family::DEFAULT },
    Family { title: "Expectations", by_table: true, checks: expect::CHECKS, ..Family::DEFAULT },
];

/// Every check, in report order.
pub fn all() -> impl Iterator<Item = &'static Check> + Clone {
    FAMILIES.iter().flat_map(|family| family.checks)
}

pub fn families() -> Vec<(&'static str, Vec<&'static str>)> {
    let ids = |family: &Family| family.checks.iter().map(|check| check.id).collect();
    FAMILIES.iter().map(|family| (family.title, ids(family))).collect()
}

/// True for a family pattern such as `rdma.*`.
pub fn is_family(name: &str) -> bool {
    let begins = |check: &Check| {
        name.strip_suffix('*')
            .is_some_and(|family| family.ends_with('.') && check.id.starts_with(family))
    };
    all().any(begins)
}

/// True for the id of a check whose evidence changes by itself.
pub fn is_volatile(id: &str) -> bool {
    find(id).is_some_and(|check| check.volatile)
}

/// True for the id of a check of one device alone.
pub fn is_of_one_device(id: &str) -> bool {
    family(id).is_some_and(|family| family.of_one_device)
}

/// The family of a check.
pub fn family(id: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.checks.iter().any(|check| check.id == id))
}

pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::testing::findings;
    use crate::model::{Facts, Outcome};
    use crate::profile::{Profile, SHIPPED};

    #[test]
    fn ids_are_unique_and_well_formed() {
        let ids: BTreeSet<&str> = all().map(|check| check.id).collect();
        assert_eq!(ids.len(), all().count());
        let word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        for id in ids {
            assert!(id.split('.').count() == 2 && id.split('.').all(word), "{id}");
        }
    }

    #[test]
    fn profiles_name_checks_that_exist() {
        for (name, text) in SHIPPED {
            let profile =
                Profile::parse(name, text, |id| find(id).is_some() || is_family(id)).expect(name);
            assert_eq!(profile.name, name);
            assert_ne!(profile.checks.is_empty(), profile.includes.is_empty(), "{name}");
        }
        assert!(find("gpu.nothing").is_none());
    }

    #[test]
    fn unknown_facts_never_pass() {
        for check in all() {
            let found = findings(check.id, &Facts::default(), &[]);
            assert!(!found.is_empty());
            for found in found {
                // Not applicable without `--live`, or without an expectation.
                let by_table = family(check.id).is_some_and(|family| family.by_table);
                if check.id == "mapping.backend" || by_table {
                    assert_eq!(found.outcome, Outcome::Skip, "{found:#?}");
                    continue;
                }
                assert_eq!(found.outcome, Outcome::Unknown, "{found:#?}");
                assert!(found.needs.is_some(), "{found:#?}");
            }
        }
    }
}
