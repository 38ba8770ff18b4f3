//! The NIC: reads doorbells, executes WQEs on registered memory, and writes CQEs.
//!
//! Written from the layouts alone, without code of crate `gdsync`, so that each checks the other. With `FAKE_UVERBS_NIC=1` a thread
//! executes while a device is open; otherwise objects are only stored.
//!
//! Bottom up: `memory` (the program's bytes), `registers` (doorbells), `region` (keys), `channel` (events), `completion`, `pair`,
//! `state` and `rules` (queue pair states), `wqe` (decoding), `arrival`, `perform` and `datagram` (execution of one request), `execute`
//! (main loop), `thread`. `remote` executes requests at the NICs of other processes (`peers`). `objects` holds all objects, `devx` those of
//! DEVX.

pub mod arrival;
pub mod channel;
pub mod completion;
pub mod datagram;
pub mod devx;
pub mod execute;
pub mod memory;
mod objects;
pub mod pair;
pub mod peers;
pub mod perform;
pub mod ports;
pub mod region;
pub mod registers;
pub mod remote;
pub mod rules;
pub mod state;
pub mod syndrome;
pub mod thread;
pub mod wqe;

pub use objects::objects;
