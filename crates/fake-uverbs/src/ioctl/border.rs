//! Where the NIC hears of what commands made: the same objects as the older protocol makes, with the places of this process in which they
//! lie. A NIC that does not execute remembers them, and queues and registers are the test's.
//!
//! The lock of this protocol's objects is held here, and the NIC's is taken for the time of the call: never the other way round.

use crate::ioctl::pair::Pair;
use crate::ioctl::queue::Queue;
use crate::nic::world;

/// A completion queue was made.
pub fn queue_made(queue: &Queue) {
    world().adopt_queue(queue);
}

/// It is destroyed: nothing of it is touched after this.
pub fn queue_gone(queue: &Queue) {
    world().drop_queue(queue);
}

/// A queue pair was made, in the state Reset.
pub fn pair_made(pair: &Pair) {
    world().adopt_pair(pair);
}

/// Its state is another.
pub fn pair_changed(pair: &Pair) {
    world().change_pair(pair);
}

/// It is destroyed: nothing of it is touched after this.
pub fn pair_gone(pair: &Pair) {
    world().drop_pair(pair);
}
