//! pcie.iommu: the IOMMU does not translate addresses of GPUs and NICs.

use std::collections::BTreeMap;

use super::{Ctx, boot, is_arm, or_skip, own};
use crate::check::{Check, Hint, Judgement, Source, nics, unknown_if, version, words};
use crate::model::{ActionClass, Area, Bdf, Fact, Kind, Row, Severity, Why};

/// What the IOMMU does to a device's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Domain {
    /// No IOMMU, or the device is not behind one.
    Off,
    /// Group that does not translate for the host, with its type.
    Plain(u32, String),
    /// Group that translates, with its type.
    Translating(u32, String),
}

pub const CHECK: Check = Check {
    id: "pcie.iommu",
    rule: "The IOMMU does not translate the addresses of the GPUs and NICs.",
    sources: "/sys/kernel/iommu_groups/*/type, /proc/cmdline, /proc/driver/nvidia/params",
    severity: Severity::Warn,
    why: "An IOMMU that translates sends peer traffic through the root complex, and a missing \
        mapping makes transfers fail or deliver zeros.",
    remedy: "Boot with iommu=pt (x86) or iommu.passthrough=1 (Arm), or with the IOMMU off.",
    action: ActionClass::Configure
        .drained("https://docs.kernel.org/arch/x86/iommu.html")
        .then(ActionClass::Reboot),
    references: &[
        "https://docs.kernel.org/arch/x86/iommu.html",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1324",
    ],
    reads: &[Source::NvLinks],
    by_profile: true,
    hint: Some(Hint {
        cause: "The IOMMU translates or blocks traffic between devices.",
        words: "iommu=6 wrong-data=4 off-helps=3 completion=3 p2p=2 stall=2 many-gpus=1 acs=1 gpudirect=1 failure=1 \
            storage=1 guest=-1 bandwidth=-1",
    }),
    judge: iommu,
    ..Check::DEFAULT
};

/// One judgement for each device whose addresses are translated, one for all others. Devices passed through are translated
/// for their virtual machine and are not judged.
fn iommu(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let mut judgements = Vec::new();
    let (mut plain, mut unknown) = (Vec::new(), Vec::new());
    for (row, bdf) in own(ctx) {
        match domain(ctx, bdf) {
            Fact::Known(Domain::Translating(group, kind)) => {
                judgements.push(judge(ctx, row, bdf, group, &kind))
            }
            Fact::Known(domain) => plain.push((row, bdf, domain)),
            Fact::Unknown(why) => unknown.push((row, why)),
        }
    }
    if !plain.is_empty() {
        judgements.push(untranslated(ctx, &plain));
    }
    if let Some((_, why)) = unknown.first() {
        let names = words::list(unknown.iter().map(|(row, _)| words::row(row)));
        let judgement =
            Judgement::unknown(names, *why, Area::Sys, "/sys/kernel/iommu_groups/*/type");
        // With translation these would fail.
        let mut rows = unknown.iter().map(|(row, _)| row);
        judgements.push(if rows.any(|row| pcie_peers(ctx, row).is_some()) {
            judgement.weighing(Severity::Error)
        } else {
            judgement
        });
    }
    let nics = nics::rdma_nics(ctx.facts).filter_map(|nic| Some((&nic.name, nic.place.why()?)));
    judgements.extend(nics.map(|(name, why)| {
        let source = format!("/sys/class/infiniband/{name}");
        Judgement::unknown(name, why, Area::Sys, &source)
    }));
    or_skip(ctx, judgements, "This machine uses no GPU and no NIC itself.")
}

/// True if a device's addresses are known to be translated.
pub fn is_translated(ctx: &Ctx<'_>, bdf: Bdf) -> bool {
    matches!(domain(ctx, bdf), Fact::Known(Domain::Translating(..)))
}

/// The translating groups of the host's GPUs and NICs, with their types.
pub fn translated(ctx: &Ctx<'_>) -> BTreeMap<u32, String> {
    let groups = own(ctx).filter_map(|(_, bdf)| match domain(ctx, bdf) {
        Fact::Known(Domain::Translating(group, kind)) => Some((group, kind)),
        _ => None,
    });
    groups.collect()
}

