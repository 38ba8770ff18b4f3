//! DEVX: an mlx5 NIC's firmware makes completion queues and queue pairs in memory that is ours, also a GPU's. Nobody else knows of
//! them: they are for who writes entries, rings doorbells and reads completions himself.
//!
//! A [`Devx`] is an open device whose context has DEVX. Memory that commands may name is a [`Umem`], of host memory, or of a GPU's by a
//! dma-buf or by its address; doorbell registers are a page, [`Registers`]. Of these a [`CompletionQueue`] and a [`QueuePair`] (reliable
//! connections) are made; both keep what they were made of.
//!
//! It needs a kernel with DEVX (mlx5_ib since Linux 5.0) and no rights beyond those of verbs; rdma-core 21, and 43 for a dma-buf,
//! which the kernel takes since Linux 6.1. What the firmware refuses is told with its status and syndrome
//! ([`Error::Command`]).

mod bits;
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

/// The power of two that a count of entries is.
///
/// # Errors
///
/// [`Error::Entries`] for one that is none, or more than `most` as a power of two.
fn power(what: &'static str, count: u32, most: u32) -> Result<u64, Error> {
    let log = count
        .is_power_of_two()
        .then(|| count.ilog2())
        .filter(|log| *log <= most);
    let most = 1_u64.checked_shl(most).unwrap_or(u64::MAX);
    log.map(u64::from)
        .ok_or(Error::Entries { what, count, most })
}
