//! `libgdrapi.so.2`: the 17 functions of gdrcopy 2.6 for C, over the crate `gdrcopy`.
//!
//! `include/gdrapi.h` documents the interface; [`abi`] has its structures. This crate only
//! validates pointers and handles, maps errors to errno, and logs.
//!
//! Rules, because this crate runs in other programs:
//! - Every C function catches panics (`EIO`) and returns 0 or a positive errno.
//! - No `gdr_t` or handle is dereferenced before it is found among the live ones. A handle is never
//!   reused, a `gdr_t` only after thousands of others.
//! - A copy takes no lock and makes no system call.
//! - Pointers to read or write are checked for NULL only; the caller guarantees the rest.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod buffer;
mod call_error;
mod copies;
mod guard;
mod log;
mod sessions;
mod slots;

mod buffer_calls;
mod copy_calls;
mod session_calls;

pub use buffer_calls::*;
pub use copy_calls::*;
pub use session_calls::*;
