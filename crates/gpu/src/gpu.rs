use std::sync::Arc;

use crate::backend::{Backend, Context, Peer};
use crate::cuda::CudaGpu;
use crate::host::PinnedOptions;
use crate::sim::{Faults, SimGpu};
use crate::{
    Allocation, Attribute, Device, DeviceMemory, Error, Event, HostMemory, PeerAccess, Stream,
};

/// A GPU with its primary or current context, or a simulated GPU. Clones share it; derived objects
/// keep it open.
///
/// ```
/// use gpu::{Allocation, Gpu};
///
/// let gpu = Gpu::sim();
/// let memory = gpu.allocate(Allocation::Malloc, 4096)?;
/// let stream = gpu.stream()?;
/// stream.write(&memory, 16, b"hello")?;
/// let mut seen = [0; 5];
/// stream.read(&memory, 16, &mut seen)?;
/// assert_eq!(&seen, b"hello");
/// # Ok::<(), gpu::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gpu(Arc<dyn Backend>);

/// How CPU threads wait for a GPU (`CU_CTX_SCHED_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// CUDA's choice, or what the program set before.
    #[default]
    Auto,
    /// They poll.
    Spin,
    /// They poll, and let other threads run.
    Yield,
    /// They sleep until an interrupt.
    Blocking,
}

