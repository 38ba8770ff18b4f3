//! The GPUs and their driver.

mod bar1;
mod capable;
mod cdmm;
mod dmabuf;
mod domain;
mod driver;
mod fabric;
mod flavour;
mod imex;
mod libcuda;
mod min_driver;
mod node;
mod nouveau;
mod nvlink;
mod ordering;
mod p2p;
mod present;
pub mod reading;
mod sharing;

pub use imex::is_of_domain;

use super::{Check, Source};
use crate::model::Severity;
use bar1::bar1;
use capable::capable;
use cdmm::cdmm;
pub use cdmm::is_by_driver;
use dmabuf::dmabuf;
use domain::domain;
use driver::driver;
use fabric::fabric;
use flavour::flavour;
use imex::imex;
use min_driver::min_driver;
use nouveau::nouveau;
use nvlink::nvlink;
use ordering::ordering;
use p2p::peer_access;
use present::present;
use sharing::{confidential, mig, persistence, vgpu};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "gpu.present",
        rule: "At least one NVIDIA GPU is on the PCI bus, and the NVIDIA driver drives it; \
            PCI bus, driver and NVML list the same GPUs.",
        sources: "/sys/bus/pci/devices, /proc/driver/nvidia/gpus, NVML",
        severity: Severity::Error,
        why: "GPUDirect begins with a GPU that the NVIDIA driver drives. A GPU bound to vfio-pci belongs to a \
            virtual machine; one bound to nouveau or nova cannot run CUDA. A GPU that one \
            list lacks has fallen off the bus or did not start.",
        remedy: "Reseat the GPU, pass it to this machine or container, or bind it to the NVIDIA driver.",
        references: &["https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"],
        explained_by: &["gpu.nouveau", "gpu.driver", "platform.container"],
        reads: &[Source::Nvml],
        judge: present,
    },
    Check {
        id: "gpu.driver",
        rule: "The kernel module is loaded, NVML reaches it and CUDA starts.",
        sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, NVML, cuInit",
        severity: Severity::Error,
        why: "Without the kernel module no CUDA program starts. Libraries whose version differs from the \
            module fail: NVML returns 18, cuInit 803 or 804. A newer libcuda of cuda-compat is valid if cuInit \
            accepts it.",
        remedy: "Install the driver, load its module, or reboot after an update so that module and libraries have the same \
            version.",
        references: &[
            "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
            "https://docs.nvidia.com/deploy/cuda-compatibility/",
        ],
        explained_by: &["gpu.nouveau", "platform.container"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: driver,
    },
    Check {
        id: "gpu.min-driver",
        rule: "The driver is new enough for the active profiles.",
        sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, CUDA, NVML",
        severity: Severity::Error,
        why: "nvidia-peermem comes with driver 470, dma-buf with 515 and open kernel modules, GPUDirect Async needs \
            361 and CUDA 8.0, gdrcopy 331.14. With older drivers a module is missing or a call is not supported.",
        remedy: "Install a newer driver.",
        references: &[
            "https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md",
            "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/515.43.04/kernel-open/nvidia/nv-dmabuf.c",
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: min_driver,
    },
    Check {
        id: "gpu.driver-flavour",
        rule: "The kernel module flavour supports this GPU generation and exports dma-buf if the generation can.",
        sources: "/proc/driver/nvidia/version, PCI device ids",
        severity: Severity::Warn,
        why: "Open kernel modules drive Turing and later and can export GPU memory as dma-buf; the proprietary ones \
            cannot, and need nvidia-peermem for RDMA. Open modules do not drive Maxwell, Pascal and Volta at all, and the \
            last proprietary ones for these are of branch 580.",
        remedy: "Install the flavour that supports the GPU generation.",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/README.md",
            "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html",
            "docs: NVIDIA, UNIX graphics feature deprecation schedule (forums.developer.nvidia.com), release 580",
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        ],
        explained_by: &["gpu.driver"],
        reads: &[],
        judge: flavour,
    },
    Check {
        id: "gpu.nouveau",
        rule: "No GPU is bound to nouveau, the kernel's own driver.",
        sources: "driver links of /sys/bus/pci/devices, /proc/modules",
        severity: Severity::Error,
        why: "The NVIDIA driver cannot bind a GPU that nouveau drives: nvidia-smi and CUDA do not see it.",
        remedy: "Block nouveau with 'blacklist nouveau' in /etc/modprobe.d, rebuild the initramfs, and reboot.",
        references: &["https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"],
        explained_by: &[],
        reads: &[],
        judge: nouveau,
    },
    Check {
        id: "gpu.rdma-capable",
        rule: "CUDA supports access to GPU memory by other devices, through nv-p2p or dma-buf.",
        sources: "CUDA attributes 116 and 124; before CUDA 11.3 the product",
        severity: Severity::Error,
        why: "Without it registering GPU memory with a NIC fails with EFAULT or EINVAL, and gdrcopy cannot pin. GeForce \
            has neither; a GPU that shares the CPU's memory needs neither.",
        remedy: "Use a data-centre or professional GPU; on one that shares the CPU's memory register host memory.",
        references: &[
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
            "https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: capable,
    },
    Check {
        id: "gpu.dmabuf",
        rule: "The driver exports the GPU's memory as dma-buf.",
        sources: "CUDA attribute 124, the kernel modules' flavour; with --live cuMemGetHandleForAddressRange",
        severity: Severity::Warn,
        why: "dma-buf is the memory path that needs only the modules of the driver and the RDMA stack. Without it \
            nvidia-peermem is the only memory path for RDMA.",
        remedy: "Install the open kernel modules, 515 or later, on Turing and later; else load nvidia-peermem.",
        references: &[
            "https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/kernel_open.html",
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Cuda, Source::Mapping],
        judge: dmabuf,
    },
    Check {
        id: "gpu.writes-ordering",
        rule: "The GPU sees NIC writes in order, or can flush them.",
        sources: "CUDA attributes 118, 117 and 98",
        severity: Severity::Warn,
        why: "A kernel that polls a flag may see it before the data that a NIC wrote earlier. If the GPU does not \
            keep the order, programs must flush, which needs a supported flush operation.",
        remedy: "Use a GPU that keeps the order, or let the receiver start a new kernel before it uses the data.",
        references: &[
            "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html",
            "https://docs.nvidia.com/cuda/gpudirect-rdma/index.html",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Cuda],
        judge: ordering,
    },
    Check {
        id: "gpu.bar1",
        rule: "BAR1 is as large as the GPU's memory and not full.",
        sources: "/sys/bus/pci/devices/*/resource, NVML",
        severity: Severity::Warn,
        why: "A NIC and the CPU reach GPU memory through BAR1. If it is small (256 MiB), larger registrations fail \
            with out of memory or resource errors; if it is full, every further registration fails.",
        remedy: "Enable Above 4G Decoding and Resizable BAR in the firmware; end the processes that hold mappings.",
        references: &[
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-reg.h",
        ],
        explained_by: &[],
        reads: &[Source::Nvml, Source::Cuda],
        judge: bar1,
    },
    Check {
        id: "gpu.mig",
        rule: "MIG is off when peer access or CPU mappings are needed.",
        sources: "NVML",
        severity: Severity::Warn,
        why: "Instances and GPUs in MIG mode have no peer-to-peer access, and gdr's rm backend \
            does not map their memory. RDMA to an instance works.",
        remedy: "Disable MIG (nvidia-smi -mig 0), or do without peer-to-peer.",
        references: &[
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml],
        judge: mig,
    },
    Check {
        id: "gpu.vgpu",
        rule: "The GPU is a whole GPU, not a virtual GPU.",
        sources: "NVML",
        severity: Severity::Warn,
        why: "GPUDirect RDMA and peer-to-peer work only on some types of virtual GPUs; on the others registration \
            fails.",
        remedy: "Pass the whole GPU through, or choose a type that NVIDIA lists for GPUDirect.",
        references: &[
            "https://docs.nvidia.com/ai-enterprise/release-7/latest/infra-software/vgpu/features/gpudirect.html",
            "https://docs.nvidia.com/ai-enterprise/release-8/8.1/infra-software/vgpu/features/p2p.html",
        ],
        explained_by: &[],
        reads: &[Source::Nvml],
        judge: vgpu,
    },
    Check {
        id: "gpu.confidential",
        rule: "Confidential computing does not block access to GPU memory.",
        sources: "NVML",
        severity: Severity::Warn,
        why: "With confidential computing, data that leaves the GPU is encrypted: its memory is not mapped through BAR1, and \
            neither a NIC nor the CPU can access it.",
        remedy: "Disable confidential computing if GPUDirect matters more.",
        references: &[
            "https://docs.nvidia.com/confidential-computing/",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/src/kernel/rmapi/mapping_cpu.c",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml],
        judge: confidential,
    },
    Check {
        id: "gpu.persistence",
        rule: "Persistence mode is on.",
        sources: "NVML, nvidia-persistenced.service",
        severity: Severity::Info,
        why: "Without it the driver releases a GPU when its last user exits: the next program waits a second or two, and \
            clocks and link start from a low-power state.",
        remedy: "systemctl enable --now nvidia-persistenced.",
        references: &["https://docs.nvidia.com/deploy/driver-persistence/"],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml],
        judge: persistence,
    },
    Check {
        id: "gpu.fabric",
        rule: "The GPU has joined the NVLink fabric of its switches.",
        sources: "NVML, PCI class 0680, cuInit, nvidia-fabricmanager.service",
        severity: Severity::Error,
        why: "On boards with NVLink switches CUDA does not start (802, system not yet initialised) until the fabric \
            manager has set the switches up; with confidential computing, until the GPUs are declared ready. NVLink connects the \
            GPUs of one clique only.",
        remedy: "Install and start nvidia-fabricmanager of the driver's version, in a guest on its host.",
        references: &[
            "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
            "docs: NVML, nvmlGpuFabricInfo_t: cliqueId",
            "docs: NVML, nvmlSystemSetConfComputeGpusReadyState (nvidia-smi conf-compute -srs)",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: fabric,
    },
    Check {
        id: "gpu.nvlink",
        rule: "No GPU has fewer NVLinks up than the other GPUs of its model in this machine.",
        sources: "NVML",
        severity: Severity::Warn,
        why: "A link that fails in training, or that an error (Xid 74, 144 to 150) has taken down, lowers the bandwidth to \
            all peers; a fabric manager may leave the GPU out. Links to switches and those of an SXM board are wired; \
            bridges may be absent by choice. Error counters run from the driver's load and have no documented limit, so they \
            are evidence only.",
        remedy: "Read the kernel log and the fabric manager's, reset the GPUs or reboot; if the links stay down, have the board \
            serviced.",
        references: &[
            "https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html",
            "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
            "https://github.com/Azure/azhpc-diagnostics/issues/73",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150",
        ],
        explained_by: &["gpu.driver", "gpu.fabric"],
        reads: &[Source::Nvml, Source::NvLinks],
        judge: nvlink,
    },
    Check {
        id: "gpu.imex",
        rule: "If NVLink connects machines, this user has a channel to share memory between them.",
        sources: "CUDA attribute 128, NVML, /proc/devices, /dev/nvidia-caps-imex-channels, nvidia-imex.service",
        severity: Severity::Warn,
        why: "Memory with fabric handles needs a channel node of nvidia-caps-imex-channels; without one its allocation \
            fails (800, not permitted). Within one machine file descriptors do the same, and no channel is \
            needed.",
        remedy: "Create the channel's node (mknod, or NVreg_CreateImexChannel0=1) and start nvidia-imex on all machines of \
            the domain.",
        references: &[
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/imexchannels.html",
            "https://github.com/NVIDIA/nccl/issues/1632",
            "https://github.com/NVIDIA/nvidia-modprobe/issues/9",
        ],
        explained_by: &["gpu.driver", "platform.container"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: imex,
    },
    Check {
        id: "gpu.nvlink-domain",
        rule: "A job over several machines of this NVLink domain has all it needs: one clique of the completed fabric, fabric \
            handles, an IMEX channel that opens, an IMEX daemon that is ready, and no variable that switches it off.",
        sources: "NVML, CUDA attribute 128, /dev/nvidia-caps-imex-channels, /etc/nvidia-imex, nvidia-imex.service, \
            nvidia-imex-ctl -q, /proc/self/environ",
        severity: Severity::Warn,
        why: "On GB200 and GB300 NVL72 NCCL uses NVLink between machines only if every GPU of the job has it; else it stops, or \
            falls back to the network without a word. What one machine cannot show is the other machines: their nodes files \
            and driver versions must be the same, and the fabric manager runs on the switch trays.",
        remedy: "Repair what the finding names; compare the machines with gdr fleet; nvidia-imex-ctl -N shows the whole domain.",
        references: &[
            "https://github.com/NVIDIA/nccl/blob/192610c9321b23deb0fad81cf51b99bc06849e85/src/mnnvl.cc",
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/deployment.html",
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/cmdservice.html",
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/289",
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/v0.4.1/cmd/compute-domain-daemon/main.go",
            "https://github.com/NVIDIA/DCGM/issues/308",
        ],
        explained_by: &["gpu.driver", "gpu.fabric", "gpu.imex", "platform.container"],
        reads: &[Source::Nvml, Source::Cuda],
        judge: domain,
    },
    Check {
        id: "gpu.cdmm",
        rule: "A coherent GPU's memory is managed by the kernel as a NUMA node, or by the driver.",
        sources: "/proc/driver/nvidia/params, NVML",
        severity: Severity::Info,
        why: "If the driver manages it (CDMM) it is not a NUMA node: malloc and numactl cannot use it, and the CPU \
            accesses it only through mappings.",
        remedy: "No fix is needed. CoherentGPUMemoryMode selects the mode.",
        references: &[
            "https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-580-65-06/index.html",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-reg.h",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml],
        judge: cdmm,
    },
    Check {
        id: "gpu.p2p-grant",
        rule: "The driver allows peer access between every two GPUs.",
        sources: "NVML peer-to-peer status, cuDeviceCanAccessPeer",
        severity: Severity::Warn,
        why: "Without it cudaDeviceEnablePeerAccess fails, and libraries copy through host memory. NVML \
            reports why: CNS chipset, GNS GPU, TNS topology, DR registry, NS not supported.",
        remedy: "Put the GPUs below one switch or socket, or connect them by NVLink; in a guest, configure on the host which GPUs are \
            peers.",
        references: &[
            "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
            "https://docs.nvidia.com/cuda/cuda-features-archive/",
        ],
        explained_by: &["gpu.driver"],
        reads: &[Source::Nvml, Source::NvmlPeers, Source::Cuda],
        judge: peer_access,
    },
];
