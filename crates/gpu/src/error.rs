//! Errors: one variant for each operation, with the driver's result as source, and [`Kind`] to
//! classify them.

use gdr_sys::cuda::{CuResult, OpenError};

use crate::{DevicePtr, memory::Allocation};

/// Error of a GPU operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The CUDA driver library is missing or cannot be loaded.
    #[error(transparent)]
    Library(#[from] OpenError),
    /// `cuInit` failed.
    #[error("cannot initialise CUDA")]
    Initialise(#[source] Failure),
    /// The driver cannot count the GPUs.
    #[error("cannot count the GPUs")]
    Count(#[source] Failure),
    /// The properties of a GPU cannot be read.
    #[error("cannot read GPU {ordinal}")]
    Device {
        /// CUDA ordinal.
        ordinal: u32,
        /// Driver result.
        source: Failure,
    },
    /// An attribute of a GPU cannot be read.
    #[error("cannot read attribute {attribute} of GPU {ordinal}")]
    Attribute {
        /// CUDA ordinal.
        ordinal: u32,
        /// `CUdevice_attribute`.
        attribute: u32,
        /// Driver result.
        source: Failure,
    },
    /// The GPU's context cannot be retained or made current.
    #[error("cannot use the context of GPU {ordinal}")]
    Context {
        /// CUDA ordinal.
        ordinal: u32,
        /// Driver result.
        source: Failure,
    },
    /// The way in which threads wait for the GPU cannot be set.
    #[error("cannot set how threads wait for GPU {ordinal}")]
    Schedule {
        /// CUDA ordinal.
        ordinal: u32,
        /// Driver result.
        source: Failure,
    },
    /// The calling thread has no current context, or the context is corrupted.
    #[error("the calling thread has no usable CUDA context: make one current first")]
    NoCurrentContext(#[source] Failure),
    /// Peer access is unsupported or not enabled.
    #[error("GPU {from} has no access to the memory of GPU {to}")]
    Peer {
        /// CUDA ordinal of the accessing GPU.
        from: u32,
        /// CUDA ordinal of the GPU that owns the memory.
        to: u32,
        /// Driver result, or the result the driver would return for work rejected before the call.
        source: Failure,
    },
    /// Device memory allocation failed.
    #[error("cannot allocate {bytes} bytes of device memory ({kind})")]
    Allocate {
        /// Kind of memory.
        kind: Allocation,
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// Device memory cannot be freed.
    #[error("cannot free the device memory at {address}")]
    Free {
        /// Start address.
        address: DevicePtr,
        /// Driver result.
        source: Failure,
    },
    /// The memory to free is still in use.
    #[error("the device memory at {address} is still in use: {holders} other holders")]
    Held {
        /// Start address.
        address: DevicePtr,
        /// Number of clones, mappings and streams that hold the memory.
        holders: usize,
    },
    /// Pinned host memory allocation failed.
    #[error("cannot allocate {bytes} bytes of pinned host memory")]
    Pin {
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// Host memory cannot be registered with the GPU.
    #[error("cannot register {bytes} bytes of host memory at {address:#x} with the GPU")]
    Register {
        /// Start address.
        address: usize,
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// Host memory cannot be unregistered.
    #[error("cannot unregister the host memory at {address:#x}")]
    Unregister {
        /// Start address.
        address: usize,
        /// Driver result.
        source: Failure,
    },
    /// Host memory that spans several registrations, so it has no single device address range.
    #[error(
        "{bytes} bytes of host memory at {address:#x} have several registrations with separate device addresses"
    )]
    Scattered {
        /// Start address.
        address: usize,
        /// Size in bytes.
        bytes: usize,
    },
    /// Host memory that is neither pinned nor registered.
    #[error("the host memory at {address:#x} has no device address")]
    HostAddress {
        /// Host address.
        address: usize,
        /// Driver result.
        source: Failure,
    },
    /// Host pages cannot be mapped.
    #[error("cannot allocate {bytes} bytes of host memory")]
    Pages {
        /// Size in bytes.
        bytes: usize,
        /// Operating system error.
        source: std::io::Error,
    },
    /// A stream cannot be created.
    #[error("cannot create a stream")]
    Stream(#[source] Failure),
    /// An event cannot be created or queried.
    #[error("cannot use an event")]
    Event(#[source] Failure),
    /// Earlier work in a stream failed, or the GPU did.
    #[error("the work of a stream failed")]
    Synchronize(#[source] Failure),
    /// A copy was rejected.
    #[error("cannot copy {bytes} bytes to or from {address}")]
    Copy {
        /// Device address.
        address: DevicePtr,
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// A fill was rejected.
    #[error("cannot fill {bytes} bytes at {address}")]
    Fill {
        /// Start address.
        address: DevicePtr,
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// A batch of stream memory operations was rejected.
    #[error("cannot enqueue {count} stream memory operations")]
    MemoryOperations {
        /// Number of operations.
        count: usize,
        /// Driver result.
        source: Failure,
    },
    /// A kernel cannot be loaded or launched.
    #[error("cannot run the kernel {name}")]
    Kernel {
        /// Kernel name.
        name: &'static str,
        /// Driver result.
        source: Failure,
    },
    /// CUDA does not know this address.
    #[error("{address} is not an address of CUDA memory")]
    Describe {
        /// Address.
        address: DevicePtr,
        /// Driver result.
        source: Failure,
    },
    /// The GPU of this address has no active context in this process.
    #[error("{address} belongs to GPU {ordinal}, which has no active context in this process")]
    NoContext {
        /// Address.
        address: DevicePtr,
        /// CUDA ordinal of its GPU.
        ordinal: u32,
    },
    /// The memory has no IPC handle because `cuMemAlloc` did not allocate it.
    #[error("cannot get an IPC handle of the memory at {address}")]
    IpcHandle {
        /// Address.
        address: DevicePtr,
        /// Driver result.
        source: Failure,
    },
    /// The mapping has no allocation handle because `cuMemCreate` did not allocate it.
    #[error("cannot get the allocation handle of the memory at {address}")]
    AllocationHandle {
        /// Address.
        address: DevicePtr,
        /// Driver result.
        source: Failure,
    },
    /// The memory was not created as exportable to a file descriptor.
    #[error("cannot export the memory at {address} as a file descriptor")]
    ExportFd {
        /// Address.
        address: DevicePtr,
        /// Driver result.
        source: Failure,
    },
    /// The range cannot be exported as dma-buf.
    #[error("cannot export {bytes} bytes at {address} as a dma-buf")]
    DmaBuf {
        /// Start address.
        address: DevicePtr,
        /// Size in bytes.
        bytes: usize,
        /// Driver result.
        source: Failure,
    },
    /// The range is outside the memory.
    #[error("invalid range: bytes {offset}..{} of {size} bytes", u128::from(*.offset) + *.bytes as u128)]
    Range {
        /// Start offset in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: usize,
        /// Memory size in bytes.
        size: usize,
    },
    /// A word or a range of words is misaligned.
    #[error("invalid address: {address} is not a multiple of {alignment}")]
    Misaligned {
        /// Address, offset or length.
        address: u64,
        /// Required alignment.
        alignment: usize,
    },
    /// Pageable host memory used where the GPU needs a device address.
    #[error("pageable host memory has no device address: use it for uploads and downloads only")]
    Pageable,
    /// The pointer-chase list has an unsupported size.
    #[error("invalid list size: {bytes} bytes; must be a power of two from 8 bytes to 2 GiB")]
    List {
        /// List size in bytes.
        bytes: usize,
    },
    /// The block number exceeds the number of multiprocessors.
    #[error(
        "invalid block: {block}; the GPU runs {multiprocessors} blocks, one per multiprocessor"
    )]
    Block {
        /// Block number.
        block: u32,
        /// Number of multiprocessors.
        multiprocessors: u32,
    },
    /// Zero-size allocation.
    #[error("invalid allocation size: 0 bytes")]
    Empty,
    /// Objects of different GPUs, or of simulated and real GPUs, were mixed.
    #[error("the {0} belongs to another GPU than the stream")]
    Foreign(&'static str),
    /// Host memory that a stream may still read or write.
    #[error("a stream may still use this host memory: synchronise the stream first")]
    InUse,
    /// A stream did not finish before the timeout.
    #[error("the stream did not finish in {waited:?}: {state}")]
    Timeout {
        /// Time waited.
        waited: std::time::Duration,
        /// Known state of the stream.
        state: String,
    },
    /// The check result is invalid: data is lost between GPU memory and the host.
    #[error(
        "invalid kernel result for {words} words: {count:#x} mismatches from word {position:#x}"
    )]
    Finding {
        /// Mismatch count that was read.
        count: u64,
        /// Mismatch position that was read.
        position: u64,
        /// Number of words checked.
        words: u64,
    },
    /// Work that never runs because its stream was dropped or waits for such work.
    #[error("abandoned: {0}")]
    Abandoned(String),
    /// An operating system call for a simulated GPU failed.
    #[error("the simulated GPU cannot {what}")]
    Simulation {
        /// Operation that failed.
        what: &'static str,
        /// Operating system error.
        source: std::io::Error,
    },
}

/// Class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The library or GPU does not exist.
    Absent,
    /// Permission denied.
    Denied,
    /// Not supported by this driver or GPU.
    Unsupported,
    /// In use or unfinished.
    Busy,
    /// Invalid request.
    Invalid,
    /// Out of memory.
    OutOfMemory,
    /// Failure of the driver, the GPU or this program.
    Broken,
}

/// Failure of one driver function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The driver is older than the function.
    #[error("this driver has no {function}")]
    Missing {
        /// Function name in `cuda.h`.
        function: &'static str,
    },
    /// The function returned an error.
    #[error("{function}: {result}")]
    Returned {
        /// Function name in `cuda.h`.
        function: &'static str,
        /// Returned result.
        result: CuResult,
    },
}

impl Failure {
    /// Result of the function, if the driver has it.
    #[must_use]
    pub fn result(&self) -> Option<CuResult> {
        match *self {
            Self::Missing { .. } => None,
            Self::Returned { result, .. } => Some(result),
        }
    }

    /// Class of this failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.result().map_or(Kind::Unsupported, kind_of)
    }
}

impl Error {
    /// Class of this error.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Library(OpenError::Absent(_)) => Kind::Absent,
            Self::Library(_) => Kind::Broken,
            Self::Held { .. } | Self::InUse | Self::Timeout { .. } => Kind::Busy,
            Self::Pages { source, .. } | Self::Simulation { source, .. } => match source.kind() {
                std::io::ErrorKind::OutOfMemory => Kind::OutOfMemory,
                std::io::ErrorKind::PermissionDenied => Kind::Denied,
                _ => Kind::Broken,
            },
            Self::NoContext { .. } => Kind::Unsupported,
            Self::Range { .. }
            | Self::Misaligned { .. }
            | Self::Pageable
            | Self::List { .. }
            | Self::Block { .. }
            | Self::Empty
            | Self::Foreign(_) => Kind::Invalid,
            Self::Abandoned(_) | Self::Finding { .. } => Kind::Broken,
            _ => self.failure().map_or(Kind::Broken, Failure::kind),
        }
    }

    /// Driver failure behind this error, if any.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        std::error::Error::source(self).and_then(|source| source.downcast_ref())
    }
}

