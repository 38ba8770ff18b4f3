//! gpu.dmabuf: the driver exports GPU memory as dma-buf.

use super::reading::{CUDA, cuda_gpu, each, shown};
use crate::check::version::{self, Flavour, Generation};
use crate::check::{Check, Ctx, Hint, Judgement, Source, memory_path, words};
use crate::model::{
    ActionClass, Area, DmaBufTrial, Fact, MappingOutcome, PciDevice, Severity, Why,
};

pub const CHECK: Check = Check {
    id: "gpu.dmabuf",
    rule: "The driver exports the GPU's memory as dma-buf.",
    sources: "CUDA attribute 124, the kernel modules' flavour; with --live cuMemGetHandleForAddressRange",
    severity: Severity::Warn,
    why: "dma-buf is the memory path that needs only the modules of the driver and the RDMA stack. Without it a \
        NIC needs a peer memory module: nvidia-peermem, an EFA Amazon's efa_nv_peermem.",
    remedy: "Install the open kernel modules, 515 or later, on Turing and later; else load nvidia-peermem.",
    action: ActionClass::Install.drained("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/kernel_open.html",
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Cuda, Source::Mapping],
    hint: Some(Hint {
        cause: "The GPU's driver does not export GPU memory as dma-buf.",
        words: "dmabuf=6 gpu-memory=2 register=2 unsupported=2 gpudirect=2 peermem=2 open-flavour=2 bad-address=2 \
            rdma=1 failure=1 missing=1 driver=1 kv-transfer=1 storage=-2 gdrcopy=-2 memlock=-2 no-memory=-2",
    }),
    judge: dmabuf,
    ..Check::DEFAULT
};

fn dmabuf(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each(ctx, |device| judge(ctx, device))
}

fn judge(ctx: &Ctx<'_>, device: &PciDevice) -> Judgement {
    let subject = words::device(ctx, device.bdf);
    let gpu = match cuda_gpu(ctx, device.bdf) {
        Ok(gpu) => gpu,
        // Proprietary modules never export dma-buf.
        Err(_) if proprietary(ctx) => {
            return without(ctx, device, subject).evidence(CUDA, "not queried");
        }
        Err(gap) => return gap.unknown(subject),
    };
    let judgement = match (&gpu.dma_buf, trial(ctx, device)) {
        (Fact::Known(true), Some(DmaBufTrial::Refused { reason })) => Judgement::broken(
            subject,
            "CUDA reports dma-buf support, but the export failed: registration by dma-buf fails.",
        )
        .evidence("cuMemGetHandleForAddressRange", reason)
        .advice(
            "Read the NVRM lines of the kernel log; confidential computing prevents the \
                 export.",
        ),
        (Fact::Known(true), Some(DmaBufTrial::Exported)) => {
            Judgement::pass(subject, "Its memory was exported as dma-buf.")
                .evidence("cuMemGetHandleForAddressRange", "a descriptor")
        }
        (Fact::Known(true), _) => {
            Judgement::pass(subject, "Its memory can be exported as dma-buf.")
        }
        (Fact::Known(false), _) if gpu.integrated == Fact::Known(true) => Judgement::info(
            subject,
            "It shares the CPU's memory and exports no dma-buf, by design: a NIC can access memory from cuMemHostAlloc.",
        ),
        // Drivers before CUDA 11.7 lack the attribute and export nothing.
        (Fact::Known(false) | Fact::Unknown(Why::NotCovered), _) => without(ctx, device, subject),
        (Fact::Unknown(why), _) => {
            Judgement::unknown(subject, *why, Area::Cuda, "CUDA attribute 124")
        }
    };
    judgement.evidence(format!("{CUDA}: DMA_BUF_SUPPORTED (124)"), shown(&gpu.dma_buf))
}

/// Result of the export, if it was tried.
fn trial<'a>(ctx: &Ctx<'a>, device: &PciDevice) -> Option<&'a DmaBufTrial> {
    match ctx.facts.mapping.as_ref()?.known()? {
        MappingOutcome::Tried(gpus) => {
            gpus.iter().find(|gpu| gpu.bdf == Some(device.bdf))?.dma_buf.as_ref()
        }
        _ => None,
    }
}

fn proprietary(ctx: &Ctx<'_>) -> bool {
    version::flavour(ctx.facts) == Fact::Known(Some(Flavour::Proprietary))
}

