//! Arguments of `gdr fleet`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::probe::rdma::RdmaProbe;

/// `gdr fleet`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Fleet {
    /// What to do.
    #[command(subcommand)]
    pub what: FleetWhat,
}

/// The commands on many nodes.
#[derive(Debug, Subcommand)]
pub enum FleetWhat {
    /// Merge reports of doctor and probe that were collected from many nodes
    ///
    /// It names nodes that are missing, dead or of another version, groups nodes that are alike, and shows what a few do
    /// not share with the others: facts, figures, links.
    Report(FleetReportOptions),

    /// Show each node over time, and the nodes that fail and recover
    ///
    /// It reads a directory of records (gdr fleet report --keep), of reports of gdr fleet in JSON, or of directories with the
    /// reports of the nodes, one a day.
    History(FleetHistoryOptions),

    /// Run doctor on every node of a launcher, and merge the reports
    ///
    /// srun, an mpirun or a Kubernetes Indexed Job starts it on each node. Rank 0 collects the reports and prints one; a
    /// node that hangs, dies or never arrives is in it by name.
    Doctor(FleetRun),

    /// Run topo on every node of a launcher, and merge the results
    Topo(FleetRun),

    /// Run a probe on every node of a launcher: each on its own devices, or between the NICs of all nodes
    ///
    /// rdma measures every pair of nodes on every rail, in rounds in which each node has one partner; then all rails at
    /// once, then crossed rails. It names the node, NIC, direction of a cable, rail or leaf switch that is at fault.
    Probe(FleetProbe),
}

/// Options of a command on every node.
#[derive(Debug, Args)]
pub struct FleetRun {
    /// How long a node may work
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub timeout: u64,

    /// How long the nodes may take to arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub arrival: u64,

    /// Find rank 0 by this file in a directory that all nodes share [default: gdr-fleet-JOB in the working directory]
    ///
    /// Not needed if the launcher names the host of rank 0 and all nodes have a secret.
    #[arg(long, value_name = "FILE")]
    pub rendezvous: Option<PathBuf>,

    /// The secret that all nodes share, 64 hexadecimal digits; the variable GDR_PROBE_SECRET works too
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Replace the names of the nodes
    #[arg(long)]
    pub mask: bool,

    /// Mask with the key in this file, which rank 0 reads: the same node has the same mask in every report
    #[arg(long, value_name = "FILE")]
    pub mask_key: Option<PathBuf>,

    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Table)]
    pub format: FleetFormat,

    /// Options of the command on each node, after '--'
    #[arg(last = true, value_name = "OPTION")]
    pub arguments: Vec<OsString>,
}

/// `gdr fleet probe`.
#[derive(Debug, Args)]
pub struct FleetProbe {
    /// The probe
    #[arg(value_name = "PROBE", value_enum)]
    pub probe: FleetProbeKind,

    /// Measure less; with rdma O(log N) rounds instead of all pairs of N nodes
    #[arg(long)]
    pub quick: bool,

    /// With rdma: which node or NIC hangs on which leaf switch
    ///
    /// Slurm's topology.conf; or the output of lldpctl -f keyvalue of all nodes, each line with NODE: in front; or a table
    /// of node, NIC (or network interface) and switch.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,

    /// Options of every node.
    #[command(flatten)]
    pub run: FleetRun,
}

/// A probe of each node's own devices, or between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetProbeKind {
    /// Mappings of GPU memory.
    Copy,
    /// Host and GPU memory.
    Host,
    /// Pairs of GPUs.
    P2p,
    /// NICs of different nodes.
    Rdma,
}

impl FleetProbeKind {
    /// As in `gdr probe NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Host => "host",
            Self::P2p => "p2p",
            Self::Rdma => "rdma",
        }
    }
}

/// Options of `gdr probe rdma` after `--`.
#[derive(Debug, Parser)]
#[command(name = "gdr fleet probe rdma --", no_binary_name = true)]
struct LinkOptions {
    /// The options.
    #[command(flatten)]
    probe: RdmaProbe,
}

impl FleetProbe {
    /// The options of the links between nodes. The error is clap's, for people.
    pub fn link_options(&self) -> Result<RdmaProbe, String> {
        let parsed = LinkOptions::try_parse_from(&self.run.arguments);
        parsed.map(|options| options.probe).map_err(|error| error.render().to_string())
    }
}

/// `gdr fleet report`.
#[derive(Debug, Args)]
pub struct FleetReportOptions {
    /// JSON of gdr doctor and gdr probe, one document a file, or directories of such files; compressed files are read too
    #[arg(value_name = "FILE|DIR", required = true)]
    pub sources: Vec<PathBuf>,

    /// Nodes that must have a report, as in n[1-64]; the others are named as missing
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,

    /// Show what changed since an earlier report: JSON of gdr fleet, one record of --keep, a directory of either, or a directory
    /// of the nodes' earlier reports
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "mask")]
    pub baseline: Option<PathBuf>,

    /// Keep a record of these reports in this directory, reduced and compressed, for --baseline and gdr fleet history
    #[arg(long, value_name = "DIR", conflicts_with = "mask")]
    pub keep: Option<PathBuf>,

    /// Name the nodes by their files, not by the hosts that the reports name
    #[arg(long)]
    pub by_file: bool,

    /// Replace the names of the nodes
    #[arg(long)]
    pub mask: bool,

    /// Mask with the key in this file: the same node has the same mask in every report, and in a snapshot with this key
    ///
    /// Without the key nobody can find out which name a mask stands for by trying names, and whoever has the key can: keep it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "keep"])]
    pub mask_key: Option<PathBuf>,

    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Table)]
    pub format: FleetFormat,
}

/// `gdr fleet history`.
#[derive(Debug, Args)]
pub struct FleetHistoryOptions {
    /// Directory of the records; their times are in them, not in their names
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Replace the names of the nodes
    #[arg(long)]
    pub mask: bool,

    /// Mask with the key in this file: the same node has the same mask in every report, and in a snapshot with this key
    ///
    /// Without the key nobody can find out which name a mask stands for by trying names, and whoever has the key can: keep it.
    #[arg(long, value_name = "FILE")]
    pub mask_key: Option<PathBuf>,

    /// Output format of the history
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = HistoryFormat::Table)]
    pub format: HistoryFormat,
}

/// Output format of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.history/1.
    Json,
    /// One page for a browser, to keep or to send.
    Html,
}

/// Output format of a fleet's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.fleet/1.
    Json,
    /// One page for a browser, to keep or to send.
    Html,
    /// For CI systems: JUnit XML.
    Junit,
}
