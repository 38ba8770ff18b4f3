//! The engine of the simulated driver: memory, copies, kernels, events, peers, and how it goes wrong where it is told to.

mod driver;
mod misbehaviour;
mod work;
