//! The driver's functions as methods: with `pages` the only unsafe code of the CUDA side.
//!
//! Rules for soundness:
//! - `gdr-sys` finds each function by its name and gives it cuda.h's type.
//! - Out-parameters are initialised integers, handles or structures of them, valid for every bit
//!   pattern.
//! - A method is `unsafe` if the driver writes, frees or keeps the caller's memory; the caller
//!   states why that is sound.
//! - Handles are opaque; the driver checks them and returns "invalid handle" for unknown ones.

use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;

use gdr_sys::cuda::{self as sys, CuResult, Functions};

use crate::error::Failure;

/// The process's CUDA driver, initialised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver {
    pub(crate) functions: &'static Functions,
}

/// Calls a function, which the driver may lack.
macro_rules! call {
    ($driver:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $driver.functions.$function {
            None => Err($crate::error::Failure::Missing { function: stringify!($function) }),
            // SAFETY: the function is CUDA's of that name (first rule of `driver`); each pointer
            // comes from a reference to an initialised value that outlives the call (second), or
            // from the caller of a method that is unsafe for it (third).
            Some(function) => match unsafe { function($($argument),*) } {
                gdr_sys::cuda::CuResult::SUCCESS => Ok(()),
                result => Err($crate::error::Failure::Returned { function: stringify!($function), result }),
            },
        }
    };
}
pub(crate) use call;

