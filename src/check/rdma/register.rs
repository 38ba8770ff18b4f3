//! rdma.register: each GPU's best NIC registers its memory, tried with --live.

use super::{driver, each_nic, rdma_nics};
use crate::check::memory_path::{PathState, knows_peer_memory, peer_memory};
use crate::check::modules::peermem_remedy;
use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, unknown_if, words};
use crate::model::{
    ActionClass, Area, Bdf, Fact, GpuRegistration, Ids, MemoryPathTrial, MemoryPaths, NicDriver,
    NicTrial, RdmaDevice, RdmaPath, RegistrationOutcome, RegistrationTrial, Severity, VerbsError,
};

const BY_DMABUF: &str = "ibv_reg_dmabuf_mr";
const BY_ADDRESS: &str = "ibv_reg_mr";

/// The names of the memory paths.
const DATA_DIRECT: &str = "data-direct";
const DMABUF_PCIE: &str = "dma-buf-pcie";
const DMABUF: &str = "dma-buf";
const PEERMEM: &str = "peermem";

const ONE_GROUP: &str = "For the PCIe mapping the driver needs the GPU and the function that accesses it (the NIC, or its Data Direct function) in one IOMMU group, or, before 595, NVreg_GrdmaPciTopoCheckOverride=1: see param.grdma-topo and rdma.data-direct, and run rdma_topo check as root.";

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const EFAULT: i32 = 14;
/// The kernel cannot register dma-bufs.
const EPROTONOSUPPORT: i32 = 93;
/// The provider or the driver cannot.
const EOPNOTSUPP: i32 = 95;
/// The GPU's driver refuses the NIC at attach.
const ENOTSUPP: i32 = 524;

pub const CHECK: Check = Check {
    id: "rdma.register",
    rule: "With --live: the best NIC of a GPU registers some of its memory, by dma-buf or by \
        nvidia-peermem; for a GPU with NVLink-C2C also by the memory path expected of the pair.",
    sources: "under --live cuMemAlloc, then cuMemGetHandleForAddressRange with ibv_reg_dmabuf_mr, and ibv_reg_mr; for a \
        GPU with NVLink-C2C also with the PCIe mapping, by ibv_reg_dmabuf_mr and mlx5dv_reg_dmabuf_mr (Data Direct)",
    severity: Severity::Warn,
    why: "Modules, symbols and versions suggest that a memory path works; a registration \
        proves it. It does not prove that bytes arrive: gdr probe rdma transfers some.",
    remedy: "EFAULT (14) from ibv_reg_mr: load nvidia-peermem (peermem.loaded). 95 or 93 with a \
        dma-buf: provider or kernel cannot register it (rdma.core); no dma-buf at all: \
        gpu.dmabuf. ENOMEM (12): the limit of locked memory (limits.memlock), or a full BAR1 \
        (gpu.bar1). ENOTSUPP (524): the GPU's driver does not map its memory for this NIC \
        (param.grdma-topo); with the PCIe mapping, because they are not in one IOMMU group \
        (rdma.data-direct).",
    action: ActionClass::Examine.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://github.com/linux-rdma/rdma-core/blob/v64.0/libibverbs/man/ibv_reg_mr.3",
        "https://github.com/linux-rdma/rdma-core/blob/v64.0/providers/mlx5/man/mlx5dv_reg_dmabuf_mr.3.md",
    ],
    explained_by: &[
        "gpu.driver",
        "rdma.device",
        "rdma.provider",
        "rdma.core",
        "peermem.loaded",
        "gpu.dmabuf",
        "param.grdma-topo",
        "limits.memlock",
        "pcie.iommu",
    ],
    reads: &[Source::Registration, Source::Verbs, Source::Modules],
    hint: Some(Hint {
        cause: "The NIC does not register GPU memory.",
        words: "register=4 rdma=1 failure=1 invalid=1 gpu-memory=1 bad-address=1 completion=1",
    }),
    judge: register,
    ..Check::DEFAULT
};

/// One judgement for each GPU of the host, with its best NIC.
fn register(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if ctx.facts.rdma.known().is_none() || rdma_nics(ctx.facts).next().is_none() {
        return each_nic(ctx, |_| vec![]);
    }
    let skipped = "GPU memory is registered only with --live.";
    with_trials(ctx, skipped, "a trial of registering GPU memory", |gpus, tried| {
        gpus.iter().map(|gpu| judge(ctx, *gpu, tried)).collect()
    })
}

