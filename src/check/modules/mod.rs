//! Kernel modules beside the driver, and their nodes.

mod gdrdrv;
mod mapping;
mod peermem;
pub mod road;

use super::Check;
use crate::model::Severity;
use gdrdrv::gdrdrv;
use mapping::mapping;
use peermem::peermem;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "peermem.loaded",
        rule: "nvidia-peermem or dma-buf opens GPU memory to each NIC.",
        sources: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/modules, the NIC's driver, osrelease",
        severity: Severity::Warn,
        why: "A NIC needs to learn the bus addresses of GPU memory: from nvidia-peermem, or from the kernel through dma-buf. With neither, ibv_reg_mr of GPU memory answers EFAULT (Bad address), and programs fall back to staging through the host or stop.",
        cure: "modprobe nvidia-peermem, or use a kernel, driver and provider that register dma-bufs.",
        references: &[
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://docs.kernel.org/driver-api/dma-buf.html",
        ],
        judge: peermem,
    },
    Check {
        id: "gdrdrv.node",
        rule: "The node of gdrcopy's kernel module is there, is its own, and opens.",
        sources: "/dev/gdrdrv, /proc/devices, /sys/module/gdrdrv/version",
        severity: Severity::Info,
        why: "NVIDIA's libgdrapi maps GPU memory through /dev/gdrdrv. A node that is missing, stale or closed makes gdr_open fail; NCCL and UCX then do without. gdr's own library maps without it.",
        cure: "Load gdrdrv and make its node, or use gdr's libgdrapi.so.2.",
        references: &["https://github.com/NVIDIA/gdrcopy"],
        judge: gdrdrv,
    },
    Check {
        id: "mapping.backend",
        rule: "With --live: the CPU maps memory of each GPU, and every byte goes through right.",
        sources: "CUDA; gdrdrv, dma-buf and RM tried on memory of gdr's own",
        severity: Severity::Info,
        why: "Small copies between CPU and GPU are fastest through a mapping. Which way there is depends on driver, modules and permissions; only a trial tells.",
        cure: "Load gdrdrv, or use a driver whose memory can be mapped without it; the trial names what refuses.",
        references: &["docs: gdrcopy.md"],
        judge: mapping,
    },
];
