//! The `Hca` trait: creates and connects queue pairs, and registers memory.

mod completer;
mod endpoint;
mod inbox;
pub mod mlx5;
pub mod port;
pub mod proxy;
mod rings;
pub mod sim;

pub use endpoint::{Endpoint, ParseEndpointError, Path};

use std::fmt::Debug;
use std::time::Duration;

use crate::queue::{CompletionQueue, ReceiveQueue, SendQueue, Waiting};
use crate::wire::{DataSegment, Datagram, RemoteAddress, Transport};
use crate::{Error, MappedMemory, MemoryLocation};

/// A host channel adapter: a NIC or a replacement for one.
pub trait Hca: Debug + Send + Sync {
    /// Creates an unconnected queue pair with separate completion queues. One of datagrams needs no connection.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for invalid depths; errors of the allocation.
    fn create(&self, request: &Request) -> Result<QueuePair, Error>;

    /// Connects a queue pair of this HCA to a remote one, which must connect back. WQEs are sent
    /// from then on. A remote HCA on another machine passes its endpoint as text.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueuePair`], [`Error::Unreachable`].
    fn connect(&self, local: Endpoint, peer: Endpoint, timeout: RetryPolicy) -> Result<(), Error>;

    /// Moves a queue pair to the error state: the HCA flushes its work, current and later, and answers the remote side no more.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueuePair`]; errors of the NIC's driver.
    fn stop(&self, local: Endpoint) -> Result<(), Error>;

    /// The destination of datagrams that queue pair `local` of this HCA sends to the queue pair `remote`, whose Q_Key is `key`.
    /// Without a receiver a datagram is lost, and its send succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueuePair`], [`Error::Unreachable`]; errors of the NIC's driver.
    fn datagram(&self, local: Endpoint, remote: Endpoint, key: u32) -> Result<Datagram, Error>;

    /// Registers memory until the result is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the NIC's driver; the simulated HCA accepts all memory.
    fn register(&self, place: &MappedMemory, access: Access) -> Result<MemoryRegion, Error>;
}

/// Parameters of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Connections, or datagrams.
    pub transport: Transport,
    /// The Q_Key of datagrams.
    pub key: u32,
    /// Blocks of the send queue: a power of two, at most 2^15.
    pub send_blocks: u32,
    /// WQEs of the receive queue: a power of two, at most 2^15.
    pub receives: u32,
    /// Data segments per receive WQE: a power of two.
    pub receive_segments: u32,
    /// CQEs of the send completion queue: a power of two.
    pub send_completions: u32,
    /// CQEs of the receive completion queue: a power of two.
    pub receive_completions: u32,
    /// Location of the work queues.
    pub queues: MemoryLocation,
    /// Location of the doorbell records.
    pub records: MemoryLocation,
    /// Locations of the completion queues of sends and of receives.
    pub completions: [MemoryLocation; 2],
    /// How streams wait.
    pub waiting: Waiting,
    /// What drives the send side besides the CPU.
    pub driver: Driver,
}

/// What drives the send side of a queue pair, besides the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// Streams, which ring doorbells and wait for completions.
    #[default]
    Streams,
    /// Kernels, which build WQEs and poll CQEs too ([`kernel`](crate::kernel)).
    Kernels,
    /// Kernels whose doorbells the CPU rings: the register is not mapped for the GPU.
    Assisted,
    /// Kernels on a queue pair whose send queue has no doorbell record: the doorbell alone says what is posted. A NIC has them if its
    /// firmware can (mlx5's `send_dbr_mode`), which [`port::Error::NoRecordlessQueues`] denies.
    KernelsWithoutRecord,
}

impl Default for Request {
    /// For connections: 128 blocks, 64 receives of four segments, and completion queues of 128, all in host memory.
    fn default() -> Self {
        Self {
            transport: Transport::Connected,
            key: 0,
            send_blocks: 128,
            receives: 64,
            receive_segments: 4,
            send_completions: 128,
            receive_completions: 128,
            queues: MemoryLocation::Host,
            records: MemoryLocation::Host,
            completions: [MemoryLocation::Host; 2],
            waiting: Waiting::Nor,
            driver: Driver::Streams,
        }
    }
}

/// A queue pair. Dropping it destroys it and abandons work in progress.
#[derive(Debug)]
pub struct QueuePair {
    /// The send queue.
    pub send: SendQueue,
    /// The receive queue.
    pub receive: ReceiveQueue,
    /// Completions of the send queue.
    pub send_completions: CompletionQueue,
    /// Completions of the receive queue.
    pub receive_completions: CompletionQueue,
    /// Its QPN and address, for the remote side's [`Hca::connect`].
    pub endpoint: Endpoint,
    /// Destroys the queue pair on drop.
    _resource: Box<dyn Resource>,
}

impl QueuePair {
    /// Creates a queue pair that is destroyed with `resource`.
    #[must_use]
    pub fn new(
        send: SendQueue,
        receive: ReceiveQueue,
        [send_completions, receive_completions]: [CompletionQueue; 2],
        endpoint: Endpoint,
        resource: Box<dyn Resource>,
    ) -> Self {
        Self { send, receive, send_completions, receive_completions, endpoint, _resource: resource }
    }
}

/// RNR retry policy of a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries when no receive is posted; `None` is unlimited, which NICs encode as 7.
    pub retries: Option<u32>,
    /// Delay before each retry.
    pub pause: Duration,
}

impl Default for RetryPolicy {
    /// Unlimited, every 0.1 ms.
    fn default() -> Self {
        Self { retries: None, pause: Duration::from_micros(100) }
    }
}

/// Access rights of a memory region; the local side can always read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Local writes: receives, results of RDMA reads and atomics.
    pub local_write: bool,
    /// RDMA writes.
    pub remote_write: bool,
    /// RDMA reads.
    pub remote_read: bool,
    /// Atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// All access rights.
    pub const ALL: Self =
        Self { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };
    /// Local reads only.
    pub const NONE: Self =
        Self { local_write: false, remote_write: false, remote_read: false, remote_atomic: false };
}

/// A memory region. Dropping it invalidates its keys.
#[derive(Debug)]
pub struct MemoryRegion {
    /// The lkey.
    pub lkey: u32,
    /// The rkey.
    pub rkey: u32,
    /// Address of the first byte, as used in WQEs.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// Deregisters the memory on drop.
    _resource: Box<dyn Resource>,
}

impl MemoryRegion {
    /// A region over all of `place` with these keys, deregistered when `resource` is dropped.
    #[must_use]
    pub fn new(place: &MappedMemory, lkey: u32, rkey: u32, resource: Box<dyn Resource>) -> Self {
        Self {
            lkey,
            rkey,
            address: place.address(),
            length: place.len() as u64,
            _resource: resource,
        }
    }

    /// An SGE in this region for local WQEs. The HCA rejects one outside the region.
    #[must_use]
    pub fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment { length, key: self.lkey, address: self.address.wrapping_add(offset) }
    }

    /// A remote address in this region for the remote side's WQEs, unchecked as well.
    #[must_use]
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.address.wrapping_add(offset), key: self.rkey }
    }
}

/// A guard that releases a resource on drop.
pub trait Resource: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Resource for T {}
