//! Arguments of `gdr probe`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::copy::CopyProbe;
use super::packets::Packets;
use super::peer::{DevicePort, ListenAt, PeerName, Rendezvous};
use super::scope::{ByteSize, NumaChoice, Scope};

/// `gdr probe`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Probe {
    /// The probe.
    #[command(subcommand)]
    pub what: ProbeWhat,
}

/// The probes.
#[derive(Debug, Subcommand)]
pub enum ProbeWhat {
    /// Map GPU memory for the CPU, verify every byte, and compare the copies with cuMemcpy
    ///
    /// With --sysroot or --from nothing is measured; the expected figures are shown.
    Copy(Box<CopyProbe>),
    /// Copy between host and GPU memory of every kind, verify every word, and find the best chunk size for staging
    ///
    /// GPUDirect v1: pageable, pinned, registered and write-combined memory, each direction and both at once, staging
    /// through two host buffers, and the pipeline of MPI libraries. With --sysroot or --from nothing is measured.
    Host(HostProbe),
    /// Copy between GPUs with and without peer access, verify every word, and measure every pair, alone and all at
    /// once
    ///
    /// GPUDirect v2: copy engines and kernels of each GPU access the memory of each other GPU. Results are in GB/s and
    /// as a share of the bandwidth of the NVLinks or the PCI Express path. With --sysroot or --from nothing is
    /// measured.
    P2p(P2pProbe),
    /// Move GPU memory with RDMA NICs, verify every byte at the destination, and measure as perftest does
    ///
    /// GPUDirect RDMA from a NIC to itself, to another port (--remote-device), or to another machine: run 'gdr probe
    /// rdma --listen' there and 'gdr probe rdma HOST' here. srun -N2 and mpirun -n 2 start both ends. Tests write,
    /// read, send, immediate data and atomic operations over RC, UC and UD. With --sysroot or --from nothing is
    /// measured. With
    /// --sim and another machine the GPU is simulated, and the NIC is real.
    Rdma(Box<RdmaProbe>),
    /// Let CUDA streams ring a NIC's doorbells and wait for its completions, and measure the latency
    ///
    /// GPUDirect Async: ordering of all wait conditions, latency from a CPU write to the stream, latency from the
    /// stream to the NIC's doorbell, and messages driven by the stream, over a loop and to another process, compared
    /// with the same messages driven by the CPU. With --sysroot or --from nothing is measured.
    Async(AsyncProbe),
    /// Exchange messages between two processes by the CPU, by CUDA streams and by kernels, and measure them beside MPI
    ///
    /// What libmp offers: sends and receives, puts and gets, between two processes of this machine or of two: run 'gdr
    /// probe mp --listen' there and 'gdr probe mp HOST' here. srun -N2 and mpirun -n 2 start both ends. Every byte is
    /// verified. With --sysroot or --from nothing is measured.
    Mp(Box<MpProbe>),
    /// Move GPU memory to GPU memory in each way of GPUDirect, verified, in one figure
    ///
    /// No GPUDirect (pageable copies), v1 (copy and send, whole and in chunks of the best size), v2 (peer to peer in one
    /// node), v3 (RDMA of GPU memory), and host memory as the ceiling: latency and bandwidth, 4 B to 64 MiB. Between two
    /// machines as 'gdr probe rdma'; on one machine between its ports. --device sim replaces the NIC by a CPU thread.
    Transfer(Box<NicArgs>),
    /// Send host and GPU memory with the MPI library of the launcher, verify every byte, and name the transports
    ///
    /// mpirun -n 2 gdr probe mpi, or srun -N2 gdr probe mpi. Opens Open MPI or MPICH, and the libraries with their
    /// ABIs, as the launcher has them; checks in a process of its own, which may crash, whether the library takes GPU
    /// pointers; measures latency and bandwidth between ranks of one host and of two. Rank 0 reports.
    Mpi(MpiProbe),
}

/// `gdr probe host`.
#[derive(Debug, Args)]
pub struct HostProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<NumaChoice>,
}

/// `gdr probe p2p`.
#[derive(Debug, Args)]
pub struct P2pProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,
}

/// `gdr probe rdma`.
#[derive(Debug, Args)]
pub struct RdmaProbe {
    /// Those of gdr probe transfer too.
    #[command(flatten)]
    pub nics: NicArgs,

    /// Its own.
    #[command(flatten)]
    pub own: RdmaArgs,
}

