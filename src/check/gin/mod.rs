//! GPU-initiated networking: what the libraries whose kernels drive NICs need beyond a doorbell, a NIC and registered memory, which other
//! families judge. [`STACKS`] has all that each of them needs.

mod architecture;
mod doca;
mod nccl;
mod nvshmem;
mod stacks;
mod ucx;

use super::{Check, Source};
use crate::model::{Library, Severity};
use architecture::architecture;
use doca::doca;
use nccl::nccl;
use nvshmem::nvshmem;
pub use stacks::{STACKS, Stack};
use ucx::ucx;

/// Where libraries are looked for.
const LIBRARIES: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH, Python packages";

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "gin.architecture",
        rule: "Each GPU is a Volta or later. DeepEP's kernels between nodes need a Hopper or later (compute capability 9.0).",
        sources: "libcuda.so.1 (attributes 75, 76)",
        severity: Severity::Info,
        why: "Kernels that poll and ring need independent threads of a warp, and memory operations for the whole system: NVSHMEM, NCCL's GIN \
            and DOCA GPUNetIO are built for Volta and later, DeepEP for the instructions of Hopper.",
        remedy: "Use a GPU of a later generation; or the paths of these libraries that the CPU drives.",
        references: &[
            "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/abstract.html",
            "https://github.com/NVIDIA/nccl/pull/1845",
            "https://github.com/deepseek-ai/DeepEP/blob/b306af06afd412c88e51e71802951606e40b7358/README.md",
        ],
        explained_by: &[],
        reads: &[Source::Cuda],
        judge: architecture,
    },
    Check {
        id: "gin.nvshmem",
        rule: "Each NVSHMEM starts IBGDA with the rights that processes have here: from 3.4.5 on without the GPU's access to the doorbell.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages; /proc/driver/nvidia/params, /proc/self/status",
        severity: Severity::Info,
        why: "NVSHMEM's IBGDA maps the NIC's doorbell for the GPU ('cudaHostRegister with IoMemory failed with error=800' where the driver \
            refuses). Before 3.4.5 the only other way is gdrcopy, with NVSHMEM_IBGDA_NIC_HANDLER=cpu; without both, IBGDA does not \
            start ('init failed for transport: IBGDA'), and NVSHMEM continues with its other transports. From 3.4.5 on it falls back to doorbells that a CPU thread rings, with words in host memory \
            (cpu_host_memory), which is slower and needs neither.",
        remedy: "gdr fix peer-mapping, for doorbells by the GPU; or NVSHMEM 3.4.5 or later.",
        references: &[
            "https://docs.nvidia.com/nvshmem/release-notes-install-guide/release-notes/release-3405.html",
            "https://github.com/NVIDIA/nvshmem/blob/v3.4.5-0/src/host/transport/transport.cpp",
            "https://github.com/NVIDIA/nvshmem/issues/23",
            "https://github.com/deepseek-ai/DeepEP/issues/163",
        ],
        explained_by: &[],
        reads: &[Source::Software, Source::Modules],
        judge: nvshmem,
    },
    Check {
        id: "gin.nccl",
        rule: "Each NCCL has GIN (2.28.7), and what the second version of DeepEP needs of it (2.30.4).",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages",
        severity: Severity::Info,
        why: "NCCL's device API has network operations since 2.28.7. The second version of DeepEP is built on it, and needs 2.30.4.",
        remedy: "Update NCCL: pip install 'nvidia-nccl-cu13>=2.30.4' --no-deps, or the package of the distribution.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html",
            "https://github.com/deepseek-ai/DeepEP/blob/b306af06afd412c88e51e71802951606e40b7358/README.md",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: nccl,
    },
    Check {
        id: "gin.doca",
        rule: "An installed DOCA GPUNetIO lies where the loader finds it.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, /opt/mellanox/doca/lib",
        severity: Severity::Info,
        why: "Programs of the DOCA SDK load libdoca_gpunetio.so.2, which the package doca-sdk-gpunetio has below /opt/mellanox/doca/lib. \
            NCCL's GIN has its own copy, and UCX needs none. No minimum is documented, so no version is too old for this check.",
        remedy: "Install doca-sdk-gpunetio, or add the directory of its library to LD_LIBRARY_PATH or to a file in /etc/ld.so.conf.d.",
        references: &[
            "https://docs.nvidia.com/doca/archive/3-0-0/DOCA+GPUNetIO",
            "https://github.com/NVIDIA/cuda-quantum/blob/20bd173df3abbdd6a8ce32b07be6ba1312664ca5/realtime/docs/user_guide.md",
            "https://github.com/NVIDIA-DOCA/gpunetio/blob/v2.0.1/README.md",
            "https://github.com/NVIDIA/nccl/tree/v2.30.7-1/src/transport/net_ib/gdaki/doca-gpunetio",
            "https://github.com/openucx/ucx/blob/v1.20.0/src/uct/ib/mlx5/gdaki/configure.m4",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: doca,
    },
    Check {
        id: "gin.ucx",
        rule: "Each UCX has the transport of its device API, rc_gda.",
        sources: "plugins beside libucp",
        severity: Severity::Info,
        why: "UCX's device API sends from kernels by the transport rc_gda, which is a plugin of its own (libuct_ib_mlx5_gda.so, package \
            ucx-ib-mlx5-gda). NIXL's kernels need it.",
        remedy: "Install the package ucx-ib-mlx5-gda (rpm of UCX 1.20 and later, deb of 1.20 alone), or build UCX where CUDA's compiler is installed.",
        references: &[
            "https://github.com/openucx/ucx/tree/v1.22.0/src/uct/ib/mlx5/gdaki",
            "https://github.com/openucx/ucx/blob/v1.22.0/ucx.spec.in",
            "https://github.com/openucx/ucx/blob/v1.20.1/debian/control.in",
            "https://github.com/ai-dynamo/nixl/pull/2250",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: ucx,
    },
];

/// The three numbers of a library's version.
fn version(library: &Library) -> Option<[u32; 3]> {
    let mut parts = library.version.as_deref()?.split('.');
    let mut next = || parts.next().map(str::parse::<u32>);
    let first = next()?.ok()?;
    let rest = [next(), next()].map(|part| part.and_then(Result::ok).unwrap_or(0));
    Some([first, rest[0], rest[1]])
}
