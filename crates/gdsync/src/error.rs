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
    /// The CPU must access GPU memory that it has no mapping of: memory of queues, or of messages of the software HCA.
    #[error("this GPU memory needs a CPU mapping: pass a gdrcopy::Gdr, or use host memory")]
    NoMapping,
    /// No BlueFlame.
    #[error(
        "the doorbell registers of this queue pair have no BlueFlame buffers; ring with 8 bytes"
    )]
    NoBlueFlame,
    /// A range outside its place.
    #[error("{bytes} bytes at offset {offset} exceed a place of {available} bytes")]
    Range {
        /// Offset of the first byte.
        offset: usize,
        /// Length in bytes.
        bytes: usize,
        /// Available bytes.
        available: usize,
    },
    /// A place of the wrong size.
    #[error("{what} needs {need} bytes, but its place has {have}")]
    Size {
        /// The object to place there.
        what: &'static str,
        /// Required bytes.
        need: usize,
        /// Available bytes.
        have: usize,
    },
    /// The queue is full: poll completions and pass them to the queue.
    #[error("the queue is full: {need} blocks or WQEs needed, {free} free; poll completions first")]
    Full {
        /// Required blocks of a send queue, or WQEs of a receive queue.
        need: u32,
        /// Free blocks or WQEs.
        free: u32,
    },
    /// A datagram WQE on a connected queue pair, or the reverse.
    #[error("the WQE {has} a datagram's address, but its queue pair is {transport:?}")]
    Transport {
        /// "has" or "lacks".
        has: &'static str,
        /// The queue pair's transport.
        transport: wire::Transport,
    },
    /// Only the last prepared WQE can be rolled back.
    #[error(
        "cannot roll back WQE {number}: WQE {last} was prepared later, or {number} is complete"
    )]
    NotLast {
        /// The WQE to roll back.
        number: u64,
        /// The last prepared WQE.
        last: u64,
    },
    /// A completion for a WQE that is not in progress.
    #[error(
        "unexpected completion of queue pair {qpn:#x}: no WQE with counter {counter:#06x} is in progress in this queue"
    )]
    UnknownEntry {
        /// QPN in the CQE.
        qpn: u32,
        /// WQE counter in the CQE.
        counter: u16,
    },
    /// More open waits than CQEs: two waits would poll one slot for different passes.
    #[error(
        "a completion queue of {entries} CQEs has {entries} open waits: poll their completions first"
    )]
    WaitsFull {
        /// Number of CQEs in the queue.
        entries: u32,
    },
    /// A second wait for a completion: after the first one the slot may hold another CQE.
    #[error("completion {index} already has a wait")]
    Waited {
        /// Index of the completion, from 0.
        index: u32,
    },
    /// A CQE of another pass is in the slot of the next one.
    #[error(
        "completion {index} was overwritten before it was polled: the queue has {entries} CQEs; make it larger, or poll \
         more often"
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
    #[error("port {lid} is unreachable: connect the two HCAs first")]
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
    #[error("invalid length {count} of a write by value: 4 to 1024 bytes, a multiple of 4")]
    Bytes {
        /// Bytes given.
        count: usize,
    },
    /// A thread of the simulated HCA or of the watchdog could not be started.
    #[error("cannot start a thread of the simulated HCA or the watchdog: {0}")]
    Thread(#[source] std::io::Error),
}
