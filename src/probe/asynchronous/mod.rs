//! `gdr probe async`: GPUDirect Async. The order of a stream's operations, the latency until it sees a word that the CPU writes, and
//! NIC queues that the stream drives (doorbells and completions, with kernels between), within one process and between two, and queues
//! that kernels drive themselves.

mod arguments;
mod child;
mod doorbell;
mod kernel;
mod loopback;
mod order;
mod parent;
mod pingpong;
mod plan;
mod poll;
mod polls;
mod queues;
mod register;
mod session;
mod settings;
mod slots;
mod task;
#[cfg(test)]
mod tests;

pub use arguments::AsyncProbe;
pub use task::Task;
