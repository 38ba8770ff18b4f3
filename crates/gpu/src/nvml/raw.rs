//! NVML calls: the only file of this module with unsafe code.
//!
//! Rules for soundness:
//! - The binding's `NvmlLib` finds each function by its name, with the type from nvml.h by bindgen.
//!   A file that exports NVML's names without being NVML cannot be detected.
//! - A [`Device`] is only created here, from a handle of this session's library, and borrows the
//!   session; NVML keeps handles valid until `nvmlShutdown`, which is never called.
//! - Out-parameters are initialised plain integers, or structures and arrays of them, valid for
//!   every bit pattern: enumerations are bound as integers, so a value newer than the binding is a
//!   number, not undefined behaviour.

use std::ffi::{c_char, c_int, c_uint};
use std::marker::PhantomData;

use nvml_wrapper::struct_wrappers::device::BAR1MemoryInfo;
use nvml_wrapper::structs::device::MigMode;
use nvml_wrapper_sys::bindings::{
    nvmlConfComputeSystemState_t, nvmlDevice_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfoV_t, nvmlMemory_t, nvmlPciInfo_t, nvmlSystemConfComputeSettings_t,
    nvmlValue_t,
};

use super::fault::{Answer, Fault, NOT_SUPPORTED};
use super::session::Session;

/// Longer than every string NVML returns (`NVML_DEVICE_NAME_V2_BUFFER_SIZE` and `..._UUID_V2_...`
/// are 96).
const TEXT: usize = 128;

/// One GPU of a session.
#[derive(Clone, Copy)]
pub(super) struct Device<'s> {
    handle: nvmlDevice_t,
    session: PhantomData<&'s Session>,
}

/// Calls a function, which the library may lack.
macro_rules! call {
    ($session:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $session.lib().$function.as_ref() {
            Err(_) => Err(Fault::missing(stringify!($function))),
            // SAFETY: the function has the type the arguments were checked against (first rule
            // above), handles come from a `Device` of this session (second), and each pointer is a
            // unique reference to an initialised integer, structure or array (third) that outlives
            // the call; lengths passed beside a pointer are that array's own.
            Ok(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                code => Err(Fault::returned(stringify!($function), code)),
            },
        }
    };
}

/// Methods for functions with one out-parameter: its type and initial value.
macro_rules! questions {
    (device: $( $method:ident = $function:ident -> $type:ty [$before:expr]; )*) => { impl Session { $(
        pub(super) fn $method(&self, device: Device<'_>) -> Answer<$type> {
            let mut out: $type = $before;
            call!(self, $function(device.handle, &mut out)).map(|()| out)
        }
    )* } };
    (link: $( $method:ident = $function:ident -> $type:ty [$before:expr]; )*) => { impl Session { $(
        pub(super) fn $method(&self, device: Device<'_>, link: u32) -> Answer<$type> {
            let mut out: $type = $before;
            call!(self, $function(device.handle, link, &mut out)).map(|()| out)
        }
    )* } };
    (system: $( $method:ident = $function:ident -> $type:ty [$before:expr]; )*) => { impl Session { $(
        pub(super) fn $method(&self) -> Answer<$type> {
            let mut out: $type = $before;
            call!(self, $function(&mut out)).map(|()| out)
        }
    )* } };
}

/// Methods that nvml-wrapper offers without loss: NVML's function, the wrapper's method.
macro_rules! wrapped {
    ($( $method:ident = $function:ident, $wrapper:ident -> $type:ty; )*) => { impl Session { $(
        pub(super) fn $method(&self, device: Device<'_>) -> Answer<$type> {
            self.wrapped(device)
                .$wrapper()
                .map_err(|error| Fault::wrapped(stringify!($function), error))
        }
    )* } };
}

wrapped! {
    minor_number = nvmlDeviceGetMinorNumber, minor_number -> u32;
    bar1_memory = nvmlDeviceGetBAR1MemoryInfo, bar1_memory_info -> BAR1MemoryInfo;
    numa_node_id = nvmlDeviceGetNumaNodeId, numa_node_id -> u32;
    mig_mode = nvmlDeviceGetMigMode, mig_mode -> MigMode;
}

// nvml-wrapper turns an unknown number into an error (persistence, performance state, architecture,
// virtualization, links), uses a newer form that old libraries lack (memory), or lacks the
// function.
questions! { device:
    persistence_mode = nvmlDeviceGetPersistenceMode -> u32 [0];
    memory = nvmlDeviceGetMemoryInfo -> nvmlMemory_t [nvmlMemory_t { total: 0, free: 0, used: 0 }];
    performance_state = nvmlDeviceGetPerformanceState -> u32 [0];
    virtualization_mode = nvmlDeviceGetVirtualizationMode -> u32 [0];
    architecture = nvmlDeviceGetArchitecture -> u32 [0];
    fabric_v1 = nvmlDeviceGetGpuFabricInfo -> nvmlGpuFabricInfo_t
        [nvmlGpuFabricInfo_t { clusterUuid: [0; 16], status: 0, cliqueId: 0, state: 0 }];
}

