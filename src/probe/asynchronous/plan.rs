//! How much to do.

use crate::probe::depth::Depth;

impl Depth {
    /// How often each order is tried.
    pub fn async_orders(self) -> u32 {
        match self {
            Self::Quick => 100,
            Self::Default | Self::Full => 1000,
        }
    }

    /// Samples of a latency.
    pub fn async_samples(self) -> u32 {
        match self {
            Self::Quick => 500,
            Self::Default => 3000,
            Self::Full => 20_000,
        }
    }

    /// Messages that a stream sends round the loop.
    pub fn async_messages(self) -> u32 {
        match self {
            Self::Quick => 2000,
            Self::Default => 20_000,
            Self::Full => 1_000_000,
        }
    }
}

/// Messages that the CPU sends round the loop, for comparison: each costs the same as the last.
pub fn driven(messages: u32) -> u32 {
    (messages / 4).min(20_000)
}

/// The message's size where none is asked for: that of gds_kernel_loopback_latency.
pub const MESSAGE: usize = 1024;
pub const MOST: usize = 4 << 20;
