//! What can go wrong, by what was asked.

use std::io;

/// Verbs failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] ibverbs_sys::OpenError),
    /// The library is too old for a function.
    #[error("the machine's libibverbs has no {function}: it is older than the rdma-core that brought it")]
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
        matches!(self, Self::Library(ibverbs_sys::OpenError::Absent(_)))
    }

    /// The error number, where the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::List { source } | Self::Open { source, .. } | Self::Call { source, .. } => source.raw_os_error(),
            Self::Library(_) | Self::Missing { .. } | Self::NoDevice { .. } => None,
        }
    }
}
