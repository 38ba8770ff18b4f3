//! Keeps what a log says about its job: communicators, paths, settings, reasons, failures. Bounded, however long the log is.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use memchr::memmem;

use super::around::Shown;
use super::failure::{self, Detail, Failure};
use super::header::{self, Line, Source};
use super::interface::Interfaces;
use super::joined;
use super::members::Members;
use super::message::{self, CommLine, Event, HopEnd, PathLine, Reason};
use super::paths::Paths;
use super::processes::Processes;
use super::route::LibraryLog;
use super::unnamed::{Thread, Unnamed, is_ending, is_retry, is_trace};
use crate::model::{FailureKind, Quote};

/// Limit of each list.
const MAX_KEPT: usize = 4_096;

/// Longest list of NICs that is kept: NCCL writes lines of 2 KiB.
const LONGEST_LIST: usize = 4 << 10;

/// How NCCL up to 2.27 begins the line of its version.
const VERSION: &str = "NCCL version ";

/// Longest line that is quoted.
const QUOTED: usize = 200;

/// A failure, the rank that reports it, and the process.
pub type FailureKey = (FailureKind, Option<u32>, Option<u32>);

#[derive(Debug, Default)]
pub struct Collector {
    pub versions: BTreeSet<String>,
    pub networks: BTreeSet<String>,
    pub processes: Processes,
    pub members: Members,
    pub paths: Paths,
    /// The names of a process's NICs.
    pub devices: HashMap<u32, String>,
    pub settings: BTreeMap<String, (String, Quote)>,
    pub reasons: BTreeMap<Reason, Quote>,
    pub gdrcopy: Option<String>,
    pub gpu_paths: BTreeSet<String>,
    /// Least and most bandwidth of a GPU's paths, in hundredths of GB/s.
    pub bandwidths: BTreeMap<HopEnd, [u32; 2]>,
    /// The hosts of addresses.
    pub hosts: HashMap<String, String>,
    pub interfaces: Interfaces,
    pub failures: BTreeMap<FailureKey, (Quote, Option<Detail>)>,
    pub libraries: BTreeMap<&'static str, LibraryLog>,
    /// Some communicator was destroyed or aborted.
    pub has_ended: bool,
    unnamed: Unnamed,
    /// Lines of NCCL with a host.
    lines: u64,
    /// Lines of other libraries that say something.
    library_lines: u64,
    /// Lines in which a program reports a failure.
    pub program_lines: u64,
}

impl Collector {
    /// More than one line is NCCL's: a single one may be quoted.
    pub fn is_log(&self) -> bool {
        self.lines > 1
    }

    pub fn has_lines(&self) -> bool {
        self.lines > 0 || !self.paths.is_empty() || !self.libraries.is_empty()
    }

    /// The lines that follow are of another log.
    pub fn next_log(&mut self) {
        self.processes.next_log();
    }

    /// Reads a line that may be NCCL's; false if it is not.
    pub fn line(&mut self, text: &str, number: u64) -> bool {
        let mut text = text;
        let mut is_read = false;
        while let Some((first, rest)) = joined::split(text) {
            is_read |= self.message(first, number);
            text = rest;
        }
        self.message(text, number) || is_read
    }

    /// Reads a line that has the name of NCCL at this place alone; false if it is not NCCL's.
    pub fn single(&mut self, text: &str, at: usize, number: u64) -> bool {
        let Some(line) = header::parse_at(text, at) else {
            self.version(text);
            return false;
        };
        self.parsed(&line, text, number);
        true
    }

    fn message(&mut self, text: &str, number: u64) -> bool {
        let Some(line) = header::parse(text) else {
            self.version(text);
            return false;
        };
        self.parsed(&line, text, number);
        true
    }

    /// A line that NCCL up to 2.2 wrote.
    pub fn old(&mut self, text: &str, number: u64) {
        if let Some(line) = header::parse_old(text) {
            self.parsed(&line, text, number);
        }
    }

    /// Reads a line of NCCL.
    pub fn parsed(&mut self, line: &Line<'_>, text: &str, number: u64) {
        // Whether it is more than one counts.
        if self.lines < 2 {
            self.lines += u64::from(line.source().is_some());
        }
        match message::parse(line.message, line.is_warning) {
            Some(event) => {
                self.progress(line);
                self.event(event, line, || quote(text, number));
            }
            None => self.unnamed(line, || quote(text, number)),
        }
    }

    /// What a process writes after a warning shows that it went on.
    fn progress(&mut self, line: &Line<'_>) {
        if !line.is_warning && !self.unnamed.is_empty() && !is_ending(line.message) {
            let thread = self.thread(line);
            self.unnamed.progress(thread);
        }
    }

