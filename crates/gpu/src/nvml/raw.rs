//! NVML calls: the only file of this module with unsafe code.
//!
//! Rules for soundness:
//! - The binding's `NvmlLib` finds each function by its name, with the type from nvml.h by bindgen.
//!   A file that exports NVML's names without being NVML cannot be detected.
//! - A [`Device`] is only created here, from a handle of its session's library, and borrows the
//!   session; NVML keeps handles valid until `nvmlShutdown`, which is never called.
//! - Threads may call at the same time: "NVML is thread-safe so it is safe to make simultaneous NVML calls from multiple
//!   threads" (NVML API Reference Guide, R535 to R590).
//! - Out-parameters are initialised plain integers, or structures and arrays of them, valid for
//!   every bit pattern: enumerations are bound as integers, so a value newer than the binding is a
//!   number, not undefined behaviour.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfoV_t, nvmlMemory_t, nvmlPciInfo_t,
    nvmlSystemConfComputeSettings_t, nvmlValue_t,
};

use super::failure::{ARGUMENT_VERSION_MISMATCH, Answer, Failure, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::session::Nvml;

/// Longer than every string NVML returns (`NVML_DEVICE_NAME_V2_BUFFER_SIZE` and `..._UUID_V2_...`
/// are 96).
const TEXT: usize = 128;
/// `NVML_ERROR_UNKNOWN`.
const UNKNOWN: u32 = 999;

/// Registration with the NVLink fabric (`nvmlGpuFabricInfo_v3_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fabric {
    /// Registration state (`nvmlGpuFabricState_t`).
    pub state: u32,
    /// NVML return code of the registration (0 is success); valid once the state is "completed".
    pub status: u32,
    /// GPUs of the same cluster and clique can access one another.
    pub clique_id: u32,
    /// The cluster; all zero inside one machine.
    pub cluster_uuid: [u8; 16],
    /// Health summary; `None` before version 3 of the structure.
    pub health: Option<u32>,
}

/// One GPU of a session.
#[derive(Clone, Copy)]
pub struct Device<'s> {
    session: &'s Nvml,
    handle: nvmlDevice_t,
}

// SAFETY: the handle is a number for NVML, which accepts it from every thread.
unsafe impl Send for Device<'_> {}
// SAFETY: as for `Send`; NVML synchronises its calls.
unsafe impl Sync for Device<'_> {}

/// Calls a function, which the library may lack.
macro_rules! call {
    ($session:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $session.lib().$function.as_ref() {
            Err(_) => Err(Failure::missing(stringify!($function))),
            // SAFETY: the function has the type the arguments were checked against (first rule
            // above), handles come from a `Device` of this session (second), and each pointer is a
            // unique reference to an initialised integer, structure or array (third) that outlives
            // the call; lengths passed beside a pointer are that array's own.
            Ok(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                code => Err(Failure::returned(stringify!($function), code)),
            },
        }
    };
}

/// Methods for functions that give one number.
macro_rules! numbers {
    ($( $(#[$doc:meta])* $method:ident = $function:ident; )*) => { impl Device<'_> { $(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// NVML's [`Failure`].
        pub fn $method(self) -> Answer<u32> {
            let mut out = 0;
            call!(self.session, $function(self.handle, &mut out)).map(|()| out)
        }
    )* } };
    (link: $( $(#[$doc:meta])* $method:ident = $function:ident; )*) => { impl Device<'_> { $(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// NVML's [`Failure`]; code 2 for a link beyond the library's last.
        pub fn $method(self, link: u32) -> Answer<u32> {
            let mut out = 0;
            call!(self.session, $function(self.handle, link, &mut out)).map(|()| out)
        }
    )* } };
}

const NO_ADDRESS: nvmlPciInfo_t = nvmlPciInfo_t {
    busIdLegacy: [0; 16],
    domain: 0,
    bus: 0,
    device: 0,
    pciDeviceId: 0,
    pciSubSystemId: 0,
    busId: [0; 32],
};

/// The structure's size, and its version in the top byte (`NVML_STRUCT_VERSION`).
const fn structure_version<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | version << 24
}

impl Nvml {
    /// Number of GPUs, reachable or not.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`], as of each question below.
    pub fn device_count(&self) -> Answer<u32> {
        self.wrapper()
            .device_count()
            .map_err(|error| Failure::wrapped("nvmlDeviceGetCount_v2", error))
    }

