//! Kernel modules other than the driver, and their device nodes.

mod boot;
mod buildable;
mod gdrdrv;
mod legacy;
mod mapping;
mod peermem;

use super::{Check, Source};
use crate::model::Severity;
use boot::boot;
pub use boot::loads_module;
pub use buildable::buildable;
use gdrdrv::gdrdrv;
use legacy::legacy;
use mapping::mapping;
use peermem::peermem;
pub use peermem::remedy as peermem_remedy;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "peermem.loaded",
        rule: "nvidia-peermem or dma-buf gives each NIC access to GPU memory.",
        sources: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/modules, the NIC's driver, osrelease",
        severity: Severity::Warn,
        why: "A NIC needs the bus addresses of GPU memory: from nvidia-peermem, or from the kernel \
            through dma-buf. With neither, ibv_reg_mr of GPU memory returns EFAULT (Bad \
            address), and programs stage data through host memory or stop.",
        remedy: "modprobe nvidia-peermem, or use a kernel, driver and provider that register \
            dma-bufs.",
        references: &[
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://docs.kernel.org/driver-api/dma-buf.html",
        ],
        explained_by: &[
            "gpu.driver",
            "param.grdma-topo",
            "peermem.buildable",
            "peermem.legacy",
            "rdma.mixed-stack",
            "rdma.modules",
        ],
        reads: &[Source::Modules],
        judge: peermem,
    },
    Check {
        id: "peermem.buildable",
        rule: "nvidia-peermem is installed for this kernel, built against an RDMA stack that is \
            installed.",
        sources: "modules.dep and modules.symbols of the running kernel, /sys/kernel/mm/memory_peers",
        severity: Severity::Error,
        why: "If nvidia-peermem was built without an RDMA stack that supports peer memory, it does \
            not load: modprobe prints Invalid argument, and the kernel log has no message. If \
            the file is missing, modprobe cannot help.",
        remedy: "Install the RDMA stack first (DOCA-OFED), then the NVIDIA driver, and both again \
            after a kernel update; or use dma-buf with the open kernel modules.",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia-peermem/nvidia-peermem.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/pull/630",
        ],
        explained_by: &["rdma.mixed-stack"],
        reads: &[Source::Modules],
        judge: buildable,
    },
    Check {
        id: "peermem.legacy",
        rule: "Only one of nv_peer_mem and nvidia-peermem is loaded, and it matches the RDMA stack.",
        sources: "/sys/module/nv_peer_mem, /sys/module/nvidia_peermem, /sys/module/mlx5_core/version",
        severity: Severity::Warn,
        why: "Both modules register under the same name in the RDMA stack. nv_peer_mem with an \
            RDMA stack that it was not made for may deadlock the node when a program ends.",
        remedy: "With driver 470 or later use nvidia-peermem and remove nv_peer_mem; with an older \
            driver use nv_peer_mem 1.3 on MLNX_OFED 5.4-3.0.3.0, 5.5-1.0.3.2 or later.",
        references: &[
            "https://docs.nvidia.com/networking/display/MLNXOFEDv543030/Bug+Fixes+in+This+Version",
            "https://docs.nvidia.com/networking/display/mlnxofedv551032/bug+fixes+in+this+version",
            "https://github.com/Mellanox/nv_peer_memory/blob/1.3-0/README.md",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia-peermem/nvidia-peermem.c",
        ],
        explained_by: &[],
        reads: &[Source::Modules],
        judge: legacy,
    },
    Check {
        id: "peermem.boot",
        rule: "The peer memory module that is loaded now is loaded again after a reboot.",
        sources: "modules-load.d, /etc/modules, /etc/infiniband/nv_peer_mem.conf, multi-user.target.wants",
        severity: Severity::Warn,
        why: "Nothing loads nvidia-peermem automatically, because no device needs it. After a \
            reboot or a restart of the RDMA stack, registration of GPU memory fails with Bad \
            address.",
        remedy: "Name nvidia-peermem in a file of /etc/modules-load.d.",
        references: &["https://docs.nvidia.com/cuda/gpudirect-rdma/"],
        explained_by: &["peermem.loaded"],
        reads: &[Source::Modules],
        judge: boot,
    },
    Check {
        id: "gdrdrv.node",
        rule: "The device node of gdrcopy's kernel module exists, has the right device number and \
            can be opened; the module matches the driver. gdrcopy 2.6 works without it where CUDA is 13.3 or later.",
        sources: "/dev/gdrdrv, /proc/devices, /proc/driver/gdrdrv/params, /sys/module/gdrdrv/version",
        severity: Severity::Info,
        why: "NVIDIA's libgdrapi maps GPU memory through /dev/gdrdrv. If the node is missing, \
            stale or closed, gdr_open fails; NCCL and UCX then work without it. gdr's own \
            library needs no node.",
        remedy: "Load gdrdrv and create its node, or use gdr's libgdrapi.so.2.",
        references: &[
            "https://github.com/NVIDIA/gdrcopy/blob/v2.6/CHANGELOG.md",
            "https://github.com/NVIDIA/gdrcopy/blob/v2.6/src/gdrdrv/gdrdrv.c",
        ],
        explained_by: &["gpu.driver", "platform.container"],
        reads: &[Source::Software, Source::Cuda],
        judge: gdrdrv,
    },
    Check {
        id: "mapping.backend",
        rule: "With --live: the CPU maps memory of each GPU, and every byte arrives correctly.",
        sources: "CUDA; gdrdrv, dma-buf and RM, tried on memory that gdr allocates",
        severity: Severity::Info,
        why: "Small copies between CPU and GPU are fastest through a mapping. Driver, modules and \
            permissions decide which backend works; only a trial shows it.",
        remedy: "Load gdrdrv, or use a driver whose memory can be mapped without it; the trial shows \
            why each backend failed.",
        references: &["docs: gdrcopy.md", "https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md"],
        explained_by: &["gpu.driver"],
        reads: &[Source::Mapping],
        judge: mapping,
    },
];