/// Judges the registration trials of the host's GPUs; one judgement if there are none. `skipped` is the
/// message without --live.
pub fn with_trials(
    ctx: &Ctx<'_>,
    skipped: &str,
    trial: &str,
    judge: impl Fn(&[Bdf], &[GpuRegistration]) -> Vec<Judgement>,
) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let gpus = passthrough::own_gpus(ctx.facts).map(|gpu| gpu.bdf);
    let gpus: Vec<Bdf> = gpus.collect();
    let judgement = match &ctx.facts.registration {
        _ if gpus.is_empty() => Judgement::skip("machine", "This machine uses no GPU itself."),
        None => Judgement::skip("machine", skipped),
        Some(Fact::Unknown(why)) => Judgement::unknown("machine", *why, Area::Verbs, trial),
        Some(Fact::Known(
            RegistrationOutcome::Absent { reason } | RegistrationOutcome::Failed { reason },
        )) => Judgement::undetermined("machine", format!("Cannot determine: {reason}."))
            .evidence(trial, reason)
            .needs("CUDA and libibverbs that list their devices here: see gpu.driver and rdma.provider"),
        Some(Fact::Known(RegistrationOutcome::Tried(tried))) => return judge(&gpus, tried),
    };
    vec![judgement]
}

fn judge(ctx: &Ctx<'_>, gpu: Bdf, tried: &[GpuRegistration]) -> Judgement {
    let subject = words::device(ctx, gpu);
    let with_nics = match tried
        .iter()
        .find(|tried| tried.bdf == Some(gpu))
        .map(|tried| &tried.trial)
    {
        Some(RegistrationTrial::Tried(rdma_nics)) => rdma_nics,
        Some(RegistrationTrial::NotTried { reason }) => {
            return Judgement::undetermined(subject, "Cannot determine: this process has no memory of it to register.")
                .evidence("the trial", reason)
                .needs(
                    "a GPU with 2 MiB of free memory that this process may use: see gpu.driver, and which processes use it",
                );
        }
        None => {
            return Judgement::undetermined(subject, "Cannot determine: CUDA does not show it to this process.")
                .evidence("the trial", format!("{} GPUs, not this one", tried.len()))
                .needs("a process that sees all GPUs: see CUDA_VISIBLE_DEVICES and the container's devices");
        }
    };
    let Some((nic, trial)) = best_nic(ctx, gpu, |name| with_nics.get(name)) else {
        return Judgement::undetermined(
            subject,
            "Cannot determine: no NIC of this machine was tried with it.",
        )
        .evidence("ibv_get_device_list", words::list(with_nics.keys()))
        .needs("a NIC that libibverbs supports: see rdma.provider");
    };
    let paths = match trial {
        Some(NicTrial::Opened(paths)) => paths,
        Some(NicTrial::Refused(error)) => {
            return Judgement::undetermined(
                subject,
                format!("Cannot determine: {}.", error.reason),
            )
            .evidence(format!("ibv_open_device on {}", nic.name), &error.reason)
            .needs("a user who may open the NIC's node: see rdma.device");
        }
        None => {
            let message = format!("Cannot determine: {}, its best NIC, was not tried.", nic.name);
            return Judgement::undetermined(subject, message)
                .evidence("ibv_get_device_list", words::list(with_nics.keys()))
                .needs("a NIC that libibverbs supports, among its first 64: see rdma.provider");
        }
    };
    let expected = expected(ctx, gpu, nic);
    let ids = ctx.facts.device(gpu).and_then(|device| device.ids.known());
    let coherent = ids.is_some_and(Ids::is_coherent_gpu);
    let pair = (expected.known().copied(), coherent);
    let judgement = judge_paths(ctx, subject, nic, paths, pair);
    let words = expected.known().map_or("unknown", |expected| expected.phrase());
    tried_paths(paths).fold(
        judgement.evidence("expected path of GPU and NIC", words),
        |judgement, (memory_path, trial)| {
            let function = match memory_path {
                DATA_DIRECT => "mlx5dv_reg_dmabuf_mr",
                PEERMEM => BY_ADDRESS,
                _ => BY_DMABUF,
            };
            let mapping = if memory_path == DMABUF_PCIE { ", PCIe mapping" } else { "" };
            judgement.evidence(format!("{function} on {}{mapping}", nic.name), describe(trial))
        },
    )
}

fn describe(trial: &MemoryPathTrial) -> String {
    match trial {
        MemoryPathTrial::Registered => "registered 2 MiB".to_owned(),
        MemoryPathTrial::Withheld { reason }
        | MemoryPathTrial::Refused(VerbsError { reason, .. }) => reason.clone(),
    }
}

