//! gpu.writes-ordering: the GPU sees NIC writes in order, or can flush them.

use super::reading::{CUDA, cuda_gpu, each, shown};
use crate::check::{Check, Ctx, Hint, Judgement, Source, words};
use crate::model::{ActionClass, Area, CudaGpu, Fact, Severity, Why};

/// Ordered for the GPU that owns the memory; 200 is for all GPUs (`CUGPUDirectRDMAWritesOrdering`).
const OWNER: u32 = 100;
const ALL_DEVICES: u32 = 200;
/// `cuFlushGPUDirectRDMAWrites` works (`CUflushGPUDirectRDMAWritesOptions`); 2 is a stream memory operation.
const HOST: u32 = 1;
const MEMOPS: u32 = 2;

pub const CHECK: Check = Check {
    id: "gpu.writes-ordering",
    rule: "The GPU sees NIC writes in order, or can flush them.",
    sources: "CUDA attributes 118, 117 and 98",
    severity: Severity::Warn,
    why: "A kernel that polls a flag may see it before the data that a NIC wrote earlier. If the GPU does not \
        keep the order, programs must flush, which needs a supported flush operation.",
    remedy: "Use a GPU that keeps the order, or let the receiver start a new kernel before it uses the data.",
    action: ActionClass::Nothing.running("https://docs.nvidia.com/cuda/gpudirect-rdma/index.html"),
    references: &[
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
        "https://docs.nvidia.com/cuda/gpudirect-rdma/index.html",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Cuda],
    hint: Some(Hint {
        cause: "What the NIC or CPU wrote is not yet visible to the GPU.",
        words: "visibility=4 gpudirect=3 gdrcopy=2 wrong-data=2 rdma=1 ordering=1",
    }),
    judge: ordering,
    ..Check::DEFAULT
};

fn ordering(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        let number = |fact: &Fact<u32>| match fact {
            Fact::Known(number) => number.to_string(),
            Fact::Unknown(_) => shown(&Fact::Unknown(fact.why().unwrap_or(Why::NotCovered))),
        };
        match cuda_gpu(ctx, device.bdf) {
            Err(gap) => gap.unknown(subject),
            Ok(gpu) if gpu.rdma == Fact::Known(false) && gpu.dma_buf != Fact::Known(true) => {
                Judgement::skip(subject, "It receives no remote writes: see gpu.rdma-capable.")
            }
            Ok(gpu) => judge(subject, gpu)
                .evidence(
                    format!("{CUDA}: GPU_DIRECT_RDMA_WRITES_ORDERING (118)"),
                    number(&gpu.rdma_ordering),
                )
                .evidence(
                    format!("{CUDA}: GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS (117)"),
                    number(&gpu.rdma_flush),
                )
                .evidence(
                    format!("{CUDA}: CAN_FLUSH_REMOTE_WRITES (98)"),
                    shown(&gpu.flush_remote_writes),
                ),
        }
    })
}

fn judge(subject: String, gpu: &CudaGpu) -> Judgement {
    match (&gpu.rdma_ordering, &gpu.rdma_flush, &gpu.flush_remote_writes) {
        (Fact::Known(ALL_DEVICES..), _, _) => Judgement::pass(
            subject,
            "All GPUs of the process see NIC writes in order: no flush is needed.",
        ),
        (Fact::Known(OWNER..), _, _) => Judgement::pass(
            subject,
            "This GPU sees NIC writes in order: no flush is needed on it.",
        ),
        (_, Fact::Known(options), _) if options & (HOST | MEMOPS) != 0 => {
            let how = match (options & HOST != 0, options & MEMOPS != 0) {
                (true, true) => "cuFlushGPUDirectRDMAWrites or a flush in the stream",
                (true, false) => "cuFlushGPUDirectRDMAWrites",
                _ => "a flush in the stream",
            };
            Judgement::pass(
                subject,
                format!("NIC writes are not in order by default: programs need {how}."),
            )
        }
        (_, _, Fact::Known(true)) => Judgement::pass(
            subject,
            "NIC writes may be out of order: a stream wait with a flush orders them.",
        ),
        (Fact::Known(_), Fact::Known(_), _) => Judgement::broken(
            subject,
            "NIC writes are out of order, and no flush is supported: a kernel may see a flag before the data.",
        )
        .advice("Let the receiver start a new kernel, or read back through the NIC (NCCL_NET_GDR_READ, \
                 gdrcopy), before it uses the data."),
        (Fact::Unknown(Why::NotCovered), _, _) => {
            Judgement::unknown(subject, Why::NotCovered, Area::Cuda, "CUDA attributes 117 and 118")
                .needs("a driver of CUDA 11.3 or later")
        }
        (Fact::Unknown(why), _, _) | (_, Fact::Unknown(why), _) => {
            Judgement::unknown(subject, *why, Area::Cuda, "CUDA attributes 117 and 118")
        }
    }
}
