//! A SIMULATION of `libibverbs.so.1`, for tests: no driver, no NIC, every answer out of the section `verbs` of the JSON file
//! that the environment variable `FAKE_VERBS` names. `src/machine.rs` says what it may hold.
//!
//! Queue pairs of one process are connected by their numbers and their ports' addresses, and work requests really move
//! bytes between registered memory: within `post_send`, by the CPU, under one lock. So figures of it say nothing of any
//! NIC. Keys, bounds and rights are checked as a NIC checks them, and statuses are those of the InfiniBand specification.
//!
//! Registered memory must stay mapped: a NIC has pinned it, the CPU has not. What is tried again (no receiver, no answer) is
//! given up at once, or waits where it is to be tried without end. Not there at all: shared receive queues, memory windows,
//! multicast, drained send queues (`SQD`, `SQE`), other paths, extended contexts, and numbers of packets after the first.
//!
//! `src/machine.rs` says how a machine file makes it misbehave; with `"log": "FILE"` the name of each function that is called
//! is written there, a line each, but for `ibv_poll_cq`, which programs call without end. With `"keys": "FILE"` a line of JSON is written
//! there for each registration and its end, and for each state of a queue pair and its end, with keys, rights and numbers of packets.

#![deny(clippy::undocumented_unsafe_blocks)]
// The names are those of the C interface.
#![allow(non_camel_case_types)]

mod abi;
mod answer;
mod bytes;
mod completion;
mod device;
mod event;
mod fate;
mod machine;
mod maps;
mod memory;
mod pair;
mod port;
mod post;
mod route;
mod state;
mod transport;
mod words;
mod world;
