//! gdr's workshop: generated files, and machines to test on. It never ships.

mod generate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "gdr's workshop")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write completions, man pages and JSON schemas
    Generate {
        /// Write nothing; fail where a committed file is stale
        #[arg(long)]
        check: bool,
    },
}

#[allow(clippy::print_stderr, reason = "the workshop talks to the person at the bench")]
fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Generate { check } => generate::run(check),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