fn kind_of(result: CuResult) -> Kind {
    match result {
        CuResult::OUT_OF_MEMORY => Kind::OutOfMemory,
        CuResult::NO_DEVICE | CuResult::STUB_LIBRARY => Kind::Absent,
        CuResult::NOT_PERMITTED | CuResult::DEVICE_NOT_LICENSED => Kind::Denied,
        CuResult::NOT_SUPPORTED
        | CuResult::CALL_REQUIRES_NEWER_DRIVER
        | CuResult::COMPAT_NOT_SUPPORTED_ON_DEVICE
        | CuResult::UNSUPPORTED_PTX_VERSION
        | CuResult::NO_BINARY_FOR_GPU
        | CuResult::PEER_ACCESS_UNSUPPORTED
        | CuResult::JIT_COMPILATION_DISABLED
        | CuResult::JIT_COMPILER_NOT_FOUND => Kind::Unsupported,
        CuResult::DEVICE_UNAVAILABLE
        | CuResult::NOT_READY
        | CuResult::SYSTEM_NOT_READY
        | CuResult::TOO_MANY_PEERS => Kind::Busy,
        // Stream capture errors: retry after capture ends.
        CuResult(900..=908) => Kind::Busy,
        CuResult::INVALID_VALUE
        | CuResult::INVALID_DEVICE
        | CuResult::INVALID_CONTEXT
        | CuResult::INVALID_HANDLE
        | CuResult::NOT_FOUND
        | CuResult::ALREADY_MAPPED
        | CuResult::NOT_MAPPED
        | CuResult::PEER_ACCESS_NOT_ENABLED
        | CuResult::HOST_MEMORY_ALREADY_REGISTERED
        | CuResult::HOST_MEMORY_NOT_REGISTERED => Kind::Invalid,
        _ => Kind::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn returned(code: u32) -> Failure {
        Failure::Returned { function: "cuX", result: CuResult(code) }
    }

    #[test]
    fn codes_have_kinds() {
        // Values from cuda.h.
        for (code, kind) in [
            (2, Kind::OutOfMemory),
            (100, Kind::Absent),
            (800, Kind::Denied),
            (801, Kind::Unsupported),
            (906, Kind::Busy),
            (217, Kind::Unsupported),
            (705, Kind::Invalid),
            (711, Kind::Busy),
            (1, Kind::Invalid),
            (719, Kind::Broken),
            (4711, Kind::Broken),
        ] {
            assert_eq!(returned(code).kind(), kind, "{code}");
        }
    }

    #[test]
    fn message_and_source() {
        let error =
            Error::DmaBuf { address: DevicePtr::new(0x1000), bytes: 4096, source: returned(801) };
        assert_eq!(error.to_string(), "cannot export 4096 bytes at 0x1000 as a dma-buf");
        assert_eq!(error.source().unwrap().to_string(), "cuX: CUDA_ERROR_NOT_SUPPORTED (801)");
        assert_eq!(error.kind(), Kind::Unsupported);
    }

    #[test]
    fn unknown_code_keeps_number() {
        assert_eq!(returned(4711).to_string(), "cuX: CUDA error 4711");
    }

    #[test]
    fn range_shows_end() {
        let error = Error::Range { offset: u64::MAX, bytes: 2, size: 8 };
        assert_eq!(
            error.to_string(),
            "invalid range: bytes 18446744073709551615..18446744073709551617 of 8 bytes"
        );
    }
}
