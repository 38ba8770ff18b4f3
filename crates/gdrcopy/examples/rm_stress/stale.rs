//! Rounds on memory that is freed while pinned and whose address CUDA reuses.

use gdrcopy::{MapRequest, Pin, PinFlags};
use gpu::{Allocation, DeviceMemory, DevicePtr, Pattern, Stream};

use crate::rounds::same;
use crate::{Outcome, Random, Setup, Worker};

/// True if CUDA returns the allocation's memory to the driver on free; small allocations and pools
/// share blocks.
fn has_own_block(kind: Allocation, bytes: usize) -> bool {
    match kind {
        Allocation::Malloc => bytes >= 4 << 20,
        Allocation::Create { .. } => true,
        _ => false,
    }
}

/// Pins, frees the pinned memory, allocates until the address is reused, and uses both.
pub fn reuse(setup: &Setup, worker: &Worker, random: &mut Random, stream: &Stream) -> Outcome {
    let kind = random.allocation();
    let bytes = match random.below(2) {
        0 => (1 + random.below(16)) * (64 << 10),
        _ => (2 + random.below(7)) * (2 << 20),
    };
    worker.step("allocate");
    let memory = setup.gpu.allocate(kind, bytes)?;
    let address = memory.address();
    let first = random.pattern();
    stream.fill_pattern(&memory, 0, bytes, first, 0)?;
    stream.synchronize()?;
    worker.step("pin");
    // SAFETY: after the free nothing is written through it unless the memory had a block of its
    // own, which the pin keeps; what is read elsewhere is memory of this program.
    let stale = unsafe { setup.gdr.pin_raw(address, bytes, PinFlags::default()) }?;
    let is_mapped = random.below(2) == 0;
    let mapping = if is_mapped { Some(stale.map(MapRequest::Default)?) } else { None };
    worker.step("free");
    memory.free()?;
    setup.watch.count("reuse: freed under a pin");
    worker.step("allocate again");
    let (others, again) = allocate_again(setup, kind, bytes, address)?;
    let second = random.pattern();
    for memory in others.iter().chain(&again) {
        stream.fill_pattern(memory, 0, bytes, second, 0)?;
    }
    stream.synchronize()?;
    let own = has_own_block(kind, bytes);
    match (mapping, &again) {
        (Some(mut mapping), _) if own => {
            worker.step("stale mapping, read");
            let mut seen = vec![0; bytes];
            mapping.read(0, &mut seen)?;
            same(first, &seen, kind, "a stale mapping shows what was pinned")?;
            worker.step("stale mapping, write");
            random.pattern().fill(&mut seen, 0);
            mapping.write(0, &seen)?;
            mapping.fence();
            setup.watch.count("reuse: stale mapping kept its own pages");
        }
        (Some(mapping), _) => {
            worker.step("stale mapping of a shared block");
            mapping.read(0, &mut [0; 4096])?;
            setup.watch.count("reuse: stale mapping of a shared block read");
        }
        (None, _) => map_stale(setup, worker, &stale, kind, first, own)?,
    }
    for memory in others.iter().chain(&again) {
        worker.step("new memory, checked by the GPU");
        let mismatches = stream.check_pattern(memory, 0, bytes, second, 0)?;
        if mismatches.words != 0 {
            let what = format!("{kind}, {bytes} bytes: new memory was changed through a stale pin");
            return Err(format!("{what}: {mismatches:?}").into());
        }
    }
    let stale = match random.below(2) {
        0 => Some(stale),
        _ => None,
    };
    if let Some(memory) = &again {
        setup.watch.count("reuse: the same address again");
        worker.step("pin of the new memory");
        use_new(setup, random, stream, memory, second)?;
        // The order of the two ends is the caller's.
        drop(stale);
        use_new(setup, random, stream, memory, Pattern::new(address.get()))?;
        setup.watch.count("reuse: new pin of the same address is the new memory");
    }
    Ok(())
}

/// Allocates up to four times until the memory is at this address; returns the other memory and
/// that one.
fn allocate_again(
    setup: &Setup,
    kind: Allocation,
    bytes: usize,
    address: DevicePtr,
) -> Result<(Vec<DeviceMemory>, Option<DeviceMemory>), gpu::Error> {
    let mut others = Vec::new();
    for _ in 0..4 {
        let memory = setup.gpu.allocate(kind, bytes)?;
        if memory.address() == address {
            return Ok((others, Some(memory)));
        }
        others.push(memory);
    }
    Ok((others, None))
}

/// Maps a pin of freed memory: it shows the pages that it holds, whatever is at their address now.
fn map_stale(
    setup: &Setup,
    worker: &Worker,
    stale: &Pin,
    kind: Allocation,
    first: Pattern,
    own: bool,
) -> Outcome {
    worker.step("map of a stale pin");
    let mapping = stale.map(MapRequest::Default)?;
    let mut seen = vec![0; mapping.len()];
    mapping.read(0, &mut seen)?;
    if own {
        same(first, &seen, kind, "a stale pin, mapped, shows what was pinned")?;
    }
    setup.watch.count("reuse: map of a stale pin shows what was pinned");
    Ok(())
}

/// Pins and maps memory at the address of a stale pin; writes the pattern unless it is already
/// there.
fn use_new(
    setup: &Setup,
    random: &mut Random,
    stream: &Stream,
    memory: &DeviceMemory,
    pattern: Pattern,
) -> Outcome {
    let (kind, bytes) = (memory.kind(), memory.len());
    stream.fill_pattern(memory, 0, bytes, pattern, 0)?;
    stream.synchronize()?;
    let pin = setup.gdr.pin(memory, 0..bytes, PinFlags::default())?;
    let mut mapping = pin.map(MapRequest::Default)?;
    let mut seen = vec![0; bytes];
    mapping.read(0, &mut seen)?;
    same(pattern, &seen, kind, "a new pin at a reused address shows the new memory")?;
    let next = random.pattern();
    next.fill(&mut seen, 0);
    mapping.write(0, &seen)?;
    stream.read(memory, 0, &mut seen)?;
    same(next, &seen, kind, "the GPU reads what was written through the new pin")
}
