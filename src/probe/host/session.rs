//! What every part of the work needs: a GPU, two streams, a gate, and a buffer as large as the largest copy.

use gpu::{Allocation, DeviceMemory, Gpu, HostMemory, PinnedOptions, Stream};

use super::task::Task;
use crate::probe::depth::{SIMULATED, VERIFIED};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::Seeds;
use crate::probe::lanes::Gate;
use crate::probe::sampling::Budget;
use crate::probe::verdict::{Promise, Subject};

/// From this size on the link is what limits.
pub(super) const LIMITED_BY_LINK: usize = 16 << 20;
/// From this size on bandwidth is a figure worth having.
pub(super) const WORTH: usize = 4 << 10;

/// The GPU under the probe.
pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    /// The stream under test, and that of the other direction.
    pub stream: Stream,
    pub back: Stream,
    /// A stream that does none of the work, and compares.
    pub witness: Stream,
    pub gate: Gate,
    pub memory: DeviceMemory,
    pub sizes: Vec<usize>,
    pub about: Subject,
    pub seeds: Seeds,
}

impl<'a> Session<'a> {
    pub fn new(task: &'a Task, gpu: Gpu, reporter: &mut Reporter<'_>) -> Result<Self, StepError> {
        let mut sizes = match task.terms.sizes.is_empty() {
            true => task.terms.depth.host_sizes(),
            false => task.terms.sizes.clone(),
        };
        if gpu.is_sim() && task.terms.sizes.is_empty() {
            sizes.retain(|size| *size <= SIMULATED);
        }
        reporter.doing("streams and the kernels")?;
        let streams = [gpu.stream()?, gpu.stream()?, gpu.stream()?];
        let [stream, back, witness] = streams;
        let gate = Gate::new(&gpu)?;
        let largest = sizes.last().copied().unwrap_or(4);
        reporter.doing(format!("{largest} bytes of its memory"))?;
        let memory = gpu.allocate(Allocation::Malloc, room(largest).max(VERIFIED))?;
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

    /// What one figure may cost.
    pub fn budget(&self) -> Budget {
        self.task.terms.depth.host_point()
    }

    /// What the link promises a copy of so many bytes.
    pub fn promise(&self, bytes: usize) -> Option<Promise> {
        let link = self.task.target.link.filter(|_| bytes >= LIMITED_BY_LINK)?;
        Some(Promise {
            value: link as f64 / 1e9,
            share: self.task.terms.shares.pci_express,
        })
    }
}

/// Room for a copy: whole words, two for both directions at once.
pub(super) fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(16).max(32)
}

/// A sort of host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemoryKind {
    /// Ordinary: CUDA copies it through memory of its own.
    Pageable,
    Pinned,
    /// Ordinary, registered by cuMemHostRegister.
    Registered,
    WriteCombined,
}

impl HostMemoryKind {
    pub const ALL: [Self; 4] = [
        Self::Pageable,
        Self::Pinned,
        Self::Registered,
        Self::WriteCombined,
    ];

    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::WriteCombined => "write-combined",
        }
    }

    pub fn take(self, gpu: &Gpu, bytes: usize) -> Result<HostMemory, gpu::Error> {
        match self {
            Self::Pageable => gpu.pageable(bytes),
            Self::Pinned => gpu.pinned(bytes),
            Self::Registered => gpu.registered(bytes),
            Self::WriteCombined => gpu.pinned_with(
                bytes,
                PinnedOptions {
                    write_combined: true,
                },
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the GPU.
    ToGpu,
    /// From the GPU to the host.
    FromGpu,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::ToGpu, Self::FromGpu];

    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToGpu => "h2d",
            Self::FromGpu => "d2h",
        }
    }

    /// Puts a copy in, from the start of one to the start of the other.
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
