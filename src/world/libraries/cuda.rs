//! libcuda through crate `gpu`. Creates no context.

use gpu::{Attribute, DeviceSurvey, Failure, Kind, P2pAttribute, PairSurvey, Survey};

use crate::model::{
    ComputeCapability, Cuda, CudaGpu, CudaOutcome, CudaPair, Fact, StreamMemops, Why,
};

const ATTRIBUTES: [Attribute; 19] = [
    Attribute::INTEGRATED,
    Attribute::UNIFIED_ADDRESSING,
    Attribute::COMPUTE_CAPABILITY_MAJOR,
    Attribute::COMPUTE_CAPABILITY_MINOR,
    Attribute::CAN_USE_STREAM_MEM_OPS_V1,
    Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
    Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
    Attribute::CAN_FLUSH_REMOTE_WRITES,
    Attribute::HOST_REGISTER_SUPPORTED,
    Attribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    Attribute::GPU_DIRECT_RDMA_SUPPORTED,
    Attribute::GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
    Attribute::GPU_DIRECT_RDMA_WRITES_ORDERING,
    Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS,
    Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR,
    Attribute::DMA_BUF_SUPPORTED,
    Attribute::HANDLE_TYPE_FABRIC_SUPPORTED,
    Attribute::NUMA_CONFIG,
    Attribute::NUMA_ID,
];

const PEER_ATTRIBUTES: [P2pAttribute; 3] = [
    P2pAttribute::PERFORMANCE_RANK,
    P2pAttribute::ACCESS_SUPPORTED,
    P2pAttribute::NATIVE_ATOMIC_SUPPORTED,
];

/// Reads libcuda in this process; `one_of_each`: the environment shows it only one GPU per model.
pub fn read(one_of_each: bool) -> CudaOutcome {
    let survey = match gpu::survey(&ATTRIBUTES, &PEER_ATTRIBUTES) {
        Ok(survey) => survey,
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
    let library = Some(survey.library.display().to_string());
    let driver_version = value(&survey.version);
    let Survey { gpus, pairs, .. } = survey;
    match gpus {
        Ok(gpus) => CudaOutcome::Read(Box::new(Cuda {
            library,
            driver_version,
            one_of_each,
            gpus: gpus.iter().map(self::gpu).collect(),
            pairs: pairs.iter().map(pair).collect(),
        })),
        Err(failure) => CudaOutcome::Failed {
            code: failure.result().and_then(|result| i32::try_from(result.0).ok()),
            reason: failure.to_string(),
            library,
            driver_version,
        },
    }
}

fn gpu(gpu: &DeviceSurvey) -> CudaGpu {
    let number = |attribute| attribute_of(&gpu.attributes, attribute);
    let flag = |attribute| number(attribute).map(|value| value != 0);
    let count = |attribute| number(attribute).and_then(natural);
    CudaGpu {
        ordinal: gpu.ordinal,
        bdf: gpu.pci.and_then(|pci| pci.to_string().parse().ok()),
        name: value(&gpu.name),
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

fn pair(pair: &PairSurvey) -> CudaPair {
    let number = |attribute| attribute_of(&pair.attributes, attribute);
    let flag = |attribute| number(attribute).map(|value| value != 0);
    CudaPair {
        from: pair.from,
        to: pair.to,
        can_access: value(&pair.can_access),
        access: flag(P2pAttribute::ACCESS_SUPPORTED),
        atomics: flag(P2pAttribute::NATIVE_ATOMIC_SUPPORTED),
    }
}

fn attribute_of<A: PartialEq>(
    read: &[(A, Result<Option<i32>, Failure>)],
    attribute: A,
) -> Fact<i32> {
    let found = read.iter().find(|(name, _)| *name == attribute);
    found.map_or(Fact::default(), |(_, answer)| match value(answer) {
        Fact::Known(Some(value)) => Fact::Known(value),
        Fact::Known(None) => Fact::Unknown(Why::NotCovered),
        Fact::Unknown(why) => Fact::Unknown(why),
    })
}

fn value<T: Clone>(answer: &Result<T, Failure>) -> Fact<T> {
    match answer {
        Ok(value) => Fact::Known(value.clone()),
        Err(failure) if failure.kind() == Kind::Unsupported => Fact::Unknown(Why::NotCovered),
        Err(failure) if failure.kind() == Kind::Denied => Fact::Unknown(Why::Denied),
        Err(_) => Fact::Unknown(Why::Broken),
    }
}

fn natural(value: i32) -> Fact<u32> {
    u32::try_from(value).map_or(Fact::Unknown(Why::Broken), Fact::Known)
}
