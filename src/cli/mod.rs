//! Command line types of clap, without logic. Help, man pages and completions are generated from them.

mod expect;
mod explain;
mod fix;
mod fleet;
mod help;
mod probe;
mod run;
mod style;
mod version;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use crate::probe::arguments::MaskOptions;
pub use expect::ExpectOptions;
pub use explain::{Explain, ExplainFormat};
pub use fix::{FixAcs, FixOptions, PersistHow, PlanFormat, RepairOptions, Undo};
pub use fleet::{
    Fleet, FleetFormat, FleetHistoryOptions, FleetProbe, FleetProbeKind, FleetReportOptions,
    FleetRun, FleetWhat, HistoryFormat,
};
pub use help::{Sections, sections};
pub use probe::{Probe, ProbeWhat};
pub use run::Run;
pub use style::style;

use crate::model::PlatformKind;
use crate::output::printable;

/// Check whether GPUDirect works on this machine, repair it and prove it.
#[derive(Debug, Parser)]
#[command(name = "gdr", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Inspect the machine in this directory instead of this one
    ///
    /// The directory contains sys/, proc/ and other parts of a machine's root file system. Symbolic links are resolved
    /// inside it and cannot lead out of it.
    #[arg(long, value_name = "DIR", global = true, help_heading = "Global options")]
    pub sysroot: Option<PathBuf>,

    /// Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)
    ///
    /// The format is detected from the content: output of 'gdr snapshot', XML of 'lstopo --of xml', NCCL's topology XML
    /// (NCCL_TOPO_DUMP_FILE, or a file that a cloud ships), JSON of 'rdma_topo dump', the log of nvidia-bug-report.sh, a tar
    /// archive of sosreport or supportconfig, or any text with output of lspci, nvidia-smi, ibstat and others, as people
    /// paste it, in any order. Several files describe one machine together. Each may be compressed with gzip, xz or zstd.
    /// Facts that the files do not contain are unknown. '-' is standard input.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "sysroot",
        help_heading = "Global options"
    )]
    pub from: Vec<PathBuf>,

    /// When to use colour; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = ColorWhen::Auto,
        global = true,
        help_heading = "Global options"
    )]
    pub color: ColorWhen,

    /// Timeout for calls into vendor libraries
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600),
        global = true,
        help_heading = "Global options"
    )]
    pub library_timeout: u64,

    /// Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub verbose: bool,
}

/// `--verbose`, or `-v`, alone or with other short options.
fn asks_for_verbose(word: &OsStr) -> bool {
    match word.as_encoded_bytes() {
        [b'-', b'-', ..] => word == "--verbose",
        [b'-', short @ ..] => short.contains(&b'v'),
        _ => false,
    }
}

/// Parses the command line. The error is the text to print, help included; arguments in it are printable.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parse = |arguments: Vec<OsString>| {
        let mut command = Cli::command();
        if arguments.iter().any(|word| asks_for_verbose(word)) {
            command = command.version(version::verbose());
        }
        let matches = help::with_sections(command, "").try_get_matches_from(arguments)?;
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
                "an argument contains control characters or invalid UTF-8, which its option does not accept",
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
    /// Check whether GPUDirect works here, and name what prevents it
    Doctor(Doctor),

    /// Explain an error message, a log or a check, and check this machine for the causes
    ///
    /// Reads output of NCCL, UCX, perftest, gdrcopy, NVSHMEM, libfabric, MPI, Kubernetes and the kernel log, lists the
    /// likely causes, best match first, and runs the related checks.
    Explain(Explain),

    /// Run a job, and show the paths that its ranks used
    ///
    /// NCCL writes its log to files of its own. The job has gdr's standard input and output; its exit status is gdr's, and
    /// signals reach it. SIGUSR1 prints the report while the job runs.
    Run(Run),

    /// Show how GPUs, NICs and NVMe controllers are connected, and the best NIC of each GPU
    Topo(Topo),

    /// Prove it: transfer data, verify every byte, and measure
    Probe(Probe),

    /// Write a profile that says what a good machine has, for doctor and probe to compare with
    ///
    /// It has the number and models of GPUs and NICs, driver and firmware versions, links, ports, pairs by class and
    /// memory paths; with results of gdr probe also minimum bandwidths. Several good machines may differ: each of their
    /// values is then accepted, and a remark names it.
    Expect(ExpectOptions),

    /// Repair what doctor found: shows a plan first, verifies each step, and can be undone
    Fix(FixOptions),

    /// Allow direct traffic between GPUs and NICs through PCI switches
    ///
    /// Clears the ACS bits that redirect such traffic to the root complex, on the ports between GPUs and NICs only.
    /// Other bits and ports stay as they are.
    FixAcs(FixAcs),

    /// Undo a repair
    Undo(Undo),

    /// Run doctor or a probe on many nodes, and merge their reports
    Fleet(Fleet),

    /// Record this machine in a file, to inspect anywhere with --from
    Snapshot(SnapshotOptions),
}

