//! UMEM objects and register pages (UARs).

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::ioctl::attributes::Attributes;
use crate::ioctl::objects::Objects;
use crate::node;
use crate::switches::switches;

/// `enum mlx5_ib_devx_umem_reg_attrs`.
mod registration {
    pub const HANDLE: u16 = 0;
    pub const ADDRESS: u16 = 1;
    pub const LENGTH: u16 = 2;
    pub const ACCESS: u16 = 3;
    pub const NUMBER: u16 = 4;
    pub const DMABUF: u16 = 6;
}

/// `enum mlx5_ib_uar_alloc_attrs`.
mod page {
    pub const HANDLE: u16 = 0;
    pub const KIND: u16 = 1;
    pub const OFFSET: u16 = 2;
    pub const LENGTH: u16 = 3;
    pub const NUMBER: u16 = 4;
}

/// `IB_ACCESS_LOCAL_WRITE`.
const LOCAL_WRITE: u32 = 1;

/// A UMEM object.
#[derive(Debug)]
pub struct Memory {
    pub context: c_int,
    /// Its address in this process.
    pub address: usize,
    pub bytes: usize,
    /// True if it came as a dma-buf and is mapped here.
    pub is_mapped: bool,
    /// True if the NIC may write it.
    pub is_writable: bool,
}

/// A register page.
#[derive(Debug)]
pub struct Page {
    pub context: c_int,
    /// Its number in commands.
    pub number: u32,
}

/// Size of a NIC's register page.
const UAR: i64 = 4096;

impl Memory {
    /// Address of `bytes` bytes at an offset, if they are within the memory.
    pub fn at(&self, offset: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then_some(self.address + offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: this value's own mapping; no reference to it exists.
            unsafe { libc::munmap(self.address as *mut _, self.bytes) };
        }
    }
}

impl Objects {
    /// `MLX5_IB_METHOD_DEVX_UMEM_REG`. An address must be one of this process. A dma-buf must be a file that can be mapped; the address
    /// is an offset in it.
    pub fn add_memory(
        &mut self,
        context: c_int,
        call: &mut Attributes,
        takes_files: bool,
    ) -> Result<(), c_int> {
        let is_file = call.has(registration::DMABUF);
        if is_file && !takes_files {
            // As for every unknown mandatory attribute.
            return Err(libc::EPROTONOSUPPORT);
        }
        let place = |which| usize::try_from(call.u64(which)?).map_err(|_| libc::EFAULT);
        let (from, bytes) = (place(registration::ADDRESS)?, place(registration::LENGTH)?);
        if bytes == 0 || from.checked_add(bytes).is_none() {
            return Err(libc::EINVAL);
        }
        let address = if is_file {
            let file = c_int::try_from(call.u64(registration::DMABUF)?).map_err(|_| libc::EBADF)?;
            match switches().dmabuf[usize::from(!is_over_pcie(file))] {
                0 => map(file, from, bytes)?,
                errno => return Err(errno),
            }
        } else if is_mapped_range(from, bytes) {
            from
        } else {
            return Err(libc::EFAULT);
        };
        let memory = Memory {
            context,
            address,
            bytes,
            is_mapped: is_file,
            is_writable: call.u32(registration::ACCESS)? & LOCAL_WRITE != 0,
        };
        let number = self.next();
        call.put(registration::NUMBER, &number.to_ne_bytes())?;
        call.put_handle(registration::HANDLE, number)?;
        self.memories.insert(number, memory);
        Ok(())
    }

    /// `MLX5_IB_METHOD_DEVX_UMEM_DEREG`: `EBUSY` while an object lies in it.
    pub fn drop_memory(&mut self, context: c_int, call: &Attributes) -> Result<(), c_int> {
        let handle = call.u32(registration::HANDLE)?;
        let known = self.memories.get(&handle).is_some_and(|memory| memory.context == context);
        let is_used = self.queues.values().any(|queue| queue.memories.contains(&handle))
            || self.pairs.values().any(|pair| pair.memories.contains(&handle));
        match (known, is_used) {
            (false, _) => Err(libc::ENOENT),
            (true, true) => Err(libc::EBUSY),
            (true, false) => {
                self.memories.remove(&handle);
                Ok(())
            }
        }
    }

