//! Safe verbs: the RDMA devices that user space serves, their ports, GIDs and limits; registration of host memory, of GPU memory
//! by its address or by a dma-buf; queue pairs whose states are types; completions and events. It is the only user of `ibverbs`
//! and of `ibverbs-sys` under it.
//!
//! [`Context`] → [`ProtectionDomain`] → [`MemoryRegion`] (registered memory) and [`QueuePair`], whose work completes in a [`CompletionQueue`].
//!
//! Of mlx5 devices [`QueuePair::layout`] and [`CompletionQueue::layout`] tell where their memory lies, for who drives them by
//! himself ([`Direct`]); [`devx`] makes them in memory of his own, also a GPU's.
//!
//! The library is opened at the first call; a machine without it gets [`Error::Library`], never a failure to start. Listing
//! devices loads the providers' libraries and opens no device; everything else is asked of an open [`Context`].
//!
//! Unsafe code is confined to calls of the library. A handle owns what it was made from, so nothing is used after it was
//! given back.

#![warn(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod address_vector;
mod borrowed;
mod buffer;
mod completion;
mod context;
mod datagram;
pub mod devx;
mod direct;
mod domain;
mod doorbell;
mod error;
mod event;
mod gid;
mod library;
mod limits;
mod memory_path;
mod port;
mod queue_pair;
mod region;
mod work;

pub use address_vector::AddressVector;
pub use borrowed::{Borrowed, MOST_SEGMENTS, Segment, State};
pub use buffer::{Buffer, Pages};
pub use completion::{
    Completion, CompletionQueue, Direct, Failure, Operation, Provider, WorkCompletion,
};
pub use context::{Context, Dmabuf};
pub use datagram::Datagram;
pub use direct::{CompletionQueueLayout, QueuePairLayout, Ring, Words};
pub use domain::ProtectionDomain;
pub use error::Error;
pub use event::Event;
pub use gid::{Gid, GidKind};
pub use library::{Library, device_names};
pub use limits::Limits;
pub use memory_path::{MemoryPath, MemoryPathError};
pub use port::{LinkLayer, Port, PortState};
pub use queue_pair::{
    Address, Behaviour, Init, MOST_PIECES, Peer, QueuePair, QueuePairOptions, Receives, Reset,
    Route, Rtr, Rts, Transport,
};
pub use region::{Access, MemoryRegion, Remote, Sge};
pub use work::{Request, Work};

/// The shapes of `infiniband/verbs.h`, for who is called from C with them and hands them on.
pub mod raw {
    pub use ibverbs_sys::{
        ibv_ah, ibv_context, ibv_cq, ibv_modify_qp, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask,
        ibv_qp_cap, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags,
        ibv_send_wr, ibv_sge, ibv_wr_opcode,
    };
}
