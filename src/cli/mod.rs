//! What a user can type: clap types and nothing else. Help, man pages and completions are generated from them.

mod explain;
mod fix;
mod help;
mod peer;
mod probe;
mod style;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use explain::{Explain, ExplainFormat};
pub use fix::{FixAcs, FixOptions, PersistHow, PlanFormat, RepairOptions, Undo};
pub use help::{Sections, sections};
pub use peer::{DevicePort, ListenAt, PeerName, Rendezvous};
pub use probe::{
    AsyncHca, AsyncProbe, ByteSize, CopyBackend, CopyProbe, HostProbe, NumaChoice, P2pProbe, Probe,
    ProbeFormat, ProbeWhat, RdmaMemory, RdmaMemoryPath, RdmaProbe, Scope,
};
pub use style::style;

use crate::model::PlatformKind;
use crate::output::printable;

/// Does GPUDirect work on this machine, why not, and the proof.
#[derive(Debug, Parser)]
#[command(
    name = "gdr",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// The world to look at and how to show it.
    #[command(flatten)]
    pub global: Global,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Look at the machine laid out in this directory instead of the one gdr runs on
    ///
    /// The directory holds sys/, proc/ and what else was recorded of a machine's root. Symbolic links are resolved
    /// inside it and never lead out of it.
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        help_heading = "Global options"
    )]
    pub sysroot: Option<PathBuf>,

    /// Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report
    ///
    /// What it is, is seen from its content: what 'gdr snapshot' wrote, the text of 'lspci -vvv' or 'lspci -xxxx' (run as
    /// root it tells more), XML of 'lstopo --of xml', JSON of 'rdma_topo dump', the log of nvidia-bug-report.sh, an archive
    /// (tar) of sosreport or supportconfig. Each may be compressed by gzip, xz or zstd. What the file cannot tell is
    /// unknown. '-' is standard input.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "sysroot",
        help_heading = "Global options"
    )]
    pub from: Option<PathBuf>,

    /// When to use colour; auto means on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = ColorWhen::Auto,
        global = true,
        help_heading = "Global options"
    )]
    pub color: ColorWhen,

    /// How long a vendor library may take before it is given up
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600),
        global = true,
        help_heading = "Global options"
    )]
    pub library_timeout: u64,

    /// Say on standard error what could not be read; doctor also shows what every finding rests on
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub verbose: bool,
}

/// What a user typed; else a message to print: help, or what is wrong. It repeats arguments, and does so printably.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parse = |arguments: Vec<OsString>| {
        let matches = help::with_sections(Cli::command(), "").try_get_matches_from(arguments)?;
        Cli::from_arg_matches(&matches)
    };
    parse(arguments.clone()).map_err(|_| {
        let printable = arguments
            .iter()
            .map(|argument| printable(&argument.to_string_lossy()).into());
        match parse(printable.collect()) {
            Err(message) => message,
            Ok(_) => Cli::command().error(
                ErrorKind::InvalidUtf8,
                "an argument holds control characters or bytes that are not UTF-8, which its option does not take",
            ),
        }
    })
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether GPUDirect works here, and name what stands in its way
    Doctor(Doctor),

    /// Tell what an error line, a log or a check is about, and what this machine says of it
    ///
    /// Reads lines of NCCL, UCX, perftest, gdrcopy, NVSHMEM, libfabric, MPI, Kubernetes and the kernel log, names the
    /// causes, the surest first, and runs the checks that they lead to.
    Explain(Explain),

    /// Show how GPUs, NICs and NVMe controllers reach each other, and the best NIC of each GPU
    Topo(Topo),

    /// Prove it: move bytes, verify every one, and measure
    Probe(Probe),

    /// Mend what doctor found: shown first, made a step at a time, read back, and undoable
    Fix(FixOptions),

    /// Let traffic between GPUs and NICs go straight through PCI switches
    ///
    /// Clears the bits of access control services that redirect it to the root complex, of the ports on those ways alone,
    /// and keeps the others.
    FixAcs(FixAcs),

    /// Take a repair back
    Undo(Undo),

    /// Record this machine in one file, to be looked at with --from anywhere
    Snapshot(SnapshotOptions),
}

