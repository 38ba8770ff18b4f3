//! What a probe measured and verified: the JSON contract `gdr.probe/1`. Fields may be added; a removal is `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Host};

/// The document `gdr.probe/1`, the same for every probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Which probe: `copy`, `host`, `p2p`, `rdma`.
    pub probe: String,
    /// The machine.
    pub host: Host,
    /// No hardware took part: every figure is of this machine's own memory.
    pub simulated: bool,
    /// Everything that was asked for was done: it was not interrupted, and nothing hung or crashed.
    pub complete: bool,
    /// The GPUs that were probed.
    pub gpus: Vec<ProbedGpu>,
    /// The ordered pairs of GPUs that were probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<ProbedPair>,
    /// The ends of what NICs moved, on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<ProbedEnd>,
    /// What was verified and measured, in that order.
    pub results: Vec<ProbeResult>,
    /// What a reader should know besides: what was left out, and why it ended early.
    pub notes: Vec<String>,
}

/// A GPU that was probed, and how it was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedGpu {
    /// As the results name it: `GPU0 (0000:3b:00.0)`.
    pub subject: String,
    /// PCI address; null for a simulated one.
    pub bdf: Option<Bdf>,
    /// Product name.
    pub name: String,
    /// The backend that maps its memory; null where none does.
    pub backend: Option<String>,
    /// How the CPU reaches the mapping: write_combined, cached, uncached.
    pub mapping: Option<String>,
    /// The copy kernel for writes, as chosen or forced.
    pub write_kernel: Option<String>,
    /// The copy kernel for reads, as chosen or forced.
    pub read_kernel: Option<String>,
    /// The NUMA node it is on; null where the machine does not say.
    pub numa: Option<u32>,
    /// What its PCI Express link carries in one direction at its best, bytes a second; null where that is not known.
    pub link: Option<u64>,
    /// Each backend, and why it was or was not taken.
    pub backends: Vec<BackendChoice>,
}

/// An ordered pair of GPUs: what the driver and NVML say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedPair {
    /// As the results name it: `GPU0 > GPU1`.
    pub subject: String,
    /// The GPU that reaches, as in `GPU0 (0000:3b:00.0)`.
    pub from: String,
    /// The GPU that is reached.
    pub to: String,
    /// Whether CUDA lets the first reach the second's memory (`cuDeviceCanAccessPeer`); null where it did not say.
    pub can_access: Option<bool>,
    /// Rank of the way, 0 the best (CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK); null where CUDA did not say.
    pub performance_rank: Option<i32>,
    /// Atomic operations on the other's memory are native (…_NATIVE_ATOMIC_SUPPORTED); null where CUDA did not say.
    pub atomics: Option<bool>,
    /// What NVML says of reads, writes, NVLink, atomics and PCI Express, in words; empty where it was not asked.
    pub nvml: std::collections::BTreeMap<String, String>,
    /// NVLinks between them; null where that is not known.
    pub nvlinks: Option<u32>,
    /// How they meet over PCI Express, in nvidia-smi's letters; null where that is not known.
    pub class: Option<String>,
    /// What the way carries in one direction at its best, bytes a second; null where that is not known.
    pub link: Option<u64>,
}

/// A port of a NIC with the memory that it moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedEnd {
    /// As the results name it: `GPU0 mlx5_0:1`.
    pub subject: String,
    /// It was at the remote side of what was measured.
    pub remote: bool,
    /// Of what the memory is: host, huge, pinned, gpu; `sim` of a simulated GPU.
    pub memory: String,
    /// The GPU whose memory it is, or whose driver pinned it, as in `GPU0 (0000:3b:00.0)`.
    pub gpu: Option<String>,
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub port: u8,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// The payload of its packets, bytes.
    pub mtu: u32,
    /// The index of its GID; null on an InfiniBand link that needs none.
    pub gid_index: Option<u32>,
    /// As in `RoCE v2`.
    pub gid_kind: Option<String>,
    /// How the NIC reaches GPU memory: dmabuf, peermem, staged. Null of host memory.
    pub memory_path: Option<String>,
    /// Each memory path, and why it was or was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_paths: Vec<BackendChoice>,
    /// How GPU and NIC meet over PCI Express, in nvidia-smi's letters; null where that is not known.
    pub class: Option<String>,
    /// What the way between GPU and NIC carries in one direction, bytes a second; null where that is not known.
    pub path: Option<u64>,
    /// What the port carries in one direction, bytes a second; null where that is not known, or it is software.
    pub rate: Option<u64>,
}

