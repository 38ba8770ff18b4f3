//! A program's own CUDA: its streams, its current context, its host memory. Whoever makes these calls lives in somebody else's
//! process, and has neither [`Gpu`](crate::Gpu) nor [`Stream`](crate::Stream).
//!
//! Nothing here makes a context or changes which one is current: what needs one takes the calling thread's. Registrations and
//! allocations leave a stream capture that is in progress alone, as in [`mod@crate::pointer`]; operations put into a stream that is
//! being captured are captured.

use std::ffi::c_void;
use std::ptr::NonNull;

use gdr_sys::cuda::{self as sys, CuResult, DeviceAttribute};

use crate::cuda::allocate::registration_flags;
use crate::cuda::context::Relaxed;
use crate::cuda::driver::{Driver, call};
use crate::error::Failure;
use crate::operation::Step;
use crate::{Allocation, DevicePtr, Error, MemoryOperation, Registration};

/// What the streams of a GPU can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCapabilities {
    /// Words of 64 bits.
    pub words_of_64_bits: bool,
    /// Waits by [`Compare::Nor`](crate::Compare::Nor).
    pub nor: bool,
    /// Flushes of remote writes ([`MemoryOperation::flushed`]). A GPU that says no may need none (an H200).
    pub flush: bool,
}

/// CUDA's `CUdevice` of the calling thread's current context.
///
/// # Errors
///
/// [`Error::NoCurrentContext`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn current_device() -> Result<i32, Error> {
    let device = Driver::open()?.current_device();
    device
        .map(|device| device.0)
        .map_err(Error::NoCurrentContext)
}

/// What the streams of a device ([`current_device`]) can do, by the operations that [`batch`] will use: v2's attributes where
/// the driver has v2, else v1's. An attribute that the driver does not know is a no.
///
/// # Errors
///
/// [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn stream_capabilities(device: i32) -> Result<StreamCapabilities, Error> {
    let driver = Driver::open()?;
    let has_v2 = driver.functions.cuStreamBatchMemOp_v2.is_some();
    let (words, nor) = match has_v2 {
        true => (
            DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS,
            DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR,
        ),
        false => (
            DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
            DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
        ),
    };
    let has = |attribute: DeviceAttribute| {
        driver
            .attribute(sys::Device(device), attribute.0)
            .is_ok_and(|value| value != 0)
    };
    Ok(StreamCapabilities {
        words_of_64_bits: has(words),
        nor: has(nor),
        flush: has(DeviceAttribute::CAN_FLUSH_REMOTE_WRITES),
    })
}

/// Puts operations into a stream of the program's own (`CUstream`; null and CUDA's two special handles are the default
/// streams of the current context), in order. More than 255 go to the driver in several calls: where one is refused, what came
/// before it is in the stream.
///
/// The operations hold nothing: what they name is the caller's to keep.
///
/// # Errors
///
/// [`Error::MemoryOperations`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// `stream` is a live stream of this process or a default one. The words that the operations name are valid for the GPU until
/// they are done.
pub unsafe fn batch(stream: *mut c_void, operations: &[MemoryOperation]) -> Result<(), Error> {
    let driver = Driver::open()?;
    let steps: Vec<Step> = operations.iter().map(|operation| operation.step).collect();
    let put = driver.batch(sys::Stream(stream), &steps);
    put.map_err(|source| Error::MemoryOperations {
        count: steps.len(),
        source,
    })
}

/// Whose a registration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Made by this call: [`unregister`] is the caller's to call.
    Us,
    /// Some of it was registered before (`CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`; old drivers say
    /// `CUDA_ERROR_ALREADY_MAPPED`), and is not ours to undo.
    Others,
}

/// Registers host memory with all contexts of the process, mapped for their GPUs (`PORTABLE | DEVICEMAP`); another device's
/// registers also as such.
///
/// # Errors
///
/// [`Error::Register`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// `bytes` bytes from `start` on are memory of this process, or registers that it has mapped, until they are unregistered.
pub unsafe fn register(
    start: NonNull<c_void>,
    bytes: usize,
    how: Registration,
) -> Result<Owner, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    match call!(
        driver,
        cuMemHostRegister(start.as_ptr(), bytes, registration_flags(how))
    ) {
        Ok(()) => Ok(Owner::Us),
        Err(Failure::Returned {
            result: CuResult::HOST_MEMORY_ALREADY_REGISTERED | CuResult::ALREADY_MAPPED,
            ..
        }) => Ok(Owner::Others),
        Err(source) => Err(Error::Register {
            address: start.as_ptr().addr(),
            bytes,
            source,
        }),
    }
}

/// Undoes [`register`] of the range that starts there. Where CUDA knows of none any more (its context is gone, or somebody else has
/// undone it), nothing is left to do.
///
/// # Errors
///
/// [`Error::Unregister`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// The registration is the caller's, and no GPU uses it any more.
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
        ended => ended.map_err(|source| Error::Unregister {
            address: start.as_ptr().addr(),
            source,
        }),
    }
}

/// Where the current context's GPU sees registered or pinned host memory.
///
/// # Errors
///
/// [`Error::HostAddress`] for memory that is neither; [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn device_address(host: usize) -> Result<DevicePtr, Error> {
    let driver = Driver::open()?;
    let mut out = 0;
    // CUDA looks the number up among what it has registered; it is not followed.
    let place = std::ptr::without_provenance_mut(host);
    let found = call!(driver, cuMemHostGetDevicePointer(&mut out, place, 0));
    found
        .map(|()| DevicePtr::new(out))
        .map_err(|source| Error::HostAddress {
            address: host,
            source,
        })
}

/// Whether [`device_address`] says that the memory is neither pinned nor registered, rather than that something is out of order.
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

/// Device memory of the current context (`cuMemAlloc`), for [`free`].
///
/// # Errors
///
/// [`Error::Allocate`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
pub fn allocate(bytes: usize) -> Result<DevicePtr, Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    let mut address = 0;
    let made = call!(driver, cuMemAlloc(&mut address, bytes));
    made.map(|()| DevicePtr::new(address))
        .map_err(|source| Error::Allocate {
            kind: Allocation::Malloc,
            bytes,
            source,
        })
}

/// Frees what [`allocate`] gave; like `cuMemFree` it may wait for work of the GPU.
///
/// # Errors
///
/// [`Error::Free`]; [`Error::Library`], [`Error::Initialise`] without CUDA.
///
/// # Safety
///
/// The memory is the caller's, and nothing uses it any more.
pub unsafe fn free(address: DevicePtr) -> Result<(), Error> {
    let driver = Driver::open()?;
    let _relaxed = Relaxed::enter(driver);
    call!(driver, cuMemFree(address.get())).map_err(|source| Error::Free { address, source })
}