    /// `MLX5_IB_METHOD_UAR_OBJ_ALLOC`: one of the node's pages.
    pub fn add_page(&mut self, context: c_int, call: &mut Attributes) -> Result<(), c_int> {
        // `enum mlx5_ib_uapi_uar_alloc_type`: write-combining, uncached.
        if call.u32(page::KIND)? > 1 {
            return Err(libc::EOPNOTSUPP);
        }
        let used = |index: i64| {
            self.pages.values().any(|page| {
                page.context == context && i64::from(page.number) == index * (node::page() / UAR)
            })
        };
        // Page 0 stays unused, so that an uninitialised number is detected.
        let index = (1..256).find(|index| !used(*index)).ok_or(libc::ENOSPC)?;
        let number = u32::try_from(index * (node::page() / UAR)).map_err(|_| libc::ENOSPC)?;
        let length = u32::try_from(node::page()).map_err(|_| libc::ENOSPC)?;
        call.put(page::OFFSET, &(index * node::page()).to_ne_bytes())?;
        call.put(page::LENGTH, &length.to_ne_bytes())?;
        call.put(page::NUMBER, &number.to_ne_bytes())?;
        let handle = self.next();
        call.put_handle(page::HANDLE, handle)?;
        let page = Page { context, number };
        self.pages.insert(handle, page);
        Ok(())
    }

    /// `MLX5_IB_METHOD_UAR_OBJ_DESTROY`.
    pub fn drop_page(&mut self, context: c_int, call: &Attributes) -> Result<(), c_int> {
        let handle = call.u32(page::HANDLE)?;
        let known = self.pages.get(&handle).filter(|page| page.context == context);
        let number = known.ok_or(libc::ENOENT)?.number;
        if self.pairs.values().any(|pair| pair.context == context && pair.page == number) {
            return Err(libc::EBUSY);
        }
        self.pages.remove(&handle);
        Ok(())
    }
}

/// True if a file is a dma-buf of the fake CUDA with the PCIe mapping, which it marks in the file's position (`fakes::dmabuf`).
fn is_over_pcie(file: c_int) -> bool {
    // SAFETY: reads the position of a descriptor, valid or not.
    let position = unsafe { libc::lseek(file, 0, libc::SEEK_CUR) };
    position > 0 && position & (1 << 62) != 0
}

/// Maps a file range.
fn map(file: c_int, offset: usize, bytes: usize) -> Result<usize, c_int> {
    let from = i64::try_from(offset).map_err(|_| libc::EINVAL)?;
    // SAFETY: a zeroed stat, which the call fills in.
    let length = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        match libc::syscall(libc::SYS_fstat, file, &raw mut status) {
            0 => usize::try_from(status.st_size).unwrap_or(0),
            _ => return Err(libc::EBADF),
        }
    };
    if offset + bytes > length {
        return Err(libc::EINVAL);
    }
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), bytes, rights, libc::MAP_SHARED, file, from) };
    if start == libc::MAP_FAILED { Err(libc::EINVAL) } else { Ok(start as usize) }
}

/// True if the range is mapped in this process.
fn is_mapped_range(address: usize, bytes: usize) -> bool {
    let page = usize::try_from(node::page()).unwrap_or(4096);
    let start = address / page * page;
    let length = (address + bytes).next_multiple_of(page) - start;
    let mut residency = vec![0_u8; length / page];
    // SAFETY: one byte per page; the memory itself is not accessed.
    unsafe { libc::mincore(start as *mut _, length, residency.as_mut_ptr().cast()) == 0 }
}
