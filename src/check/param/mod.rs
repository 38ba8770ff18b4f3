//! Parameters of the NVIDIA driver, as loaded.

mod peer_mapping;
mod registry_keys;
mod stream_memops;

use super::Check;
use crate::model::Severity;
use peer_mapping::peer_mapping;
use stream_memops::stream_memops;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "param.peer-mapping",
        rule: "A process without CAP_SYS_ADMIN may map a NIC's doorbell into the GPU.",
        sources: "/proc/driver/nvidia/params, /proc/self/status",
        severity: Severity::Warn,
        why: "GPUDirect Async has the GPU ring the NIC's doorbell, which the driver lets only a process with CAP_SYS_ADMIN map, unless PeerMappingOverride=1. Without it cuMemHostRegister with IOMEMORY answers 800.",
        cure: "Set NVreg_RegistryDwords=\"PeerMappingOverride=1;\" and load the module anew. It opens peer mappings to every user (CVE-2015-5053).",
        references: &[
            "https://github.com/gpudirect/libgdsync",
            "https://nvidia.custhelp.com/app/answers/detail/a_id/3802",
        ],
        judge: peer_mapping,
    },
    Check {
        id: "param.stream-memops",
        rule: "CUDA streams may wait for memory and write it.",
        sources: "driver and CUDA version, /proc/driver/nvidia/params",
        severity: Severity::Warn,
        why: "GPUDirect Async waits for and writes memory in stream order. From CUDA 11.7 (driver 515) on these operations are always there; before, cuStreamWaitValue32 answers 801 unless the driver was told to allow them.",
        cure: "Update the driver to R515 or later, or set NVreg_EnableStreamMemOPs=1.",
        references: &["https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html"],
        judge: stream_memops,
    },
];

/// The file that tells them. `/sys/module/nvidia/parameters` has only a few.
const PARAMS: &str = "/proc/driver/nvidia/params";
