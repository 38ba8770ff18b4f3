//! Makes the job of what the log says: members become communicators, paths of pairs become rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::collector::Collector;
use super::members::Member;
use super::message::Side;
use super::paths::{NO_RANK, PathKey};
use super::transport::Transport;
use super::{failures, matrix};
use crate::model::{Communicator, Gdrdma, JOB_SCHEMA, Job, JobPath, JobVariable, RankPair};

/// Pairs of a row that are listed.
const MAX_PAIRS: usize = 256;

/// What pairs of one row have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// Rows between nodes come last.
    is_remote: Option<bool>,
    transport: String,
    pxn: bool,
    send: Option<Gdrdma>,
    receive: Option<Gdrdma>,
    channels: u32,
}

/// What one pair used of one transport, from the lines of both ends.
#[derive(Debug, Default)]
struct Use {
    channels: u64,
    pxn: bool,
    /// Channels of the sender with and without GPUDirect RDMA, then those of the receiver.
    gdrdma: [[u64; 2]; 2],
    nics: BTreeSet<String>,
}

/// Pairs of one class, and their NICs.
#[derive(Debug, Default)]
struct Row {
    /// In order.
    pairs: Vec<(u32, u32)>,
    nics: BTreeSet<String>,
}

/// A path and its channels.
type Path<'a> = (&'a PathKey, u64);

/// The names of NICs by process and number, which are looked up once.
#[derive(Default)]
struct Nics(HashMap<(u32, u32), String>);

/// Minor versions of NCCL 2 that write `Destroy COMPLETE` at level INFO without a further setting (src/init.cc, tags 2.12.7 to 2.29.7).
const SAYS_END: std::ops::Range<u32> = 12..30;

/// True if a sound end would have a line that the log lacks.
fn end_missing(log: &Collector) -> bool {
    let minor = |version: &String| version.split('.').nth(1)?.parse().ok();
    let mut minors = log.versions.iter().map(minor);
    let says_end = minors.len() > 0
        && minors.all(|minor: Option<u32>| minor.is_some_and(|minor| SAYS_END.contains(&minor)));
    says_end && log.members.have_started() && !log.has_ended && !log.has_failed()
}

pub fn job(log: &Collector) -> Job {
    let groups = groups(log);
    let mut nics = Nics::default();
    let paths = by_group(log, &groups);
    let mut communicators: Vec<Communicator> = (groups.iter().zip(0..))
        .map(|(members, group)| {
            let begin = paths.partition_point(|(of, _)| *of < group);
            let end = paths.partition_point(|(of, _)| *of <= group);
            communicator(log, members, &paths[begin..end], &mut nics)
        })
        .collect();
    communicators.sort_by(|a, b| b.ranks.cmp(&a.ranks).then_with(|| a.id.cmp(&b.id)));
    let largest = groups.iter().max_by_key(|members| size(log, members));
    let named = log.members.iter().filter(|member| member.rank.is_some());
    let places: BTreeSet<(&str, &str)> =
        named.filter_map(|member| Some((host(log, member)?, member.bus.as_deref()?))).collect();
    let hosts = log.processes.iter().map(|(host, _)| host.clone());
    Job {
        schema: JOB_SCHEMA.to_owned(),
        nccl: log.versions.iter().cloned().collect(),
        ranks: largest.and_then(|members| size(log, members)),
        ranks_seen: largest.map_or(0, |members| log.members.ranks(members).len() as u32),
        nodes: hosts.filter(|host| !host.is_empty()).collect::<BTreeSet<_>>().into_iter().collect(),
        gpus: places.len() as u64,
        networks: log.networks.iter().cloned().collect(),
        gdrcopy: log.gdrcopy.clone(),
        gpu_paths: log.gpu_paths.iter().cloned().collect(),
        variables: (log.settings.iter())
            .map(|(name, (value, _))| JobVariable { name: name.clone(), value: value.clone() })
            .collect(),
        failures: failures::of(log, largest.map_or(&[], Vec::as_slice)),
        communicators,
        lost: Vec::new(),
        libraries: log.libraries.iter().map(|(name, log)| log.report(name)).collect(),
        end_missing: end_missing(log),
        cut: log.members.cut || log.paths.cut || log.processes.cut,
    }
}

pub fn host<'a>(log: &'a Collector, member: &Member) -> Option<&'a str> {
    let (host, _) = log.processes.get(member.process)?;
    Some(host.as_str()).filter(|host| !host.is_empty())
}

fn size(log: &Collector, members: &[u32]) -> Option<u32> {
    members.iter().filter_map(|at| log.members[*at as usize].ranks).max()
}

