//! Parameters of the NVIDIA driver: as loaded, as configured for the next load, and in the initramfs.

mod conflict;
mod drift;
mod grdma_topo;
mod iomap_wc;
pub mod next;
mod peer_mapping;
pub mod registry_keys;
mod stream_memops;

use super::{Check, Source};
use crate::model::Severity;
use conflict::conflict;
pub use conflict::{Misspelt, for_device, keeps_out, misspelt, refused, shown, unreached};
use drift::drift;
use grdma_topo::grdma_topo;
use iomap_wc::iomap_wc;
use peer_mapping::peer_mapping;
pub use peer_mapping::{PeerMapping, doorbells_mapped, remedy as peer_mapping_remedy};
use stream_memops::stream_memops;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "param.peer-mapping",
        rule: "A process without CAP_SYS_ADMIN may map a NIC's doorbell into the GPU.",
        sources: "/proc/driver/nvidia/params, /proc/self/status",
        severity: Severity::Warn,
        why: "With GPUDirect Async the GPU rings the NIC's doorbell. The driver lets only a process with \
            CAP_SYS_ADMIN map the doorbell, unless PeerMappingOverride=1; otherwise cuMemHostRegister with IOMEMORY returns 800.",
        remedy: "Set NVreg_RegistryDwords=\"PeerMappingOverride=1;\" and reload the module. It allows peer mappings to \
            every user (CVE-2015-5053).",
        references: &[
            "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osmemdesc.c",
            "https://nvidia.custhelp.com/app/answers/detail/a_id/3802",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Modules],
        judge: peer_mapping,
    },
    Check {
        id: "param.stream-memops",
        rule: "CUDA streams may wait on memory and write it.",
        sources: "driver and CUDA version, /proc/driver/nvidia/params",
        severity: Severity::Warn,
        why: "GPUDirect Async waits on and writes memory in stream order. Since CUDA 11.7 (driver 515) these \
            operations are on by default; before, cuStreamWaitValue32 returns 801 unless a driver parameter enables \
            them.",
        remedy: "Update the driver to R515 or later, or set NVreg_EnableStreamMemOPs=1.",
        references: &[
            "https://docs.nvidia.com/cuda/archive/11.8.0/cuda-driver-api/group__CUDA__MEMOP.html",
            "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: stream_memops,
    },
    Check {
        id: "param.drift",
        rule: "The loaded driver, modprobe.d with the kernel's command line, and the initramfs have the same options.",
        sources: "/proc/driver/nvidia/params, modprobe.d, /proc/cmdline, the initramfs of the running kernel",
        severity: Severity::Warn,
        why: "A parameter takes effect when the driver is loaded. Later changes to files are not in effect, values set by \
            hand are lost after a reboot, and an initramfs that contains the driver loads it with the options from the day \
            it was built.",
        remedy: "Write the options into one file of /etc/modprobe.d, rebuild the initramfs (update-initramfs -u, \
            dracut -f, mkinitcpio -P), and reboot or reload the driver.",
        references: &[
            "https://man7.org/linux/man-pages/man5/modprobe.d.5.html",
            "docs: Linux, filesystems/ramfs-rootfs-initramfs, driver-api/early-userspace/buffer-format",
            "https://github.com/kmod-project/kmod",
        ],
        explained_by: &[],
        reads: &[Source::Modules],
        judge: drift,
    },
    Check {
        id: "param.conflict",
        rule: "No line of modprobe.d and no word of the kernel's command line keeps the modules from loading or their \
            options from reaching them.",
        sources: "modprobe.d, /proc/cmdline, /proc/driver/nvidia/params, /proc/modules",
        severity: Severity::Warn,
        why: "modprobe and the kernel do not report options that never reach the driver: of two NVreg_RegistryDwords \
            the last one counts, a misspelt parameter is ignored, options for a name that is not loaded have no effect, \
            and an install line may run any command.",
        remedy: "Put all registry keys into one NVreg_RegistryDwords, spell parameters as the driver does, write options \
            for the name that is loaded (for both where Debian loads nvidia-current), and remove conflicting \
            lines; then rebuild the initramfs.",
        references: &[
            "https://man7.org/linux/man-pages/man5/modprobe.d.5.html",
            "docs: Linux, admin-guide/kernel-parameters: module_blacklist",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-reg.h",
        ],
        explained_by: &[],
        reads: &[Source::Modules],
        judge: conflict,
    },
    Check {
        id: "param.grdma-topo",
        rule: "The driver allows NIC access to GPU memory for this topology.",
        sources: "driver version, /proc/driver/nvidia/params, PCI ids of the bridges, links of /sys/bus/pci/devices, iommu_group",
        severity: Severity::Warn,
        why: "Since 580.65.06 the driver rejects GPUDirect RDMA, by peermem and by dma-buf, if the root complex \
            is known not to carry peer traffic (Grace, Ampere Altra, AmpereOne) and GPU and NIC share no bridge: \
            ibv_reg_mr fails. Memory that is coherent with the CPU (GH200, GB200, GB300) has two mappings. The default one goes over \
            NVLink-C2C and is always allowed. The forced PCIe mapping needs one IOMMU group of GPU and NIC, or none at both; \
            GrdmaPciTopoCheckOverride=1 allows it from 570.86.15 to 590.48.01 and does not count from 595.44.02 on. \
            aws-ofi-nccl always asks for it, NCCL unless the path is P2C (a NIC of the GPU's CPU, below no bridge of the GPU's), \
            UCX for a Data Direct function. A denied one fails with errno 524, and NCCL falls back to sockets.",
        remedy: "Coherent GPUs: NVreg_GrdmaPciTopoCheckOverride=1 with a driver before 595, else one IOMMU group. Other GPUs: put GPU and \
            NIC below one PCIe switch; the parameter makes the driver map the memory, whether or not the root complex carries the traffic.",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/570.86.15/kernel-open/nvidia/nv-pci.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-pci.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-pci.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-dmabuf.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osinit.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-reg.h",
            "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/graph/paths.cc",
            "https://github.com/aws/aws-ofi-nccl/blob/9ddf2334/src/nccl_ofi_cuda.cpp",
            "https://github.com/openucx/ucx/blob/master/src/uct/cuda/cuda_copy/cuda_copy_md.c",
            "https://github.com/NVIDIA/aicr/pull/2607",
            "https://github.com/Azure/azhpc-images/pull/589",
        ],
        explained_by: &["gpu.driver"],
        reads: &[],
        judge: grdma_topo,
    },
    Check {
        id: "param.iomap-wc",
        rule: "The driver maps GPU memory for the CPU write-combined.",
        sources: "/proc/driver/nvidia/params, PCI ids of the bridges, /proc/cpuinfo",
        severity: Severity::Info,
        why: "With an uncached mapping each CPU store is a separate transfer: writes through gdrcopy take many \
            times as long, and on Arm unaligned ones raise SIGBUS. RmForceDisableIomapWC=1, BlueField-3 hosts, the \
            first Ampere Altra and, since driver 590, Arm guests have uncached mappings.",
        remedy: "Remove RmForceDisableIomapWC=1 from NVreg_RegistryDwords, unless GPUDirect Storage by P2PDMA needs it.",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/src/kernel/platform/chipset/chipset_info.c",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/src/kernel/virtualization/hypervisor/hypervisor.c",
            "https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/nvme-p2pdma-troubleshooting.html",
        ],
        explained_by: &["gpu.driver"],
        reads: &[],
        judge: iomap_wc,
    },
];

/// Ampere Computing's vendor id.
const AMPERE: u16 = 0x1def;

/// Lists all parameters; `/sys/module/nvidia/parameters` has only a few.
const PARAMS: &str = "/proc/driver/nvidia/params";
