//! The one list of checks. Help, documents and JSON ids come from it.

use super::{Ctx, Judgement, gpu, limits, mapping, modules, param, pcie, platform, rdma};
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
pub const CHECKS: &[Check] = &[
    Check {
        id: "gpu.present",
        rule: "At least one NVIDIA GPU is on the PCI bus, and the NVIDIA driver drives it.",
        sources: "/sys/bus/pci/devices",
        severity: Severity::Error,
        judge: gpu::present,
    },
    Check {
        id: "gpu.driver",
        rule: "The kernel module is loaded and NVML reaches it.",
        sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, NVML",
        severity: Severity::Error,
        judge: gpu::driver,
    },
    Check {
        id: "gpu.driver-flavour",
        rule: "The kernel modules' flavour drives this generation and exports dma-buf where it can.",
        sources: "/proc/driver/nvidia/version, PCI device ids",
        severity: Severity::Warn,
        judge: gpu::flavour,
    },
    Check {
        id: "gpu.bar1",
        rule: "BAR1 is as large as the GPU's memory and not full.",
        sources: "/sys/bus/pci/devices/*/resource, NVML",
        severity: Severity::Warn,
        judge: gpu::bar1,
    },
    Check {
        id: "param.peer-mapping",
        rule: "A process without CAP_SYS_ADMIN may map a NIC's doorbell into the GPU.",
        sources: "/proc/driver/nvidia/params, /proc/self/status",
        severity: Severity::Warn,
        judge: param::peer_mapping,
    },
    Check {
        id: "param.stream-memops",
        rule: "CUDA streams may wait for memory and write it.",
        sources: "driver and CUDA version, /proc/driver/nvidia/params",
        severity: Severity::Warn,
        judge: param::stream_memops,
    },
    Check {
        id: "peermem.loaded",
        rule: "nvidia-peermem or dma-buf opens GPU memory to each NIC.",
        sources: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/modules, the NIC's driver, osrelease",
        severity: Severity::Warn,
        judge: modules::peermem,
    },
    Check {
        id: "gdrdrv.node",
        rule: "The node of gdrcopy's kernel module is there, is its own, and opens.",
        sources: "/dev/gdrdrv, /proc/devices, /sys/module/gdrdrv/version",
        severity: Severity::Info,
        judge: modules::gdrdrv,
    },
    Check {
        id: "mapping.backend",
        rule: "With --live: the CPU maps memory of each GPU, and every byte goes through right.",
        sources: "CUDA; gdrdrv, dma-buf and RM tried on memory of gdr's own",
        severity: Severity::Info,
        judge: mapping::mapping,
    },
    Check {
        id: "rdma.device",
        rule: "At least one NIC does RDMA, and this user may open it.",
        sources: "/sys/class/infiniband, /dev/infiniband",
        severity: Severity::Warn,
        judge: rdma::device,
    },
    Check {
        id: "pcie.locality",
        rule: "Each GPU has a NIC below the same switch or host bridge.",
        sources: "links of /sys/bus/pci/devices, numa_node",
        severity: Severity::Warn,
        judge: pcie::locality,
    },
    Check {
        id: "pcie.acs",
        rule: "No port on the way between a GPU and its NICs, or a peer without NVLink, redirects their traffic.",
        sources: "configuration space: Access Control Services",
        severity: Severity::Warn,
        judge: pcie::acs,
    },
    Check {
        id: "pcie.acs-vm",
        rule: "Where virtual machines are in play, access control belongs to the host.",
        sources: "platform, driver links",
        severity: Severity::Info,
        judge: pcie::acs_vm,
    },
    Check {
        id: "pcie.iommu",
        rule: "The IOMMU does not translate the addresses of the GPUs and NICs.",
        sources: "/sys/kernel/iommu_groups/*/type, /proc/cmdline, /proc/driver/nvidia/params",
        severity: Severity::Warn,
        judge: pcie::iommu,
    },
    Check {
        id: "pcie.link",
        rule: "Every link above a GPU or a NIC is as wide and as fast as both of its ends can be.",
        sources: "configuration space: Link Status, current_link_*",
        severity: Severity::Warn,
        judge: pcie::link,
    },
    Check {
        id: "limits.memlock",
        rule: "This process may lock as much memory as RDMA needs.",
        sources: "/proc/self/limits, /proc/self/status, /proc/self/uid_map",
        severity: Severity::Warn,
        judge: limits::memlock,
    },
    Check {
        id: "platform.guest",
        rule: "Whether this is a virtual machine, whose host decides what it cannot.",
        sources: "/proc/cpuinfo, DMI, /sys/hypervisor, --platform",
        severity: Severity::Info,
        judge: platform::guest,
    },
    Check {
        id: "platform.container",
        rule: "A container has the nodes of the machine's GPUs and NICs.",
        sources: "/proc/self/ns, /dev",
        severity: Severity::Warn,
        judge: platform::container,
    },
];

/// A check by its id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
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
        let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
        assert_eq!(ids.len(), CHECKS.len());
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        for id in ids {
            assert!(id.split('.').count() == 2 && id.split('.').all(word), "{id}");
        }
    }

    #[test]
    fn profiles_name_checks_that_exist() {
        for (name, text) in SHIPPED {
            let profile = Profile::parse(name, text, |id| find(id).is_some()).expect(name);
            assert_eq!(profile.name, name);
            assert!(!profile.checks.is_empty());
        }
        assert!(find("gpu.nothing").is_none());
    }

    #[test]
    fn a_sound_machine_has_nothing_wrong_under_any_profile() {
        for (profile, _) in SHIPPED {
            for check in CHECKS {
                for found in findings(check.id, &machine(), &[profile]) {
                    let fine = matches!(found.outcome, Outcome::Pass | Outcome::Skip);
                    assert!(fine, "{profile}: {found:#?}");
                    assert!(found.message.ends_with('.') && found.message.starts_with(char::is_alphanumeric));
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
        for check in CHECKS {
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
