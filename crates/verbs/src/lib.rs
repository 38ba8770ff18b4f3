//! Safe verbs: the RDMA devices that user space serves, their ports, GIDs and limits, and whether they register memory that
//! a dma-buf leads to. It is the only user of `ibverbs` and of `ibverbs-sys` under it.
//!
//! The library is opened at the first call; a machine without it gets [`Error::Library`], never a failure to start. Listing
//! devices loads the providers' libraries and opens no device; everything else is asked of an open [`Context`].
//!
//! Unsafe code is confined to calls of the library. A handle owns what it was made from, so nothing is used after it was
//! given back.

#![deny(clippy::undocumented_unsafe_blocks)]

mod context;
mod error;
mod gid;
mod library;
mod limits;
mod port;

pub use context::{Context, Dmabuf};
pub use error::Error;
pub use gid::{Gid, GidKind};
pub use library::{Library, device_names};
pub use limits::Limits;
pub use port::{LinkLayer, Port, PortState};
