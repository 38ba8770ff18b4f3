//! One module per command: reads a world, runs the checks, prints. Only this layer uses anyhow.

mod baseline;
mod doctor;
mod document;
mod expect;
mod expected;
mod explain;
mod fix;
mod fleet;
pub mod limits;
mod machine;
mod mask_key;
mod names;
mod planned;
mod probe;
mod probe_copy;
mod probe_file;
mod profiles;
mod repair;
mod run;
mod snapshot;
mod topo;
mod trusted;
mod undo;
mod vendor_report;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;

use machine::Machine;

pub use run::become_job;

use crate::cli::{Cli, Command, Global};
use crate::model::Facts;
use crate::output::printable;
use crate::probe::interrupts::Interrupts;

pub const ERROR: u8 = 2;

/// Runs a command and returns its exit code. Errors go to `err`.
pub fn run(cli: Cli, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    execute(cli, out, err).unwrap_or_else(|error| {
        remark(err, &format!("{error:#}"));
        for limit in limits::behind(&error) {
            remark(err, &limit);
        }
        ERROR
    })
}

fn execute(cli: Cli, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    if let Command::Snapshot(options) = &cli.command
        && let Some(files) = &options.diff
    {
        // Compares two files; needs no machine.
        return snapshot::diff(files, &cli.global, options, out);
    }
    if let Command::Explain(options) = &cli.command {
        // Reads a text; inspects a machine only if the text requires it.
        return explain::run(&cli.global, options, out, err);
    }
    if let Command::Run(options) = &cli.command {
        return run::run(&cli.global, options, err);
    }
    if let Command::Fleet(options) = &cli.command {
        return fleet::run(&cli.global, options, out, err);
    }
    if let Command::Expect(options) = &cli.command
        && !options.sources.is_empty()
    {
        return expect::of_files(options, out, err);
    }
    let machine = match masked_names(&cli.command) {
        // It would name the machine.
        Some(_) => Machine::of(&cli.global, &mut io::sink()),
        None => Machine::of(&cli.global, err),
    }?;
    match &cli.command {
        // Handled above.
        Command::Explain(_) | Command::Fleet(_) | Command::Run(_) => Ok(0),
        Command::Doctor(options) => doctor::run(&machine, &cli.global, options, out, err),
        Command::Expect(options) => expect::of_machine(&machine, options, out, err),
        Command::Topo(options) => topo::run(&machine, &cli.global, options, out, err),
        Command::Probe(options) => probe::run(&machine, &cli.global, options, out, err),
        Command::Fix(options) => fix::run(&machine, &cli.global, options, out, err),
        Command::FixAcs(options) => fix::run_acs(&machine, &cli.global, options, out, err),
        Command::Undo(options) => undo::run(&machine, &cli.global, options, out, err),
        Command::Snapshot(options) => snapshot::run(machine, &cli.global, options, out, err),
    }
}

/// The key file of a command that masks what it reports.
fn masked_names(command: &Command) -> Option<&Path> {
    let masks = match command {
        Command::Doctor(options) => &options.masks,
        Command::Topo(options) => &options.masks,
        Command::Probe(options) => &options.what.scope().masks,
        _ => return None,
    };
    masks.mask_key.as_deref()
}

/// The result of a command that catches signals: after one, the exit status is the signal's, whatever was printed.
fn concluded(
    interrupts: &Interrupts,
    result: anyhow::Result<u8>,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let Some(status) = interrupts.status() else {
        return result;
    };
    if let Err(error) = result {
        remark(err, &format!("{error:#}"));
    }
    Ok(status)
}

/// Prints a result. A closed pipe (`| head`) does not change the verdict.
fn print(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    print_with(out, |out| out.write_all(text.as_bytes()))
}

/// Prints output while it is computed.
fn print_with(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    // Standard output flushes at every line.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the output")
        }
        _ => Ok(()),
    }
}

/// Reports what could not be read.
fn notes(global: &Global, imported: bool, facts: &Facts, err: &mut dyn Write) {
    // Always report what an imported dump lacks or gdr ignored.
    let shown = match (global.verbose, imported) {
        (true, _) => usize::MAX,
        (false, true) => 5,
        (false, false) => 0,
    };
    for note in facts.notes.iter().take(shown) {
        remark(err, &format!("{}: {}", note.source, note.message));
    }
    let more = facts.notes.len().saturating_sub(shown);
    if shown > 0 && more > 0 {
        remark(err, &format!("{more} more remarks: --verbose shows them"));
    }
}

/// Writes a remark to stderr; a write error does not stop the output.
fn remark(err: &mut dyn Write, text: &str) {
    let _ = writeln!(err, "gdr: {}", printable(text));
}
