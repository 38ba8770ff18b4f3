//! Copies and fills. A range outside one allocation is rejected when enqueued.

use std::ffi::c_void;
use std::sync::Arc;

use gpu::sim::execution::{Flaw, Item, Span};

use crate::answer::{INVALID_VALUE, Return, answer_here, whole};
use crate::context::gpu_of;
use crate::delivery;
use crate::memory::{Block, device_range, range};
use crate::stream::stream_of;

/// Copy from one block to another.
pub fn between(
    source: &Block,
    from: u64,
    target: &Block,
    to: u64,
    bytes: usize,
    flaw: Option<Flaw>,
) -> Item {
    Item::Copy { to: target.span(to), from: source.span(from), bytes, flaw }
}

/// Copy between two ranges that CUDA knows.
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
    let flaw = delivery::of_copy(&source, &target, bytes);
    stream.put(between(&source, from, &target, to, bytes, flaw));
    Ok(())
}

/// Pageable memory is copied to a buffer at once.
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
        // SAFETY: cuda.h's contract.
        let staged = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
        let staged = Arc::new(staged);
        let start = staged.as_ptr().cast_mut();
        stream.put(Item::Copy {
            to: target.span(to),
            // SAFETY: the vector has this many bytes and lives as long as the span.
            from: unsafe { Span::new(start, Some(staged)) },
            bytes,
            flaw: None,
        });
        Ok(())
    })
}

/// A copy into pageable memory is done on return.
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
        stream.put(Item::Copy {
            // SAFETY: valid for writes by cuda.h's contract, and the copy is done
            // before it returns.
            to: unsafe { Span::new(to.cast(), None) },
            from: source.span(from),
            bytes,
            flaw: None,
        });
        stream.finish();
        whole(stream.gpu)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) -> Return {
    answer_here("cuMemcpyDtoDAsync_v2", |gpu| known_to_known(to, from, bytes, stream, gpu))
}

/// Each range belongs to its context's GPU. Needs no peer access.
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
    item: impl FnOnce(Span) -> Item,
) -> Result<(), Return> {
    let stream = stream_of(stream, gpu)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = range(to, bytes).ok_or(INVALID_VALUE)?;
    stream.put(item(target.span(to)));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) -> Return {
    answer_here("cuMemsetD8Async", |gpu| {
        fill(to, bytes, stream, gpu, |to| Item::FillBytes { to, value, bytes })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(to: u64, value: u32, words: usize, stream: usize) -> Return {
    answer_here("cuMemsetD32Async", |gpu| {
        let bytes = words.checked_mul(4).ok_or(INVALID_VALUE)?;
        if !to.is_multiple_of(4) {
            return Err(INVALID_VALUE);
        }
        fill(to, bytes, stream, gpu, |to| Item::FillWords { to, value, words })
    })
}
