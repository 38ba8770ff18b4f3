//! DEVX: completion queues and queue pairs that an mlx5 NIC's firmware creates in caller-provided memory, including GPU memory. Neither
//! kernel nor provider drives them: the program writes WQEs, rings doorbells and reads CQEs.
//!
//! A [`Devx`] is an open device with DEVX. A [`Umem`] is memory for queues: host memory, or GPU memory by dma-buf or address.
//! [`Registers`] is a page of doorbell registers. From these a [`CompletionQueue`] and a [`QueuePair`] are created; both keep what
//! they use alive.
//!
//! Requires a kernel with DEVX (mlx5_ib since Linux 5.0) and rdma-core 21; for a dma-buf rdma-core 43 and Linux 6.1. No privileges
//! beyond those of verbs. Errors of the firmware carry status and syndrome ([`Error::Command`]).

mod bits;
mod borrowed;
mod capabilities;
mod command;
mod completion_queue;
mod layout;
mod path;
mod queue_pair;
mod registers;
mod states;
mod status;
mod umem;

pub use capabilities::{Capabilities, Devx};
pub(crate) use command::next_step;
pub use completion_queue::{CompletionQueue, CompletionQueueOptions};
pub use queue_pair::{QueuePair, QueuePairOptions};
pub use registers::Registers;
pub(crate) use status::words as status_words;
pub use umem::{Spot, Umem};

use crate::Error;

/// log2 of a number of entries.
///
/// # Errors
///
/// [`Error::Entries`] unless it is a power of two of at most 2^`most`.
fn power(what: &'static str, count: u32, most: u32) -> Result<u64, Error> {
    let log = count.is_power_of_two().then(|| count.ilog2()).filter(|log| *log <= most);
    let most = 1_u64.checked_shl(most).unwrap_or(u64::MAX);
    log.map(u64::from).ok_or(Error::Entries { what, count, most })
}