    /// One GPU by NVML's index, the number that `nvidia-smi` prints. 6.6 ms on an H200: the driver
    /// attaches the GPU.
    ///
    /// # Errors
    ///
    /// A GPU that NVML counts may be off the bus, need a reset, or be forbidden by a cgroup.
    pub fn device(&self, index: u32) -> Answer<Device<'_>> {
        let device = self
            .wrapper()
            .device_by_index(index)
            .map_err(|error| Failure::wrapped("nvmlDeviceGetHandleByIndex_v2", error))?;
        Ok(Device {
            session: self,
            // SAFETY: the handle is used with this session's library only.
            handle: unsafe { device.handle() },
        })
    }

    /// The loaded driver, `580.159.04`.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn driver_version(&self) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self, nvmlSystemGetDriverVersion(out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    /// The newest CUDA that the driver serves, 1000 × major + 10 × minor. Opens libcuda.
    ///
    /// # Errors
    ///
    /// [`Kind::Absent`](crate::Kind::Absent) without libcuda. Version 1 of the function, for old libraries, would then
    /// return a made-up version, so it is asked only if version 2 does not exist.
    pub fn cuda_driver_version(&self) -> Answer<i32> {
        let newest = self.wrapper().sys_cuda_driver_version();
        match newest.map_err(|error| Failure::wrapped("nvmlSystemGetCudaDriverVersion_v2", error)) {
            Err(failure) if failure.code().is_none() => {
                let mut out = 0;
                call!(self, nvmlSystemGetCudaDriverVersion(&mut out)).map(|()| out)
            }
            other => other,
        }
    }

    /// Whether confidential computing is on.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn confidential_compute(&self) -> Answer<bool> {
        let mut out =
            nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 };
        call!(self, nvmlSystemGetConfComputeState(&mut out)).map(|()| out.ccFeature != 0)
    }

    /// How a confidential machine protects traffic between GPUs: `multiGpuMode` of
    /// `nvmlSystemConfComputeSettings_v1_t`.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn multi_gpu_mode(&self) -> Answer<u32> {
        let mut out = nvmlSystemConfComputeSettings_t {
            version: structure_version::<nvmlSystemConfComputeSettings_t>(1),
            environment: 0,
            ccFeature: 0,
            devToolsMode: 0,
            multiGpuMode: 0,
        };
        call!(self, nvmlSystemGetConfComputeSettings(&mut out))
            .map(|()| out.multiGpuMode)
            .map_err(Failure::of_newer_argument)
    }
}

// nvml-wrapper turns an unknown number into an error.
numbers! {
    /// 0: persistence mode is off.
    persistence_mode = nvmlDeviceGetPersistenceMode;
    /// 0 (busiest) to 15; 32 is NVML's "unknown". An idle GPU may report a slower PCIe link than it
    /// supports.
    performance_state = nvmlDeviceGetPerformanceState;
    /// `nvmlGpuVirtualizationMode_t`.
    virtualization_mode = nvmlDeviceGetVirtualizationMode;
    /// `nvmlDeviceArchitecture_t`.
    architecture = nvmlDeviceGetArchitecture;
}

numbers! { link:
    /// 0: this NVLink is down.
    link_state = nvmlDeviceGetNvLinkState;
    /// Device at the other end of this NVLink (`nvmlIntNvLinkDeviceType_t`).
    link_remote_type = nvmlDeviceGetNvLinkRemoteDeviceType;
}

impl<'s> Device<'s> {
    fn wrapped<T>(
        self,
        function: &'static str,
        ask: impl FnOnce(nvml_wrapper::Device<'s>) -> Result<T, nvml_wrapper::error::NvmlError>,
    ) -> Answer<T> {
        // SAFETY: the handle belongs to this session's library (second rule above).
        let device = unsafe { nvml_wrapper::Device::new(self.handle, self.session.wrapper()) };
        ask(device).map_err(|error| Failure::wrapped(function, error))
    }

    /// PCI address as NVML writes it, `00000000:00:06.0`.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`], as of each question below.
    pub fn bus_id(self) -> Answer<String> {
        let mut out = NO_ADDRESS;
        call!(self.session, nvmlDeviceGetPciInfo_v3(self.handle, &mut out))
            .map(|()| text(&out.busId))
    }

    /// `NVIDIA H200`.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn name(self) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self.session, nvmlDeviceGetName(self.handle, out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    /// `GPU-` and a UUID.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn uuid(self) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self.session, nvmlDeviceGetUUID(self.handle, out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    /// The N of `/dev/nvidiaN`.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn minor_number(self) -> Answer<u32> {
        self.wrapped("nvmlDeviceGetMinorNumber", |device| device.minor_number())
    }

