//! Errors of this crate, and why a request failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gdsync::hca::ParseEndpointError;
use gdsync::wire::Syndrome;

use crate::bootstrap;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ranks could not exchange bytes.
    #[error(transparent)]
    Bootstrap(#[from] bootstrap::Error),
    /// Queues, memory or the HCA failed.
    #[error(transparent)]
    Queue(#[from] gdsync::Error),
    /// An operation of the GPU failed.
    #[error("cannot {operation}: {source}")]
    Gpu {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: gpu::Error,
    },
    /// Another rank could not take part in a collective operation.
    #[error("rank {rank}: {why}")]
    OtherRank {
        /// The rank.
        rank: u32,
        /// Its error.
        why: String,
    },
    /// A peer that is not a rank, or named twice.
    #[error("invalid peer {rank}: the ranks are 0 to {last}, each at most once")]
    InvalidPeer {
        /// The rank.
        rank: u32,
        /// The last rank.
        last: u32,
    },
    /// A rank to which there is no connection.
    #[error("no connection to rank {rank}: it is not among the peers")]
    NoPeer {
        /// The rank.
        rank: u32,
    },
    /// A peer that does not name this rank as its peer.
    #[error("rank {peer} does not name rank {rank} as a peer: both must name each other")]
    NotMutual {
        /// The peer.
        peer: u32,
        /// This rank.
        rank: u32,
    },
    /// A peer's address is malformed.
    #[error("rank {peer} sent a malformed address: {source}")]
    Endpoint {
        /// The peer.
        peer: u32,
        /// What is wrong.
        #[source]
        source: ParseEndpointError,
    },
    /// A range outside a region.
    #[error("{bytes} bytes at offset {offset} exceed a region of {available} bytes")]
    Range {
        /// Offset of the first byte.
        offset: usize,
        /// Length in bytes.
        bytes: usize,
        /// Bytes of the region.
        available: usize,
    },
    /// A range outside a peer's part of a window.
    #[error(
        "{bytes} bytes at offset {offset} exceed the window of rank {peer}, which has {available} bytes"
    )]
    Window {
        /// The peer.
        peer: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
        /// Bytes of the window.
        available: u64,
    },
    /// More blocks than a request can have, or more bytes than a message.
    #[error("{blocks} blocks with {bytes} bytes: at most {most_blocks} blocks and {most_bytes} bytes", most_blocks = crate::MAX_BLOCKS, most_bytes = crate::MAX_BYTES)]
    TooLarge {
        /// Blocks.
        blocks: usize,
        /// Bytes.
        bytes: u64,
    },
    /// More bytes than can be sent inline.
    #[error("{bytes} bytes are too many for inline data: at most {most}", most = crate::MAX_INLINE)]
    Inline {
        /// Bytes.
        bytes: u64,
    },
    /// The region is deregistered, or belongs to another communicator.
    #[error("the memory is not registered with this communicator")]
    NotRegistered,
    /// Staged memory in a place where the HCA must access the GPU's memory itself.
    #[error(
        "staged GPU memory cannot be {used}: the HCA does not access it; use memory that it can register"
    )]
    Staged {
        /// The use.
        used: &'static str,
    },
    /// A request that is not posted yet.
    #[error("request {request} is prepared, but not posted")]
    NotPosted {
        /// The request.
        request: u64,
    },
    /// A request that is posted already.
    #[error("request {request} is already posted")]
    Posted {
        /// The request.
        request: u64,
    },
    /// A request without a completion.
    #[error("request {request} has no completion to wait for: it was put without one")]
    NoCompletion {
        /// The request.
        request: u64,
    },
    /// A request whose outcome was returned already.
    #[error("request {request} has ended, and its outcome was returned already")]
    Ended {
        /// The request.
        request: u64,
    },
    /// A second wait of streams or kernels.
    #[error("a stream or kernel waits for request {request} already, or has waited for it")]
    Waited {
        /// The request.
        request: u64,
    },
    /// Prepared requests of a peer are posted in order.
    #[error(
        "request {request} to rank {peer} cannot be posted before request {first}, which was prepared earlier"
    )]
    Order {
        /// The peer.
        peer: u32,
        /// The request.
        request: u64,
        /// The earlier one.
        first: u64,
    },
    /// The queue stays full.
    #[error("the {queue} queue of rank {peer} has been full for {} ms: its requests do not complete", .timeout.as_millis())]
    Full {
        /// The peer.
        peer: u32,
        /// "send" or "receive".
        queue: &'static str,
        /// The timeout.
        timeout: Duration,
    },
    /// Too many waits of streams for words are open.
    #[error("{most} waits of streams for words are open: synchronise the streams first", most = crate::MAX_WORDS)]
    WordsFull,
    /// The connection has failed earlier.
    #[error("the connection to rank {peer} has failed: {cause}")]
    PeerFailed {
        /// The peer.
        peer: u32,
        /// The first failure, in words.
        cause: String,
    },
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A word did not become what the CPU waited for.
    #[error("the word was not {condition} within {} ms: it is {seen:#x}", .timeout.as_millis())]
    Word {
        /// The condition.
        condition: String,
        /// The last value.
        seen: u32,
        /// The timeout.
        timeout: Duration,
    },
    /// No port of an RDMA device can be used.
    #[error("no RDMA device can be used: {why}")]
    NoDevice {
        /// The reason, and what to do.
        why: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Sends a message.
    Send,
    /// Receives a message.
    Receive,
    /// Writes to a window.
    Put,
    /// Reads from a window.
    Get,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Put => "put",
            Self::Get => "get",
        })
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{operation} {request} ({bytes} bytes, rank {peer}) failed: {cause}{}",
    first.as_ref().map_or_else(String::new, |first| format!(": {first}"))
)]
pub struct Failure {
    /// The other rank.
    pub peer: u32,
    /// The request's number.
    pub request: u64,
    /// What it was to do.
    pub operation: Operation,
    /// Bytes of the message, or of the receive.
    pub bytes: u64,
    /// Why it failed.
    pub cause: Cause,
    /// Of a flushed request, the first failure of its connection, in words.
    pub first: Option<Arc<str>>,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The peer had posted no receive, and the retries ran out.
    NoReceive,
    /// The message is longer than the receive.
    TooLong,
    /// The HCA may not access the local memory, usually because it was deregistered.
    LocalAccess,
    /// The peer's memory is not accessible, usually because its window was destroyed.
    RemoteAccess,
    /// The peer does not answer: it has ended, or the network failed.
    NoAnswer,
    /// It did not complete in time.
    TimedOut(Duration),
    /// An earlier request of this connection failed.
    Flushed,
    /// The communicator was closed.
    Closed,
    /// Another error of the HCA.
    Hca {
        /// The syndrome.
        syndrome: Syndrome,
        /// The vendor's syndrome.
        vendor: u8,
    },
}

