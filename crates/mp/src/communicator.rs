//! A communicator: the connections of one rank.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gdsync::hca::{Access, Hca};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Compare, DeviceMemory, StreamCapabilities};

use crate::bootstrap::Bootstrap;
use crate::connect::{Connections, agree};
use crate::error::gpu_failed;
use crate::monitor::{Monitor, Report};
use crate::peer::{Peer, Settings};
use crate::region::Staged;
use crate::stream::{Batch, Stream};
use crate::window::Remote;
use crate::words::Words;
use crate::{
    Blocks, Condition, DescriptorQueue, Error, Region, Request, Transfer, WaitDescriptor, Window,
};

/// Parameters of a communicator.
#[derive(Clone)]
pub struct Options {
    /// The ranks to connect to, which connect back; all others if `None`.
    pub peers: Option<Vec<u32>>,
    /// Most requests per peer and direction: a power of two, at most 2^14.
    pub depth: u32,
    /// How long a wait may take, of the CPU, a stream or a kernel.
    pub timeout: Duration,
    /// RNR retries of a send for which the peer has posted no receive; `None`: until the timeout.
    pub retries: Option<u32>,
    /// Location of the work queues.
    pub queues: MemoryLocation,
    /// Location of the doorbell records.
    pub records: MemoryLocation,
    /// Location of the completion queues.
    pub completions: MemoryLocation,
    /// Stages GPU memory that the HCA cannot access through host memory, instead of rejecting it.
    pub stages: bool,
    /// Receives messages about streams that were released, which no request reports.
    pub report: Option<Report>,
}

impl Default for Options {
    /// All ranks, 512 requests, 60 seconds, unlimited retries, queues in host memory, nothing staged.
    fn default() -> Self {
        Self {
            peers: None,
            depth: 512,
            timeout: Duration::from_secs(60),
            retries: None,
            queues: MemoryLocation::Host,
            records: MemoryLocation::Host,
            completions: MemoryLocation::Host,
            stages: false,
            report: None,
        }
    }
}

/// The connections of this rank to its peers. Dropping it ends all requests and releases streams that wait; [`Self::finalize`] waits for
/// the other ranks first.
#[derive(Debug)]
pub struct Communicator {
    // Dropped first: it uses the peers.
    monitor: Option<Monitor>,
    peers: BTreeMap<u32, Arc<Peer>>,
    settings: Arc<Settings>,
    bootstrap: Mutex<Box<dyn Bootstrap>>,
    allocator: Allocator,
    words: Arc<Words>,
    /// The word, 0, and the flag of descriptors for ended requests.
    ended: MappedMemory,
    stages: bool,
    rank: u32,
    size: u32,
}

impl Communicator {
    /// Connects to the peers over an HCA. Every rank of the bootstrap calls it.
    ///
    /// # Errors
    ///
    /// On every rank if one fails: [`Error::OtherRank`] on the others. [`Error::InvalidPeer`], [`Error::NotMutual`],
    /// [`Error::Bootstrap`], [`Error::Queue`].
    pub fn connect(
        mut bootstrap: Box<dyn Bootstrap>,
        hca: Arc<dyn Hca>,
        allocator: Allocator,
        options: Options,
    ) -> Result<Self, Error> {
        let (rank, size) = (bootstrap.rank(), bootstrap.size());
        let timeout = options.timeout;
        let created = Connections::create(hca, &allocator, &options, (rank, size));
        let (connections, tables) = agree(&mut *bootstrap, timeout, created, Connections::table)?;
        let report = options.report.unwrap_or_else(|| Arc::new(|_: &str| {}));
        let connected = connections.connect(&tables, rank, options.retries);
        let monitor = connected.and_then(|()| connections.watch(report));
        let (monitor, _) = agree(&mut *bootstrap, timeout, monitor, |_| Vec::new())?;
        let Connections { settings, peers, words, ended } = connections;
        Ok(Self {
            monitor: Some(monitor),
            peers,
            settings,
            bootstrap: Mutex::new(bootstrap),
            allocator,
            words,
            ended,
            stages: options.stages,
            rank,
            size,
        })
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The peers, in order.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        self.peers.keys().copied()
    }

    /// How long a wait may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Allocates memory that the CPU and the GPU can access.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Registers memory. GPU memory that the HCA cannot access is an error.
    ///
    /// # Errors
    ///
    /// [`Error::Queue`], with each memory path and why it failed.
    pub fn register(&self, place: &MappedMemory) -> Result<Region, Error> {
        let registered = self.settings.hca.register(place, Access::ALL)?;
        Ok(Region::new(self.settings.owner, place.clone(), registered, None))
    }

