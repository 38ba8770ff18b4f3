//! peermem.loaded: each NIC has a memory path to GPU memory, nvidia-peermem or dma-buf.
//!
//! Files show only that a path should work; a transfer proves it.

use super::buildable;
use crate::check::memory_path::{CLIENTS, MODULE, PathState, dma_buf, peer_memory};
use crate::check::version::{self, Generation};
use crate::check::{Check, Ctx, Hint, Judgement, Rule, Source, nics, passthrough, unidentified};
use crate::model::{
    ActionClass, Area, Fact, FasterPath, Ids, Missing, PciDevice, RdmaDevice, Severity, Why,
};
use crate::topo::{ForcedPcie, forced_pcie, forced_pcie_remedy, is_efa};

const DEVICES: &str = "/sys/bus/pci/devices";

pub const CHECK: Check = Check {
    id: "peermem.loaded",
    rule: "nvidia-peermem or dma-buf gives each NIC access to GPU memory.",
    sources: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/modules, the NIC's driver, osrelease",
    severity: Severity::Warn,
    why: "A NIC needs the bus addresses of GPU memory: from nvidia-peermem, or from the kernel \
        through dma-buf. With neither, ibv_reg_mr of GPU memory returns EFAULT (Bad \
        address), and programs stage data through host memory or stop.",
    remedy: "modprobe nvidia-peermem, or use a kernel, driver and provider that register \
        dma-bufs.",
    action: ActionClass::Configure.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://docs.kernel.org/driver-api/dma-buf.html",
    ],
    explained_by: &[
        "gpu.driver",
        "param.grdma-topo",
        "peermem.buildable",
        "peermem.legacy",
        "rdma.mixed-stack",
        "rdma.modules",
    ],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "No peer memory module opens GPU memory to the NIC, and dma-buf is not used instead.",
        words: "peermem=5 gpudirect=5 register=4 send-gdr=4 bad-address=3 receive-plain=3 missing=2 gpu-memory=2 \
            kv-transfer=2 nvshmem=2 rdma=1 failure=1 ucx=1 kernel-module=1 segfault=1 dmabuf=1 ofi=1 \
            unsupported=1 invalid=1 geforce=-1 slow=-1 mpi=-1 integrated-gpu=-2 storage=-2 gdrcopy=-2 memlock=-2 \
            no-memory=-2 bar1=-2 guest=-2 build=-2",
    }),
    closes: Some(FasterPath::GpuDirect),
    allows_path: true,
    judge: peermem,
    ..Check::DEFAULT
};

/// One judgement for each NIC.
fn peermem(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.rdma {
        return vec![Judgement::unknown("machine", why, Area::Sys, "/sys/class/infiniband")];
    }
    let rdma_nics: Vec<&RdmaDevice> = nics::rdma_nics(ctx.facts).collect();
    if rdma_nics.is_empty() {
        return vec![Judgement::skip("machine", "There is no NIC that could reach GPU memory.")];
    }
    if version::driver(ctx.facts) == Fact::Known(None) {
        return vec![Judgement::no_driver("machine")];
    }
    let mut gpus = passthrough::own_gpus(ctx.facts).peekable();
    if gpus.peek().is_none()
        && let Some(unidentified) = unidentified(ctx.facts)
    {
        return vec![unidentified];
    }
    let is_integrated = |gpu: &PciDevice| gpu.ids.known().is_some_and(Ids::is_integrated_gpu);
    if gpus.peek().is_some() && gpus.all(is_integrated) {
        let message = "The GPU shares the CPU's memory and has no GPUDirect RDMA, by design: a NIC can access memory from cuMemHostAlloc, \
             registered as host memory.";
        return vec![Judgement::info("machine", message)];
    }
    rdma_nics.into_iter().map(|nic| judge(ctx, nic)).collect()
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let provider = nics::driver(ctx.facts, nic);
    let peermem = peer_memory(ctx, nic, &provider);
    let dma_buf = dma_buf(ctx, &provider);
    let subject = nic.name.clone();
    let is_dma_buf_alone = matches!(
        (&peermem, &dma_buf),
        (PathState::Closed(_) | PathState::Unknown(..), PathState::Open(_))
    );
    let is_denied = if is_dma_buf_alone { is_denied_to_plugin(ctx, nic) } else { Ok(false) };
    let judgement = match (&peermem, &dma_buf) {
        _ if let Err(missing) = is_denied => Judgement::missing(subject, missing),
        _ if is_denied == Ok(true) => {
            let message = "No forced PCIe mapping: GPU memory is reachable through the default mapping of a dma-buf alone. The driver denies \
                 the one that NCCL's plugin for EFA (aws-ofi-nccl) asks for (param.grdma-topo).";
            Judgement::broken(subject, message).advice(forced_pcie_remedy(ctx.facts))
        }
        (PathState::Open(_), PathState::Open(_)) => Judgement::pass(
            subject,
            "Both memory paths to GPU memory should work: nvidia-peermem and dma-buf.",
        ),
        (PathState::Open(_), _) => {
            Judgement::pass(subject, "GPU memory should be reachable through nvidia-peermem.")
        }
        (PathState::Closed(_), PathState::Open(_)) => Judgement::pass(
            subject,
            "GPU memory should be reachable through dma-buf. Software that knows only \
             nvidia-peermem (ibv_reg_mr on a GPU pointer) cannot use this memory path.",
        ),
        (PathState::Unknown(..), PathState::Open(_)) => Judgement::pass(
            subject,
            "GPU memory should be reachable through dma-buf. Whether nvidia-peermem works too is unknown.",
        ),
        (PathState::Unknown(why, area, source), _)
        | (PathState::Closed(_), PathState::Unknown(why, area, source)) => {
            Judgement::unknown(subject, *why, *area, source)
        }
        (PathState::Closed(peermem), PathState::Closed(dma_buf)) => {
            let message = format!(
                "No memory path to GPU memory works: nvidia-peermem: {peermem}; dma-buf: {dma_buf}."
            );
            remedy(ctx, Judgement::broken(subject, message))
        }
    };
    let describe = |memory_path: &PathState| match memory_path {
        PathState::Open(why) => format!("open: {why}"),
        PathState::Closed(why) => format!("closed: {why}"),
        PathState::Unknown(why, _, source) => why.sentence(source),
    };
    judgement
        .evidence(format!("{MODULE}, {CLIENTS}"), describe(&peermem))
        .evidence("/proc/driver/nvidia/version, osrelease, the NIC's driver", describe(&dma_buf))
}

