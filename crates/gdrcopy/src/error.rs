//! What can go wrong, one variant an operation, and the errno a C caller gets for it.

use std::io;

use gdr_sys::rm::Status;
use gpu::DevicePtr;

use crate::gdr::{BackendKind, Explanation};
use crate::mapping::{MapRequest, MappingType};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No backend works on this machine.
    #[error("no way to map GPU memory here:{}", listed(explanations))]
    NoBackend {
        /// What each backend lacks.
        explanations: Vec<Explanation>,
    },
    /// `GDR_BACKEND` holds no backend's name.
    #[error("GDR_BACKEND={name} names no backend: gdrdrv, dmabuf, rm or sim")]
    BackendName {
        /// What it holds.
        name: String,
    },
    /// A backend was asked for by name and does not work here.
    #[error("backend {backend}: {why}")]
    Refused {
        /// The backend.
        backend: BackendKind,
        /// What it lacks and what to do.
        why: String,
        /// The group of this error.
        kind: Kind,
    },
    /// A range that is empty or leaves the memory or mapping it is of.
    #[error("{length} bytes at offset {offset} are not within {available} bytes, or are none")]
    Range {
        /// First byte.
        offset: usize,
        /// Bytes.
        length: usize,
        /// Bytes there are.
        available: usize,
    },
    /// An access whose address is no multiple of its size.
    #[error("an access of {size} bytes at {address:#x} is not aligned to its size")]
    Alignment {
        /// The CPU address.
        address: usize,
        /// Bytes of the access.
        size: usize,
    },
    /// An address that is no GPU memory of this process.
    #[error("{address} is no GPU memory of this process")]
    Address {
        /// The address.
        address: DevicePtr,
    },
    /// GPU memory of a sort that this backend does not map.
    #[error("memory at {address}: {why}")]
    Memory {
        /// The address.
        address: DevicePtr,
        /// What is wrong with it.
        why: String,
    },
    /// A flag the backend does not know or cannot honour.
    #[error("{what} is not supported by backend {backend}")]
    Flag {
        /// The flag.
        what: &'static str,
        /// The backend.
        backend: BackendKind,
    },
    /// A pin takes one mapping at a time.
    #[error("this pin is mapped already: drop the mapping first")]
    AlreadyMapped,
    /// The driver gave another caching than asked for.
    #[error("{asked:?} was asked for; this memory maps as {offered}")]
    MappingType {
        /// What was asked for.
        asked: MapRequest,
        /// What there is.
        offered: MappingType,
    },
    /// CUDA refused.
    #[error("cannot {operation}")]
    Cuda {
        /// What was tried.
        operation: &'static str,
        /// CUDA's answer.
        #[source]
        source: gpu::Error,
    },
    /// The resource manager refused.
    #[error("cannot {operation}: {status}{}", meaning(advice))]
    Rm {
        /// What was tried.
        operation: &'static str,
        /// Its answer.
        status: Status,
        /// What that means here, and what to do; may be empty.
        advice: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// More memory mapped than BAR1, the window of the GPU, should hold.
    #[error(
        "{wanted} bytes do not fit the GPU's BAR1: {mapped} of {limit} usable bytes are mapped by this process"
    )]
    Bar1 {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes mapped already.
        mapped: u64,
        /// Bytes this process may map.
        limit: u64,
    },
    /// The mapping did not show what the GPU reads at the same place: it was taken down and not handed out.
    #[error(
        "the mapping shows other memory and was refused: at {address} the GPU reads {expected:02x?}, the CPU {found:02x?}"
    )]
    Verification {
        /// Where.
        address: DevicePtr,
        /// What the GPU reads.
        expected: [u8; 8],
        /// What the CPU read.
        found: [u8; 8],
    },
    /// The GPU does not answer any more.
    #[error("the GPU is lost: {sign}; see the kernel's log for an Xid")]
    GpuLost {
        /// By what it was seen.
        sign: &'static str,
    },
    /// Used in a forked child: pins and mappings belong to the process that made them.
    #[error(
        "this belongs to the parent process: after fork a child opens, pins and maps for itself"
    )]
    Forked,
    /// The copy functions cannot be chosen as the environment asks.
    #[error(transparent)]
    CopyKernel(crate::copy::Error),
    /// The memory was freed under the pin.
    #[error("the memory was freed and the pin revoked")]
    Revoked,
}

