//! The machines from which something is taken away: every one of the tests, as a directory, a snapshot and a support report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use gdr::collect::{self, CollectOptions};
use gdr::model::{Facts, FileKind, PlatformKind, Recorded, Snapshot};
use gdr::profile::Profile;
use gdr::world::{Files, World};
use tempfile::TempDir;

use super::lossy::{How, Lossy};
use super::verdicts::Verdicts;
use crate::checks::{self, Case};
use crate::support::{Machine, corpus, names, recorded, scratch};

/// How a machine is given to gdr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Directory,
    Snapshot,
    Report,
}

/// A machine that is made when it is needed.
pub struct Source {
    pub name: String,
    pub form: Form,
    make: Make,
}

enum Make {
    Machine(String),
    Corpus(std::path::PathBuf),
    Recorded(String),
    Case(Box<Case>),
}

pub fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |name: String, form, make| sources.push(Source { name, form, make });
    for name in names() {
        for form in [Form::Directory, Form::Snapshot, Form::Report] {
            add(name.clone(), form, Make::Machine(name.clone()));
        }
    }
    for path in corpus() {
        let name = path.file_stem().expect("a name").display().to_string();
        add(name, Form::Directory, Make::Corpus(path));
    }
    for name in recorded() {
        for form in [Form::Snapshot, Form::Report] {
            add(format!("recorded {name}"), form, Make::Recorded(name.clone()));
        }
    }
    for case in checks::cases() {
        let name = format!("case: {}", case.about);
        add(name, Form::Snapshot, Make::Case(Box::new(case)));
    }
    sources
}

/// A machine, and what gdr says about it as long as nothing is lost.
pub struct Subject {
    pub name: String,
    pub form: Form,
    files: Arc<dyn Files>,
    /// Without its files.
    snapshot: Snapshot,
    /// What the collectors asked for and got an answer to.
    asked: BTreeMap<String, Recorded>,
    options: CollectOptions,
    asserted: Option<PlatformKind>,
    pub before: Verdicts,
    /// Where its files are.
    _directory: Option<TempDir>,
}

impl Source {
    pub fn subject(&self, profiles: &[Profile]) -> Subject {
        let (mut asserted, mut live) = (None, false);
        let mut directory = None;
        let (world, snapshot) = match &self.make {
            Make::Machine(name) => laid_out(&Machine::load(name), &mut directory),
            Make::Corpus(path) => laid_out(&Machine::from_corpus(path), &mut directory),
            Make::Recorded(name) => {
                let path =
                    format!("{}/tests/recorded/{name}/snapshot.json", env!("CARGO_MANIFEST_DIR"));
                let text = fs::read(path).expect("a snapshot");
                let snapshot: Snapshot = serde_json::from_slice(&text).expect("a snapshot");
                live = snapshot.libraries.mapping.is_some()
                    || snapshot.libraries.registration.is_some();
                (None, snapshot)
            }
            Make::Case(case) => {
                live = case.args.iter().any(|argument| argument == "--live");
                asserted = asserted_platform(&case.args);
                let snapshot = serde_json::from_value(checks::changed_snapshot(case));
                (None, snapshot.expect("a case's snapshot"))
            }
        };
        let (world, mut snapshot) = match (self.form, world) {
            (Form::Directory, Some(world)) => (world, snapshot),
            (Form::Directory, None) => panic!("{} is not a directory", self.name),
            (Form::Snapshot, _) => (World::snapshot(snapshot.clone()), snapshot),
            (Form::Report, _) => {
                let files = snapshot.files.clone();
                let report = Snapshot { host: snapshot.host, ..Snapshot::default() };
                (World::report(files, "a report".to_owned()), report)
            }
        };
        snapshot.files = BTreeMap::new();
        let options = CollectOptions::everything(live);
        let mut subject = Subject {
            name: self.name.clone(),
            form: self.form,
            files: Arc::from(world.files),
            snapshot,
            asked: BTreeMap::new(),
            options,
            asserted,
            before: Verdicts::of(&Facts::default(), &[]),
            _directory: directory,
        };
        let (world, record) = subject.world(subject.whole()).recording();
        let facts = subject.facts(&world);
        subject.before = Verdicts::of(&facts, profiles);
        subject.asked = record.finish(String::new()).files;
        subject
    }
}

/// The machine in a directory, and its record.
fn laid_out(machine: &Machine, directory: &mut Option<TempDir>) -> (Option<World>, Snapshot) {
    let root = directory.insert(scratch()).path();
    machine.lay_out(root);
    let world = || World::directory(root).expect("a root");
    let (recorded, record) = world().recording();
    collect::facts(
        &recorded,
        CollectOptions { initramfs: true, ..CollectOptions::everything(true) },
    );
    (Some(world()), record.finish(String::new()))
}

