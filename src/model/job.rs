//! The job that a log is of, and the paths that its ranks used: schema `gdr.job/1`. Fields may be added; removing one or
//! changing its meaning makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quote;

/// Name of the schema.
pub const JOB_SCHEMA: &str = "gdr.job/1";

/// A job as its log shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub schema: String,
    /// Versions of NCCL, as the log writes them; several if ranks differ.
    pub nccl: Vec<String>,
    /// Number of ranks of the largest communicator.
    pub ranks: Option<u32>,
    /// Ranks of it that the log shows.
    pub ranks_seen: u32,
    /// Host names, sorted.
    pub nodes: Vec<String>,
    /// Number of GPUs that the log shows.
    pub gpus: u64,
    /// Networks that NCCL chose (`IB`, `Socket`, the name of a plugin).
    pub networks: Vec<String>,
    /// What the log says about GDRCopy.
    pub gdrcopy: Option<String>,
    /// Classes of the paths between GPUs (`NVL`, `PIX`, `SYS`), as far as the log has NCCL's topology.
    pub gpu_paths: Vec<String>,
    /// Variables of NCCL that the log shows.
    pub variables: Vec<JobVariable>,
    /// Largest first.
    pub communicators: Vec<Communicator>,
    /// Slower paths, and why they were used.
    pub lost: Vec<Loss>,
    /// Failures by rank: those that explain others first, then in the order of the log.
    pub failures: Vec<RankFailure>,
    /// Other libraries of the job, and the paths that they name.
    #[serde(default)]
    pub libraries: Vec<JobLibrary>,
    /// Communicators began to work, and the log has no line that one was destroyed, which NCCL 2.12 to 2.29 writes at the end of a job that
    /// destroys them: the job may not have ended. False where other versions or a failure leave no question.
    #[serde(default)]
    pub end_missing: bool,
    /// The log has more pairs than gdr keeps.
    pub cut: bool,
}

impl Job {
    /// The failures that a sound job does not show.
    pub fn certain_failures(&self) -> impl Iterator<Item = &RankFailure> {
        self.failures.iter().filter(|failure| failure.kind.is_certain())
    }
}

/// A variable that a process of the job reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobVariable {
    pub name: String,
    pub value: String,
}

/// Ranks that communicate with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Communicator {
    /// NCCL's id; null where the log has none.
    pub id: Option<String>,
    /// Number of ranks; null where the log does not say.
    pub ranks: Option<u32>,
    /// Pairs with equal paths are one row.
    pub paths: Vec<JobPath>,
    /// Of this process alone: documents have the pairs.
    #[serde(skip)]
    pub matrix: RankMatrix,
}

/// Which paths led from where to where. Rows are ranks, nodes, or nodes whose paths are equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankMatrix {
    pub names: Vec<String>,
    /// Those with a path.
    pub cells: Vec<RankCell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankCell {
    /// Rows.
    pub from: usize,
    pub to: usize,
    /// Positions in the communicator's paths.
    pub paths: Vec<usize>,
}

/// A path, and the pairs of ranks that used it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobPath {
    /// `P2P/IPC`, `P2P/CUMEM`, `P2P/direct`, `P2P/indirect`, `P2P/MNNVL`, `SHM`, `NET/IB`, `NET/Socket`, …, `CollNet`, `NVLS`.
    pub transport: String,
    /// The GPU memory was sent by GPUDirect RDMA; null if the transport has none or the log lacks the sender's line.
    pub gdrdma_send: Option<Gdrdma>,
    /// The same for the receiver.
    pub gdrdma_receive: Option<Gdrdma>,
    /// The sender used the NIC of another rank's GPU (PXN).
    pub pxn: bool,
    /// Both ranks are on one node; null if the log does not say.
    pub same_node: Option<bool>,
    /// Fewest and most channels of a pair.
    pub channels: [u32; 2],
    /// Names of the NICs, or numbers of the network's devices.
    pub nics: Vec<String>,
    /// Number of pairs; two directions count once if they are equal.
    pub pair_count: u64,
    /// The first of them.
    pub pairs: Vec<RankPair>,
}

/// Use of GPUDirect RDMA on the channels of a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Gdrdma {
    Yes,
    No,
    /// On some channels.
    Mixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankPair {
    pub from: u32,
    /// Null for CollNet, whose other end is the network.
    pub to: Option<u32>,
    /// The other direction is equal.
    pub both_ways: bool,
}

/// A library beside NCCL: UCX, NVSHMEM, Open MPI, NIXL, Mooncake, DeepEP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobLibrary {
    pub name: String,
    pub versions: Vec<String>,
    pub paths: Vec<LibraryPath>,
}

/// A path that a library names, without the ranks that used it. What it does not tell is null or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LibraryPath {
    /// What it is for: `tag`, `put`, `get`, `am`, `rma` of UCX, `pml`, `mtl`, `btl` of Open MPI, …
    pub purpose: String,
    /// `rc_mlx5`, `cuda_ipc`, `tcp`, `IBGDA`, …
    pub transports: Vec<String>,
    /// NICs and interfaces.
    pub devices: Vec<String>,
    /// The kinds of memory at both ends: `host`, `cuda`, `host to cuda`.
    pub memory: Option<String>,
    /// How the longest messages go.
    pub protocol: Option<String>,
    /// Both ends are on one node.
    pub same_node: Option<bool>,
    /// Number of lines that name it.
    pub count: u64,
    /// The first of them.
    pub line: Quote,
}

