//! Counts of each depth, and message sizes.

use crate::probe::depth::{Depth, measuring_count};
use crate::probe::terms::Terms;

impl Depth {
    /// Lists of operations per kind of wait and location.
    pub fn async_orders(self) -> u32 {
        measuring_count(match self {
            Self::Quick => 100,
            Self::Default | Self::Full => 1000,
        })
    }

    pub fn async_samples(self) -> u32 {
        measuring_count(match self {
            Self::Quick => 500,
            Self::Default => 3000,
            Self::Full => 20_000,
        })
    }

    /// Messages that a stream sends.
    pub fn async_messages(self) -> u32 {
        measuring_count(match self {
            Self::Quick => 2000,
            Self::Default => 2600,
            Self::Full => 1_000_000,
        })
    }
}

/// Messages that the CPU sends for comparison: fewer, because their times vary less.
pub fn cpu_messages(messages: u32) -> u32 {
    (messages / 4).min(20_000)
}

/// The default message size, that of gds_kernel_loopback_latency.
pub const MESSAGE: usize = 1024;
const MAX_MESSAGE: usize = 4 << 20;

impl Terms {
    /// The message sizes, in whole words of 16 bytes, which kernels copy.
    pub fn message_sizes(&self) -> Vec<usize> {
        let whole = |size: &usize| (*size).clamp(16, MAX_MESSAGE) & !15;
        let mut sizes: Vec<usize> = self.sizes.iter().map(whole).collect();
        sizes.dedup();
        if sizes.is_empty() { vec![MESSAGE] } else { sizes }
    }
}
