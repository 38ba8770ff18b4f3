//! Passes objects created through ioctl on to the NIC, where they equal objects of the write protocol. A NIC that does not execute
//! only stores them.
//!
//! Lock order: this protocol's lock is held here, then the NIC's is taken for the call, never the reverse.

use crate::ioctl::pair::QueuePair;
use crate::ioctl::queue::Queue;
use crate::nic::objects;

/// A completion queue was made.
pub fn queue_created(queue: &Queue) {
    objects().adopt_queue(queue);
}

/// The queue is destroyed and must not be accessed any more.
pub fn queue_destroyed(queue: &Queue) {
    objects().drop_queue(queue);
}

/// A queue pair was created, in state RESET.
pub fn pair_created(pair: &QueuePair) {
    objects().adopt_pair(pair);
}

/// Its state changed.
pub fn pair_changed(pair: &QueuePair) {
    objects().change_pair(pair);
}

/// The queue pair is destroyed and must not be accessed any more.
pub fn pair_destroyed(pair: &QueuePair) {
    objects().drop_pair(pair);
}
