//! A SIMULATION of `libibverbs.so.1`, for tests: without driver or NIC. All answers come from the section `verbs` of the JSON file
//! named by the environment variable `FAKE_VERBS`; `src/machine.rs` describes the format.
//!
//! Queue pairs of one process are connected by queue pair numbers and port addresses. Work requests copy bytes between registered
//! memory within `post_send`, with the CPU, under one lock, so timings mean nothing. Keys, bounds and access rights are checked as
//! a NIC checks them, and statuses are those of the InfiniBand specification.
//!
//! Registered memory must stay mapped, because nothing pins it. Retries (no receiver, no answer) fail at once, or wait if they are
//! unlimited. Not implemented: shared receive queues, memory windows, multicast, drained send queues (`SQD`, `SQE`), alternate
//! paths, extended contexts but for `query_device_ex`, and PSNs after the first packet.
//!
//! `src/machine.rs` lists the faults. `"log": "FILE"` logs the name of each called function except `ibv_poll_cq`, one per line.
//! `"keys": "FILE"` logs a line of JSON for each registration and deregistration, and for each state and the destruction of a
//! queue pair, with keys, access rights and PSNs.

#![deny(clippy::undocumented_unsafe_blocks)]
// The names are those of the C interface.
#![allow(non_camel_case_types)]

mod abi;
mod answer;
mod bytes;
mod completion;
mod device;
mod efa;
mod event;
mod fate;
mod machine;
mod maps;
mod memory;
mod mlx5;
pub mod newer;
mod objects;
mod pair;
mod port;
mod post;
mod route;
mod state;
mod status_text;
mod transport;
