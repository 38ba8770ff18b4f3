//! `gds_prepare_…`: check arguments and fill in descriptors. Nothing is registered or executed.

use std::ffi::c_int;

use gdr_sys::exports;

use crate::abi::{WaitValue32, WriteMemory, WriteValue32};
use crate::call_error::CallError;
use crate::{flags, guard, list};

exports!(
    use guard::call;

    /// Prepares a wait for a word.
    ///
    /// Returns `EINVAL`, and writes nothing, for a NULL or misaligned pointer, an unknown condition, or flags other than one memory
    /// type and `GDS_WAIT_POST_FLUSH_REMOTE`.
    ///
    /// # Safety
    ///
    /// `desc` is NULL or writable.
    pub unsafe fn gds_prepare_wait_value32(
        desc: *mut WaitValue32,
        ptr: *mut u32,
        value: u32,
        cond_flags: u32,
        flags: c_int,
    ) -> c_int {
        list::wait_memory(flags)?;
        flags::compare(cond_flags)?;
        flags::word("ptr", ptr.cast())?;
        let prepared = WaitValue32 { ptr, value, cond_flags, flags };
        // SAFETY: the caller's promise.
        unsafe { put(desc, prepared) }
    }

    /// Prepares the write of a word.
    ///
    /// Returns `EINVAL`, and writes nothing, for a NULL or misaligned pointer, or flags other than one memory type and
    /// `GDS_WRITE_PRE_BARRIER_SYS`.
    ///
    /// # Safety
    ///
    /// `desc` is NULL or writable.
    pub unsafe fn gds_prepare_write_value32(
        desc: *mut WriteValue32,
        ptr: *mut u32,
        value: u32,
        flags: c_int,
    ) -> c_int {
        list::write_memory(flags)?;
        flags::word("ptr", ptr.cast())?;
        // SAFETY: the caller's promise.
        unsafe { put(desc, WriteValue32 { ptr, value, flags }) }
    }

    /// Prepares the write of 4 to 1024 bytes, a multiple of 4. `src` is read when the descriptor is posted.
    ///
    /// Returns `EINVAL`, and writes nothing, for a NULL pointer, a misaligned `dest`, another length, or flags other than one memory
    /// type, `GDS_WRITE_MEMORY_PRE_BARRIER_SYS` and `GDS_WRITE_MEMORY_POST_BARRIER_SYS`.
    ///
    /// # Safety
    ///
    /// `desc` is NULL or writable.
    pub unsafe fn gds_prepare_write_memory(
        desc: *mut WriteMemory,
        dest: *mut u8,
        src: *const u8,
        count: usize,
        flags: c_int,
    ) -> c_int {
        list::bytes_memory(flags)?;
        flags::word("dest", dest)?;
        flags::bytes(count)?;
        flags::not_null("src", src)?;
        let prepared = WriteMemory { dest, src, count, flags };
        // SAFETY: the caller's promise.
        unsafe { put(desc, prepared) }
    }
);

/// # Safety
///
/// `desc` is NULL or writable.
unsafe fn put<T>(desc: *mut T, prepared: T) -> Result<(), CallError> {
    flags::not_null("desc", desc)?;
    // SAFETY: not NULL; the caller promises that it is writable.
    unsafe { desc.write(prepared) };
    Ok(())
}
