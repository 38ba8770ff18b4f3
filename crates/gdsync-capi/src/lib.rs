//! `libgdsync.so.2`: the C functions of libgdsync 2.2, implemented by the crate `gdsync`: memory words that a CUDA stream writes and
//! waits for, and queue pairs driven by such words.
//!
//! The headers in `include/` document the interface; [`abi`] has its types. This crate only checks arguments, translates addresses,
//! converts errors to errno and logs messages.
//!
//! Rules:
//! - Every C function catches panics (`EIO`) and returns 0 or a positive errno. None ends the process.
//! - A list is validated as a whole before any of it is executed.
//! - No CUDA context is created or changed: functions that need one use the calling thread's.
//! - Pointers are checked for NULL and alignment; otherwise they are the caller's promise, as in every C function. A
//!   `gds_mem_desc_t`, a `struct gds_qp`, a `struct gds_cq` and a request are looked up before use, so stale ones are rejected.
//! - Destroying a queue pair releases waiting streams. Memory that a stream may still write is not freed.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod backend;
mod call_error;
mod checker;
mod claims;
mod completed;
mod cpu;
mod environment;
mod flags;
mod guard;
mod list;
mod log;
mod mapped;
mod pair;
mod pairs;
mod registry;
mod request;
mod stream;
mod work;

mod create_calls;
mod memory_calls;
mod post_calls;
mod prepare_calls;
mod query_calls;
mod raw_calls;
mod send_calls;
mod wait_calls;

pub use create_calls::*;
#[doc(hidden)]
pub use mapped::simulate;
pub use memory_calls::*;
pub use post_calls::*;
pub use prepare_calls::*;
pub use query_calls::*;
pub use raw_calls::*;
pub use send_calls::*;
pub use wait_calls::*;
