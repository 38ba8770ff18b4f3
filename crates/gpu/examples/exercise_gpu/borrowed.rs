//! Externally owned memory: registered once however many hold a part of it, and what the driver
//! says of registers.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use gpu::{BorrowedMemory, Compare, Gpu, HostMemory, MemOp, Registration};

use crate::{Outcome, Report};

const TIMEOUT: Duration = Duration::from_secs(5);
const PAGES: usize = 2 * 4096;

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    report.trial("borrowed memory, two holders of one registration", || {
        let borrowed = pages(gpu)?;
        let first = borrowed.for_gpu(gpu, Registration::Memory)?;
        let second = borrowed.for_gpu(gpu, Registration::Memory)?;
        drop(first);
        reached(gpu, &second)?;
        drop(second);
        // The registration has ended: it can be had again.
        let again = borrowed.for_gpu(gpu, Registration::Memory)?;
        reached(gpu, &again)?;
        Ok(String::new())
    })?;
    report.trial("borrowed memory that is registered already", || {
        let theirs = gpu.registered(PAGES)?;
        // SAFETY: registered memory, which the last argument keeps.
        let borrowed =
            unsafe { BorrowedMemory::new(theirs.as_ptr(), PAGES, Arc::new(theirs.clone())) };
        let memory = borrowed.for_gpu(gpu, Registration::Memory)?;
        reached(gpu, &memory)?;
        drop((borrowed, memory));
        reached(gpu, &theirs)?;
        Ok(String::new())
    })?;
    report.trial("ordinary memory registered as registers", || {
        // A device in software has such registers; CUDA itself takes a device's alone.
        let memory = pages(gpu)?.for_gpu(gpu, Registration::Registers)?;
        reached(gpu, &memory)?;
        Ok(String::new())
    })?;
    Ok(())
}

fn pages(gpu: &Gpu) -> Outcome<BorrowedMemory> {
    let memory = gpu.pageable(PAGES)?;
    let start: NonNull<u8> = memory.as_ptr();
    // SAFETY: memory of this process, which the last argument keeps.
    Ok(unsafe { BorrowedMemory::new(start, PAGES, Arc::new(memory)) })
}

fn reached(gpu: &Gpu, memory: &HostMemory) -> Outcome<()> {
    let stream = gpu.stream()?;
    let at = PAGES - 8;
    memory.store_u64(at, 1)?;
    stream.batch(&[
        MemOp::wait32(memory, at, 1, Compare::Eq)?,
        MemOp::write64(memory, at, 0x0123_4567_89ab_cdef)?,
    ])?;
    stream.synchronize_within(TIMEOUT)?;
    match memory.load_u64(at)? {
        0x0123_4567_89ab_cdef => Ok(()),
        other => Err(format!("the word is {other:#x}").into()),
    }
}
