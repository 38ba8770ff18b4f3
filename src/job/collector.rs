//! Keeps what a log says about its job: communicators, paths, settings, reasons, failures. Bounded: names are interned, and a
//! path is one entry for each pair, connection and end, however often the log repeats it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

use memchr::memmem;

use super::around::Shown;
use super::failure::{self, Detail, Failure};
use super::header::{self, Line, Source};
use super::interface::Interfaces;
use super::joined;
use super::message::{self, CommLine, Event, HopEnd, PathLine, Reason, Side};
use super::processes::{FastMap, Processes};
use super::route::LibraryLog;
use super::transport::{self, Transport};
use super::unnamed::{Unnamed, is_ending, is_trace};
use crate::model::{FailureKind, Quote};

/// Limits: of paths of pairs, of communicators, of other lists.
const MAX_PATHS: usize = 2 << 20;
const MAX_COMMUNICATORS: usize = 256 << 10;
const MAX_KEPT: usize = 4_096;

/// Longest list of NICs that is kept: NCCL writes lines of 2 KiB.
const LONGEST_LIST: usize = 4 << 10;

/// Longest text of a transport that is kept.
const LONGEST_TRANSPORT: usize = 128;

/// Communicators of one process and rank that a path without a name may be of.
const MAX_LAST: usize = 16;

/// How NCCL up to 2.27 begins the line of its version.
const VERSION: &str = "NCCL version ";

/// Longest line that is quoted.
const QUOTED: usize = 200;

/// A rank's part of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub process: u32,
    pub pointer: String,
    pub id: Option<String>,
    pub color: Option<String>,
    pub rank: Option<u32>,
    pub ranks: Option<u32>,
    pub bus: Option<String>,
    pub nvls: u32,
    /// The member whose paths these are too: the log repeats them before it names the communicator again.
    pub same_as: Option<u32>,
    is_complete: bool,
}

/// The other end of a path of CollNet, which is a network and not a rank.
pub const NO_RANK: u32 = u32::MAX;

/// A path of a pair; its channels are a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathKey {
    pub member: u32,
    pub from: u32,
    /// `NO_RANK` of CollNet.
    pub to: u32,
    pub transport: u16,
    pub connection: u8,
    pub side: Side,
}

/// Two words: hashing each field took longer than the rest of the search.
impl Hash for PathKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [member, from, to] = [self.member, self.from, self.to].map(u64::from);
        let rest = [u64::from(self.transport) << 16, u64::from(self.connection) << 8];
        state.write_u64(member << 32 | from);
        state.write_u64(to << 32 | rest[0] | rest[1] | self.side as u64);
    }
}

/// A failure, the rank that reports it, and the process.
pub type FailureKey = (FailureKind, Option<u32>, Option<u32>);

#[derive(Debug, Default)]
pub struct Collector {
    pub versions: BTreeSet<String>,
    pub networks: BTreeSet<String>,
    pub processes: Processes,
    pub members: Vec<Member>,
    member_ids: HashMap<(u32, String, Option<u32>), u32>,
    /// The last communicators of a process with a rank, the newest last.
    last: FastMap<(u32, u32), Vec<u32>>,
    /// The communicator that a thread is connecting.
    current: FastMap<(u32, u64), u32>,
    pub transports: Vec<Transport>,
    transport_ids: HashMap<Transport, u16>,
    /// The transports by what the log writes, which many lines repeat.
    written: FastMap<String, Option<u16>>,
    pub paths: FastMap<PathKey, u64>,
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
    pub cut: bool,
    pub libraries: BTreeMap<&'static str, LibraryLog>,
    /// Some communicator was destroyed or aborted.
    pub has_ended: bool,
    /// Some communicator is complete and has no id.
    has_nameless: bool,
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

    /// The ranks of members.
    pub fn ranks(&self, members: &[u32]) -> BTreeSet<u32> {
        members.iter().filter_map(|at| self.members[*at as usize].rank).collect()
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
        if !line.is_warning
            && !self.unnamed.is_empty()
            && !is_ending(line.message)
            && let Some(thread) = self.processes.thread(line)
        {
            self.unnamed.progress(thread);
        }
    }