/// The domain of a device's group. The type is that of the default domain, not of one attached by vfio.
fn domain(ctx: &Ctx<'_>, bdf: Bdf) -> Fact<Domain> {
    let attributes = ctx.facts.device(bdf).and_then(|device| device.attributes.as_ref());
    let group = match attributes.map(|attributes| &attributes.iommu_group) {
        Some(Fact::Known(Some(group))) => *group,
        Some(Fact::Known(None)) => return Fact::Known(Domain::Off),
        Some(Fact::Unknown(why)) => return Fact::Unknown(*why),
        None => return Fact::Unknown(Why::NotCovered),
    };
    match ctx.facts.kernel.iommu_groups.get(&group) {
        // DMA, and since Linux 5.15 DMA-FQ, with lazy flushes.
        Some(Fact::Known(kind)) if kind.starts_with("DMA") => {
            Fact::Known(Domain::Translating(group, kind.clone()))
        }
        Some(Fact::Known(kind)) => Fact::Known(Domain::Plain(group, kind.clone())),
        Some(Fact::Unknown(why)) => Fact::Unknown(*why),
        None => Fact::Unknown(Why::NotCovered),
    }
}

fn untranslated(ctx: &Ctx<'_>, plain: &[(&Row, Bdf, Domain)]) -> Judgement {
    let off = plain.iter().all(|(_, _, domain)| *domain == Domain::Off);
    let none = ctx.facts.kernel.iommus.known().is_some_and(Vec::is_empty)
        && ctx.facts.kernel.iommu_groups.is_empty();
    let message = match (off, none) {
        (true, true) if ctx.facts.platform.is_guest() => {
            "This guest has no IOMMU, so nothing translates addresses here. The host's IOMMU is not visible."
        }
        (true, true) => "The IOMMU is off: addresses are not translated.",
        (true, false) => "These devices are in no IOMMU group: their addresses are not translated.",
        (false, _) => "The IOMMU does not translate these devices' addresses.",
    };
    let mut judgement =
        Judgement::pass(words::list(plain.iter().map(|(row, ..)| words::row(row))), message);
    for (_, bdf, domain) in plain {
        judgement = match domain {
            Domain::Off => judgement
                .evidence(format!("/sys/bus/pci/devices/{bdf}/iommu_group"), "no such link"),
            Domain::Plain(group, kind) | Domain::Translating(group, kind) => {
                judgement.evidence(format!("/sys/kernel/iommu_groups/{group}/type ({bdf})"), kind)
            }
        };
    }
    judgement
}

fn judge(ctx: &Ctx<'_>, row: &Row, bdf: Bdf, group: u32, kind: &str) -> Judgement {
    let params = ctx.facts.driver.params.present();
    let remap = params.and_then(|params| params.get("DmaRemapPeerMmio")).map(String::as_str);
    let arm = is_arm(ctx);
    let peers = pcie_peers(ctx, row);
    let subject = words::row(row);
    let judgement = if remap == Some("0") {
        Judgement::broken(
            subject,
            "IOMMU translation is on: DmaRemapPeerMmio=0 keeps the driver from mapping peer devices through it, and GPUDirect RDMA does not work.",
        )
        .weighing(Severity::Error)
    } else if ctx.facts.is_grace() {
        let message = "The SMMU translates this device's addresses, which is normal on Grace.";
        Judgement::info(subject, message)
    } else if let Some(doubt) = peers {
        let message = format!(
            "IOMMU translation is on: CUDA's peer to peer over PCI Express is not supported with it on bare metal, and may lose data silently{doubt}."
        );
        Judgement::broken(subject, message).weighing(Severity::Error)
    } else if let Some(unproven) = unproven(ctx) {
        Judgement::broken(subject, unproven).weighing(Severity::Warn)
    } else if arm {
        let message = "The SMMU translates this device's addresses: GPUDirect RDMA works, with a translation for each transfer.";
        Judgement::info(subject, message)
    } else {
        let message = "IOMMU translation is on: GPUDirect RDMA works, but slowly.";
        Judgement::broken(subject, message).weighing(Severity::Warn)
    };
    let judgement = judgement.evidence(format!("/sys/kernel/iommu_groups/{group}/type"), kind);
    let judgement = judgement
        .evidence(format!("/sys/bus/pci/devices/{bdf}/iommu_group"), group.to_string())
        .evidence("/proc/driver/nvidia/params: DmaRemapPeerMmio", remap.unwrap_or("not known"));
    let judgement = match ctx.facts.kernel.command_line.known() {
        Some(line) => judgement.evidence("/proc/cmdline", iommu_words(line)),
        None => judgement,
    };
    remedy(ctx, judgement, arm)
}

