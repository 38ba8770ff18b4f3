//! rdma.uar-map: CUDA registers the doorbell of each mlx5 NIC for each GPU, tried with --live.

use super::register::with_trials;
use super::{MLX5, driver, each_mlx5, rdma_nics};
use crate::check::param::{PeerMapping, peer_mapping_remedy};
use crate::check::{Check, Ctx, Hint, Judgement, Source, words};
use crate::model::{
    ActionClass, Bdf, DoorbellTrial, DoorbellTrials, GpuRegistration, RdmaDevice, Severity,
};

const CALL: &str = "cuMemHostRegister with IOMEMORY";

// CUresult (cuda.h).
const INVALID_VALUE: u32 = 1;
const OPERATING_SYSTEM: u32 = 304;
const NOT_PERMITTED: u32 = 800;
const NOT_SUPPORTED: u32 = 801;

const ENOMEM: i32 = 12;

pub const CHECK: Check = Check {
    id: "rdma.uar-map",
    rule: "With --live: CUDA registers the doorbell page of an mlx5 NIC for each GPU.",
    sources: "under --live mlx5dv_init_obj on a queue pair in a thread domain, cuMemHostRegister with \
              CU_MEMHOSTREGISTER_IOMEMORY on its register",
    severity: Severity::Info,
    why: "With GPUDirect Async the GPU rings the NIC's doorbell. CUDA error 800: the driver \
        allows peer mappings only with CAP_SYS_ADMIN (PeerMappingOverride is off); 304: a \
        call to the operating system failed, as where the driver cannot follow the mapping in this kernel; \
        801: the kernel is too old for it, or the platform has no such mappings.",
    remedy: "For 800 set NVreg_RegistryDwords=\"PeerMappingOverride=1;\" for the nvidia module, \
        and reload it; for 304 use a driver made for this kernel. Until then a CPU thread \
        can ring the doorbell (gdr probe async --hca proxy).",
    action: ActionClass::Configure.drained("https://github.com/gpudirect/libgdsync/issues/97"),
    references: &[
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osmemdesc.c",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/os-mlock.c",
        "https://github.com/gpudirect/libgdsync/issues/97",
        "https://github.com/deepseek-ai/DeepEP/issues/163",
    ],
    explained_by: &["gpu.driver", "rdma.device", "param.peer-mapping"],
    reads: &[Source::Registration, Source::Modules],
    hint: Some(Hint {
        cause: "The GPU cannot map the NIC's doorbell.",
        words: "doorbell=6 unsupported=2 failure=1 nvshmem=1 gpu-word=1 not-permitted=1",
    }),
    judge: uar_map,
    ..Check::DEFAULT
};

/// One judgement for each mlx5 NIC with all GPUs of the host; several if the GPUs differ.
fn uar_map(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let may_be_mlx5 =
        |nic: &RdmaDevice| driver(ctx.facts, nic).known().is_none_or(|name| name == MLX5);
    if ctx.facts.rdma.known().is_none() || !rdma_nics(ctx.facts).any(may_be_mlx5) {
        return each_mlx5(ctx, |_| vec![]);
    }
    let skipped = "A doorbell is registered only with --live.";
    with_trials(ctx, skipped, "a trial of registering doorbells", |gpus, tried| {
        each_mlx5(ctx, |nic| judge(ctx, nic, gpus, tried))
    })
}

/// Result for a GPU and a NIC.
#[derive(Clone, Copy, PartialEq)]
enum PairResult<'a> {
    Trial(&'a DoorbellTrial),
    /// The GPU could not be opened.
    NoGpu(&'a str),
    /// CUDA does not show the GPU.
    Hidden,
    /// The trial did not include the NIC.
    NoNic,
    /// The trial did not include doorbells.
    Untried,
}

fn pair_result<'a>(nic: &RdmaDevice, gpu: Bdf, tried: &'a [GpuRegistration]) -> PairResult<'a> {
    match tried.iter().find(|tried| tried.bdf == Some(gpu)) {
        None => PairResult::Hidden,
        Some(tried) => match &tried.doorbells {
            None => PairResult::Untried,
            Some(DoorbellTrials::NotTried { reason }) => PairResult::NoGpu(reason),
            Some(DoorbellTrials::Tried(rdma_nics)) => {
                rdma_nics.get(&nic.name).map_or(PairResult::NoNic, PairResult::Trial)
            }
        },
    }
}

