//! The NIC: it hears doorbells, executes what lies in the queues against registered memory, and writes completions.
//!
//! It is written from the layouts alone and knows nothing of crate `gdsync`, so that the two check one another. With
//! `FAKE_UVERBS_CARD=1` a thread of its own executes for as long as a device is open; without, objects are remembered and the
//! queues are left alone.
//!
//! From below: `memory` (the program's bytes), `registers` (doorbells), `region` (keys), `channel` (events), `completion`, `pair`,
//! `state` and `rules` (what a queue pair is), `entry` (what a request says), `arrival`, `perform` and `datagram` (what it does), `execute` (in
//! which order), `thread`. `world` holds all objects, also those that commands to the firmware made (`commanded`).

pub mod arrival;
pub mod channel;
pub mod commanded;
pub mod completion;
pub mod datagram;
pub mod entry;
pub mod execute;
pub mod memory;
pub mod pair;
pub mod perform;
pub mod ports;
pub mod region;
pub mod registers;
pub mod rules;
pub mod state;
pub mod syndrome;
pub mod thread;
mod world;

pub use world::world;