/// Why it is unproven that the driver maps GPU memory through a translating IOMMU for a NIC. NVIDIA/open-gpu-kernel-modules issue 1324:
/// driver 595.84 on kernel 7.0 gave importers of a dma-buf untranslated BAR addresses, and the IOMMU discarded their writes. Modules that
/// look for `.map_resource` in a kernel without it use untranslated addresses, too (`nv_dma_use_map_resource`, nv-dma.c of 580.119.02).
fn unproven(ctx: &Ctx<'_>) -> Option<String> {
    let release = ctx.facts.kernel.release.known()?;
    let kernel = version::kernel(release)?;
    if kernel < version::MAP_PHYS {
        return None;
    }
    let driver = match version::driver(ctx.facts) {
        Fact::Known(driver) => driver?,
        Fact::Unknown(_) => {
            return Some(format!(
                "IOMMU translation is on: whether this driver maps GPU memory through it on {release} depends on its \
                 version, which is unknown. 'gdr probe rdma' proves it."
            ));
        }
    };
    let is_595 = version::branch(&driver) >= Some(595);
    match version::has_map_phys(&driver) {
        Some(true) if is_595 && kernel >= (7, 0) => Some(format!(
            "IOMMU translation is on: with driver 595 on kernel 7.0 it discarded a NIC's writes to GPU memory without \
             an error, and GPUDirect RDMA with driver {driver} on {release} is unproven. 'gdr probe rdma' proves it."
        )),
        Some(true) => None,
        Some(false) | None => Some(format!(
            "IOMMU translation is on: driver {driver} is not known to map GPU memory through it on {release} (.map_phys: \
             platform.kernel), and GPUDirect RDMA is unproven. 'gdr probe rdma' proves it."
        )),
    }
}

fn remedy(ctx: &Ctx<'_>, judgement: Judgement, arm: bool) -> Judgement {
    let guest = ctx.facts.platform.is_guest();
    let mut judgement = judgement;
    if let Some(pending) = boot::pending_iommu(ctx, arm).filter(|_| !guest) {
        judgement.message.push_str(&pending);
    }
    match (guest, arm, ctx.facts.platform.architecture.known()) {
        _ if ctx.facts.is_grace() => judgement,
        (true, ..) => judgement.advice(
            "This is the guest's own IOMMU: start the guest without one, or with iommu=pt on its \
                 kernel command line.",
        ),
        (_, true, _) => judgement
            .fix("iommu")
            .advice("Add iommu.passthrough=1 to the kernel command line and reboot."),
        (_, _, Some(_)) => {
            judgement.fix("iommu").advice("Add iommu=pt to the kernel command line and reboot.")
        }
        (_, _, None) => judgement.fix("iommu").advice(
            "Add iommu=pt (x86) or iommu.passthrough=1 (aarch64) to the kernel command line and \
                 reboot.",
        ),
    }
}

/// Under profile p2p on bare metal: a note if a GPU has a peer without NVLink, or may have one.
fn pcie_peers(ctx: &Ctx<'_>, row: &Row) -> Option<&'static str> {
    if row.kind != Kind::Gpu || !ctx.expectations.names("p2p") || ctx.facts.platform.is_guest() {
        return None;
    }
    let me = ctx.topology.number(row)?;
    let peers = ctx.topology.rows_of(Kind::Gpu).filter(|(at, _)| *at != me);
    let links: Vec<_> =
        peers.filter_map(|(at, _)| Some(ctx.topology.pair(me, at)?.nvlinks)).collect();
    if links.contains(&Fact::Known(0)) {
        return Some("");
    }
    let is_unclear = links.iter().any(|links| links.known().is_none());
    is_unclear.then_some(", unless NVLink connects it to its peers")
}

/// The words of a command line about IOMMUs.
fn iommu_words(line: &str) -> String {
    let words: Vec<&str> =
        line.split_ascii_whitespace().filter(|word| word.contains("iommu")).collect();
    if words.is_empty() { "no parameter for an IOMMU".to_owned() } else { words.join(" ") }
}
