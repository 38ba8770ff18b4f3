//! Where a card that executes hears of what commands made: the same objects as the older protocol makes, with the places of this process in
//! which they lie. A double whose card does not execute does nothing here: queues and registers are the test's.
//!
//! What a card needs of each: a queue's number, ring, entries and record; a pair's number, user index, queues by their numbers, rings,
//! record, page of registers and attributes, of which `far`, `rights` (reads 4, writes 2, atomic operations 1), `rnr_timer`, `retries`,
//! `rnr_retries` and `timeout` are in the units of the attributes of verbs.

use crate::ioctl::pair::Pair;
use crate::ioctl::queue::Queue;

/// A completion queue was made.
pub fn queue_made(_queue: &Queue) {}

/// It is destroyed: nothing of it is touched after this.
pub fn queue_gone(_queue: &Queue) {}

/// A queue pair was made, in the state Reset.
pub fn pair_made(_pair: &Pair) {}

/// Its state is another.
pub fn pair_changed(_pair: &Pair) {}

/// It is destroyed: nothing of it is touched after this.
pub fn pair_gone(_pair: &Pair) {}
