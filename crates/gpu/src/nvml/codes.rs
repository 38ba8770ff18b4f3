//! NVML's enumerations as open lists: a number newer than nvml.h 13 stays a number.

use serde::{Deserialize, Serialize};

/// An enumeration over NVML's numbers, with `Unknown` for every other.
macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$variant_doc:meta])* $variant:ident = $number:literal, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $( $(#[$variant_doc])* $variant, )*
            /// A number without a name here: NVML's own "unknown", or one newer than this list.
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
    /// Whether one GPU may reach another in one way (`nvmlGpuP2PStatus_t`; after each, what `nvidia-smi topo -p2p`
    /// prints). NVML's own "unknown" is 6 (`U`).
    P2p {
        /// It may (`OK`).
        Ok = 0,
        /// The chipset forbids it (`CNS`).
        ChipsetNotSupported = 1,
        /// One of the GPUs cannot (`GNS`).
        GpuNotSupported = 2,
        /// The way between two I/O hubs forbids it (`TNS`).
        IohTopologyNotSupported = 3,
        /// A driver registry key forbids it (`DR`).
        DisabledByRegkey = 4,
        /// It may not, for no reason given (`NS`).
        NotSupported = 5,
    }

    /// The nearest point above two GPUs (`nvmlGpuTopologyLevel_t`), nearest first.
    CommonAncestor {
        /// One board.
        Internal = 0,
        /// A single PCIe switch.
        Single = 10,
        /// Several PCIe switches, no host bridge.
        Multiple = 20,
        /// The host bridge.
        Hostbridge = 30,
        /// Several host bridges of one NUMA node.
        Node = 40,
        /// The link between NUMA nodes.
        System = 50,
    }

    /// What is at the remote end of an NVLink (`nvmlIntNvLinkDeviceType_t`). NVML's own "unknown" is 255.
    RemoteDevice {
        /// Another GPU.
        Gpu = 0,
        /// An IBM POWER processor.
        Npu = 1,
        /// An NVSwitch.
        Switch = 2,
    }

    /// How far the GPU is registered with the NVLink fabric (`nvmlGpuFabricState_t`).
    FabricState {
        /// The GPU has no fabric to join.
        NotSupported = 0,
        /// The fabric manager has not begun.
        NotStarted = 1,
        /// Registration is in progress.
        InProgress = 2,
        /// Registration has ended; whether well, [`Fabric::status`](super::Fabric::status) tells.
        Completed = 3,
    }

    /// The fabric's health in one word (`healthSummary` of `nvmlGpuFabricInfo_v3_t`).
    FabricHealth {
        /// Not reported on this GPU.
        NotSupported = 0,
        /// Healthy.
        Healthy = 1,
        /// Unhealthy.
        Unhealthy = 2,
        /// Works with less than its full capacity.
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
        /// On a host that lends vGPUs.
        HostVgpu = 3,
        /// On a host that lends vSGA.
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

    /// The processor's memory encryption (`cpuCaps` of `nvmlConfComputeSystemCaps_t`).
    CpuProtection {
        /// None.
        None = 0,
        /// AMD SEV.
        AmdSev = 1,
        /// Intel TDX.
        IntelTdx = 2,
        /// AMD SEV-SNP.
        AmdSevSnp = 3,
        /// AMD SEV-SNP with vTOM.
        AmdSnpVtom = 4,
    }

    /// Where confidential computing runs (`environment` of `nvmlConfComputeSystemState_t`).
    Environment {
        /// Nowhere.
        Unavailable = 0,
        /// In simulation.
        Simulation = 1,
        /// In production.
        Production = 2,
    }

    /// How several GPUs of one confidential machine talk (`multiGpuMode` of `nvmlSystemConfComputeSettings_v1_t`).
    ProtectedLinks {
        /// Not at all, or without protection.
        None = 0,
        /// Protected PCIe: NVLink runs in the clear inside the trusted baseboard.
        ProtectedPcie = 1,
        /// NVLink encryption.
        Nvle = 2,
    }
}
