//! The machine that a command inspects: a world, or facts from a dump.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use super::document;
use super::names::Names;
use super::probe_file::{self, Saved};
use crate::cli::Global;
use crate::collect::{self, CollectOptions};
use crate::import::{self, SupportReport};
use crate::model::{Fact, Facts, Side};
use crate::pci::PciNames;
use crate::world::World;

pub enum Machine {
    /// Live, a sysroot, or a snapshot.
    World(World),
    /// Facts from a text dump.
    Imported {
        facts: Box<Facts>,
        /// The local machine, whose pci.ids names the devices.
        here: World,
    },
}

impl Machine {
    /// The machine that the global options select.
    pub fn of(global: &Global, err: &mut dyn Write) -> anyhow::Result<Self> {
        if let Some(file) = &global.from {
            return Self::recorded(file, err).with_context(|| format!("--from {}", file.display()));
        }
        let world = match &global.sysroot {
            Some(root) => {
                let world = World::directory(root).context("--sysroot")?;
                let is_missing =
                    |path: &str| matches!(world.files.exists(Path::new(path)), Ok(false));
                if is_missing("/sys") && is_missing("/proc") {
                    bail!(
                        "--sysroot {}: not the root of a machine: it has neither sys/ nor proc/",
                        root.display()
                    );
                }
                world
            }
            None => World::live(Duration::from_secs(global.library_timeout))
                .context("cannot read this machine")?,
        };
        Ok(Self::World(world))
    }

    /// The machine that a file describes.
    pub fn recorded(file: &Path, err: &mut dyn Write) -> anyhow::Result<Self> {
        let (machine, side) = Self::read(file)?;
        super::remark(err, &provenance(&side));
        Ok(machine)
    }

    pub fn facts(&self, want: CollectOptions) -> Facts {
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

    /// True for the local machine.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::World(world) if world.is_live())
    }

    /// True for a dump of another program.
    pub fn is_imported(&self) -> bool {
        matches!(self, Self::Imported { .. })
    }

    /// True if hardware tests are possible or were recorded.
    pub fn can_be_tried(&self) -> bool {
        matches!(self, Self::World(world) if world.libraries.can_try())
    }

    /// Names of its PCI devices.
    pub fn names(&self) -> Names<'_> {
        let (Self::World(world) | Self::Imported { here: world, .. }) = self;
        Names::new(world.files.as_ref())
    }

    /// Reads a snapshot or a dump of another program, and its description.
    pub fn read(file: &Path) -> anyhow::Result<(Self, Side)> {
        match Recorded::read(file)? {
            Recorded::Machine(machine, side) => Ok((*machine, side)),
            Recorded::Probe(_) => bail!("it has the results of a probe, and no machine"),
        }
    }
}

/// What a file holds: a machine, or the results of a probe.
pub enum Recorded {
    Machine(Box<Machine>, Side),
    Probe(Box<Saved>),
}

impl Recorded {
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let mut side = Side { source: file.display().to_string(), ..Side::default() };
        let read = document::open(file, |content| {
            Ok(match import::support_report(content)? {
                Some(report) => Read::Report(report),
                None => Read::Document(document::whole(content)?),
            })
        })?;
        if let Read::Document(bytes) = &read
            && let Some(saved) = probe_file::parse(bytes, &side.source)?
        {
            return Ok(Self::Probe(Box::new(saved)));
        }
        if let Read::Document(bytes) = &read
            && let Some(mut snapshot) = document::snapshot(bytes)?
        {
            side.host = snapshot.host.name.clone();
            side.taken = Some(snapshot.taken.clone());
            snapshot.host = snapshot.host.replayed(&side.source, &snapshot.taken);
            let machine = Machine::World(World::snapshot(snapshot));
            return Ok(Self::Machine(Box::new(machine), side));
        }
        let here = World::live(Duration::ZERO)?;
        let names = Names::new(here.files.as_ref());
        let list = names.list().ok_or_else(|| anyhow!("cannot read the list of device names"))?;
        let mut facts = match read {
            Read::Document(bytes) => import::facts(&bytes, list)?,
            Read::Report(report) => reported(report, &side.source, list)?,
        };
        side.host = facts.host.name.clone();
        facts.host.source = side.source.clone();
        let facts = Box::new(facts);
        Ok(Self::Machine(Box::new(Machine::Imported { facts, here }), side))
    }
}

/// The content of a file given with --from.
enum Read {
    Document(Vec<u8>),
    Report(SupportReport),
}

/// The facts of a support report.
fn reported(report: SupportReport, source: &str, names: &PciNames) -> anyhow::Result<Facts> {
    let printed = report.printed(names)?;
    let mut facts = collect::facts(
        &World::report(report.files, source.to_owned()),
        CollectOptions {
            nvme: true,
            system: true,
            modules: true,
            software: true,
            ..CollectOptions::default()
        },
    );
    if let Some(nvml) = report.nvml {
        facts.nvml = Fact::Known(nvml);
    }
    Ok(match printed {
        Some(printed) => import::add_printed(facts, printed),
        None => facts,
    })
}

/// The source of the facts: a recorded machine looks like a live one otherwise.
fn provenance(side: &Side) -> String {
    let host = side.host.as_deref().unwrap_or("an unnamed machine");
    match &side.taken {
        Some(taken) => format!("{}: {host}, recorded {taken}", side.source),
        None => format!("{}: {host}, from a dump of another program", side.source),
    }
}
