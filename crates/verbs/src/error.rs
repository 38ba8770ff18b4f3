//! What can go wrong, by what was asked.

use std::io;

use crate::{Pages, Transport};

/// Verbs failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] ibverbs_sys::OpenError),
    /// The library is too old for a function.
    #[error("the machine's rdma-core has no {function}: it is older than the rdma-core that brought it")]
    Missing {
        /// The function.
        function: &'static str,
    },
    /// The devices cannot be listed.
    #[error("libibverbs does not list the RDMA devices")]
    List {
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// No provider serves a device of this name.
    #[error("libibverbs serves no device {name}")]
    NoDevice {
        /// The name asked for.
        name: String,
    },
    /// A device cannot be opened.
    #[error("{name} cannot be opened")]
    Open {
        /// The device.
        name: String,
        /// What the library said.
        #[source]
        source: io::Error,
    },
    /// Nothing was asked for.
    #[error("a buffer of no bytes")]
    Empty,
    /// The machine has no memory to give.
    #[error("{bytes} bytes of {} cannot be had", match pages { Pages::Ordinary => "memory", Pages::Huge => "huge pages" })]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// Of which pages.
        pages: Pages,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A range is not inside what it was asked of.
    #[error("{bytes} bytes at {offset} are not inside {size}")]
    Range {
        /// Where it starts.
        offset: usize,
        /// Its bytes.
        bytes: usize,
        /// What there is.
        size: usize,
    },
    /// Memory of a simulated GPU has no address that a card could reach.
    #[error("memory of a simulated GPU is not registered: it goes by host memory")]
    Simulated,
    /// A device does not register memory.
    #[error("{name} does not register {bytes} bytes ({function})")]
    Register {
        /// The device.
        name: String,
        /// What was asked.
        function: &'static str,
        /// How much.
        bytes: usize,
        /// What the library said.
        #[source]
        source: io::Error,
    },
    /// Only mlx5's provider tells where it keeps memory.
    #[error("{name} is no mlx5 device: where {what} of it lies is not told")]
    NotMlx5 {
        /// The device.
        name: String,
        /// What was asked about.
        what: &'static str,
    },
    /// The provider told of memory that cannot be.
    #[error("libmlx5 says that {what} has {bytes} bytes at an address where none can be")]
    Layout {
        /// What of it.
        what: &'static str,
        /// Bytes.
        bytes: usize,
    },
    /// No packet has such a payload.
    #[error("an MTU of {0} bytes is none: it is 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// More pieces than a request has.
    #[error("a request of {0} pieces: it has at most 16")]
    Pieces(usize),
    /// More segments than a request has.
    #[error("a request of {0} segments: it has at most 62")]
    Segments(usize),
    /// A datagram has an address, and nothing else has one: a provider would take what stands there for one.
    #[error("a queue pair of {transport:?} sends {}", match transport { Transport::Ud => "datagrams alone", _ => "no datagrams" })]
    Transport {
        /// What the pair transports.
        transport: Transport,
    },
    /// The CPU takes along what is inline, and reaches no GPU's memory.
    #[error("memory of a GPU does not go with the request (inline): the CPU does not reach it")]
    Inline,
    /// A queue pair takes no request.
    #[error("a queue pair of {name} takes no request ({function})")]
    Post {
        /// The device.
        name: String,
        /// What was asked.
        function: &'static str,
        /// What the library said: ENOMEM is a full queue.
        #[source]
        source: io::Error,
    },
    /// An open device does not answer.
    #[error("{name} does not answer {function}")]
    Call {
        /// The device.
        name: String,
        /// What was asked.
        function: &'static str,
        /// What the library said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether there is no library on this machine.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Library(ibverbs_sys::OpenError::Absent { .. }))
    }

    /// The error number, where the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::List { source }
            | Self::Open { source, .. }
            | Self::Memory { source, .. }
            | Self::Register { source, .. }
            | Self::Post { source, .. }
            | Self::Call { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
