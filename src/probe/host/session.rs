//! Resources that all parts of the task share.

use gpu::{Allocation, DeviceMemory, Gpu, HostMemory, PinnedOptions, Stream};

use super::task::Task;
pub use crate::model::figure::Direction;
pub use crate::model::figure::host::HostMemoryKind;
use crate::probe::depth::VERIFIED;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::Seeds;
use crate::probe::lanes::Gate;
use crate::probe::sampling::Budget;
use crate::probe::verdict::{Promise, Subject};

/// From this size on the link limits the bandwidth.
pub(super) const LIMITED_BY_LINK: usize = 16 << 20;
/// From this size on the bandwidth is reported.
pub(super) const MIN_BANDWIDTH_SIZE: usize = 4 << 10;

pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    /// The stream under test.
    pub stream: Stream,
    /// The stream of the other direction.
    pub back: Stream,
    /// A stream that fills and compares, and runs none of the copies.
    pub witness: Stream,
    pub gate: Gate,
    /// As large as the largest copy.
    pub memory: DeviceMemory,
    pub sizes: Vec<usize>,
    pub about: Subject,
    pub seeds: Seeds,
}

impl<'a> Session<'a> {
    pub fn new(task: &'a Task, gpu: Gpu, reporter: &mut Reporter<'_>) -> Result<Self, StepError> {
        let depth_sizes = task.terms.depth.host_sizes();
        let sizes = task.terms.sizes_or(depth_sizes, gpu.is_sim());
        reporter.doing("streams and the kernels")?;
        let [stream, back, witness] = [gpu.stream()?, gpu.stream()?, gpu.stream()?];
        let gate = Gate::new(&gpu)?;
        let largest = sizes.last().copied().unwrap_or(4);
        reporter.doing(format!("{largest} bytes of its memory"))?;
        let memory = gpu.allocate(Allocation::Malloc, buffer_size(largest).max(VERIFIED))?;
        Ok(Self {
            about: task.target.about(task.target.cuda(), task.numa()),
            task,
            gpu,
            stream,
            back,
            witness,
            gate,
            memory,
            sizes,
            seeds: Seeds::default(),
        })
    }

    pub fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(4)
    }

    pub fn budget(&self) -> Budget {
        self.task.terms.depth.host_point()
    }

    /// The link's rate, if copies of `bytes` reach it.
    pub fn promise(&self, bytes: usize) -> Option<Promise> {
        let link = self.task.target.link.filter(|_| bytes >= LIMITED_BY_LINK)?;
        Some(Promise::of_link(link, self.task.terms.shares.pci_express))
    }
}

/// The buffer for a copy: whole words of 16 bytes, and two of them for both directions at once.
pub(super) fn buffer_size(bytes: usize) -> usize {
    bytes.next_multiple_of(16).max(32)
}

impl HostMemoryKind {
    pub fn allocate(self, gpu: &Gpu, bytes: usize) -> Result<HostMemory, gpu::Error> {
        match self {
            Self::Pageable => gpu.pageable(bytes),
            Self::Pinned => gpu.pinned(bytes),
            Self::Registered => gpu.registered(bytes),
            Self::WriteCombined => gpu.pinned_with(bytes, PinnedOptions { write_combined: true }),
        }
    }
}

impl Direction {
    /// Queues a copy between two (buffer, offset) places.
    pub fn copy(
        self,
        stream: &Stream,
        device: (&DeviceMemory, usize),
        host: (&HostMemory, usize),
        bytes: usize,
    ) -> Result<(), gpu::Error> {
        match self {
            Self::ToGpu => stream.upload(device.0, device.1, host.0, host.1, bytes),
            Self::FromGpu => stream.download(host.0, host.1, device.0, device.1, bytes),
        }
    }
}
