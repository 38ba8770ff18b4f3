//! `gdr probe copy`: GPU memory mapped for the CPU. Every byte is verified, and each size is compared with cuMemcpy.

mod arguments;
mod calls;
mod cases;
mod check;
mod child;
mod crossover;
mod engine;
mod kernels_check;
mod mapped;
mod other_gpu;
mod parent;
mod ping_pong;
mod plan;
mod point;
mod sanity;
mod session;
mod shared;
mod sweep;
mod task;
#[cfg(test)]
mod tests;
mod validate;

pub use arguments::CopyProbe;
pub use cases::TESTS;
pub use parent::Options;
pub use task::{
    Allocator, Choices, DataRounds, MappingChoice, MemoryLocation, Producer, RoundTrips, Task,
};
