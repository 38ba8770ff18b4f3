//! NVML enumerations as open lists: a value newer than nvml.h 13 stays a number.

use serde::{Deserialize, Serialize};

/// Enumeration of NVML numbers, with `Unknown` for all others.
macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$variant_doc:meta])* $variant:ident = $number:literal, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $( $(#[$variant_doc])* $variant, )*
            /// NVML's own "unknown", or a number newer than this list.
            Unknown(u32),
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                match number {
                    $( $number => Self::$variant, )*
                    other => Self::Unknown(other),
                }
            }
        }
    )* };
}

codes! {
    /// Peer-to-peer status for one capability (`nvmlGpuP2PStatus_t`; in parentheses the output of
    /// `nvidia-smi topo -p2p`). NVML's own "unknown" is 6 (`U`).
    P2p {
        /// Supported (`OK`).
        Ok = 0,
        /// Chipset not supported (`CNS`).
        ChipsetNotSupported = 1,
        /// One of the GPUs does not support it (`GNS`).
        GpuNotSupported = 2,
        /// Topology between I/O hubs not supported (`TNS`).
        IohTopologyNotSupported = 3,
        /// Disabled by a driver registry key (`DR`).
        DisabledByRegkey = 4,
        /// Not supported, without a reason (`NS`).
        NotSupported = 5,
    }

    /// Device at the remote end of an NVLink (`nvmlIntNvLinkDeviceType_t`). NVML's own "unknown" is
    /// 255.
    RemoteDevice {
        /// Another GPU.
        Gpu = 0,
        /// An IBM POWER processor.
        Npu = 1,
        /// An NVSwitch.
        Switch = 2,
    }

    /// State of the GPU's registration with the NVLink fabric (`nvmlGpuFabricState_t`).
    FabricState {
        /// The GPU has no fabric.
        NotSupported = 0,
        /// Registration has not started.
        NotStarted = 1,
        /// Registration is in progress.
        InProgress = 2,
        /// Registration ended, with the result in [`Fabric::status`](super::Fabric::status).
        Completed = 3,
    }

    /// Fabric health summary (`healthSummary` of `nvmlGpuFabricInfo_v3_t`).
    FabricHealth {
        /// Not reported on this GPU.
        NotSupported = 0,
        /// Healthy.
        Healthy = 1,
        /// Unhealthy.
        Unhealthy = 2,
        /// Works at reduced capacity.
        LimitedCapacity = 3,
    }

    /// How the GPU is virtualised (`nvmlGpuVirtualizationMode_t`).
    Virtualization {
        /// On bare metal.
        None = 0,
        /// Passed through to this virtual machine.
        Passthrough = 1,
        /// A vGPU in this virtual machine.
        Vgpu = 2,
        /// On a host that provides vGPUs.
        HostVgpu = 3,
        /// On a host that provides vSGA.
        HostVsga = 4,
    }

    /// The GPU's generation (`nvmlDeviceArchitecture_t`). NVML's own "unknown" is 4294967295.
    Architecture {
        /// Kepler.
        Kepler = 2,
        /// Maxwell.
        Maxwell = 3,
        /// Pascal.
        Pascal = 4,
        /// Volta.
        Volta = 5,
        /// Turing.
        Turing = 6,
        /// Ampere.
        Ampere = 7,
        /// Ada Lovelace.
        Ada = 8,
        /// Hopper.
        Hopper = 9,
        /// Blackwell.
        Blackwell = 10,
    }

    /// Multi-GPU mode of a confidential machine (`multiGpuMode` of
    /// `nvmlSystemConfComputeSettings_v1_t`).
    ProtectedLinks {
        /// No communication, or unprotected.
        None = 0,
        /// Protected PCIe: NVLink is unencrypted inside the trusted baseboard.
        ProtectedPcie = 1,
        /// NVLink encryption.
        Nvle = 2,
    }
}
