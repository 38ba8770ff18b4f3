//! `libmp.so.2`: the C functions of libmp 2.0 and of its comm library, implemented by the crate `mp`.
//!
//! The headers in `include/` document the interface. This crate checks arguments, keeps handles, translates addresses, and converts
//! errors to numbers and messages.
//!
//! Rules:
//! - Every C function catches panics and returns `MP_SUCCESS`, `MP_FAILURE` or a positive errno. None ends the process.
//! - Handles are numbers that are looked up, never pointers that are followed.
//! - Pointers to buffers, words and handles are checked for NULL and alignment; otherwise they are the caller's promise, as in every C
//!   function.
//! - No CUDA context is created if the thread has one. MPI is found in the process; none is linked.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod buffer;
mod call_error;
mod environment;
mod guard;
mod handles;
mod library;
mod log;
mod stream;
mod words;

mod comm_calls;
mod comm_kernel_calls;
mod device_calls;
mod init_calls;
mod memory_calls;
mod message_calls;
mod queue_calls;
mod stream_calls;
mod wait_calls;
mod window_calls;

pub use comm_calls::*;
pub use comm_kernel_calls::*;
pub use device_calls::*;
pub use init_calls::*;
pub use memory_calls::*;
pub use message_calls::*;
pub use queue_calls::*;
pub use stream_calls::*;
pub use wait_calls::*;
pub use window_calls::*;
#[doc(hidden)]
pub use {library::simulate, log::silence};
