//! gpu.rdma-capable: CUDA reports that other devices may access GPU memory.

use super::reading::{CUDA, cuda, cuda_gpu, each, shown};
use crate::check::{Check, Ctx, Hint, Judgement, Source, words};
use crate::model::{ActionClass, Area, ComputeCapability, CudaGpu, Fact, PciDevice, Severity, Why};

/// Kepler, the first generation with GPUDirect RDMA.
const KEPLER: ComputeCapability = ComputeCapability { major: 3, minor: 0 };

pub const CHECK: Check = Check {
    id: "gpu.rdma-capable",
    rule: "CUDA supports access to GPU memory by other devices, through nv-p2p or dma-buf.",
    sources: "CUDA attributes 116 and 124; before CUDA 11.3 the product",
    severity: Severity::Error,
    why: "Without it registering GPU memory with a NIC fails with EFAULT or EINVAL, and gdrcopy cannot pin. GeForce \
        has neither; a GPU that shares the CPU's memory needs neither.",
    remedy: "Use a data-centre or professional GPU; on one that shares the CPU's memory register host memory.",
    action: ActionClass::Nothing.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
        "https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "This GPU does not open its memory to other devices.",
        words: "geforce=4 gpudirect=4 unsupported=3 gpu-memory=1 register=1 vmm=4 gdrcopy=2 integrated-gpu=5 \
            peermem=1 failure=1 managed=3 p2p=-3 rdma=1 invalid=1 mpi=-2",
    }),
    judge: capable,
    ..Check::DEFAULT
};

/// nv-p2p or dma-buf is enough.
fn capable(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        match cuda_gpu(ctx, device.bdf) {
            Ok(gpu) => judge(ctx, subject, device, gpu)
                .evidence(format!("{CUDA}: GPU_DIRECT_RDMA_SUPPORTED (116)"), shown(&gpu.rdma))
                .evidence(format!("{CUDA}: DMA_BUF_SUPPORTED (124)"), shown(&gpu.dma_buf)),
            Err(gap) => gap.unknown(subject),
        }
    })
}

fn judge(ctx: &Ctx<'_>, subject: String, device: &PciDevice, gpu: &CudaGpu) -> Judgement {
    let paths = match (&gpu.rdma, &gpu.dma_buf) {
        (Fact::Known(true), Fact::Known(true)) => {
            "by nv-p2p (nvidia-peermem, gdrdrv) and by dma-buf"
        }
        (Fact::Known(true), _) => "by nv-p2p (nvidia-peermem, gdrdrv)",
        (_, Fact::Known(true)) => "by dma-buf",
        // A driver without the second attribute exports no dma-buf.
        (Fact::Known(false), Fact::Known(false) | Fact::Unknown(Why::NotCovered)) => {
            return none(subject, gpu);
        }
        (Fact::Known(false), Fact::Unknown(why)) => {
            return Judgement::unknown(subject, *why, Area::Cuda, "CUDA attribute 124");
        }
        (Fact::Unknown(Why::NotCovered), _) if is_too_old(ctx) => {
            return by_product(subject, device, gpu);
        }
        (Fact::Unknown(why), _) => {
            return Judgement::unknown(subject, *why, Area::Cuda, "CUDA attributes 116 and 124");
        }
    };
    Judgement::pass(subject, format!("Other devices can access its memory {paths}."))
}

fn none(subject: String, gpu: &CudaGpu) -> Judgement {
    match gpu.integrated {
        Fact::Known(true) => Judgement::info(
            subject,
            "It shares the CPU's memory and has no GPUDirect RDMA, by design: a NIC can access memory from cuMemHostAlloc.",
        )
        .advice("Allocate with cuMemHostAlloc and register that memory as host memory (ibv_reg_mr)."),
        _ => Judgement::broken(
            subject,
            "No GPUDirect RDMA: CUDA offers it neither by nv-p2p nor by dma-buf, so that its memory cannot be registered \
             with a NIC, nor mapped by gdrcopy.",
        )
        .advice("Use a data-centre or professional GPU (once Tesla and Quadro): others stage through host \
                 memory. A virtual GPU and confidential computing disable it too: see gpu.vgpu and \
                 gpu.confidential."),
    }
}

/// True if the driver is older than CUDA 11.3, which brought attribute 116.
fn is_too_old(ctx: &Ctx<'_>) -> bool {
    let version = cuda(ctx).ok().and_then(|cuda| cuda.driver_version.known());
    version.is_some_and(|version| *version < 11_030)
}

