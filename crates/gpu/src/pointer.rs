//! Queries about any device address in the process, also of memory that other code allocated.
//!
//! No call creates a context. Calls that need one push the allocation's context, or the GPU's
//! primary context if active. Each call sets the thread's stream-capture mode to relaxed and
//! restores it, so it does not disturb a capture in progress.
//!
//! If another thread frees the memory meanwhile, results describe what is mapped at that moment.

mod scratch;

use std::fmt;
use std::os::fd::OwnedFd;

use gdr_sys::cuda::{self as sys, PointerAttribute as Ask};

use crate::cuda::context::{Entered, Relaxed};
use crate::cuda::driver::{Driver, call};
use crate::device::pci_of;
use crate::error::Failure;
use crate::{DevicePtr, Error, PciAddress};

pub use scratch::{Scratch, ScratchKind};

/// Properties CUDA reports for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pointer {
    /// Queried address.
    pub address: DevicePtr,
    /// Start of the allocation (`cuMemGetAddressRange`); for `cuMemCreate` memory, of the mapping.
    pub base: DevicePtr,
    /// Bytes from `base`: requested size, or mapped size of `cuMemCreate` memory.
    pub size: u64,
    /// Kind of memory.
    pub kind: MemoryKind,
    /// CUDA ordinal of the GPU it was allocated on or registered with.
    pub ordinal: u32,
    /// PCI address of that GPU.
    pub pci: Option<PciAddress>,
    /// Unique for the process lifetime: identifies an allocation even if its address is reused.
    pub buffer_id: u64,
    /// True if `cuIpcGetMemHandle` supports it (`cuMemAlloc` memory).
    pub ipc_capable: bool,
    /// GPUDirect RDMA support as CUDA reports it; `None` if the driver is too old. H200 with driver
    /// 580 reports false for pool memory, although its dma-buf export works.
    pub rdma_capable: Option<bool>,
    /// True for memory of a stream-ordered pool (`cudaMallocAsync`).
    pub mempool: bool,
    /// Exportable `CUmemAllocationHandleType` bits; bit 0 is a file descriptor. 0 if none or
    /// unknown.
    pub handle_types: u64,
    /// True if synchronous operations on it always synchronise
    /// (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`).
    pub sync_memops: bool,
    /// True if CUDA names the allocation's context; `cuMemCreate` memory has none.
    pub has_context: bool,
}

/// Kind of memory behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// GPU memory.
    Device,
    /// Managed memory, which migrates.
    Managed,
    /// Pinned or registered host memory.
    Host,
    /// Other `CUmemorytype` value.
    Other(u32),
}

/// PCIe or default mapping of a dma-buf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DmaBufMapping {
    /// Driver's choice.
    Default,
    /// Over PCIe even if a coherent link exists (CUDA 12.8).
    Pcie,
}

/// Describes `address`. Takes 2 to 4 µs (H200, driver 580).
///
/// # Errors
///
/// [`Error::Describe`] ([`Kind::Invalid`](crate::Kind::Invalid)) for an address CUDA does not know;
/// [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn describe(address: DevicePtr) -> Result<Pointer, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let failed = |source| Error::Describe { address, source };
    let attribute_value = |attribute| driver.pointer_attribute(attribute, address.get());
    let optional = |attribute| attribute_value(attribute).ok();

    let memory_type = attribute_value(Ask::MEMORY_TYPE).map_err(failed)? as u32;
    let ordinal = attribute_value(Ask::DEVICE_ORDINAL).map_err(failed)? as u32;
    let managed = optional(Ask::IS_MANAGED).is_some_and(|answer| answer != 0);
    let (base, size) = driver
        .address_range(address.get())
        .or_else(|_| {
            Ok((
                attribute_value(Ask::RANGE_START_ADDR)?,
                attribute_value(Ask::RANGE_SIZE)? as usize,
            ))
        })
        .map_err(failed)?;
    let device = driver.device(ordinal).map_err(failed)?;
    Ok(Pointer {
        address,
        base: DevicePtr::new(base),
        size: size as u64,
        kind: match memory_type {
            _ if managed => MemoryKind::Managed,
            sys::MEMORYTYPE_DEVICE => MemoryKind::Device,
            sys::MEMORYTYPE_HOST => MemoryKind::Host,
            other => MemoryKind::Other(other),
        },
        ordinal,
        pci: pci_of(driver, device),
        buffer_id: optional(Ask::BUFFER_ID).unwrap_or(0),
        ipc_capable: optional(Ask::IS_LEGACY_CUDA_IPC_CAPABLE).is_some_and(|answer| answer != 0),
        rdma_capable: optional(Ask::IS_GPU_DIRECT_RDMA_CAPABLE).map(|answer| answer != 0),
        mempool: optional(Ask::MEMPOOL_HANDLE).is_some_and(|answer| answer != 0),
        handle_types: optional(Ask::ALLOWED_HANDLE_TYPES).unwrap_or(0),
        sync_memops: optional(Ask::SYNC_MEMOPS).is_some_and(|answer| answer != 0),
        has_context: optional(Ask::CONTEXT).is_some_and(|answer| answer != 0),
    })
}

