//! PCI Express between GPUs and NICs.

mod acs;
mod acs_vm;
mod ats;
mod boot;
mod errors;
mod iommu;
mod link;
mod locality;
mod payload;
mod ports;
mod shared;

use acs::acs;
use acs_vm::acs_vm;
use ats::ats;
use errors::errors;
use iommu::iommu;
use link::link;
use locality::locality;
use payload::payload;
use shared::shared;

pub use acs::Held;
pub use iommu::{is_translated, translated};
pub use payload::small_reads;
pub use ports::{Ports, Redirecting, is_joined, ports, redirecting};

use super::{Check, Ctx, Judgement, Source, nics, unknown_devices, words};
use crate::model::{Area, Bdf, Kind, Row, Severity, Why};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "pcie.locality",
        rule: "Each GPU has a NIC below the same switch or host bridge. In a guest this is unknown, \
            and a note.",
        sources: "links of /sys/bus/pci/devices, numa_node",
        severity: Severity::Warn,
        why: "A NIC and a GPU below one switch transfer data at the full rate of the link. Through \
            the host bridge the rate is often lower, between sockets a fraction.",
        remedy: "Use the nearest NIC (gdr topo --pairs), or move the NIC to a slot below the GPU's \
            switch.",
        references: &["https://docs.nvidia.com/cuda/gpudirect-rdma/"],
        explained_by: &[],
        reads: &[],
        judge: locality,
    },
    Check {
        id: "pcie.acs",
        rule: "No port on the path between a GPU and its best NICs, or a peer without NVLink, \
            redirects their traffic. Below one switch: error; paths that meet at one host \
            bridge: warn; between host bridges: info.",
        sources: "configuration space: Access Control Services",
        severity: Severity::Warn,
        why: "Access Control Services that redirect requests or completions send traffic between \
            two devices below one switch up to the root complex and back: it becomes slow, may \
            stop, and some root complexes corrupt it. Traffic that meets at a host bridge goes \
            up anyway; the bits then send it through the IOMMU, which works if the IOMMU does \
            not translate. Between host bridges clearing the bits has no effect.",
        remedy: "Clear the redirect bits on those ports: gdr fix-acs, or the setpci command of the \
            finding.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",
            "PCI Express Base Specification, 6.12",
        ],
        explained_by: &[],
        reads: &[Source::NvLinks],
        judge: acs,
    },
    Check {
        id: "pcie.acs-vm",
        rule: "With virtual machines, access control belongs to the host.",
        sources: "platform, driver links",
        severity: Severity::Info,
        why: "A guest's ports belong to the host, and clearing their redirect bits would let the \
            guest's devices reach other memory. Virtual machines use address translation \
            services instead.",
        remedy: "Ask the host's administrator for Direct Translated P2P and ATS.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ],
        explained_by: &[],
        reads: &[],
        judge: acs_vm,
    },
    Check {
        id: "pcie.iommu",
        rule: "The IOMMU does not translate the addresses of the GPUs and NICs.",
        sources: "/sys/kernel/iommu_groups/*/type, /proc/cmdline, /proc/driver/nvidia/params",
        severity: Severity::Warn,
        why: "An IOMMU that translates sends peer traffic through the root complex, and a missing \
            mapping makes transfers fail or deliver zeros.",
        remedy: "Boot with iommu=pt (x86) or iommu.passthrough=1 (Arm), or with the IOMMU off.",
        references: &[
            "https://docs.kernel.org/arch/x86/iommu.html",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1324",
        ],
        explained_by: &[],
        reads: &[Source::NvLinks],
        judge: iommu,
    },
    Check {
        id: "pcie.ats",
        rule: "A NIC passed through to a virtual machine has address translation services (ATS); \
            on bare metal with a GPU below its own switch it has none. What a guest sees is a \
            note: it decides nothing.",
        sources: "configuration space: Address Translation Service; driver links, platform",
        severity: Severity::Info,
        why: "In a virtual machine a NIC reaches a GPU directly through a switch only with \
            addresses that the NIC translated itself, and only if the host's ports let them pass. \
            On bare metal the capability routes the \
            NIC's traffic away from its own switch.",
        remedy: "Set ATS_ENABLED in the NIC's firmware with mlxconfig on the host, and reset the NIC.",
        references: &["https://github.com/linux-rdma/rdma-core/blob/v64.0/kernel-boot/rdma_topo"],
        explained_by: &[],
        reads: &[],
        judge: ats,
    },
    Check {
        id: "pcie.link",
        rule: "Every link above a GPU or a NIC runs at the full width and speed that both ends \
            support, and no slot has a quarter of the card's lanes or fewer.",
        sources: "configuration space: Link Status, current_link_*",
        severity: Severity::Warn,
        why: "A link that trained narrower or slower than both ends support, or a slot with fewer \
            lanes than the card, limits every transfer over it.",
        remedy: "Reseat the card or riser, or use a wider slot; check the slot's wiring and the \
            firmware settings.",
        references: &[
            "PCI Express Base Specification, 7.5.3",
            "https://docs.kernel.org/admin-guide/abi-testing.html",
        ],
        explained_by: &[],
        reads: &[Source::Nvml],
        judge: link,
    },
    Check {
        id: "pcie.payload",
        rule: "No device sends larger packets than the ports and peers on its paths accept.",
        sources: "configuration space: Device Control",
        severity: Severity::Error,
        why: "A packet with more payload than its receiver accepts is malformed: the receiver \
            reports a fatal error and drops it. 128 bytes everywhere always works, with more \
            header overhead.",
        remedy: "Let the kernel set one payload size below each root port: pci=pcie_bus_safe, or \
            pci=pcie_bus_peer2peer for 128 bytes everywhere.",
        references: &[
            "PCI Express Base Specification, 2.2.2 and 7.5.3.4",
            "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        ],
        explained_by: &[],
        reads: &[Source::NvLinks],
        judge: payload,
    },
    Check {
        id: "pcie.errors",
        rule: "No fatal error was counted since boot on the path to a GPU or a NIC; with --live no error rises on \
            the path to a NIC.",
        sources: "/sys/bus/pci/devices/*/aer_dev_fatal, aer_dev_nonfatal, aer_dev_correctable; under --live \
            twice, 2 s apart",
        severity: Severity::Warn,
        why: "A fatal error takes the link down and loses the transfers in progress. Corrected \
            errors are common and cost little time, unless they go on.",
        remedy: "Read the kernel log from the time of the error; reseat the NIC, replace the riser or \
            cable, update firmware.",
        references: &[
            "https://docs.kernel.org/PCI/pcieaer-howto.html",
            "https://docs.kernel.org/admin-guide/abi-testing.html",
        ],
        explained_by: &[],
        reads: &[Source::Network],
        judge: errors,
    },
    Check {
        id: "pcie.shared",
        rule: "Which other devices share the narrowest link between a GPU and its NIC.",
        sources: "links of /sys/bus/pci/devices, configuration space: Link Status",
        severity: Severity::Info,
        why: "Devices that transfer at the same time over one link share its bandwidth.",
        remedy: "Nothing is broken. Measure the pairs at the same time, or move a NIC to another \
            switch.",
        references: &[
            "PCI Express Base Specification, 7.5.3",
            "https://docs.kernel.org/admin-guide/abi-testing.html",
        ],
        explained_by: &[],
        reads: &[],
        judge: shared,
    },
];

