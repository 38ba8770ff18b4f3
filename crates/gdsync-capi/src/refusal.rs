//! Why a call was refused: in words for the log, and as the positive errno that the caller gets.

use std::ffi::c_int;

use crate::cpu::NotReached;

/// One variant a reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{what} is NULL")]
    Null { what: &'static str },
    #[error("{value} is none of {of}")]
    Value { of: &'static str, value: i64 },
    #[error("flags {flags:#x} have none, or more than one, of GDS_MEMORY_GPU, GDS_MEMORY_HOST and GDS_MEMORY_IO")]
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
    Descriptor { position: usize, source: Box<Refusal> },
    #[error("this library has no send and no wait requests yet (tag {tag})")]
    NotYet { tag: u32 },
    #[error("the list cannot be done")]
    Impossible { source: engine::descriptor::Impossible },
    #[error(
        "GPU memory at {address:#x}, which the CPU does not reach: gds_alloc_mapped_memory gives memory that it does"
    )]
    Unreachable { address: usize },
    #[error("{bytes} bytes at {address:#x} are not in one piece for the GPU: they are of several registrations")]
    Scattered { address: usize, bytes: usize },
    #[error("this gds_mem_desc_t is of no memory that gds_alloc_mapped_memory gave, or it was freed")]
    NotOurs,
    #[error("no {bytes} bytes of host memory")]
    HostMemory { bytes: usize },
    #[error("cannot {what}")]
    Cuda { what: &'static str, source: gpu::Error },
    #[error("cannot map GPU memory for the CPU")]
    Map { source: gdrcopy::Error },
    #[error("a fault in the library itself: please report it")]
    Panicked,
}

impl Refusal {
    /// Names what was to be done with CUDA.
    pub(crate) fn cuda(what: &'static str) -> impl Fn(gpu::Error) -> Self {
        move |source| Self::Cuda { what, source }
    }

    /// Always positive.
    pub(crate) fn errno(&self) -> c_int {
        match self {
            Self::Descriptor { source, .. } => source.errno(),
            Self::NotYet { .. } => libc::ENOSYS,
            Self::Unreachable { .. } => libc::EFAULT,
            Self::HostMemory { .. } => libc::ENOMEM,
            Self::Panicked => libc::EIO,
            // Whatever it says, 0 would mean that all is well.
            Self::Map { source } => Some(source.errno()).filter(|&errno| errno > 0).unwrap_or(libc::EIO),
            Self::Cuda { source, .. } => of_cuda(source.kind()),
            Self::Null { .. }
            | Self::Value { .. }
            | Self::MemoryType { .. }
            | Self::Flags { .. }
            | Self::Misaligned { .. }
            | Self::Bytes { .. }
            | Self::Range { .. }
            | Self::Count { .. }
            | Self::Impossible { .. }
            | Self::Scattered { .. }
            | Self::NotOurs => libc::EINVAL,
        }
    }
}

impl From<engine::cpu::Undone<NotReached>> for Refusal {
    fn from(undone: engine::cpu::Undone<NotReached>) -> Self {
        match undone {
            engine::cpu::Undone::Word(never) => match never {},
            // Without patience no wait is late.
            engine::cpu::Undone::Late { .. } => Self::Panicked,
        }
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
