//! Errors, by failed operation.

use std::io;

use crate::devx::{next_step, status_words};
use crate::{Pages, Transport};

/// An error of verbs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] ibverbs_sys::OpenError),
    /// The library lacks a function.
    #[error("the machine's rdma-core is too old: it has no {function}")]
    Missing {
        /// The function.
        function: &'static str,
    },
    /// The device list cannot be read.
    #[error("libibverbs cannot list RDMA devices")]
    List {
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// No provider has a device of this name.
    #[error("libibverbs has no device {name}")]
    NoDevice {
        /// The requested name.
        name: String,
    },
    /// A device cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// The device.
        name: String,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A length of zero was requested.
    #[error("invalid buffer size: 0 bytes")]
    Empty,
    /// The machine has no memory left.
    #[error("cannot allocate {bytes} bytes of {}", match pages { Pages::Ordinary => "memory", Pages::Huge => "huge pages" })]
    Memory {
        /// Requested bytes.
        bytes: usize,
        /// Requested pages.
        pages: Pages,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The kernel does not take pages back.
    #[error("cannot give the pages of a buffer back to the kernel")]
    Release {
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A range lies outside its memory.
    #[error("invalid range: {bytes} bytes at offset {offset} of {size}")]
    Range {
        /// Start offset.
        offset: usize,
        /// Length.
        bytes: usize,
        /// Available length.
        size: usize,
    },
    /// A simulated GPU's memory has no address that a NIC could use.
    #[error("cannot register memory of a simulated GPU: use host memory")]
    Simulated,
    /// Only a simulated GPU's memory is host memory.
    #[error("the memory is not that of a simulated GPU")]
    NotSimulated,
    /// The kernel finds the pages of host memory only.
    #[error("on-demand paging is for host memory: GPU memory cannot be registered with it")]
    OnDemandGpu,
    /// A device cannot register memory.
    #[error("{name} cannot register {bytes} bytes ({function})")]
    Register {
        /// The device.
        name: String,
        /// The failed function.
        function: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// Only mlx5 devices support direct verbs.
    #[error("{name} is not an mlx5 device: direct verbs cannot access {what}")]
    NotMlx5 {
        /// The device.
        name: String,
        /// The operation.
        what: &'static str,
    },
    /// Only EFA devices have SRD queue pairs.
    #[error("{name} is not an EFA device: it has no SRD queue pairs")]
    NotEfa {
        /// The device.
        name: String,
    },
    /// The provider reported invalid memory.
    #[error("libmlx5 reported invalid memory for {what} ({bytes} bytes)")]
    Layout {
        /// What is invalid.
        what: &'static str,
        /// Its value.
        bytes: usize,
    },
    /// A field of a firmware command is too narrow for a value.
    #[error("{command}: {value:#x} does not fit into the {bits} bits of {field}")]
    Field {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
        /// Its width in bits.
        bits: u32,
        /// The value.
        value: u64,
    },
    /// Invalid number of entries.
    #[error("invalid size of {what}: {count} entries; must be a power of two, at most {most}")]
    Entries {
        /// The queue.
        what: &'static str,
        /// Requested entries.
        count: u32,
        /// Maximum of this NIC.
        most: u64,
    },
    /// Objects of different devices or contexts are combined.
    #[error("{what} belongs to another context")]
    Foreign {
        /// The object.
        what: &'static str,
    },
    /// An Ethernet address needs a GID.
    #[error("port {name}:{port} is Ethernet, but the remote address has no GID")]
    NoGid {
        /// The device.
        name: String,
        /// The port.
        port: u8,
    },
    /// The kernel or the firmware rejected a command.
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
        /// The firmware's status; 0 if the kernel rejected the command or did not report it.
        status: u8,
        /// The firmware's syndrome; 0 likewise.
        syndrome: u32,
        /// The system error: EREMOTEIO (121) is a rejection by the firmware.
        #[source]
        source: io::Error,
    },
    /// A UMEM cannot be registered.
    #[error("{name} cannot register {bytes} bytes for its queues ({function}): {source}")]
    Umem {
        /// The device.
        name: Box<str>,
        /// The failed function.
        function: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A state change that firmware queue pairs do not support.
    #[error("{name}: cannot change the state of a queue pair from {from} to {to}: {why}")]
    StateChange {
        /// The device.
        name: Box<str>,
        /// The present state (`enum ibv_qp_state`).
        from: u32,
        /// The requested state.
        to: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// Invalid path MTU.
    #[error("invalid MTU: {0} bytes; must be 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// Too many SGEs in a request.
    #[error("too many SGEs in a request: {0}; at most {max}", max = crate::MAX_SGES)]
    Sges(usize),
    /// Too many segments in a request.
    #[error("too many segments in a request: {0}; at most 62")]
    Segments(usize),
    /// Only datagrams carry an address: a provider would misread one in other requests.
    #[error("a queue pair of {transport:?} cannot send {}", match transport {
        Transport::Ud => "anything but datagrams", Transport::Srd => "requests without a destination, or atomic ones", _ => "datagrams"
    })]
    Transport {
        /// The pair's transport.
        transport: Transport,
    },
    /// Inline data must be host memory.
    #[error("inline data cannot be GPU memory")]
    Inline,
    /// A request cannot be posted.
    #[error("cannot post a request to a queue pair of {name} ({function})")]
    Post {
        /// The device.
        name: String,
        /// The failed function.
        function: &'static str,
        /// The system error: ENOMEM means a full queue.
        #[source]
        source: io::Error,
    },
    /// A call on an open device failed.
    #[error("{name}: {function} failed")]
    Call {
        /// The device.
        name: String,
        /// The failed function.
        function: &'static str,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// True if the library is not installed.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Library(ibverbs_sys::OpenError::Absent { .. }))
    }

    /// The system's error number, if there is one.
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
            Self::StateChange { .. } => Some(EINVAL),
            _ => None,
        }
    }
}

/// What verbs return for an invalid state change.
const EINVAL: i32 = 22;
