//! Allocation and release of all kinds of memory.

use std::ffi::c_void;
use std::ptr::NonNull;

use gdr_sys::cuda as sys;

use super::driver::{Answer, call};
use super::gpu::CudaGpu;
use crate::backend::{Block, HostBlock, Registration};
use crate::{Allocation, DevicePtr};

impl CudaGpu {
    /// Allocates; the context is current.
    pub(super) fn take(&self, kind: Allocation, bytes: usize) -> Answer<Block> {
        let mut address = 0;
        let mut reserved = bytes;
        match kind {
            Allocation::Malloc => call!(self.driver, cuMemAlloc(&mut address, bytes))?,
            Allocation::Managed => {
                call!(self.driver, cuMemAllocManaged(&mut address, bytes, sys::MEM_ATTACH_GLOBAL))?;
            }
            Allocation::Pool { exportable } => {
                let pool = if exportable { self.exportable_pool()? } else { self.default_pool()? };
                let stream = self.pool_stream()?;
                call!(self.driver, cuMemAllocFromPoolAsync(&mut address, bytes, pool, stream))?;
                self.driver.synchronize_stream(stream)?;
            }
            Allocation::Create { exportable, rdma } => {
                (address, reserved) = self.create(bytes, exportable, rdma)?
            }
        }
        Ok(Block { address: DevicePtr::new(address), bytes, reserved, kind })
    }

    /// Frees; the context is current.
    pub(super) fn give_back(&self, block: Block) -> Answer<()> {
        let address = block.address.get();
        match block.kind {
            Allocation::Malloc | Allocation::Managed => call!(self.driver, cuMemFree(address)),
            Allocation::Pool { .. } => {
                let stream = self.pool_stream()?;
                call!(self.driver, cuMemFreeAsync(address, stream))?;
                self.driver.synchronize_stream(stream)
            }
            Allocation::Create { .. } => {
                // Unmapping need not wait: streams hold the memory until they are done.
                let unmapped = call!(self.driver, cuMemUnmap(address, block.reserved));
                unmapped.and(call!(self.driver, cuMemAddressFree(address, block.reserved)))
            }
        }
    }

    /// Physical memory with its own mapping, accessible by this GPU.
    fn create(&self, bytes: usize, exportable: bool, rdma: bool) -> Answer<(u64, usize)> {
        let properties = sys::MemAllocationProp {
            kind: sys::MEM_ALLOCATION_TYPE_PINNED,
            requested_handle_types: if exportable {
                sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
            } else {
                sys::MEM_HANDLE_TYPE_NONE
            },
            location: self.location(),
            alloc_flags: sys::MemAllocationFlags {
                gpu_direct_rdma_capable: u8::from(rdma),
                ..Default::default()
            },
            ..Default::default()
        };
        let mut granularity = 0;
        let minimum = sys::MEM_ALLOC_GRANULARITY_MINIMUM;
        call!(self.driver, cuMemGetAllocationGranularity(&mut granularity, &properties, minimum))?;
        let reserved = bytes.next_multiple_of(granularity.max(1));

        let mut handle = sys::GenericHandle(0);
        call!(self.driver, cuMemCreate(&mut handle, reserved, &properties, 0))?;
        let mapped = self.map(handle, reserved);
        // The mapping now holds the memory; if mapping failed, this frees it.
        let _ = self.driver.release_allocation(handle);
        Ok((mapped?, reserved))
    }

