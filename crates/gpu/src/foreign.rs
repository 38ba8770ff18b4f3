//! Access to the program's own CUDA streams, context and host memory, for libraries that have no
//! [`Gpu`](crate::Gpu) or [`Stream`](crate::Stream).
//!
//! No call creates a context or changes the current one; calls that need one use the thread's.
//! Registration and allocation do not disturb stream capture, as in [`mod@crate::pointer`];
//! operations enqueued into a capturing stream are captured.

use std::ffi::c_void;
use std::ptr::NonNull;

use gdr_sys::cuda::{self as sys, CuResult, DeviceAttribute};

use crate::cuda::allocate::registration_flags;
use crate::cuda::context::Relaxed;
use crate::cuda::driver::{Driver, call};
use crate::error::Failure;
use crate::{Allocation, DevicePtr, Error, MemOp, Registration, StreamCapabilities};

/// `CUdevice` of the calling thread's current context.
///
/// # Errors
///
/// [`Error::NoCurrentContext`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn current_device() -> Result<i32, Error> {
    let device = Driver::open()?.current_device();
    device.map(|device| device.0).map_err(Error::NoCurrentContext)
}

/// Stream capabilities of a device ([`current_device`]), from the v2 attributes if the driver has
/// them, else v1. An unknown attribute means unsupported.
///
/// # Errors
///
/// [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn stream_capabilities(device: i32) -> Result<StreamCapabilities, Error> {
    let driver = Driver::open()?;
    let has_v2 = driver.functions.cuStreamBatchMemOp_v2.is_some();
    let (words, nor) = if has_v2 {
        (
            DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS,
            DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR,
        )
    } else {
        (
            DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
            DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
        )
    };
    let has = |attribute: DeviceAttribute| {
        driver.attribute(sys::Device(device), attribute.0).is_ok_and(|value| value != 0)
    };
    Ok(StreamCapabilities {
        words_of_64_bits: has(words),
        nor: has(nor),
        flush: has(DeviceAttribute::CAN_FLUSH_REMOTE_WRITES),
    })
}

/// Enqueues operations, in order, into the program's stream (`CUstream`; null and CUDA's two
/// special handles are the context's default streams). Over 255 operations take several driver
/// calls; if one fails, earlier operations stay enqueued.
///
/// The operations keep no memory alive: that is the caller's part.
///
/// # Errors
///
/// [`Error::MemoryOperations`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// `stream` is a live stream of this process or a default one. The words that the operations name are valid for the GPU until
/// they are done.
pub unsafe fn batch(stream: *mut c_void, ops: &[MemOp<DevicePtr>]) -> Result<(), Error> {
    let driver = Driver::open()?;
    let put = driver.batch(sys::Stream(stream), ops);
    put.map_err(|source| Error::MemoryOperations { count: ops.len(), source })
}

/// Enqueues a copy from device memory to host memory into the program's stream, as [`batch`] does.
///
/// # Errors
///
/// [`Error::Copy`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// As [`batch`]; both ranges are valid until the stream has copied.
pub unsafe fn download(
    stream: *mut c_void,
    to: NonNull<u8>,
    from: DevicePtr,
    bytes: usize,
) -> Result<(), Error> {
    let driver = Driver::open()?;
    let stream = sys::Stream(stream);
    // SAFETY: guaranteed by the caller.
    let copied = unsafe { driver.copy_to_host(to.as_ptr(), from.get(), bytes, stream) };
    copied.map_err(copy_failed(from, bytes))
}

/// The reverse of [`download`].
///
/// # Errors
///
/// As [`download`].
///
/// # Safety
///
/// As [`download`].
pub unsafe fn upload(
    stream: *mut c_void,
    to: DevicePtr,
    from: NonNull<u8>,
    bytes: usize,
) -> Result<(), Error> {
    let driver = Driver::open()?;
    let (stream, from) = (sys::Stream(stream), from.as_ptr().cast());
    let copied = call!(driver, cuMemcpyHtoDAsync(to.get(), from, bytes, stream));
    copied.map_err(copy_failed(to, bytes))
}

