//! Windows: every rank's memory for puts and gets.

use std::collections::BTreeMap;

use gdsync::wire::RemoteAddress;

use crate::{Error, Region};

/// A region of each rank, which its peers put to and get from. Dropping it ends this rank's part: destroy windows after a barrier.
#[derive(Debug)]
pub struct Window {
    region: Region,
    /// By rank.
    remotes: BTreeMap<u32, Remote>,
}

/// A rank's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remote {
    pub address: u64,
    pub key: u32,
    pub bytes: u64,
}

impl Remote {
    pub const ENCODED: usize = 20;

    pub fn of(region: &Region) -> Self {
        let (address, key) = region.remote();
        let bytes = region.len() as u64;
        Self { address, key, bytes }
    }

    pub fn encode(self) -> [u8; Self::ENCODED] {
        let mut encoded = [0; Self::ENCODED];
        encoded[..8].copy_from_slice(&self.address.to_be_bytes());
        encoded[8..12].copy_from_slice(&self.key.to_be_bytes());
        encoded[12..].copy_from_slice(&self.bytes.to_be_bytes());
        encoded
    }

    pub fn decode(encoded: &[u8; Self::ENCODED]) -> Self {
        let long = |at: usize| {
            let bytes = encoded.get(at..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        Self { address: long(0), key: (long(8) >> 32) as u32, bytes: long(12) }
    }
}

impl Window {
    pub(crate) fn new(region: Region, remotes: BTreeMap<u32, Remote>) -> Self {
        Self { region, remotes }
    }

    /// This rank's region.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes of a peer's part.
    ///
    /// # Errors
    ///
    /// [`Error::NoPeer`].
    pub fn len_of(&self, rank: u32) -> Result<u64, Error> {
        Ok(self.remote(rank)?.bytes)
    }

    fn remote(&self, rank: u32) -> Result<&Remote, Error> {
        self.remotes.get(&rank).ok_or(Error::NoPeer { rank })
    }

    /// The address of `bytes` bytes at `offset` of a peer's part.
    pub(crate) fn at(&self, peer: u32, offset: u64, bytes: u64) -> Result<RemoteAddress, Error> {
        let remote = self.remote(peer)?;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > remote.bytes) {
            let available = remote.bytes;
            return Err(Error::Window { peer, offset, bytes, available });
        }
        Ok(RemoteAddress { address: remote.address.wrapping_add(offset), key: remote.key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_a_part() {
        let remote = Remote {
            address: 0x0102_0304_0506_0708,
            key: 0x090a_0b0c,
            bytes: 0x0d0e_0f10_1112_1314,
        };
        let encoded: Vec<u8> = (1..=20).collect();
        assert_eq!(remote.encode()[..], encoded);
        assert_eq!(Remote::decode(&remote.encode()), remote);
    }
}
