//! Functions that an old library lacks: crate `fakes` hides them.

use std::ffi::{c_int, c_uint};

use ibverbs_sys::{ibv_context, ibv_device, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd};

use crate::answer::{count, pointer_or_null, put, run, status};
use crate::device::index;
use crate::machine::{Gid, gids, ports};
use crate::maps::is_over_pcie;
use crate::memory::register_file;
use crate::objects::objects;
use crate::port::device_of;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    count("ibv_get_device_index", || Ok(c_int::try_from(index(device)?).unwrap_or(-1)))
}

/// Accepts any file that can be mapped as a dma-buf; of a dma-buf of the fake CUDA, the exported part.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    bytes: usize,
    iova: u64,
    file: c_int,
    access: c_int,
) -> *mut ibv_mr {
    pointer_or_null("ibv_reg_dmabuf_mr", || {
        let mapping = if is_over_pcie(file) { "pcie" } else { "default" };
        // A bit mask; the sign does not matter.
        register_file(pd, (offset, bytes, iova), file, access as c_uint, mapping)
    })
}

fn entry(port: u8, index: usize, gid: Gid) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: gid.raw },
        gid_index: u32::try_from(index).unwrap_or(u32::MAX),
        port_num: port.into(),
        gid_type: gid.kind,
        ndev_ifindex: gid.ifindex,
    }
}

/// Called by verbs.h's inline `ibv_query_gid_ex`.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    status("_ibv_query_gid_ex", || {
        let (device, port) = device_of(&objects(), context, port)?;
        if flags != 0 || size != size_of::<ibv_gid_entry>() {
            return Err(libc::EINVAL);
        }
        let table = gids(device, port);
        let index = index as usize;
        let gid = table.get(index).ok_or(libc::EINVAL)?.ok_or(libc::ENODATA)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, entry(port, index, gid)) }
    })
}

/// Called by verbs.h's inline `ibv_query_gid_table`.
///
/// # Safety
///
/// `out` is valid for writes of `most` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    out: *mut ibv_gid_entry,
    most: usize,
    flags: u32,
    size: usize,
) -> isize {
    let found = run("_ibv_query_gid_table", || {
        let (device, _) = device_of(&objects(), context, 1)?;
        let mut found = Vec::new();
        for port in 1..=ports(device) {
            let table = gids(device, port).into_iter().enumerate();
            found.extend(table.filter_map(|(index, gid)| Some(entry(port, index, gid?))));
        }
        if flags != 0 || size != size_of::<ibv_gid_entry>() || found.len() > most {
            return Err(libc::EINVAL);
        }
        for (place, entry) in found.iter().enumerate() {
            // SAFETY: the caller's guarantee; there are no more than `most`.
            unsafe { put(out.wrapping_add(place), *entry)? };
        }
        Ok(found.len())
    });
    found.map_or_else(|code| -(code as isize), |count| count.try_into().unwrap_or(0))
}
