//! What a user can type after `gdr probe`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::peer::{DevicePort, ListenAt, PeerName, Rendezvous};

/// `gdr probe`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Probe {
    /// What to probe.
    #[command(subcommand)]
    pub what: ProbeWhat,
}

/// The probes.
#[derive(Debug, Subcommand)]
pub enum ProbeWhat {
    /// Map GPU memory for the CPU, verify every byte, and measure the copies against cuMemcpy
    ///
    /// With --sysroot or --from nothing is measured: what would be expected there is told.
    Copy(CopyProbe),
    /// Copy between host and GPU with every sort of host memory, verify every word, and find the best chunk for staging
    ///
    /// GPUDirect v1: pageable, pinned, registered and write-combined memory, both directions and both at once, the memory path
    /// with two host buffers, and the pipeline of MPI libraries. With --sysroot or --from nothing is measured.
    Host(HostProbe),
    /// Copy between GPUs with peer access and without, verify every word, and measure every pair, alone and all at once
    ///
    /// GPUDirect v2: copy engines and kernels of each GPU on the memory of each other one, in GB/s and as a share of what the
    /// NVLinks or the PCI Express path carry. With --sysroot or --from nothing is measured.
    P2p(P2pProbe),
    /// Move GPU memory by RDMA NICs, verify every byte where it arrived, and measure as perftest does
    ///
    /// GPUDirect RDMA: from one NIC to itself, to another port (--remote-device), or to another machine: 'gdr probe rdma --listen'
    /// there, and 'gdr probe rdma HOST' here; srun -N2 and mpirun -n 2 do both. Write, read, send, with immediate data and atomic
    /// operations over RC, UC and UD. With --sysroot or --from nothing is measured.
    Rdma(Box<RdmaProbe>),
    /// Let streams ring a NIC's doorbells and wait for its completions, with kernels between, and measure what that takes
    ///
    /// GPUDirect Async: what a stream does in order with every way of waiting, how soon it sees a word that the CPU writes, how soon a
    /// NIC hears its doorbell, and messages that the stream drives, round a loop and to another process and back, against the same
    /// driven by the CPU. With --sysroot or --from nothing is measured.
    Async(AsyncProbe),
}

/// What every probe takes.
#[derive(Debug, Args)]
pub struct Scope {
    /// Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas
    #[arg(long, value_name = "GPU", value_delimiter = ',', default_value = "all")]
    pub gpu: Vec<String>,

    /// Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so
    #[arg(long, conflicts_with = "gpu")]
    pub sim: bool,

    /// The most telling part, in less than 5 seconds for one GPU
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Everything, and more exactly; a minute and more for one GPU
    #[arg(long)]
    pub full: bool,

    /// Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub size: Vec<ByteSize>,

    /// Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Vec<String>,

    /// How to print the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ProbeFormat::Table)]
    pub format: ProbeFormat,
}

/// `gdr probe host`.
#[derive(Debug, Args)]
pub struct HostProbe {
    /// Which GPUs, how much, how to print.
    #[command(flatten)]
    pub scope: Scope,

    /// From the CPUs of which NUMA nodes: all, the GPU's own (near), or one by its number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<NumaChoice>,
}

/// `gdr probe p2p`.
#[derive(Debug, Args)]
pub struct P2pProbe {
    /// Which GPUs, how much, how to print.
    #[command(flatten)]
    pub scope: Scope,
}

/// `gdr probe rdma`.
#[derive(Debug, Args)]
pub struct RdmaProbe {
    /// The other machine, where 'gdr probe rdma --listen' waits: NAME or ADDRESS, with :PORT where it is not 18516
    #[arg(value_name = "HOST")]
    pub peer: Option<PeerName>,

    /// Which GPUs, how much, how to print.
    #[command(flatten)]
    pub scope: Scope,

    /// Wait for the other machine's gdr here, up to an hour [default: all addresses, port 18516]
    ///
    /// Prints the command for the other machine, with a secret that is valid for one peer. Clients that do not prove it are
    /// rejected; no memory is registered before.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, conflicts_with = "peer")]
    pub listen: Option<Option<ListenAt>>,

    /// Meet the other process of a launcher: slurm, mpi, or by a file that both machines see
    ///
    /// Not needed under srun -N2 and mpirun -n 2: the two processes meet by a file of mode 0600 in the directory where they were
    /// started. Under srun they need no file if GDR_PROBE_SECRET is set for both.
    #[arg(long, value_name = "HOW", conflicts_with_all = ["peer", "listen"])]
    pub rendezvous: Option<Rendezvous>,

    /// Read the secret that both machines share from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]
    ///
    /// A secret is 64 hexadecimal digits, as --listen prints them, or as openssl rand -hex 32 makes them. It is never an argument,
    /// because every user of the machine sees arguments.
    #[arg(long, value_name = "FILE", conflicts_with = "remote_device")]
    pub secret_file: Option<PathBuf>,

    /// Use no secret: for two processes on this machine, over its loopback; any of its users can connect
    #[arg(long, conflicts_with_all = ["secret_file", "rendezvous", "remote_device"])]
    pub no_secret: bool,

    /// These NICs, as in mlx5_0 or mlx5_0:1; several with commas [default: of each GPU the best one]
    #[arg(long, short, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<DevicePort>,

