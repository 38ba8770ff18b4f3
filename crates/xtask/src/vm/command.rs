//! `cargo xtask vm`: command line, and the result on standard output.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use super::image::Image;
use super::job::{self, Job};
use super::machine::{MACHINES, named};
use super::tool::progress;

/// Arguments of `cargo xtask vm`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Machine to run; --list shows all
    #[arg(long, required_unless_present = "list")]
    machine: Option<String>,
    /// Shell script that the guests run as root; it must write /out/verdict.json
    #[arg(long, required_unless_present = "list")]
    script: Option<PathBuf>,
    /// Binary to copy to the guests' /bin, with its libraries
    #[arg(long = "bin", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// Timeout in seconds
    #[arg(long, value_name = "SECS", default_value_t = 120)]
    timeout: u64,
    /// File for the result, besides standard output; the guests' files go to a directory of this name without its extension
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[arg(long)]
    list: bool,
}

/// Runs the command; exit code 0 only if the script ended with 0 and left a verdict.
pub fn command(args: &Args) -> Result<ExitCode> {
    let (Some(machine), Some(script), false) = (&args.machine, &args.script, args.list) else {
        return list().map(|()| ExitCode::SUCCESS);
    };
    let machine = named(machine)?;
    let cache = cache();
    let files = match &args.out {
        Some(out) => out.with_extension(if out.extension().is_some() { "" } else { "files" }),
        None => cache.join("last").join(machine.name),
    };
    let image = Image::prepare(&cache)?;
    let job = Job {
        script: script.clone(),
        binaries: args.binaries.clone(),
        timeout: Duration::from_secs(args.timeout),
        variables: Vec::new(),
        disk: None,
        files,
    };
    let outcome = job::run(machine, &image, &job)?;
    for guest in &outcome.failures {
        progress(format_args!("guest {}: the console last showed", guest.guest));
        guest.console.iter().for_each(|line| progress(format_args!("  {line}")));
    }
    let json = serde_json::to_string_pretty(&outcome)? + "\n";
    if let Some(out) = &args.out {
        fs::write(out, &json).with_context(|| format!("cannot write {}", out.display()))?;
    }
    print(&json)?;
    Ok(if outcome.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() -> Result<()> {
    let lines =
        MACHINES.iter().map(|machine| format!("{:<12}{}\n", machine.name, machine.description));
    print(&lines.collect::<String>())
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write standard output")
}

/// `target/vm` of this workspace.
fn cache() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .ancestors()
                .nth(2)
                .unwrap_or(Path::new("."))
                .join("target")
        },
        PathBuf::from,
    );
    target.join("vm")
}
