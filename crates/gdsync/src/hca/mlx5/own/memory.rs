//! Memory of queues, registered with the NIC as user memory (umem).

use std::os::fd::AsFd as _;

use gpu::sim;
use gpu::{DeviceMemory, DevicePtr};
use verbs::devx::{Devx, Spot, Umem};
use verbs::{Chosen, MemoryPath, MemoryPathError};

use crate::hca::port::{Error, failed};
use crate::{Allocator, MappedMemory, MemoryLocation, MemoryRef};

/// Alignment in bytes: the NIC's page size, or the granularity of the GPU driver's dma-bufs and mappings.
fn alignment(location: MemoryLocation) -> usize {
    match location {
        MemoryLocation::Host => 4 << 10,
        MemoryLocation::Gpu => 64 << 10,
    }
}

/// Allocates a zeroed place of at least `bytes` bytes and registers it.
pub(super) fn allocate(
    allocator: &Allocator,
    devx: &Devx,
    location: MemoryLocation,
    bytes: usize,
) -> Result<(MappedMemory, Spot), crate::Error> {
    let align = alignment(location);
    let bytes = bytes.next_multiple_of(align);
    // The allocation may be unaligned.
    let all = allocator.place(location, bytes + align)?;
    let lead = (all.address().next_multiple_of(align as u64) - all.address()) as usize;
    let place = all.part(lead, bytes)?;
    let (memory, start) = place.whole();
    let umem = match memory {
        MemoryRef::Host(memory) => devx
            .host_memory(memory, start..start + bytes)
            .map_err(failed("register host memory by DEVX"))?,
        MemoryRef::Device(memory) => device(devx, memory, start, bytes)?,
    };
    Ok((place, umem.at(0)))
}

fn device(devx: &Devx, memory: &DeviceMemory, start: usize, bytes: usize) -> Result<Umem, Error> {
    let chosen = if memory.gpu().is_sim() {
        Chosen::first(&[MemoryPath::Dmabuf], |_| simulated(devx, memory, start, bytes))
    } else {
        devx.gpu_memory(memory, start..start + bytes)
    };
    chosen.map(|chosen| chosen.result).map_err(|rejections| Error::GpuQueues { rejections })
}

/// A simulated GPU's memory is a file, not a dma-buf: a fake NIC accepts it, a real driver fails.
fn simulated(
    devx: &Devx,
    memory: &DeviceMemory,
    start: usize,
    bytes: usize,
) -> Result<Umem, MemoryPathError> {
    let address = DevicePtr::new(memory.address().get() + start as u64);
    let found = sim::locate(address).ok_or(verbs::Error::Simulated)?;
    Ok(devx.dmabuf(memory, found.file.as_fd(), found.offset as usize, bytes)?)
}
