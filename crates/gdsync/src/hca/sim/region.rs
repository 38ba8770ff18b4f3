//! Registered memory: keys, bounds and access rights.

use std::collections::HashMap;
use std::sync::Arc;

use super::Shared;
use crate::hca::Access;
use crate::wire::{DataSegment, RemoteAddress};
use crate::{Error, MappedMemory};

/// The registered memory, by key.
#[derive(Debug, Default)]
pub(super) struct MemoryRegions {
    regions: HashMap<u32, Region>,
    last: u32,
}

#[derive(Debug)]
struct Region {
    place: MappedMemory,
    access: Access,
}

/// Deregisters memory on drop.
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
        self.shared.lock().regions.regions.remove(&self.key);
    }
}

/// The first key: above small numbers that a program could pass by mistake, and not the key that
/// ends a receive WQE.
const FIRST: u32 = 0x1000;
/// As on a NIC, a key is an index and an 8-bit tag.
const STEP: u32 = 0x101;

/// Unknown key, range outside the region, or missing access right.
pub(super) struct NotAllowed;

/// Longest message in bytes: 1 GiB, the limit of NIC ports.
pub(super) const LONGEST: u64 = 1 << 30;

impl MemoryRegions {
    pub(super) fn add(&mut self, place: MappedMemory, access: Access) -> u32 {
        self.last += 1;
        let key = FIRST.wrapping_add(self.last.wrapping_mul(STEP));
        self.regions.insert(key, Region { place, access });
        key
    }

    /// Reads the segments. The caller limits their length.
    pub(super) fn gather(&self, segments: &[DataSegment]) -> Result<Vec<u8>, NotAllowed> {
        let find = |segment: &DataSegment| {
            self.find(segment.key, segment.address, segment.length.into(), |_| true)
        };
        let places = segments.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let mut bytes = vec![0; places.iter().map(MappedMemory::len).sum()];
        let mut rest = bytes.as_mut_slice();
        for place in places {
            let (to, after) = rest.split_at_mut(place.len());
            place.read(0, to).map_err(|_: Error| NotAllowed)?;
            rest = after;
        }
        Ok(bytes)
    }

    /// Writes bytes to the segments, which must have room. On error nothing is written.
    pub(super) fn scatter(
        &self,
        segments: &[DataSegment],
        mut bytes: &[u8],
    ) -> Result<(), NotAllowed> {
        let mut parts = Vec::new();
        for segment in segments {
            let length = bytes.len().min(segment.length as usize);
            let (part, rest) = bytes.split_at(length);
            bytes = rest;
            if !part.is_empty() {
                let may = |access: Access| access.local_write;
                parts.push((self.find(segment.key, segment.address, length as u64, may)?, part));
            }
        }
        for (place, part) in parts {
            place.write(0, part).map_err(|_: Error| NotAllowed)?;
        }
        Ok(())
    }

    /// Memory for a remote request.
    pub(super) fn remote(
        &self,
        remote: RemoteAddress,
        length: u64,
        may: impl Fn(Access) -> bool,
    ) -> Result<MappedMemory, NotAllowed> {
        self.find(remote.key, remote.address, length, may)
    }

    fn find(
        &self,
        key: u32,
        address: u64,
        length: u64,
        may: impl Fn(Access) -> bool,
    ) -> Result<MappedMemory, NotAllowed> {
        let region =
            self.regions.get(&key).filter(|region| may(region.access)).ok_or(NotAllowed)?;
        let offset = address.checked_sub(region.place.address()).ok_or(NotAllowed)?;
        let (offset, length) = (usize::try_from(offset), usize::try_from(length));
        let (Ok(offset), Ok(length)) = (offset, length) else {
            return Err(NotAllowed);
        };
        region.place.part(offset, length).map_err(|_| NotAllowed)
    }
}
