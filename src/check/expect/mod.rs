//! What a good machine has, by the table `expect` of a profile (`gdr expect` writes it). Without such a table these checks do
//! not apply, and doctor leaves them out.

mod derive;
mod judge;
mod observe;

use super::{Check, Ctx, Judgement, Source, or_skip};
use crate::model::{ActionClass, Severity};

pub use derive::{Derived, UnknownKey, derive, derive_bandwidths};
pub use judge::bandwidths;

/// Where the actions are written.
const SOURCE: &str = "docs: commands/expect.md";

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "expect.gpus",
        rule: "The machine has the GPUs that a profile expects: their number, and their addresses.",
        sources: "/sys/bus/pci/devices, /proc/driver/nvidia/gpus",
        severity: Severity::Error,
        why: "A GPU that fell off the bus, or that the driver does not manage, is absent: programs then use fewer GPUs, and without an expectation nobody misses it.",
        remedy: "Find out why it is absent: dmesg | grep -i -e NVRM -e Xid -e AER; then power-cycle the node, or reseat the GPU.",
        action: ActionClass::Reboot
            .drained("https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html")
            .then(ActionClass::ReseatGpu),
        references: &[],
        explained_by: &["gpu.present"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["gpus.count", "gpus.addresses"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.gpu-model",
        rule: "Each GPU is of the expected model, with the expected memory, BAR1, MIG mode and NUMA node.",
        sources: "PCI id, /proc/driver/nvidia/gpus, NVML, BARs",
        severity: Severity::Error,
        why: "A GPU of another model, or with a small BAR1, was exchanged, or its firmware or the BIOS settings are not those of the other nodes.",
        remedy: "Compare with a good node: gdr snapshot --diff GOOD THIS.",
        action: ActionClass::ReseatGpu.drained(SOURCE),
        references: &[],
        explained_by: &["gpu.driver", "gpu.present", "expect.gpus"],
        reads: &[Source::Nvml],
        by_profile: true,
        judge: |ctx| {
            judged(
                ctx,
                &["gpus.model", "gpus.id", "gpus.memory", "gpus.bar1", "gpus.mig", "gpus.numa"],
            )
        },
        ..Check::DEFAULT
    },
    Check {
        id: "expect.gpu-link",
        rule: "The link of each GPU has the expected width and maximum speed.",
        sources: "Link Capabilities and Link Status of the GPU and the port above it",
        severity: Severity::Error,
        why: "A link with fewer lanes or a slower speed moves data more slowly. pcie.link compares a link with what both ends support; this check with what a good node has.",
        remedy: "Reseat the GPU or its riser; compare BIOS settings with a good node.",
        action: ActionClass::ReseatGpu.drained(SOURCE).then(ActionClass::CallVendor),
        references: &[],
        explained_by: &["gpu.driver", "gpu.present", "expect.gpus", "pcie.link"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["gpus.link"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.driver",
        rule: "The loaded NVIDIA driver has an expected version.",
        sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version",
        severity: Severity::Error,
        why: "Nodes of one job should run one driver: programs meet its limits and errors on some nodes only.",
        remedy: "Install the driver of the other nodes, and reload it or reboot.",
        action: ActionClass::Install.drained(SOURCE),
        references: &[],
        explained_by: &["gpu.driver"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["driver"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.nics",
        rule: "The machine has the NICs that a profile expects: their number, and their names.",
        sources: "/sys/class/infiniband",
        severity: Severity::Error,
        why: "A NIC that is absent takes its rail with it: collective operations run at the speed of the slowest rail, or fail.",
        remedy: "Find out why it is absent: dmesg | grep -i mlx5; lspci; then reload its driver, or reseat it.",
        action: ActionClass::Reboot.drained(SOURCE).then(ActionClass::ReseatNic),
        references: &[],
        explained_by: &["rdma.device", "rdma.modules"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["nics.count", "nics.names"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.nic-model",
        rule: "Each NIC is of the expected model and on the expected NUMA node.",
        sources: "PCI id, hca_type and board_id of /sys/class/infiniband/*",
        severity: Severity::Error,
        why: "A NIC of another model or board has other limits and other firmware.",
        remedy: "Compare with a good node: gdr snapshot --diff GOOD THIS.",
        action: ActionClass::ReseatNic.drained(SOURCE),
        references: &[],
        explained_by: &["rdma.modules", "expect.nics"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["nics.id", "nics.chip", "nics.board", "nics.numa"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.nic-firmware",
        rule: "The firmware of each NIC has an expected version.",
        sources: "/sys/class/infiniband/*/fw_ver",
        severity: Severity::Error,
        why: "Nodes of one job should run one firmware: a fault or a limit of a version shows on some nodes only.",
        remedy: "Update the firmware with the vendor's tool (mlxfwmanager, mstflint), and reset the NIC.",
        action: ActionClass::Firmware.drained(SOURCE),
        references: &[],
        explained_by: &["expect.nics"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["nics.firmware"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.nic-link",
        rule: "The link of each NIC runs at the expected speed and width.",
        sources: "Link Status of the NIC",
        severity: Severity::Error,
        why: "A link that trained with fewer lanes or at a lower speed limits the NIC.",
        remedy: "Reseat the NIC or its cable; compare BIOS settings with a good node.",
        action: ActionClass::ReseatNic.drained(SOURCE).then(ActionClass::CallVendor),
        references: &[],
        explained_by: &["expect.nics"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["nics.link"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.port",
        rule: "Each NIC has the expected number of active ports, with the expected link layer and rate.",
        sources: "/sys/class/infiniband/*/ports",
        severity: Severity::Error,
        why: "A port that is down, or that negotiated a lower rate, slows the whole job down.",
        remedy: "Check cable and transceiver at both ends, the switch port, and the port's settings (ibstat, mlxlink).",
        action: ActionClass::ReseatCable.drained(SOURCE).then(ActionClass::CallVendor),
        references: &[],
        explained_by: &["expect.nics"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["ports.active", "ports.layer", "ports.rate"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.pairs",
        rule: "There are as many pairs of each path class, and of each number of NVLinks, as on a good machine.",
        sources: "gdr topo: PCI tree, NUMA nodes, NVML's NVLinks",
        severity: Severity::Error,
        why: "A device in another slot, or an NVLink that is down, changes the paths: GPUs then share a link, or cross the sockets.",
        remedy: "Compare gdr topo with a good node; move the device back, or have the NVLink bridge or baseboard checked.",
        action: ActionClass::Examine.running(SOURCE),
        references: &[],
        explained_by: &[
            "expect.gpus",
            "expect.nics",
            "expect.gpu-model",
            "expect.nic-model",
            "gpu.nvlink",
        ],
        reads: &[Source::NvLinks],
        by_profile: true,
        judge: |ctx| judged(ctx, &["pairs.gpu-gpu", "pairs.gpu-nic", "pairs.nvlinks"]),
        ..Check::DEFAULT
    },
    Check {
        id: "expect.memory-path",
        rule: "The memory paths between NICs and GPUs that a profile expects are open, and no others.",
        sources: "the NVIDIA driver's flavour and version, kernel, NIC driver, nvidia_peermem",
        severity: Severity::Error,
        why: "Programs take the memory path that they find: without it they copy through host memory, at a fraction of the bandwidth.",
        remedy: "gdr doctor without --only: gpu.dmabuf and peermem.loaded name the cause.",
        action: ActionClass::Configure.running(SOURCE),
        references: &[],
        explained_by: &["gpu.driver", "gpu.dmabuf", "peermem.loaded"],
        by_profile: true,
        judge: |ctx| judged(ctx, &["memory-path.dma-buf", "memory-path.peermem"]),
        ..Check::DEFAULT
    },
    BANDWIDTH,
];

/// The probe judges it, so doctor skips it.
pub const BANDWIDTH: Check = Check {
    id: "expect.bandwidth",
    rule: "gdr probe measures the bandwidths that a profile expects.",
    sources: "the results of gdr probe, by name",
    severity: Severity::Error,
    why: "A figure that is lower than on a good node shows what no setting shows: a bad cable, a hot device, a shared link.",
    remedy: "Measure again with nothing else running; compare gdr topo and gdr snapshot with a good node.",
    action: ActionClass::Examine.drained(SOURCE),
    references: &[],
    by_profile: true,
    judge: |_| {
        let measures = "gdr probe judges bandwidths; doctor measures none.";
        vec![Judgement::skip("machine", measures)]
    },
    ..Check::DEFAULT
};

fn judged(ctx: &Ctx<'_>, keys: &[&str]) -> Vec<Judgement> {
    or_skip(
        judge::judge(ctx, keys),
        "No profile expects anything of it (table expect; gdr expect writes one).",
    )
}
