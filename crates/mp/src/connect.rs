//! Creates the connections of a communicator, together with all ranks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gdsync::hca::{Hca, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::StreamCapabilities;

use crate::bootstrap::{self, Bootstrap};
use crate::error::gpu_failed;
use crate::monitor::{Bell, Monitor, Report};
use crate::peer::{Peer, Settings};
use crate::region::Copier;
use crate::words::Words;
use crate::{Error, MAX_BLOCKS, Options};

/// The queue pairs of a rank, and what it needs besides.
pub(crate) struct Connections {
    pub settings: Arc<Settings>,
    pub peers: BTreeMap<u32, Arc<Peer>>,
    pub words: Arc<Words>,
    pub ended: MappedMemory,
}

/// Bounds of the number of requests per queue.
const DEPTHS: std::ops::RangeInclusive<u32> = 8..=1 << 14;
/// WQE blocks per request: a send of seven blocks has two. Larger ones leave room for fewer requests.
const BLOCKS: u32 = 2;

static COMMUNICATORS: AtomicU64 = AtomicU64::new(1);

impl Connections {
    pub fn create(
        hca: Arc<dyn Hca>,
        allocator: &Allocator,
        options: &Options,
        (rank, size): (u32, u32),
    ) -> Result<Self, Error> {
        let ranks = match &options.peers {
            Some(peers) => peers.clone(),
            None => (0..size).filter(|peer| *peer != rank).collect(),
        };
        let can = StreamCapabilities::of(allocator.gpu());
        let can = can.map_err(gpu_failed("read what the GPU's streams support"))?;
        let (least, most) = DEPTHS.into_inner();
        let depth = options.depth.clamp(least, most).next_power_of_two();
        let request = Request {
            send_blocks: depth * BLOCKS,
            receives: depth,
            receive_segments: (MAX_BLOCKS as u32).next_power_of_two(),
            send_completions: depth,
            receive_completions: depth,
            queues: options.queues,
            records: options.records,
            completions: [options.completions; 2],
            waiting: if can.nor { Waiting::Nor } else { Waiting::WithoutNor },
            ..Request::default()
        };
        let settings = Arc::new(Settings {
            hca,
            owner: COMMUNICATORS.fetch_add(1, Ordering::Relaxed),
            timeout: options.timeout,
            depth: depth as usize,
            can,
            bell: Arc::new(Bell::default()),
            copier: Copier::default(),
        });
        let mut peers = BTreeMap::new();
        for rank in ranks {
            let last = size - 1;
            if rank > last || peers.contains_key(&rank) {
                return Err(Error::InvalidPeer { rank, last });
            }
            let pair = settings.hca.create(&request)?;
            let peer = Peer::new(rank, Arc::clone(&settings), pair);
            peers.insert(rank, Arc::new(peer));
        }
        let busy = allocator.place(MemoryLocation::Host, Words::BYTES)?;
        Ok(Self {
            settings,
            peers,
            words: Arc::new(Words::new(busy, options.timeout)),
            ended: allocator.place(MemoryLocation::Host, 8)?,
        })
    }

    /// A line for each peer: its rank, and the address of the queue pair for it.
    pub fn table(&self) -> Vec<u8> {
        let lines = self.peers.iter();
        let lines = lines.map(|(rank, peer)| format!("{rank} {}\n", peer.endpoint()));
        lines.collect::<String>().into_bytes()
    }

    /// Connects to every peer, by all ranks' tables.
    pub fn connect(
        &self,
        tables: &[Vec<u8>],
        rank: u32,
        retries: Option<u32>,
    ) -> Result<(), Error> {
        for (&peer, connection) in &self.peers {
            let table = tables.get(peer as usize).map(Vec::as_slice);
            let table = String::from_utf8_lossy(table.unwrap_or_default());
            let mut lines = table.lines().filter_map(|line| line.split_once(' '));
            let line = lines.find(|(to, _)| to.parse() == Ok(rank));
            let (_, endpoint) = line.ok_or(Error::NotMutual { peer, rank })?;
            let endpoint = endpoint.parse();
            let endpoint = endpoint.map_err(|source| Error::Endpoint { peer, source })?;
            let policy = RetryPolicy { retries, ..RetryPolicy::default() };
            self.settings.hca.connect(connection.endpoint(), endpoint, policy)?;
        }
        Ok(())
    }

    pub fn watch(&self, report: Report) -> Result<Monitor, Error> {
        let peers = self.peers.values().cloned().collect();
        let bell = Arc::clone(&self.settings.bell);
        Monitor::start(peers, Arc::clone(&self.words), bell, self.settings.timeout, report)
    }
}

const WELL: u8 = 0;

/// Exchanges what all ranks made. If one failed, every rank gets an error: that one its own, the others its text.
pub(crate) fn agree<T>(
    bootstrap: &mut dyn Bootstrap,
    timeout: Duration,
    made: Result<T, Error>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Result<(T, Vec<Vec<u8>>), Error> {
    let message = match &made {
        Ok(made) => [vec![WELL], encode(made)].concat(),
        Err(error) => [vec![!WELL], gpu::sentence(error).into_bytes()].concat(),
    };
    let all = bootstrap.all_gather(&message, timeout);
    let made = made?;
    let mut parts = Vec::new();
    for (message, rank) in all?.into_iter().zip(0..) {
        match message.split_first() {
            Some((&WELL, part)) => parts.push(part.to_vec()),
            other => {
                let why =
                    other.map_or_else(Default::default, |(_, why)| String::from_utf8_lossy(why));
                let why = why.into_owned();
                return Err(Error::OtherRank { rank, why });
            }
        }
    }
    Ok((made, parts))
}

/// Tells the other ranks that this one cannot go on: their [`Selection::open`](crate::Selection::open) or [`connect`](crate::Communicator::connect)
/// fails with this text, instead of waiting for this rank.
///
/// # Errors
///
/// As [`Bootstrap::all_gather`].
pub fn give_up(
    bootstrap: &mut dyn Bootstrap,
    why: &str,
    timeout: Duration,
) -> Result<(), bootstrap::Error> {
    let message = [&[!WELL], why.as_bytes()].concat();
    bootstrap.all_gather(&message, timeout).map(drop)
}
