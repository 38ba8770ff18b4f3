//! Scratch device memory in the context of an existing address, to study the driver's memory
//! layout.

use gdr_sys::cuda as sys;

use super::{AllocationHandle, Reader};
use crate::cuda::driver::{Answer, Driver, call};
use crate::error::Failure;
use crate::{Allocation, DevicePtr, Error};

/// Device memory that is not freed before the process ends: freeing may wait for every running
/// kernel, and a kernel may wait for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scratch {
    address: DevicePtr,
    bytes: usize,
}

impl Scratch {
    /// Start address.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.address
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How a [`Scratch`] is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScratchKind {
    /// `cuMemAlloc`.
    Malloc,
    /// `cuMemCreate` with its own mapping, rounded up to the driver's granularity.
    Create {
        /// Allows export as a file descriptor.
        exportable: bool,
    },
}

impl Reader {
    /// Allocates scratch memory on this reader's GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Allocate`].
    pub fn scratch(&self, kind: ScratchKind, bytes: usize) -> Result<Scratch, Error> {
        let entered = self.place.enter(self.near)?;
        let made = match kind {
            ScratchKind::Malloc => plain(entered.driver, bytes).map(|address| (address, bytes)),
            ScratchKind::Create { exportable } => entered
                .driver
                .current_device()
                .and_then(|device| created(entered.driver, device, exportable, bytes)),
        };
        made.map(|(address, bytes)| Scratch { address: DevicePtr::new(address), bytes }).map_err(
            |source| Error::Allocate {
                kind: match kind {
                    ScratchKind::Malloc => Allocation::Malloc,
                    ScratchKind::Create { exportable } => {
                        Allocation::Create { exportable, rdma: true }
                    }
                },
                bytes,
                source,
            },
        )
    }

    /// Creates an unmapped `cuMemCreate` allocation and returns its size, rounded up to the
    /// driver's granularity. No kernel can use it, so releasing it waits for nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Allocate`].
    pub fn unmapped(&self, bytes: usize) -> Result<(AllocationHandle, usize), Error> {
        let entered = self.place.enter(self.near)?;
        let driver = entered.driver;
        let made = driver
            .current_device()
            .and_then(|device| allocated(driver, location(device), false, bytes));
        made.map(|(handle, bytes)| (AllocationHandle { driver, handle }, bytes)).map_err(|source| {
            Error::Allocate {
                kind: Allocation::Create { exportable: false, rdma: true },
                bytes,
                source,
            }
        })
    }

    /// Allocates one scratch range for each size in a new exportable stream-ordered pool.
    ///
    /// # Errors
    ///
    /// [`Error::Allocate`].
    pub fn scratch_pool(&self, sizes: &[usize]) -> Result<Vec<Scratch>, Error> {
        let entered = self.place.enter(self.near)?;
        let driver = entered.driver;
        let failed = |bytes: usize| {
            move |source| Error::Allocate {
                kind: Allocation::Pool { exportable: true },
                bytes,
                source,
            }
        };
        let made = driver.current_device().and_then(|device| pool(driver, device));
        // Not destroyed, like the memory in it.
        let pool = made.map_err(failed(sizes.iter().sum()))?;
        let mut scratch = Vec::with_capacity(sizes.len());
        for &bytes in sizes {
            let mut address = 0;
            let made =
                call!(driver, cuMemAllocFromPoolAsync(&mut address, bytes, pool, self.stream));
            let ready = made.and_then(|()| driver.synchronize_stream(self.stream));
            ready.map_err(failed(bytes))?;
            scratch.push(Scratch { address: DevicePtr::new(address), bytes });
        }
        Ok(scratch)
    }

    /// Writes to the start of scratch memory and waits.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if `from` is longer than the memory; [`Error::Copy`].
    pub fn write(&self, scratch: &Scratch, from: &[u8]) -> Result<(), Error> {
        let bytes = from.len();
        if bytes > scratch.bytes {
            return Err(Error::Range { offset: 0, bytes, size: scratch.bytes });
        }
        let entered = self.place.enter(self.near)?;
        let driver = entered.driver;
        let started = call!(
            driver,
            cuMemcpyHtoDAsync(scratch.address.get(), from.as_ptr().cast(), bytes, self.stream)
        );
        // Waits even after an error: the caller owns `from` again on return.
        let finished = driver.synchronize_stream(self.stream);
        started.and(finished).map_err(|source| Error::Copy {
            address: scratch.address,
            bytes,
            source,
        })
    }

