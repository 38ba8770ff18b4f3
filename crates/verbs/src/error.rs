//! What can go wrong, by what was asked.

use std::io;

use crate::devx::{next_step, status_words};
use crate::{Pages, Transport};

/// Verbs failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] ibverbs_sys::OpenError),
    /// The library is too old for a function.
    #[error(
        "the machine's rdma-core has no {function}: it is older than the rdma-core that brought it"
    )]
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
    /// Memory of a simulated GPU has no address that a NIC could reach.
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
    /// A field of a firmware's command has no room for a value.
    #[error("{command}: {value:#x} does not fit into the {bits} bits of {field}")]
    Field {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
        /// Its bits.
        bits: u32,
        /// What it was to hold.
        value: u64,
    },
    /// No queue has so many entries.
    #[error("{what} of {count} entries: it has a power of two, at most {most}")]
    Entries {
        /// What was to be made.
        what: &'static str,
        /// Entries.
        count: u32,
        /// The most that this NIC has.
        most: u64,
    },
    /// What is put together is of two devices, or of one that was opened twice.
    #[error("{what} of another open device: what belongs together is made of one context")]
    Foreign {
        /// What of it.
        what: &'static str,
    },
    /// On Ethernet nobody is reached without a GID.
    #[error("port {name}:{port} is Ethernet's, and the remote side's address has no GID")]
    NoGid {
        /// The device.
        name: String,
        /// The port.
        port: u8,
    },
    /// A NIC's firmware, or its driver before it, does not do what it was commanded.
    #[error(
        "{name} refuses {command} with status {status:#04x} ({}), syndrome {syndrome:#010x}: {source}; {}",
        status_words(*status),
        next_step(*status, source)
    )]
    Command {
        /// The device.
        name: Box<str>,
        /// The command (`MLX5_CMD_OP_*`).
        command: &'static str,
        /// What the firmware answered; 0 where it was not asked, or an old kernel kept it to itself.
        status: u8,
        /// Why, in the firmware's own code; 0 likewise.
        syndrome: u32,
        /// What the library said: EREMOTEIO (121) is a firmware's refusal.
        #[source]
        source: io::Error,
    },
    /// Memory that commands could not be let name.
    #[error("{name} takes no {bytes} bytes for its queues ({function}): {source}")]
    Umem {
        /// The device.
        name: Box<str>,
        /// What was asked.
        function: &'static str,
        /// How much.
        bytes: usize,
        /// What the library said.
        #[source]
        source: io::Error,
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
            | Self::Command { source, .. }
            | Self::Umem { source, .. }
            | Self::Post { source, .. }
            | Self::Call { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