/// The memory paths that were tried, by name, in the order of preference.
fn tried_paths(paths: &MemoryPaths) -> impl Iterator<Item = (&'static str, &MemoryPathTrial)> {
    let all = [
        (DATA_DIRECT, paths.data_direct.as_ref()),
        (DMABUF_PCIE, paths.dmabuf_pcie.as_ref()),
        (DMABUF, Some(&paths.dmabuf)),
        (PEERMEM, Some(&paths.peermem)),
    ];
    all.into_iter().filter_map(|(memory_path, trial)| Some((memory_path, trial?)))
}

/// How the topology expects this NIC to reach this GPU's memory.
fn expected(ctx: &Ctx<'_>, gpu: Bdf, nic: &RdmaDevice) -> Fact<RdmaPath> {
    let rows = ctx.topology.row_at(gpu).zip(ctx.topology.find(&nic.name));
    rows.map_or_else(Fact::default, |(gpu, nic)| ctx.topology.rdma_path(gpu, nic))
}

/// The topology's best NIC of a GPU, with its trial; any NIC with a trial if the topology has none.
fn best_nic<'a, 't>(
    ctx: &Ctx<'a>,
    gpu: Bdf,
    tried: impl Fn(&str) -> Option<&'t NicTrial>,
) -> Option<(&'a RdmaDevice, Option<&'t NicTrial>)> {
    let rows = &ctx.topology.rows;
    let of_gpu = |row: usize| rows.get(row).is_some_and(|row| row.bdf == Some(gpu));
    let pick = ctx.topology.matches.iter().find(|found| of_gpu(found.row))?.pick;
    let label = pick.and_then(|pick| rows.get(pick)).map(|row| row.label.as_str());
    match rdma_nics(ctx.facts).find(|nic| Some(nic.name.as_str()) == label) {
        Some(nic) => Some((nic, tried(&nic.name))),
        None => rdma_nics(ctx.facts).find_map(|nic| Some((nic, Some(tried(&nic.name)?)))),
    }
}

fn judge_paths(
    ctx: &Ctx<'_>,
    subject: String,
    nic: &RdmaDevice,
    paths: &MemoryPaths,
    (expected, coherent): (Option<RdmaPath>, bool),
) -> Judgement {
    let name = &nic.name;
    let why_not = |memory_path: &str, trial: &MemoryPathTrial| match memory_path {
        PEERMEM => why_not_peermem(trial),
        _ => why_not_dmabuf(trial),
    };
    let working: Vec<&str> = tried_paths(paths)
        .filter(|(memory_path, trial)| why_not(memory_path, trial).is_none())
        .map(|(memory_path, _)| memory_path)
        .collect();
    let wanted = match expected {
        Some(RdmaPath::DataDirect) => Some((DATA_DIRECT, &paths.data_direct)),
        // Other GPUs have one mapping.
        Some(RdmaPath::Pcie) if coherent => Some((DMABUF_PCIE, &paths.dmabuf_pcie)),
        Some(RdmaPath::Pcie | RdmaPath::C2c) | None => None,
    };
    if let (Some((memory_path, Some(trial))), Some(best)) = (wanted, working.first())
        && let Some(why) = why_not(memory_path, trial)
    {
        let path = expected.map_or("", RdmaPath::phrase);
        let message = format!(
            "{name} registers its memory by {best}, but not by {memory_path}, the memory path expected of this pair \
             ({path}): {why}."
        );
        return Judgement::info(subject, message).advice(ONE_GROUP);
    }
    match (why_not_dmabuf(&paths.dmabuf), why_not_peermem(&paths.peermem)) {
        _ if working.iter().any(|path| [DATA_DIRECT, DMABUF_PCIE].contains(path)) => {
            let message = format!("{name} registers its memory by {}.", words::list(working));
            Judgement::pass(subject, message)
        }
        (None, None) => Judgement::pass(
            subject,
            format!(
                "{name} registers its memory by both memory paths, dma-buf and nvidia-peermem."
            ),
        ),
        (None, Some(_)) => Judgement::pass(
            subject,
            format!(
                "{name} registers its memory by dma-buf. Software that knows only nvidia-peermem ({BY_ADDRESS} on a GPU pointer) cannot use this memory path."
            ),
        ),
        (Some(why), None) => Judgement::pass(
            subject,
            format!("{name} registers its memory only by nvidia-peermem: by dma-buf, {why}."),
        ),
        (Some(dmabuf), Some(peermem)) => {
            let message = format!(
                "{name} does not register its memory: by dma-buf, {dmabuf}; by nvidia-peermem, {peermem}."
            );
            remedy(ctx, Judgement::broken(subject, message), nic, paths)
        }
    }
}

