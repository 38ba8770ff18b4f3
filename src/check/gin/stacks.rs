//! What each library whose kernels drive NICs needs, as checks: the table in `docs/gpu-initiated.md`.

/// A library, and what it needs.
pub struct Stack {
    pub name: &'static str,
    pub needs: &'static [Requirement],
}

/// One requirement, and where it is written.
pub struct Requirement {
    /// The check that answers it.
    pub check: &'static str,
    pub text: &'static str,
    pub source: &'static str,
}

const fn needs(check: &'static str, text: &'static str, source: &'static str) -> Requirement {
    Requirement { check, text, source }
}

const NVSHMEM_GUIDE: &str =
    "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/abstract.html";
const NVSHMEM_345: &str =
    "https://docs.nvidia.com/nvshmem/release-notes-install-guide/release-notes/release-3405.html";
const NVSHMEM_ENV: &str = "https://docs.nvidia.com/nvshmem/api/gen/env.html";
const GIN: &str = "https://github.com/NVIDIA/nccl/pull/1845";
const GIN_TYPES: &str = "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/transport/net_ib/gin.cc";
const DEVICE_API: &str =
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html";
const DEEP_EP: &str =
    "https://github.com/deepseek-ai/DeepEP/blob/b306af06afd412c88e51e71802951606e40b7358/README.md";
const DEEP_EP_V1: &str = "https://github.com/deepseek-ai/DeepEP/blob/v1.2.1/third-party/README.md";
const DEEP_EP_V1_BUILD: &str = "https://github.com/deepseek-ai/DeepEP/blob/v1.2.1/setup.py";
const DEEP_EP_PROXY: &str = "https://github.com/deepseek-ai/DeepEP/pull/677";
const DEEP_EP_NICS: &str = "https://github.com/deepseek-ai/DeepEP/issues/759";
const DOCA: &str = "https://docs.nvidia.com/doca/archive/3-0-0/DOCA+GPUNetIO";
const GPUNETIO: &str = "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/transport/net_ib/gdaki/doca-gpunetio/src/doca_gpunetio.cpp";
const GPUNETIO_README: &str = "https://github.com/NVIDIA-DOCA/gpunetio/blob/v2.0.1/README.md";
const UCX: &str = "https://github.com/openucx/ucx/blob/v1.22.0/src/uct/ib/mlx5/gdaki/gdaki.c";
const EFA: &str = "https://github.com/aws/aws-ofi-nccl/issues/1369";
const EFA_GIN: &str = "https://github.com/aws/aws-ofi-nccl/blob/v1.21.0/RELEASENOTES.md";
const NVSHMEM_370: &str =
    "https://docs.nvidia.com/nvshmem/release-notes-install-guide/release-notes/release-3700.html";
const OSMEMDESC: &str = "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osmemdesc.c";
const NV_REG: &str =
    "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-reg.h";
const DEVX_RIGHTS: &str = "https://github.com/sgl-project/sglang/issues/12533";

