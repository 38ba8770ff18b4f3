//! The functions of libmlx5 for Data Direct. A test that wants them gives this library a second name, `libmlx5.so.1`, by a hard link: the
//! loader then finds one library under both names.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::copy_nonoverlapping;

use ibverbs_sys::{ibv_context, ibv_device, ibv_mr, ibv_pd};

use crate::answer::{infallible, pointer_or_null, status};
use crate::machine::of_device;
use crate::memory::register_file;
use crate::objects::objects;

/// True for devices with a `data_direct`.
#[unsafe(no_mangle)]
pub extern "C" fn mlx5dv_is_supported(device: *mut ibv_device) -> bool {
    infallible("mlx5dv_is_supported", false, || {
        let index = crate::device::index(device)?;
        Ok(!of_device(index, "data_direct").is_null())
    })
}

/// The value of `data_direct`: a path, as a C string, or an error number.
///
/// # Safety
///
/// As in mlx5dv.h: the buffer has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_get_data_direct_sysfs_path(
    context: *mut ibv_context,
    buffer: *mut c_char,
    length: usize,
) -> c_int {
    status("mlx5dv_get_data_direct_sysfs_path", || {
        let device = objects().context(context)?.device;
        let value = of_device(device, "data_direct");
        let Some(path) = value.as_str() else {
            let code = value.as_i64().and_then(|code| c_int::try_from(code).ok());
            return Err(code.unwrap_or(libc::ENODEV));
        };
        if path.len() >= length {
            return Err(libc::ENOSPC);
        }
        // SAFETY: the caller's guarantee; the path and its NUL fit.
        unsafe {
            copy_nonoverlapping(path.as_ptr().cast(), buffer, path.len());
            buffer.add(path.len()).write(0);
        }
        Ok(())
    })
}

/// As `ibv_reg_dmabuf_mr`; with Data Direct (flag 1) only with the PCIe mapping, and only where the device has the function.
#[unsafe(no_mangle)]
pub extern "C" fn mlx5dv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    bytes: usize,
    iova: u64,
    file: c_int,
    access: c_int,
    mlx5_access: c_int,
) -> *mut ibv_mr {
    pointer_or_null("mlx5dv_reg_dmabuf_mr", || {
        let device = objects().domain(pd)?.device;
        if mlx5_access != 1 || !of_device(device, "data_direct").is_string() {
            return Err(libc::EOPNOTSUPP);
        }
        if !crate::maps::is_over_pcie(file) {
            return Err(libc::EINVAL);
        }
        // A bit mask; the sign does not matter.
        let access = access as c_uint;
        register_file(pd, (offset, bytes, iova), file, access, "data_direct")
    })
}