/// The members of each communicator: those with one id; of older versions, those with different ranks of one size.
fn groups(log: &Collector) -> Vec<Vec<u32>> {
    let mut groups: BTreeMap<(Option<u32>, String, u32), Vec<u32>> = BTreeMap::new();
    let mut taken: BTreeMap<(Option<u32>, String, u32), Taken> = BTreeMap::new();
    let mut of_process: BTreeMap<(u32, Option<u32>, String, Option<u32>), u32> = BTreeMap::new();
    let mut open = Vec::new();
    let mut repeated = Vec::new();
    let mut group_of = HashMap::new();
    let with_paths: BTreeSet<u32> = log.paths.keys().map(|key| key.member).collect();
    let mut order: Vec<u32> = (0..log.members.len() as u32).collect();
    // The order of ranks in the log says nothing; that of one process's communicators does.
    order.sort_by_key(|at| log.processes.get(log.members[*at as usize].process));
    for at in order {
        let member = &log.members[at as usize];
        let Some(rank) = member.rank else {
            match member.same_as {
                _ if !with_paths.contains(&at) => {}
                Some(other) => repeated.push((at, other)),
                None => open.push(at),
            }
            continue;
        };
        let name = match (&member.id, &member.color) {
            (Some(id), _) => id.clone(),
            (None, Some(color)) => format!("color {color}"),
            (None, None) => String::new(),
        };
        let nth = of_process
            .entry((member.process, member.ranks, name.clone(), member.rank))
            .and_modify(|nth| *nth += 1)
            .or_default();
        let mut key = (member.ranks, name, *nth);
        if member.id.is_none() {
            let taken = taken.entry((member.ranks, key.1.clone(), rank)).or_default();
            key.2 = taken.next_free(*nth);
        }
        group_of.insert(at, key.clone());
        groups.entry(key).or_default().push(at);
    }
    for (at, other) in repeated {
        match group_of.get(&other).and_then(|key| groups.get_mut(key)) {
            Some(group) => group.push(at),
            None => open.push(at),
        }
    }
    let mut groups: Vec<Vec<u32>> = groups.into_values().collect();
    if !open.is_empty() {
        // Paths of processes whose communicator the log lacks.
        match groups.as_mut_slice() {
            [only] => only.append(&mut open),
            _ => groups.push(open),
        }
    }
    groups
}

/// Numbers that are taken, each with the next one that may be free.
#[derive(Default)]
struct Taken(HashMap<u32, u32>);

impl Taken {
    /// Takes the first free number from this one on.
    fn next_free(&mut self, from: u32) -> u32 {
        let mut passed = Vec::new();
        let mut at = from;
        while let Some(next) = self.0.get(&at) {
            passed.push(at);
            at = *next;
        }
        passed.push(at);
        self.0.extend(passed.into_iter().map(|taken| (taken, at + 1)));
        at
    }
}

