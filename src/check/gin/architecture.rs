//! gin.architecture: kernels that drive NICs run on the GPU.

use crate::check::gpu::reading::{cuda_gpu, each};
use crate::check::{Ctx, Judgement, words};
use crate::model::{Area, ComputeCapability, Fact};

const SOURCE: &str = "libcuda.so.1: COMPUTE_CAPABILITY (75, 76)";
const VOLTA: ComputeCapability = ComputeCapability { major: 7, minor: 0 };
const HOPPER: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

pub fn architecture(ctx: &Ctx<'_>) -> Vec<Judgement> {
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
        let message = "Its generation is older than Volta: NVSHMEM, NCCL's GIN, DOCA GPUNetIO and DeepEP have no kernels for it.";
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
