//! Opening and closing sessions, and their properties.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::os::fd::AsRawFd as _;

use gdr_sys::exports;
use gdrcopy::{Attribute, BackendKind, Gdr};

use crate::call_error::CallError;
use crate::log::{self, Level};
use crate::{abi, guard, sessions};

/// `GDR_API_MAJOR_VERSION` and `GDR_API_MINOR_VERSION` of `gdrapi.h`.
const VERSION: (c_int, c_int) = (2, 6);

exports!(
    use guard::pointer;

    /// Opens a session. NULL with errno set if no backend is usable; logging prints the reasons.
    ///
    /// CUDA is neither loaded nor initialised.
    pub fn gdr_open() -> *mut abi::Gdr {
        let dmabuf = std::env::var_os("GDRCOPY_USE_DMABUF_MMAP").is_some_and(|value| value == "1");
        let gdr = if dmabuf && std::env::var_os("GDR_BACKEND").is_none() {
            Gdr::open_with(BackendKind::DmaBuf)
        } else {
            Gdr::open()
        };
        let gdr = gdr.map_err(|source| CallError::Open { source })?;
        log::write(Level::Info, format_args!("using backend {:?}", gdr.backend()));
        let descriptor = gdr.descriptor().map_or(-1, |file| file.as_raw_fd());
        Ok(sessions::admit(gdr, descriptor))
    }
);

exports!(
    use guard::call;

    /// Unmaps and unpins the rest of a session and ends it. Continues after failures and returns the
    /// first.
    ///
    /// Returns 0, `EINVAL` if `g` is not an open session, `EACCES` if it was opened before a fork, or a
    /// backend's error.
    pub fn gdr_close(g: *mut abi::Gdr) -> c_int {
        let mut failed = sessions::close(g)?.into_iter();
        let first = failed.next();
        for call_error in failed {
            guard::report("gdr_close", &call_error);
        }
        first.map_or(Ok(()), Err)
    }
);

/// The version of this interface: 2 and 6. Either pointer may be NULL.
///
/// # Safety
///
/// Each pointer is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_runtime_get_version(major: *mut c_int, minor: *mut c_int) {
    for (place, value) in [(major, VERSION.0), (minor, VERSION.1)] {
        if !place.is_null() {
            // SAFETY: not NULL, so writable as the caller guarantees.
            unsafe { place.write(value) };
        }
    }
}

exports!(
    use guard::call;

    /// Version of the loaded gdrdrv module, else of this interface: NCCL requires at least 2.1.
    ///
    /// # Safety
    ///
    /// Each pointer is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_driver_get_version(
        g: *mut abi::Gdr,
        major: *mut c_int,
        minor: *mut c_int,
    ) -> c_int {
        let session = sessions::find(g)?;
        if major.is_null() || minor.is_null() {
            return Err(CallError::Null { what: "major or minor" });
        }
        let version = session.gdr().driver_version();
        // SAFETY: neither is NULL, so both are writable as the caller guarantees.
        unsafe {
            major.write(version.0.into());
            minor.write(version.1.into());
        }
        Ok(())
    }

    /// Reads a `gdr_attr_t` of the session; `EINVAL` for any other number.
    ///
    /// # Safety
    ///
    /// `v` is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_get_attribute(g: *mut abi::Gdr, attr: c_uint, v: *mut c_int) -> c_int {
        let session = sessions::find(g)?;
        guard::not_null("v", v)?;
        let value = match attr {
            1 => session.gdr().attribute(Attribute::PersistentMapping),
            2 => session.gdr().attribute(Attribute::ForcePcie),
            // Programs read this attribute to skip what only gdrdrv supports; gdrcopy's tests do.
            3 => (session.gdr().backend() != BackendKind::Gdrdrv).into(),
            other => {
                return Err(CallError::Value { of: "gdr_attr_t", value: other.into() });
            }
        };
        // SAFETY: not NULL, so writable as the caller guarantees.
        unsafe { v.write(value) };
        Ok(())
    }

    /// Points `pstr` to the name of a `gdr_mapping_type_t`, which is never freed; `EINVAL` for any
    /// other number.
    ///
    /// # Safety
    ///
    /// `pstr` is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_get_mapping_type_string(
        mapping_type: c_uint,
        pstr: *mut *const c_char,
    ) -> c_int {
        const NAMES: [&CStr; 4] = [c"None", c"Write Combining", c"Caching", c"Device"];
        guard::not_null("pstr", pstr)?;
        let name = NAMES
            .get(mapping_type as usize)
            .ok_or(CallError::Value { of: "gdr_mapping_type_t", value: mapping_type.into() })?;
        // SAFETY: not NULL, so writable as the caller guarantees.
        unsafe { pstr.write(name.as_ptr()) };
        Ok(())
    }
);