/// `gdr doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Profiles to check against: rdma, async, gdrcopy, p2p, mpi, all, or a file; may be given several times
    ///
    /// Further names are read as NAME.toml from $XDG_CONFIG_HOME/gdr/profiles and /etc/gdr/profiles.
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// Run only these checks: ids as shown by --list, or families such as pcie
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1..)]
    pub only: Vec<String>,

    /// Do not run these checks
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1..)]
    pub skip: Vec<String>,

    /// Show what changed since an earlier report of this machine: JSON of gdr doctor, or what gdr fleet kept; error counters are then
    /// judged by their rate since then
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "mask_key")]
    pub baseline: Option<PathBuf>,

    /// Lowest level of a finding that makes the exit status 1
    #[arg(long, value_name = "OUTCOME", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,

    /// Exit with 0 instead of 3 if nothing failed and something required is unknown, for callers that know no third state
    #[arg(long)]
    pub allow_unknown: bool,

    /// Leave out the checks of software and of firmware settings, and do not start CUDA, for a health check that runs
    /// every few minutes
    #[arg(long, conflicts_with = "live")]
    pub quick: bool,

    /// Show only failures, warnings and unknown results
    #[arg(long, short)]
    pub quiet: bool,

    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DoctorFormat::Table)]
    pub format: DoctorFormat,

    /// Assume this platform instead of detecting it; the report says so
    #[arg(long, value_name = "KIND", value_enum)]
    pub platform: Option<Platform>,

    /// Also test the hardware: map GPU memory for the CPU and verify it, register it with each NIC, and register the
    /// NICs' doorbells with the GPUs
    #[arg(long)]
    pub live: bool,

    /// List the checks and exit
    #[arg(long)]
    pub list: bool,

    /// Masks.
    #[command(flatten)]
    pub masks: MaskOptions,
}

/// `gdr snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotOptions {
    /// Output file; '-' is standard output. A name that ends in .zst is compressed
    #[arg(long, short, value_name = "FILE", required_unless_present = "diff")]
    pub output: Option<PathBuf>,

    /// Replace serial numbers, UUIDs, GUIDs, MAC and IP addresses, host and user names, each consistently
    #[arg(long, conflicts_with = "diff")]
    pub mask: bool,

    /// Mask with the key in this file: the same name, number or address has the same mask in every file
    ///
    /// Without the key nobody can find out which name a mask stands for by trying names, and whoever has the key can: keep it.
    #[arg(long, value_name = "FILE", conflicts_with = "diff")]
    pub mask_key: Option<PathBuf>,

    /// Write one archive for a vendor, masked: the snapshot, the reports of doctor and topo, error counters and lines of the kernel
    /// log; README.txt in it says what it holds
    #[arg(long, conflicts_with = "diff")]
    pub with_reports: bool,

    /// Also test the hardware, as doctor --live does, and record the results
    #[arg(long, conflicts_with_all = ["diff", "sysroot", "from"])]
    pub live: bool,

    /// Show the differences between two snapshots, of two machines or of one at two times, or between the saved results
    /// of a probe
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["output", "sysroot", "from"])]
    pub diff: Option<Vec<PathBuf>>,

    /// With --diff: also show differences between any two machines, such as UUIDs
    #[arg(long, requires = "diff", conflicts_with = "output")]
    pub all: bool,

    /// With --diff: output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DiffFormat::Table, requires = "diff")]
    pub format: DiffFormat,
}

