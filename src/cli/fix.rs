//! Arguments of `gdr fix`, `gdr fix-acs` and `gdr undo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Platform;
use crate::model::Bdf;

/// `gdr fix`.
#[derive(Debug, Args)]
pub struct FixOptions {
    /// Ids of the fixes; by default those for all failed findings of the profile
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// Profiles to check the machine against, as with doctor; may be given several times
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// List the available fixes and exit
    #[arg(long)]
    pub list: bool,

    /// Options of every repair.
    #[command(flatten)]
    pub how: RepairOptions,
}

/// `gdr fix-acs`.
#[derive(Debug, Args)]
pub struct FixAcs {
    /// Only the ports between two devices, such as GPU0, NIC0, mlx5_0 or PCI addresses
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["device", "all_bridges"])]
    pub pair: Option<Vec<String>>,

    /// Only this port, by PCI address
    #[arg(long, value_name = "BDF", conflicts_with = "all_bridges")]
    pub device: Option<Bdf>,

    /// All root ports and switch ports of the machine
    ///
    /// Not recommended: only the ports between GPUs and NICs matter for GPUDirect. The others isolate unrelated
    /// devices, such as those of virtual machines, and NVIDIA advises against one ACS value for all devices.
    #[arg(long)]
    pub all_bridges: bool,

    /// Keep the change across reboots
    ///
    /// By default a reboot reverts it.
    #[arg(long, value_name = "HOW", value_enum)]
    pub persist: Option<PersistHow>,

    /// Options of every repair.
    #[command(flatten)]
    pub how: RepairOptions,
}

/// How an ACS change persists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PersistHow {
    /// A systemd unit runs this command at every boot, before the usual workloads.
    Unit,
    /// A kernel parameter: pci=config_acs since Linux 6.15, pci=disable_acs_redir before 6.11. Also survives resets of
    /// ports.
    Cmdline,
}

/// Options of every repair.
#[derive(Debug, Args)]
pub struct RepairOptions {
    /// Print the plan and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,

    /// Also make repairs that gdr considers unsafe
    #[arg(long)]
    pub force: bool,

    /// Assume this platform, as with doctor
    #[arg(long, value_name = "KIND", value_enum)]
    pub platform: Option<Platform>,

    /// Output format of the plan
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = PlanFormat::Table)]
    pub format: PlanFormat,

    /// With --sysroot: run the programs in this directory instead of those of the machine, with GDR_ROOT set
    ///
    /// By default, commands are printed for you to run; only systemctl, which has a --root option, is run.
    #[arg(long, value_name = "DIR", requires = "sysroot")]
    pub tools: Option<PathBuf>,
}

/// Output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For people.
    Table,
    /// A shell script with the same steps.
    Script,
    /// For programs: schema gdr.plan/1, or gdr.journal/1 after the repair.
    Json,
}

/// `gdr undo`.
#[derive(Debug, Args)]
pub struct Undo {
    /// Number of the repair to undo; by default the newest that is not undone
    #[arg(value_name = "N", conflicts_with = "list")]
    pub number: Option<u32>,

    /// List the repairs and exit
    #[arg(long)]
    pub list: bool,

    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "list")]
    pub yes: bool,

    /// Also restore files that another program has changed since
    #[arg(long, conflicts_with = "list")]
    pub force: bool,

    /// With --sysroot: run the programs in this directory instead of those of the machine, with GDR_ROOT set
    #[arg(long, value_name = "DIR", requires = "sysroot")]
    pub tools: Option<PathBuf>,
}
