//! The GPUs and their driver.

mod bar1;
mod driver;
mod flavour;
mod present;

use super::Check;
use crate::model::Severity;
use bar1::bar1;
use driver::driver;
use flavour::flavour;
use present::present;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "gpu.present",
        rule: "At least one NVIDIA GPU is on the PCI bus, and the NVIDIA driver drives it.",
        sources: "/sys/bus/pci/devices",
        severity: Severity::Error,
        why: "GPUDirect begins with a GPU that the NVIDIA driver drives. One that is bound to vfio-pci belongs to a virtual machine, one bound to nouveau or nova to no CUDA program.",
        cure: "Seat the GPU, hand it to this machine or container, or bind it to the NVIDIA driver.",
        references: &["https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"],
        judge: present,
    },
    Check {
        id: "gpu.driver",
        rule: "The kernel module is loaded and NVML reaches it.",
        sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, NVML",
        severity: Severity::Error,
        why: "Without the kernel module no CUDA program starts. Libraries of another version than the module are refused: NVML answers 18, cuInit 803 or 804.",
        cure: "Install the driver, load its module, or reboot after an update so that module and libraries are of one version.",
        references: &[
            "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
            "https://docs.nvidia.com/deploy/cuda-compatibility/",
        ],
        judge: driver,
    },
    Check {
        id: "gpu.driver-flavour",
        rule: "The kernel modules' flavour drives this generation and exports dma-buf where it can.",
        sources: "/proc/driver/nvidia/version, PCI device ids",
        severity: Severity::Warn,
        why: "Open kernel modules drive Turing and later and can export GPU memory as dma-buf; the proprietary ones cannot, and need nvidia-peermem for RDMA. Open modules do not drive Maxwell, Pascal and Volta at all.",
        cure: "Install the flavour that suits the generation.",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules",
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        ],
        judge: flavour,
    },
    Check {
        id: "gpu.bar1",
        rule: "BAR1 is as large as the GPU's memory and not full.",
        sources: "/sys/bus/pci/devices/*/resource, NVML",
        severity: Severity::Warn,
        why: "A NIC and the CPU reach GPU memory through BAR1. Where it is small (256 MiB), registrations of more fail with out of memory or resource errors; where it is full, so do further ones.",
        cure: "Switch on Above 4G Decoding and Resizable BAR in the firmware; end the processes that hold mappings.",
        references: &["https://docs.nvidia.com/cuda/gpudirect-rdma/"],
        judge: bar1,
    },
];
