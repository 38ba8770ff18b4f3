//! Errors of this crate.

use crate::cpu::Stopped;
use crate::lower::Unsupported;
use crate::wire;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Malformed WQE or CQE bytes, or a value that does not fit a field.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// A GPU driver or GPU memory operation failed.
    #[error("cannot {operation}: {source}")]
    Gpu {
        /// The failed operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: gpu::Error,
    },
    /// A CPU mapping of GPU memory failed.
    #[error("cannot {operation}: {source}")]
    Mapping {
        /// The failed operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: gdrcopy::Error,
    },
    /// Queues in GPU memory need GDRCopy, which is not available.
    #[error(
        "queues in GPU memory need a mapping of it for the CPU: open one with gdrcopy::Gdr, or keep them in host memory"
    )]
    NoMapping,
    /// A range outside its place.
    #[error("{bytes} bytes at offset {offset} are not within a place of {available} bytes")]
    Range {
        /// Offset of the first byte.
        offset: usize,
        /// Length in bytes.
        bytes: usize,
        /// Available bytes.
        available: usize,
    },
    /// A place of the wrong size.
    #[error("{what} needs {need} bytes and its place has {have}")]
    Size {
        /// The object to place there.
        what: &'static str,
        /// Required bytes.
        need: usize,
        /// Available bytes.
        have: usize,
    },
    /// The queue is full: poll completions and pass them to the queue.
    #[error("the queue has room for {free} and {need} are needed: complete what is done first")]
    Full {
        /// Required blocks of a send queue, or WQEs of a receive queue.
        need: u32,
        /// Free blocks or WQEs.
        free: u32,
    },
    /// A datagram WQE on a connected queue pair, or the reverse.
    #[error("the entry {has} the address of a datagram, and its queue pair speaks {transport:?}")]
    Transport {
        /// "has" or "lacks".
        has: &'static str,
        /// The queue pair's transport.
        transport: wire::Transport,
    },
    /// Only the last prepared WQE can be rolled back.
    #[error(
        "entry {number} cannot be rolled back: entry {last} is the last that was prepared, or has been completed"
    )]
    NotLast {
        /// The WQE to roll back.
        number: u64,
        /// The last prepared WQE.
        last: u64,
    },
    /// A completion for a WQE that is not in progress.
    #[error(
        "a completion of queue pair {qpn:#x} counts {counter:#06x}: that is no entry of this queue that is in progress"
    )]
    UnknownEntry {
        /// QPN in the CQE.
        qpn: u32,
        /// WQE counter in the CQE.
        counter: u16,
    },
    /// More open waits than CQEs: two waits would poll one slot for different passes.
    #[error(
        "{entries} waits are open on a completion queue of {entries} entries: poll what they waited for first"
    )]
    WaitsFull {
        /// Number of CQEs in the queue.
        entries: u32,
    },
    /// A CQE of another pass is in the slot of the next one.
    #[error(
        "completion {index} was overwritten before it was polled: the queue has {entries} entries and the NIC wrote more; \
         make it larger, or poll more often"
    )]
    Overrun {
        /// Index of the expected completion, from 0.
        index: u32,
        /// Number of CQEs in the queue.
        entries: u32,
    },
    /// The queue pair does not exist on this HCA.
    #[error("the HCA has no queue pair {qpn:#x}")]
    NoQueuePair {
        /// The QPN.
        qpn: u32,
    },
    /// The remote port is not reachable.
    #[error("no way to port {lid}: join the two HCAs first")]
    Unreachable {
        /// The remote LID.
        lid: u16,
    },
    /// The verbs device failed: a NIC, or the one behind a proxy.
    #[error(transparent)]
    Device(#[from] crate::hca::port::Error),
    /// The socket between two simulated HCAs failed.
    #[error(transparent)]
    Socket(#[from] crate::hca::sim::socket::Error),
    /// Memory operations that the GPU's streams cannot do.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The CPU did not finish a list.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A write by value of no bytes, too many, or not whole words.
    #[error("{count} bytes are written by value: 4 to 1024 are, in words of 4")]
    Bytes {
        /// Bytes given.
        count: usize,
    },
    /// The simulated HCA's thread could not be started.
    #[error("cannot start the thread of the software HCA: {0}")]
    Thread(#[source] std::io::Error),
}
