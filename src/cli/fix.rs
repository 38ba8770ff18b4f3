//! What a user can type after `gdr fix`, `gdr fix-acs` and `gdr undo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Platform;
use crate::model::Bdf;

/// `gdr fix`.
#[derive(Debug, Args)]
pub struct FixOptions {
    /// The fixes to make, by their ids; without any, those of all failed findings of the profile
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// What the machine should be ready for, as in gdr doctor
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// List the fixes and end
    #[arg(long)]
    pub list: bool,

    /// How it is made
    #[command(flatten)]
    pub how: RepairOptions,
}

/// `gdr fix-acs`.
#[derive(Debug, Args)]
pub struct FixAcs {
    /// Only the ports between these two devices: GPU0, NIC0, mlx5_0 or PCI addresses
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["device", "all_bridges"])]
    pub pair: Option<Vec<String>>,

    /// Only this port, by its PCI address
    #[arg(long, value_name = "BDF", conflicts_with = "all_bridges")]
    pub device: Option<Bdf>,

    /// Every root port and switch port of the machine, wherever it leads: the blunt way
    ///
    /// NVIDIA advises against one ACS value for every device that has ACS: only the ports on the ways between GPUs and NICs
    /// matter, and the others keep devices apart that have nothing to do with GPUDirect (virtual machines above all).
    #[arg(long)]
    pub all_bridges: bool,

    /// Keep the change over reboots
    ///
    /// Without it a reboot undoes it.
    #[arg(long, value_name = "HOW", value_enum)]
    pub persist: Option<PersistHow>,

    /// How it is made
    #[command(flatten)]
    pub how: RepairOptions,
}

/// How a change of access control services lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PersistHow {
    /// A unit of systemd runs this command again at every boot, before the usual workloads.
    Unit,
    /// The kernel makes it, told on its command line by the boot loader: pci=config_acs from 6.15 on,
    /// pci=disable_acs_redir before 6.11. It also lasts over resets of ports.
    Cmdline,
}

/// How a repair is made.
#[derive(Debug, Args)]
pub struct RepairOptions {
    /// Print the plan and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,

    /// Also make what gdr refuses for safety
    #[arg(long)]
    pub force: bool,

    /// Judge as on this platform, whatever the machine looks like, as doctor does
    #[arg(long, value_name = "KIND", value_enum)]
    pub platform: Option<Platform>,

    /// How to print the plan
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = PlanFormat::Table)]
    pub format: PlanFormat,

    /// With --sysroot: run the programs in this directory in place of the machine's, with GDR_ROOT set
    ///
    /// Without it, commands are printed for you to run; systemctl, which takes a root, is run on it.
    #[arg(long, value_name = "DIR", requires = "sysroot")]
    pub tools: Option<PathBuf>,
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For people.
    Table,
    /// A shell script that does the same.
    Script,
    /// For programs: schema gdr.plan/1, and gdr.journal/1 once it is made.
    Json,
}

/// `gdr undo`.
#[derive(Debug, Args)]
pub struct Undo {
    /// The repair to take back, by its number; without it the newest that is not taken back
    #[arg(value_name = "N", conflicts_with = "list")]
    pub number: Option<u32>,

    /// List the repairs and end
    #[arg(long)]
    pub list: bool,

    /// Do not ask for confirmation at a terminal
    #[arg(long, short, conflicts_with = "list")]
    pub yes: bool,

    /// Also restore what another program has changed since
    #[arg(long, conflicts_with = "list")]
    pub force: bool,

    /// With --sysroot: run the programs in this directory in place of the machine's, with GDR_ROOT set
    #[arg(long, value_name = "DIR", requires = "sysroot")]
    pub tools: Option<PathBuf>,
}