    /// Registers a range of GPU memory. If the HCA cannot access it, it is staged through host memory if the options allow that.
    ///
    /// # Errors
    ///
    /// As [`Self::register`]; [`Error::Gpu`].
    pub fn register_gpu(
        &self,
        memory: &DeviceMemory,
        range: Range<usize>,
    ) -> Result<Region, Error> {
        let part = |place: MappedMemory| Ok::<_, Error>(place.part(range.start, range.len())?);
        let place = part(MappedMemory::unmapped(memory.clone()))?;
        let registered = match self.register(&place) {
            // The software HCA accesses memory by the CPU.
            Err(Error::Queue(gdsync::Error::NoMapping)) => match self.allocator.gdr() {
                Some(gdr) => MappedMemory::device(memory.clone(), gdr)
                    .map_err(Error::from)
                    .and_then(part)
                    .and_then(|place| self.register(&place)),
                None => Err(gdsync::Error::NoMapping.into()),
            },
            registered => registered,
        };
        match registered {
            Err(_) if self.stages => self.register_staged(memory, range),
            registered => registered,
        }
    }

    fn register_staged(&self, memory: &DeviceMemory, range: Range<usize>) -> Result<Region, Error> {
        let host = memory.gpu().pinned(range.len());
        let host = host.map_err(gpu_failed("allocate host memory for staged messages"))?;
        let place = MappedMemory::host(host.clone());
        let registered = self.settings.hca.register(&place, Access::ALL)?;
        let staged = Staged { host, device: memory.clone(), start: range.start };
        let owner = self.settings.owner;
        Ok(Region::new(owner, place, registered, Some(staged)))
    }

