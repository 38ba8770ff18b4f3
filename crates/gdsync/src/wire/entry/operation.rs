//! Operations of send WQEs.

use super::Opcode;

/// The operation of a send WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// No operation; it completes.
    Nop,
    /// Send to a posted receive.
    Send {
        /// Immediate data for the receiver's CQE.
        immediate: Option<u32>,
    },
    /// RDMA write.
    Write {
        /// The destination.
        remote: RemoteAddress,
        /// Immediate data for the receiver's CQE; consumes a receive WQE.
        immediate: Option<u32>,
    },
    /// RDMA read.
    Read {
        /// The source.
        remote: RemoteAddress,
    },
    /// Replaces 8 remote bytes with `swap` if they equal `compare`, and returns the previous value.
    CompareSwap {
        /// The address, a multiple of 8.
        remote: RemoteAddress,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds to 8 remote bytes and returns the previous value.
    FetchAdd {
        /// The address, a multiple of 8.
        remote: RemoteAddress,
        /// The summand.
        add: u64,
    },
}

/// An address in remote memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// Address in the memory region.
    pub address: u64,
    /// The rkey.
    pub key: u32,
}

impl Operation {
    /// Its opcode.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Nop => Opcode::Nop,
            Self::Send { immediate: None } => Opcode::Send,
            Self::Send { immediate: Some(_) } => Opcode::SendImmediate,
            Self::Write { immediate: None, .. } => Opcode::Write,
            Self::Write { immediate: Some(_), .. } => Opcode::WriteImmediate,
            Self::Read { .. } => Opcode::Read,
            Self::CompareSwap { .. } => Opcode::CompareSwap,
            Self::FetchAdd { .. } => Opcode::FetchAdd,
        }
    }

    pub(crate) fn immediate(&self) -> Option<u32> {
        match *self {
            Self::Send { immediate } | Self::Write { immediate, .. } => immediate,
            _ => None,
        }
    }

    pub(crate) fn remote(&self) -> Option<RemoteAddress> {
        match *self {
            Self::Nop | Self::Send { .. } => None,
            Self::Write { remote, .. }
            | Self::Read { remote }
            | Self::CompareSwap { remote, .. }
            | Self::FetchAdd { remote, .. } => Some(remote),
        }
    }

    /// The atomic segment: swap or add value, compare value. For fetch-and-add rdma-core keeps the second one's old bytes.
    pub(crate) fn atomic(&self) -> Option<(u64, u64)> {
        match *self {
            Self::CompareSwap { compare, swap, .. } => Some((swap, compare)),
            Self::FetchAdd { add, .. } => Some((add, 0)),
            _ => None,
        }
    }
}