pub const STACKS: &[Stack] = &[
    Stack {
        name: "NVSHMEM (IBGDA)",
        needs: &[
            needs(
                "gin.nvshmem",
                "3.4.5 or later; before, a doorbell that the driver maps for the GPU, or gdrcopy",
                NVSHMEM_345,
            ),
            needs("gin.architecture", "a Volta or later", NVSHMEM_GUIDE),
            needs(
                "rdma.async-nic",
                "a ConnectX-4 or later, the NICs with mlx5's queues",
                NVSHMEM_GUIDE,
            ),
            needs(
                "rdma.device",
                "the right to open /dev/infiniband/uverbs* for DEVX: 'cannot allocate mlx5dv_devx_uar' without",
                DEVX_RIGHTS,
            ),
            needs(
                "param.peer-mapping",
                "PeerMappingOverride=1 or CAP_SYS_ADMIN, for doorbells by the GPU",
                OSMEMDESC,
            ),
            needs(
                "rdma.uar-map",
                "the driver registers the doorbell's page (IOMEMORY), tried with --live",
                OSMEMDESC,
            ),
            needs(
                "pcie.iommu",
                "no IOMMU that translates, or DmaRemapPeerMmio=1 (the default), which maps the doorbell's page through it",
                NV_REG,
            ),
            needs(
                "rdma.register",
                "GPU memory registered by dma-buf or nvidia-peermem, for the heap and for queues",
                NVSHMEM_ENV,
            ),
            needs(
                "env.contradiction",
                "no variable that keeps it from dma-buf or asks for a doorbell that is not mapped",
                NVSHMEM_ENV,
            ),
        ],
    },
    Stack {
        name: "NVSHMEM (GPUNetIO)",
        needs: &[needs(
            "gin.nvshmem",
            "3.7.0 or later with NVSHMEM_REMOTE_TRANSPORT=gpunetio; for sends by kernels also NVSHMEM_GPUNETIO_ENABLE_GDAKI=1",
            NVSHMEM_370,
        )],
    },
    Stack {
        name: "DeepEP V1",
        needs: &[
            needs(
                "gin.nvshmem",
                "NVSHMEM with IBGDA; doorbells by the GPU, because it hangs with those of gdrcopy",
                DEEP_EP_PROXY,
            ),
            needs(
                "gin.architecture",
                "a Hopper or later: for an Ampere it has kernels of one node alone",
                DEEP_EP_V1_BUILD,
            ),
            needs("param.peer-mapping", "PeerMappingOverride=1 or CAP_SYS_ADMIN", DEEP_EP_V1),
            needs(
                "param.stream-memops",
                "memory operations in streams: by default since R515, else EnableStreamMemOPs=1",
                DEEP_EP_V1,
            ),
            needs("rdma.async-nic", "an mlx5 NIC", DEEP_EP_NICS),
            needs("rdma.device", "the right to open /dev/infiniband/uverbs*", DEVX_RIGHTS),
            needs(
                "rdma.register",
                "GPU memory registered by dma-buf or nvidia-peermem",
                DEEP_EP_V1,
            ),
        ],
    },
    Stack {
        name: "DeepEP V2",
        needs: &[
            needs("gin.nccl", "NCCL 2.30.4 or later", DEEP_EP),
            needs("gin.architecture", "a Hopper or later", DEEP_EP),
            needs("gpu.p2p-grant", "peer access between all GPUs of a node, over NVLink", DEEP_EP),
            needs("rdma.device", "an RDMA NIC that this process may open", DEEP_EP),
            needs("env.contradiction", "neither EP_DISABLE_GIN nor NCCL_GIN_ENABLE=0", DEEP_EP),
        ],
    },
    Stack {
        name: "NCCL (GIN)",
        needs: &[
            needs("gin.nccl", "NCCL 2.28.7 or later", DEVICE_API),
            needs("gin.architecture", "a Volta or later", GIN),
            needs("gpu.driver", "driver 510.40.3 or later", GIN),
            needs(
                "rdma.async-nic",
                "a ConnectX-4 or later, for doorbells by the GPU (GDAKI); other NICs have the proxy",
                GIN,
            ),
            needs("rdma.core", "rdma-core 44 or later", GIN),
            needs("gpu.dmabuf", "dma-buf (Linux 6.1 for queues) or nvidia-peermem", GIN),
            needs("peermem.loaded", "nvidia-peermem, where dma-buf is missing", GIN),
            needs(
                "param.peer-mapping",
                "PeerMappingOverride=1 or CAP_SYS_ADMIN; else a CPU thread rings (DOCA's CPU proxy)",
                GPUNETIO,
            ),
            needs(
                "env.contradiction",
                "no NCCL_GIN_ENABLE=0, and no NCCL_GIN_TYPE=2, which asks for the proxy",
                GIN_TYPES,
            ),
        ],
    },
    Stack {
        name: "DOCA GPUNetIO",
        needs: &[
            needs(
                "gin.doca",
                "libdoca_gpunetio.so.2 where the loader finds it, for programs of the DOCA SDK; no minimum is documented. NCCL has its own \
                 copy, and UCX took the headers alone until 1.20",
                GPUNETIO_README,
            ),
            needs("gin.architecture", "a Volta or later", GIN),
            needs("rdma.async-nic", "a ConnectX or BlueField with mlx5's queues", DOCA),
            needs(
                "param.peer-mapping",
                "PeerMappingOverride=1 or CAP_SYS_ADMIN; else a CPU thread rings (its CPU proxy)",
                GPUNETIO,
            ),
            needs("rdma.register", "nvidia-peermem or dma-buf", DOCA),
            needs(
                "gdrdrv.node",
                "gdrcopy, only to emulate queue pairs without doorbell records in software",
                GPUNETIO,
            ),
        ],
    },
    Stack {
        name: "UCX device API (rc_gda)",
        needs: &[
            needs("gin.ucx", "the plugin of rc_gda", UCX),
            needs("rdma.async-nic", "an mlx5 NIC", UCX),
            needs(
                "rdma.register",
                "GPU memory registered by dma-buf (since UCX 1.21) or nvidia-peermem: 'GDAKI not supported, please load Nvidia peermem driver' without",
                UCX,
            ),
            needs(
                "param.peer-mapping",
                "PeerMappingOverride=1 or CAP_SYS_ADMIN: 'GDAKI not supported, please add NVreg_RegistryDwords' without",
                UCX,
            ),
        ],
    },
    Stack {
        name: "aws-ofi-nccl (EFA-GDA)",
        needs: &[
            needs(
                "sw.net-plugin",
                "NCCL 2.31.2, the plugin 1.21, libfabric 2.6.0 built with an rdma-core that has completion counters of EFA, and Amazon's module \
                 efa 3.3.0: the EFA installer 1.50.0 has them",
                EFA,
            ),
            needs("env.contradiction", "NCCL_GIN_TYPE=5, which asks for it", EFA_GIN),
            needs("param.peer-mapping", "PeerMappingOverride=1", EFA),
            needs("gdrdrv.node", "gdrcopy 2.5, library and driver", EFA),
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::find;
    use crate::profile::{Profile, SHIPPED};

    #[test]
    fn requirements_are_checks_of_the_profile() {
        let (_, text) =
            SHIPPED.iter().find(|(name, _)| *name == "gpu-initiated").expect("the profile");
        let profile = Profile::parse("gpu-initiated", text, |_| true).expect("a profile");
        let needed: BTreeSet<&str> =
            STACKS.iter().flat_map(|stack| stack.needs).map(|need| need.check).collect();
        for check in &needed {
            assert!(find(check).is_some(), "{check}");
            assert!(profile.checks.contains_key(*check), "{check}");
        }
        for stack in STACKS {
            let checks: BTreeSet<&str> = stack.needs.iter().map(|need| need.check).collect();
            assert_eq!(checks.len(), stack.needs.len(), "{}", stack.name);
            assert!(stack.needs.iter().all(|need| need.source.starts_with("https://")));
        }
    }
}
