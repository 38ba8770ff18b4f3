//! The trait behind [`Gpu`](crate::Gpu), implemented by CUDA and by the simulation.
//!
//! The safe types above check ranges, alignment and lifetimes; backends take raw values.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

use crate::memory::Held;
use crate::{Allocation, Batches, Device, DevicePtr, Error, MemOp, Pattern};

/// Real or simulated GPU.
///
/// # Safety
///
/// An implementation accesses memory only as its work specifies, and stops when a later `synchronize`
/// returns, or a `destroy_stream` returns other than [`Destroyed::StillRunning`]; or it holds that
/// memory itself.
pub(crate) unsafe trait Backend: Send + Sync + fmt::Debug {
    fn device(&self) -> &Device;
    /// Context; GPUs opened repeatedly share it.
    fn context(&self) -> Context;
    /// Makes the context current on this thread until the result is dropped.
    fn make_current(&self) -> Result<Box<dyn Any>, Error>;
    fn driver_version(&self) -> Result<i32, Error>;
    /// Loads the kernels, so launches load nothing.
    fn load_kernels(&self) -> Result<(), Error>;
    /// Free and total bytes.
    fn memory_info(&self) -> Result<(u64, u64), Error>;
    fn flush_remote_writes(&self, to_all_devices: bool) -> Result<(), Error>;

    /// True if this GPU can access `other`'s memory; false for itself.
    fn can_access(&self, other: Peer) -> Result<bool, Error>;
    /// Enables access to `other`'s memory; false if it was already enabled elsewhere in the
    /// process.
    fn enable_access(&self, other: Peer) -> Result<bool, Error>;
    fn disable_access(&self, other: Peer);

    fn allocate(&self, kind: Allocation, bytes: usize) -> Result<Block, Error>;
    fn free(&self, block: Block) -> Result<(), Error>;

    fn allocate_host(&self, bytes: usize, write_combined: bool) -> Result<HostBlock, Error>;
    fn free_host(&self, block: HostBlock);
    /// # Safety
    ///
    /// `start` is valid for `bytes` bytes until `unregister`.
    unsafe fn register(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        how: Registration,
    ) -> Result<DevicePtr, Error>;
    fn unregister(&self, start: NonNull<u8>);
    /// Device address of memory registered from `start`.
    fn host_address(&self, start: NonNull<u8>) -> Result<DevicePtr, Error>;

    fn create_stream(&self) -> Result<StreamHandle, Error>;
    fn destroy_stream(&self, stream: StreamHandle) -> Destroyed;
    fn is_idle(&self, stream: StreamHandle) -> Result<bool, Error>;
    /// Human-readable stream state.
    fn state(&self, stream: StreamHandle) -> String;
    fn synchronize(&self, stream: StreamHandle) -> Result<(), Error>;
    /// # Safety
    ///
    /// All memory that the work names stays valid until the stream finishes with it.
    unsafe fn enqueue(&self, stream: StreamHandle, work: Work<'_>) -> Result<(), Error>;

    fn create_event(&self) -> Result<EventHandle, Error>;
    fn destroy_event(&self, event: EventHandle);
    fn event_is_done(&self, event: EventHandle) -> Result<bool, Error>;
    fn synchronize_event(&self, event: EventHandle) -> Result<(), Error>;
    fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Duration, Error>;
}

/// Context handle, unique among the open contexts of the process; CUDA's own handle for a real GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Context(pub u64);

/// The other GPU in a request that names two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub ordinal: u32,
    pub context: Context,
    pub simulated: bool,
}

/// Device memory allocated by a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub address: DevicePtr,
    /// Requested size.
    pub bytes: usize,
    /// Allocated size.
    pub reserved: usize,
    pub kind: Allocation,
}

/// Pinned host memory allocated by a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostBlock {
    pub start: NonNull<u8>,
    pub device: DevicePtr,
    pub bytes: usize,
}

/// How host memory is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Registration {
    /// Ordinary memory.
    #[default]
    Memory,
    /// Memory that the GPU only reads.
    ReadOnly,
    /// Another device's registers, mapped by its driver.
    Registers,
}

/// Backend stream handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StreamHandle(pub u64);

