//! What a GPU must be able to do to be one: the trait behind [`Gpu`](crate::Gpu), served by CUDA and by the simulation.
//!
//! The safe types above see to ranges, alignment and lifetimes; what reaches a backend is plain.

use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

use crate::memory::Held;
use crate::operation::Step;
use crate::{Allocation, Device, DevicePtr, Error, Pattern};

/// A GPU, real or not.
///
/// # Safety
///
/// An implementation touches memory only as the work it was given says, and no longer than until a `synchronize` that comes
/// after, or a `destroy_stream` that did not answer [`Destroyed::StillRunning`], returns; or holds that memory itself.
pub(crate) unsafe trait Backend: Send + Sync + fmt::Debug {
    fn device(&self) -> &Device;
    /// Which context; what has the same is the same GPU's, however often that was opened.
    fn context(&self) -> Context;
    fn driver_version(&self) -> Result<i32, Error>;
    /// Has the kernels ready, so that a launch loads nothing.
    fn load_kernels(&self) -> Result<(), Error>;
    /// Bytes free and in all.
    fn memory_info(&self) -> Result<(u64, u64), Error>;
    fn flush_remote_writes(&self, to_all_devices: bool) -> Result<(), Error>;

    /// Whether this GPU can reach that one's memory; never its own.
    fn can_access(&self, other: Peer) -> Result<bool, Error>;
    /// Lets this GPU reach that one's memory; false if somebody else in the process has done so already.
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
    /// Where the GPU sees what was registered from `start` on.
    fn host_address(&self, start: NonNull<u8>) -> Result<DevicePtr, Error>;

    fn create_stream(&self) -> Result<StreamHandle, Error>;
    fn destroy_stream(&self, stream: StreamHandle) -> Destroyed;
    fn is_idle(&self, stream: StreamHandle) -> Result<bool, Error>;
    /// What the stream does, for a person.
    fn state(&self, stream: StreamHandle) -> String;
    fn synchronize(&self, stream: StreamHandle) -> Result<(), Error>;
    /// # Safety
    ///
    /// All memory the work names stays valid until the stream is done with it.
    unsafe fn enqueue(&self, stream: StreamHandle, work: Work<'_>) -> Result<(), Error>;

    fn create_event(&self) -> Result<EventHandle, Error>;
    fn destroy_event(&self, event: EventHandle);
    fn event_is_done(&self, event: EventHandle) -> Result<bool, Error>;
    fn synchronize_event(&self, event: EventHandle) -> Result<(), Error>;
    fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Duration, Error>;
}

/// A backend's own number of a context: unique among all open ones of the process. Of CUDA, the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Context(pub u64);

/// Another GPU, for a question or a request that names two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub ordinal: u32,
    pub context: Context,
    pub simulated: bool,
}

/// Device memory as a backend gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub address: DevicePtr,
    /// As asked for.
    pub bytes: usize,
    /// As taken.
    pub reserved: usize,
    pub kind: Allocation,
}

/// Pinned host memory as a backend gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostBlock {
    pub start: NonNull<u8>,
    pub device: DevicePtr,
    pub bytes: usize,
}

/// What host memory is registered as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Registration {
    /// Ordinary memory.
    #[default]
    Memory,
    /// Ordinary memory that the GPU only reads.
    ReadOnly,
    /// Another device's registers, mapped by their driver.
    Registers,
}

/// A backend's own number of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StreamHandle(pub u64);

/// A backend's own number of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EventHandle(pub u64);

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum Destroyed {
    /// All its work was done.
    Finished,
    /// The rest of its work will not be done.
    Abandoned(Error),
    /// It still runs, unseen: what it uses must not be given back.
    StillRunning(Error),
}

/// One thing for a stream to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    HostToDevice {
        to: DevicePtr,
        from: *const u8,
        bytes: usize,
        /// What keeps `to`, here and below.
        keeper: &'a Held,
    },
    DeviceToHost {
        to: *mut u8,
        from: DevicePtr,
        bytes: usize,
        /// `None`: lent until the caller has synchronised, and no longer.
        keeper: Option<&'a Held>,
    },
    DeviceToDevice {
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        keeper: &'a Held,
    },
    /// From the memory of one GPU to another's, whether one reaches the other or not.
    PeerToPeer {
        to: DevicePtr,
        to_context: Context,
        from: DevicePtr,
        from_context: Context,
        bytes: usize,
        keeper: &'a Held,
    },
    /// As `DeviceToHost`, of what a kernel found: what makes the copies of a simulated GPU go wrong leaves this alone.
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
    Operations(&'a [Step]),
    Launch(Kernel),
    /// The kernel of that name: a copy of whole vectors of 16 bytes.
    CopyWords {
        to: DevicePtr,
        from: DevicePtr,
        vectors: u64,
        keeper: &'a Held,
    },
}

/// One of the kernels of `kernels.ptx`, but for `copy_words`, with its parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernel {
    PingPong {
        flag: DevicePtr,
        reply: DevicePtr,
        rounds: u32,
        limit: Duration,
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
        /// Set to 2³² times `mark` and `u64::MAX` before the kernel runs.
        result: DevicePtr,
        /// What tells a result from zeros, and from what an earlier check left.
        mark: u32,
    },
    Chase {
        list: DevicePtr,
        /// The offset of the first word.
        start: u32,
        hops: u32,
        block: u32,
        result: DevicePtr,
        /// The bytes of the list, a power of two, less 8.
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
}

impl Kernel {
    /// Its name in `kernels.ptx`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PingPong { .. } => "ping_pong",
            Self::FillPattern { .. } => "fill_pattern",
            Self::CheckPattern { .. } => "check_pattern",
            Self::Chase { .. } => "chase",
            Self::Hold { .. } => "hold",
            Self::Ping { .. } => "ping",
        }
    }
}
