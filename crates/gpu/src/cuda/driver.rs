//! The driver's calls, each with its own answer: with `pages` the only unsafe of the CUDA side.
//!
//! Rules that make them sound:
//! - A function comes out of `gdr-sys`, which found it under its own name and gave it cuda.h's type.
//! - Out-parameters are initialised integers, handles or structures of them, for which every bit pattern is a value.
//! - A method is `unsafe` where the driver would write, free or keep what the caller names; the caller says why it may.
//! - Handles are opaque to us; the driver checks those it is given, and answers "invalid handle" for the ones it knows not.

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

/// Calls one function, which the driver may lack.
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

/// What a call gave.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Driver {
    /// The process's driver; `cuInit` is called, which makes no context and may be called any
    /// number of times.
    pub(crate) fn open() -> Result<Self, crate::Error> {
        let (driver, _) = Self::found()?;
        driver.initialise().map_err(crate::Error::Initialise)?;
        Ok(driver)
    }

    /// The process's driver before it is initialised, and its file. All but [`Self::version`] wants
    /// [`Self::initialise`] first.
    pub(crate) fn found() -> Result<(Self, PathBuf), crate::Error> {
        let library = sys::library()?;
        let driver = Self {
            functions: library.functions(),
        };
        Ok((driver, library.path().to_owned()))
    }

    pub(crate) fn initialise(self) -> Answer<()> {
        call!(self, cuInit(0))
    }

    /// 1000 × major + 10 × minor of the newest CUDA this driver serves.
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
        // An ordinal past i32 becomes -1, which the driver refuses as it would any other that is
        // not there.
        call!(
            self,
            cuDeviceGet(&mut out, i32::try_from(ordinal).unwrap_or(-1))
        )
        .map(|()| out)
    }

    pub(crate) fn name(self, device: sys::Device) -> Answer<String> {
        let mut out = [0_u8; 256];
        call!(
            self,
            cuDeviceGetName(out.as_mut_ptr().cast::<c_char>(), 256, device)
        )
        .map(|()| text(&out))
    }

    pub(crate) fn uuid(self, device: sys::Device) -> Answer<[u8; 16]> {
        let mut out = sys::Uuid::default();
        call!(self, cuDeviceGetUuid(&mut out, device)).map(|()| out.bytes)
    }

    pub(crate) fn pci_bus_id(self, device: sys::Device) -> Answer<String> {
        let mut out = [0_u8; 32];
        call!(
            self,
            cuDeviceGetPCIBusId(out.as_mut_ptr().cast::<c_char>(), 32, device)
        )
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
        call!(
            self,
            cuDevicePrimaryCtxGetState(device, &mut flags, &mut active)
        )
        .map(|()| active != 0)
    }

    pub(crate) fn retain_primary(self, device: sys::Device) -> Answer<sys::Context> {
        let mut out = sys::Context::NULL;
        call!(self, cuDevicePrimaryCtxRetain(&mut out, device)).map(|()| out)
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

    /// A pointer's attribute, as the low bytes of a zeroed word: all of those asked here are of 1,
    /// 4 or 8 bytes.
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
        call!(
            self,
            cuPointerSetAttribute(value, sys::PointerAttribute::SYNC_MEMOPS.0, address)
        )
    }

    pub(crate) fn address_range(self, address: u64) -> Answer<(u64, usize)> {
        let (mut base, mut size) = (0, 0);
        call!(self, cuMemGetAddressRange(&mut base, &mut size, address)).map(|()| (base, size))
    }

    pub(crate) fn ipc_handle(self, address: u64) -> Answer<[u8; 64]> {
        let mut out = sys::IpcMemHandle { reserved: [0; 64] };
        call!(self, cuIpcGetMemHandle(&mut out, address)).map(|()| out.reserved)
    }

    /// A reference of one's own to the allocation mapped there; [`Self::release_allocation`] ends
    /// it.
    pub(crate) fn retain_allocation(self, address: u64) -> Answer<sys::GenericHandle> {
        let mut out = sys::GenericHandle(0);
        call!(
            self,
            cuMemRetainAllocationHandle(&mut out, address as usize as *mut c_void)
        )
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

    /// Whether all of a stream's work is done.
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

/// "Not ready" is an answer, not a failure.
pub(super) fn ready(answer: Answer<()>) -> Answer<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(Failure::Returned {
            result: CuResult::NOT_READY,
            ..
        }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Takes over a descriptor the driver made, closed in programs this one starts: CUDA itself does
/// not see to that.
fn descriptor(function: &'static str, raw: RawFd) -> Answer<OwnedFd> {
    if raw < 0 {
        // The driver said success and gave none.
        let result = CuResult::UNKNOWN;
        return Err(Failure::Returned { function, result });
    }
    // SAFETY: the driver opened it for this caller and nobody else closes it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
    // A descriptor that was just made is open: this fails only where a sandbox forbids fcntl, and
    // then it is merely inherited.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    Ok(descriptor)
}

/// The text before the first NUL; a byte that is not UTF-8 becomes U+FFFD.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map_or_else(
        |_| String::from_utf8_lossy(buffer).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}