questions! { link:
    link_state = nvmlDeviceGetNvLinkState -> u32 [0];
    link_remote_type = nvmlDeviceGetNvLinkRemoteDeviceType -> u32 [0];
    link_remote_pci = nvmlDeviceGetNvLinkRemotePciInfo_v2 -> nvmlPciInfo_t [NO_ADDRESS];
}

questions! { system:
    cuda_driver_version_v1 = nvmlSystemGetCudaDriverVersion -> i32 [0];
    confidential_state = nvmlSystemGetConfComputeState -> nvmlConfComputeSystemState_t
        [nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 }];
    confidential_settings = nvmlSystemGetConfComputeSettings -> nvmlSystemConfComputeSettings_t
        [nvmlSystemConfComputeSettings_t {
            version: structure_version::<nvmlSystemConfComputeSettings_t>(1),
            environment: 0, ccFeature: 0, devToolsMode: 0, multiGpuMode: 0,
        }];
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

impl Session {
    /// 6.6 ms on an H200: the driver attaches the GPU.
    pub(super) fn device(&self, index: u32) -> Answer<Device<'_>> {
        let device = self
            .nvml()
            .device_by_index(index)
            .map_err(|error| Fault::wrapped("nvmlDeviceGetHandleByIndex_v2", error))?;
        Ok(Device {
            // SAFETY: the handle is used with this session's library only.
            handle: unsafe { device.handle() },
            session: PhantomData,
        })
    }

    fn wrapped(&self, device: Device<'_>) -> nvml_wrapper::Device<'_> {
        // SAFETY: the handle belongs to this session's library (second rule above).
        unsafe { nvml_wrapper::Device::new(device.handle, self.nvml()) }
    }

    pub(super) fn device_count(&self) -> Answer<u32> {
        self.nvml().device_count().map_err(|error| Fault::wrapped("nvmlDeviceGetCount_v2", error))
    }

    pub(super) fn cuda_driver_version_v2(&self) -> Answer<i32> {
        self.nvml()
            .sys_cuda_driver_version()
            .map_err(|error| Fault::wrapped("nvmlSystemGetCudaDriverVersion_v2", error))
    }

    pub(super) fn bus_id(&self, device: Device<'_>) -> Answer<String> {
        let mut out = NO_ADDRESS;
        call!(self, nvmlDeviceGetPciInfo_v3(device.handle, &mut out)).map(|()| text(&out.busId))
    }

    pub(super) fn name(&self, device: Device<'_>) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self, nvmlDeviceGetName(device.handle, out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    pub(super) fn uuid(&self, device: Device<'_>) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self, nvmlDeviceGetUUID(device.handle, out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    pub(super) fn driver_version(&self) -> Answer<String> {
        let mut out: [c_char; TEXT] = [0; TEXT];
        call!(self, nvmlSystemGetDriverVersion(out.as_mut_ptr(), TEXT as c_uint))
            .map(|()| text(&out))
    }

    /// `version` 2 or 3; version 2 is version 3 without its last member, so one buffer serves both.
    pub(super) fn fabric(&self, device: Device<'_>, version: u32) -> Answer<nvmlGpuFabricInfoV_t> {
        let size = match version {
            2 => structure_version::<nvml_wrapper_sys::bindings::nvmlGpuFabricInfo_v2_t>(2),
            _ => structure_version::<nvmlGpuFabricInfoV_t>(3),
        };
        let mut out = nvmlGpuFabricInfoV_t {
            version: size,
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
            healthSummary: 0,
        };
        call!(self, nvmlDeviceGetGpuFabricInfoV(device.handle, &mut out)).map(|()| out)
    }

    /// The unsigned values of these fields (`NVML_FI_*`), each of a link; `None` for a field that
    /// this GPU or driver does not have.
    pub(super) fn fields(
        &self,
        device: Device<'_>,
        fields: &[(u32, u32)],
    ) -> Answer<Vec<Option<u64>>> {
        let empty = |&(field, link): &(u32, u32)| nvmlFieldValue_t {
            fieldId: field,
            scopeId: link,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            // A field that the library leaves alone has no value.
            nvmlReturn: NOT_SUPPORTED,
            value: nvmlValue_t { ullVal: 0 },
        };
        let mut values: Vec<nvmlFieldValue_t> = fields.iter().map(empty).collect();
        let count = c_int::try_from(values.len()).unwrap_or_default();
        call!(self, nvmlDeviceGetFieldValues(device.handle, count, values.as_mut_ptr()))?;
        Ok(values.iter().map(unsigned).collect())
    }

    pub(super) fn p2p_status(&self, a: Device<'_>, b: Device<'_>, kind: u32) -> Answer<u32> {
        let mut out = 0;
        call!(self, nvmlDeviceGetP2PStatus(a.handle, b.handle, kind, &mut out)).map(|()| out)
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
pub(super) fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> =
        buffer.iter().take_while(|&&c| c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
