//! What can go wrong, one variant an operation.

use std::time::Duration;

use gpu::Compare;

use crate::descriptor::Impossible;
use crate::wire;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no entry, or a value that none holds.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// The GPU's driver, or memory it gave.
    #[error("cannot {operation}: {source}")]
    Gpu {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: gpu::Error,
    },
    /// The CPU's mapping of GPU memory.
    #[error("cannot {operation}: {source}")]
    Mapping {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: gdrcopy::Error,
    },
    /// Queues in GPU memory were asked for, and there is no way to map it for the CPU.
    #[error(
        "queues in GPU memory need a mapping of it for the CPU: open one with gdrcopy::Gdr, or keep them in host memory"
    )]
    NoMapping,
    /// A part that leaves its place.
    #[error("{bytes} bytes at offset {offset} are not within a place of {available} bytes")]
    Range {
        /// First byte.
        offset: usize,
        /// Bytes.
        bytes: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A place that has not the size of what is to lie in it.
    #[error("{what} needs {need} bytes and its place has {have}")]
    Size {
        /// What is to lie there.
        what: &'static str,
        /// Bytes it needs.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A queue without room: poll completions, and hand them to the queue.
    #[error("the queue has room for {free} and {need} are needed: complete what is done first")]
    Full {
        /// Blocks of a send queue, or entries of a receive queue.
        need: u32,
        /// Those that are free.
        free: u32,
    },
    /// A datagram on a connection, or the other way round.
    #[error("the entry {has} the address of a datagram, and its queue pair speaks {transport:?}")]
    Transport {
        /// "has" or "lacks".
        has: &'static str,
        /// What the queue pair speaks.
        transport: wire::Transport,
    },
    /// Only the last entry that was prepared can be rolled back.
    #[error(
        "entry {number} cannot be rolled back: entry {last} is the last that was prepared, or has been completed"
    )]
    NotLast {
        /// The entry.
        number: u64,
        /// The last one.
        last: u64,
    },
    /// A completion of an entry that is not in the queue.
    #[error(
        "a completion of queue pair {qpn:#x} counts {counter:#06x}: that is no entry of this queue that is in progress"
    )]
    UnknownEntry {
        /// The queue pair it names.
        qpn: u32,
        /// The counter it has.
        counter: u16,
    },
    /// More waits than the completion queue has entries: a slot would be watched for two passes at once.
    #[error(
        "{entries} waits are open on a completion queue of {entries} entries: poll what they waited for first"
    )]
    WaitsFull {
        /// Entries of the queue.
        entries: u32,
    },
    /// A completion of another pass stands where the next one was to be.
    #[error(
        "completion {index} was overwritten before it was polled: the queue has {entries} entries and the NIC wrote more; \
         make it larger, or poll more often"
    )]
    Overrun {
        /// Which completion was to be polled, counted from 0.
        index: u32,
        /// Entries of the queue.
        entries: u32,
    },
    /// A queue pair that is not there, or not this HCA's.
    #[error("the HCA has no queue pair {qpn:#x}")]
    NoQueuePair {
        /// Its number.
        qpn: u32,
    },
    /// No way to the remote side's port.
    #[error("no way to port {lid}: join the two HCAs first")]
    Unreachable {
        /// The remote side's LID.
        lid: u16,
    },
    /// A verbs device: a NIC, or the one behind a proxy.
    #[error(transparent)]
    Device(#[from] crate::hca::port::Error),
    /// The socket between two software HCAs.
    #[error(transparent)]
    Socket(#[from] crate::hca::sim::socket::Error),
    /// A list of descriptors that the GPU's streams cannot do.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// A wait of the CPU that lasted too long; what comes after it was not done.
    #[error("step {step}: after {} ms the word is {seen:#x}, which is not {compare:?} {value:#x}", .waited.as_millis())]
    Late {
        /// Which step, from 0.
        step: usize,
        /// What was seen last.
        seen: u64,
        /// How it was compared.
        compare: Compare,
        /// With what.
        value: u64,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A wait of the CPU that was cancelled; what comes after it was not done.
    #[error("step {step}: the wait was cancelled")]
    Cancelled {
        /// Which step, from 0.
        step: usize,
    },
    /// The thread of the software HCA could not be started.
    #[error("cannot start the thread of the software HCA: {0}")]
    Thread(#[source] std::io::Error),
}