    /// A warning that gdr has no kind for, or the trace of a failing call, which confirms one.
    fn unnamed(&mut self, line: &Line<'_>, quote: impl FnOnce() -> Quote) {
        if line.is_warning {
            let thread = self.thread(line);
            // Later warnings of a process that failed follow from the failure.
            let has_failed = self.failures.keys().any(|(_, _, process)| *process == thread.0);
            if !has_failed && (thread.0.is_some() || line.is_alone()) {
                self.unnamed.warn(thread, line.message, quote);
            }
        } else if is_retry(line.message) {
            let thread = self.thread(line);
            self.unnamed.warn(thread, line.message, quote);
        } else if is_trace(line.message) {
            self.trace(line, quote);
        } else {
            self.progress(line);
        }
    }

    /// The trace of a failing call.
    fn trace(&mut self, line: &Line<'_>, quote: impl FnOnce() -> Quote) {
        let thread = self.thread(line);
        if let Some((failure, line)) = self.unnamed.confirmed(thread) {
            return self.failure(failure, thread.0, || line);
        }
        if thread.0.is_some() {
            self.unnamed.trace(thread, line.message, quote);
        }
    }

    /// The thread that printed a line.
    fn thread(&mut self, line: &Line<'_>) -> Thread {
        let thread = line.source().and_then(|_| self.processes.thread(line));
        thread.map_or((None, 0), |(process, thread)| (Some(process), thread))
    }

    /// Some failure says more than that a process ended.
    pub fn is_explained(&self) -> bool {
        self.failures.keys().any(|(kind, ..)| kind.depth() < 3)
    }

    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// A failure that a program reports.
    pub fn reported(&mut self, failure: Failure, text: &str, number: u64) {
        self.program_lines += 1;
        self.failure(failure, None, || quote(text, number));
    }

    /// What a line of a library beside NCCL says.
    pub fn library(
        &mut self,
        name: &'static str,
        add: impl FnOnce(&mut LibraryLog, Quote),
        text: &str,
        number: u64,
    ) {
        self.library_lines += 1;
        add(self.libraries.entry(name).or_default(), quote(text, number));
    }

    /// A failure that such a line reports.
    pub fn of_library(
        &mut self,
        failure: Failure,
        source: Option<Source<'_>>,
        text: &str,
        number: u64,
    ) {
        self.library_lines += 1;
        let process = source.and_then(|source| self.processes.of(source));
        self.failure(failure, process, || quote(text, number));
    }

    /// A variable that a line shows.
    pub fn shown(&mut self, name: &str, value: &str, text: &str, number: u64) {
        if self.settings.len() < MAX_KEPT {
            let setting = || (value.to_owned(), quote(text, number));
            self.settings.entry(name.to_owned()).or_insert_with(setting);
        }
    }

    /// The log has ended. A warning after which no communicator began to work is the failure.
    pub fn end(&mut self) {
        let has_worked = !self.paths.is_empty() || self.members.have_started();
        // How a process ended says less than its warning before.
        let is_named = self.failures.keys().any(|(kind, ..)| !is_end(*kind));
        if !has_worked && !is_named {
            for (process, failure, line) in self.unnamed.take() {
                self.failure(failure, process, || line);
            }
        }
        if self.failures.is_empty() {
            for (process, detail, line) in self.unnamed.take_traces() {
                let kind = FailureKind::Other;
                let failure = Failure { kind, rank: None, detail: Some(detail) };
                self.failure(failure, process, || line);
            }
        }
    }

    /// Variables that the rest of the text shows, such as the command.
    pub fn add_settings(&mut self, settings: &[Shown]) {
        for Shown { name, value, line } in settings {
            let line = || Quote { number: *line, text: format!("{name}={value}"), file: None };
            self.settings.entry(name.clone()).or_insert_with(|| (value.clone(), line()));
        }
    }

    /// True if the text is the log of a job. A failure alone is one unless a symptom explains the text.
    pub fn is_job(&self, is_explained: bool) -> bool {
        let has_members = self.members.iter().any(|member| member.rank.is_some());
        let is_quotation =
            is_explained && self.lines.max(self.library_lines) <= 1 && self.program_lines <= 1;
        let has_failed = !self.failures.is_empty() && !is_quotation;
        let has_routes = self.libraries.values().any(|log| !log.routes.is_empty());
        !self.paths.is_empty() || has_members || has_failed || has_routes
    }

    /// The version, which NCCL up to 2.27 prints without `INFO`.
    fn version(&mut self, text: &str) {
        let version = memmem::find(text.as_bytes(), VERSION.as_bytes())
            .and_then(|at| Some(text.get(at + VERSION.len()..)?.trim()));
        // As RAS writes it.
        let version = version.map(|version| match version.split_once(" compiled with CUDA ") {
            Some((number, cuda)) => format!("{number}+cuda{cuda}"),
            None => version.to_owned(),
        });
        let is_whole = |version: &String| version.contains("+cuda") && !version.contains(' ');
        if let Some(version) = version.filter(is_whole) {
            insert(&mut self.versions, &version);
        }
    }