/// Why registration by dma-buf failed, as a clause; `None` if it worked.
fn why_not_dmabuf(trial: &MemoryPathTrial) -> Option<String> {
    Some(match trial {
        MemoryPathTrial::Registered => return None,
        MemoryPathTrial::Withheld { reason } => format!("CUDA exports none of it ({reason})"),
        MemoryPathTrial::Refused(error) => match error.code {
            Some(EOPNOTSUPP) => {
                "the NIC's provider or driver cannot register it (errno 95)".to_owned()
            }
            Some(EPROTONOSUPPORT) => "the kernel cannot register it (errno 93)".to_owned(),
            Some(ENOTSUPP) => {
                "the GPU's driver does not map it for this NIC (ENOTSUPP, errno 524)".to_owned()
            }
            _ => refused(error),
        },
    })
}

/// Why registration by address failed, as a clause; `None` if it worked.
fn why_not_peermem(trial: &MemoryPathTrial) -> Option<String> {
    Some(match trial {
        MemoryPathTrial::Registered => return None,
        MemoryPathTrial::Withheld { reason } => format!("it is not for a NIC ({reason})"),
        MemoryPathTrial::Refused(error) => match error.code {
            Some(EFAULT) => "no module of the kernel knows the address (errno 14)".to_owned(),
            _ => refused(error),
        },
    })
}

fn refused(error: &VerbsError) -> String {
    match error.code {
        Some(EPERM) => "this process may not lock memory (errno 1)".to_owned(),
        Some(ENOMEM) => "it could not be pinned (errno 12)".to_owned(),
        Some(code) => format!("it failed (errno {code})"),
        None => error.reason.clone(),
    }
}

/// Advice for both memory paths; nvidia-peermem first, which gdr can load.
fn remedy(ctx: &Ctx<'_>, judgement: Judgement, nic: &RdmaDevice, paths: &MemoryPaths) -> Judgement {
    let judgement = remedy_by_address(ctx, judgement, nic, &paths.peermem);
    let known = driver(ctx.facts, nic);
    let known = known.known().and_then(|name| NicDriver::of(name));
    let dmabuf = match &paths.dmabuf {
        MemoryPathTrial::Registered => None,
        MemoryPathTrial::Withheld { .. } => {
            Some("see gpu.dmabuf for why CUDA exports no dma-buf.".to_owned())
        }
        MemoryPathTrial::Refused(error) => Some(match error.code {
            Some(EOPNOTSUPP | EPROTONOSUPPORT) | None => {
                let versions = known.map(|known| format!(": {}", known.dmabuf_versions()));
                format!(
                    "see rdma.core for what registers a dma-buf{}.",
                    versions.unwrap_or_default()
                )
            }
            Some(ENOMEM) => "see gpu.bar1 for the room to map it.".to_owned(),
            Some(ENOTSUPP) => {
                "see param.grdma-topo for which NICs the driver maps it, and the NVRM lines of the kernel log."
                    .to_owned()
            }
            Some(_) => "see the kernel log (dmesg) for the reason.".to_owned(),
        }),
    };
    match dmabuf {
        None => judgement,
        Some(dmabuf) => match judgement.fix {
            Some(_) => judgement.advice(format!("Or {dmabuf}")),
            None => judgement.advice(dmabuf.replacen("see", "See", 1)),
        },
    }
}

fn remedy_by_address(
    ctx: &Ctx<'_>,
    judgement: Judgement,
    nic: &RdmaDevice,
    trial: &MemoryPathTrial,
) -> Judgement {
    let error = match trial {
        MemoryPathTrial::Registered => return judgement,
        MemoryPathTrial::Withheld { .. } => {
            return judgement
                .advice("See gpu.rdma-capable: other devices may not access its memory.");
        }
        MemoryPathTrial::Refused(error) => error,
    };
    let known = driver(ctx.facts, nic);
    let provider = known.known().map(String::as_str);
    match (error.code, provider) {
        (Some(EFAULT), Some(name)) if !knows_peer_memory(name) => judgement,
        (Some(EFAULT), Some("efa")) => judgement.command("modprobe efa_nv_peermem"),
        (Some(EFAULT), _) => match peer_memory(ctx, nic, &known) {
            PathState::Open(_) => judgement.advice(
                "nvidia-peermem is loaded but does not pin this memory: see gpu.rdma-capable, gpu.bar1, \
                 and the NVRM and nvidia-peermem lines of the kernel log.",
            ),
            PathState::Closed(_) | PathState::Unknown(..) => peermem_remedy(ctx, judgement),
        },
        (Some(ENOMEM | EPERM), _) => judgement.advice(
            "Raise the limit of locked memory (limits.memlock), and see gpu.bar1: BAR1 may be full.",
        ),
        (None, _) | (Some(_), _) => {
            judgement.advice("See the kernel log (dmesg) for the reason, and peermem.loaded.")
        }
    }
}

#[cfg(test)]
mod tests;
