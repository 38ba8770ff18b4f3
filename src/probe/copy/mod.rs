//! `gdr probe copy`: GPU memory mapped for the CPU. Every byte is verified, and each size is compared with cuMemcpy.

mod calls;
mod child;
mod crossover;
mod kernels_check;
mod parent;
mod ping_pong;
mod plan;
mod session;
mod sweep;
mod task;
#[cfg(test)]
mod tests;
mod validate;

pub use child::kernels;
pub use parent::Options;
pub use task::Task;