/// A path that is slower than another one that NCCL has for such ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    pub faster: FasterPath,
    /// What was used in place of what, as a sentence.
    pub what: String,
    pub kind: ReasonKind,
    /// Why, as a sentence.
    pub why: String,
    /// The line that shows it; null if the log does not say.
    pub line: Option<Quote>,
    /// The machine allows the faster path.
    #[serde(default)]
    pub allowed: Allowed,
    /// Bandwidths of the path that was used and of the faster one, as NCCL rates them; null without its topology in the log.
    #[serde(default)]
    pub bandwidth: Option<LostBandwidth>,
    /// Number of pairs of ranks, of all communicators; two directions count once if they are equal.
    #[serde(default)]
    pub pair_count: u64,
    /// The first of them.
    #[serde(default)]
    pub pairs: Vec<RankPair>,
}

/// The path that was not used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FasterPath {
    /// P2P on one node.
    PeerAccess,
    /// Shared memory on one node, in place of a network.
    SharedMemory,
    /// RDMA in place of sockets.
    Rdma,
    /// GPUDirect RDMA in place of RDMA from host memory.
    GpuDirect,
    Gdrcopy,
}

/// Whether a machine allows a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    Yes,
    No,
    /// Neither the log nor an inspected machine says.
    #[default]
    Unknown,
}

/// Bandwidths in GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LostBandwidth {
    pub used: f64,
    pub possible: f64,
    /// `possible` divided by `used`.
    pub factor: f64,
}

/// What the reason of a loss rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// A variable that the log shows.
    Variable,
    /// A library, a plugin or a device that NCCL did not find.
    NotLoaded,
    /// A check of the machine.
    Check,
    /// NCCL's or the driver's judgement of the topology.
    Topology,
    /// The log does not say.
    Unknown,
}

/// A failure of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankFailure {
    pub kind: FailureKind,
    /// Ranks that report it, sorted.
    pub ranks: Vec<u32>,
    /// Processes that report it without a rank: `HOST:PID`.
    pub processes: Vec<String>,
    /// Ranks of the communicator that report no failure; the missing ones may be among them.
    pub silent: Vec<u32>,
    /// First line that reports it.
    pub line: Quote,
    /// The collective, the peer and NIC, or the versions, each with the ranks that name it.
    #[serde(default)]
    pub details: Vec<FailureDetail>,
}

/// What some ranks say about a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureDetail {
    pub text: String,
    /// Sorted.
    pub ranks: Vec<u32>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    DuplicateGpu,
    NoSocketInterface,
    NoNetwork,
    ConnectionClosed,
    WatchdogTimeout,
    VersionMismatch,
    /// A completion of the RDMA NIC with an error, such as retries without an answer.
    Completion,
    /// A queue pair could not be connected: GID, MTU or route.
    QueuePair,
    /// A file in /dev/shm could not be made or opened.
    SharedMemory,
    /// A connection between hosts was refused, timed out or has no route.
    ConnectionFailed,
    /// Two processes have one rank, or processes disagree on the number of ranks.
    Bootstrap,
    /// Ranks called different collectives, or with different sizes.
    CollectiveMismatch,
    CudaFailure,
    /// A network plugin, such as aws-ofi-nccl, reports an error.
    NetworkPlugin,
    /// NCCL's RAS says that ranks of a communicator differ: the operations they launched, or their state. Those of a sound job do
    /// too, while it communicates (NCCL's documentation of RAS), so one report does not tell.
    RasMismatch,
    /// NCCL's RAS has no data from some ranks.
    RasIncomplete,
    /// Memory could not be registered with the NIC: the limit of locked memory, or GPU memory that nothing opens to it.
    MemoryRegistration,
    /// A library beside NCCL, such as NVSHMEM, could not start or use its transport.
    Library,
    /// A rank waited for another one until a library gave up.
    Timeout,
    /// A GPU has no memory left.
    GpuMemory,
    /// The kernel ended a process because host memory ran out, or a program could not allocate it.
    HostMemory,
    /// A signal ended a process that nobody asked to end, such as SIGKILL or SIGSEGV.
    Signal,
    /// An exception of the program.
    Exception,
    /// A process ended early: an exit status, a signal that follows from another failure, a time limit.
    Exited,
    /// The port of the rendezvous is in use.
    PortInUse,
    /// Processes did not meet: the store of the rendezvous does not answer, or not all came.
    Rendezvous,
    /// A launcher lost a node or its daemon there.
    NodeLost,
    /// A process has no file descriptors left.
    OpenFiles,
    /// The name of another host could not be resolved.
    HostName,
    /// Another warning, after which a call of NCCL failed.
    Other,
    /// An exception or an error after which the log goes on, and nothing else failed: the program may have handled it.
    PerhapsHandled,
}

impl FailureKind {
    /// False for what a sound job shows too.
    pub fn is_certain(self) -> bool {
        !matches!(self, Self::RasMismatch | Self::PerhapsHandled)
    }

    /// How many other failures may be behind one: 0 for what explains itself, more for what other ranks' failures bring about.
    pub fn depth(self) -> u8 {
        match self {
            Self::DuplicateGpu
            | Self::NoSocketInterface
            | Self::NoNetwork
            | Self::VersionMismatch
            | Self::SharedMemory
            | Self::CudaFailure
            | Self::NetworkPlugin
            | Self::MemoryRegistration
            | Self::GpuMemory
            | Self::HostMemory
            | Self::Signal
            | Self::Exception
            | Self::PortInUse
            | Self::OpenFiles
            | Self::HostName
            | Self::NodeLost => 0,
            Self::Bootstrap
            | Self::CollectiveMismatch
            | Self::Completion
            | Self::QueuePair
            | Self::ConnectionFailed
            | Self::Library
            | Self::Rendezvous => 1,
            Self::Timeout | Self::Other | Self::RasIncomplete => 2,
            Self::WatchdogTimeout
            | Self::ConnectionClosed
            | Self::Exited
            | Self::RasMismatch
            | Self::PerhapsHandled => 3,
        }
    }
}
