//! One file a command: it reads a world, thinks with the other rooms, prints. The only place with anyhow.

mod doctor;
mod names;
mod topo;

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;

use crate::cli::{Cli, Command, Global};
use crate::model::Facts;
use crate::world::World;

/// Runs a command and returns its exit code.
pub fn run(cli: Cli, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    let world = world(&cli.global)?;
    let code = match &cli.command {
        Command::Doctor(options) => doctor::run(&world, &cli.global, options, out, err),
        Command::Topo(options) => topo::run(&world, &cli.global, options, out, err),
    }?;
    out.flush()?;
    Ok(code)
}

fn world(global: &Global) -> anyhow::Result<World> {
    match &global.sysroot {
        Some(root) => World::directory(root).context("--sysroot wants a directory laid out like a machine's root"),
        None => World::live(Duration::from_secs(global.library_timeout)).context("this machine cannot be read"),
    }
}

/// With --verbose, what could not be read.
fn notes(global: &Global, facts: &Facts, err: &mut dyn Write) -> std::io::Result<()> {
    if global.verbose {
        for note in &facts.notes {
            writeln!(err, "gdr: {}: {}", note.source, note.message)?;
        }
    }
    Ok(())
}
