//! `gdr probe async`: GPUDirect Async. What a stream does in order, how soon it sees a word that the CPU writes, and a NIC's queues
//! that it drives: doorbells it rings and completions it waits for, with kernels between; and a second process with streams and queues of its
//! own on the same GPU, to which messages go and from which they come back.

mod child;
mod doorbell;
mod loopback;
mod order;
mod parent;
mod pingpong;
mod plan;
mod poll;
mod queues;
mod register;
mod session;
mod task;
#[cfg(test)]
mod tests;

pub use parent::{Behind, By, Options};
pub use task::Task;