/// All paths, each with the group of its member, by pairs and their ends.
fn by_group<'a>(log: &'a Collector, groups: &[Vec<u32>]) -> Vec<(u32, Path<'a>)> {
    let mut group_of: Vec<Option<u32>> = vec![None; log.members.len()];
    for (members, group) in groups.iter().zip(0..) {
        members.iter().for_each(|at| group_of[*at as usize] = Some(group));
    }
    let mut paths: Vec<(u32, Path<'_>)> = (log.paths.iter())
        .filter_map(|(key, channels)| Some((group_of[key.member as usize]?, (key, *channels))))
        .collect();
    paths.sort_unstable_by_key(|(group, (key, _))| {
        (*group, key.from, key.to, key.connection, key.side)
    });
    paths
}

fn communicator(
    log: &Collector,
    members: &[u32],
    own: &[(u32, Path<'_>)],
    nics: &mut Nics,
) -> Communicator {
    let mut hosts: BTreeMap<u32, &str> = BTreeMap::new();
    for member in members.iter().map(|at| &log.members[*at as usize]) {
        if let (Some(rank), Some(host)) = (member.rank, host(log, member)) {
            hosts.entry(rank).or_insert(host);
        }
    }
    let mut classes: BTreeMap<Class, Row> = BTreeMap::new();
    let end_of = |(_, (key, _)): &(u32, Path<'_>)| (key.from, key.to, key.connection, key.side);
    let pair_of = |(_, (key, _)): &(u32, Path<'_>)| (key.from, key.to);
    for pair in own.chunk_by(|a, b| pair_of(a) == pair_of(b)) {
        let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
        for end in pair.chunk_by(|a, b| end_of(a) == end_of(b)) {
            for (key, channels) in without_cut(log, end) {
                let transport = log.paths.transport(key);
                let known = uses.entry(&transport.name).or_default();
                known.add(log, key, channels, transport, nics);
            }
        }
        let (from, to) = pair_of(&pair[0]);
        for (transport, used) in uses {
            let is_remote = match (hosts.get(&from), hosts.get(&to)) {
                (Some(a), Some(b)) => Some(a != b),
                _ if transport.starts_with("SHM") || transport.starts_with("P2P/IPC") => {
                    Some(false)
                }
                _ => None,
            };
            let row = classes.entry(used.class(transport, is_remote)).or_default();
            row.pairs.push((from, to));
            row.nics.extend(used.nics);
        }
    }
    let matrix = matrix::of(classes.values().map(|row| &row.pairs), &hosts);
    let mut paths: Vec<JobPath> =
        classes.into_iter().map(|(class, found)| row(class, found)).collect();
    let nvls = members.iter().map(|at| log.members[*at as usize].nvls).max().unwrap_or(0);
    if nvls > 0 {
        paths.push(JobPath { channels: [nvls, nvls], ..plain("NVLS") });
    }
    let first = members.iter().find_map(|at| log.members[*at as usize].id.clone());
    Communicator { id: first, ranks: size(log, members), paths, matrix }
}

/// Of one end of a pair, without the beginnings of longer lines: a line may be cut, and stand in the log as a whole too.
///
/// A line without its end lacks the last digits of the device, or GPUDirect RDMA, or the proxy.
fn without_cut<'a>(log: &Collector, ends: &[(u32, Path<'a>)]) -> Vec<Path<'a>> {
    if let [(_, only)] = ends {
        return vec![*only];
    }
    let transport = |key: &PathKey| log.paths.transport(key);
    // The channels of longer lines, by what their beginnings say.
    let mut covered: HashMap<(&str, Option<u32>), u64> = HashMap::new();
    for (_, (key, channels)) in ends {
        let long = transport(key);
        let shorter = std::iter::successors(long.device, |device| Some(device / 10));
        let shorter = shorter.skip(1).take_while(|device| *device > 0).map(Some);
        let is_longer = long.gdrdma || long.proxy.is_some();
        for device in shorter.chain(is_longer.then_some(long.device)) {
            *covered.entry((&long.name, device)).or_default() |= channels;
        }
    }
    let remaining = ends.iter().map(|(_, (key, channels))| {
        let short = transport(key);
        let is_whole = short.gdrdma || short.proxy.is_some();
        let covered = covered.get(&(short.name.as_str(), short.device)).filter(|_| !is_whole);
        (*key, channels & !covered.copied().unwrap_or(0))
    });
    remaining.filter(|(_, channels)| *channels != 0).collect()
}

impl Use {
    fn add(
        &mut self,
        log: &Collector,
        key: &PathKey,
        channels: u64,
        transport: &Transport,
        nics: &mut Nics,
    ) {
        self.channels |= channels;
        self.pxn |= transport.proxy.is_some();
        let end = match key.side {
            Side::Receive => 1,
            Side::Both | Side::Send => 0,
        };
        self.gdrdma[end][usize::from(!transport.gdrdma)] |= channels;
        if let Some(device) = transport.device {
            let process = log.members[key.member as usize].process;
            // A proxy's device is one of its own process, which may name them alike.
            let name = nics.0.entry((process, device)).or_insert_with(|| {
                let names = log.devices.get(&process);
                let name = names.and_then(|names| device_name(names, device));
                name.unwrap_or_else(|| device.to_string())
            });
            if !self.nics.contains(name) {
                self.nics.insert(name.clone());
            }
        }
    }

    fn class(&self, transport: &str, is_remote: Option<bool>) -> Class {
        let has_gdrdma = transport.starts_with("NET/") && transport != "NET/Socket"
            || transport.starts_with("CollNet");
        let gdrdma = |end: usize| match self.gdrdma[end] {
            _ if !has_gdrdma => None,
            [0, 0] => None,
            [_, 0] => Some(Gdrdma::Yes),
            [0, _] => Some(Gdrdma::No),
            _ => Some(Gdrdma::Mixed),
        };
        Class {
            is_remote,
            transport: transport.to_owned(),
            pxn: self.pxn,
            send: gdrdma(0),
            receive: gdrdma(1),
            channels: self.channels.count_ones(),
        }
    }
}

/// Of `mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB eth0`, whose first number is cut off, the name of a device.
fn device_name(names: &str, device: u32) -> Option<String> {
    let rest = match device {
        0 => names,
        device => names.split_once(&format!("[{device}]"))?.1,
    };
    let name = rest.split([':', ' ', '/', ';', '[']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn plain(transport: &str) -> JobPath {
    JobPath {
        transport: transport.to_owned(),
        gdrdma_send: None,
        gdrdma_receive: None,
        pxn: false,
        same_node: None,
        channels: [0, 0],
        nics: Vec::new(),
        pair_count: 0,
        pairs: Vec::new(),
    }
}

fn row(class: Class, found: Row) -> JobPath {
    let has = |from: u32, to: u32| found.pairs.binary_search(&(from, to)).is_ok();
    let listed: Vec<RankPair> = (found.pairs.iter())
        .filter(|(from, to)| from <= to || !has(*to, *from))
        .map(|&(from, to)| RankPair {
            from,
            to: (to != NO_RANK).then_some(to),
            both_ways: has(to, from),
        })
        .collect();
    JobPath {
        gdrdma_send: class.send,
        gdrdma_receive: class.receive,
        pxn: class.pxn,
        same_node: class.is_remote.map(|is_remote| !is_remote),
        channels: [class.channels, class.channels],
        nics: found.nics.into_iter().collect(),
        pair_count: listed.len() as u64,
        pairs: listed.into_iter().take(MAX_PAIRS).collect(),
        ..plain(&class.transport)
    }
}
