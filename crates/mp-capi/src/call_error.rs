//! Errors of calls: messages for standard error, and numbers for the caller.

use std::ffi::c_int;

use engine::Error;

use crate::abi;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("{what} {address:#x} is not a multiple of {alignment}")]
    Misaligned { what: &'static str, address: usize, alignment: usize },
    #[error("invalid {what}: {value}")]
    Value { what: &'static str, value: i64 },
    #[error("mp_init was not called, or mp_finalize was")]
    NotInitialized,
    #[error("mp_init was called before: call mp_finalize first")]
    Initialized,
    #[error("unknown {what}: it was freed, or is not an {what}")]
    Unknown { what: &'static str },
    #[error("the request is not a {0}")]
    Kind(&'static str),
    #[error(
        "{bytes} bytes at {address:#x} are not in the registered memory of {length} bytes at {start:#x}"
    )]
    Outside { address: usize, bytes: usize, start: usize, length: usize },
    #[error("{bytes} bytes at {address:#x} exceed the address space")]
    Range { address: usize, bytes: usize },
    #[error(
        "managed memory cannot be registered: it migrates, and the NIC would access host pages"
    )]
    Managed,
    #[error("the descriptor queue has {0} descriptors: post it first")]
    QueueNotEmpty(usize),
    #[error(
        "more than {} descriptors of one kind: call comm_prepared_requests in between",
        abi::MAX_DESCS
    )]
    DescsFull,
    #[error("cannot {operation}: {source}")]
    Cuda { operation: &'static str, source: gpu::Error },
    #[error("queues in GPU memory need a CPU mapping")]
    Queues(#[source] gdrcopy::Error),
    #[error(transparent)]
    Mpi(#[from] engine::mpi::Error),
    #[error(transparent)]
    Engine(#[from] Error),
    #[error("unexpected failure inside libmp: this is a bug")]
    Panicked,
}

impl CallError {
    /// Wraps an error of CUDA.
    pub(crate) fn cuda(operation: &'static str) -> impl FnOnce(gpu::Error) -> Self {
        move |source| Self::Cuda { operation, source }
    }

    /// What the function returns.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Self::Null { .. }
            | Self::Misaligned { .. }
            | Self::Value { .. }
            | Self::NotInitialized
            | Self::Unknown { .. }
            | Self::Kind(_)
            | Self::Outside { .. }
            | Self::Range { .. }
            | Self::Managed => libc::EINVAL,
            Self::Initialized => libc::EALREADY,
            Self::QueueNotEmpty(_) => libc::EBUSY,
            Self::DescsFull => libc::ENOSPC,
            Self::Engine(error) => of_engine(error),
            Self::Cuda { .. } | Self::Queues(_) | Self::Mpi(_) | Self::Panicked => abi::FAILURE,
        }
    }
}

fn of_engine(error: &Error) -> c_int {
    use engine::Cause;
    match error {
        Error::InvalidPeer { .. }
        | Error::NoPeer { .. }
        | Error::Range { .. }
        | Error::Window { .. }
        | Error::TooLarge { .. }
        | Error::Inline { .. }
        | Error::NotRegistered
        | Error::Staged { .. }
        | Error::NotPosted { .. }
        | Error::Posted { .. }
        | Error::NoCompletion { .. }
        | Error::Ended { .. }
        | Error::Waited { .. }
        | Error::Order { .. } => libc::EINVAL,
        Error::Full { .. } | Error::WordsFull => libc::ENOMEM,
        Error::Word { .. } => libc::ETIMEDOUT,
        Error::PeerFailed { .. } => libc::ENOTCONN,
        Error::Failed(failure) => match failure.cause {
            Cause::TimedOut(_) => libc::ETIMEDOUT,
            Cause::NoReceive => libc::ENOBUFS,
            Cause::TooLong => libc::EMSGSIZE,
            Cause::LocalAccess | Cause::RemoteAccess => libc::EFAULT,
            Cause::NoAnswer => libc::ECONNRESET,
            Cause::Flushed | Cause::Closed => libc::ECANCELED,
            _ => libc::EIO,
        },
        _ => abi::FAILURE,
    }
}
