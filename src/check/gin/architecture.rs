//! gin.architecture: kernels that drive NICs run on the GPU.

use crate::check::gpu::reading::{cuda_gpu, each};
use crate::check::{Check, Ctx, Judgement, Source, words};
use crate::model::{ActionClass, Area, ComputeCapability, Fact, Severity};

const SOURCE: &str = "libcuda.so.1: COMPUTE_CAPABILITY (75, 76)";
const VOLTA: ComputeCapability = ComputeCapability { major: 7, minor: 0 };
const HOPPER: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

pub const CHECK: Check = Check {
    id: "gin.architecture",
    rule: "Each GPU is a Volta or later. DeepEP's kernels between nodes need a Hopper or later (compute capability 9.0).",
    sources: "libcuda.so.1 (attributes 75, 76)",
    severity: Severity::Info,
    why: "Kernels that poll and ring need independent threads of a warp, and memory operations for the whole system: NVSHMEM, NCCL's GIN \
        and DOCA GPUNetIO are built for Volta and later, DeepEP for the instructions of Hopper.",
    remedy: "Use a GPU of a later generation; or the paths of these libraries that the CPU drives.",
    action: ActionClass::Nothing.running(
        "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/abstract.html",
    ),
    references: &[
        "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/abstract.html",
        "https://github.com/NVIDIA/nccl/pull/1845",
        "https://github.com/deepseek-ai/DeepEP/blob/b306af06afd412c88e51e71802951606e40b7358/README.md",
    ],
    reads: &[Source::Cuda],
    judge: architecture,
    ..Check::DEFAULT
};

fn architecture(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        let gpu = match cuda_gpu(ctx, device.bdf) {
            Ok(gpu) => gpu,
            Err(gap) => return gap.unknown(subject),
        };
        match gpu.compute {
            Fact::Unknown(why) => {
                Judgement::unknown(subject, why, Area::Cuda, "CUDA attributes 75 and 76")
            }
            Fact::Known(found) => {
                let ComputeCapability { major, minor } = found;
                judge(subject, found).evidence(SOURCE, format!("{major}.{minor}"))
            }
        }
    })
}

fn judge(subject: String, found: ComputeCapability) -> Judgement {
    if found < VOLTA {
        let message = "Older than Volta: NVSHMEM, NCCL's GIN, DOCA GPUNetIO and DeepEP have no kernels for it.";
        return Judgement::broken(subject, message).advice("Use a GPU of a later generation.");
    }
    if found < HOPPER {
        let message = "NVSHMEM, NCCL's GIN and DOCA GPUNetIO have kernels for it. DeepEP's kernels between nodes need a Hopper or later.";
        return Judgement::info(subject, message);
    }
    Judgement::pass(
        subject,
        "NVSHMEM, NCCL's GIN, DOCA GPUNetIO and DeepEP have kernels for its generation.",
    )
}
