//! `mp_register`, `mp_deregister`.

use std::ffi::{c_int, c_void};

use gdr_sys::exports;

use crate::abi::Handle;
use crate::library::library;
use crate::{buffer, guard, handles};

exports!(
    use guard::call;

    /// Registers memory for messages, puts and gets.
    ///
    /// # Safety
    ///
    /// `addr` is NULL, or memory of `length` bytes that stays allocated until it is deregistered; `reg` is NULL, misaligned or writable.
    pub unsafe fn mp_register(addr: *mut c_void, length: usize, reg: *mut Handle) -> c_int {
        handles::check("reg", reg)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let registered = unsafe { buffer::register(&library, addr, length) }?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(reg, library.regions.add(registered)) };
        Ok(())
    }

    /// Ends a registration at once. Requests in progress that use it fail.
    ///
    /// # Safety
    ///
    /// `reg` is NULL, misaligned or readable.
    pub unsafe fn mp_deregister(reg: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("reg", reg) }?;
        library()?.regions.remove(handle)?.region.revoke();
        Ok(())
    }
);