/// Options of `gdr probe rdma` and `gdr probe transfer`.
#[derive(Debug, Args)]
pub struct NicArgs {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// The other machine.
    #[command(flatten)]
    pub peer: PeerArgs,

    /// NICs, such as mlx5_0 or mlx5_0:1; separate several with commas [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<DevicePort>,

    /// Use this port of this machine as the remote end [default: the same port]
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["peer", "listen", "rendezvous", "secret_file", "no_secret"])]
    pub remote_device: Option<DevicePort>,

    /// GID index at every port; with several, each is used in turn [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX", value_delimiter = ',')]
    pub gid_index: Vec<u8>,

    /// P_Key index at every port of this machine
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub pkey_index: u16,

    /// Use only this memory path; by default the first that works
    #[arg(long, value_name = "PATH", value_enum)]
    pub memory_path: Option<RdmaMemoryPath>,

    /// NUMA nodes of this machine's CPUs and host memory: that of the NIC (near), all, or a number
    ///
    /// By default near, and a short comparison with another node, which shows what the wrong one costs (not with
    /// --quick).
    #[arg(long, value_name = "NODE")]
    pub numa: Option<NumaChoice>,

    /// Number of queue pairs for bandwidth tests
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub qps: u32,

    /// How packets are addressed and retried.
    #[command(flatten)]
    pub packets: Packets,
}

/// Options of `gdr probe rdma` alone.
#[derive(Debug, Default, Args)]
pub struct RdmaArgs {
    /// Kind of memory [default: gpu if there is a GPU, else host]
    #[arg(long, value_name = "MEMORY", value_enum)]
    pub memory: Option<RdmaMemory>,

    /// Also measure host memory with on-demand paging (ODP), beside pinned memory
    ///
    /// Both ends register it a second time so that no page is pinned; the NIC takes page faults instead. Each operation
    /// over RC that both NICs offer is verified and measured again, and so is the first touch of pages. Implies --memory
    /// host: GPU memory has no on-demand paging.
    #[arg(long, conflicts_with_all = ["all", "listen"])]
    pub odp: bool,

    /// Measure each GPU with each NIC, one figure per pair, to compare path classes
    #[arg(long)]
    pub all: bool,

    /// Also measure all GPUs with their NICs at the same time, to find what they share
    ///
    /// Each alone and then all together, on one machine: writes of the largest size. With --memory host, the NICs that
    /// --device names.
    #[arg(long, conflicts_with_all = ["peer", "listen", "rendezvous", "secret_file", "no_secret", "all"])]
    pub together: bool,

    /// Print the equivalent perftest commands
    #[arg(long)]
    pub show_perftest: bool,
}

/// Where the other end of a probe is, if on another machine.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Host that runs the same probe with --listen: NAME or ADDRESS, and :PORT if it is not 18516
    #[arg(value_name = "HOST")]
    pub peer: Option<PeerName>,

    /// Wait up to an hour for gdr on the other machine [default: all addresses, port 18516]
    ///
    /// Prints the command for the other machine, with a secret for one peer. Clients without the secret are rejected,
    /// and no memory is registered before.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, conflicts_with = "peer")]
    pub listen: Option<Option<ListenAt>>,

    /// Find the other process of a launcher: slurm, mpi, or a file that both machines see
    ///
    /// Not needed with srun -N2 and mpirun -n 2: the processes use a file of mode 0600 in their working directory.
    /// With srun they need no file if GDR_PROBE_SECRET is set for both.
    #[arg(long, value_name = "HOW", conflicts_with_all = ["peer", "listen"])]
    pub rendezvous: Option<Rendezvous>,

    /// Read the shared secret from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]
    ///
    /// A secret is 64 hexadecimal digits, as printed by --listen or by openssl rand -hex 32. It is never an argument,
    /// because every local user can see arguments.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Use no secret, for two processes on the loopback address of this machine; any local user can connect
    #[arg(long, conflicts_with_all = ["secret_file", "rendezvous"])]
    pub no_secret: bool,
}

/// `gdr probe mpi`.
#[derive(Debug, Args)]
pub struct MpiProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// The MPI library, as a file or a name for the loader [default: that of the launcher]
    #[arg(long, value_name = "LIB")]
    pub mpi: Option<PathBuf>,

    /// Kind of memory [default: host and, if there is a GPU, gpu]
    #[arg(long, value_name = "MEMORY", value_enum)]
    pub memory: Option<MpiMemory>,
}

/// Kind of memory that MPI sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MpiMemory {
    /// Host memory only.
    Host,
    /// Host memory and GPU memory.
    Gpu,
}

