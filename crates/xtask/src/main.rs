#![forbid(unsafe_code)]
//! Development tasks of gdr; not shipped.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write completions, man pages, JSON schemas, lists and pictures
    Generate {
        /// Write nothing; fail if a committed file is stale
        #[arg(long)]
        check: bool,
    },
    /// Write the list of NVIDIA's GPUs from README.md of NVIDIA/open-gpu-kernel-modules
    Gpus {
        readme: std::path::PathBuf,
        /// The tag of that README, such as 595.45.04
        release: String,
    },
    /// Build archives, debs and rpms for old and new systems
    Dist(xtask::dist::Args),
    /// Build libgdrapi or libgdsync and install library, headers and pkg-config file in a prefix
    InstallCapi(xtask::install::Args),
    /// Run a script in a virtual machine with simulated hardware
    Vm(xtask::vm::Args),
}

fn main() -> Result<ExitCode> {
    match Cli::parse().task {
        Task::Generate { check } => xtask::generate::run(check).map(|()| ExitCode::SUCCESS),
        Task::Gpus { readme, release } => {
            xtask::gpus::run(&readme, &release).map(|()| ExitCode::SUCCESS)
        }
        Task::Dist(args) => xtask::dist::run(&args).map(|()| ExitCode::SUCCESS),
        Task::InstallCapi(args) => xtask::install::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Vm(args) => xtask::vm::command(&args),
    }
}
