//! Why a call was refused: in words for the log, and as the positive errno that the caller gets.

use std::ffi::c_int;

/// One variant a reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("{address:#x} is no open gdr_t")]
    NoSession { address: usize },
    #[error("the gdr_t {address:#x} was opened before fork(); a child opens its own")]
    Inherited { address: usize },
    #[error("handle {handle:#x} is no pinned buffer of this gdr_t")]
    NoHandle { handle: u64 },
    #[error("handle {handle:#x} is not mapped")]
    NotMapped { handle: u64 },
    #[error("handle {handle:#x} is mapped already")]
    AlreadyMapped { handle: u64 },
    #[error(
        "device address {address:#x} does not begin a 64 KiB page: it can be pinned, but not mapped"
    )]
    Unaligned { address: u64 },
    #[error("{bytes} bytes at device address {address:#x} are no buffer")]
    Range { address: u64, bytes: usize },
    #[error("{asked} bytes asked for, of a pinned buffer of {pinned}")]
    Size { asked: usize, pinned: usize },
    #[error("the mapping of handle {handle:#x} begins at {start:#x}, not at {address:#x}")]
    OtherMapping {
        handle: u64,
        start: usize,
        address: usize,
    },
    #[error("{bytes} bytes at {address:#x} do not lie in the mapping of handle {handle:#x}")]
    Outside {
        handle: u64,
        address: usize,
        bytes: usize,
    },
    #[error("invalid {of}: {value}")]
    Value { of: &'static str, value: i64 },
    #[error("no room for the table of handles")]
    Table { source: rustix::io::Errno },
    #[error("{handles} buffers are pinned, as many as there can be")]
    TooMany { handles: usize },
    #[error("cannot open")]
    Open { source: gdrcopy::Error },
    #[error("cannot pin {bytes} bytes at device address {address:#x}")]
    Pin {
        address: u64,
        bytes: usize,
        source: gdrcopy::Error,
    },
    #[error("cannot map handle {handle:#x}")]
    Map { handle: u64, source: gdrcopy::Error },
    #[error("cannot determine the state of handle {handle:#x}")]
    Ask { handle: u64, source: gdrcopy::Error },
    #[error("a fault in the library itself: please report it")]
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
            | Self::Ask { source, .. } => {
                // Whatever it says, 0 would mean that all is well.
                Some(source.errno())
                    .filter(|&errno| errno > 0)
                    .unwrap_or(libc::EIO)
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
