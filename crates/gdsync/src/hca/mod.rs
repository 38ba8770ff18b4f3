//! Who is behind the queues: an HCA makes queue pairs, connects them, and reaches the memory that is registered with it.

mod completer;
mod endpoint;
pub mod mlx5;
pub mod port;
pub mod proxy;
mod rings;
pub mod sim;

pub use endpoint::{Endpoint, NotAnEndpoint, Path};

use std::fmt::Debug;
use std::time::Duration;

use crate::queue::{CompletionQueue, ReceiveQueue, SendQueue, Waiting};
use crate::wire::{DataSegment, RemoteAddress};
use crate::{Error, MemoryLocation, Place};

/// A host channel adapter: a NIC, or what stands in for one.
pub trait Hca: Debug + Send + Sync {
    /// A queue pair with completion queues of its own, connected to nobody.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for depths that are none; what allocating its places meets.
    fn create(&self, request: &Request) -> Result<QueuePair, Error>;

    /// Connects a queue pair of this HCA to the far one, which must be connected to it likewise. From then on what is rung is sent.
    /// The far endpoint is the one its HCA made; from another machine it comes as text.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueuePair`], [`Error::Unreachable`].
    fn connect(&self, local: Endpoint, peer: Endpoint, timeout: RetryPolicy) -> Result<(), Error>;

    /// Registers memory, until the result is dropped.
    ///
    /// # Errors
    ///
    /// What a NIC's driver meets; the software HCA registers whatever there is.
    fn register(&self, place: &Place, access: Access) -> Result<MemoryRegion, Error>;
}

/// What a queue pair is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Blocks of the send queue: a power of two, at most 2^15.
    pub send_blocks: u32,
    /// Entries of the receive queue: a power of two, at most 2^15.
    pub receives: u32,
    /// Data segments that a receive entry has room for: a power of two.
    pub receive_segments: u32,
    /// Entries of the send queue's completion queue: a power of two.
    pub send_completions: u32,
    /// Entries of the receive queue's completion queue: a power of two.
    pub receive_completions: u32,
    /// Where the rings of the work queues lie.
    pub queues: MemoryLocation,
    /// Where the doorbell records lie.
    pub records: MemoryLocation,
    /// Where the completion queues lie.
    pub completions: MemoryLocation,
    /// How streams wait.
    pub waiting: Waiting,
}

impl Default for Request {
    /// 128 blocks, 64 receives of four segments, and completion queues of 128, all in host memory.
    fn default() -> Self {
        Self {
            send_blocks: 128,
            receives: 64,
            receive_segments: 4,
            send_completions: 128,
            receive_completions: 128,
            queues: MemoryLocation::Host,
            records: MemoryLocation::Host,
            completions: MemoryLocation::Host,
            waiting: Waiting::Nor,
        }
    }
}

/// A queue pair. Dropped, it is destroyed: what is in progress is given up, and its numbers mean nothing more.
#[derive(Debug)]
pub struct QueuePair {
    /// What is sent.
    pub send: SendQueue,
    /// What is posted for messages to come.
    pub receive: ReceiveQueue,
    /// Completions of the send queue.
    pub send_completions: CompletionQueue,
    /// Completions of the receive queue.
    pub receive_completions: CompletionQueue,
    /// Its number, and how it is reached: what the remote side's [`Hca::connect`] is given.
    pub endpoint: Endpoint,
    /// Destroys it.
    _held: Box<dyn Held>,
}

impl QueuePair {
    /// A queue pair that is destroyed with `held`.
    #[must_use]
    pub fn new(
        send: SendQueue,
        receive: ReceiveQueue,
        [send_completions, receive_completions]: [CompletionQueue; 2],
        endpoint: Endpoint,
        held: Box<dyn Held>,
    ) -> Self {
        Self {
            send,
            receive,
            send_completions,
            receive_completions,
            endpoint,
            _held: held,
        }
    }
}

/// How long a requester tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a message is sent again that met nothing posted to receive it; `None` for ever, which NICs write as 7.
    pub retries: Option<u32>,
    /// How long it waits before.
    pub pause: Duration,
}

impl Default for RetryPolicy {
    /// For ever, every 0.1 ms.
    fn default() -> Self {
        Self {
            retries: None,
            pause: Duration::from_micros(100),
        }
    }
}

/// What the remote side may do with memory; the local side always reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// What arrives here may be written there: receives, results of reads and atomic operations.
    pub local_write: bool,
    /// RDMA writes.
    pub remote_write: bool,
    /// RDMA reads.
    pub remote_read: bool,
    /// Atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// Everything.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };
    /// Reading by this side alone.
    pub const NONE: Self = Self {
        local_write: false,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
}

/// Registered memory. Dropped, its keys mean nothing more.
#[derive(Debug)]
pub struct MemoryRegion {
    /// Its lkey.
    pub lkey: u32,
    /// Its rkey.
    pub rkey: u32,
    /// Address of its first byte, as entries name it.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Deregisters it.
    _held: Box<dyn Held>,
}

impl MemoryRegion {
    /// All of `place`, registered under these keys until `held` falls.
    #[must_use]
    pub fn new(place: &Place, lkey: u32, rkey: u32, held: Box<dyn Held>) -> Self {
        Self {
            lkey,
            rkey,
            address: place.address(),
            length: place.len() as u64,
            _held: held,
        }
    }

    /// A piece of it for an entry of this side. It may lie outside: then the HCA refuses it.
    #[must_use]
    pub fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            length,
            key: self.lkey,
            address: self.address.wrapping_add(offset),
        }
    }

    /// A place in it for entries of the remote side, which may be outside likewise.
    #[must_use]
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.address.wrapping_add(offset),
            key: self.rkey,
        }
    }
}

/// Anything whose end undoes something.
pub trait Held: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Held for T {}
