//! Places that the card is told of.

use std::os::fd::AsFd as _;

use gpu::sim;
use gpu::{DeviceMemory, DevicePtr};
use verbs::devx::{Devx, Spot, Umem};
use verbs::{Road, RoadError};

use crate::hca::port::{Error, failed};
use crate::{Home, Place, Supply, Whole};

/// On which borders memory begins that a card is told of: host memory on a page's, as the card has them; GPU memory on one of the GPU's
/// driver, of which it makes dma-bufs and mappings.
fn border(home: Home) -> usize {
    match home {
        Home::Host => 4 << 10,
        Home::Gpu => 64 << 10,
    }
}

/// A place of at least so many bytes, zeroed, and what the card knows it by.
pub(super) fn named(supply: &Supply, devx: &Devx, home: Home, bytes: usize) -> Result<(Place, Spot), crate::Error> {
    let border = border(home);
    let bytes = bytes.next_multiple_of(border);
    // An allocation begins anywhere in a block of the driver's.
    let all = supply.place(home, bytes + border)?;
    let lead = (all.address().next_multiple_of(border as u64) - all.address()) as usize;
    let place = all.part(lead, bytes)?;
    let (memory, start) = place.whole();
    let named = match memory {
        Whole::Host(memory) => devx
            .host_memory(memory, start..start + bytes)
            .map_err(failed("let the card reach host memory"))?,
        Whole::Device(memory) => device(devx, memory, start, bytes)?,
    };
    Ok((place, named.at(0)))
}

fn device(devx: &Devx, memory: &DeviceMemory, start: usize, bytes: usize) -> Result<Umem, Error> {
    let by = |road| devx.device_memory(road, memory, start..start + bytes);
    let first = match memory.gpu().is_sim() {
        false => by(Road::Dmabuf),
        true => simulated(devx, memory, start, bytes),
    };
    let dmabuf = match first {
        Ok(named) => return Ok(named),
        Err(dmabuf) => dmabuf,
    };
    by(Road::Peermem).map_err(|peermem| Error::GpuQueues { dmabuf, peermem })
}

/// A simulated GPU's memory is a file, which is no dma-buf: a card's double takes it, and a card's driver says so.
fn simulated(devx: &Devx, memory: &DeviceMemory, start: usize, bytes: usize) -> Result<Umem, RoadError> {
    let address = DevicePtr::new(memory.address().get() + start as u64);
    let found = sim::locate(address).ok_or(verbs::Error::Simulated)?;
    Ok(devx.dmabuf(memory, found.file.as_fd(), found.offset as usize, bytes)?)
}