    fn event(&mut self, event: Event<'_>, line: &Line<'_>, quote: impl Fn() -> Quote) {
        match event {
            Event::Version(version) => insert(&mut self.versions, version),
            Event::Network(name) => insert(&mut self.networks, name),
            Event::Gdrcopy(text) => _ = self.gdrcopy.get_or_insert_with(|| text.to_owned()),
            Event::GpuPath(hops) => {
                for hop in hops {
                    if hop.to == HopEnd::Gpu {
                        insert(&mut self.gpu_paths, hop.class);
                    }
                    let [least, most] = self.bandwidths.entry(hop.to).or_insert([u32::MAX, 0]);
                    (*least, *most) = ((*least).min(hop.bandwidth), (*most).max(hop.bandwidth));
                }
            }
            Event::Setting(name, value) => {
                if self.settings.len() < MAX_KEPT {
                    let setting = || (value.to_owned(), quote());
                    self.settings.entry(name.to_owned()).or_insert_with(setting);
                }
            }
            Event::Reason(reason) => _ = self.reasons.entry(reason).or_insert_with(quote),
            Event::Failure(failure) => {
                let process = line.source().and_then(|source| self.processes.of(source));
                self.failure(failure, process, quote);
            }
            Event::Address(names) => {
                let process = line.source().and_then(|source| self.processes.of(source));
                self.interfaces.add(names, process, quote);
                self.address(names, line.source());
            }
            Event::Devices(names) => {
                if let Some((_, name)) = names.rsplit_once("OOB ") {
                    self.address(name, line.source());
                }
                let process = line.source().and_then(|source| self.processes.of(source));
                self.interfaces.add(names, process, &quote);
                if let Some(process) = process
                    && names.len() <= LONGEST_LIST
                {
                    self.devices.entry(process).or_insert_with(|| names.to_owned());
                }
            }
            Event::Communicator(comm) => self.communicator(&comm, line),
            Event::Connecting => {
                if let Some(thread) = self.processes.thread(line) {
                    self.members.connect(thread);
                }
            }
            Event::NvlsChannels(channels) => {
                if let Some(thread) = self.processes.thread(line) {
                    self.members.set_nvls(thread, channels);
                }
            }
            Event::Path(path) => self.path(&path, line),
        }
    }

    fn failure(&mut self, failure: Failure, process: Option<u32>, quote: impl FnOnce() -> Quote) {
        let Failure { kind, rank, detail } = failure;
        if self.failures.len() >= MAX_KEPT {
            return;
        }
        match self.failures.entry((kind, rank, process)) {
            Entry::Vacant(free) => _ = free.insert((quote(), detail)),
            // A launcher names the processes that it ended first, or last.
            Entry::Occupied(mut known) if is_asked(known.get().1.as_ref()) => {
                if !is_asked(detail.as_ref()) {
                    known.insert((quote(), detail));
                }
            }
            Entry::Occupied(_) => {}
        }
    }

    /// `eth0:192.0.2.1<0>`
    fn address(&mut self, name: &str, source: Option<Source<'_>>) {
        let address = name.split_once(':').and_then(|(_, address)| failure::address(address));
        if let (Some(address), Some(source)) = (address, source)
            && self.hosts.len() < Processes::MOST
        {
            self.hosts.entry(address.to_owned()).or_insert_with(|| source.host.to_owned());
        }
    }

    fn communicator(&mut self, comm: &CommLine<'_>, line: &Line<'_>) {
        self.has_ended |= comm.is_ended;
        let Some(thread) = self.processes.thread(line) else { return };
        if self.members.read(comm, thread) && comm.is_complete {
            self.overcome(thread.0);
        }
    }

    fn overcome(&mut self, process: u32) {
        self.unnamed.overcome(process);
        for kind in
            [FailureKind::Other, FailureKind::NetworkPlugin, FailureKind::MemoryRegistration]
        {
            self.failures.remove(&(kind, None, Some(process)));
        }
    }

    fn path(&mut self, path: &PathLine<'_>, line: &Line<'_>) {
        let Some(transport) = self.paths.read_transport(path.via) else { return };
        let Some(thread) = self.processes.thread(line) else { return };
        if let Some(member) = self.members.of_path(thread, path) {
            self.paths.add(path, member, transport);
        }
    }
}

/// True for the end of a process that another one asked to end, as a launcher does after a failure.
pub fn is_asked(detail: Option<&Detail>) -> bool {
    matches!(detail, Some(Detail::Text(text)) if text.starts_with("signal 15 (SIGTERM)"))
}

/// The failure says how a process ended.
fn is_end(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Signal | FailureKind::Exited)
}

fn insert(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < MAX_KEPT {
        names.insert(name.to_owned());
    }
}

fn quote(text: &str, number: u64) -> Quote {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(QUOTED).collect();
    Quote { number, text, file: None }
}
