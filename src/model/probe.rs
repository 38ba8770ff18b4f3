//! Results of a probe: the JSON contract `gdr.probe/1`. Fields may be added; removing one makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, DiffReport, Finding, Host, RdmaPath};

/// The document `gdr.probe/1`, used by every probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Which probe.
    pub probe: ProbeKind,
    /// The machine.
    pub host: Host,
    /// No hardware took part: all figures are for the memory of this machine.
    pub simulated: bool,
    /// All requested work was done: nothing was interrupted, hung or crashed.
    pub complete: bool,
    /// The tested GPUs.
    pub gpus: Vec<ProbedGpu>,
    /// The tested ordered pairs of GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<ProbedPair>,
    /// The endpoints of NIC transfers on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<ProbedEnd>,
    /// Verified and measured results, in that order.
    pub results: Vec<ProbeResult>,
    /// Further notes: what was left out, and why the probe ended early.
    pub notes: Vec<String>,
    /// Bandwidths compared with what the profiles expect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Every figure compared with that of the baseline; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<DiffReport>,
}

/// A probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    Copy,
    Host,
    P2p,
    Rdma,
    Async,
}

impl ProbeKind {
    /// As in `gdr probe NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Host => "host",
            Self::P2p => "p2p",
            Self::Rdma => "rdma",
            Self::Async => "async",
        }
    }
}

/// A tested GPU, and how its memory was mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedGpu {
    /// Name in the results: `GPU0 (0000:3b:00.0)`.
    pub subject: String,
    /// PCI address; null for a simulated GPU.
    pub bdf: Option<Bdf>,
    /// Product name.
    pub name: String,
    /// The backend that maps its memory; null if none works.
    pub backend: Option<String>,
    /// Memory type of the mapping: write_combined, cached, uncached.
    pub mapping: Option<String>,
    /// Copy kernel for writes, as chosen or forced.
    pub write_kernel: Option<String>,
    /// Copy kernel for reads, as chosen or forced.
    pub read_kernel: Option<String>,
    /// NUMA node; null if unknown.
    pub numa: Option<u32>,
    /// Maximum bandwidth of its PCI Express link in one direction, bytes per second; null if unknown.
    pub link: Option<u64>,
    /// Each backend, and why it was or was not chosen.
    pub backends: Vec<BackendChoice>,
}

/// An ordered pair of GPUs: answers of the driver and NVML.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedPair {
    /// Name in the results: `GPU0 > GPU1`.
    pub subject: String,
    /// The accessing GPU, as in `GPU0 (0000:3b:00.0)`.
    pub from: String,
    /// The accessed GPU.
    pub to: String,
    /// The first GPU can access the memory of the second (`cuDeviceCanAccessPeer`); null if unknown.
    pub can_access: Option<bool>,
    /// Performance rank of the link, 0 is the best (CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK); null if unknown.
    pub performance_rank: Option<i32>,
    /// Native atomic operations on the memory of the other GPU (…_NATIVE_ATOMIC_SUPPORTED); null if unknown.
    pub atomics: Option<bool>,
    /// NVML status of reads, writes, NVLink, atomics and PCI Express, in words; empty if it was not queried.
    pub nvml: std::collections::BTreeMap<String, String>,
    /// Number of NVLinks between them; null if unknown.
    pub nvlinks: Option<u32>,
    /// PCI Express path class in nvidia-smi's letters; null if unknown.
    pub class: Option<String>,
    /// Maximum bandwidth of the path in one direction, bytes per second; null if unknown.
    pub link: Option<u64>,
}

/// One end of a NIC transfer: a port and a memory buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedEnd {
    /// Name in the results: `GPU0 mlx5_0:1`.
    pub subject: String,
    /// It was the remote end.
    pub remote: bool,
    /// Kind of memory: host, huge, pinned, gpu; `sim` for a simulated GPU.
    pub memory: String,
    /// The GPU that owns the memory, or whose driver pinned it, as in `GPU0 (0000:3b:00.0)`.
    pub gpu: Option<String>,
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// MTU: payload of a packet, bytes.
    pub mtu: u32,
    /// GID index; null on an InfiniBand link that needs none.
    pub gid_index: Option<u32>,
    /// GID type, as in `RoCE v2`.
    pub gid_kind: Option<String>,
    /// How the NIC reaches GPU memory: data-direct, dma-buf-pcie, dma-buf, peermem, staged. Null for host memory.
    pub memory_path: Option<String>,
    /// Each memory path, and why it was or was not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_paths: Vec<BackendChoice>,
    /// PCI Express path class between GPU and NIC in nvidia-smi's letters; null if unknown.
    pub class: Option<String>,
    /// Bandwidth between GPU and NIC in one direction, bytes per second; null if unknown.
    pub path: Option<u64>,
    /// How the topology expects the NIC to reach the GPU's memory: data-direct, c2c, pcie; null if unknown.
    #[serde(default)]
    pub rdma_path: Option<RdmaPath>,
    /// Bandwidth of the port in one direction, bytes per second; null if unknown or a software device.
    pub rate: Option<u64>,
}