/// `gdr doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// What the machine should be ready for: rdma, async, gdrcopy, p2p, mpi, all, or a file; may be given several times
    ///
    /// A name is also looked for as NAME.toml in $XDG_CONFIG_HOME/gdr/profiles and /etc/gdr/profiles.
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// Run these checks alone: ids as --list names them, or families as in pcie
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1..)]
    pub only: Vec<String>,

    /// Leave these checks out
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1..)]
    pub skip: Vec<String>,

    /// Exit status 1 already where something is so bad
    #[arg(long, value_name = "OUTCOME", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,

    /// Print what is wrong or not known, and nothing else
    #[arg(long, short)]
    pub quiet: bool,

    /// How to print the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DoctorFormat::Table)]
    pub format: DoctorFormat,

    /// Judge as on this platform, whatever the machine looks like; the report says so
    #[arg(long, value_name = "KIND", value_enum)]
    pub platform: Option<Platform>,

    /// Try the hardware too: map GPU memory for the CPU and verify it, register some with each NIC, and the NICs' doorbells with the GPUs
    #[arg(long)]
    pub live: bool,

    /// List the checks and end
    #[arg(long)]
    pub list: bool,
}

/// `gdr snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotOptions {
    /// Where to write it; '-' is standard output. A name that ends in .zst is compressed
    #[arg(long, short, value_name = "FILE", required_unless_present = "diff")]
    pub output: Option<PathBuf>,

    /// Replace serial numbers, UUIDs, GUIDs, MAC and IP addresses, host and user names, each always by the same
    #[arg(long, conflicts_with = "diff")]
    pub mask: bool,

    /// Try the hardware too, as doctor --live does, and record what came of it
    #[arg(long, conflicts_with_all = ["diff", "sysroot", "from"])]
    pub live: bool,

    /// Tell what differs between two recorded machines, or between two times of one, fact by fact
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["output", "sysroot", "from"])]
    pub diff: Option<Vec<PathBuf>>,

    /// With --diff: also what differs between any two machines, as UUIDs do
    #[arg(long, requires = "diff", conflicts_with = "output")]
    pub all: bool,

    /// With --diff: how to print it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DiffFormat::Table, requires = "diff")]
    pub format: DiffFormat,
}

/// How doctor prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.doctor/1.
    Json,
    /// For a ticket or a wiki.
    Markdown,
    /// For the textfile collector of Prometheus's node exporter.
    Prometheus,
}

/// How two machines' differences are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.diff/1.
    Json,
}

/// From which outcome on doctor ends with status 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Something fails.
    Error,
    /// Something fails or warns.
    Warn,
    /// Something fails, warns or is unknown.
    Unknown,
}

/// Where the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    /// On the hardware itself.
    BareMetal,
    /// In a virtual machine.
    Guest,
}

impl Platform {
    /// The model's word for it.
    pub fn kind(self) -> PlatformKind {
        match self {
            Self::BareMetal => PlatformKind::BareMetal,
            Self::Guest => PlatformKind::Guest,
        }
    }
}

/// `gdr topo`.
#[derive(Debug, Args)]
pub struct Topo {
    /// How to print the topology
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TopoFormat::Table)]
    pub format: TopoFormat,

    /// Show PCI classes where NVLinks would be shown, as nvidia-smi topo -mp does
    #[arg(long)]
    pub pci: bool,

    /// Show the peer-to-peer status of each pair of GPUs, as nvidia-smi topo -p2p does
    #[arg(long, value_name = "CAPABILITY", value_enum, conflicts_with_all = ["pci", "nvme", "path", "pairs"])]
    pub p2p: Option<P2p>,

    /// Show NVMe controllers too
    #[arg(long)]
    pub nvme: bool,

    /// Explain the way between two devices: GPU0, NIC3, mlx5_0 or a PCI address
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], conflicts_with = "pairs")]
    pub path: Option<Vec<String>>,

    /// Print the NIC for each GPU, with lines for NCCL, UCX, CUDA and numactl
    #[arg(long)]
    pub pairs: bool,

    /// End with status 1 where the best NIC of a GPU is a bad one
    #[arg(long)]
    pub check: bool,
}

/// How topo prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopoFormat {
    /// For people.
    Table,
    /// Byte for byte as nvidia-smi topo.
    NvidiaSmi,
    /// For programs: schema gdr.topo/1.
    Json,
    /// A picture of the PCI tree.
    Svg,
}

/// A peer-to-peer capability, by nvidia-smi's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum P2p {
    /// Reads.
    #[value(name = "r")]
    Read,
    /// Writes.
    #[value(name = "w")]
    Write,
    /// NVLink.
    #[value(name = "n")]
    Nvlink,
    /// Atomics.
    #[value(name = "a")]
    Atomics,
    /// PCI Express.
    #[value(name = "p")]
    Pci,
}
