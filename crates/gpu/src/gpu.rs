//! A GPU in use.

use std::sync::Arc;

use crate::backend::{Backend, Context, Peer};
use crate::cuda::CudaGpu;
use crate::host::PinnedOptions;
use crate::sim::{Faults, SimGpu};
use crate::{
    Allocation, Attribute, Device, DeviceMemory, Error, Event, HostMemory, PeerAccess, Stream,
};

/// One GPU and its primary context, or a simulated one. Clones are the same GPU; what is made from it keeps it open.
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

impl Gpu {
    /// A real GPU, by CUDA's number of it in this process. Its primary context, which the CUDA runtime uses too, is retained
    /// (made if nobody has it yet: 105 ms on an H200) and released when the last user of this is
    /// dropped. A thread's current context is left as it was by every call.
    ///
    /// # Errors
    ///
    /// [`Error::Library`], [`Error::Initialise`], [`Error::Device`], [`Error::Context`].
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        Ok(Self(Arc::new(CudaGpu::open(ordinal)?)))
    }

    /// The GPU of the calling thread's current context, by that context, which is the program's own: nothing is retained, and once the
    /// program has ended it, calls are refused. For libraries that live in other people's processes; see [`mod@crate::foreign`].
    ///
    /// # Errors
    ///
    /// [`Error::NoCurrentContext`]; [`Error::Library`], [`Error::Initialise`], [`Error::Device`].
    pub fn current() -> Result<Self, Error> {
        Ok(Self(Arc::new(CudaGpu::current()?)))
    }

    /// A simulated GPU; see [`sim`](crate::sim). Each call makes another.
    #[must_use]
    pub fn sim() -> Self {
        Self(Arc::new(SimGpu::new(None)))
    }

    /// A simulated GPU whose copies go wrong, the same way each time: those between host and device memory, those between device
    /// memories, and [`Stream::copy_words`], by its streams. Fills, the other kernels and memory operations do what they should.
    #[must_use]
    pub fn sim_with(faults: Faults) -> Self {
        Self(Arc::new(SimGpu::new(Some(faults))))
    }

    /// Whether it is a simulated one.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        self.device().simulated
    }

    /// Whether both are the same open GPU.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// 1000 × major + 10 × minor of the newest CUDA its driver serves.
    ///
    /// # Errors
    ///
    /// [`Error::Initialise`].
    pub fn driver_version(&self) -> Result<i32, Error> {
        self.0.driver_version()
    }

    /// An attribute; `None` if the driver is older than it.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn attribute(&self, attribute: Attribute) -> Result<Option<i32>, Error> {
        self.device().attribute(attribute)
    }

    /// How many multiprocessors it has.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn multiprocessors(&self) -> Result<u32, Error> {
        let count = self.attribute(Attribute::MULTIPROCESSOR_COUNT)?;
        // A GPU that says nothing, or nonsense, has one all the same.
        Ok(count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1)
            .max(1))
    }

    /// Whether its kernels and copies could reach the other's memory directly (`cuDeviceCanAccessPeer`); of itself, CUDA says no.
    ///
    /// # Errors
    ///
    /// [`Error::Peer`].
    pub fn can_access(&self, other: &Self) -> Result<bool, Error> {
        self.0.can_access(other.peer())
    }

    /// Lets its kernels and copies reach the other's memory directly, until the result is dropped and streams that used it are
    /// synchronised (`cuCtxEnablePeerAccess`). The other way round is another access. See [`PeerAccess`].
    ///
    /// # Errors
    ///
    /// [`Error::Peer`]: [`Kind::Unsupported`](crate::Kind::Unsupported) where [`Self::can_access`] says no.
    pub fn access(&self, other: &Self) -> Result<PeerAccess, Error> {
        PeerAccess::new(self.clone(), other.clone())
    }

    /// Bytes of its memory: free, and in all.
    ///
    /// # Errors
    ///
    /// [`Error::Context`].
    pub fn memory_info(&self) -> Result<(u64, u64), Error> {
        self.0.memory_info()
    }

    /// Device memory of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Allocate`]; [`Error::Empty`] for no bytes.
    pub fn allocate(&self, kind: Allocation, bytes: usize) -> Result<DeviceMemory, Error> {
        nonempty(bytes)?;
        let block = self.0.allocate(kind, bytes)?;
        Ok(DeviceMemory::new(self.clone(), block))
    }

    /// Pinned host memory of `bytes` bytes, zeroed, mapped into the GPU's address space.
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

    /// Ordinary zeroed pages of our own, registered with the GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Pages`], [`Error::Register`]; [`Error::Empty`] for no bytes.
    pub fn registered(&self, bytes: usize) -> Result<HostMemory, Error> {
        nonempty(bytes)?;
        HostMemory::registered(self.clone(), bytes)
    }

    /// Ordinary zeroed pages of our own, which the GPU knows nothing of: [`Stream::upload`] and [`Stream::download`] use them, CUDA
    /// carrying the bytes through pinned memory of its own, and nothing else does. A page is there once it is first written.
    ///
    /// # Errors
    ///
    /// [`Error::Pages`]; [`Error::Empty`] for no bytes.
    pub fn pageable(&self, bytes: usize) -> Result<HostMemory, Error> {
        nonempty(bytes)?;
        HostMemory::pageable(self.clone(), bytes)
    }

    /// A stream, ordered by nothing but itself (not by the legacy default stream either).
    ///
    /// # Errors
    ///
    /// [`Error::Stream`].
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self.clone())
    }

    /// An event, with time stamps.
    ///
    /// # Errors
    ///
    /// [`Error::Event`].
    pub fn event(&self) -> Result<Event, Error> {
        Event::new(self.clone())
    }

    /// Loads the kernels, which otherwise happens at the first launch and may wait for running work.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`].
    pub fn load_kernels(&self) -> Result<(), Error> {
        self.0.load_kernels()
    }

    /// Makes writes of third parties that arrived over PCIe visible to this GPU, or to all GPUs (`cuFlushGPUDirectRDMAWrites`).
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`]; [`Kind::Unsupported`](crate::Kind::Unsupported) where the device attribute says so.
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
        Peer {
            ordinal: self.device().ordinal,
            context: self.context(),
            simulated: self.is_sim(),
        }
    }
}

fn nonempty(bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        Err(Error::Empty)
    } else {
        Ok(())
    }
}