/// Why a backend was or was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendChoice {
    /// Name: gdrdrv, dmabuf, rm, sim; for RDMA memory paths data-direct, dma-buf-pcie, dma-buf, peermem, staged.
    pub backend: String,
    /// chosen, usable or refused.
    pub outcome: BackendOutcome,
    /// The reason, as a sentence.
    pub why: String,
}

/// State of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendOutcome {
    /// It is used.
    Chosen,
    /// It works, but another one comes first.
    Usable,
    /// It does not work.
    Refused,
}

/// One verified or measured result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Stable name, from general to specific: `copy.write.latency`, `validate.malloc.offsets`.
    pub name: String,
    /// The GPU, the pair or the port.
    pub subject: String,
    /// The backend that moved the data: gdrdrv, dmabuf, rm, cuda. The name of a simulated one contains `sim`.
    pub backend: String,
    /// Bytes moved by one run; null if it moves none.
    pub bytes: Option<u64>,
    /// Chunk size, bytes; absent if the transfer is not split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// Bytes compared with the content read over another path. 0 for a pure timing.
    pub verified: u64,
    /// Unit of the figures: us (10⁻⁶ s), GB/s (10⁹ bytes per second), M/s (10⁶ messages per second), bytes. Empty if
    /// nothing was measured.
    pub unit: String,
    /// Median of the samples. This and the other figures are null if there are none.
    pub median: Option<f64>,
    /// Minimum; absent if not relevant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Arithmetic mean; absent if not relevant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// 5th percentile.
    pub p5: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile; absent with fewer than 100 samples, and if not relevant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile; absent with fewer than 1000 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Median absolute deviation of the samples from their median; null if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mad: Option<f64>,
    /// Medians of the runs; absent unless the probe ran several times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<f64>,
    /// CPU time of the whole process for one run, helper threads included, in microseconds; absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Distribution of the samples; absent if not relevant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// Number of samples. For a very short operation, a sample is the mean of a batch.
    pub samples: u64,
    /// Value expected from the topology, in the same unit: the bandwidth of the link. Null if unknown.
    pub expected: Option<f64>,
    /// Result of the test.
    pub verdict: ProbeVerdict,
    /// Why the result is not ok.
    pub reason: Option<String>,
    /// The probe fails if this is impossible.
    pub required: bool,
    /// NUMA node of the CPUs that ran it; null if they were not bound to one.
    pub numa: Option<u32>,
}

/// A histogram bucket, in the unit of the figures. Empty buckets are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// Lower bound, included.
    pub from: f64,
    /// Upper bound, excluded: 2^(1/4) times the lower bound.
    pub to: f64,
    pub samples: u64,
}

/// Result of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// Correct, and as fast as expected.
    #[default]
    Ok,
    /// Correct, but much slower than the topology allows.
    Slow,
    /// A byte was wrong.
    Wrong,
    /// Not possible here, or the figure cannot be true.
    Impossible,
    /// Nothing was measured: the machine is recorded, and only the expected value is shown.
    NotMeasured,
}

impl ProbeVerdict {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Wrong => "wrong",
            Self::Impossible => "impossible",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Name of the schema.
pub const PROBE_SCHEMA: &str = "gdr.probe/1";

/// The unit of a time, microseconds.
pub const MICROSECONDS: &str = "us";
/// The unit of a bandwidth, 10⁹ bytes per second.
pub const GIGABYTES_PER_SECOND: &str = "GB/s";
/// The unit of a message rate, 10⁶ messages per second.
pub const MILLIONS_PER_SECOND: &str = "M/s";
/// The unit of a size.
pub const BYTES: &str = "bytes";