fn asserted_platform(args: &[String]) -> Option<PlatformKind> {
    let at = args.iter().position(|argument| argument == "--platform")?;
    match args.get(at + 1)?.as_str() {
        "bare-metal" => Some(PlatformKind::BareMetal),
        "guest" => Some(PlatformKind::Guest),
        other => panic!("--platform {other}"),
    }
}

/// Something that is lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    Path(String, How),
    /// A part of a library's answer is taken away, or made unknown.
    Answer(String, Answer),
    /// A tool's output: none recorded, or it failed.
    Tool(String, Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Removed,
    Denied,
}

impl Subject {
    /// Everything that can be lost.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (path, recorded) in &self.asked {
            losses.extend(hows(self.form, path, recorded).map(|how| Loss::Path(path.clone(), how)));
        }
        if self.form == Form::Directory {
            let above = self.asked.keys().flat_map(|path| Path::new(path).ancestors().skip(1));
            let mut above: Vec<String> = above
                .map(|path| path.display().to_string())
                .filter(|path| path != "/" && !self.asked.contains_key(path))
                .filter(|path| self.files.exists(Path::new(path)).unwrap_or(false))
                .collect();
            above.sort();
            above.dedup();
            for path in above {
                losses.extend([How::Absent, How::Denied].map(|how| Loss::Path(path.clone(), how)));
            }
        }
        let libraries = serde_json::to_value(&self.snapshot.libraries).expect("JSON");
        super::answers::pointers(&libraries, &mut |pointer, is_fact| {
            losses.push(Loss::Answer(pointer.to_owned(), Answer::Removed));
            if is_fact {
                losses.push(Loss::Answer(pointer.to_owned(), Answer::Denied));
            }
        });
        for line in self.snapshot.tools.keys() {
            losses
                .extend([Answer::Removed, Answer::Denied].map(|how| Loss::Tool(line.clone(), how)));
        }
        losses
    }

    /// The verdicts after a loss; `None` if the loss leaves no answer of a library's form.
    pub fn after(&self, loss: &Loss, profiles: &[Profile]) -> Option<Verdicts> {
        let world = match loss {
            Loss::Path(path, how) => self.world(Box::new(Lossy {
                files: Arc::clone(&self.files),
                path: path.into(),
                how: *how,
            })),
            Loss::Answer(pointer, how) => {
                let mut libraries = serde_json::to_value(&self.snapshot.libraries).expect("JSON");
                super::answers::lose(&mut libraries, pointer, *how);
                let libraries = serde_json::from_value(libraries).ok()?;
                let mut world = self.world(self.whole());
                world.libraries = gdr::world::Libraries::recorded(libraries);
                world
            }
            Loss::Tool(line, how) => {
                let mut tools = self.snapshot.tools.clone();
                match how {
                    Answer::Removed => drop(tools.remove(line)),
                    Answer::Denied => {
                        let failed = gdr::model::LibraryAnswer::Failed {
                            why: gdr::model::Why::Denied,
                            message: "it cannot be run".to_owned(),
                        };
                        tools.insert(line.clone(), failed);
                    }
                }
                let mut world = self.world(self.whole());
                world.tools = gdr::world::Tools::recorded(tools);
                world
            }
        };
        Some(Verdicts::of(&self.facts(&world), profiles))
    }

    fn world(&self, files: Box<dyn Files>) -> World {
        let mut world = World::snapshot(self.snapshot.clone());
        world.files = files;
        world
    }

    /// The files, none of them lost.
    fn whole(&self) -> Box<dyn Files> {
        Box::new(Lossy {
            files: Arc::clone(&self.files),
            path: "no path".into(),
            how: How::Forgotten,
        })
    }

    fn facts(&self, world: &World) -> Facts {
        let mut facts = collect::facts(world, self.options);
        facts.platform.asserted = self.asserted;
        facts
    }
}

fn hows(form: Form, path: &str, recorded: &Recorded) -> impl Iterator<Item = How> {
    let is_directory = recorded.names.is_some()
        || recorded.state.is_some_and(|state| state.kind == FileKind::Directory);
    let is_file = recorded.text.is_some() || recorded.bytes.is_some() || recorded.parts.is_some();
    let is_there = is_directory || is_file || recorded.link.is_some() || recorded.state.is_some();
    let all: &[How] = match form {
        Form::Directory => &[How::Absent, How::Denied, How::DeniedAlone, How::Broken],
        Form::Snapshot => &[How::Forgotten, How::DeniedAlone, How::Broken],
        Form::Report => &[How::Forgotten],
    };
    let past = (path.ends_with("/config") && form != Form::Report).then_some(How::DeniedPast64);
    let all = all.iter().copied().chain(past);
    all.filter(move |_| is_there)
}