/// Peer memory is the other memory path: if it is available, nothing is lost.
fn without(ctx: &Ctx<'_>, device: &PciDevice, subject: String) -> Judgement {
    let old = matches!(version::driver(ctx.facts).present(), Some(driver) if version::branch(driver) < Some(515));
    let before_turing = Generation::of_device(device) == Some(Generation::BeforeTuring);
    let (because, advice) = match (before_turing, proprietary(ctx), old) {
        (true, _, _) => (
            "GPUs before Turing are driven by the proprietary kernel modules, which export none",
            "Before driver 470 the module is nv_peer_mem.",
        ),
        (_, true, false) => (
            "the proprietary kernel modules export none",
            "Or install the open kernel modules of the same version.",
        ),
        (_, _, true) => (
            "drivers before 515 export none",
            "Before driver 470 the module is nv_peer_mem. Or install a driver of 515 or later with open \
             kernel modules.",
        ),
        (_, false, false) => (
            "the driver does not offer it here, as on some virtual GPUs",
            "The NVRM lines of the kernel log may say why the driver does not offer dma-buf.",
        ),
    };
    let open = memory_path::peer_memory_is_open(ctx);
    let module = memory_path::peer_module(ctx);
    let message = format!(
        "Memory not exported as dma-buf: {because}. {module} is the only memory path for RDMA"
    );
    match (open, ctx.facts.rdma.known().is_some_and(Vec::is_empty)) {
        (true, _) => Judgement::info(subject, format!("{message}, and it is open."))
            .evidence(module, "open: see peermem.loaded"),
        (false, true) => Judgement::info(subject, format!("{message}; there is no RDMA device.")),
        (false, false) => Judgement::broken(subject, format!("{message}."))
            .command(format!("modprobe {module}"))
            .advice(advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, GPU, NIC, assert_fix_says, bdf, bind, cuda_gpu, machine, only, set_device_id,
    };
    use crate::model::{Facts, GpuMapping, MappingTrial, Module, Outcome};

    fn exports(dma_buf: Fact<bool>) -> Facts {
        let mut facts = machine();
        cuda_gpu(&mut facts, |gpu| gpu.dma_buf = dma_buf);
        facts
    }

    fn no_peermem(facts: &mut Facts) {
        facts.peer_memory.clients = Fact::Known(None);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
    }

    #[test]
    fn nothing_is_lost_without_rdma_device() {
        let mut facts = exports(Fact::Known(false));
        no_peermem(&mut facts);
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("gpu.dmabuf", &facts).outcome, Outcome::Info);
    }

    #[test]
    fn efa_has_a_module_of_its_own() {
        let mut facts = exports(Fact::Known(false));
        facts.set_proprietary();
        bind(&mut facts, NIC, Some("efa"));
        // A client of nvidia-peermem does not help an EFA.
        no_peermem(&mut facts);
        assert_fix_says(&only("gpu.dmabuf", &facts), "modprobe efa_nv_peermem");
        assert!(only("gpu.driver-flavour", &facts).message.contains("so efa_nv_peermem is"));
        let module = Module { name: "efa_nv_peermem".to_owned(), users: Vec::new() };
        facts.kernel.modules = Fact::Known(vec![module]);
        assert_eq!(only("gpu.dmabuf", &facts).outcome, Outcome::Info);
        assert_eq!(only("gpu.driver-flavour", &facts).outcome, Outcome::Info);
    }

    #[test]
    fn never_advises_open_modules_before_turing() {
        let mut facts = exports(Fact::default());
        no_peermem(&mut facts);
        set_device_id(&mut facts, GPU, 0x1db4);
        let advice = |id, facts: &Facts| only(id, facts).fix.expect("advice").text();
        assert!(!advice("gpu.driver-flavour", &facts).contains("open"));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03";
        facts.driver.version_line = Fact::Known(Some(closed.to_owned()));
        assert!(!advice("gpu.dmabuf", &facts).contains("open"));
    }

    #[test]
    fn reports_attempted_export() {
        let with = |trial| {
            let mut facts = exports(Fact::Known(true));
            facts.mapping = Some(Fact::Known(MappingOutcome::Tried(vec![GpuMapping {
                bdf: Some(bdf(GPU)),
                ordinal: 0,
                trial: MappingTrial::NotTried { reason: String::new() },
                backends: Vec::new(),
                dma_buf: Some(trial),
            }])));
            only("gpu.dmabuf", &facts)
        };
        assert!(with(DmaBufTrial::Exported).message.contains("was exported"));
        let reason = "cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (801)".to_owned();
        assert_eq!(with(DmaBufTrial::Refused { reason }).outcome, Outcome::Warn);
    }
}