/// `gdr probe async`.
#[derive(Debug, Args)]
pub struct AsyncProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// Provider of the queues; without one, doorbells and completions are left out, and with --sim a software HCA is
    /// used
    #[arg(long, value_name = "HCA", value_enum)]
    pub hca: Option<AsyncHca>,

    /// NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE")]
    pub device: Option<DevicePort>,

    /// GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,

    /// Messages that are queued together, 1 to 100
    // CUDA queues about a thousand kernels per stream, and two batches are in flight, of up to four kernels per message.
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub batch: u32,

    /// A further kernel after each message writes this many bytes, such as 128KiB
    #[arg(long, value_name = "SIZE")]
    pub compute: Option<ByteSize>,

    /// Let kernels drive queues too: they build WQEs in GPU memory, ring the doorbell and poll the CQ, beside streams and the CPU
    ///
    /// This is what NVSHMEM's IBGDA, NCCL's GIN and DeepEP do. One thread, a warp or a block per queue pair, one queue pair and
    /// many, inline data, BlueFlame; then with a doorbell that the CPU rings, and with --hca mlx5 by the proxy.
    #[arg(long)]
    pub kernel: bool,

    /// No kernels write and compare the messages of the loop; the CPU does, outside the measured time
    #[arg(long)]
    pub no_kernel: bool,

    /// How CPU threads wait for the GPU
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AsyncSchedule::Auto)]
    pub schedule: AsyncSchedule,

    /// The order in which streams wait for the messages of a batch
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = AsyncReceive::InOrder)]
    pub receive: AsyncReceive,

    /// Transports, separated by commas
    #[arg(long, value_name = "TRANSPORT", value_enum, value_delimiter = ',', default_value = "rc")]
    pub transport: Vec<AsyncTransport>,
}

/// How CPU threads wait for the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AsyncSchedule {
    /// CUDA's choice.
    Auto,
    /// They poll.
    Spin,
    /// They poll, and let other threads run.
    Yield,
    /// They sleep.
    Blocking,
}

/// The order in which streams wait for the messages of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AsyncReceive {
    /// As they arrive, each sent after the one before has arrived.
    InOrder,
    /// All of a batch are sent, then the stream waits for the last one first.
    OutOfOrder,
}

/// Transport of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AsyncTransport {
    /// Reliable connection.
    Rc,
    /// Datagrams of at most 4 KiB.
    Ud,
}

/// Provider of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AsyncHca {
    /// An mlx5 NIC (ConnectX, BlueField); the GPU rings its doorbells.
    Mlx5,
    /// A CPU thread that posts to any RDMA device, for machines where the GPU cannot ring doorbells.
    Proxy,
    /// A software HCA in a CPU thread; every output says so.
    Sim,
}

/// `gdr probe mp`.
#[derive(Debug, Args)]
pub struct MpProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// The other machine.
    #[command(flatten)]
    pub peer: PeerArgs,

    /// Provider of the queues [default: mlx5 if the GPU can ring the NIC's doorbells, else proxy; sim with --sim]
    #[arg(long, value_name = "HCA", value_enum)]
    pub hca: Option<AsyncHca>,

    /// NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE")]
    pub device: Option<DevicePort>,

    /// GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,

    /// Launcher of MPI's own figures, a name or a path [default: mpirun if it is installed; none with --sim]
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["peer", "listen", "rendezvous", "no_mpi"])]
    pub mpi: Option<PathBuf>,

    /// Leave out MPI's own figures
    #[arg(long)]
    pub no_mpi: bool,
}

/// Kind of memory that NICs move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RdmaMemory {
    /// Host memory.
    Host,
    /// Host memory in huge pages.
    Huge,
    /// Host memory pinned by a GPU driver.
    Pinned,
    /// GPU memory.
    Gpu,
}

/// Memory path between a NIC and GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RdmaMemoryPath {
    /// GPUDirect RDMA by the Data Direct function of the NIC (ConnectX-8), for GPUs with NVLink-C2C.
    DataDirect,
    /// GPUDirect RDMA with dma-buf over PCI Express, for GPUs with NVLink-C2C.
    DmaBufPcie,
    /// GPUDirect RDMA with dma-buf, over the driver's choice of path.
    DmaBuf,
    /// GPUDirect RDMA with nvidia-peermem.
    Peermem,
    /// Copies through pinned memory, without GPUDirect RDMA.
    Staged,
}
