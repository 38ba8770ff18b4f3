//! Pin, describe, map, unmap, unpin.

use std::ffi::{c_int, c_ulong, c_void};

use gdr_sys::exports;
use gdrcopy::{Info, MapRequest, MappingType, PinFlags};
use gpu::DevicePtr;

use crate::abi::{self, Handle, InfoV1, InfoV2};
use crate::call_error::CallError;
use crate::log::{self, Level};
use crate::{guard, sessions};

exports!(
    use guard::call;

    /// `gdr_pin_buffer_v2` with the default flags; `p2p_token` and `va_space` are ignored.
    ///
    /// # Safety
    ///
    /// As [`gdr_pin_buffer_v2`].
    pub unsafe fn gdr_pin_buffer(
        g: *mut abi::Gdr,
        addr: c_ulong,
        size: usize,
        _p2p_token: u64,
        _va_space: u32,
        handle: *mut Handle,
    ) -> c_int {
        // SAFETY: the caller guarantees the conditions of `pin` for `handle`.
        unsafe { pin(g, addr, size, 0, handle) }
    }

    /// Pins the pages of 64 KiB that hold `size` bytes of device memory at `addr`, and writes the
    /// handle.
    /// Returns `EINVAL` for a NULL pointer, no session, zero bytes, unknown or unsupported flags, or
    /// memory that is not this process's device memory; otherwise the backend's error.
    ///
    /// # Safety
    ///
    /// `handle` is NULL or writable.
    ///
    /// # Safety
    ///
    /// `handle` is NULL or can be written to.
    pub unsafe fn gdr_pin_buffer_v2(
        g: *mut abi::Gdr,
        addr: c_ulong,
        size: usize,
        flags: u32,
        handle: *mut Handle,
    ) -> c_int {
        // SAFETY: the caller guarantees the conditions of `pin` for `handle`.
        unsafe { pin(g, addr, size, flags, handle) }
    }

    /// Writes 1 to `flag` if the driver revoked the pin, else 0.
    ///
    /// # Safety
    ///
    /// `flag` is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_get_callback_flag(
        g: *mut abi::Gdr,
        handle: Handle,
        flag: *mut c_int,
    ) -> c_int {
        let buffer = sessions::find(g)?.buffer(handle.h)?;
        guard::not_null("flag", flag)?;
        let revoked = buffer.revoked()?;
        // SAFETY: not NULL, so writable as the caller guarantees.
        unsafe { flag.write(revoked.into()) };
        Ok(())
    }

    /// Describes a pinned buffer in the structure of releases before 2.4: writes exactly 40 bytes.
    ///
    /// # Safety
    ///
    /// `info` is NULL (`EINVAL`) or 40 writable bytes.
    pub unsafe fn gdr_get_info(g: *mut abi::Gdr, handle: Handle, info: *mut InfoV1) -> c_int {
        let described = describe(g, handle, info.is_null())?;
        // SAFETY: not NULL, so writable as the caller guarantees.
        unsafe { info.write(described.v1) };
        Ok(())
    }

    /// Describes a pinned buffer.
    ///
    /// # Safety
    ///
    /// `info` is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_get_info_v2(g: *mut abi::Gdr, handle: Handle, info: *mut InfoV2) -> c_int {
        let described = describe(g, handle, info.is_null())?;
        // SAFETY: not NULL, so writable as the caller guarantees.
        unsafe { info.write(described) };
        Ok(())
    }

    /// `gdr_map_v2` with the default flags.
    ///
    /// # Safety
    ///
    /// As [`gdr_map_v2`].
    pub unsafe fn gdr_map(
        g: *mut abi::Gdr,
        handle: Handle,
        va: *mut *mut c_void,
        size: usize,
    ) -> c_int {
        // SAFETY: the caller guarantees the conditions of `map` for `va`.
        unsafe { map(g, handle, va, size, 0) }
    }

    /// Maps the first `size` bytes of a pinned buffer and writes their address; writes nothing on
    /// failure.
    ///
    /// Returns `EAGAIN` if it is already mapped, `EINVAL` if the buffer does not begin at a page of 64
    /// KiB, is smaller than `size`, or cannot be mapped as `flags` (a `gdr_map_flags_t`) requests;
    /// otherwise the backend's error.
    ///
    /// # Safety
    ///
    /// `ptr_va` is NULL (`EINVAL`) or writable.
    pub unsafe fn gdr_map_v2(
        g: *mut abi::Gdr,
        handle: Handle,
        ptr_va: *mut *mut c_void,
        size: usize,
        flags: c_int,
    ) -> c_int {
        // SAFETY: the caller guarantees the conditions of `map` for `ptr_va`.
        unsafe { map(g, handle, ptr_va, size, flags) }
    }
);

