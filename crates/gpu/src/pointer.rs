//! What the process's own CUDA says of an arbitrary device address: the caller's memory, allocated by whomever.
//!
//! Nothing here makes a context. Where CUDA needs a current one, the one the memory was allocated in is pushed for the length
//! of the call, or the GPU's primary context if that is already active. Each call sets this thread's stream-capture mode to
//! relaxed and puts it back, so a capture in progress in the program is not disturbed.
//!
//! An address is only as good as its owner: if another thread frees the memory meanwhile, the answers are of what is there then.

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

/// What CUDA knows of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pointer {
    /// The address asked about.
    pub address: DevicePtr,
    /// Where its allocation starts (`cuMemGetAddressRange`); of `cuMemCreate` memory, the mapping.
    pub base: DevicePtr,
    /// Bytes from `base`: what was asked for; of `cuMemCreate` memory, what is mapped.
    pub size: u64,
    /// Whose memory it is.
    pub kind: MemoryKind,
    /// CUDA's number of the GPU it was allocated on or registered with.
    pub ordinal: u32,
    /// Where that GPU sits.
    pub pci: Option<PciAddress>,
    /// Unique among all allocations this process ever makes: the key to remember an allocation by, where an address may be reused.
    pub buffer_id: u64,
    /// Whether `cuIpcGetMemHandle` serves it: `cuMemAlloc`'s memory.
    pub ipc_capable: bool,
    /// What CUDA says of GPUDirect RDMA to it; `None` if the driver is too old to say. On an H200 (driver 580) it is false of
    /// pool memory, of which there is a dma-buf all the same.
    pub rdma_capable: Option<bool>,
    /// Whether it comes from a stream-ordered pool (`cudaMallocAsync`).
    pub mempool: bool,
    /// `CUmemAllocationHandleType` bits it may be exported as; bit 0 is a file descriptor. 0 if none or unknown.
    pub handle_types: u64,
    /// Whether synchronous operations on it always synchronise (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`).
    pub sync_memops: bool,
    /// Whether CUDA names a context that it was allocated in; `cuMemCreate` memory has none.
    pub has_context: bool,
}

/// Whose memory an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// A GPU's own.
    Device,
    /// Managed memory, which moves.
    Managed,
    /// Host memory, pinned or registered.
    Host,
    /// `CUmemorytype` says something else.
    Other(u32),
}

/// How the dma-buf's importer reaches the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DmaBufMapping {
    /// As the driver thinks best.
    Default,
    /// Over PCIe, also where a coherent link exists (CUDA 12.8).
    Pcie,
}

/// What CUDA knows of `address`. 2 to 4 µs (measured: H200, driver 580).
///
/// # Errors
///
/// [`Error::Describe`] ([`Kind::Invalid`](crate::Kind::Invalid)) for an address CUDA does not know; [`Error::Library`],
/// [`Error::Initialise`] without CUDA.
pub fn describe(address: DevicePtr) -> Result<Pointer, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let failed = |source| Error::Describe { address, source };
    let ask = |attribute| driver.pointer_attribute(attribute, address.get());
    let optional = |attribute| ask(attribute).ok();

    let memory_type = ask(Ask::MEMORY_TYPE).map_err(failed)? as u32;
    let ordinal = ask(Ask::DEVICE_ORDINAL).map_err(failed)? as u32;
    let managed = optional(Ask::IS_MANAGED).is_some_and(|answer| answer != 0);
    let (base, size) = driver
        .address_range(address.get())
        .or_else(|_| Ok((ask(Ask::RANGE_START_ADDR)?, ask(Ask::RANGE_SIZE)? as usize)))
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

/// The 64 opaque bytes of `cuIpcGetMemHandle`.
///
/// # Errors
///
/// [`Error::IpcHandle`] for memory that is not `cuMemAlloc`'s; [`Error::NoContext`]; as [`describe`].
pub fn ipc_handle(address: DevicePtr) -> Result<[u8; 64], Error> {
    let place = Place::enter(address)?;
    place
        .driver
        .ipc_handle(address.get())
        .map_err(|source| Error::IpcHandle { address, source })
}