/// GPUs and NICs with their addresses, without software devices.
fn endpoints<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'a Row, Bdf)> {
    let rows = ctx.topology.rows.iter();
    rows.filter(|row| matches!(row.kind, Kind::Gpu | Kind::Nic) && !row.software)
        .filter_map(|row| Some((row, row.bdf?)))
}

/// GPUs and NICs used by the host itself, not passed through.
fn own<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'a Row, Bdf)> {
    endpoints(ctx).filter(|(_, bdf)| {
        let device = ctx.facts.device(*bdf);
        device.is_none_or(|device| device.passthrough_driver().is_none())
    })
}

/// The judgement of GPUs and NICs whose function or place in the PCI tree is unknown, and with it the paths to them.
fn unplaced(ctx: &Ctx<'_>) -> Option<Judgement> {
    let nics =
        nics::rdma_nics(ctx.facts).filter_map(|nic| Some((nic.name.clone(), nic.place.why()?)));
    let rows = own(ctx).filter_map(|(row, bdf)| {
        let device = ctx.facts.device(bdf)?;
        Some((words::row(row), device.place.why()?))
    });
    let unplaced: Vec<(String, Why)> = nics.chain(rows).collect();
    let (_, why) = unplaced.first()?;
    let names = words::list(unplaced.iter().map(|(name, _)| name));
    let source = format!("the place of {names} in the PCI tree");
    Some(Judgement::unknown(names, *why, Area::Sys, &source))
}

/// The judgements; without any, one that skips the machine if it has no such device.
fn or_skip(ctx: &Ctx<'_>, judgements: Vec<Judgement>, message: &str) -> Vec<Judgement> {
    match (judgements.is_empty(), unknown_devices(ctx)) {
        (true, Some(unknown)) => vec![unknown],
        _ => super::or_skip(judgements, message),
    }
}

fn is_arm(ctx: &Ctx<'_>) -> bool {
    let architecture = ctx.facts.platform.architecture.known();
    architecture.is_some_and(|name| name == "aarch64")
}