    /// The bytes of BAR1, and how many of them are mapped now, in this order.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn bar1(self) -> Answer<(u64, u64)> {
        self.wrapped("nvmlDeviceGetBAR1MemoryInfo", |device| device.bar1_memory_info())
            .map(|bar1| (bar1.total, bar1.used))
    }

    /// The GPU's memory in bytes. nvml-wrapper asks for a newer form, which old libraries lack.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn memory_total(self) -> Answer<u64> {
        let mut out = nvmlMemory_t { total: 0, free: 0, used: 0 };
        call!(self.session, nvmlDeviceGetMemoryInfo(self.handle, &mut out)).map(|()| out.total)
    }

    /// Whether multi-instance mode is on.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) on GPUs without it.
    pub fn mig_mode(self) -> Answer<bool> {
        self.wrapped("nvmlDeviceGetMigMode", |device| device.mig_mode())
            .map(|mode| mode.current != 0)
    }

    /// NUMA node of the GPU's own memory on coherent machines such as GH200; `None` if it is not a
    /// node, which NVML says by "not supported".
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) if the library lacks the function.
    pub fn numa_node(self) -> Answer<Option<u32>> {
        match self.wrapped("nvmlDeviceGetNumaNodeId", |device| device.numa_node_id()) {
            Ok(u32::MAX) => Ok(None),
            Err(failure) if failure.code() == Some(NOT_SUPPORTED) => Ok(None),
            other => other.map(Some),
        }
    }

    /// PCI address of the other end of this NVLink, in NVML's format.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn link_remote_bus_id(self, link: u32) -> Answer<String> {
        let mut out = NO_ADDRESS;
        call!(self.session, nvmlDeviceGetNvLinkRemotePciInfo_v2(self.handle, link, &mut out))
            .map(|()| text(&out.busId))
    }

    /// Registration with the NVLink fabric, in the newest form that the driver knows.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) on GPUs without a fabric.
    pub fn fabric(self) -> Answer<Fabric> {
        // Version 2 is version 3 without its last member, so one buffer serves both.
        let versions = [
            (true, structure_version::<nvmlGpuFabricInfoV_t>(3)),
            (false, structure_version::<nvmlGpuFabricInfo_v2_t>(2)),
        ];
        for (has_health, version) in versions {
            let mut out = nvmlGpuFabricInfoV_t {
                version,
                clusterUuid: [0; 16],
                status: 0,
                cliqueId: 0,
                state: 0,
                healthMask: 0,
                healthSummary: 0,
            };
            match call!(self.session, nvmlDeviceGetGpuFabricInfoV(self.handle, &mut out)) {
                // The driver lacks the function or knows only an older structure.
                Err(failure)
                    if matches!(
                        failure.code(),
                        None | Some(INVALID_ARGUMENT | ARGUMENT_VERSION_MISMATCH)
                    ) => {}
                Err(failure) => return Err(failure),
                Ok(()) => {
                    return Ok(Fabric {
                        state: u32::from(out.state),
                        status: out.status,
                        clique_id: out.cliqueId,
                        cluster_uuid: out.clusterUuid,
                        health: has_health.then(|| u32::from(out.healthSummary)),
                    });
                }
            }
        }
        let mut out =
            nvmlGpuFabricInfo_t { clusterUuid: [0; 16], status: 0, cliqueId: 0, state: 0 };
        call!(self.session, nvmlDeviceGetGpuFabricInfo(self.handle, &mut out)).map(|()| Fabric {
            state: u32::from(out.state),
            status: out.status,
            clique_id: out.cliqueId,
            cluster_uuid: out.clusterUuid,
            health: None,
        })
    }

    /// The unsigned values of these fields (`NVML_FI_*`), each of a link; `None` for a field that
    /// this GPU or driver does not have.
    ///
    /// # Errors
    ///
    /// NVML's [`Failure`].
    pub fn fields(self, fields: &[(u32, u32)]) -> Answer<Vec<Option<u64>>> {
        let empty = |&(field, link): &(u32, u32)| nvmlFieldValue_t {
            fieldId: field,
            scopeId: link,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            // A field that the library leaves alone has no value. It leaves alone those that are "not supported" already (580.159).
            nvmlReturn: UNKNOWN,
            value: nvmlValue_t { ullVal: 0 },
        };
        let mut values: Vec<nvmlFieldValue_t> = fields.iter().map(empty).collect();
        let count = c_int::try_from(values.len()).unwrap_or_default();
        call!(self.session, nvmlDeviceGetFieldValues(self.handle, count, values.as_mut_ptr()))?;
        Ok(values.iter().map(unsigned).collect())
    }

    /// Peer-to-peer status (`nvmlGpuP2PStatus_t`) of a capability (`nvmlGpuP2PCapsIndex_t`), which
    /// holds in both directions. 1.65 ms on an H200.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for a capability that the driver does not know, [`Kind::Invalid`](crate::Kind::Invalid) for a
    /// GPU of another session.
    pub fn p2p_status(self, other: Device<'_>, capability: u32) -> Answer<u32> {
        const FUNCTION: &str = "nvmlDeviceGetP2PStatus";
        if !std::ptr::eq(self.session, other.session) {
            return Err(Failure::returned(FUNCTION, INVALID_ARGUMENT));
        }
        let mut out = 0;
        call!(self.session, nvmlDeviceGetP2PStatus(self.handle, other.handle, capability, &mut out))
            .map(|()| out)
            .map_err(Failure::of_newer_argument)
    }
}

/// A field's value of the types `unsigned int`, `unsigned long` and `unsigned long long`.
fn unsigned(field: &nvmlFieldValue_t) -> Option<u64> {
    // SAFETY: all bytes of the union were initialised, and any of them are a valid integer.
    let value = unsafe { field.value.ullVal };
    match (field.nvmlReturn, field.valueType) {
        (0, 1) => Some(value & u64::from(u32::MAX)),
        (0, 2 | 3) => Some(value),
        _ => None,
    }
}

/// Text before the first NUL; non-UTF-8 bytes become U+FFFD.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> =
        buffer.iter().take_while(|&&c| c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
