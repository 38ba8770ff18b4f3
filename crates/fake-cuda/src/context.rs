//! The little of contexts and memory that a trial of one GPU needs: addresses without memory behind them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answer::{Device, INVALID_CONTEXT, INVALID_VALUE, Return, answer, index, put};

/// An allocation.
#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    /// The context that was current.
    context: usize,
}

/// The allocations, by where they start.
static ALLOCATIONS: Mutex<BTreeMap<u64, Block>> = Mutex::new(BTreeMap::new());

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn allocations() -> MutexGuard<'static, BTreeMap<u64, Block>> {
    // Each entry is written in one call: what a panic left is whole.
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The allocation that an address is in.
fn block_of(address: u64) -> Option<(u64, Block)> {
    let allocations = allocations();
    let (start, block) = allocations.range(..=address).next_back()?;
    (address - start < block.bytes as u64).then_some((*start, *block))
}

/// Whether all of a range is one allocation's.
#[cfg(not(feature = "old"))]
pub fn is_allocated(address: u64, bytes: usize) -> bool {
    block_of(address).is_some_and(|(start, block)| bytes as u64 <= start + block.bytes as u64 - address)
}

/// cuda.h's function: the context is the device's number plus one.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize, device: Device) -> Return {
    answer("cuDevicePrimaryCtxRetain", || {
        let context = index(device)? + 1;
        // SAFETY: this function's own condition.
        unsafe { put(out, context) }
    })
}

/// cuda.h's function.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: Device) -> Return {
    answer("cuDevicePrimaryCtxRelease_v2", || index(device).map(drop))
}

/// cuda.h's function: nobody has one.
///
/// # Safety
///
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(device: Device, flags: *mut u32, active: *mut c_int) -> Return {
    answer("cuDevicePrimaryCtxGetState", || {
        index(device)?;
        // SAFETY: this function's own condition.
        unsafe {
            put(flags, 0)?;
            put(active, 0)
        }
    })
}

/// cuda.h's function.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: usize) -> Return {
    answer("cuCtxPushCurrent_v2", || {
        CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
        Ok(())
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(out: *mut usize) -> Return {
    answer("cuCtxPopCurrent_v2", || {
        let context = CONTEXTS.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, context) }
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut usize) -> Return {
    answer("cuCtxGetCurrent", || {
        let current = CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0));
        // SAFETY: this function's own condition.
        unsafe { put(out, current) }
    })
}

/// cuda.h's function, for what a pointer's description begins with: context, memory type, device, base and size. The
/// context is that of the device whose context allocated.
///
/// # Safety
///
/// `out` is null or valid for a write of the attribute's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(out: *mut c_void, attribute: u32, address: u64) -> Return {
    answer("cuPointerGetAttribute", || {
        let (start, block) = block_of(address).ok_or(INVALID_VALUE)?;
        // SAFETY: this function's own condition; the types are cuda.h's.
        unsafe {
            match attribute {
                1 => put(out.cast::<usize>(), block.context),
                // CU_MEMORYTYPE_DEVICE.
                2 => put(out.cast::<u32>(), 2),
                9 => put(out.cast::<c_int>(), c_int::try_from(block.context - 1).unwrap_or(0)),
                11 => put(out.cast::<u64>(), start),
                12 => put(out.cast::<usize>(), block.bytes),
                _ => Err(INVALID_VALUE),
            }
        }
    })
}

/// cuda.h's function: an address of no memory.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(out: *mut u64, bytes: usize) -> Return {
    answer("cuMemAlloc_v2", || {
        let mut allocations = allocations();
        let last = allocations.last_key_value();
        let address = last.map_or(0x7f00_0000_0000, |(start, block)| {
            (start + block.bytes as u64).next_multiple_of(2 << 20)
        });
        let context = CONTEXTS.with_borrow(|contexts| contexts.last().copied());
        let context = context.ok_or(INVALID_CONTEXT)?;
        allocations.insert(address, Block { bytes, context });
        // SAFETY: this function's own condition.
        unsafe { put(out, address) }
    })
}

/// cuda.h's function.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Return {
    answer("cuMemFree_v2", || {
        allocations().remove(&address).map(drop).ok_or(INVALID_VALUE)
    })
}
