//! Errors of calls: messages for the log, and errno values for the caller.

use std::ffi::c_int;
use std::time::Duration;

use gpu::Compare;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("invalid {of}: {value}")]
    Value { of: &'static str, value: i64 },
    #[error(
        "invalid flags {flags:#x}: exactly one of GDS_MEMORY_GPU, GDS_MEMORY_HOST and GDS_MEMORY_IO is required"
    )]
    MemoryType { flags: c_int },
    #[error("invalid flags {flags:#x}: allowed bits are {allowed:#x}")]
    Flags { flags: c_int, allowed: c_int },
    #[error("{what} {address:#x} is not a multiple of {alignment}")]
    Misaligned { what: &'static str, address: usize, alignment: usize },
    #[error("invalid length {count} of a write by value: 4 to 1024 bytes, a multiple of 4")]
    Bytes { count: usize },
    #[error("{bytes} bytes at {address:#x} exceed the address space")]
    Range { address: usize, bytes: usize },
    #[error("invalid number of descriptors: {count}")]
    Count { count: usize },
    #[error("descriptor {position}")]
    Descriptor { position: usize, source: Box<CallError> },
    #[error(
        "invalid request: not prepared by gds_prepare_send or gds_prepare_wait_cq, or modified since"
    )]
    Request,
    #[error("unknown {what}: it was destroyed, or gds_create_qp did not create it")]
    Gone { what: &'static str },
    #[error("{what} belongs to another context")]
    OtherDevice { what: &'static str },
    #[error("the request was already {why}")]
    Spent { why: &'static str },
    #[error("invalid {what} {value}: {bounds}")]
    Bounds { what: &'static str, value: i64, bounds: &'static str },
    #[error("{what} is not supported: {why}")]
    Unsupported { what: &'static str, why: &'static str },
    #[error("queues in GPU memory need DEVX commands")]
    NoDevx { source: verbs::Error },
    #[error("the queue is full: {full} requests are in progress; poll completions first")]
    Full { full: u32 },
    #[error("cannot {what}")]
    Engine { what: &'static str, source: Box<engine::Error> },
    #[error("cannot {what}")]
    Verbs { what: &'static str, source: verbs::Error },
    #[error("ibv_modify_qp failed")]
    Change { source: std::io::Error },
    #[error("the stream does not support the list")]
    StreamUnsupported { source: engine::lower::Unsupported },
    #[error(
        "the CPU cannot access GPU memory at {address:#x}: allocate it with gds_alloc_mapped_memory"
    )]
    Unreachable { address: usize },
    #[error(
        "{bytes} bytes at {address:#x} span several registrations and are not contiguous for the GPU"
    )]
    Scattered { address: usize, bytes: usize },
    #[error(
        "unknown gds_mem_desc_t: gds_alloc_mapped_memory did not fill it in, or its memory was freed"
    )]
    NotOurs,
    #[error("cannot allocate {bytes} bytes of host memory")]
    HostMemory { bytes: usize },
    #[error("cannot {what}")]
    Cuda { what: &'static str, source: gpu::Error },
    #[error("cannot map GPU memory for the CPU")]
    Map { source: gdrcopy::Error },
    #[error(
        "descriptor {position}: timeout after {} ms: the word is {seen:#x}, expected {compare:?} {value:#x}; earlier descriptors \
         are done; GDS_CPU_WAIT_TIMEOUT_MS sets the timeout",
        .waited.as_millis()
    )]
    TimedOut { position: usize, seen: u64, compare: Compare, value: u64, waited: Duration },
    #[error("a queue pair of the list was destroyed while the CPU waited")]
    Cancelled,
    #[error("internal error in the library: please report it")]
    Panicked,
}

impl CallError {
    /// Wraps a CUDA error of the operation `what`.
    pub(crate) fn cuda(what: &'static str) -> impl Fn(gpu::Error) -> Self {
        move |source| Self::Cuda { what, source }
    }

    /// Wraps an engine error of the operation `what`.
    pub(crate) fn engine(what: &'static str) -> impl Fn(engine::Error) -> Self {
        move |source| Self::Engine { what, source: Box::new(source) }
    }

    /// Wraps a verbs error of the operation `what`.
    pub(crate) fn verbs(what: &'static str) -> impl Fn(verbs::Error) -> Self {
        move |source| Self::Verbs { what, source }
    }

    /// True for errors that programs expect and retry.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// True if the GPU's driver does not map the doorbell register.
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
            Self::Unsupported { .. } | Self::NoDevx { .. } => libc::EOPNOTSUPP,
            Self::Full { .. } => libc::ENOMEM,
            Self::Engine { source, .. } => of_engine(source),
            Self::Verbs { source, .. } => of_verbs(source),
            Self::Change { source } => positive(source.raw_os_error()),
            Self::Unreachable { .. } => libc::EFAULT,
            Self::HostMemory { .. } => libc::ENOMEM,
            Self::TimedOut { .. } => libc::ETIMEDOUT,
            Self::Cancelled => libc::ECANCELED,
            Self::Panicked => libc::EIO,
            // Never 0, which means success.
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
        engine::Error::NoMapping => libc::EOPNOTSUPP,
        engine::Error::Device(device) => match device {
            Device::Verbs { source, .. } => of_verbs(source),
            Device::Register { source } => of_cuda(source.kind()),
            Device::NotMlx5 { .. } | Device::Shape { .. } | Device::GpuQueues { .. } => {
                libc::EOPNOTSUPP
            }
            _ => libc::EIO,
        },
        engine::Error::Thread(source) => positive(source.raw_os_error()),
        _ => libc::EIO,
    }
}

fn of_verbs(error: &verbs::Error) -> c_int {
    if error.is_absent() { libc::ENODEV } else { positive(error.errno()) }
}

/// As in libgdsync: unsupported operations are `EPERM`.
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