    /// Fills each part from its address, with one wait for all.
    ///
    /// # Errors
    ///
    /// [`Error::Copy`] of the first failed copy.
    pub fn read_each(&self, parts: &mut [(DevicePtr, &mut [u8])]) -> Result<(), Error> {
        let entered = self.place.enter(self.near)?;
        let mut first = Ok(());
        for (address, to) in &mut *parts {
            let (address, bytes) = (*address, to.len());
            // SAFETY: `to` is exclusively borrowed until this returns, after the stream finished
            // with it.
            let started = unsafe {
                entered.driver.copy_to_host(to.as_mut_ptr(), address.get(), bytes, self.stream)
            };
            first = started.map_err(|source| Error::Copy { address, bytes, source });
            if first.is_err() {
                break;
            }
        }
        // Waits even after an error: started copies must end before the parts are returned.
        let finished = entered.driver.synchronize_stream(self.stream);
        first.and(finished.map_err(|source| Error::Copy { address: self.near, bytes: 0, source }))
    }
}

fn plain(driver: Driver, bytes: usize) -> Answer<u64> {
    let mut address = 0;
    call!(driver, cuMemAlloc(&mut address, bytes)).map(|()| address)
}

fn pool(driver: Driver, device: sys::Device) -> Answer<sys::MemoryPool> {
    let properties = sys::MemPoolProps {
        alloc_type: sys::MEM_ALLOCATION_TYPE_PINNED,
        handle_types: sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(device),
        ..Default::default()
    };
    let mut pool = sys::MemoryPool::NULL;
    call!(driver, cuMemPoolCreate(&mut pool, &properties)).map(|()| pool)
}

fn location(device: sys::Device) -> sys::MemLocation {
    sys::MemLocation { kind: sys::MEM_LOCATION_TYPE_DEVICE, id: device.0 }
}

/// Address and size of a new mapped allocation.
fn created(
    driver: Driver,
    device: sys::Device,
    exportable: bool,
    bytes: usize,
) -> Answer<(u64, usize)> {
    let location = location(device);
    let (handle, bytes) = allocated(driver, location, exportable, bytes)?;
    let shown = shown(driver, handle, location, bytes);
    // The mapping keeps the allocation; without a mapping, this frees it.
    let released = driver.release_allocation(handle);
    let address = shown?;
    released.map(|()| (address, bytes))
}

/// A new allocation and its size.
fn allocated(
    driver: Driver,
    location: sys::MemLocation,
    exportable: bool,
    bytes: usize,
) -> Answer<(sys::GenericHandle, usize)> {
    let mut properties = sys::MemAllocationProp {
        kind: sys::MEM_ALLOCATION_TYPE_PINNED,
        requested_handle_types: if exportable {
            sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        } else {
            sys::MEM_HANDLE_TYPE_NONE
        },
        location,
        ..Default::default()
    };
    properties.alloc_flags.gpu_direct_rdma_capable = 1;
    let mut granularity = 0;
    call!(
        driver,
        cuMemGetAllocationGranularity(
            &mut granularity,
            &properties,
            sys::MEM_ALLOC_GRANULARITY_MINIMUM
        )
    )?;
    let bytes = bytes.next_multiple_of(granularity.max(1));
    let mut handle = sys::GenericHandle(0);
    let made = call!(driver, cuMemCreate(&mut handle, bytes, &properties, 0));
    if made.is_err() {
        // Retried without RDMA: GPUs without third-party access have no such memory, and scratch
        // memory does not need it.
        properties.alloc_flags.gpu_direct_rdma_capable = 0;
        call!(driver, cuMemCreate(&mut handle, bytes, &properties, 0))?;
    }
    Ok((handle, bytes))
}

fn shown(
    driver: Driver,
    handle: sys::GenericHandle,
    location: sys::MemLocation,
    bytes: usize,
) -> Answer<u64> {
    let mut address = 0;
    call!(driver, cuMemAddressReserve(&mut address, bytes, 0, 0, 0))?;
    let undo = |failure: Failure| {
        // Nothing is mapped there: a failure only leaks address space.
        let _ = call!(driver, cuMemAddressFree(address, bytes));
        failure
    };
    call!(driver, cuMemMap(address, bytes, 0, handle, 0)).map_err(undo)?;
    let access = sys::MemAccessDesc { location, flags: sys::MEM_ACCESS_FLAGS_PROT_READWRITE };
    call!(driver, cuMemSetAccess(address, bytes, &access, 1)).map_err(|failure| {
        // Unmap first, else the address range cannot be freed.
        let _ = call!(driver, cuMemUnmap(address, bytes));
        undo(failure)
    })?;
    Ok(address)
}
