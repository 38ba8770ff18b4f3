#![forbid(unsafe_code)]
//! gdr's workshop: what builds, checks and tries gdr, and never ships with it.

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
    /// Write completions, man pages and JSON schemas
    Generate {
        /// Write nothing; fail where a committed file is stale
        #[arg(long)]
        check: bool,
    },
    /// Build libgdrapi or libgdsync and lay it out below a prefix: library, headers, pkg-config file
    InstallCapi(xtask::install::Args),
    /// Run a script in a virtual machine that has what this machine lacks
    Vm(xtask::vm::Args),
}

fn main() -> Result<ExitCode> {
    match Cli::parse().task {
        Task::Generate { check } => xtask::generate::run(check).map(|()| ExitCode::SUCCESS),
        Task::InstallCapi(args) => xtask::install::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Vm(args) => xtask::vm::command(&args),
    }
}
