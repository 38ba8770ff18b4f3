//! Copies and fills. A range that is not in one allocation is refused when the work is put in.

use std::ffi::c_void;

use crate::answer::{INVALID_VALUE, Return, answer_here, whole};
use crate::context::gpu_of;
use crate::delivery::Delivery;
use crate::memory::{device_range, pointer, range};
use crate::stream::{Work, stream_of};

/// A copy between two places that CUDA knows.
fn known_to_known(
    to: u64,
    from: u64,
    bytes: usize,
    stream: usize,
    gpu: usize,
) -> Result<(), Return> {
    let stream = stream_of(stream, gpu)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = range(to, bytes).ok_or(INVALID_VALUE)?;
    let source = range(from, bytes).ok_or(INVALID_VALUE)?;
    stream.put(Work::Now(Box::new(move || {
        // SAFETY: both ranges lie in blocks, which are held here.
        unsafe { Delivery::of_copy(&source, &target, bytes).carry(to, from, bytes) };
        drop((source, target));
        Ok(())
    })));
    Ok(())
}

/// cuda.h's function. Of pageable memory the bytes are taken along at once.
///
/// # Safety
///
/// `from` is valid for reads of `bytes` bytes; pinned or registered memory until the stream is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: usize,
) -> Return {
    answer_here("cuMemcpyHtoDAsync_v2", |gpu| {
        let source = from.expose_provenance() as u64;
        if range(source, bytes).is_some() {
            device_range(to, bytes)?;
            return known_to_known(to, source, bytes, stream, gpu);
        }
        let stream = stream_of(stream, gpu)?;
        if bytes == 0 {
            return Ok(());
        }
        let target = device_range(to, bytes)?;
        if from.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: this function's own condition.
        let staged = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
        stream.put(Work::Now(Box::new(move || {
            let from = staged.as_ptr().expose_provenance() as u64;
            // SAFETY: the target is in a block, which is held here; the source is a vector as long.
            unsafe { Delivery::of_upload(&target, bytes).carry(to, from, bytes) };
            drop(target);
            Ok(())
        })));
        Ok(())
    })
}

/// cuda.h's function. Into pageable memory the copy is done when it returns.
///
/// # Safety
///
/// `to` is valid for writes of `bytes` bytes; pinned or registered memory until the stream is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: usize,
) -> Return {
    answer_here("cuMemcpyDtoHAsync_v2", |gpu| {
        let target = to.expose_provenance() as u64;
        if range(target, bytes).is_some() {
            device_range(from, bytes)?;
            return known_to_known(target, from, bytes, stream, gpu);
        }
        let stream = stream_of(stream, gpu)?;
        if bytes == 0 {
            return Ok(());
        }
        let source = device_range(from, bytes)?;
        if to.is_null() {
            return Err(INVALID_VALUE);
        }
        stream.finish();
        whole(stream.gpu)?;
        // SAFETY: the source is in a block, which is held until after; the target is valid by this function's own condition.
        unsafe { Delivery::of_download(&source, bytes).carry(target, from, bytes) };
        drop(source);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) -> Return {
    answer_here("cuMemcpyDtoDAsync_v2", |gpu| {
        known_to_known(to, from, bytes, stream, gpu)
    })
}

/// cuda.h's function: each range is of its context's GPU. It works without access between the two.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: usize,
    from: u64,
    from_context: usize,
    bytes: usize,
    stream: usize,
) -> Return {
    answer_here("cuMemcpyPeerAsync", |gpu| {
        for (address, context) in [(to, to_context), (from, from_context)] {
            let owner = gpu_of(context)?;
            whole(owner)?;
            if bytes > 0 && device_range(address, bytes)?.gpu != owner {
                return Err(INVALID_VALUE);
            }
        }
        known_to_known(to, from, bytes, stream, gpu)
    })
}

fn fill(
    to: u64,
    bytes: usize,
    stream: usize,
    gpu: usize,
    write: impl FnOnce() + Send + 'static,
) -> Result<(), Return> {
    let stream = stream_of(stream, gpu)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = range(to, bytes).ok_or(INVALID_VALUE)?;
    stream.put(Work::Now(Box::new(move || {
        write();
        drop(target);
        Ok(())
    })));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) -> Return {
    answer_here("cuMemsetD8Async", |gpu| {
        fill(to, bytes, stream, gpu, move || {
            // SAFETY: `fill` calls this while it holds the block that has these bytes.
            unsafe { pointer::<u8>(to).write_bytes(value, bytes) };
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(to: u64, value: u32, words: usize, stream: usize) -> Return {
    answer_here("cuMemsetD32Async", |gpu| {
        let bytes = words.checked_mul(4).ok_or(INVALID_VALUE)?;
        if !to.is_multiple_of(4) {
            return Err(INVALID_VALUE);
        }
        fill(to, bytes, stream, gpu, move || {
            let (mut at, mut left) = (pointer::<u32>(to), words);
            while left > 0 {
                // SAFETY: aligned, and as above.
                unsafe { *at = value };
                at = at.wrapping_add(1);
                left -= 1;
            }
        })
    })
}
