//! Direct verbs of EFA, Amazon's Elastic Fabric Adapter: its queue pair type SRD and what a device can do, through `libefa.so.1`, opened on
//! first use. Names are those of `infiniband/efadv.h`.

use std::ffi::{c_int, c_void};
use std::path::Path;

use gdr_sys::loader::Opened;
use gdr_sys::process::SetOnce;

use crate::library::OpenError;
use crate::{ibv_context, ibv_qp, ibv_qp_init_attr_ex};

/// Not `libefa.so`, which belongs to development packages.
const NAME: &str = "libefa.so.1";

records! {
    /// What a device can do. An older library leaves the last fields zero: `device_caps` and `max_rdma_size` are of rdma-core 28.
    "struct efadv_device_attr" struct efadv_device_attr {
        comp_mask: u64,
        max_sq_wr: u32,
        max_rq_wr: u32,
        max_sq_sge: u16,
        max_rq_sge: u16,
        inline_buf_size: u16,
        reserved: [u8; 2],
        device_caps: u32,
        max_rdma_size: u32,
    }

    /// Attributes of a queue pair. The reserved bytes are flags of newer libraries, for which 0 is right.
    "struct efadv_qp_init_attr" struct efadv_qp_init_attr {
        comp_mask: u64,
        driver_qp_type: u32,
        reserved: [u8; 4],
    }
}

constants! {
    /// Types of a queue pair.
    plain efadv_driver_qp_type {
        EFADV_QP_DRIVER_TYPE_SRD = 0,
    }

    /// Bits of `device_caps`.
    plain efadv_device_caps {
        EFADV_DEVICE_ATTR_CAPS_RDMA_READ = 1 << 0,
        EFADV_DEVICE_ATTR_CAPS_RNR_RETRY = 1 << 1,
    }
}

/// A bit of `device_caps`. Headers before rdma-core 47 lack it.
pub const EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE: u32 = 1 << 3;

/// The library's functions; `None` if the library lacks one. Both are there since rdma-core 26.
#[derive(Debug)]
#[non_exhaustive]
pub struct Efadv {
    /// What a device can do; the last argument is the structure's size. 0, or an error number: EOPNOTSUPP for another vendor's device.
    pub efadv_query_device:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut efadv_device_attr, u32) -> c_int>,
    /// Creates a queue pair; the last argument is the size of EFA's attributes.
    pub efadv_create_qp_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *mut ibv_qp_init_attr_ex,
            *mut efadv_qp_init_attr,
            u32,
        ) -> *mut ibv_qp,
    >,
}

/// The process's libefa, opened on first use and kept open until the process ends. It is the same file that libibverbs loads as its
/// provider.
///
/// # Errors
///
/// [`OpenError`], with the loader's message.
pub fn efadv() -> Result<&'static Efadv, OpenError> {
    static LIBRARY: SetOnce<Efadv> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = open(Path::new(NAME))?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

fn open(path: &Path) -> Result<Efadv, OpenError> {
    // SAFETY: the constructor of libefa registers a provider with libibverbs and has no preconditions.
    let opened = unsafe { Opened::open(path, libc::RTLD_NOW) }
        .map_err(|error| OpenError::of(NAME, error))?;
    let library = Efadv {
        efadv_query_device: symbol!(opened, efadv_query_device),
        efadv_create_qp_ex: symbol!(opened, efadv_create_qp_ex),
    };
    opened.keep();
    Ok(library)
}