    /// A warning that gdr has no kind for, or the trace of a failing call, which confirms one.
    fn unnamed(&mut self, line: &Line<'_>, quote: impl FnOnce() -> Quote) {
        if line.is_warning {
            let thread = line.source().and_then(|_| self.processes.thread(line));
            // Later warnings of a process that failed follow from the failure.
            let is_first = |thread: &(u32, u64)| {
                !self.failures.keys().any(|(_, _, process)| *process == Some(thread.0))
            };
            if let Some(thread) = thread.filter(is_first) {
                self.unnamed.warn(thread, line.message, quote);
            }
        } else if is_trace(line.message) {
            self.trace(line, quote);
        } else {
            self.progress(line);
        }
    }

    /// The trace of a failing call.
    fn trace(&mut self, line: &Line<'_>, quote: impl FnOnce() -> Quote) {
        let thread = line.source().and_then(|_| self.processes.thread(line));
        let Some(thread) = thread else { return };
        if let Some((failure, line)) = self.unnamed.confirmed(thread) {
            return self.failure(failure, Some(thread.0), || line);
        }
        self.unnamed.trace(thread, line.message, quote);
    }

    /// Some failure says more than that a process ended.
    pub fn is_explained(&self) -> bool {
        self.failures.keys().any(|(kind, ..)| kind.depth() < 3)
    }

