//! The paths of a log: one entry for each pair, connection and end, however often the log repeats it.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::message::{PathLine, Side};
use super::processes::FastMap;
use super::transport::{self, Transport};

const MAX_PATHS: usize = 2 << 20;

/// Texts of transports that are kept, and their longest.
const MAX_WRITTEN: usize = 4_096;
const LONGEST_WRITTEN: usize = 128;

/// The other end of a path of CollNet, which is a network and not a rank.
pub const NO_RANK: u32 = u32::MAX;

/// A path of a pair; its channels are a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathKey {
    pub member: u32,
    pub from: u32,
    /// `NO_RANK` of CollNet.
    pub to: u32,
    pub transport: u16,
    pub connection: u8,
    pub side: Side,
}

/// Two words: hashing each field took longer than the rest of the search.
impl Hash for PathKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [member, from, to] = [self.member, self.from, self.to].map(u64::from);
        let rest = [u64::from(self.transport) << 16, u64::from(self.connection) << 8];
        state.write_u64(member << 32 | from);
        state.write_u64(to << 32 | rest[0] | rest[1] | self.side as u64);
    }
}

#[derive(Debug, Default)]
pub struct Paths {
    all: FastMap<PathKey, u64>,
    transports: Vec<Transport>,
    transport_ids: HashMap<Transport, u16>,
    /// The transports by what the log writes, which many lines repeat.
    written: FastMap<String, Option<u16>>,
    /// The log has more of them than are kept.
    pub cut: bool,
}

impl Paths {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PathKey, &u64)> {
        self.all.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &PathKey> {
        self.all.keys()
    }

    pub fn transport(&self, key: &PathKey) -> &Transport {
        &self.transports[key.transport as usize]
    }

    /// Adds a path of a member.
    pub fn add(&mut self, path: &PathLine<'_>, member: u32, transport: u16) {
        let key = PathKey {
            member,
            from: path.from,
            to: path.to.unwrap_or(NO_RANK),
            transport,
            connection: path.connection,
            side: path.side,
        };
        let channel = 1_u64.checked_shl(path.channel).unwrap_or(1 << 63);
        if let Some(mask) = self.all.get_mut(&key) {
            *mask |= channel;
        } else if self.all.len() < MAX_PATHS {
            self.all.insert(key, channel);
        } else {
            self.cut = true;
        }
    }

    /// Reads a transport, each text once.
    pub fn read_transport(&mut self, via: &str) -> Option<u16> {
        if let Some(known) = self.written.get(via) {
            return *known;
        }
        let parsed = transport::parse(via).and_then(|transport| self.transport_id(transport));
        if self.written.len() < MAX_WRITTEN && via.len() <= LONGEST_WRITTEN {
            self.written.insert(via.to_owned(), parsed);
        }
        parsed
    }

    fn transport_id(&mut self, transport: Transport) -> Option<u16> {
        if let Some(known) = self.transport_ids.get(&transport) {
            return Some(*known);
        }
        let at = u16::try_from(self.transports.len()).ok()?;
        self.transports.push(transport.clone());
        self.transport_ids.insert(transport, at);
        Some(at)
    }
}
