//! Against a simulated GPU, which treats registrations like CUDA: identified by their start,
//! without overlap.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Compare, MemOp};

const PAGE: usize = 4096;

/// Pages that record their release.
struct Keeper {
    start: NonNull<u8>,
    layout: Layout,
    gone: Arc<AtomicBool>,
}

// SAFETY: pages of the process, freed only by this value.
unsafe impl Send for Keeper {}
// SAFETY: as above.
unsafe impl Sync for Keeper {}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout below.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
        self.gone.store(true, Ordering::SeqCst);
    }
}

fn keeper(pages: usize) -> (BorrowedMemory, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let layout = Layout::from_size_align(pages * PAGE, PAGE).expect("a layout");
    // SAFETY: the layout has a size.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
    let keeper = Keeper { start, layout, gone: Arc::clone(&gone) };
    // SAFETY: the keeper holds the pages until it is dropped, and nothing else accesses them.
    (unsafe { BorrowedMemory::new(start, pages * PAGE, Arc::new(keeper)) }, gone)
}

/// Part of the same memory.
fn part(whole: &BorrowedMemory, offset: usize, bytes: usize) -> BorrowedMemory {
    let start = NonNull::new(whole.start.as_ptr().wrapping_add(offset)).expect("an address");
    // SAFETY: within the whole, which the last argument keeps.
    unsafe { BorrowedMemory::new(start, bytes, Arc::new(whole.clone())) }
}

/// True if a stream can access the first and the last word.
fn is_reached(gpu: &Gpu, memory: &HostMemory) -> bool {
    let stream = gpu.stream().expect("a stream");
    [0, memory.len() - 4].into_iter().all(|offset| {
        memory.store_u32(offset, 0).expect("in range");
        let write = MemOp::write32(memory, offset, 0x0102_0304).expect("in range");
        stream.batch(&[write]).is_ok()
            && stream.synchronize().is_ok()
            && memory.load_u32(offset).is_ok_and(|seen| seen == 0x0102_0304)
    })
}

fn is_known(memory: &BorrowedMemory) -> bool {
    let pages = pages(memory.address(), memory.len()).expect("addresses");
    !registered().overlapping(&pages).is_empty()
}

#[test]
fn stream_access_and_release() {
    let (borrowed, gone) = keeper(1);
    let gpu = Gpu::sim();
    let memory = borrowed.for_gpu(&gpu, Registration::Registers).expect("registered");
    let stream = gpu.stream().expect("a stream");
    let write = MemOp::write64(&memory, 8, 0x0102).expect("reached");
    drop(borrowed);
    stream.batch(&[write]).expect("put in");
    stream.synchronize().expect("done");
    assert_eq!(memory.load_u64(8).expect("in range"), 0x0102);
    assert!(!gone.load(Ordering::SeqCst));
    drop((memory, stream));
    assert!(gone.load(Ordering::SeqCst));
}

#[test]
fn page_stays_registered_until_last_drop() {
    let (borrowed, _gone) = keeper(1);
    let gpu = Gpu::sim();
    let first = borrowed.for_gpu(&gpu, Registration::Memory).expect("registered");
    let second = borrowed.for_gpu(&gpu, Registration::Memory).expect("shared");
    drop(first);
    let stream = gpu.stream().expect("a stream");
    let wait = MemOp::wait32(&second, 0, 0, Compare::Geq).expect("reached");
    stream.batch(&[wait]).expect("put in");
    stream.synchronize().expect("still registered");
    assert!(is_known(&borrowed));
    drop((second, stream));
    assert!(!is_known(&borrowed));
}

#[test]
fn two_lengths_at_one_start() {
    for bytes in if cfg!(miri) { vec![2048] } else { vec![2048, PAGE] } {
        for first_goes in [true, false] {
            let (whole, _gone) = keeper(2);
            let gpu = Gpu::sim();
            let short =
                part(&whole, 0, bytes).for_gpu(&gpu, Registration::Memory).expect("registered");
            let long = whole.for_gpu(&gpu, Registration::Memory).expect("registered");
            let (gone, left) = if first_goes { (short, long) } else { (long, short) };
            drop(gone);
            assert!(is_reached(&gpu, &left), "{bytes} {first_goes}");
            drop(left);
            assert!(!is_known(&whole));
            // All of it is released.
            let again = whole.for_gpu(&gpu, Registration::Memory).expect("free");
            assert!(is_reached(&gpu, &again));
        }
    }
}

#[test]
fn overlapping_parts() {
    // Whole and half pages of four, in every pair, with each drop order.
    let parts = [
        (0, 2048),
        (2048, 2048),
        (0, PAGE),
        (0, 2 * PAGE),
        (PAGE, PAGE),
        (2048, PAGE),
        (PAGE + 8, 2 * PAGE),
        (0, 4 * PAGE),
    ];
    // Miri takes a thousand times as long.
    let parts = if cfg!(miri) { &parts[4..6] } else { &parts[..] };
    for &first in parts {
        for &second in parts {
            for first_goes in [true, false] {
                let (whole, _gone) = keeper(4);
                let gpu = Gpu::sim();
                let hold = |(offset, bytes)| {
                    let part = part(&whole, offset, bytes);
                    part.for_gpu(&gpu, Registration::Memory).expect("registered")
                };
                let (one, other) = (hold(first), hold(second));
                assert!(is_reached(&gpu, &one) && is_reached(&gpu, &other), "{first:?} {second:?}");
                let (gone, left) = if first_goes { (one, other) } else { (other, one) };
                drop(gone);
                assert!(is_reached(&gpu, &left), "{first:?} {second:?} {first_goes}");
                drop(left);
                assert!(!is_known(&whole), "{first:?} {second:?} {first_goes}");
            }
        }
    }
}

#[test]
fn foreign_registration_stays() {
    let gpu = Gpu::sim();
    let theirs = gpu.registered(2 * PAGE).expect("memory");
    for (offset, bytes) in [(0, 2 * PAGE), (PAGE, 2048)] {
        let start =
            NonNull::new(theirs.as_ptr().as_ptr().wrapping_add(offset)).expect("an address");
        // SAFETY: the memory is kept by the last argument.
        let borrowed = unsafe { BorrowedMemory::new(start, bytes, Arc::new(theirs.clone())) };
        let memory = borrowed.for_gpu(&gpu, Registration::Memory).expect("registered already");
        assert_eq!(memory.device_address(), theirs.device_address().offset(offset as u64));
        assert!(is_reached(&gpu, &memory));
        drop((borrowed, memory));
        assert!(is_reached(&gpu, &theirs));
    }
}

#[test]
fn without_gpu_no_device_address() {
    let (borrowed, _gone) = keeper(1);
    let memory = borrowed.for_cpu(&Gpu::sim()).expect("some bytes");
    memory.store_u32(4, 7).expect("in range");
    assert_eq!(memory.load_u32(4).expect("in range"), 7);
    assert!(memory.is_pageable());
    assert!(matches!(MemOp::write32(&memory, 0, 1), Err(Error::Pageable)));
    assert!(!is_known(&borrowed));
}
