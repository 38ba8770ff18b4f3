//! What a send entry can ask for.

use super::Opcode;

/// What an entry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Nothing; it completes.
    Nop,
    /// Send to whatever the remote side has posted.
    Send {
        /// Four bytes that its completion there tells.
        immediate: Option<u32>,
    },
    /// Write the remote side's memory.
    Write {
        /// Where.
        remote: RemoteAddress,
        /// Four bytes that a completion there tells; takes a receive entry.
        immediate: Option<u32>,
    },
    /// Read the remote side's memory.
    Read {
        /// Where.
        remote: RemoteAddress,
    },
    /// Where 8 bytes of the remote side are `compare`, they become `swap`; what they were comes back.
    CompareSwap {
        /// Where; a multiple of 8.
        remote: RemoteAddress,
        /// What they are to be.
        compare: u64,
        /// What they become.
        swap: u64,
    },
    /// Add to 8 bytes of the remote side; what they were comes back.
    FetchAdd {
        /// Where; a multiple of 8.
        remote: RemoteAddress,
        /// What is added.
        add: u64,
    },
}

/// A place in the remote side's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// Address within the region of the key.
    pub address: u64,
    /// The region's rkey.
    pub key: u32,
}

impl Operation {
    /// Its number on the wire.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Nop => Opcode::Nop,
            Self::Send { immediate: None } => Opcode::Send,
            Self::Send { immediate: Some(_) } => Opcode::SendImmediate,
            Self::Write {
                immediate: None, ..
            } => Opcode::Write,
            Self::Write {
                immediate: Some(_), ..
            } => Opcode::WriteImmediate,
            Self::Read { .. } => Opcode::Read,
            Self::CompareSwap { .. } => Opcode::CompareSwap,
            Self::FetchAdd { .. } => Opcode::FetchAdd,
        }
    }

    pub(super) fn immediate(&self) -> Option<u32> {
        match *self {
            Self::Send { immediate } | Self::Write { immediate, .. } => immediate,
            _ => None,
        }
    }

    pub(super) fn remote(&self) -> Option<RemoteAddress> {
        match *self {
            Self::Nop | Self::Send { .. } => None,
            Self::Write { remote, .. }
            | Self::Read { remote }
            | Self::CompareSwap { remote, .. }
            | Self::FetchAdd { remote, .. } => Some(remote),
        }
    }

    /// The atomic segment: swapped or added, and compared. rdma-core leaves the second as it was where nothing is compared.
    pub(super) fn atomic(&self) -> Option<(u64, u64)> {
        match *self {
            Self::CompareSwap { compare, swap, .. } => Some((swap, compare)),
            Self::FetchAdd { add, .. } => Some((add, 0)),
            _ => None,
        }
    }
}
