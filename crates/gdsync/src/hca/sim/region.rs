//! Registered memory: keys, bounds and rights, and the bytes behind them.

use std::collections::HashMap;
use std::sync::Arc;

use super::Shared;
use crate::hca::Access;
use crate::wire::{DataSegment, RemoteAddress};
use crate::{Error, Place};

/// The memory that is registered, by key.
#[derive(Debug, Default)]
pub(super) struct MemoryRegions {
    known: HashMap<u32, Known>,
    last: u32,
}

#[derive(Debug)]
struct Known {
    place: Place,
    access: Access,
}

/// Deregisters memory when it falls.
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
        self.shared.lock().regions.known.remove(&self.key);
    }
}

/// The first key: above the small numbers that a program could name by mistake, and not the key that
/// ends a receive WQE.
const FIRST: u32 = 0x1000;
/// Keys are an index and eight bits that tell one use of it from the next.
const STEP: u32 = 0x101;

/// The key, the range or the right is not there.
pub(super) struct NotAllowed;

/// As many bytes as one message has at most: 1 GiB, as NICs say of their ports.
pub(super) const LONGEST: u64 = 1 << 30;

impl MemoryRegions {
    pub(super) fn add(&mut self, place: Place, access: Access) -> u32 {
        self.last += 1;
        let key = FIRST.wrapping_add(self.last.wrapping_mul(STEP));
        self.known.insert(key, Known { place, access });
        key
    }

    /// The bytes of these pieces, one after the other. The caller limits how many.
    pub(super) fn gather(&self, segments: &[DataSegment]) -> Result<Vec<u8>, NotAllowed> {
        let mut bytes = Vec::new();
        for segment in segments {
            let place = self.find(segment.key, segment.address, segment.length.into(), |_| {
                true
            })?;
            let start = bytes.len();
            bytes.resize(start + place.len(), 0);
            let to = bytes.get_mut(start..).ok_or(NotAllowed)?;
            place.read(0, to).map_err(|_: Error| NotAllowed)?;
        }
        Ok(bytes)
    }

    /// Writes bytes to these pieces, one after the other, which have room for them. Nothing is written if one is not allowed.
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
                parts.push((
                    self.find(segment.key, segment.address, length as u64, may)?,
                    part,
                ));
            }
        }
        for (place, part) in parts {
            place.write(0, part).map_err(|_: Error| NotAllowed)?;
        }
        Ok(())
    }

    /// The memory that the remote side names, if it may.
    pub(super) fn remote(
        &self,
        remote: RemoteAddress,
        length: u64,
        may: impl Fn(Access) -> bool,
    ) -> Result<Place, NotAllowed> {
        self.find(remote.key, remote.address, length, may)
    }

    fn find(
        &self,
        key: u32,
        address: u64,
        length: u64,
        may: impl Fn(Access) -> bool,
    ) -> Result<Place, NotAllowed> {
        let known = self
            .known
            .get(&key)
            .filter(|known| may(known.access))
            .ok_or(NotAllowed)?;
        let offset = address
            .checked_sub(known.place.address())
            .ok_or(NotAllowed)?;
        let (offset, length) = (usize::try_from(offset), usize::try_from(length));
        let (Ok(offset), Ok(length)) = (offset, length) else {
            return Err(NotAllowed);
        };
        known.place.part(offset, length).map_err(|_| NotAllowed)
    }
}