/// The physical allocation (`CUmemGenericAllocationHandle`) mapped at an address, held until dropped.
#[derive(Debug)]
pub struct AllocationHandle {
    driver: Driver,
    handle: sys::GenericHandle,
}

impl AllocationHandle {
    /// CUDA's number of it.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle.0
    }
}

impl Drop for AllocationHandle {
    fn drop(&mut self) {
        let _relaxed = Relaxed::enter(self.driver);
        // The reference is ours; should the driver refuse, there is nobody left to tell.
        let _ = self.driver.release_allocation(self.handle);
    }
}

/// A reference of our own to the `cuMemCreate` allocation mapped at `address`.
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

/// A file descriptor of the whole `cuMemCreate` allocation mapped at `address`, or of the whole pool that it comes from; closed
/// in programs this one starts.
///
/// # Errors
///
/// [`Error::ExportFd`] if it was not made exportable; [`Error::AllocationHandle`] for memory that is neither; as [`describe`].
pub fn export_fd(address: DevicePtr) -> Result<OwnedFd, Error> {
    let driver = Driver::open()?;
    let failed = |source| Error::ExportFd { address, source };
    let pool = driver
        .pointer_attribute(Ask::MEMPOOL_HANDLE, address.get())
        .unwrap_or(0);
    if pool != 0 {
        let _relaxed = Relaxed::enter(driver);
        return driver
            .export_pool(sys::MemoryPool(pool as usize as *mut _))
            .map_err(failed);
    }
    let allocation = retain_handle(address)?;
    let _relaxed = Relaxed::enter(driver);
    driver.export_allocation(allocation.handle).map_err(failed)
}

/// The 64 opaque bytes of `cuMemPoolExportPointer`: where in its pool the memory at `address` lies. The pool's file descriptor must
/// have been exported before.
///
/// # Errors
///
/// [`Error::ExportFd`] for memory that is no exportable pool's; as [`describe`].
pub fn pool_place(address: DevicePtr) -> Result<[u8; 64], Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let mut out = [0; 64];
    call!(driver, cuMemPoolExportPointer(&mut out, address.get()))
        .map(|()| out)
        .map_err(|source| Error::ExportFd { address, source })
}

/// A dma-buf of `bytes` bytes at `address`; both must be multiples of the host's page size.
///
/// # Errors
///
/// [`Error::DmaBuf`]; [`Error::NoContext`]; as [`describe`].
pub fn dmabuf(address: DevicePtr, bytes: usize, mapping: DmaBufMapping) -> Result<OwnedFd, Error> {
    let place = Place::enter(address)?;
    let flags = match mapping {
        DmaBufMapping::Default => 0,
        DmaBufMapping::Pcie => sys::MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE,
    };
    place
        .driver
        .dma_buf(address.get(), bytes, flags)
        .map_err(|source| Error::DmaBuf {
            address,
            bytes,
            source,
        })
}

/// Makes synchronous operations on the allocation of `address` always synchronise (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`), as
/// third parties who read it over PCIe need.
///
/// # Errors
///
/// [`Error::Describe`]; [`Error::NoContext`]; as [`describe`].
pub fn set_sync_memops(address: DevicePtr) -> Result<(), Error> {
    let place = Place::enter(address)?;
    place
        .driver
        .set_sync_memops(address.get())
        .map_err(|source| Error::Describe { address, source })
}

/// Copies device memory into `to`, on a stream of its own; see [`Reader`] for many.
///
/// # Errors
///
/// [`Error::Copy`]; as [`Reader::open`].
pub fn read(address: DevicePtr, to: &mut [u8]) -> Result<(), Error> {
    Reader::open(address)?.read(address, to)
}

/// Copies from device memory on a private stream in the memory's own context: it waits for nobody's work, and nobody's for it.
#[derive(Debug)]
pub struct Reader {
    place: Context,
    stream: sys::Stream,
    /// The address it was opened for, to name in errors.
    near: DevicePtr,
}

impl Reader {
    /// For memory of the GPU and context that `address` is in.
    ///
    /// # Errors
    ///
    /// [`Error::Stream`]; [`Error::NoContext`]; as [`describe`].
    pub fn open(address: DevicePtr) -> Result<Self, Error> {
        let place = Context::of(address)?;
        let entered = place.enter(address)?;
        let stream = entered.driver.create_stream().map_err(Error::Stream)?;
        drop(entered);
        Ok(Self {
            place,
            stream,
            near: address,
        })
    }