/// The group of an error: what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A device, module or library is not there.
    Absent,
    /// It is there and this process may not.
    Denied,
    /// Nobody may: driver, GPU or sort of memory cannot.
    Unsupported,
    /// Not now.
    Busy,
    /// The caller's mistake.
    Invalid,
    /// A resource is used up.
    OutOfMemory,
    /// Hardware or driver failed.
    Broken,
}

impl Error {
    /// The group of this error.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoBackend { explanations } => worst(explanations),
            Self::Refused { kind, .. } => *kind,
            Self::BackendName { .. }
            | Self::Range { .. }
            | Self::Alignment { .. }
            | Self::Address { .. }
            | Self::Flag { .. }
            | Self::MappingType { .. }
            | Self::CopyKernel(_)
            | Self::Revoked => Kind::Invalid,
            Self::Memory { .. } => Kind::Unsupported,
            Self::AlreadyMapped => Kind::Busy,
            Self::Cuda { source, .. } => of_cuda(source.kind()),
            Self::Rm { status, .. } => of_status(*status),
            Self::System { source, .. } => of_system(source),
            Self::Bar1 { .. } => Kind::OutOfMemory,
            Self::Verification { .. } | Self::GpuLost { .. } => Kind::Broken,
            Self::Forked => Kind::Denied,
        }
    }

    /// The positive errno of this error for a C caller, in the terms of gdrcopy's API.
    pub fn errno(&self) -> i32 {
        if let Self::System { source, .. } = self
            && let Some(errno) = source.raw_os_error()
            && errno > 0
        {
            return errno;
        }
        match self.kind() {
            Kind::Absent => libc::ENODEV,
            Kind::Denied => libc::EACCES,
            // gdrcopy answers EINVAL for memory it cannot pin; callers look for that.
            Kind::Unsupported | Kind::Invalid => libc::EINVAL,
            Kind::Busy => libc::EAGAIN,
            Kind::OutOfMemory => libc::ENOMEM,
            Kind::Broken => libc::EIO,
        }
    }
}

fn listed(explanations: &[Explanation]) -> String {
    explanations
        .iter()
        .fold(String::new(), |text, explanation| {
            text + &format!("\n  {}: {}", explanation.backend, explanation.why)
        })
}

fn meaning(advice: &str) -> String {
    if advice.is_empty() {
        String::new()
    } else {
        format!(" ({advice})")
    }
}

/// Denied where any backend was there and not allowed: that is what the user can change.
fn worst(explanations: &[Explanation]) -> Kind {
    if explanations.iter().any(|explanation| explanation.denied) {
        Kind::Denied
    } else {
        Kind::Absent
    }
}

fn of_cuda(kind: gpu::Kind) -> Kind {
    match kind {
        gpu::Kind::Absent => Kind::Absent,
        gpu::Kind::Denied => Kind::Denied,
        gpu::Kind::Unsupported => Kind::Unsupported,
        gpu::Kind::Busy => Kind::Busy,
        gpu::Kind::Invalid => Kind::Invalid,
        gpu::Kind::OutOfMemory => Kind::OutOfMemory,
        _ => Kind::Broken,
    }
}

fn of_status(status: Status) -> Kind {
    match status {
        Status::INSUFFICIENT_PERMISSIONS | Status::INVALID_CLIENT => Kind::Denied,
        Status::NO_MEMORY | Status::INSUFFICIENT_RESOURCES => Kind::OutOfMemory,
        Status::NOT_SUPPORTED | Status::INVALID_PARAMETERS_SIZE | Status::INVALID_OBJECT_PARENT => {
            Kind::Unsupported
        }
        Status::OBJECT_NOT_FOUND | Status::INVALID_OBJECT_HANDLE | Status::RESOURCE_LOST => {
            Kind::Invalid
        }
        Status::IN_USE | Status::STATE_IN_USE => Kind::Busy,
        _ => Kind::Broken,
    }
}

fn of_system(error: &io::Error) -> Kind {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Kind::Absent,
        Some(libc::EACCES | libc::EPERM) => Kind::Denied,
        Some(libc::EINVAL) => Kind::Invalid,
        Some(libc::EAGAIN | libc::EBUSY) => Kind::Busy,
        Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Kind::OutOfMemory,
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::ENOSYS | 524) => Kind::Unsupported,
        _ => Kind::Broken,
    }
}