    fn map(&self, handle: sys::GenericHandle, bytes: usize) -> Answer<u64> {
        let mut address = 0;
        call!(self.driver, cuMemAddressReserve(&mut address, bytes, 0, 0, 0))?;
        let access = sys::MemAccessDesc {
            location: self.location(),
            flags: sys::MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let mapped = call!(self.driver, cuMemMap(address, bytes, 0, handle, 0)).and_then(|()| {
            call!(self.driver, cuMemSetAccess(address, bytes, &access, 1)).inspect_err(|_| {
                // Undoes the earlier steps; the first error is reported.
                let _ = call!(self.driver, cuMemUnmap(address, bytes));
            })
        });
        mapped.map(|()| address).inspect_err(|_| {
            // As above.
            let _ = call!(self.driver, cuMemAddressFree(address, bytes));
        })
    }

    fn location(&self) -> sys::MemLocation {
        sys::MemLocation { kind: sys::MEM_LOCATION_TYPE_DEVICE, id: self.raw.0 }
    }

    fn default_pool(&self) -> Answer<sys::MemoryPool> {
        let mut pool = sys::MemoryPool::NULL;
        call!(self.driver, cuDeviceGetDefaultMemPool(&mut pool, self.raw)).map(|()| pool)
    }

    fn exportable_pool(&self) -> Answer<sys::MemoryPool> {
        let mut lazy = self.lazy();
        if let Some(pool) = lazy.exportable_pool {
            return Ok(pool);
        }
        let properties = sys::MemPoolProps {
            alloc_type: sys::MEM_ALLOCATION_TYPE_PINNED,
            handle_types: sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            location: self.location(),
            ..Default::default()
        };
        let mut pool = sys::MemoryPool::NULL;
        call!(self.driver, cuMemPoolCreate(&mut pool, &properties))?;
        Ok(*lazy.exportable_pool.insert(pool))
    }

    fn pool_stream(&self) -> Answer<sys::Stream> {
        let mut lazy = self.lazy();
        match lazy.stream {
            Some(stream) => Ok(stream),
            None => Ok(*lazy.stream.insert(self.driver.create_stream()?)),
        }
    }

    /// Pinned host memory, zeroed because the driver reuses memory. The context is current.
    pub(super) fn take_host(&self, bytes: usize, write_combined: bool) -> Answer<HostBlock> {
        let mut flags = sys::MEMHOSTALLOC_PORTABLE | sys::MEMHOSTALLOC_DEVICEMAP;
        if write_combined {
            flags |= sys::MEMHOSTALLOC_WRITECOMBINED;
        }
        let mut out: *mut c_void = std::ptr::null_mut();
        call!(self.driver, cuMemHostAlloc(&mut out, bytes, flags))?;
        let Some(start) = NonNull::new(out.cast::<u8>()) else {
            let (function, result) = ("cuMemHostAlloc", sys::CuResult::UNKNOWN);
            return Err(crate::Failure::Returned { function, result });
        };
        // SAFETY: new memory of this size from the driver.
        unsafe { start.write_bytes(0, bytes) };
        let device = self.device_address(start).inspect_err(|_| {
            // The first error is reported.
            let _ = call!(self.driver, cuMemFreeHost(out));
        })?;
        Ok(HostBlock { start, device, bytes })
    }

    /// Registers host memory; the context is current.
    ///
    /// # Safety
    ///
    /// `start` is valid for `bytes` bytes until it is unregistered.
    pub(super) unsafe fn register_host(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        how: Registration,
    ) -> Answer<DevicePtr> {
        let flags = registration_flags(how);
        call!(self.driver, cuMemHostRegister(start.as_ptr().cast(), bytes, flags))?;
        self.device_address(start).inspect_err(|_| {
            // The first error is reported.
            let _ = call!(self.driver, cuMemHostUnregister(start.as_ptr().cast()));
        })
    }

    /// Device address of registered memory; the context is current.
    pub(super) fn device_address(&self, start: NonNull<u8>) -> Answer<DevicePtr> {
        let mut address = 0;
        call!(self.driver, cuMemHostGetDevicePointer(&mut address, start.as_ptr().cast(), 0))?;
        Ok(DevicePtr::new(address))
    }
}

/// Flags: registered for all contexts, mapped for their GPUs, and the kind of memory.
pub(crate) fn registration_flags(how: Registration) -> u32 {
    let sort = match how {
        Registration::Memory => 0,
        Registration::ReadOnly => sys::MEMHOSTREGISTER_READ_ONLY,
        Registration::Registers => sys::MEMHOSTREGISTER_IOMEMORY,
    };
    sys::MEMHOSTREGISTER_PORTABLE | sys::MEMHOSTREGISTER_DEVICEMAP | sort
}
