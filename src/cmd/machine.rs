//! The machine that a command inspects: a world, or facts from a dump.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use super::document;
use super::names::Names;
use super::probe_file::{self, Saved};
use crate::cli::Global;
use crate::collect::{self, CollectOptions};
use crate::import::{self, Dump, ImportError, SupportReport};
use crate::model::{Fact, Facts, Side};
use crate::output::shell_word;
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
        if !global.from.is_empty() {
            let (machine, side) = Self::read(&global.from)
                .with_context(|| format!("--from {}", list(&global.from)))?;
            super::remark(err, &provenance(&side));
            return Ok(machine);
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
        let (machine, side) = Self::read(&[file.to_owned()])?;
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

    /// Reads a snapshot, or what other programs printed about one machine, and its description.
    pub fn read(files: &[PathBuf]) -> anyhow::Result<(Self, Side)> {
        match Recorded::of_files(files)? {
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
        Self::of_files(&[file.to_owned()])
    }

    /// Reads files of one machine. A snapshot or the results of a probe stand alone.
    pub fn of_files(files: &[PathBuf]) -> anyhow::Result<Self> {
        let source = list(files);
        let mut parts = Parts::default();
        for file in files {
            let of_file = || file.display().to_string();
            let several = files.len() > 1;
            let read = Read::of(file);
            let read = if several { read.with_context(of_file) } else { read }?;
            let bytes = match read {
                Read::Report(report) if parts.report.is_some() => {
                    drop(report);
                    bail!("{}: a second support report; give one", of_file())
                }
                Read::Report(report) => {
                    parts.report = Some(*report);
                    continue;
                }
                Read::Document(bytes) => bytes,
            };
            if let Some(recorded) = Self::alone(&bytes, &of_file())? {
                if several {
                    bail!(
                        "{}: a document of gdr, which stands alone: give it without other --from",
                        of_file()
                    );
                }
                return Ok(recorded);
            }
            parts.add(bytes, several.then(of_file))?;
        }
        let here = World::live(Duration::ZERO)?;
        let names = Names::new(here.files.as_ref());
        let names = names.list().ok_or_else(|| anyhow!("cannot read the list of device names"))?;
        let only = files.first().filter(|file| files.len() == 1 && file.as_os_str() != "-");
        let mut facts = parts.facts(&source, names).map_err(|error| name_file(error, only))?;
        let side = Side { source, host: facts.host.name.clone(), ..Side::default() };
        facts.host.source = side.source.clone();
        let facts = Box::new(facts);
        Ok(Self::Machine(Box::new(Machine::Imported { facts, here }), side))
    }

    /// A document of gdr itself.
    fn alone(bytes: &[u8], source: &str) -> anyhow::Result<Option<Self>> {
        if let Some(saved) = probe_file::parse(bytes, source)? {
            return Ok(Some(Self::Probe(Box::new(saved))));
        }
        let Some(mut snapshot) = document::snapshot(bytes)? else {
            return Ok(None);
        };
        let side = Side {
            source: source.to_owned(),
            host: snapshot.host.name.clone(),
            taken: Some(snapshot.taken.clone()),
        };
        snapshot.host = snapshot.host.replayed(source, &snapshot.taken);
        let machine = Machine::World(World::snapshot(snapshot));
        Ok(Some(Self::Machine(Box::new(machine), side)))
    }
}

/// The file in the commands of a message.
fn name_file(error: anyhow::Error, file: Option<&PathBuf>) -> anyhow::Error {
    use ImportError as Error;
    match (error.downcast_ref(), file) {
        (Some(found @ (Error::Machines(_) | Error::Job(_) | Error::Useless(_))), Some(file)) => {
            let file = shell_word(&file.display().to_string());
            anyhow!("{}", found.to_string().replace(" FILE |", &format!(" {file} |")))
        }
        _ => error,
    }
}

/// The names of the files, for messages.
fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// The content of a file given with --from.
enum Read {
    Document(Vec<u8>),
    Report(Box<SupportReport>),
}

impl Read {
    fn of(file: &Path) -> anyhow::Result<Self> {
        document::open(file, |content| {
            Ok(match import::support_report(content)? {
                Some(report) => Self::Report(Box::new(report)),
                None => Self::Document(document::whole(content)?),
            })
        })
    }
}

/// What the files of one machine hold.
#[derive(Default)]
struct Parts {
    report: Option<SupportReport>,
    /// A list of PCI functions in a format of its own: hwloc, NCCL, rdma_topo.
    dump: Option<Vec<u8>>,
    /// All texts, one after the other.
    text: Vec<u8>,
    /// The lines of the file on which those of a single text stand; none if they are its own.
    lines: Vec<usize>,
}

impl Parts {
    fn add(&mut self, mut bytes: Vec<u8>, file: Option<String>) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        if matches!(import::recognise(&bytes), None | Some(Dump::Lspci))
            && let Some(plain) = import::plain(&bytes)
        {
            (bytes, lines) = (plain.bytes, plain.lines);
        }
        if self.dump.is_none()
            && matches!(import::recognise(&bytes), None | Some(Dump::Lspci))
            && let Some((dump, rest)) = import::embedded(&bytes)
        {
            self.dump = Some(dump);
            if rest.iter().all(u8::is_ascii_whitespace) {
                return Ok(());
            }
            bytes = rest;
        }
        match import::recognise(&bytes) {
            None | Some(Dump::Lspci) if self.text.is_empty() => {
                (self.text, self.lines) = (bytes, lines);
            }
            None | Some(Dump::Lspci) => {
                self.lines.clear();
                // A fence: a command's output ends with its file.
                self.text.extend_from_slice(b"\n```\n");
                self.text.extend_from_slice(&bytes);
            }
            Some(_) if self.dump.is_some() => bail!(
                "{}: a second list of PCI functions; give one of hwloc, NCCL or rdma_topo",
                file.unwrap_or_default()
            ),
            Some(_) => self.dump = Some(bytes),
        }
        Ok(())
    }

    fn facts(self, source: &str, names: &PciNames) -> anyhow::Result<Facts> {
        let dump = self.dump.map(|bytes| import::facts(&bytes, names)).transpose()?;
        let text = if self.text.is_empty() && dump.is_some() {
            self.report
        } else {
            match import::text_of_file(&self.text, &self.lines, self.report.unwrap_or_default()) {
                // Words around XML may say nothing.
                Err(error) if dump.is_some() && error.shows_no_machine() => None,
                read => Some(read?),
            }
        };
        let text = text.map(|report| reported(report, source, names)).transpose()?;
        Ok(match (dump, text) {
            (Some(dump), Some(text)) => import::join(dump, text),
            (Some(facts), None) | (None, Some(facts)) => facts,
            (None, None) => Facts::default(),
        })
    }
}

/// The facts of a support report, or of texts that were recorded like one.
fn reported(mut report: SupportReport, source: &str, names: &PciNames) -> anyhow::Result<Facts> {
    let printed = report.printed(names)?;
    if !report.has_recording() {
        let mut facts = printed.unwrap_or_default();
        report.add_listed(&mut facts);
        return Ok(facts);
    }
    let mut facts = collect::facts(
        &World::report(std::mem::take(&mut report.files), source.to_owned()),
        CollectOptions {
            nvme: true,
            system: true,
            modules: true,
            software: true,
            ..CollectOptions::default()
        },
    );
    if let Some(nvml) = &report.nvml {
        facts.nvml = Fact::Known(nvml.clone());
    }
    if let Some(printed) = printed {
        facts = import::add_printed(facts, printed);
    }
    report.add_listed(&mut facts);
    Ok(facts)
}

/// The source of the facts: a recorded machine looks like a live one otherwise.
fn provenance(side: &Side) -> String {
    let host = side.host.as_deref().unwrap_or("an unnamed machine");
    match &side.taken {
        Some(taken) => format!("{}: {host}, recorded {taken}", side.source),
        None => format!("{}: {host}, from a dump of another program", side.source),
    }
}