fn copy_failed(address: DevicePtr, bytes: usize) -> impl FnOnce(Failure) -> Error {
    move |source| Error::Copy { address, bytes, source }
}

/// Owner of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This call registered the memory; the caller must call [`unregister`].
    Us,
    /// Part of the range was already registered (`CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`;
    /// `CUDA_ERROR_ALREADY_MAPPED` on old drivers) and must not be unregistered.
    Others,
}

/// Registers host memory with all contexts of the process (`PORTABLE | DEVICEMAP`), or another
/// device's registers as I/O memory.
///
/// # Errors
///
/// [`Error::Register`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// The `bytes` bytes from `start` are memory of this process, or registers it has mapped, until
/// unregistered.
pub unsafe fn register(
    start: NonNull<c_void>,
    bytes: usize,
    how: Registration,
) -> Result<Owner, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    match call!(driver, cuMemHostRegister(start.as_ptr(), bytes, registration_flags(how))) {
        Ok(()) => Ok(Owner::Us),
        Err(Failure::Returned {
            result: CuResult::HOST_MEMORY_ALREADY_REGISTERED | CuResult::ALREADY_MAPPED,
            ..
        }) => Ok(Owner::Others),
        Err(source) => Err(Error::Register { address: start.as_ptr().addr(), bytes, source }),
    }
}

/// Unregisters the range that starts at `start`. Succeeds if CUDA no longer knows it, because its
/// context is gone or it was already unregistered.
///
/// # Errors
///
/// [`Error::Unregister`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// The caller owns the registration, and no GPU still uses it.
pub unsafe fn unregister(start: NonNull<c_void>) -> Result<(), Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    match call!(driver, cuMemHostUnregister(start.as_ptr())) {
        Err(Failure::Returned {
            result:
                CuResult::HOST_MEMORY_NOT_REGISTERED
                | CuResult::INVALID_VALUE
                | CuResult::CONTEXT_IS_DESTROYED
                | CuResult::DEINITIALIZED,
            ..
        }) => Ok(()),
        ended => {
            ended.map_err(|source| Error::Unregister { address: start.as_ptr().addr(), source })
        }
    }
}

/// Device address of registered or pinned host memory in the current context.
///
/// # Errors
///
/// [`Error::HostAddress`] for memory that is neither; [`Error::Library`], [`Error::Initialise`]
/// without CUDA.
pub fn device_address(host: usize) -> Result<DevicePtr, Error> {
    let driver = Driver::open()?;
    let mut out = 0;
    // CUDA looks the address up in its registrations without dereferencing it.
    let place = std::ptr::without_provenance_mut(host);
    let found = call!(driver, cuMemHostGetDevicePointer(&mut out, place, 0));
    found
        .map(|()| DevicePtr::new(out))
        .map_err(|source| Error::HostAddress { address: host, source })
}

/// True if [`device_address`] failed because the memory is neither pinned nor registered.
#[must_use]
pub fn is_not_registered(error: &Error) -> bool {
    matches!(
        error,
        Error::HostAddress {
            source: Failure::Returned {
                result: CuResult::INVALID_VALUE
                    | CuResult::HOST_MEMORY_NOT_REGISTERED
                    | CuResult::NOT_FOUND,
                ..
            },
            ..
        }
    )
}

/// Allocates device memory in the current context (`cuMemAlloc`), for [`free`].
///
/// # Errors
///
/// [`Error::Allocate`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn allocate(bytes: usize) -> Result<DevicePtr, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let mut address = 0;
    let made = call!(driver, cuMemAlloc(&mut address, bytes));
    made.map(|()| DevicePtr::new(address)).map_err(|source| Error::Allocate {
        kind: Allocation::Malloc,
        bytes,
        source,
    })
}

/// Frees memory from [`allocate`]; like `cuMemFree`, may wait for GPU work.
///
/// # Errors
///
/// [`Error::Free`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// The caller owns the memory, and nothing still uses it.
pub unsafe fn free(address: DevicePtr) -> Result<(), Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    call!(driver, cuMemFree(address.get())).map_err(|source| Error::Free { address, source })
}
