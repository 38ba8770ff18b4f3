//! Memory that somebody else keeps: registered once however many hold a piece of it, and what the driver says of registers.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use gpu::{Compare, Gpu, HostMemory, Lent, MemoryOperation, Registration};

use crate::{Outcome, Report};

const PATIENCE: Duration = Duration::from_secs(5);
const PAGES: usize = 2 * 4096;

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    report.trial("lent memory, two pieces of one registration", || {
        let lent = pages(gpu)?;
        let first = lent.for_gpu(gpu, Registration::Memory)?;
        let second = lent.for_gpu(gpu, Registration::Memory)?;
        drop(first);
        reached(gpu, &second)?;
        drop(second);
        // The registration has ended: it can be had again.
        let again = lent.for_gpu(gpu, Registration::Memory)?;
        reached(gpu, &again)?;
        Ok(String::new())
    })?;
    report.trial("lent memory that is registered already", || {
        let pinned = gpu.pinned(PAGES)?;
        let whole = pinned.as_ptr();
        // SAFETY: pinned memory, which the last argument keeps.
        let lent = unsafe { Lent::new(whole, PAGES, Arc::new(pinned.clone())) };
        let memory = lent.for_gpu(gpu, Registration::Memory)?;
        reached(gpu, &memory)?;
        drop((lent, memory));
        reached(gpu, &pinned)?;
        Ok(String::new())
    })?;
    // Ordinary memory is no device's registers: what the driver answers is told, whatever it is.
    let lent = pages(gpu)?;
    let answer = match lent.for_gpu(gpu, Registration::Registers) {
        Ok(memory) => match reached(gpu, &memory) {
            Ok(()) => "taken, and reached".to_owned(),
            Err(error) => format!("taken; {error}"),
        },
        Err(error) => gpu::sentence(&error),
    };
    report.say(format_args!("ordinary memory registered as registers: {answer}"))?;
    Ok(())
}

fn pages(gpu: &Gpu) -> Outcome<Lent> {
    let memory = gpu.pageable(PAGES)?;
    let start: NonNull<u8> = memory.as_ptr();
    // SAFETY: memory of this process, which the last argument keeps.
    Ok(unsafe { Lent::new(start, PAGES, Arc::new(memory)) })
}

fn reached(gpu: &Gpu, memory: &HostMemory) -> Outcome<()> {
    let stream = gpu.stream()?;
    let at = PAGES - 8;
    memory.store_u64(at, 1)?;
    stream.batch(&[
        MemoryOperation::wait32(memory, at, 1, Compare::Eq)?,
        MemoryOperation::write64(memory, at, 0x0123_4567_89ab_cdef)?,
    ])?;
    stream.synchronize_within(PATIENCE)?;
    match memory.load_u64(at)? {
        0x0123_4567_89ab_cdef => Ok(()),
        other => Err(format!("the word is {other:#x}").into()),
    }
}