    /// The remote end is this port of this machine [default: the near one itself]
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["peer", "listen", "rendezvous"])]
    pub remote_device: Option<DevicePort>,

    /// The GID's index at every port [default: RoCE v2 with an IPv4 address first]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,

    /// The memory that is moved [default: a GPU's where there is one, else the host's]
    #[arg(long, value_name = "MEMORY", value_enum)]
    pub memory: Option<RdmaMemory>,

    /// Reach GPU memory by this memory path and no other; by default the first one that works
    #[arg(long, value_name = "ROAD", value_enum)]
    pub memory_path: Option<RdmaMemoryPath>,

    /// Each GPU with each NIC, one figure each: what SYS costs against PIX
    #[arg(long)]
    pub all: bool,

    /// Queue pairs that move the bandwidth
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub qps: u32,

    /// Print what perftest would be called with for the same ends
    #[arg(long)]
    pub show_perftest: bool,
}

/// `gdr probe async`.
#[derive(Debug, Args)]
pub struct AsyncProbe {
    /// Which GPUs, how much, how to print.
    #[command(flatten)]
    pub scope: Scope,

    /// Who is behind the queues; without one, doorbells and completions are left out, and with --sim a software HCA is behind them
    #[arg(long, value_name = "HCA", value_enum)]
    pub hca: Option<AsyncHca>,

    /// The NIC, as in mlx5_0 or mlx5_0:1, of mlx5 and proxy [default: of each GPU the best one]
    #[arg(long, short, value_name = "DEVICE")]
    pub device: Option<DevicePort>,

    /// The GID's index at the NIC's port [default: RoCE v2 with an IPv4 address first]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,
}

/// Who is behind the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AsyncHca {
    /// An mlx5 NIC, whose doorbells the GPU rings itself (ConnectX, BlueField).
    Mlx5,
    /// A thread of the CPU that posts to any RDMA device, for machines where the GPU rings no doorbells.
    Proxy,
    /// A software HCA: a thread of the CPU; every output says so.
    Sim,
}

/// `gdr probe copy`.
#[derive(Debug, Args)]
pub struct CopyProbe {
    /// Which GPUs, how much, how to print.
    #[command(flatten)]
    pub scope: Scope,

    /// Map through this backend and no other; by default the first one that works
    #[arg(long, value_name = "BACKEND", value_enum, conflicts_with = "sim")]
    pub backend: Option<CopyBackend>,

    /// Copy with this kernel and no other: avx512, avx2, sse41, portable and so on
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,

    /// From the CPUs of which NUMA nodes: all, the GPU's own (near), or one by its number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<NumaChoice>,
}

/// How a probe prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProbeFormat {
    /// For people.
    Table,
    /// Bandwidth over size, drawn in the terminal.
    Curve,
    /// For programs: schema gdr.probe/1.
    Json,
    /// Bandwidth over size, as a picture.
    Svg,
}

/// What maps GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyBackend {
    /// gdrcopy's kernel module.
    Gdrdrv,
    /// The driver's dma-buf (R610 and later).
    Dmabuf,
    /// The driver's resource manager, without root and without a module.
    Rm,
}

/// What memory NICs move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RdmaMemory {
    /// The host's.
    Host,
    /// The host's, huge pages.
    Huge,
    /// The host's, pinned by a GPU's driver.
    Pinned,
    /// A GPU's.
    Gpu,
}

/// By which memory path a NIC reaches GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RdmaMemoryPath {
    /// GPUDirect RDMA by a dma-buf.
    Dmabuf,
    /// GPUDirect RDMA by nvidia-peermem.
    Peermem,
    /// Copies through pinned memory, without GPUDirect RDMA.
    Staged,
}

/// From which NUMA nodes to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumaChoice {
    /// Every node that has CPUs.
    All,
    /// The GPU's.
    Near,
    /// This one.
    Node(u32),
}

impl FromStr for NumaChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            "near" => Ok(Self::Near),
            number => match number.parse() {
                Ok(node) => Ok(Self::Node(node)),
                Err(_) => Err("it is 'all', 'near' or the number of a node".to_owned()),
            },
        }
    }
}

/// The most that one copy may move.
const LARGEST: usize = 1 << 30;

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub usize);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            _ => {
                return Err("a size is a number with KiB, MiB, GiB or nothing behind it".to_owned());
            }
        };
        let number: usize = number
            .parse()
            .map_err(|_| "a size begins with a whole number".to_owned())?;
        let bytes = number
            .checked_mul(1 << shift)
            .filter(|bytes| *bytes <= LARGEST);
        match bytes {
            Some(0) => Err("nothing cannot be copied".to_owned()),
            Some(bytes) => Ok(Self(bytes)),
            None => Err("copies of more than 1 GiB are not measured".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_of_1024s_and_in_bounds() {
        for (text, bytes) in [
            ("1", 1),
            ("64KiB", 65536),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("1gib", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (text, word) in [
            ("", "whole number"),
            ("KiB", "whole number"),
            ("1KB", "KiB, MiB"),
            ("-1", "KiB, MiB"),
            ("1.5M", "KiB, MiB"),
            ("0", "nothing"),
            ("2G", "1 GiB"),
            ("99999999999999999999", "whole number"),
            ("9999999999999999999G", "1 GiB"),
        ] {
            let error = text.parse::<ByteSize>().expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn nodes_are_numbers_or_words() {
        assert_eq!("all".parse(), Ok(NumaChoice::All));
        assert_eq!("near".parse(), Ok(NumaChoice::Near));
        assert_eq!("3".parse(), Ok(NumaChoice::Node(3)));
        assert!("far".parse::<NumaChoice>().is_err());
    }
}
