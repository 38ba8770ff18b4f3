//! Why a call was refused: in words for the log, and as the positive errno that the caller gets.

use std::ffi::c_int;
use std::time::Duration;

use gpu::Compare;

/// One variant a reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("invalid {of}: {value}")]
    Value { of: &'static str, value: i64 },
    #[error(
        "flags {flags:#x} have none, or more than one, of GDS_MEMORY_GPU, GDS_MEMORY_HOST and GDS_MEMORY_IO"
    )]
    MemoryType { flags: c_int },
    #[error("flags {flags:#x} have bits beyond {allowed:#x}")]
    Flags { flags: c_int, allowed: c_int },
    #[error("{what} {address:#x} is not a multiple of {alignment}")]
    Misaligned {
        what: &'static str,
        address: usize,
        alignment: usize,
    },
    #[error("{count} bytes: 4 to 1024 are written by value, in words of 4")]
    Bytes { count: usize },
    #[error("{bytes} bytes at {address:#x} do not fit into the address space")]
    Range { address: usize, bytes: usize },
    #[error("{count} descriptors are more than there can be")]
    Count { count: usize },
    #[error("descriptor {position}")]
    Descriptor {
        position: usize,
        source: Box<CallError>,
    },
    #[error(
        "this is no request that gds_prepare_send or gds_prepare_wait_cq filled in, or it was changed since"
    )]
    Request,
    #[error("this {what} does not exist: it was destroyed, or gds_create_qp did not make it")]
    Gone { what: &'static str },
    #[error("{what} is not of this context")]
    OtherDevice { what: &'static str },
    #[error("the request was {why}")]
    Spent { why: &'static str },
    #[error("{what} {value} is out of bounds: {bounds}")]
    Bounds {
        what: &'static str,
        value: i64,
        bounds: &'static str,
    },
    #[error("{what} is not supported: {why}")]
    Unsupported {
        what: &'static str,
        why: &'static str,
    },
    #[error("the queue is full: {full} requests are in progress; poll completions first")]
    Full { full: u32 },
    #[error("cannot {what}")]
    Engine {
        what: &'static str,
        source: Box<engine::Error>,
    },
    #[error("cannot {what}")]
    Verbs {
        what: &'static str,
        source: verbs::Error,
    },
    #[error("verbs refuse the change of state")]
    Change { source: std::io::Error },
    #[error("the list cannot be done")]
    StreamUnsupported { source: engine::lower::Unsupported },
    #[error(
        "GPU memory at {address:#x}, which the CPU does not reach: gds_alloc_mapped_memory gives memory that it does"
    )]
    Unreachable { address: usize },
    #[error(
        "{bytes} bytes at {address:#x} are not in one piece for the GPU: they are of several registrations"
    )]
    Scattered { address: usize, bytes: usize },
    #[error(
        "this gds_mem_desc_t is of no memory that gds_alloc_mapped_memory gave, or it was freed"
    )]
    NotOurs,
    #[error("no {bytes} bytes of host memory")]
    HostMemory { bytes: usize },
    #[error("cannot {what}")]
    Cuda {
        what: &'static str,
        source: gpu::Error,
    },
    #[error("cannot map GPU memory for the CPU")]
    Map { source: gdrcopy::Error },
    #[error(
        "descriptor {position}: timed out after {} ms: the word is {seen:#x}, and the wait is for {compare:?} {value:#x}. The descriptors \
         before it are done. GDS_CPU_WAIT_TIMEOUT_MS sets how long the CPU waits",
        .waited.as_millis()
    )]
    TimedOut {
        position: usize,
        seen: u64,
        compare: Compare,
        value: u64,
        waited: Duration,
    },
    #[error("a queue pair of the list was destroyed while the CPU waited")]
    Cancelled,
    #[error("a fault in the library itself: please report it")]
    Panicked,
}

impl CallError {
    /// Names what was to be done with CUDA.
    pub(crate) fn cuda(what: &'static str) -> impl Fn(gpu::Error) -> Self {
        move |source| Self::Cuda { what, source }
    }

