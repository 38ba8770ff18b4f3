//! Maps memory objects at CPU addresses: each part through its own file of the node, side by side.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::client::Object;
use super::device::Device;
use super::fault::{self, Step};
use crate::Error;
use crate::vma::Vma;

/// Part of a memory object.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) object: Arc<Object>,
    /// Offset in the object, a multiple of the page size.
    pub(crate) offset: u64,
    /// Length in bytes, a multiple of the page size.
    pub(crate) length: u64,
}

/// RM's side of a mapping; undone after the addresses are unmapped.
#[derive(Debug)]
pub(crate) struct Views {
    device: Arc<Device>,
    views: Vec<View>,
    bytes: u64,
}

#[derive(Debug)]
struct View {
    object: Arc<Object>,
    linear: u64,
}

impl Drop for Views {
    fn drop(&mut self) {
        let client = self.device.client();
        if !client.is_ours() {
            return;
        }
        for view in &self.views {
            // Fails only if RM has dropped the mapping itself because the GPU is gone.
            let _ = client.calls().unmap(
                client.caller(),
                self.device.handle(),
                view.object.handle(),
                view.linear,
            );
        }
        self.device.give_back_bar1(self.bytes);
    }
}

/// Addresses and RM's mappings. Field order is drop order.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) vma: Vma,
    pub(crate) views: Views,
}

/// Maps the parts one after another. On failure the addresses are unmapped before RM's mappings.
pub(crate) fn show(device: &Arc<Device>, extents: &[Extent]) -> Result<Mapped, Error> {
    let bytes = extents.iter().map(|extent| extent.length).sum::<u64>();
    device.take_bar1(bytes)?;
    let mut views =
        Views { device: Arc::clone(device), views: Vec::with_capacity(extents.len()), bytes };
    let system =
        |operation: &str, source| Error::System { operation: operation.to_owned(), source };
    // Declared after the views, so that it is dropped first.
    let mut vma = Vma::reserve(bytes as usize)
        .map_err(|source| system("reserve addresses for the mapping", source))?;
    let client = device.client();
    let mut at = 0;
    for extent in extents {
        let node = device.fresh_node()?;
        let (offset, length) = (extent.offset, extent.length);
        let linear = client
            .calls()
            .map(
                client.caller(),
                device.handle(),
                extent.object.handle(),
                offset,
                length,
                node.as_fd(),
            )
            .map_err(|error| fault::error(Step::Map, error))?;
        views.views.push(View { object: Arc::clone(&extent.object), linear });
        let placed = client.calls().place(&mut vma, at, length as usize, node.as_fd());
        placed
            .map_err(|source| system("map the file of the GPU's node", source))?
            .ok_or(Error::GpuLost { sign: "mmap of its node returned no address" })?;
        at += length as usize;
        // The node's file closes here; the mapping keeps it open.
    }
    vma.exclude_from_children()
        .map_err(|source| system("keep the mapping out of forked children", source))?;
    Ok(Mapped { vma, views })
}
