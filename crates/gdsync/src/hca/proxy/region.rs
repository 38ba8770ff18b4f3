//! Registered memory: verbs regions by their local keys, and the pieces of them that entries name.

use std::collections::HashMap;
use std::sync::Arc;

use verbs::{ProtectionDomain, Sge};

use super::Shared;
use crate::Place;
use crate::hca::Access;
use crate::hca::port::{Error, register};
use crate::wire::DataSegment;

/// The memory that is registered, by lkey.
#[derive(Debug, Default)]
pub(super) struct MemoryRegions(HashMap<u32, Known>);

/// A place that is registered.
#[derive(Debug)]
pub(super) struct Known {
    pub region: verbs::MemoryRegion,
    place: Place,
    /// Where the place starts in the region.
    start: usize,
    access: Access,
}

/// The key, the range or the right is not there.
#[derive(Debug)]
pub(super) struct NotAllowed;

impl Known {
    /// Registers a place with a device.
    pub(super) fn register(
        domain: &ProtectionDomain,
        place: &Place,
        access: Access,
    ) -> Result<Self, Error> {
        let (region, start) = register(domain, place, access)?;
        Ok(Self {
            region,
            place: place.clone(),
            start,
            access,
        })
    }
}

impl MemoryRegions {
    pub(super) fn add(&mut self, known: Known) {
        self.0.insert(known.region.lkey(), known);
    }

    /// The pieces of these segments; to be written by this side's work, or read.
    pub(super) fn pieces(
        &self,
        segments: &[DataSegment],
        written: bool,
    ) -> Result<Vec<Sge<'_>>, NotAllowed> {
        let find = |segment: &DataSegment| {
            let known = self
                .0
                .get(&segment.key)
                .filter(|known| !written || known.access.local_write);
            let known = known.ok_or(NotAllowed)?;
            let offset = segment
                .address
                .checked_sub(known.place.address())
                .ok_or(NotAllowed)?;
            let offset = usize::try_from(offset).map_err(|_| NotAllowed)?;
            let part = known.place.part(offset, segment.length as usize);
            let offset = part.map(|_| known.start + offset).map_err(|_| NotAllowed)?;
            let piece = known.region.piece(offset, segment.length as usize);
            piece.map_err(|_| NotAllowed)
        };
        segments.iter().map(find).collect()
    }
}

/// Deregisters memory when it falls. Verbs end the registration with the last queue pair that was given work with it.
#[derive(Debug)]
pub(super) struct Registered {
    shared: Arc<Shared>,
    key: u32,
}

impl Registered {
    pub(super) fn new(shared: Arc<Shared>, key: u32) -> Self {
        Self { shared, key }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let known = self.shared.lock().regions.0.remove(&self.key);
        // Let go without the lock.
        drop(known);
    }
}
