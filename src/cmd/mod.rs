//! One file a command: it reads a world, thinks with the other rooms, prints. The only place with anyhow.

mod doctor;
mod document;
mod explain;
mod fix;
mod machine;
mod names;
mod probe;
mod profiles;
mod promised;
mod snapshot;
mod topo;
mod trusted;
mod undo;

use std::io::{self, BufWriter, Write};

use anyhow::Context as _;

use machine::Machine;

use crate::cli::{Cli, Command, Global};
use crate::model::Facts;
use crate::output::printable;

/// Exit code: usage or internal error.
pub const ERROR: u8 = 2;

/// Runs a command and returns its exit code. An error is reported on `err`.
pub fn run(cli: Cli, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    execute(cli, out, err).unwrap_or_else(|error| {
        remark(err, &format!("{error:#}"));
        ERROR
    })
}

fn execute(cli: Cli, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    if let Command::Snapshot(options) = &cli.command
        && let Some(files) = &options.diff
    {
        // It is about two files, not about a machine.
        return snapshot::diff(files, &cli.global, options, out);
    }
    if let Command::Explain(options) = &cli.command {
        // It is about a text; a machine is looked at where the text leads to one.
        return explain::run(&cli.global, options, out, err);
    }
    let machine = Machine::of(&cli.global, err)?;
    match &cli.command {
        // It was answered above.
        Command::Explain(_) => Ok(0),
        Command::Doctor(options) => doctor::run(&machine, &cli.global, options, out, err),
        Command::Topo(options) => topo::run(&machine, &cli.global, options, out, err),
        Command::Probe(options) => probe::run(&machine, &cli.global, options, out, err),
        Command::Fix(options) => fix::run(&machine, &cli.global, options, out, err),
        Command::FixAcs(options) => fix::run_acs(&machine, &cli.global, options, out, err),
        Command::Undo(options) => undo::run(&machine, &cli.global, options, out, err),
        Command::Snapshot(options) => snapshot::run(machine, &cli.global, options, out, err),
    }
}

/// Prints what a command found. A reader who has seen enough (`| head`) changes nothing about the verdict.
fn print(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    print_with(out, |out| out.write_all(text.as_bytes()))
}

/// Prints what is written while it is computed.
fn print_with(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    // Standard output hands every line on by itself.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the output")
        }
        _ => Ok(()),
    }
}

/// What could not be read.
fn notes(global: &Global, imported: bool, facts: &Facts, err: &mut dyn Write) {
    // What a dump of another program left out, or gdr of it, nobody may miss.
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

/// A remark beside the output. Where it cannot be written, the output is worth having all the same.
fn remark(err: &mut dyn Write, text: &str) {
    let _ = writeln!(err, "gdr: {}", printable(text));
}