    /// A communicator began to work.
    pub fn has_started(&self) -> bool {
        self.members.iter().any(|member| member.is_complete)
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
        let has_worked = !self.paths.is_empty() || self.has_started();
        if !has_worked && self.failures.is_empty() {
            for (process, failure, line) in self.unnamed.take() {
                self.failure(failure, Some(process), || line);
            }
        }
        if self.failures.is_empty() {
            for (process, detail, line) in self.unnamed.take_traces() {
                let kind = FailureKind::Other;
                let failure = Failure { kind, rank: None, detail: Some(detail) };
                self.failure(failure, Some(process), || line);
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
            Event::Connecting => self.connecting(line),
            Event::NvlsChannels(channels) => {
                if let Some(member) =
                    self.processes.thread(line).and_then(|at| self.current.get(&at))
                {
                    let member = &mut self.members[*member as usize];
                    member.nvls = member.nvls.max(channels);
                }
            }
            Event::Path(path) => self.path(path, line),
        }
    }

    fn failure(&mut self, failure: Failure, process: Option<u32>, quote: impl FnOnce() -> Quote) {
        let Failure { kind, rank, detail } = failure;
        if self.failures.len() < MAX_KEPT {
            self.failures.entry((kind, rank, process)).or_insert_with(|| (quote(), detail));
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
        let rank = Some(comm.rank);
        // A pointer is used again after a communicator is destroyed, its id is not.
        let known = match comm.id {
            Some(id) => self.known(thread.0, id, rank),
            None => self.by_pointer(thread.0, comm),
        };
        // Up to NCCL 2.17 the paths come first, then this line.
        let current = self.current.get(&thread).copied();
        let open = current.filter(|open| self.members[*open as usize].rank.is_none());
        let at = known.or(open).or_else(|| self.member(thread.0));
        let Some(at) = at else { return };
        if let Some(open) = open.filter(|open| *open != at) {
            self.members[open as usize].same_as = Some(at);
        }
        for name in [Some(comm.pointer), comm.id].into_iter().flatten() {
            self.member_ids.insert((thread.0, name.to_owned(), rank), at);
        }
        let member = &mut self.members[at as usize];
        comm.pointer.clone_into(&mut member.pointer);
        member.rank = rank;
        member.ranks = member.ranks.or(comm.ranks);
        member.id = member.id.take().or_else(|| comm.id.map(str::to_owned));
        member.color = member.color.take().or_else(|| comm.color.map(str::to_owned));
        member.bus = member.bus.take().or_else(|| comm.bus.map(str::to_owned));
        member.is_complete |= comm.is_complete;
        self.has_nameless |= member.is_complete && member.id.is_none();
        if comm.is_complete {
            self.overcome(thread.0);
        }
        let last = self.last.entry((thread.0, comm.rank)).or_default();
        last.retain(|known| *known != at);
        if last.len() >= MAX_LAST {
            last.remove(0);
        }
        last.push(at);
        self.current.insert(thread, at);
    }

    fn overcome(&mut self, process: u32) {
        self.unnamed.overcome(process);
        for kind in
            [FailureKind::Other, FailureKind::NetworkPlugin, FailureKind::MemoryRegistration]
        {
            self.failures.remove(&(kind, None, Some(process)));
        }
    }

    /// The newest communicator with a pointer, of this size if the line says it.
    fn by_pointer(&self, process: u32, comm: &CommLine<'_>) -> Option<u32> {
        let has_size = |at: &u32| {
            let ranks = self.members[*at as usize].ranks;
            ranks.is_none() || comm.ranks.is_none() || ranks == comm.ranks
        };
        let newest = self.known(process, comm.pointer, Some(comm.rank));
        newest.filter(has_size).or_else(|| {
            let earlier = self.last.get(&(process, comm.rank))?.iter().rev().copied();
            let mut same = earlier.filter(|at| self.members[*at as usize].pointer == comm.pointer);
            same.find(has_size).filter(|_| newest.is_some())
        })
    }

    fn known(&self, process: u32, name: &str, rank: Option<u32>) -> Option<u32> {
        self.member_ids.get(&(process, name.to_owned(), rank)).copied()
    }

    fn member(&mut self, process: u32) -> Option<u32> {
        if self.members.len() >= MAX_COMMUNICATORS {
            self.cut = true;
            return None;
        }
        let at = u32::try_from(self.members.len()).ok()?;
        self.members.push(Member {
            process,
            pointer: String::new(),
            id: None,
            color: None,
            rank: None,
            ranks: None,
            bus: None,
            nvls: 0,
            same_as: None,
            is_complete: false,
        });
        Some(at)
    }

    /// Another communicator begins where the last one is complete; from NCCL 2.18 on its first line says so.
    fn connecting(&mut self, line: &Line<'_>) {
        let Some(thread) = self.processes.thread(line) else { return };
        if self.has_nameless
            && let Some(current) = self.current.get(&thread)
            && self.members[*current as usize].is_complete
            && self.members[*current as usize].id.is_none()
        {
            // It has no name yet.
            if let Some(open) = self.member(thread.0) {
                self.current.insert(thread, open);
            }
        }
    }

    fn path(&mut self, path: PathLine<'_>, line: &Line<'_>) {
        let Some(transport) = self.transport(path.via) else { return };
        let Some(thread) = self.processes.thread(line) else { return };
        let own = match path.side {
            Side::Receive => path.to.unwrap_or(path.from),
            Side::Both | Side::Send => path.from,
        };
        let highest = path.from.max(path.to.unwrap_or(0));
        let Some(member) = self.member_of(thread, own, highest) else { return };
        let key = PathKey {
            member,
            from: path.from,
            to: path.to.unwrap_or(NO_RANK),
            transport,
            connection: path.connection,
            side: path.side,
        };
        let channel = 1_u64.checked_shl(path.channel).unwrap_or(1 << 63);
        if let Some(mask) = self.paths.get_mut(&key) {
            *mask |= channel;
        } else if self.paths.len() < MAX_PATHS {
            self.paths.insert(key, channel);
        } else {
            self.cut = true;
        }
    }

    /// Reads a transport, each text once.
    fn transport(&mut self, via: &str) -> Option<u16> {
        if let Some(known) = self.written.get(via) {
            return *known;
        }
        let parsed = transport::parse(via).and_then(|transport| self.transport_id(transport));
        if self.written.len() < MAX_KEPT && via.len() <= LONGEST_TRANSPORT {
            self.written.insert(via.to_owned(), parsed);
        }
        parsed
    }

    fn transport_id(&mut self, transport: Transport) -> Option<u16> {
        if let Some(known) = self.transport_ids.get(&transport) {
            return Some(*known);
        }
        let at = u16::try_from(self.transports.len()).ok()?;
        self.transports.push(transport.clone());
        self.transport_ids.insert(transport, at);
        Some(at)
    }

    /// The communicator of a path: of the thread, else the process's last one with these ranks, else one whose line follows.
    fn member_of(&mut self, thread: (u32, u64), own: u32, highest: u32) -> Option<u32> {
        let is_of = |at: &&u32| {
            let member = &self.members[**at as usize];
            let has_ranks = member.ranks.is_none_or(|ranks| highest < ranks);
            member.rank.is_none_or(|rank| rank == own) && has_ranks
        };
        if let Some(current) = self.current.get(&thread).filter(is_of) {
            return Some(*current);
        }
        let last = self.last.get(&(thread.0, own));
        let known = last.and_then(|last| last.iter().rev().find(is_of)).copied();
        let at = match known {
            Some(known) => known,
            None => self.member(thread.0)?,
        };
        self.current.insert(thread, at);
        Some(at)
    }
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
