//! Registered memory: verbs regions by lkey, and their SGEs.

use std::collections::HashMap;
use std::sync::Arc;

use verbs::{ProtectionDomain, Sge};

use super::Shared;
use crate::MappedMemory;
use crate::hca::Access;
use crate::hca::port::{Error, register};
use crate::wire::DataSegment;

/// The registered memory, by lkey.
#[derive(Debug, Default)]
pub(super) struct MemoryRegions(HashMap<u32, Region>);

/// A registered place.
#[derive(Debug)]
pub(super) struct Region {
    pub region: verbs::MemoryRegion,
    place: MappedMemory,
    /// Offset of the place in the region.
    start: usize,
    access: Access,
}

/// Unknown key, range outside the region, or missing access right.
#[derive(Debug)]
pub(super) struct NotAllowed;

impl Region {
    /// Registers a place with a device.
    pub(super) fn register(
        domain: &ProtectionDomain,
        place: &MappedMemory,
        access: Access,
    ) -> Result<Self, Error> {
        let (region, start) = register(domain, place, access)?;
        Ok(Self { region, place: place.clone(), start, access })
    }
}

impl MemoryRegions {
    pub(super) fn add(&mut self, region: Region) {
        self.0.insert(region.region.lkey(), region);
    }

    /// The SGEs of these segments. `written` requires local write access.
    pub(super) fn sges(
        &self,
        segments: &[DataSegment],
        written: bool,
    ) -> Result<Vec<Sge<'_>>, NotAllowed> {
        let find = |segment: &DataSegment| {
            let region =
                self.0.get(&segment.key).filter(|region| !written || region.access.local_write);
            let region = region.ok_or(NotAllowed)?;
            let offset = segment.address.checked_sub(region.place.address()).ok_or(NotAllowed)?;
            let offset = usize::try_from(offset).map_err(|_| NotAllowed)?;
            let part = region.place.part(offset, segment.length as usize);
            let offset = part.map(|_| region.start + offset).map_err(|_| NotAllowed)?;
            let sge = region.region.sge(offset, segment.length as usize);
            sge.map_err(|_| NotAllowed)
        };
        segments.iter().map(find).collect()
    }
}

/// Deregisters memory on drop. The verbs registration ends with the last queue pair that used it.
#[derive(Debug)]
pub(super) struct DeregisterGuard {
    shared: Arc<Shared>,
    key: u32,
}

impl DeregisterGuard {
    pub(super) fn new(shared: Arc<Shared>, key: u32) -> Self {
        Self { shared, key }
    }
}

impl Drop for DeregisterGuard {
    fn drop(&mut self) {
        let region = self.shared.lock().regions.0.remove(&self.key);
        // Deregister without the lock.
        drop(region);
    }
}