    /// Names what the engine was to do.
    pub(crate) fn engine(what: &'static str) -> impl Fn(engine::Error) -> Self {
        move |source| Self::Engine {
            what,
            source: Box::new(source),
        }
    }

    /// Names what verbs were to do.
    pub(crate) fn verbs(what: &'static str) -> impl Fn(verbs::Error) -> Self {
        move |source| Self::Verbs { what, source }
    }

    /// Whether it is what programs meet all the time, and try again.
    pub(crate) fn is_usual(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether the GPU is refused a NIC's doorbell register.
    pub(crate) fn is_of_the_register(&self) -> bool {
        use engine::hca::port::Error as Device;
        let Self::Engine { source, .. } = self else {
            return false;
        };
        matches!(**source, engine::Error::Device(Device::Register { .. }))
    }

    /// Always positive.
    pub(crate) fn errno(&self) -> c_int {
        match self {
            Self::Descriptor { source, .. } => source.errno(),
            Self::Unsupported { .. } => libc::EOPNOTSUPP,
            Self::Full { .. } => libc::ENOMEM,
            Self::Engine { source, .. } => of_engine(source),
            Self::Verbs { source, .. } => of_verbs(source),
            Self::Change { source } => positive(source.raw_os_error()),
            Self::Unreachable { .. } => libc::EFAULT,
            Self::HostMemory { .. } => libc::ENOMEM,
            Self::TimedOut { .. } => libc::ETIMEDOUT,
            Self::Cancelled => libc::ECANCELED,
            Self::Panicked => libc::EIO,
            // Whatever it says, 0 would mean that all is well.
            Self::Map { source } => positive(Some(source.errno())),
            Self::Cuda { source, .. } => of_cuda(source.kind()),
            Self::Null { .. }
            | Self::Request
            | Self::Gone { .. }
            | Self::OtherDevice { .. }
            | Self::Spent { .. }
            | Self::Bounds { .. }
            | Self::Value { .. }
            | Self::MemoryType { .. }
            | Self::Flags { .. }
            | Self::Misaligned { .. }
            | Self::Bytes { .. }
            | Self::Range { .. }
            | Self::Count { .. }
            | Self::StreamUnsupported { .. }
            | Self::Scattered { .. }
            | Self::NotOurs => libc::EINVAL,
        }
    }
}

fn positive(errno: Option<c_int>) -> c_int {
    errno.filter(|&errno| errno > 0).unwrap_or(libc::EIO)
}

fn of_engine(error: &engine::Error) -> c_int {
    use engine::hca::port::Error as Device;
    match error {
        engine::Error::Full { .. } | engine::Error::WaitsFull { .. } => libc::ENOMEM,
        engine::Error::Wire(_)
        | engine::Error::Transport { .. }
        | engine::Error::NotLast { .. } => libc::EINVAL,
        engine::Error::Gpu { source, .. } => of_cuda(source.kind()),
        engine::Error::Overrun { .. } => libc::EOVERFLOW,
        engine::Error::Device(device) => match device {
            Device::Verbs { source, .. } => of_verbs(source),
            Device::Register { source } => of_cuda(source.kind()),
            Device::NotMlx5 { .. } | Device::Shape { .. } => libc::EOPNOTSUPP,
            _ => libc::EIO,
        },
        engine::Error::Thread(source) => positive(source.raw_os_error()),
        _ => libc::EIO,
    }
}

fn of_verbs(error: &verbs::Error) -> c_int {
    match error.is_absent() {
        true => libc::ENODEV,
        false => positive(error.errno()),
    }
}

/// libgdsync's own table where it has one: not supported is `EPERM`.
fn of_cuda(kind: gpu::Kind) -> c_int {
    match kind {
        gpu::Kind::Absent => libc::ENODEV,
        gpu::Kind::Denied | gpu::Kind::Unsupported => libc::EPERM,
        gpu::Kind::Busy => libc::EAGAIN,
        gpu::Kind::Invalid => libc::EINVAL,
        gpu::Kind::OutOfMemory => libc::ENOMEM,
        gpu::Kind::Broken => libc::EIO,
    }
}
