//! The machine a command is about: a world that is read, or the facts of a dump.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use super::document;
use super::names::Names;
use crate::cli::Global;
use crate::collect::{self, Want};
use crate::import;
use crate::model::{Fact, Facts, Snapshot};
use crate::world::World;

/// A machine.
pub enum Machine {
    /// Live, laid out in a directory, or in a snapshot.
    World(World),
    /// What a text dump told of it.
    Imported {
        /// All of it.
        facts: Box<Facts>,
        /// The machine gdr runs on, whose pci.ids names the devices.
        here: World,
    },
}

impl Machine {
    /// The machine that the options name.
    pub fn of(global: &Global, err: &mut dyn Write) -> anyhow::Result<Self> {
        if let Some(file) = &global.from {
            return from(file, err).with_context(|| format!("--from {}", file.display()));
        }
        let world = match &global.sysroot {
            Some(root) => {
                World::directory(root).context("--sysroot wants a directory laid out like a machine's root")?
            }
            None => World::live(Duration::from_secs(global.library_timeout)).context("this machine cannot be read")?,
        };
        Ok(Self::World(world))
    }

    /// Its facts.
    pub fn facts(&self, want: Want) -> Facts {
        match self {
            Self::World(world) => collect::facts(world, want),
            Self::Imported { facts, .. } => {
                let mut facts = facts.as_ref().clone();
                if !want.nvme {
                    facts.nvme = Fact::default();
                }
                facts
            }
        }
    }

    /// Whether this is the machine gdr runs on.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::World(world) if world.is_live())
    }

    /// Whether its hardware can be tried, or was when it was recorded.
    pub fn can_be_tried(&self) -> bool {
        matches!(self, Self::World(world) if world.libraries.can_map())
    }

    /// Names of its PCI devices.
    pub fn names(&self) -> Names<'_> {
        let (Self::World(world) | Self::Imported { here: world, .. }) = self;
        Names::new(world.files.as_ref())
    }
}

/// A machine from a file: a snapshot, or a dump of another program.
fn from(file: &Path, err: &mut dyn Write) -> anyhow::Result<Machine> {
    let bytes = document::read(file)?;
    if let Some(snapshot) = document::snapshot(&bytes)? {
        let Snapshot { taken, gdr, .. } = &snapshot;
        let name = snapshot.host.name.as_deref().unwrap_or("a machine without a name");
        let masked = if snapshot.masked { ", masked" } else { "" };
        super::remark(
            err,
            &format!("{}: {name}, recorded {taken} by gdr {gdr}{masked}", file.display()),
        );
        return Ok(Machine::World(World::snapshot(snapshot)));
    }
    let here = World::live(Duration::ZERO)?;
    let names = Names::new(here.files.as_ref());
    let names = names
        .list()
        .ok_or_else(|| anyhow!("the list of parts cannot be read"))?;
    let mut facts = import::facts(&bytes, names)?;
    facts.host.source = file.display().to_string();
    Ok(Machine::Imported {
        facts: Box::new(facts),
        here,
    })
}
