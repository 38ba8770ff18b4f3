//! Errors, one variant for each operation, and their errno values for C callers.

use std::io;

use gdr_sys::rm::Status;
use gpu::DevicePtr;
pub use gpu::Kind;

use crate::gdr::{BackendKind, Explanation};
use crate::mapping::{MapRequest, MappingType};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No backend works on this machine.
    #[error("no backend can map GPU memory here:{}", listed(explanations))]
    NoBackend {
        /// What each backend lacks.
        explanations: Vec<Explanation>,
    },
    /// `GDR_BACKEND` is not a backend name.
    #[error("invalid GDR_BACKEND: {name:?}; must be gdrdrv, dmabuf, rm or sim")]
    BackendName {
        /// Its value.
        name: String,
    },
    /// The requested backend does not work here.
    #[error("backend {backend}: {why}")]
    Refused {
        /// Backend.
        backend: BackendKind,
        /// What is missing, and the fix.
        why: String,
        /// Class of this error.
        kind: Kind,
    },
    /// A range is empty or outside its memory or mapping.
    #[error("invalid range: {length} bytes at offset {offset} of {available} bytes")]
    Range {
        /// Offset of the first byte.
        offset: usize,
        /// Length in bytes.
        length: usize,
        /// Available bytes.
        available: usize,
    },
    /// An access is not aligned to its size.
    #[error("an access of {size} bytes at {address:#x} is not aligned to its size")]
    Alignment {
        /// CPU address.
        address: usize,
        /// Access size in bytes.
        size: usize,
    },
    /// The address is not GPU memory of this process.
    #[error("{address} is not GPU memory of this process")]
    Address {
        /// Address.
        address: DevicePtr,
    },
    /// This backend cannot map this kind of GPU memory.
    #[error("memory at {address}: {why}")]
    Memory {
        /// Address.
        address: DevicePtr,
        /// Reason.
        why: String,
    },
    /// The backend does not support a flag.
    #[error("{what} is not supported by backend {backend}")]
    Flag {
        /// Flag.
        what: &'static str,
        /// Backend.
        backend: BackendKind,
    },
    /// The pin is already mapped.
    #[error("this pin is already mapped: drop the mapping first")]
    AlreadyMapped,
    /// The driver offers a different caching than requested.
    #[error("cannot map this memory as {requested:?}: it maps as {offered}")]
    MappingType {
        /// Requested caching.
        requested: MapRequest,
        /// Available caching.
        offered: MappingType,
    },
    /// A CUDA call failed.
    #[error("cannot {operation}")]
    Cuda {
        /// Operation that failed.
        operation: &'static str,
        /// CUDA error.
        #[source]
        source: gpu::Error,
    },
    /// A resource manager call failed.
    #[error("cannot {operation}: {status}{}", meaning(advice))]
    Rm {
        /// Operation that failed.
        operation: &'static str,
        /// RM status.
        status: Status,
        /// Meaning and fix; may be empty.
        advice: &'static str,
    },
    /// An operating system call failed.
    #[error("cannot {operation}")]
    System {
        /// Operation that failed.
        operation: String,
        /// Operating system error.
        #[source]
        source: io::Error,
    },
    /// The mapping would exceed the limit of BAR1, the GPU's PCIe window.
    #[error(
        "{wanted} bytes do not fit the GPU's BAR1: this process has mapped {mapped} of {limit} usable bytes"
    )]
    Bar1 {
        /// Requested bytes.
        wanted: u64,
        /// Bytes already mapped.
        mapped: u64,
        /// Bytes that this process may map.
        limit: u64,
    },
    /// The CPU mapping and the GPU read different data at the same address; the mapping was
    /// removed.
    #[error(
        "the mapping shows other memory: at {address} the GPU reads {expected:02x?}, the CPU {found:02x?}"
    )]
    Verification {
        /// Address.
        address: DevicePtr,
        /// Data read by the GPU.
        expected: [u8; 8],
        /// Data read by the CPU.
        found: [u8; 8],
    },
    /// The GPU no longer responds.
    #[error("the GPU is lost: {sign}; look for an Xid in the kernel log")]
    GpuLost {
        /// Symptom that showed it.
        sign: &'static str,
    },
    /// Used in a forked child: pins and mappings belong to the process that created them.
    #[error("this belongs to the parent process: a forked child must open, pin and map anew")]
    Forked,
    /// The environment requests unavailable copy functions.
    #[error(transparent)]
    CopyKernel(crate::copy::Error),
    /// The pinned memory was freed.
    #[error("the memory was freed and the pin revoked")]
    Revoked,
}

impl Error {
    /// Class of this error.
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
            Self::Cuda { source, .. } => source.kind(),
            Self::Rm { status, .. } => of_status(*status),
            Self::System { source, .. } => of_system(source),
            Self::Bar1 { .. } => Kind::OutOfMemory,
            Self::Verification { .. } | Self::GpuLost { .. } => Kind::Broken,
            Self::Forked => Kind::Denied,
        }
    }

    /// Positive errno for C callers, with the meanings of gdrcopy's API.
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
            // gdrcopy returns EINVAL for memory it cannot pin, and callers check for that.
            Kind::Unsupported | Kind::Invalid => libc::EINVAL,
            Kind::Busy => libc::EAGAIN,
            Kind::OutOfMemory => libc::ENOMEM,
            Kind::Broken => libc::EIO,
        }
    }
}

fn listed(explanations: &[Explanation]) -> String {
    explanations.iter().fold(String::new(), |text, explanation| {
        text + &format!("\n  {}: {}", explanation.backend, explanation.why)
    })
}

fn meaning(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!(" ({advice})") }
}

/// Denied if any backend exists but is forbidden, because the user can fix that.
fn worst(explanations: &[Explanation]) -> Kind {
    if explanations.iter().any(|explanation| explanation.denied) {
        Kind::Denied
    } else {
        Kind::Absent
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