impl Gpu {
    /// Opens a GPU by its CUDA ordinal in this process. Retains its primary context, shared with
    /// the CUDA runtime (creation takes 105 ms on H200), until the last user is dropped. Calls
    /// preserve the thread's current context.
    ///
    /// # Errors
    ///
    /// [`Error::Library`], [`Error::Initialise`], [`Error::Device`], [`Error::Context`].
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        Self::open_with(ordinal, Schedule::Auto)
    }

    /// [`Self::open`] with the way in which CPU threads wait for the GPU. It applies to all users
    /// of the primary context.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; [`Error::Schedule`].
    pub fn open_with(ordinal: u32, schedule: Schedule) -> Result<Self, Error> {
        Ok(Self(Arc::new(CudaGpu::open(ordinal, schedule)?)))
    }

    /// Uses the calling thread's current context without retaining it. Calls fail once the program
    /// destroys that context. For libraries in another program's process; see
    /// [`mod@crate::foreign`].
    ///
    /// # Errors
    ///
    /// [`Error::NoCurrentContext`]; [`Error::Library`], [`Error::Initialise`], [`Error::Device`].
    pub fn current() -> Result<Self, Error> {
        Ok(Self(Arc::new(CudaGpu::current()?)))
    }

    /// Creates a simulated GPU; see [`sim`](crate::sim).
    #[must_use]
    pub fn sim() -> Self {
        Self(Arc::new(SimGpu::new(None)))
    }

    /// Creates a simulated GPU whose streams corrupt host-device copies, device-device copies and
    /// [`Stream::copy_words`] deterministically. Fills, other kernels and memory operations stay
    /// correct.
    #[must_use]
    pub fn sim_with(faults: Faults) -> Self {
        Self(Arc::new(SimGpu::new(Some(faults))))
    }

    /// True for a simulated GPU.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        self.device().simulated
    }

    /// True if both are the same open GPU.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Device properties.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// Runs `work` while this GPU's context is current on this thread, as in a program that uses this
    /// GPU, and restores the previous one.
    ///
    /// # Errors
    ///
    /// [`Error::Context`].
    pub fn with_current<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        let _current = self.0.make_current()?;
        Ok(work())
    }

    /// CUDA version the driver supports, as 1000 × major + 10 × minor.
    ///
    /// # Errors
    ///
    /// [`Error::Initialise`].
    pub fn driver_version(&self) -> Result<i32, Error> {
        self.0.driver_version()
    }

    /// Reads an attribute; `None` if the driver does not know it.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn attribute(&self, attribute: Attribute) -> Result<Option<i32>, Error> {
        self.device().attribute(attribute)
    }

    /// Number of multiprocessors.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn multiprocessors(&self) -> Result<u32, Error> {
        let count = self.attribute(Attribute::MULTIPROCESSOR_COUNT)?;
        // At least one, even if the driver returns a missing or invalid count.
        Ok(count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1))
    }

    /// True if this GPU can access `other`'s memory directly (`cuDeviceCanAccessPeer`); false for
    /// itself.
    ///
    /// # Errors
    ///
    /// [`Error::Peer`].
    pub fn can_access(&self, other: &Self) -> Result<bool, Error> {
        self.0.can_access(other.peer())
    }

    /// Enables direct access to `other`'s memory for kernels and copies (`cuCtxEnablePeerAccess`),
    /// until the result is dropped and streams that used it are synchronised. One direction only.
    /// See [`PeerAccess`].
    ///
    /// # Errors
    ///
    /// [`Error::Peer`]: [`Kind::Unsupported`](crate::Kind::Unsupported) if [`Self::can_access`] is
    /// false.
    pub fn access(&self, other: &Self) -> Result<PeerAccess, Error> {
        PeerAccess::new(self.clone(), other.clone())
    }

    /// Free and total memory in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Context`].
    pub fn memory_info(&self) -> Result<(u64, u64), Error> {
        self.0.memory_info()
    }

    /// Allocates device memory.
    ///
    /// # Errors
    ///
    /// [`Error::Allocate`]; [`Error::Empty`] for no bytes.
    pub fn allocate(&self, kind: Allocation, bytes: usize) -> Result<DeviceMemory, Error> {
        nonempty(bytes)?;
        let block = self.0.allocate(kind, bytes)?;
        Ok(DeviceMemory::new(self.clone(), block))
    }

    /// Allocates zeroed pinned host memory, mapped for the GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Pin`]; [`Error::Empty`] for no bytes.
    pub fn pinned(&self, bytes: usize) -> Result<HostMemory, Error> {
        self.pinned_with(bytes, PinnedOptions::default())
    }

    /// [`Self::pinned`] with options.
    ///
    /// # Errors
    ///
    /// As [`Self::pinned`].
    pub fn pinned_with(&self, bytes: usize, options: PinnedOptions) -> Result<HostMemory, Error> {
        nonempty(bytes)?;
        HostMemory::pinned(self.clone(), bytes, options)
    }

    /// Allocates zeroed host pages and registers them with the GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Pages`], [`Error::Register`]; [`Error::Empty`] for no bytes.
    pub fn registered(&self, bytes: usize) -> Result<HostMemory, Error> {
        nonempty(bytes)?;
        HostMemory::registered(self.clone(), bytes)
    }

    /// Allocates zeroed pageable host memory, populated at first write. Only [`Stream::upload`] and
    /// [`Stream::download`] accept it; CUDA stages those copies through pinned memory.
    ///
    /// # Errors
    ///
    /// [`Error::Pages`]; [`Error::Empty`] for no bytes.
    pub fn pageable(&self, bytes: usize) -> Result<HostMemory, Error> {
        nonempty(bytes)?;
        HostMemory::pageable(self.clone(), bytes)
    }

    /// Creates a stream, which does not synchronise with the legacy default stream.
    ///
    /// # Errors
    ///
    /// [`Error::Stream`].
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self.clone())
    }

    /// Creates an event with timing.
    ///
    /// # Errors
    ///
    /// [`Error::Event`].
    pub fn event(&self) -> Result<Event, Error> {
        Event::new(self.clone())
    }

    /// Loads the kernels now; otherwise the first launch loads them and may wait for running work.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`].
    pub fn load_kernels(&self) -> Result<(), Error> {
        self.0.load_kernels()
    }

    /// Makes inbound third-party PCIe writes visible to this GPU, or to all GPUs
    /// (`cuFlushGPUDirectRDMAWrites`).
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`]; [`Kind::Unsupported`](crate::Kind::Unsupported) according to the
    /// device attribute.
    pub fn flush_remote_writes(&self, to_all_devices: bool) -> Result<(), Error> {
        self.0.flush_remote_writes(to_all_devices)
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    pub(crate) fn context(&self) -> Context {
        self.0.context()
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer { ordinal: self.device().ordinal, context: self.context(), simulated: self.is_sim() }
    }
}

fn nonempty(bytes: usize) -> Result<(), Error> {
    if bytes == 0 { Err(Error::Empty) } else { Ok(()) }
}
