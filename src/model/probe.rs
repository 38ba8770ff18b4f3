//! Results of a probe: the JSON contract `gdr.probe/1`. Fields may be added; removing one makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::list;
use super::{Bdf, CounterKind, DiffReport, Finding, Host, NextStep, RdmaPath, VirtualFunction};

/// The document `gdr.probe/1`, used by every probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The MPI library; absent for other probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<ProbedMpi>,
    /// How the packets of NIC transfers are addressed and retried; absent if another machine chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketSettings>,
    /// Counters that rose during NIC transfers, beyond those of traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterChange>,
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
    /// What helps first; absent if nothing failed or is slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<NextStep>,
}

/// A probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    #[default]
    Copy,
    Host,
    P2p,
    Rdma,
    Async,
    Mp,
    Mpi,
    Transfer,
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
            Self::Mp => "mp",
            Self::Mpi => "mpi",
            Self::Transfer => "transfer",
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The kernel driver of the NIC's function, as in `mlx5_core`; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
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
    /// P_Key of its packets; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkey: Option<u16>,
    /// What SRD can do, the transport of EFA; absent for other NICs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srd: Option<ProbedSrd>,
    /// What the NIC offers for memory with on-demand paging (`ibv_query_device_ex`); absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand_paging: Option<ProbedPaging>,
    /// The NUMA node that its threads were bound to; absent if they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_node: Option<u32>,
    /// The CPUs that its threads could use, as in `0-15,32-47`; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The NUMA node of its host memory; absent for memory of a GPU or its driver, and if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node: Option<u32>,
    /// The NIC is a virtual function; absent if it is not, or if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_function: Option<VirtualFunction>,
    /// PCI Express allows the NIC to relax the order of its writes (Device Control; a virtual function's physical function decides); absent
    /// if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaxed_ordering: Option<bool>,
    /// How the NIC reaches GPU memory: data-direct, dma-buf-pcie, dma-buf, peermem, staged. Null for host memory.
    pub memory_path: Option<String>,
    /// Each memory path, and why it was or was not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_paths: Vec<BackendChoice>,
    /// The function by which the NIC reaches GPU memory with Data Direct; absent for other memory paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_direct: Option<ProbedFunction>,
    /// PCI Express path class between GPU and NIC in nvidia-smi's letters; null if unknown.
    pub class: Option<String>,
    /// Bandwidth between GPU and NIC in one direction, bytes per second; null if unknown.
    pub path: Option<u64>,
    /// How the topology expects the NIC to reach the GPU's memory: data-direct, c2c, pcie; null if unknown.
    #[serde(default)]
    pub rdma_path: Option<RdmaPath>,
    /// Bandwidth of the port in one direction, bytes per second; null if unknown or a software device.
    pub rate: Option<u64>,
    /// Ports that may be behind it as a bond (RoCE LAG), if there are several: a queue pair uses one of them, all together carry so many
    /// times `rate`.
    #[serde(default)]
    pub bonded_ports: Option<u32>,
}

/// A Data Direct function, as libmlx5 names it (`mlx5dv_get_data_direct_sysfs_path`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedFunction {
    pub bdf: Bdf,
    /// The bridges above it, the root port first.
    pub bridges: Vec<Bdf>,
}

/// What an EFA device reports of SRD queue pairs (`efadv_query_device`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedSrd {
    pub rdma_read: bool,
    pub rdma_write: bool,
    /// Most bytes of a read or a write; 0 if the device has neither.
    pub largest_transfer: u32,
    /// Most bytes of a message.
    pub largest_message: u32,
}

/// What a NIC offers for memory with on-demand paging (ODP): operations by transport, of send, recv, write, read, atomic, srq-recv.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedPaging {
    /// Memory can be registered for it.
    pub offered: bool,
    /// One registration may stand for the whole address space.
    pub implicit: bool,
    pub rc: Vec<String>,
    pub uc: Vec<String>,
    pub ud: Vec<String>,
}

/// The MPI library of the ranks, and how it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedMpi {
    /// The file that was loaded; null if none was, and in a simulation.
    pub file: Option<String>,
    /// Why this file: `--mpi`, the launcher that it belongs to, or the loader's search.
    pub chosen: String,
    /// The first line of what it says of itself.
    pub version: String,
    /// The ABI: open-mpi, mpich; sim in a simulation.
    pub abi: String,
    /// The launcher of this process; null if it was started alone.
    pub launcher: Option<String>,
    /// Rank of this process.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of hosts that they run on.
    pub hosts: u32,
    /// The library's function that says whether it takes GPU pointers; null if it has none.
    pub query: Option<String>,
    /// What that function answered.
    pub claims_gpu: Option<bool>,
    /// A transfer of GPU memory succeeded, in a process of its own; null if none was tried.
    pub takes_gpu: Option<bool>,
    /// The transports that it uses, from its own messages.
    pub transports: Vec<MpiTransport>,
}

