//! libcuda through crate `gpu`. Creates no context.

use gpu::{Attribute, CudaDevice, Failure, Kind, P2pAttribute};

use super::unknown;
use crate::model::{
    ComputeCapability, Cuda, CudaGpu, CudaOutcome, CudaPair, Fact, StreamMemops, Why,
};

/// Reads libcuda in this process; `one_of_each`: the environment shows it only one GPU per model.
pub fn read(one_of_each: bool) -> CudaOutcome {
    let cuda = match gpu::Cuda::open() {
        Ok(cuda) => cuda,
        Err(error) => {
            let reason = gpu::sentence(&error);
            return match error.kind() {
                Kind::Absent => CudaOutcome::Absent { reason },
                _ => CudaOutcome::Failed {
                    code: None,
                    reason,
                    library: None,
                    driver_version: Fact::default(),
                },
            };
        }
    };
    let library = Some(cuda.library().display().to_string());
    let driver_version = fact(cuda.version());
    match cuda.gpus() {
        Ok(gpus) => {
            let pairs = gpus.iter().flat_map(|from| gpus.iter().map(move |to| (*from, *to)));
            CudaOutcome::Read(Box::new(Cuda {
                library,
                driver_version,
                one_of_each,
                gpus: gpus.iter().copied().map(self::gpu).collect(),
                pairs: pairs
                    .filter(|(from, to)| from.ordinal() != to.ordinal())
                    .map(|(from, to)| pair(from, to))
                    .collect(),
            }))
        }
        Err(failure) => CudaOutcome::Failed {
            code: failure.result().and_then(|result| i32::try_from(result.0).ok()),
            reason: failure.to_string(),
            library,
            driver_version,
        },
    }
}

fn gpu(gpu: CudaDevice) -> CudaGpu {
    let number = |attribute| number(gpu.attribute(attribute));
    let flag = |attribute| number(attribute).map(|value| value != 0);
    let count = |attribute| number(attribute).and_then(natural);
    CudaGpu {
        ordinal: gpu.ordinal(),
        bdf: gpu.pci().and_then(|pci| pci.to_string().parse().ok()),
        name: fact(gpu.name()),
        compute: count(Attribute::COMPUTE_CAPABILITY_MAJOR).and_then(|major| {
            count(Attribute::COMPUTE_CAPABILITY_MINOR)
                .map(|minor| ComputeCapability { major, minor })
        }),
        integrated: flag(Attribute::INTEGRATED),
        stream_memops: StreamMemops {
            v1: flag(Attribute::CAN_USE_STREAM_MEM_OPS_V1),
            v1_64_bit: flag(Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1),
            v1_nor: flag(Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1),
            v2_64_bit: flag(Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS),
            v2_nor: flag(Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR),
        },
        flush_remote_writes: flag(Attribute::CAN_FLUSH_REMOTE_WRITES),
        rdma: flag(Attribute::GPU_DIRECT_RDMA_SUPPORTED),
        rdma_flush: count(Attribute::GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
        rdma_ordering: count(Attribute::GPU_DIRECT_RDMA_WRITES_ORDERING),
        dma_buf: flag(Attribute::DMA_BUF_SUPPORTED),
        fabric_handles: flag(Attribute::HANDLE_TYPE_FABRIC_SUPPORTED),
        // Valid only if the GPU is a NUMA node; otherwise the driver reports -1.
        memory_node: number(Attribute::NUMA_CONFIG).and_then(|config| match config {
            0 => Fact::Known(None),
            _ => count(Attribute::NUMA_ID).map(Some),
        }),
    }
}

fn pair(from: CudaDevice, to: CudaDevice) -> CudaPair {
    let flag = |attribute| number(from.p2p_attribute(to, attribute)).map(|value| value != 0);
    CudaPair {
        from: from.ordinal(),
        to: to.ordinal(),
        can_access: fact(from.can_access(to)),
        access: flag(P2pAttribute::ACCESS_SUPPORTED),
        atomics: flag(P2pAttribute::NATIVE_ATOMIC_SUPPORTED),
    }
}

/// An attribute; a driver that does not know it is older than the attribute.
fn number(answer: Result<Option<i32>, Failure>) -> Fact<i32> {
    fact(answer).and_then(|value| value.map_or(Fact::Unknown(Why::NotCovered), Fact::Known))
}

fn fact<T>(answer: Result<T, Failure>) -> Fact<T> {
    answer.map_or_else(|failure| Fact::Unknown(unknown(failure.kind())), Fact::Known)
}

fn natural(value: i32) -> Fact<u32> {
    u32::try_from(value).map_or(Fact::Unknown(Why::Broken), Fact::Known)
}
