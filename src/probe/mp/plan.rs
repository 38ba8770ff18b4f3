//! Sizes and counts of each depth.

use crate::probe::depth::Depth;
use crate::probe::terms::Terms;

/// Largest message.
pub const MAX_ROOM: usize = 256 << 20;
/// Memory for the messages of one direction, unless one message needs more.
const ROOM: usize = 4 << 20;
/// Messages that are queued together.
pub const BATCH: u32 = 32;
/// Bytes of all batches of one figure.
const MAX_TOTAL: usize = 1 << 30;
/// Distance of messages in memory is a multiple of this.
pub const ALIGNMENT: usize = 64;

/// Messages of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Messages queued together.
    pub batch: u32,
    pub batches: u32,
}

impl Terms {
    pub fn mp_sizes(&self, is_simulated: bool) -> Vec<usize> {
        let sizes = match self.depth {
            Depth::Quick => vec![8, 4 << 10],
            Depth::Default => vec![8, 1 << 10, 64 << 10, 1 << 20],
            Depth::Full => (0..=22).map(|shift| 1 << shift).collect(),
        };
        self.sizes_or(sizes, is_simulated)
    }

    /// Bytes for the messages of one direction.
    pub fn mp_room(&self, is_simulated: bool) -> usize {
        let sizes = self.mp_sizes(is_simulated);
        let largest = sizes.into_iter().max().unwrap_or(0);
        largest.next_multiple_of(ALIGNMENT).max(ROOM)
    }

    /// How many messages of this size to send.
    pub fn mp_amount(&self, bytes: usize, room: usize) -> Amount {
        let stride = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let batch = (room / stride).clamp(1, BATCH as usize);
        let wanted = match self.depth {
            Depth::Quick => 4,
            Depth::Default => 20,
            Depth::Full => 1000,
        };
        let most = (MAX_TOTAL / (stride * batch)).max(2);
        Amount { batch: batch as u32, batches: wanted.min(most) as u32 }
    }
}