    /// Copies `to.len()` bytes at `address`; done when it returns. 8 µs for 64 bytes (measured: H200, driver 580).
    ///
    /// # Errors
    ///
    /// [`Error::Copy`] for an address that is not all there.
    pub fn read(&self, address: DevicePtr, to: &mut [u8]) -> Result<(), Error> {
        let entered = self.place.enter(address)?;
        let bytes = to.len();
        let failed = |source| Error::Copy {
            address,
            bytes,
            source,
        };
        let started = {
            // SAFETY: `to` is exclusively borrowed until this returns, and this returns after the stream is done with it.
            unsafe {
                entered
                    .driver
                    .copy_to_host(to.as_mut_ptr(), address.get(), bytes, self.stream)
            }
        };
        // Also after a refusal: whatever part of it began must have ended before `to` is given back.
        let finished = entered.driver.synchronize_stream(self.stream);
        started.and(finished).map_err(failed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let driver = self.place.driver;
        let _relaxed = Relaxed::enter(driver);
        // The stream is idle and ours; a context that is gone took it along.
        let _ = driver.destroy_stream(self.stream);
    }
}

/// The context that an address is to be asked in.
struct Context {
    driver: Driver,
    context: sys::Context,
    /// A primary context held for as long as this is.
    retained: Option<sys::Device>,
}

impl Context {
    /// The one the memory was allocated in, else the calling thread's if it is of the same GPU, else the GPU's primary context
    /// if it is active.
    fn of(address: DevicePtr) -> Result<Self, Error> {
        let driver = Driver::open()?;
        let failed = |source| Error::Describe { address, source };
        let ask = |attribute| driver.pointer_attribute(attribute, address.get());
        let ordinal = ask(Ask::DEVICE_ORDINAL).map_err(failed)? as u32;
        if let Ok(context @ 1..) = ask(Ask::CONTEXT) {
            return Ok(Self::borrowed(
                driver,
                sys::Context(context as usize as *mut _),
            ));
        }
        let device = driver.device(ordinal).map_err(failed)?;
        if driver.current_device() == Ok(device) {
            let context = driver
                .current()
                .map_err(|source| Error::Context { ordinal, source })?;
            return Ok(Self::borrowed(driver, context));
        }
        if !driver.primary_is_active(device).map_err(failed)? {
            return Err(Error::NoContext { address, ordinal });
        }
        let context = driver
            .retain_primary(device)
            .map_err(|source| Error::Context { ordinal, source })?;
        Ok(Self {
            driver,
            context,
            retained: Some(device),
        })
    }

    fn borrowed(driver: Driver, context: sys::Context) -> Self {
        Self {
            driver,
            context,
            retained: None,
        }
    }

    fn enter(&self, address: DevicePtr) -> Result<Current, Error> {
        let relaxed = Relaxed::enter(self.driver);
        let entered = Entered::push(self.driver, self.context)
            .map_err(|source| Error::Describe { address, source })?;
        Ok(Current {
            driver: self.driver,
            _entered: entered,
            _relaxed: relaxed,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(device) = self.retained {
            // Ours, from `of`; the driver keeps the count.
            let _ = self.driver.release_primary(device);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("context", &self.context)
            .finish()
    }
}

/// An address's context, current on this thread.
struct Current {
    driver: Driver,
    _entered: Entered,
    _relaxed: Relaxed,
}

/// [`Current`], with the context itself.
struct Place {
    driver: Driver,
    // Left before the context may be given back.
    _current: Current,
    _context: Context,
}

impl Place {
    fn enter(address: DevicePtr) -> Result<Self, Error> {
        let context = Context::of(address)?;
        let current = context.enter(address)?;
        Ok(Self {
            driver: context.driver,
            _current: current,
            _context: context,
        })
    }
}

/// Whether CUDA says it does not know the address, rather than that something is out of order.
#[must_use]
pub fn is_unknown(error: &Error) -> bool {
    matches!(
        error,
        Error::Describe {
            source: Failure::Returned {
                result: sys::CuResult::INVALID_VALUE,
                ..
            },
            ..
        }
    )
}
