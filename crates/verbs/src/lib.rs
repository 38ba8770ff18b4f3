//! Safe wrapper of libibverbs: RDMA devices, ports, GIDs and limits; registration of host memory and of GPU memory by address or
//! dma-buf; queue pairs with their states as types; completions and events. The only user of `ibverbs` and `ibverbs-sys`.
//!
//! [`Context`] → [`ProtectionDomain`] → [`MemoryRegion`] (registered memory) and [`QueuePair`], whose work completes in a [`CompletionQueue`].
//!
//! For mlx5 devices [`QueuePair::layout`] and [`CompletionQueue::layout`] expose queue memory to programs that drive it themselves
//! ([`Direct`]); [`devx`] creates queues in caller-provided memory, including GPU memory.
//!
//! The library is opened by the first call; without it calls return [`Error::Library`], and programs still start. Listing devices loads
//! the provider libraries without opening a device.
//!
//! [`nic`] is what the kernel says of a port beside verbs, without the library.
//!
//! Unsafe code is limited to calls of the library. A handle owns the objects it was created from, so nothing is used after it is freed.

#![warn(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod address_vector;
mod addressing;
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
pub mod nic;
mod on_demand;
mod path_facts;
mod port;
mod queue_pair;
mod region;
mod srd;
mod state;
mod work;

pub use address_vector::AddressVector;
pub use addressing::{Address, Behaviour, Peer, Route, STATIC_RATES};
pub use borrowed::{Borrowed, MAX_SEGMENTS, Segment};
pub use buffer::{Buffer, Pages};
pub use completion::{
    Completion, CompletionQueue, Direct, Failure, Operation, Provider, WorkCompletion,
};
pub use context::{Context, Dmabuf};
pub use datagram::{BorrowedHandle, Datagram, Handle};
pub use direct::{CompletionQueueLayout, QueuePairLayout, Ring, Words};
pub use domain::ProtectionDomain;
pub use error::Error;
pub use event::Event;
pub use gid::{Gid, GidKind};
pub use library::{Library, device_names};
pub use limits::Limits;
pub use memory_path::{
    Chosen, MemoryPath, MemoryPathError, Rejection, Rejections, Step as MemoryPathStep,
};
pub use on_demand::{OnDemand, OnDemandOperations};
pub use path_facts::PathFacts;
pub use port::{LinkLayer, Port, PortState};
pub use queue_pair::{
    Init, MAX_SGES, QueuePair, QueuePairOptions, Receives, Reset, Rtr, Rts, Transport,
};
pub use region::{Access, MemoryRegion, Remote, Sge};
pub use srd::Srd;
pub use state::QueuePairState;
pub use work::{Request, Work};

/// The types of `infiniband/verbs.h`, for C interfaces that pass them through.
pub mod raw {
    pub use ibverbs_sys::{
        ibv_ah, ibv_context, ibv_cq, ibv_modify_qp, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask,
        ibv_qp_cap, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags,
        ibv_send_wr, ibv_sge, ibv_wr_opcode,
    };
}