/// Backend event handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EventHandle(pub u64);

/// Result of destroying a stream.
#[derive(Debug)]
pub(crate) enum Destroyed {
    /// All work is done.
    Finished,
    /// The remaining work will not run.
    Abandoned(Error),
    /// Still running: its resources must not be freed.
    StillRunning(Error),
}

/// One stream operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    HostToDevice {
        to: DevicePtr,
        from: *const u8,
        bytes: usize,
        /// Keeps `to` alive, here and below.
        keeper: &'a Held,
    },
    DeviceToHost {
        to: *mut u8,
        from: DevicePtr,
        bytes: usize,
        /// `None`: borrowed until the caller has synchronised.
        keeper: Option<&'a Held>,
    },
    DeviceToDevice {
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        keeper: &'a Held,
    },
    /// Between two GPUs' memory, with or without peer access.
    PeerToPeer {
        to: DevicePtr,
        to_context: Context,
        from: DevicePtr,
        from_context: Context,
        bytes: usize,
        keeper: &'a Held,
    },
    /// Like `DeviceToHost`, for a kernel's result: simulated copy faults do not affect it.
    Finding {
        to: *mut u8,
        from: DevicePtr,
        bytes: usize,
    },
    FillBytes {
        to: DevicePtr,
        value: u8,
        bytes: usize,
    },
    FillWords {
        to: DevicePtr,
        value: u32,
        words: usize,
    },
    Record(EventHandle),
    Wait(EventHandle),
    Operations(&'a [MemOp<DevicePtr>]),
    /// The `perform` kernel.
    Perform(Perform<'a>),
    Launch(Kernel),
    /// The `copy_words` kernel, in 16-byte vectors.
    CopyWords {
        to: DevicePtr,
        from: DevicePtr,
        vectors: u64,
        keeper: &'a Held,
    },
}

/// Operations of the `perform` kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Perform<'a> {
    pub ops: &'a [MemOp<DevicePtr>],
    /// The same, as the kernel reads them.
    pub list: DevicePtr,
    pub result: DevicePtr,
    pub limit: Duration,
}

/// Kernels of `kernels.ptx` except `copy_words` and `perform`, with their parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernel {
    PingPong {
        flag: DevicePtr,
        reply: DevicePtr,
        rounds: u32,
        limit: Duration,
    },
    PingPongData {
        flags: DevicePtr,
        replies: DevicePtr,
        rounds: u32,
        limit: Duration,
        data: DevicePtr,
        words: u64,
        blocks: u32,
        threads: u32,
        /// The kernel `ping_data`, whose blocks write the data.
        writes: bool,
    },
    FillPattern {
        to: DevicePtr,
        words: u64,
        pattern: Pattern,
        first: u64,
    },
    CheckPattern {
        from: DevicePtr,
        words: u64,
        pattern: Pattern,
        first: u64,
        /// Set to 2³² × `mark` and `u64::MAX` before the kernel runs.
        result: DevicePtr,
        /// Distinguishes the result from zeros and from earlier results.
        mark: u32,
    },
    Chase {
        list: DevicePtr,
        /// Offset of the first word.
        start: u32,
        hops: u32,
        block: u32,
        result: DevicePtr,
        /// List size in bytes, a power of two, minus 8.
        mask: u32,
    },
    Hold {
        gate: DevicePtr,
        limit: Duration,
    },
    Ping {
        ours: DevicePtr,
        theirs: DevicePtr,
        rounds: u32,
        limit: Duration,
    },
    /// The kernel of `post.ptx`.
    Post {
        queues: DevicePtr,
        count: u32,
        batches: Batches,
    },
}

impl Kernel {
    /// Kernel name in `kernels.ptx`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PingPong { .. } => "ping_pong",
            Self::PingPongData { writes: false, .. } => "ping_pong_data",
            Self::PingPongData { writes: true, .. } => "ping_data",
            Self::FillPattern { .. } => "fill_pattern",
            Self::CheckPattern { .. } => "check_pattern",
            Self::Chase { .. } => "chase",
            Self::Hold { .. } => "hold",
            Self::Ping { .. } => "ping",
            Self::Post { .. } => "post_requests",
        }
    }
}
