//! Why a call failed: a text for the log and the positive errno for the caller.

use std::ffi::c_int;

/// Reason of a failed call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("{address:#x} is not an open gdr_t")]
    NoSession { address: usize },
    #[error("gdr_t {address:#x} was opened before fork(); a child must open its own")]
    Inherited { address: usize },
    #[error("handle {handle:#x} is not a pinned buffer of this gdr_t")]
    NoHandle { handle: u64 },
    #[error("handle {handle:#x} is not mapped")]
    NotMapped { handle: u64 },
    #[error("handle {handle:#x} is already mapped")]
    AlreadyMapped { handle: u64 },
    #[error(
        "device address {address:#x} is not aligned to 64 KiB: it can be pinned, but not mapped"
    )]
    Unaligned { address: u64 },
    #[error("invalid buffer: {bytes} bytes at device address {address:#x}")]
    Range { address: u64, bytes: usize },
    #[error("invalid size: {requested} bytes of a pinned buffer of {pinned}")]
    Size { requested: usize, pinned: usize },
    #[error("the mapping of handle {handle:#x} begins at {start:#x}, not at {address:#x}")]
    OtherMapping { handle: u64, start: usize, address: usize },
    #[error("{bytes} bytes at {address:#x} are outside the mapping of handle {handle:#x}")]
    Outside { handle: u64, address: usize, bytes: usize },
    #[error("invalid {of}: {value}")]
    Value { of: &'static str, value: i64 },
    #[error("cannot allocate the handle table")]
    Table { source: rustix::io::Errno },
    #[error("too many pinned buffers: {handles}")]
    TooMany { handles: usize },
    #[error("cannot open")]
    Open { source: gdrcopy::Error },
    #[error("cannot pin {bytes} bytes at device address {address:#x}")]
    Pin { address: u64, bytes: usize, source: gdrcopy::Error },
    #[error("cannot map handle {handle:#x}")]
    Map { handle: u64, source: gdrcopy::Error },
    #[error("cannot determine the state of handle {handle:#x}")]
    State { handle: u64, source: gdrcopy::Error },
    #[error("internal error: please report it")]
    Panicked,
}

impl CallError {
    /// Always positive.
    pub(crate) fn errno(&self) -> c_int {
        match self {
            Self::Inherited { .. } => libc::EACCES,
            Self::AlreadyMapped { .. } => libc::EAGAIN,
            Self::Table { .. } | Self::TooMany { .. } => libc::ENOMEM,
            Self::Panicked => libc::EIO,
            Self::Open { source }
            | Self::Pin { source, .. }
            | Self::Map { source, .. }
            | Self::State { source, .. } => {
                // An errno of 0 would mean success.
                Some(source.errno()).filter(|&errno| errno > 0).unwrap_or(libc::EIO)
            }
            Self::Null { .. }
            | Self::NoSession { .. }
            | Self::NoHandle { .. }
            | Self::NotMapped { .. }
            | Self::Unaligned { .. }
            | Self::Range { .. }
            | Self::Size { .. }
            | Self::OtherMapping { .. }
            | Self::Outside { .. }
            | Self::Value { .. } => libc::EINVAL,
        }
    }
}