/// Why a backend was or was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendChoice {
    /// Its name: gdrdrv, dmabuf, rm, sim; of the memory paths of RDMA dmabuf, peermem, staged.
    pub backend: String,
    /// chosen, usable or refused.
    pub outcome: BackendOutcome,
    /// Why, in a sentence.
    pub why: String,
}

/// What became of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendOutcome {
    /// It maps the memory.
    Chosen,
    /// It would, and another comes first.
    Usable,
    /// It does not.
    Refused,
}

/// One thing that was verified or measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// A stable name, from the general to the special: `copy.write.latency`, `validate.malloc.offsets`.
    pub name: String,
    /// The GPU, the pair or the port it is about.
    pub subject: String,
    /// What did it: gdrdrv, dmabuf, rm, cuda. One that simulates has `sim` in its name.
    pub backend: String,
    /// How many bytes one run of it moves; null where it moves none.
    pub bytes: Option<u64>,
    /// The pieces that it is cut into, bytes; absent where it goes in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// How many bytes were compared with what another path says is there. 0 where only time was taken.
    pub verified: u64,
    /// The unit of the figures: us (10⁻⁶ s), GB/s (10⁹ bytes a second), M/s (10⁶ messages a second), bytes. Empty where nothing was measured.
    pub unit: String,
    /// The middle of the samples, as the other figures null where there is none.
    pub median: Option<f64>,
    /// One sample in twenty is below.
    pub p5: Option<f64>,
    /// One sample in twenty is above.
    pub p95: Option<f64>,
    /// One sample in a hundred is above; absent below a hundred samples, and where that is not of interest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// One sample in a thousand is above; absent below a thousand samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    /// The largest sample.
    pub max: Option<f64>,
    /// How the samples are spread; absent where that is not of interest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// How many samples. A sample of something very short is the mean of a batch.
    pub samples: u64,
    /// What the machine's topology promises, in the same unit: what the link carries. Null where it promises nothing.
    pub expected: Option<f64>,
    /// How it ended.
    pub verdict: ProbeVerdict,
    /// Why it ended so, where it is not ok.
    pub reason: Option<String>,
    /// The probe fails where this is impossible.
    pub required: bool,
    /// The NUMA node of the CPUs that did it; null where they were not bound to one.
    pub numa: Option<u32>,
}

/// A range of a histogram with samples in it, in the unit of the figures. Ranges without one are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// The least that is in it.
    pub from: f64,
    /// What is no longer in it: 2^(1/4) times as much.
    pub to: f64,
    /// How many samples are.
    pub samples: u64,
}

/// How something that was verified or measured ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// As it should be.
    Ok,
    /// Right, and much slower than the topology promises.
    Slow,
    /// A byte was not what it should be.
    Wrong,
    /// It could not be done here, or the figure cannot be true.
    Impossible,
    /// Nothing was measured: the machine is recorded, and only what is expected of it is told.
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

/// The schema's name.
pub const PROBE_SCHEMA: &str = "gdr.probe/1";

/// The unit of a time, microseconds.
pub const MICROSECONDS: &str = "us";
/// The unit of a bandwidth, 10⁹ bytes a second.
pub const GIGABYTES_PER_SECOND: &str = "GB/s";
/// The unit of a message rate, 10⁶ messages a second.
pub const MILLIONS_PER_SECOND: &str = "M/s";
/// The unit of a size.
pub const BYTES: &str = "bytes";