/// Returns the 64 opaque bytes of `cuIpcGetMemHandle`.
///
/// # Errors
///
/// [`Error::IpcHandle`] for memory that is not `cuMemAlloc`'s; [`Error::NoContext`]; as
/// [`describe`].
pub fn ipc_handle(address: DevicePtr) -> Result<[u8; 64], Error> {
    let place = OwningContext::enter(address)?;
    place.driver.ipc_handle(address.get()).map_err(|source| Error::IpcHandle { address, source })
}

/// Reference to the physical allocation (`CUmemGenericAllocationHandle`) mapped at an address,
/// released on drop.
#[derive(Debug)]
pub struct AllocationHandle {
    driver: Driver,
    handle: sys::GenericHandle,
}

impl AllocationHandle {
    /// Raw CUDA handle.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle.0
    }
}

impl Drop for AllocationHandle {
    fn drop(&mut self) {
        let _relaxed = Relaxed::enter(self.driver);
        // Ignored: drop cannot report a failed release.
        let _ = self.driver.release_allocation(self.handle);
    }
}

/// Retains the `cuMemCreate` allocation mapped at `address`.
///
/// # Errors
///
/// [`Error::AllocationHandle`] for memory that is not `cuMemCreate`'s; as [`describe`].
pub fn retain_handle(address: DevicePtr) -> Result<AllocationHandle, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let handle = driver
        .retain_allocation(address.get())
        .map_err(|source| Error::AllocationHandle { address, source })?;
    Ok(AllocationHandle { driver, handle })
}

/// Exports the whole `cuMemCreate` allocation or memory pool at `address` as a file descriptor,
/// closed on exec.
///
/// # Errors
///
/// [`Error::ExportFd`] if it was not made exportable; [`Error::AllocationHandle`] for memory that
/// is neither; as [`describe`].
pub fn export_fd(address: DevicePtr) -> Result<OwnedFd, Error> {
    let driver = Driver::open()?;
    let failed = |source| Error::ExportFd { address, source };
    let pool = driver.pointer_attribute(Ask::MEMPOOL_HANDLE, address.get()).unwrap_or(0);
    if pool != 0 {
        let _relaxed = Relaxed::enter(driver);
        return driver.export_pool(sys::MemoryPool(pool as usize as *mut _)).map_err(failed);
    }
    let allocation = retain_handle(address)?;
    let _relaxed = Relaxed::enter(driver);
    driver.export_allocation(allocation.handle).map_err(failed)
}

/// Returns the 64 opaque bytes of `cuMemPoolExportPointer`, which locate `address` in its pool. The
/// pool's file descriptor must already be exported.
///
/// # Errors
///
/// [`Error::ExportFd`] for memory that is not of an exportable pool; as [`describe`].
pub fn pool_place(address: DevicePtr) -> Result<[u8; 64], Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let mut out = [0; 64];
    call!(driver, cuMemPoolExportPointer(&mut out, address.get()))
        .map(|()| out)
        .map_err(|source| Error::ExportFd { address, source })
}

/// Exports a range as a dma-buf; `address` and `bytes` must be multiples of the host page size.
///
/// # Errors
///
/// [`Error::DmaBuf`]; [`Error::NoContext`]; as [`describe`].
pub fn dmabuf(address: DevicePtr, bytes: usize, mapping: DmaBufMapping) -> Result<OwnedFd, Error> {
    let place = OwningContext::enter(address)?;
    let flags = match mapping {
        DmaBufMapping::Default => 0,
        DmaBufMapping::Pcie => sys::MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE,
    };
    place.driver.dma_buf(address.get(), bytes, flags).map_err(|source| Error::DmaBuf {
        address,
        bytes,
        source,
    })
}

/// Makes synchronous operations on the allocation always synchronise
/// (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`), as third-party PCIe readers need.
///
/// # Errors
///
/// [`Error::Describe`]; [`Error::NoContext`]; as [`describe`].
pub fn set_sync_memops(address: DevicePtr) -> Result<(), Error> {
    let place = OwningContext::enter(address)?;
    place
        .driver
        .set_sync_memops(address.get())
        .map_err(|source| Error::Describe { address, source })
}

/// Copies device memory into `to` on a private stream; use [`Reader`] for repeated reads.
///
/// # Errors
///
/// [`Error::Copy`]; as [`Reader::open`].
pub fn read(address: DevicePtr, to: &mut [u8]) -> Result<(), Error> {
    Reader::open(address)?.read(address, to)
}