impl Cause {
    pub(crate) fn of(operation: Operation, syndrome: Syndrome, vendor: u8) -> Self {
        match (syndrome, operation) {
            (Syndrome::ReceiverNotReady, _) => Self::NoReceive,
            (Syndrome::LocalLength, Operation::Receive)
            | (Syndrome::RemoteInvalidRequest, Operation::Send) => Self::TooLong,
            (Syndrome::LocalProtection, _) => Self::LocalAccess,
            (Syndrome::RemoteAccess, _) => Self::RemoteAccess,
            (Syndrome::TransportRetry, _) => Self::NoAnswer,
            (Syndrome::Flushed, _) => Self::Flushed,
            (syndrome, _) => Self::Hca { syndrome, vendor },
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReceive => f.write_str("the rank has posted no receive for it"),
            Self::TooLong => f.write_str("the message is longer than the receive"),
            Self::LocalAccess => {
                f.write_str("the HCA may not access the local memory: is it still registered?")
            }
            Self::RemoteAccess => {
                f.write_str("the rank's memory is not accessible: does its window still exist?")
            }
            Self::NoAnswer => f.write_str("the rank does not answer: it may have ended"),
            Self::TimedOut(timeout) => write!(
                f,
                "it did not complete within {} ms: the rank has not posted its part, or has ended",
                timeout.as_millis()
            ),
            Self::Flushed => f.write_str("flushed, because an earlier request failed"),
            Self::Closed => f.write_str("the communicator was closed"),
            Self::Hca { syndrome, vendor } => {
                write!(f, "{syndrome:?} (vendor's syndrome {vendor:#04x})")
            }
        }
    }
}

/// Wraps an error of the GPU.
pub(crate) fn gpu_failed(operation: &'static str) -> impl FnOnce(gpu::Error) -> Error {
    move |source| Error::Gpu { operation, source }
}
