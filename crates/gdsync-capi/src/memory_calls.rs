//! `gds_alloc_mapped_memory`, `gds_free_mapped_memory`, `gds_mlx5_get_dword_wait_info`.

use std::ffi::c_int;

use gdr_sys::exports;
use gpu::{DevicePtr, Registration};

use crate::abi::{self, DwordWaitInfo, MemDesc};
use crate::call_error::CallError;
use crate::flags::{self, MemoryType};
use crate::log::{self, Level};
use crate::registry::Lookup;
use crate::{guard, list, mapped};

exports!(
    use guard::call;

    /// Allocates `size` bytes that the CPU (`h_ptr`) and the GPU of the current context (`d_ptr`) can access: GPU memory
    /// (`GDS_MEMORY_GPU`), mapped for the CPU with or without the gdrdrv module, or host memory (`GDS_MEMORY_HOST`). A size of 0 does
    /// nothing and returns 0.
    ///
    /// Returns `EINVAL` for NULL or another memory type; `ENOMEM`; otherwise the errno of CUDA or the mapping. `desc` is written only on
    /// success.
    ///
    /// # Safety
    ///
    /// `desc` is NULL or writable.
    pub unsafe fn gds_alloc_mapped_memory(desc: *mut MemDesc, size: usize, flags: c_int) -> c_int {
        const NAME: &str = "gds_alloc_mapped_memory";
        if size == 0 {
            log::write(Level::Warning, NAME, format_args!("size is 0: nothing allocated"));
            return Ok(());
        }
        flags::not_null("desc", desc)?;
        // As in libgdsync, only these bits count.
        let info = match flags & abi::MEMORY_MASK {
            abi::MEMORY_GPU => mapped::allocate_gpu(size, flags)?,
            abi::MEMORY_HOST => mapped::allocate_host(size, flags)?,
            _ => return Err(CallError::MemoryType { flags }),
        };
        let (device, host) = (info.d_ptr, info.h_ptr);
        log::write(
            Level::Debug,
            NAME,
            format_args!("{size} bytes: d_ptr={device:#x} h_ptr={host:p} flags={flags:#x}"),
        );
        // SAFETY: not NULL; the caller promises that it is writable.
        unsafe { desc.write(info) };
        Ok(())
    }

    /// Frees memory of [`gds_alloc_mapped_memory`] and sets the pointers and the size in `desc` to 0.
    ///
    /// Returns `EINVAL` for NULL, for unknown or freed memory, and without a current context; otherwise CUDA's errno.
    ///
    /// # Safety
    ///
    /// `desc` is NULL or readable and writable, and neither CPU nor GPU uses the memory any more.
    pub unsafe fn gds_free_mapped_memory(desc: *mut MemDesc) -> c_int {
        flags::not_null("desc", desc)?;
        // SAFETY: not NULL; the caller promises that it is readable.
        let given = unsafe { desc.read() };
        match given.flags & abi::MEMORY_MASK {
            // SAFETY: the caller promises that it is unused.
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
        // SAFETY: not NULL; the caller promises that it is writable.
        unsafe { desc.write(emptied) };
        Ok(())
    }

    /// Returns the GPU address of a word for a kernel that waits for it. Registers host memory if needed.
    ///
    /// Returns `EINVAL`, and writes nothing, for NULL, a misaligned pointer, or flags other than one memory type and
    /// `GDS_WAIT_POST_FLUSH_REMOTE`; otherwise CUDA's errno.
    ///
    /// # Safety
    ///
    /// `mlx5_info` is NULL or writable. `ptr` is memory of this type while a GPU uses it.
    pub unsafe fn gds_mlx5_get_dword_wait_info(
        ptr: *mut u32,
        value: u32,
        flags: c_int,
        mlx5_info: *mut DwordWaitInfo,
    ) -> c_int {
        let memory = list::wait_memory(flags)?;
        let word = flags::word("ptr", ptr.cast())?;
        flags::not_null("mlx5_info", mlx5_info)?;
        // SAFETY: the caller's promise.
        let found = |how| unsafe { Lookup::default().device_address(word, 4, how) };
        let address = match memory {
            MemoryType::Gpu => DevicePtr::new(word as u64),
            MemoryType::Host => found(Registration::Memory)?,
            MemoryType::Io => found(Registration::Registers)?,
        };
        let info = DwordWaitInfo {
            // A GPU address, not dereferenced here.
            ptr: std::ptr::without_provenance_mut(address.get() as usize),
            value,
        };
        // SAFETY: not NULL; the caller promises that it is writable.
        unsafe { mlx5_info.write(info) };
        Ok(())
    }
);