/// Copies from device memory on a private stream in the memory's context, independent of other
/// work.
#[derive(Debug)]
pub struct Reader {
    place: Context,
    stream: sys::Stream,
    /// Address it was opened for, for error messages.
    near: DevicePtr,
}

impl Reader {
    /// Opens a reader for the GPU and context of `address`.
    ///
    /// # Errors
    ///
    /// [`Error::Stream`]; [`Error::NoContext`]; as [`describe`].
    pub fn open(address: DevicePtr) -> Result<Self, Error> {
        let place = Context::of(address)?;
        let entered = place.enter(address)?;
        let stream = entered.driver.create_stream().map_err(Error::Stream)?;
        drop(entered);
        Ok(Self { place, stream, near: address })
    }

    /// Copies `to.len()` bytes at `address` and waits. Takes 8 µs for 64 bytes (H200, driver 580).
    ///
    /// # Errors
    ///
    /// [`Error::Copy`] if part of the range is not mapped.
    pub fn read(&self, address: DevicePtr, to: &mut [u8]) -> Result<(), Error> {
        let entered = self.place.enter(address)?;
        let bytes = to.len();
        let failed = |source| Error::Copy { address, bytes, source };
        let started = {
            // SAFETY: `to` is exclusively borrowed until this returns, after the stream finished
            // with it.
            unsafe {
                entered.driver.copy_to_host(to.as_mut_ptr(), address.get(), bytes, self.stream)
            }
        };
        // Waits even after an error: a started copy must end before `to` is returned.
        let finished = entered.driver.synchronize_stream(self.stream);
        started.and(finished).map_err(failed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let driver = self.place.driver;
        let _relaxed = Relaxed::enter(driver);
        // The stream is idle. If its context is gone, so is the stream.
        let _ = driver.destroy_stream(self.stream);
    }
}

/// Context used to query an address.
struct Context {
    driver: Driver,
    context: sys::Context,
    /// Primary context retained for this value's lifetime.
    retained: Option<sys::Device>,
}

impl Context {
    /// The allocation's context, else the thread's context on the same GPU, else the GPU's active
    /// primary context.
    fn of(address: DevicePtr) -> Result<Self, Error> {
        let driver = Driver::open()?;
        let failed = |source| Error::Describe { address, source };
        let attribute_value = |attribute| driver.pointer_attribute(attribute, address.get());
        let ordinal = attribute_value(Ask::DEVICE_ORDINAL).map_err(failed)? as u32;
        if let Ok(context @ 1..) = attribute_value(Ask::CONTEXT) {
            return Ok(Self::borrowed(driver, sys::Context(context as usize as *mut _)));
        }
        let device = driver.device(ordinal).map_err(failed)?;
        if driver.current_device() == Ok(device) {
            let context = driver.current().map_err(|source| Error::Context { ordinal, source })?;
            return Ok(Self::borrowed(driver, context));
        }
        if !driver.primary_is_active(device).map_err(failed)? {
            return Err(Error::NoContext { address, ordinal });
        }
        let context =
            driver.retain_primary(device).map_err(|source| Error::Context { ordinal, source })?;
        Ok(Self { driver, context, retained: Some(device) })
    }

    fn borrowed(driver: Driver, context: sys::Context) -> Self {
        Self { driver, context, retained: None }
    }

    fn enter(&self, address: DevicePtr) -> Result<Current, Error> {
        let relaxed = Relaxed::enter(self.driver);
        let entered = Entered::push(self.driver, self.context)
            .map_err(|source| Error::Describe { address, source })?;
        Ok(Current { driver: self.driver, _entered: entered, _relaxed: relaxed })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(device) = self.retained {
            // Balances the retain in `of`; the driver counts references.
            let _ = self.driver.release_primary(device);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("context", &self.context).finish()
    }
}

/// Context of an address, current on this thread.
struct Current {
    driver: Driver,
    _entered: Entered,
    _relaxed: Relaxed,
}

/// [`Current`] and its context.
struct OwningContext {
    driver: Driver,
    // Dropped first: pops the context before it may be released.
    _current: Current,
    _context: Context,
}

impl OwningContext {
    fn enter(address: DevicePtr) -> Result<Self, Error> {
        let context = Context::of(address)?;
        let current = context.enter(address)?;
        Ok(Self { driver: context.driver, _current: current, _context: context })
    }
}

/// True if CUDA does not know the address; false for other errors.
#[must_use]
pub fn is_unknown(error: &Error) -> bool {
    matches!(
        error,
        Error::Describe {
            source: Failure::Returned { result: sys::CuResult::INVALID_VALUE, .. },
            ..
        }
    )
}