/// # Safety
///
/// `handle` is NULL or writable.
unsafe fn pin(
    g: *mut abi::Gdr,
    addr: c_ulong,
    size: usize,
    flags: u32,
    handle: *mut Handle,
) -> Result<(), CallError> {
    let session = sessions::find(g)?;
    guard::not_null("handle", handle)?;
    let flags = PinFlags {
        force_pcie: match flags {
            0 => false,
            1 => true,
            other => {
                return Err(CallError::Value { of: "gdr_pin_flags_t", value: other.into() });
            }
        },
    };
    let end = u64::try_from(size).ok().and_then(|size| addr.checked_add(size));
    if addr == 0 || size == 0 || end.is_none() {
        return Err(CallError::Range { address: addr, bytes: size });
    }
    // SAFETY: callers must not free memory while it is pinned; if they do, the backends stay
    // memory-safe for this process (docs/gdrcopy.md).
    let pin = unsafe { session.gdr().pin_raw(DevicePtr::new(addr), size, flags) };
    let pin = pin.map_err(|source| CallError::Pin { address: addr, bytes: size, source })?;
    let h = session.keep(addr, size, flags, pin)?;
    log::write(Level::Debug, format_args!("pinned {size} bytes at {addr:#x}: handle {h:#x}"));
    // SAFETY: not NULL, so writable as the caller guarantees.
    unsafe { handle.write(Handle { h }) };
    Ok(())
}

exports!(
    use guard::call;

    /// Ends a pin and its mapping. The handle is invalid afterwards unless the result is `EINVAL` or
    /// `EACCES`.
    pub fn gdr_unpin_buffer(g: *mut abi::Gdr, handle: Handle) -> c_int {
        sessions::find(g)?.forget(handle.h)
    }

    /// Unmaps a buffer. `va` is the result of [`gdr_map`] and `size` at most the pinned size, else
    /// `EINVAL`.
    pub fn gdr_unmap(g: *mut abi::Gdr, handle: Handle, va: *mut c_void, size: usize) -> c_int {
        let buffer = sessions::find(g)?.buffer(handle.h)?;
        buffer.unmap(va.addr(), size)
    }
);

fn describe(g: *mut abi::Gdr, handle: Handle, nowhere: bool) -> Result<InfoV2, CallError> {
    let buffer = sessions::find(g)?.buffer(handle.h)?;
    if nowhere {
        return Err(CallError::Null { what: "info" });
    }
    Ok(info(&buffer.info()?))
}

fn info(info: &Info) -> InfoV2 {
    let mut bits = 0;
    if info.mapped {
        bits |= abi::MAPPED;
    }
    if info.mapping_type == MappingType::WriteCombining {
        bits |= abi::WC_MAPPING;
    }
    InfoV2 {
        v1: InfoV1 {
            va: info.va,
            mapped_size: info.mapped_size,
            page_size: info.page_size,
            tm_cycles: info.tm_cycles,
            cycles_per_ms: info.cycles_per_ms,
            bits,
        },
        mapping_type: info.mapping_type as u32,
    }
}

/// # Safety
///
/// `va` is NULL or writable.
unsafe fn map(
    g: *mut abi::Gdr,
    handle: Handle,
    va: *mut *mut c_void,
    size: usize,
    flags: c_int,
) -> Result<(), CallError> {
    let session = sessions::find(g)?;
    let buffer = session.buffer(handle.h)?;
    guard::not_null("va", va)?;
    let request = match flags {
        0 => MapRequest::Default,
        1 => MapRequest::WriteCombining,
        2 => MapRequest::Cached,
        3 => MapRequest::Device,
        other => {
            return Err(CallError::Value { of: "gdr_map_flags_t", value: other.into() });
        }
    };
    let start = buffer.map(session.gdr(), size, request)?;
    log::write(
        Level::Debug,
        format_args!("mapped {size} bytes of handle {:#x} at {start:p}", handle.h),
    );
    // SAFETY: not NULL, so writable as the caller guarantees.
    unsafe { va.write(start.as_ptr().cast()) };
    Ok(())
}