/// One judgement for each group of GPUs with equal results. They differ if one has its own registry key.
fn judge(
    ctx: &Ctx<'_>,
    nic: &RdmaDevice,
    gpus: &[Bdf],
    tried: &[GpuRegistration],
) -> Vec<Judgement> {
    let mut parts: Vec<(PairResult<'_>, Vec<Bdf>)> = Vec::new();
    for gpu in gpus {
        let result = pair_result(nic, *gpu, tried);
        match parts.iter_mut().find(|(other, _)| *other == result) {
            Some((_, those)) => those.push(*gpu),
            None => parts.push((result, vec![*gpu])),
        }
    }
    let whole = parts.len() == 1;
    let parts = parts.into_iter();
    parts
        .map(|(result, gpus)| {
            let names: Vec<String> = gpus.iter().map(|gpu| name(ctx, *gpu)).collect();
            let pairs = names.iter().map(|gpu| format!("{gpu}–{}", nic.name));
            let subject = if whole { nic.name.clone() } else { words::list(pairs) };
            judge_part(ctx, subject, nic, result, (&gpus, &words::list(&names)))
        })
        .collect()
}

/// The GPU's row name, or its address.
fn name(ctx: &Ctx<'_>, gpu: Bdf) -> String {
    let row = ctx.topology.rows.iter().find(|row| row.bdf == Some(gpu));
    row.map_or_else(|| gpu.to_string(), |row| row.name.clone())
}

fn judge_part(
    ctx: &Ctx<'_>,
    subject: String,
    nic: &RdmaDevice,
    result: PairResult<'_>,
    (gpus, who): (&[Bdf], &str),
) -> Judgement {
    let unknown = |reason: &str| {
        Judgement::undetermined(subject.clone(), format!("Cannot determine: {reason}."))
    };
    let called = format!("{CALL} on {} for {who}", nic.name);
    match result {
        PairResult::Trial(DoorbellTrial::Registered) => {
            Judgement::pass(subject, format!("{who} may ring its doorbell: CUDA registers its page."))
                .evidence(called, "registered")
        }
        PairResult::Trial(DoorbellTrial::Refused { code, reason }) => {
            refused(ctx, subject, (gpus, who), *code, reason).evidence(called, reason)
        }
        PairResult::Trial(DoorbellTrial::NoLibrary { reason }) => unknown(reason)
            .evidence("libmlx5.so.1", reason)
            .needs("rdma-core's library for mlx5, which gives the address of the doorbell (package ibverbs-providers; libibverbs on RPM systems): see rdma.provider"),
        PairResult::Trial(DoorbellTrial::Closed(error)) => unknown(&error.reason)
            .evidence(format!("ibv_open_device on {}", nic.name), &error.reason)
            .needs("a user who may open the NIC's node: see rdma.device"),
        PairResult::Trial(DoorbellTrial::Withheld(error)) => unknown(&error.reason)
            .evidence(format!("a queue pair of {}", nic.name), &error.reason)
            .needs(match error.code {
                Some(ENOMEM) => "room for a queue pair's memory: see limits.memlock",
                _ => "a queue pair with a doorbell register of its own, in a thread domain: see dmesg, and whether rdma-core is \
                      as new as the kernel (rdma.core)",
            }),
        PairResult::NoGpu(reason) => unknown(&format!("{who} cannot be used by this process"))
            .evidence("the trial", reason)
            .needs("a GPU that this process may use: see gpu.driver, and which processes use it"),
        PairResult::Hidden => unknown(&format!("CUDA does not show {who} to this process"))
            .evidence("the trial", "not among its GPUs")
            .needs("a process that sees all GPUs: see CUDA_VISIBLE_DEVICES and the container's devices"),
        PairResult::NoNic => unknown("it was not tried")
            .evidence("the trial", "not among its NICs")
            .needs("a NIC that libibverbs and libmlx5 support, among its first 64: see rdma.provider"),
        PairResult::Untried => unknown("the recorded trial did not include this")
            .evidence("the trial", "of an older gdr")
            .needs("gdr doctor --live of this version, or its snapshot"),
    }
}

/// The judgement on CUDA's error, with a remedy.
fn refused(
    ctx: &Ctx<'_>,
    subject: String,
    (gpus, who): (&[Bdf], &str),
    code: Option<u32>,
    reason: &str,
) -> Judgement {
    // The most restricted GPU decides.
    let mapping = || {
        let each = gpus.iter().map(|gpu| PeerMapping::of(ctx, *gpu));
        each.max().unwrap_or(PeerMapping::Shut)
    };
    let (why, mapping) = match code {
        Some(NOT_PERMITTED) => {
            let mapping = mapping();
            let although = match mapping {
                PeerMapping::Open => ", although PeerMappingOverride is on",
                PeerMapping::OpenNext(_) | PeerMapping::Shut => "",
            };
            let why = format!(
                "the driver refuses peer mappings to this process{although} (CUDA error 800, not permitted)"
            );
            (why, Some(mapping))
        }
        Some(OPERATING_SYSTEM) => {
            let why = "a call of the driver to the operating system failed (CUDA error 304): it could not follow this process's mapping in this kernel";
            (why.to_owned(), None)
        }
        Some(NOT_SUPPORTED) => {
            let why = "the kernel is too old for it, or the platform has no such mappings (CUDA error 801, not supported)";
            (why.to_owned(), None)
        }
        Some(INVALID_VALUE) => {
            let why =
                "CUDA does not recognize it as device registers (CUDA error 1, invalid value)";
            (why.to_owned(), None)
        }
        Some(_) | None => (reason.to_owned(), None),
    };
    let judgement = Judgement::broken(
        subject,
        format!(
            "{who} cannot ring its doorbell: {why}. Until then, a CPU thread can ring it (gdr probe async --hca proxy)."
        ),
    );
    if let Some(mapping) = mapping {
        return peer_mapping_remedy(ctx, judgement, &mapping);
    }
    match code {
        Some(OPERATING_SYSTEM) => judgement.advice(
            "Install a driver made for this kernel: the kernel's function changed from follow_pfn to follow_pte to follow_pfnmap_start (see gpu.min-driver, \
                 platform.kernel, and the NVRM lines of the kernel log).",
        ),
        Some(NOT_SUPPORTED) => judgement.advice(
            "Use a newer kernel and driver (see gpu.min-driver); if they are the newest, use the proxy on this platform.",
        ),
        _ => judgement.advice(
            "Read the NVRM and mlx5_core lines of the kernel log; gdr knows no remedy but the proxy.",
        ),
    }
}