/// True if the driver denies an EFA the mapping that its plugin for NCCL asks for, for every coherent GPU, and there is no other GPU.
fn is_denied_to_plugin(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Result<bool, Missing> {
    let function = nic.place.present().and_then(|bdf| ctx.facts.device(*bdf));
    let Some(function) = function.filter(|function| is_efa(function)) else {
        return Ok(false);
    };
    let (mut denied, mut missing) = (false, None);
    for gpu in passthrough::own_gpus(ctx.facts) {
        match &gpu.ids {
            Fact::Known(ids) if ids.is_coherent_gpu() => {}
            Fact::Known(ids) if !ids.is_unknown_gpu() => return Ok(false),
            // An unknown model, or a function whose ids could not be read.
            _ => {
                let source =
                    format!("whether the memory of GPU {} is coherent with the CPU", gpu.bdf);
                missing = Some(Missing::new(Why::NotCovered, Area::Sys, source));
                continue;
            }
        }
        match forced_pcie(ctx.facts, gpu.bdf, function.bdf) {
            Ok(Some(ForcedPcie::Denied)) => denied = true,
            Ok(Some(ForcedPcie::Unproven)) => {
                let source = "whether this driver allows the forced PCIe mapping for an EFA";
                missing = Some(Missing::new(Why::NotCovered, Area::Sys, source));
            }
            Ok(Some(ForcedPcie::Allowed) | None) => return Ok(false),
            Err(unknown) => missing = Some(unknown),
        }
    }
    // A function that could not be identified may be such a GPU.
    let hidden = ctx.facts.devices().iter().find_map(|device| {
        Some(Missing::new(device.ids.why()?, Area::Sys, format!("{DEVICES}/{}/config", device.bdf)))
    });
    match missing.or(hidden.filter(|_| !denied)) {
        Some(missing) => Err(missing),
        None => Ok(denied),
    }
}

/// Advice on how to enable nvidia-peermem. Loading it helps only if it can be loaded and is not.
pub fn remedy(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    let branch = version::driver(ctx.facts).present().and_then(|version| version::branch(version));
    let peers = &ctx.facts.peer_memory;
    let open_possible =
        ctx.facts.gpus().all(|gpu| Generation::of_device(gpu) > Some(Generation::BeforeTuring));
    let other =
        if open_possible { "; or install the open kernel modules and use dma-buf" } else { "" };
    match (&peers.nvidia_peermem, &peers.clients, branch) {
        (_, _, Some(..470)) => judgement.advice(format!(
            "Install driver 470 or later, which brings nvidia-peermem, or nv_peer_mem for this one{other}."
        )),
        (Fact::Known(false), Fact::Known(Some(_)), _) => judgement.fix("peermem").command("modprobe nvidia-peermem"),
        (Fact::Known(true), ..) => judgement.advice(format!(
            "Reinstall the NVIDIA driver now that the RDMA stack (DOCA-OFED) is here, so that nvidia-peermem is built \
             with its symbols, then reload nvidia-peermem{other}."
        )),
        (not_loaded, ..) => {
            let judgement = judgement.command("modprobe nvidia-peermem").advice(format!(
                "'Invalid argument' means that the driver was built without the RDMA stack's symbols: then install \
                 DOCA-OFED and reinstall the driver{other}."
            ));
            // Its dependencies show that it can be loaded.
            let built = buildable(ctx).iter().any(|found| found.rule == Rule::Holds);
            if not_loaded == &Fact::Known(false) && built { judgement.fix("peermem") } else { judgement }
        }
    }
}