/// Drivers before CUDA 11.3 lack the attribute, so the product decides.
fn by_product(subject: String, device: &PciDevice, gpu: &CudaGpu) -> Judgement {
    const OLD: &str = "the driver is too old to report it (before CUDA 11.3)";
    let name = gpu.name.known().map_or("", String::as_str);
    let consumer = ["GeForce", "TITAN", "GTX"].iter().any(|word| name.contains(word));
    // 3D controllers have no display: the data-centre boards.
    let board = device.ids.known().is_some_and(|ids| ids.class_and_subclass() == 0x0302);
    let professional = board || ["Tesla", "Quadro"].iter().any(|word| name.contains(word));
    let old_enough = gpu.compute.known().is_some_and(|compute| *compute >= KEPLER);
    let judgement = match (consumer, professional, &gpu.compute) {
        (true, _, _) => Judgement::broken(
            subject,
            format!("It is not a data-centre or professional GPU, and has no GPUDirect RDMA; {OLD}."),
        )
        .advice(
            "Use a data-centre or professional GPU (once Tesla and Quadro): others stage through host \
                 memory.",
        ),
        (_, true, Fact::Known(_)) if !old_enough => Judgement::broken(
            subject,
            format!("It is older than Kepler, and has no GPUDirect RDMA; {OLD}."),
        )
        .advice("Use a GPU of the Kepler generation or later."),
        (_, true, Fact::Known(_)) => Judgement::pass(
            subject,
            format!("A data-centre or professional GPU of Kepler or later, which has GPUDirect RDMA; {OLD}."),
        ),
        _ => Judgement::unknown(subject, Why::NotCovered, Area::Cuda, "CUDA attributes 116 and 124")
            .needs("a driver of CUDA 11.3 or later"),
    };
    let judgement = judgement.evidence(format!("{CUDA}: name"), name);
    match gpu.compute {
        Fact::Known(ComputeCapability { major, minor }) => {
            judgement.evidence(format!("{CUDA}: compute capability"), format!("{major}.{minor}"))
        }
        Fact::Unknown(_) => judgement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{cuda_gpu, findings, machine, only};
    use crate::model::{CudaOutcome, Facts, Outcome};

    fn with(rdma: Fact<bool>, dma_buf: Fact<bool>) -> Facts {
        let mut facts = machine();
        cuda_gpu(&mut facts, |gpu| (gpu.rdma, gpu.dma_buf) = (rdma, dma_buf));
        facts
    }

    #[test]
    fn old_driver_is_judged_by_product() {
        for (name, class, major, outcome) in [
            ("Tesla P100-PCIE-16GB", 0x03_0200, 6, Outcome::Pass),
            ("Quadro M6000", 0x03_0000, 5, Outcome::Pass),
            ("Tesla M2090", 0x03_0200, 2, Outcome::Fail),
            ("GeForce GTX 1080", 0x03_0000, 6, Outcome::Fail),
            ("Graphics Device", 0x03_0000, 6, Outcome::Unknown),
        ] {
            let mut facts = with(Fact::default(), Fact::default());
            // A driver of CUDA 13 has the attribute: it was not recorded.
            assert_eq!(only("gpu.rdma-capable", &facts).outcome, Outcome::Unknown);
            if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
                cuda.driver_version = Fact::Known(11_020);
            }
            cuda_gpu(&mut facts, |gpu| {
                gpu.name = Fact::Known(name.to_owned());
                gpu.compute = Fact::Known(ComputeCapability { major, minor: 0 });
            });
            for device in crate::check::testing::Edit::devices_mut(&mut facts) {
                device.ids = device.ids.clone().map(|ids| crate::model::Ids {
                    class: if ids.is_nvidia_gpu() { class } else { ids.class },
                    ..ids
                });
            }
            assert_eq!(only("gpu.rdma-capable", &facts).outcome, outcome, "{name}");
        }
    }

    #[test]
    fn one_gpu_stands_for_its_model() {
        let mut facts = crate::check::testing::two_gpus("0000:05:00.0");
        let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda else {
            panic!("no CUDA");
        };
        cuda.gpus.truncate(1);
        cuda.pairs.clear();
        assert_eq!(
            findings("gpu.rdma-capable", &facts, &[]).len(),
            2,
            "one passes, one is unknown"
        );
        if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
            cuda.one_of_each = true;
        }
        let found = only("gpu.rdma-capable", &facts);
        assert_eq!(found.outcome, Outcome::Pass);
        assert!(
            found.subject.contains("GPU0") && found.subject.contains("GPU1"),
            "{}",
            found.subject
        );
        // Of another model nothing is known.
        crate::check::testing::set_device_id(&mut facts, "0000:05:00.0", 0x2330);
        assert_eq!(findings("gpu.rdma-capable", &facts, &[]).len(), 2);
    }
}