/// Output format of doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.doctor/1.
    Json,
    /// For tickets and wikis.
    Markdown,
    /// For the textfile collector of the Prometheus node exporter.
    Prometheus,
    /// One page for a browser, to keep or to send.
    Html,
    /// For CI systems: JUnit XML.
    Junit,
    /// For schedulers: one line that names what failed.
    Line,
}

/// Output format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.diff/1.
    Json,
    /// One page for a browser, to keep or to send.
    Html,
}

/// Lowest level of a finding that makes the exit status 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A failure.
    Error,
    /// A failure or a warning.
    Warn,
    /// A failure, a warning or an unknown result.
    Unknown,
}

/// Platform of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    /// On hardware.
    BareMetal,
    /// In a virtual machine.
    Guest,
}

impl Platform {
    /// The same value of the model.
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
    /// Output format of the topology
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TopoFormat::Table)]
    pub format: TopoFormat,

    /// Show PCI classes instead of NVLinks, as nvidia-smi topo -mp
    #[arg(long)]
    pub pci: bool,

    /// Show the peer-to-peer status of each pair of GPUs, as nvidia-smi topo -p2p
    #[arg(long, value_name = "CAPABILITY", value_enum, conflicts_with_all = ["pci", "nvme", "path", "pairs"])]
    pub p2p: Option<P2p>,

    /// Also show NVMe controllers
    #[arg(long)]
    pub nvme: bool,

    /// Show the path between two devices, such as GPU0, NIC3, mlx5_0 or a PCI address
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], conflicts_with = "pairs")]
    pub path: Option<Vec<String>>,

    /// Print the NICs for each GPU, with settings for NCCL, UCX, CUDA and numactl, and a script for Slurm
    #[arg(long)]
    pub pairs: bool,

    /// Show what NCCL decides here with this environment: the path of each pair, peer to peer, GPUDirect RDMA in each direction, and the
    /// NICs of each GPU, with the variable that changes it. By the rules of the installed NCCL, or of VERSION (2.18 to 2.30)
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true, conflicts_with_all = ["path", "pairs", "p2p", "all", "pci", "check"])]
    pub nccl: Option<Option<String>>,

    /// Show the full matrix: also NICs and NVMe controllers with each other
    #[arg(long, conflicts_with_all = ["path", "pairs", "p2p"])]
    pub all: bool,

    /// Assume this platform instead of detecting it: in a guest the PCI tree says nothing about the host's paths
    #[arg(long, value_name = "KIND", value_enum)]
    pub platform: Option<Platform>,

    /// Exit with status 1 if the best NIC of a GPU is rated bad
    #[arg(long)]
    pub check: bool,

    /// Masks.
    #[command(flatten)]
    pub masks: MaskOptions,
}

/// Output format of topo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopoFormat {
    /// For people.
    Table,
    /// Same bytes as nvidia-smi topo.
    NvidiaSmi,
    /// For programs: schema gdr.topo/1.
    Json,
    /// A drawing of the PCI tree.
    Svg,
    /// One page for a browser, to keep or to send.
    Html,
    /// The topology that NCCL reads by NCCL_TOPO_FILE.
    NcclXml,
}

/// A peer-to-peer capability, with nvidia-smi's letter.
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