    /// Posts a receive of up to 30 blocks, for one message of a peer. Post it before the peer sends.
    ///
    /// # Errors
    ///
    /// [`Error::NoPeer`], [`Error::NotRegistered`], [`Error::Range`], [`Error::TooLarge`], [`Error::Full`], [`Error::PeerFailed`].
    pub fn receive<'a>(
        &self,
        peer: u32,
        region: &Region,
        blocks: impl Into<Blocks<'a>>,
    ) -> Result<Request, Error> {
        let peer = self.peer(peer)?;
        Ok(Request::receive(peer, peer.receive(region, blocks.into().as_slice())?))
    }

    /// Starts a transfer by the CPU. If streams or kernels have transfers to the same peer that are not started, it follows them.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`]; [`Error::Window`], [`Error::Inline`].
    pub fn start(&self, transfer: &Transfer<'_>) -> Result<Request, Error> {
        let peer = self.peer(transfer.peer)?;
        Ok(Request::send(peer, peer.start(transfer)?))
    }

    /// Starts a transfer when a stream reaches it.
    ///
    /// Transfers of several streams to one peer must be ordered: a doorbell starts all earlier ones.
    ///
    /// # Errors
    ///
    /// As [`Self::start`]; [`Error::Order`], [`Error::Gpu`].
    pub fn start_on(&self, stream: &dyn Stream, transfer: &Transfer<'_>) -> Result<Request, Error> {
        let peer = self.peer(transfer.peer)?;
        Ok(Request::send(peer, peer.start_on(stream, transfer)?))
    }

    /// Prepares a transfer, for [`Self::post_on`], a descriptor queue or a kernel.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn prepare(&self, transfer: &Transfer<'_>) -> Result<Request, Error> {
        let peer = self.peer(transfer.peer)?;
        Ok(Request::send(peer, peer.prepare(transfer)?))
    }

    /// Starts prepared transfers when a stream reaches them, in one batch. Those of one peer are in the order of preparation.
    ///
    /// # Errors
    ///
    /// [`Error::Posted`], [`Error::Order`], [`Error::PeerFailed`], [`Error::Gpu`]: earlier ones are posted.
    pub fn post_on<'r>(
        &self,
        stream: &dyn Stream,
        requests: impl IntoIterator<Item = &'r Request>,
    ) -> Result<(), Error> {
        let mut batch = Batch::new(stream, self.settings.can);
        let added = requests.into_iter().try_for_each(|request| {
            if request.is_receive() {
                Err(Error::Posted { request: request.number() })
            } else {
                request.peer.post(request.number(), &mut batch)
            }
        });
        let flushed = batch.flush();
        added.and(flushed)
    }

    /// Makes a stream wait for requests. Each can be waited for once; the CPU waits for it too, to free it.
    ///
    /// # Errors
    ///
    /// [`Error::NotPosted`], [`Error::NoCompletion`], [`Error::Waited`], [`Error::Gpu`]; the failure of a request that has failed.
    pub fn wait_on<'r>(
        &self,
        stream: &dyn Stream,
        requests: impl IntoIterator<Item = &'r Request>,
    ) -> Result<(), Error> {
        let mut batch = Batch::new(stream, self.settings.can);
        let added = requests.into_iter().try_for_each(|request| {
            let peer = &request.peer;
            peer.wait_on(request.direction, request.number(), &mut batch)
        });
        let flushed = batch.flush();
        added.and(flushed)
    }

    /// Waits for a request, also for a stream that waits for it, and frees it. Returns the bytes received.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`]: after the timeout too, and then the connection to its peer has failed. [`Error::NotPosted`],
    /// [`Error::NoCompletion`].
    pub fn wait(&self, mut request: Request) -> Result<u64, Error> {
        let bytes = self.wait_for(&request)?;
        request.is_over = true;
        Ok(bytes)
    }

    /// [`Self::wait`] for a request that another owner frees. Its outcome is returned once.
    ///
    /// # Errors
    ///
    /// As [`Self::wait`]; [`Error::Ended`] the second time.
    pub fn wait_for(&self, request: &Request) -> Result<u64, Error> {
        request.peer.wait(request.direction, request.number())
    }

    /// Makes a stream wait for a word.
    ///
    /// # Errors
    ///
    /// [`Error::WordsFull`], [`Error::Queue`], [`Error::Gpu`].
    pub fn wait_word_on(
        &self,
        stream: &dyn Stream,
        word: &MappedMemory,
        condition: Condition,
    ) -> Result<(), Error> {
        let mut batch = Batch::new(stream, self.settings.can);
        let wait = self.words.take(word, condition)?;
        let added = self.words.add(&wait, &mut batch);
        added.and_then(|()| batch.flush()).inspect_err(|_| self.words.abandon(&wait))
    }

    /// An empty descriptor queue.
    #[must_use]
    pub fn descriptor_queue(&self) -> DescriptorQueue {
        DescriptorQueue::new(Arc::clone(&self.words))
    }

    /// Creates a window of every rank's region. Every rank calls it.
    ///
    /// # Errors
    ///
    /// On every rank if one fails. [`Error::Staged`], [`Error::NotRegistered`], [`Error::Bootstrap`].
    pub fn window(&self, region: &Region) -> Result<Window, Error> {
        let usable = if region.is_staged() {
            Err(Error::Staged { used: "part of a window" })
        } else {
            region.check(self.settings.owner)
        };
        let encode = |(): &()| Remote::of(region).encode().to_vec();
        let (_, parts) = agree(&mut **self.bootstrap(), self.timeout(), usable, encode)?;
        let remotes = parts.into_iter().zip(0..).map(|(part, rank)| {
            let part =
                part.first_chunk::<{ Remote::ENCODED }>().filter(|_| part.len() == Remote::ENCODED);
            let part = part.ok_or_else(|| Error::OtherRank {
                rank,
                why: "it sent a malformed part of a window".to_owned(),
            })?;
            Ok((rank, Remote::decode(part)))
        });
        let mut remotes: BTreeMap<u32, Remote> = remotes.collect::<Result<_, Error>>()?;
        remotes.retain(|rank, _| self.peers.contains_key(rank));
        Ok(Window::new(region.clone(), remotes))
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    ///
    /// [`Error::Bootstrap`].
    pub fn barrier(&self) -> Result<(), Error> {
        Ok(self.bootstrap().barrier(self.timeout())?)
    }

    /// Number of requests that are neither waited for nor dropped.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.peers.values().map(|peer| peer.open()).sum()
    }

    /// Waits until every rank has called it, then ends all requests and connections. Returns the number of requests that were open.
    ///
    /// # Errors
    ///
    /// [`Error::Bootstrap`] if a rank does not call it in time: the connections have ended nevertheless.
    pub fn finalize(self) -> Result<usize, Error> {
        let all = self.barrier();
        let open = self.open_requests();
        drop(self);
        all.map(|()| open)
    }

    pub(crate) fn capabilities(&self) -> StreamCapabilities {
        self.settings.can
    }

    pub(crate) fn ended_descriptor(&self) -> WaitDescriptor {
        let at = self.ended.device_address();
        WaitDescriptor { compare: Compare::Eq, word: (at, 0), flag: (at.offset(4), 0) }
    }

    fn peer(&self, rank: u32) -> Result<&Arc<Peer>, Error> {
        // Every request comes here: an error that is made and dropped costs as much as the search.
        match self.peers.get(&rank) {
            Some(peer) => Ok(peer),
            None => Err(Error::NoPeer { rank }),
        }
    }

    fn bootstrap(&self) -> MutexGuard<'_, Box<dyn Bootstrap>> {
        self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.monitor = None;
        for peer in self.peers.values() {
            peer.close();
        }
        self.words.close();
    }
}
