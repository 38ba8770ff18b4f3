//! Mappings of this process: access rights, device memory, and mappings of dma-bufs.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;

use fakes::dmabuf::{PAGE, Part};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::answer::Errno;
use crate::objects::errno;

/// EFAULT unless the whole range is mapped readable, and writable if `writes`. Does not touch the memory.
pub fn check(start: u64, bytes: u64, writes: bool) -> Result<(), Errno> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| libc::EIO)?;
    let end = start + bytes;
    let mut known = start;
    // The kernel lists them in ascending order.
    for map in maps.lines().filter_map(Map::of) {
        if map.end <= known || map.start > known {
            continue;
        }
        if !map.rights.starts_with('r') || (writes && !map.rights[1..].starts_with('w')) {
            break;
        }
        known = map.end;
    }
    if known >= end { Ok(()) } else { Err(libc::EFAULT) }
}

struct Map<'text> {
    start: u64,
    end: u64,
    rights: &'text str,
}

impl<'text> Map<'text> {
    fn of(line: &'text str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next().filter(|rights| rights.len() == 4)?;
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            rights,
        })
    }
}

/// True for GPU memory, by the process's libcuda.
pub fn is_device_memory(address: u64) -> bool {
    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_DEVICE.
    cuda_attribute(2, address) == Some(2)
}

/// True if CUDA says that GPUDirect RDMA does not reach the address: the driver gives its pages to no peer memory client.
pub fn is_out_of_reach(address: u64) -> bool {
    // CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE.
    cuda_attribute(15, address) == Some(0)
}

/// A pointer attribute from the process's libcuda, if one is loaded.
fn cuda_attribute(attribute: u32, address: u64) -> Option<u32> {
    // SAFETY: RTLD_NOLOAD finds only libraries that are open already, so no constructor runs.
    let library =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is open.
    let function = unsafe { libc::dlsym(library, c"cuPointerGetAttribute".as_ptr()) };
    let mut value: u32 = 0;
    let code = if function.is_null() {
        1
    } else {
        // SAFETY: cuda.h's signature of the function of this name.
        let ask = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, u32, u64) -> u32>(
                function,
            )
        };
        // SAFETY: both attributes in use are as large as an unsigned int.
        unsafe { ask((&raw mut value).cast(), attribute, address) }
    };
    // SAFETY: opened above; the program's own handle keeps it loaded.
    unsafe { libc::dlclose(library) };
    (code == 0).then_some(value)
}

/// True if a file is a dma-buf of the fake CUDA with the PCIe mapping.
pub fn is_over_pcie(file: c_int) -> bool {
    // SAFETY: only queries the descriptor, valid or not.
    if unsafe { libc::fcntl(file, libc::F_GETFD) } < 0 {
        return false;
    }
    // SAFETY: the file is open, and the caller of verbs keeps it open during the call.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    let part = rustix::fs::tell(file).ok().and_then(Part::at);
    part.is_some_and(|part| part.pcie)
}

/// A mapping of a file, unmapped on drop.
pub struct Mapping {
    start: *mut c_void,
    bytes: usize,
    /// Offset of the wanted range in the mapping.
    into: usize,
}

// SAFETY: the pages belong to no thread; programs synchronise access to them.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a range of a dma-buf: of a file, or of the part of it that its position encodes (the fake CUDA does this). EBADF without
    /// a file, EINVAL if it is too short or cannot be mapped.
    pub fn of(file: c_int, offset: u64, bytes: usize, writes: bool) -> Result<Self, Errno> {
        // SAFETY: only queries the descriptor, valid or not.
        if unsafe { libc::fcntl(file, libc::F_GETFD) } < 0 {
            return Err(libc::EBADF);
        }
        // SAFETY: the file is open, and the caller of verbs keeps it open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let length = rustix::fs::fstat(file).map_err(errno)?.st_size;
        let length = u64::try_from(length).unwrap_or(0);
        // A file without a position has no parts.
        let part = rustix::fs::tell(file).ok().and_then(Part::at);
        let part = part.unwrap_or(Part { start: 0, bytes: length, pcie: false });
        let end = offset.checked_add(bytes as u64).ok_or(libc::EINVAL)?;
        if end > part.bytes || part.start.saturating_add(end) > length {
            return Err(libc::EINVAL);
        }
        let offset = part.start + offset;
        let first = offset / PAGE * PAGE;
        let into = usize::try_from(offset - first).map_err(|_| libc::EINVAL)?;
        let bytes = bytes.checked_add(into).ok_or(libc::EINVAL)?;
        let rights = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let start = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, file, first) };
        // A file that cannot be mapped is not a dma-buf.
        let start = start.map_err(|_| libc::EINVAL)?;
        Ok(Self { start, bytes, into })
    }

    pub fn address(&self) -> usize {
        self.start.expose_provenance() + self.into
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and its registration is gone. On failure the mapping leaks.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
