//! Places that the NIC is told of.

use std::os::fd::AsFd as _;

use gpu::sim;
use gpu::{DeviceMemory, DevicePtr};
use verbs::devx::{Devx, Spot, Umem};
use verbs::{MemoryPath, MemoryPathError};

use crate::hca::port::{Error, failed};
use crate::{Allocator, MemoryLocation, Place, Whole};

/// On which borders memory begins that a NIC is told of: host memory on a page's, as the NIC has them; GPU memory on one of the GPU's
/// driver, of which it makes dma-bufs and mappings.
fn border(location: MemoryLocation) -> usize {
    match location {
        MemoryLocation::Host => 4 << 10,
        MemoryLocation::Gpu => 64 << 10,
    }
}

/// A place of at least so many bytes, zeroed, and what the NIC knows it by.
pub(super) fn named(
    allocator: &Allocator,
    devx: &Devx,
    location: MemoryLocation,
    bytes: usize,
) -> Result<(Place, Spot), crate::Error> {
    let border = border(location);
    let bytes = bytes.next_multiple_of(border);
    // An allocation begins anywhere in a block of the driver's.
    let all = allocator.place(location, bytes + border)?;
    let lead = (all.address().next_multiple_of(border as u64) - all.address()) as usize;
    let place = all.part(lead, bytes)?;
    let (memory, start) = place.whole();
    let named = match memory {
        Whole::Host(memory) => devx
            .host_memory(memory, start..start + bytes)
            .map_err(failed("let the NIC reach host memory"))?,
        Whole::Device(memory) => device(devx, memory, start, bytes)?,
    };
    Ok((place, named.at(0)))
}

fn device(devx: &Devx, memory: &DeviceMemory, start: usize, bytes: usize) -> Result<Umem, Error> {
    let by = |memory_path| devx.device_memory(memory_path, memory, start..start + bytes);
    let first = match memory.gpu().is_sim() {
        false => by(MemoryPath::Dmabuf),
        true => simulated(devx, memory, start, bytes),
    };
    let dmabuf = match first {
        Ok(named) => return Ok(named),
        Err(dmabuf) => dmabuf,
    };
    by(MemoryPath::Peermem).map_err(|peermem| Error::GpuQueues { dmabuf, peermem })
}

/// A simulated GPU's memory is a file, which is no dma-buf: a NIC's double takes it, and a NIC's driver says so.
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