/// What moves the messages between two ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MpiTransport {
    /// Both ranks are on one host.
    pub same_host: bool,
    /// GPU memory; else host memory.
    pub gpu: bool,
    /// The layer that chose: ob1, cm, ucx.
    pub layer: String,
    /// Its transports, such as vader, tcp, rc_mlx5, cuda_ipc.
    pub names: Vec<String>,
    /// The library's message, shortened.
    pub message: String,
}

/// How packets are addressed, and how they are retried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketSettings {
    /// Traffic class; its upper six bits are the DSCP.
    pub traffic_class: u8,
    /// Service level; on RoCE its lower three bits are the priority.
    pub service_level: u8,
    /// Hop limit (TTL).
    pub hop_limit: u8,
    /// Flow label, which decides the UDP source port of RoCE v2; 0 if the driver chooses.
    pub flow_label: u32,
    /// Limit of the rate, Gb/s; null for that of the port.
    pub static_rate: Option<f64>,
    /// Largest payload of a packet, bytes; null for what both ports allow.
    pub mtu: Option<u32>,
    /// Retransmission timeout: 4.096 us times two to the power of this.
    pub timeout: u8,
    /// Retransmissions.
    pub retries: u8,
    /// Retries after receiver-not-ready; 7 is unlimited.
    pub rnr_retries: u8,
    /// Wait after receiver-not-ready, in the numbers of the InfiniBand specification.
    pub rnr_timer: u8,
}

impl PacketSettings {
    /// The traffic class, service level and timeout of NCCL, and the retries of perftest.
    pub const DEFAULT: Self = Self {
        traffic_class: 0,
        service_level: 0,
        hop_limit: 64,
        flow_label: 0,
        static_rate: None,
        mtu: None,
        timeout: 20,
        retries: 7,
        rnr_retries: 7,
        rnr_timer: 12,
    };
}

/// A counter that rose during a NIC transfer. It counts all traffic of the port, the interface or the function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterChange {
    /// The connection, as results name it.
    pub subject: String,
    /// It is the remote end's.
    pub remote: bool,
    /// What has the counter: a port (`mlx5_0:1`), a network interface, a PCI function.
    pub of: String,
    /// Name of the counter in sysfs or of `ethtool -S`.
    pub name: String,
    /// How much it rose.
    pub rise: u64,
    /// What it is about.
    pub kind: CounterKind,
    /// What it counts.
    pub meaning: String,
    /// The usual cause, and what to do.
    pub cause: String,
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

/// Most runs of a probe, as `--runs` takes.
const MAX_RUNS: usize = 255;

/// Most buckets of a histogram: four for each power of two of a floating-point number.
const MAX_BUCKETS: usize = 8_192;

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
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "list::<MAX_RUNS, _, _>"
    )]
    pub runs: Vec<f64>,
    /// CPU time of the whole process for one run, helper threads included, in microseconds; absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Distribution of the samples; absent if not relevant.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "list::<MAX_BUCKETS, _, _>"
    )]
    pub histogram: Vec<Bucket>,
    /// The NICs could relax the order of their writes (relaxed ordering of PCI Express); absent if not relevant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaxed_ordering: Option<bool>,
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
    /// The word for people, of a result with or without a figure.
    pub fn word(self, has_figure: bool) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Wrong => "wrong",
            Self::Impossible if has_figure => "impossible",
            Self::Impossible => "could not run",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Name of the schema.
pub const PROBE_SCHEMA: &str = "gdr.probe/1";

/// The result of a connection that moves a GPU's memory without GPUDirect RDMA although the user did not choose staged copies.
pub const WITHOUT_GPUDIRECT: &str = "rdma.gpudirect";

/// The unit of a time, microseconds.
pub const MICROSECONDS: &str = "us";
/// The unit of a bandwidth, 10⁹ bytes per second.
pub const GIGABYTES_PER_SECOND: &str = "GB/s";
/// The unit of a message rate, 10⁶ messages per second.
pub const MILLIONS_PER_SECOND: &str = "M/s";
/// The unit of a size.
pub const BYTES: &str = "bytes";

/// Formats a size; 1 KiB is 1024 bytes.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let exact = units
        .into_iter()
        .find(|(_, shift)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift);
    match exact {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}
