//! libibverbs without linking it: the declarations that the published crate `ibverbs` and gdr use, with the names of
//! `infiniband/verbs.h`, and functions that open `libibverbs.so.1` on the first call.
//!
//! A missing library or function behaves like a failure in C: NULL or a negative number with `errno`, or an error number as the result,
//! always `ENOSYS`. Nothing aborts, and programs start without the library. [`functions`] reports what exists.
//!
//! The layouts were written from the ABI's documentation; a test compares them with Debian's headers (`tests/headers.rs`): size of each
//! structure, offset and size of each field, value of each constant. The manual pages of libibverbs describe the fields.

#![deny(clippy::undocumented_unsafe_blocks)]
// The names are those of the C interface, which `ibverbs` and every manual page use.
#![allow(non_camel_case_types, non_snake_case)]

#[macro_use]
mod library;
#[macro_use]
mod record;
mod completion;
mod device;
mod devx;
mod efadv;
mod event;
mod extended;
mod functions;
mod inline;
mod memory;
mod mlx5dv;
mod queue;
mod work;

pub use completion::*;
pub use device::*;
pub use devx::*;
pub use efadv::*;
pub use event::*;
pub use extended::*;
pub use functions::*;
pub use inline::*;
pub use library::{Library, OpenError, library};
pub use memory::*;
pub use mlx5dv::*;
pub use queue::*;
pub use record::{Constant, Field, Record};
pub use work::*;

/// A 64-bit number in network byte order.
pub type __be64 = u64;
/// A 16-bit number in network byte order.
pub type __be16 = u16;

/// The functions of the machine's library; none if the library cannot be opened.
#[must_use]
pub fn functions() -> Option<&'static Functions> {
    library().ok().map(Library::functions)
}

/// All declared structures, as this compiler lays them out.
#[must_use]
pub fn records() -> Vec<&'static Record> {
    [
        completion::RECORDS,
        device::RECORDS,
        devx::RECORDS,
        efadv::RECORDS,
        event::RECORDS,
        extended::RECORDS,
        memory::RECORDS,
        mlx5dv::RECORDS,
        queue::RECORDS,
        work::RECORDS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All declared constants.
#[must_use]
pub fn constants() -> Vec<&'static Constant> {
    [
        completion::CONSTANTS,
        device::CONSTANTS,
        devx::CONSTANTS,
        efadv::CONSTANTS,
        event::CONSTANTS,
        extended::CONSTANTS,
        mlx5dv::CONSTANTS,
        memory::CONSTANTS,
        queue::CONSTANTS,
        work::CONSTANTS,
    ]
    .into_iter()
    .flatten()
    .flat_map(|group| group.iter())
    .collect()
}