/// Result of a call.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Driver {
    /// The process's driver after `cuInit`, which creates no context and may be called repeatedly.
    pub(crate) fn open() -> Result<Self, crate::Error> {
        let (driver, _) = Self::found()?;
        driver.initialise().map_err(crate::Error::Initialise)?;
        Ok(driver)
    }

    /// The process's driver before initialisation, and its file. All methods but [`Self::version`]
    /// require [`Self::initialise`].
    pub(crate) fn found() -> Result<(Self, PathBuf), crate::Error> {
        let library = sys::library()?;
        let driver = Self { functions: library.functions() };
        Ok((driver, library.path().to_owned()))
    }

    pub(crate) fn initialise(self) -> Answer<()> {
        call!(self, cuInit(0))
    }

    /// 1000 × major + 10 × minor of the newest CUDA version that this driver supports.
    pub(crate) fn version(self) -> Answer<i32> {
        let mut out = 0;
        call!(self, cuDriverGetVersion(&mut out)).map(|()| out)
    }

    pub(crate) fn device_count(self) -> Answer<u32> {
        let mut out = 0;
        call!(self, cuDeviceGetCount(&mut out)).map(|()| u32::try_from(out).unwrap_or(0))
    }

    pub(crate) fn device(self, ordinal: u32) -> Answer<sys::Device> {
        let mut out = sys::Device(0);
        // An ordinal above i32 becomes -1, which the driver rejects like any other invalid one.
        call!(self, cuDeviceGet(&mut out, i32::try_from(ordinal).unwrap_or(-1))).map(|()| out)
    }

    pub(crate) fn name(self, device: sys::Device) -> Answer<String> {
        let mut out = [0_u8; 256];
        call!(self, cuDeviceGetName(out.as_mut_ptr().cast::<c_char>(), 256, device))
            .map(|()| text(&out))
    }

    pub(crate) fn uuid(self, device: sys::Device) -> Answer<[u8; 16]> {
        let mut out = sys::Uuid::default();
        call!(self, cuDeviceGetUuid(&mut out, device)).map(|()| out.bytes)
    }

    pub(crate) fn pci_bus_id(self, device: sys::Device) -> Answer<String> {
        let mut out = [0_u8; 32];
        call!(self, cuDeviceGetPCIBusId(out.as_mut_ptr().cast::<c_char>(), 32, device))
            .map(|()| text(&out))
    }

    pub(crate) fn total_memory(self, device: sys::Device) -> Answer<usize> {
        let mut out = 0;
        call!(self, cuDeviceTotalMem(&mut out, device)).map(|()| out)
    }

    pub(crate) fn attribute(self, device: sys::Device, attribute: u32) -> Answer<i32> {
        let mut out = 0;
        call!(self, cuDeviceGetAttribute(&mut out, attribute, device)).map(|()| out)
    }

    pub(crate) fn p2p_attribute(
        self,
        attribute: u32,
        from: sys::Device,
        to: sys::Device,
    ) -> Answer<i32> {
        let mut out = 0;
        call!(self, cuDeviceGetP2PAttribute(&mut out, attribute, from, to)).map(|()| out)
    }

    pub(crate) fn can_access_peer(self, from: sys::Device, to: sys::Device) -> Answer<bool> {
        let mut out = 0;
        call!(self, cuDeviceCanAccessPeer(&mut out, from, to)).map(|()| out != 0)
    }

    pub(crate) fn primary_is_active(self, device: sys::Device) -> Answer<bool> {
        let (mut flags, mut active) = (0, 0);
        call!(self, cuDevicePrimaryCtxGetState(device, &mut flags, &mut active))
            .map(|()| active != 0)
    }

    pub(crate) fn retain_primary(self, device: sys::Device) -> Answer<sys::Context> {
        let mut out = sys::Context::NULL;
        call!(self, cuDevicePrimaryCtxRetain(&mut out, device)).map(|()| out)
    }

    pub(crate) fn set_primary_flags(self, device: sys::Device, flags: u32) -> Answer<()> {
        call!(self, cuDevicePrimaryCtxSetFlags(device, flags))
    }

    pub(crate) fn release_primary(self, device: sys::Device) -> Answer<()> {
        call!(self, cuDevicePrimaryCtxRelease(device))
    }

    pub(crate) fn current(self) -> Answer<sys::Context> {
        let mut out = sys::Context::NULL;
        call!(self, cuCtxGetCurrent(&mut out)).map(|()| out)
    }

    pub(crate) fn current_device(self) -> Answer<sys::Device> {
        let mut out = sys::Device(0);
        call!(self, cuCtxGetDevice(&mut out)).map(|()| out)
    }

    /// A pointer attribute, as the low bytes of a zeroed word: all attributes read here have 1, 4
    /// or 8 bytes.
    pub(crate) fn pointer_attribute(
        self,
        attribute: sys::PointerAttribute,
        address: u64,
    ) -> Answer<u64> {
        debug_assert_ne!(
            attribute,
            sys::PointerAttribute::P2P_TOKENS,
            "its structure is larger than a word"
        );
        let mut out = 0_u64;
        let place = (&raw mut out).cast::<c_void>();
        call!(self, cuPointerGetAttribute(place, attribute.0, address)).map(|()| out)
    }

    pub(crate) fn set_sync_memops(self, address: u64) -> Answer<()> {
        let yes = 1_u32;
        let value = (&raw const yes).cast::<c_void>();
        call!(self, cuPointerSetAttribute(value, sys::PointerAttribute::SYNC_MEMOPS.0, address))
    }

    pub(crate) fn address_range(self, address: u64) -> Answer<(u64, usize)> {
        let (mut base, mut size) = (0, 0);
        call!(self, cuMemGetAddressRange(&mut base, &mut size, address)).map(|()| (base, size))
    }

    pub(crate) fn ipc_handle(self, address: u64) -> Answer<[u8; 64]> {
        let mut out = sys::IpcMemHandle { reserved: [0; 64] };
        call!(self, cuIpcGetMemHandle(&mut out, address)).map(|()| out.reserved)
    }

    /// New reference to the allocation mapped there; released by [`Self::release_allocation`].
    pub(crate) fn retain_allocation(self, address: u64) -> Answer<sys::GenericHandle> {
        let mut out = sys::GenericHandle(0);
        call!(self, cuMemRetainAllocationHandle(&mut out, address as usize as *mut c_void))
            .map(|()| out)
    }

    pub(crate) fn release_allocation(self, handle: sys::GenericHandle) -> Answer<()> {
        call!(self, cuMemRelease(handle))
    }

    pub(crate) fn export_allocation(self, handle: sys::GenericHandle) -> Answer<OwnedFd> {
        let mut out: RawFd = -1;
        let place = (&raw mut out).cast::<c_void>();
        call!(
            self,
            cuMemExportToShareableHandle(
                place,
                handle,
                sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                0
            )
        )?;
        descriptor("cuMemExportToShareableHandle", out)
    }

    pub(crate) fn export_pool(self, pool: sys::MemoryPool) -> Answer<OwnedFd> {
        let mut out: RawFd = -1;
        let place = (&raw mut out).cast::<c_void>();
        call!(
            self,
            cuMemPoolExportToShareableHandle(
                place,
                pool,
                sys::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                0
            )
        )?;
        descriptor("cuMemPoolExportToShareableHandle", out)
    }

    pub(crate) fn dma_buf(self, address: u64, bytes: usize, flags: u64) -> Answer<OwnedFd> {
        let mut out: RawFd = -1;
        let place = (&raw mut out).cast::<c_void>();
        call!(
            self,
            cuMemGetHandleForAddressRange(
                place,
                address,
                bytes,
                sys::MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                flags
            )
        )?;
        descriptor("cuMemGetHandleForAddressRange", out)
    }

    pub(crate) fn create_stream(self) -> Answer<sys::Stream> {
        let mut out = sys::Stream::NULL;
        call!(self, cuStreamCreate(&mut out, sys::STREAM_NON_BLOCKING)).map(|()| out)
    }

    pub(crate) fn destroy_stream(self, stream: sys::Stream) -> Answer<()> {
        call!(self, cuStreamDestroy(stream))
    }

    pub(crate) fn synchronize_stream(self, stream: sys::Stream) -> Answer<()> {
        call!(self, cuStreamSynchronize(stream))
    }

    /// True if all work of a stream is done.
    pub(crate) fn query_stream(self, stream: sys::Stream) -> Answer<bool> {
        ready(call!(self, cuStreamQuery(stream)))
    }

    /// # Safety
    ///
    /// `to` is valid for writes of `bytes` bytes until the stream's work is done.
    pub(crate) unsafe fn copy_to_host(
        self,
        to: *mut u8,
        from: u64,
        bytes: usize,
        stream: sys::Stream,
    ) -> Answer<()> {
        call!(self, cuMemcpyDtoHAsync(to.cast(), from, bytes, stream))
    }
}

/// "Not ready" is a result, not an error.
pub(super) fn ready(answer: Answer<()>) -> Answer<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(Failure::Returned { result: CuResult::NOT_READY, .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Takes ownership of a new descriptor and sets close-on-exec, which CUDA does not.
fn descriptor(function: &'static str, raw: RawFd) -> Answer<OwnedFd> {
    if raw < 0 {
        // The driver returned success without a descriptor.
        let result = CuResult::UNKNOWN;
        return Err(Failure::Returned { function, result });
    }
    // SAFETY: the driver opened it for this caller, which owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
    // Fails only if a sandbox forbids fcntl on an open descriptor; children then inherit it.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    Ok(descriptor)
}

/// Text before the first NUL; non-UTF-8 bytes become U+FFFD.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map_or_else(
        |_| String::from_utf8_lossy(buffer).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}
