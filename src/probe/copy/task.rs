//! The task of a child of `gdr probe copy`.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::probe::sampling::Budget;
use crate::probe::scope::Binding;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// The NUMA node to bind to, and its CPUs; `None`: not bound.
    pub node: Option<Binding>,
    /// Measure copies through the mapping only: nothing else depends on the node.
    pub sweep_only: bool,
    /// The only backend to use, by name.
    pub backend: Option<String>,
    pub terms: Terms,
    pub choices: Choices,
}

/// What to measure, and with which memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The tests to run, by name; empty: those that run by default.
    pub tests: Vec<String>,
    /// What allocates the buffers of the measurements.
    pub allocator: Allocator,
    /// How they are mapped.
    pub mapping: MappingChoice,
    /// Offset of the copies in the buffer.
    pub offset: usize,
    /// Number of runs of each copy, call and round trip; `None`: until the median is known.
    pub iterations: Option<u32>,
    /// The GPU writes the buffer before each copy through the mapping.
    pub cold: bool,
    pub round_trips: RoundTrips,
}

/// Round trips between the CPU and a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    pub producer: Producer,
    /// Where the word is that the CPU writes.
    pub flag: MemoryLocation,
    /// Where the word is that the kernel writes.
    pub reply: MemoryLocation,
    /// Round trips with data, after those without.
    pub data: Option<DataRounds>,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            producer: Producer::Cpu,
            flag: MemoryLocation::Gpu,
            reply: MemoryLocation::Host,
            data: None,
        }
    }
}

/// Who writes the data of a round trip, and begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Producer {
    /// The CPU writes, and the kernel answers.
    Cpu,
    /// The kernel writes, and the CPU answers.
    Gpu,
}

/// Memory of a word or of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum MemoryLocation {
    /// GPU memory, through the mapping.
    Gpu,
    /// Pinned host memory.
    Host,
}

/// Round trips with data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRounds {
    /// A multiple of 4.
    pub bytes: usize,
    pub place: MemoryLocation,
    /// Blocks of the kernel.
    pub blocks: Option<u32>,
    /// Threads per block.
    pub threads: u32,
}

/// Function that allocates GPU memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Allocator {
    /// As cudaMalloc does.
    #[default]
    #[value(name = "cuMemAlloc")]
    Malloc,
    /// With a mapping of its own.
    #[value(name = "cuMemCreate")]
    Create,
    /// A pool of cuMemAllocFromPoolAsync that can be exported.
    // No backend maps memory of other pools.
    Pool,
}

/// Requested memory type of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum MappingChoice {
    /// The backend's choice.
    #[default]
    Default,
    /// Write-combined.
    #[value(name = "wc")]
    WriteCombined,
    /// Cached, on GPUs with NVLink-C2C.
    #[value(name = "cache")]
    Cached,
    /// Uncached, stores are not combined.
    Device,
}

impl Task {
    /// Limits for one point of a sweep.
    pub fn point(&self) -> Budget {
        self.limit(self.terms.depth.point())
    }

    /// Limits for the timing of the calls, for each size.
    pub fn calls(&self) -> Budget {
        self.limit(self.terms.depth.calls())
    }

    /// Maximum number of round trips with a kernel.
    pub fn round_trips(&self) -> u32 {
        let rounds = self.choices.iterations;
        rounds.unwrap_or_else(|| self.terms.depth.round_trips())
    }

    /// The sizes for the timing of the calls.
    pub fn call_sizes(&self) -> Vec<usize> {
        self.terms.sizes_or(self.terms.depth.call_sizes().to_vec(), false)
    }

    /// With `--iterations`, exactly that number of runs.
    fn limit(&self, budget: Budget) -> Budget {
        Budget { runs: self.choices.iterations, ..budget }
    }

    /// Time in which a measurement within this budget ends, if a run takes at most `run`.
    pub fn time(&self, budget: Budget, run: Duration) -> Duration {
        // The runs for the CPU time are as many again.
        let runs = self.choices.iterations.unwrap_or(0).saturating_mul(2);
        10 * budget.time + run.saturating_mul(runs)
    }
}
