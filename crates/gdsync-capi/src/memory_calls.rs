//! `gds_alloc_mapped_memory`, `gds_free_mapped_memory`, and the address of a host word for a kernel.

use std::ffi::c_int;

use gpu::{DevicePtr, Registration};

use crate::abi::{self, DwordWaitInfo, MemDesc};
use crate::call_error::CallError;
use crate::flags::{self, MemoryType};
use crate::log::{self, Level};
use crate::registry::Lookup;
use crate::{guard, list, mapped};

/// Allocates `size` bytes that both the CPU (`h_ptr`) and the GPU of the current context (`d_ptr`) reach: on the GPU
/// (`GDS_MEMORY_GPU`), mapped for the CPU with or without the gdrdrv module, or on the host (`GDS_MEMORY_HOST`). No bytes: nothing
/// is done, and 0 returned.
///
/// Returns `EINVAL` for NULL, or another memory type; `ENOMEM`; otherwise what CUDA's or the mapping's refusal comes to. Nothing is
/// written then.
///
/// # Safety
///
/// `desc` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_alloc_mapped_memory(
    desc: *mut MemDesc,
    size: usize,
    flags: c_int,
) -> c_int {
    const NAME: &str = "gds_alloc_mapped_memory";
    guard::call(NAME, || {
        if size == 0 {
            log::say(
                Level::Warning,
                NAME,
                format_args!("no bytes are asked for: nothing is allocated"),
            );
            return Ok(());
        }
        if desc.is_null() {
            return Err(CallError::Null { what: "desc" });
        }
        // As in libgdsync, only these bits count.
        let made = match flags & abi::MEMORY_MASK {
            abi::MEMORY_GPU => mapped::allocate_gpu(size, flags)?,
            abi::MEMORY_HOST => mapped::allocate_host(size, flags)?,
            _ => return Err(CallError::MemoryType { flags }),
        };
        let (device, host) = (made.d_ptr, made.h_ptr);
        log::say(
            Level::Debug,
            NAME,
            format_args!("{size} bytes: d_ptr={device:#x} h_ptr={host:p} flags={flags:#x}"),
        );
        // SAFETY: not NULL, and so the caller promises that it can be written to.
        unsafe { desc.write(made) };
        Ok(())
    })
}

/// Frees what [`gds_alloc_mapped_memory`] gave, and makes the pointers and the size in `desc` 0.
///
/// Returns `EINVAL` for NULL, for what is not, or no longer, such memory, and without a current context; otherwise what CUDA's
/// refusal comes to.
///
/// # Safety
///
/// `desc` is NULL or can be read and written, and neither CPU nor GPU uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_free_mapped_memory(desc: *mut MemDesc) -> c_int {
    guard::call("gds_free_mapped_memory", || {
        if desc.is_null() {
            return Err(CallError::Null { what: "desc" });
        }
        // SAFETY: not NULL, and so the caller promises that it can be read.
        let given = unsafe { desc.read() };
        match given.flags & abi::MEMORY_MASK {
            // SAFETY: the caller promises that nobody uses it.
            abi::MEMORY_GPU => unsafe { mapped::free_gpu(given.d_ptr, given.h_ptr) }?,
            // SAFETY: as above.
            abi::MEMORY_HOST => unsafe { mapped::free_host(given.h_ptr) }?,
            _ => return Err(CallError::MemoryType { flags: given.flags }),
        }
        let emptied = MemDesc {
            d_ptr: 0,
            h_ptr: std::ptr::null_mut(),
            bar_ptr: std::ptr::null_mut(),
            alloc_size: 0,
            mh: 0,
            ..given
        };
        // SAFETY: as above, and that it can be written to.
        unsafe { desc.write(emptied) };
        Ok(())
    })
}

/// Says where a kernel of the current context's GPU finds a word that it is to wait for, registering the word if need be.
///
/// Returns `EINVAL`, and writes nothing, for NULL, a misaligned pointer, or flags that are not one memory type and
/// `GDS_WAIT_POST_FLUSH_REMOTE`; otherwise what CUDA's refusal comes to.
///
/// # Safety
///
/// `mlx5_info` is NULL or can be written to. `ptr` is memory of this type, and stays that while a GPU uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_mlx5_get_dword_wait_info(
    ptr: *mut u32,
    value: u32,
    flags: c_int,
    mlx5_info: *mut DwordWaitInfo,
) -> c_int {
    guard::call("gds_mlx5_get_dword_wait_info", || {
        let memory = list::wait_memory(flags)?;
        let word = flags::word("ptr", ptr.cast())?;
        if mlx5_info.is_null() {
            return Err(CallError::Null { what: "mlx5_info" });
        }
        // SAFETY: the caller's promise.
        let found = |how| unsafe { Lookup::default().device_address(word, 4, how) };
        let address = match memory {
            MemoryType::Gpu => DevicePtr::new(word as u64),
            MemoryType::Host => found(Registration::Memory)?,
            MemoryType::Io => found(Registration::Registers)?,
        };
        let made = DwordWaitInfo {
            // A device's address, which nobody here follows.
            ptr: std::ptr::without_provenance_mut(address.get() as usize),
            value,
        };
        // SAFETY: not NULL, and so the caller promises that it can be written to.
        unsafe { mlx5_info.write(made) };
        Ok(())
    })
}
