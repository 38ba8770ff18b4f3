//! What can go wrong: a variant an operation, the driver's own answer as its source, and [`Kind`] for those who only need to
//! know what sort of trouble it is.

use gdr_sys::cuda::{CuResult, OpenError};

use crate::{DevicePtr, memory::Allocation};

/// What went wrong, and with what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver library, or it cannot be loaded.
    #[error(transparent)]
    Library(#[from] OpenError),
    /// `cuInit` refused.
    #[error("the CUDA driver does not start")]
    Initialise(#[source] Failure),
    /// The driver does not say how many GPUs there are.
    #[error("the GPUs cannot be counted")]
    Count(#[source] Failure),
    /// A GPU cannot be asked what it is.
    #[error("GPU {ordinal} cannot be read")]
    Device {
        /// CUDA's number of it.
        ordinal: u32,
        /// What the driver said.
        source: Failure,
    },
    /// An attribute of a GPU cannot be read.
    #[error("attribute {attribute} of GPU {ordinal} cannot be read")]
    Attribute {
        /// CUDA's number of the GPU.
        ordinal: u32,
        /// `CUdevice_attribute`.
        attribute: u32,
        /// What the driver said.
        source: Failure,
    },
    /// The GPU's context cannot be had or made current.
    #[error("the context of GPU {ordinal} cannot be used")]
    Context {
        /// CUDA's number of the GPU.
        ordinal: u32,
        /// What the driver said.
        source: Failure,
    },
    /// The calling thread has no current context, or a broken one.
    #[error("the calling thread has no CUDA context that can be used: make one current first")]
    NoCurrentContext(#[source] Failure),
    /// One GPU cannot reach another's memory, or has not been let.
    #[error("GPU {from} has no access to the memory of GPU {to}")]
    Peer {
        /// CUDA's number of the GPU that reaches.
        from: u32,
        /// CUDA's number of the GPU whose memory it is.
        to: u32,
        /// What the driver said, or what it would have said of work that was refused before it was asked.
        source: Failure,
    },
    /// Device memory was refused.
    #[error("{bytes} bytes of device memory ({kind}) cannot be allocated")]
    Allocate {
        /// What sort of memory.
        kind: Allocation,
        /// How much.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// Device memory cannot be given back.
    #[error("the device memory at {address} cannot be freed")]
    Free {
        /// Where it starts.
        address: DevicePtr,
        /// What the driver said.
        source: Failure,
    },
    /// Somebody still uses the memory that was to be freed.
    #[error("the device memory at {address} is still in use: {holders} other holders")]
    Held {
        /// Where it starts.
        address: DevicePtr,
        /// How many clones, mappings and streams hold it.
        holders: usize,
    },
    /// Pinned host memory was refused.
    #[error("{bytes} bytes of pinned host memory cannot be allocated")]
    Pin {
        /// How much.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// Host memory cannot be registered with the GPU.
    #[error("{bytes} bytes of host memory at {address:#x} cannot be registered with the GPU")]
    Register {
        /// Where they start.
        address: usize,
        /// How many.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// A registration of host memory cannot be ended.
    #[error("the registration of host memory at {address:#x} cannot be ended")]
    Unregister {
        /// Where it starts.
        address: usize,
        /// What the driver said.
        source: Failure,
    },
    /// Host memory of several registrations, which the GPU sees apart.
    #[error(
        "{bytes} bytes of host memory at {address:#x} are of several registrations, which the GPU sees apart"
    )]
    Scattered {
        /// Where they start.
        address: usize,
        /// How many.
        bytes: usize,
    },
    /// Host memory that no GPU sees: it is neither pinned nor registered.
    #[error("the host memory at {address:#x} has no device address")]
    HostAddress {
        /// The address asked about.
        address: usize,
        /// What the driver said.
        source: Failure,
    },
    /// Host pages of our own were refused.
    #[error("{bytes} bytes of host memory cannot be had")]
    Pages {
        /// How many.
        bytes: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A stream cannot be made.
    #[error("a stream cannot be made")]
    Stream(#[source] Failure),
    /// An event cannot be made or asked.
    #[error("an event cannot be used")]
    Event(#[source] Failure),
    /// Earlier work of a stream failed, or the GPU did.
    #[error("the work of a stream failed")]
    Synchronize(#[source] Failure),
    /// A copy was refused.
    #[error("{bytes} bytes cannot be copied to or from {address}")]
    Copy {
        /// The device's side.
        address: DevicePtr,
        /// How many.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// A fill was refused.
    #[error("{bytes} bytes at {address} cannot be filled")]
    Fill {
        /// Where they start.
        address: DevicePtr,
        /// How many.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// A batch of stream memory operations was refused.
    #[error("a batch of {count} stream memory operations was refused")]
    MemoryOperations {
        /// How many there were.
        count: usize,
        /// What the driver said.
        source: Failure,
    },
    /// A kernel cannot be loaded or launched.
    #[error("the kernel {name} cannot be run")]
    Kernel {
        /// Its name.
        name: &'static str,
        /// What the driver said.
        source: Failure,
    },
    /// CUDA knows nothing of this address.
    #[error("{address} is no address CUDA knows")]
    Describe {
        /// The address.
        address: DevicePtr,
        /// What the driver said.
        source: Failure,
    },
    /// The GPU of this address has no context in this process that we could use without making one.
    #[error("{address} belongs to GPU {ordinal}, which has no active context in this process")]
    NoContext {
        /// The address.
        address: DevicePtr,
        /// CUDA's number of its GPU.
        ordinal: u32,
    },
    /// The memory cannot be shared by an IPC handle: it is not `cuMemAlloc`'s.
    #[error("there is no IPC handle for the memory at {address}")]
    IpcHandle {
        /// The address.
        address: DevicePtr,
        /// What the driver said.
        source: Failure,
    },
    /// The allocation behind a mapping cannot be had: it is not `cuMemCreate`'s.
    #[error("there is no allocation handle for the memory at {address}")]
    AllocationHandle {
        /// The address.
        address: DevicePtr,
        /// What the driver said.
        source: Failure,
    },
    /// The memory was not made to be exported as a file descriptor.
    #[error("the memory at {address} cannot be exported as a file descriptor")]
    ExportFd {
        /// The address.
        address: DevicePtr,
        /// What the driver said.
        source: Failure,
    },
    /// There is no dma-buf of this range.
    #[error("there is no dma-buf of {bytes} bytes at {address}")]
    DmaBuf {
        /// Where the range starts.
        address: DevicePtr,
        /// How long it is.
        bytes: usize,
        /// What the driver said.
        source: Failure,
    },
    /// A range that is not inside the memory it was asked of.
    #[error("bytes {offset}..{} are not inside {size} bytes", u128::from(*.offset) + *.bytes as u128)]
    Range {
        /// Where it starts.
        offset: u64,
        /// How long it is.
        bytes: usize,
        /// How much memory there is.
        size: usize,
    },
    /// A word that is not at a multiple of its size, or a range of words that is not.
    #[error("{address} is not a multiple of {alignment}")]
    Misaligned {
        /// The address, offset or length.
        address: u64,
        /// What it must be a multiple of.
        alignment: usize,
    },
    /// Pageable host memory where the GPU needs an address of its own for it.
    #[error("pageable host memory has no device address: only uploads and downloads use it")]
    Pageable,
    /// A list that a kernel is to follow, of another size than it can.
    #[error(
        "a list that a kernel follows has a power of two of bytes, from 8 to 2 GiB, and this one has {bytes}"
    )]
    List {
        /// Its bytes.
        bytes: usize,
    },
    /// A block that no multiprocessor runs.
    #[error(
        "there is no block {block}: the GPU has {multiprocessors} multiprocessors, and as many blocks"
    )]
    Block {
        /// Its number.
        block: u32,
        /// How many there are.
        multiprocessors: u32,
    },
    /// Nothing was asked for.
    #[error("an allocation of no bytes")]
    Empty,
    /// Objects of a simulated and of a real GPU, or of two GPUs, were mixed.
    #[error("the {0} belongs to another GPU than the stream")]
    Foreign(&'static str),
    /// Host memory that a stream may still read or write.
    #[error("a stream may still use this host memory: synchronise the stream first")]
    InUse,
    /// A stream did not finish in time.
    #[error("the stream did not finish in {waited:?}: {state}")]
    Timeout {
        /// How long it was waited for.
        waited: std::time::Duration,
        /// What is known of what it does.
        state: String,
    },
    /// The result of a check is none: something between the GPU's memory and the host loses what is copied.
    #[error(
        "what a kernel found in {words} words did not come back: {count:#x} words from {position:#x} on cannot be"
    )]
    Finding {
        /// The count that was read.
        count: u64,
        /// The position that was read.
        position: u64,
        /// How many words were looked at.
        words: u64,
    },
    /// Work that will never be done, because its stream was dropped or waits for such work.
    #[error("abandoned: {0}")]
    Abandoned(String),
    /// The operating system refused what a simulated GPU needs.
    #[error("the simulated GPU cannot {what}")]
    Simulation {
        /// What it was about to do.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// What sort of trouble an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is no such library or GPU.
    Absent,
    /// Not permitted.
    Denied,
    /// This driver or GPU cannot do it.
    Unsupported,
    /// Not now: something is in use or unfinished.
    Busy,
    /// The request makes no sense.
    Invalid,
    /// Not enough memory.
    OutOfMemory,
    /// Something is out of order, in the driver, the GPU or here.
    Broken,
}

/// One driver function's answer, when it was not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The driver is older than the function.
    #[error("this driver has no {function}")]
    Missing {
        /// Its name in `cuda.h`.
        function: &'static str,
    },
    /// It returned this.
    #[error("{function}: {result}")]
    Returned {
        /// Its name in `cuda.h`.
        function: &'static str,
        /// What it returned.
        result: CuResult,
    },
}

impl Failure {
    /// What the function returned, if it was there.
    #[must_use]
    pub fn result(&self) -> Option<CuResult> {
        match *self {
            Self::Missing { .. } => None,
            Self::Returned { result, .. } => Some(result),
        }
    }

    /// What sort of trouble it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.result().map_or(Kind::Unsupported, kind_of)
    }
}

impl Error {
    /// What sort of trouble it is.
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

    /// The driver's answer behind this, if a driver was asked.
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
        // Capture: not while a graph is being recorded.
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
        Failure::Returned {
            function: "cuX",
            result: CuResult(code),
        }
    }

    #[test]
    fn codes_are_sorted_by_what_a_caller_can_do() {
        // The numbers are cuda.h's.
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
    fn an_error_says_what_failed_and_its_source_what_the_driver_said() {
        let error = Error::DmaBuf {
            address: DevicePtr::new(0x1000),
            bytes: 4096,
            source: returned(801),
        };
        assert_eq!(
            error.to_string(),
            "there is no dma-buf of 4096 bytes at 0x1000"
        );
        assert_eq!(
            error.source().unwrap().to_string(),
            "cuX: CUDA_ERROR_NOT_SUPPORTED (801)"
        );
        assert_eq!(error.kind(), Kind::Unsupported);
    }

    #[test]
    fn an_unknown_code_keeps_its_number() {
        assert_eq!(returned(4711).to_string(), "cuX: CUDA error 4711");
    }

    #[test]
    fn a_range_past_the_end_shows_its_end() {
        let error = Error::Range {
            offset: u64::MAX,
            bytes: 2,
            size: 8,
        };
        assert_eq!(
            error.to_string(),
            "bytes 18446744073709551615..18446744073709551617 are not inside 8 bytes"
        );
    }
}
