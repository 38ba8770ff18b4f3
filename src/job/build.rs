//! Makes the job of what the log says: members become communicators, paths of pairs become rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::collector::{Collector, Member, NO_RANK, PathKey};
use super::failures;
use super::message::Side;
use super::transport::Transport;
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

pub fn job(log: &Collector) -> Job {
    let groups = groups(log);
    let mut paths: HashMap<u32, Vec<(&PathKey, u64)>> = HashMap::new();
    for (key, channels) in &log.paths {
        paths.entry(key.member).or_default().push((key, *channels));
    }
    let mut communicators: Vec<Communicator> =
        groups.iter().map(|members| communicator(log, members, &paths)).collect();
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
        ranks_seen: largest.map_or(0, |members| log.ranks(members).len() as u32),
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
        cut: log.cut,
    }
}

pub fn host<'a>(log: &'a Collector, member: &Member) -> Option<&'a str> {
    let (host, _) = log.processes.get(member.process as usize)?;
    Some(host.as_str()).filter(|host| !host.is_empty())
}

fn size(log: &Collector, members: &[u32]) -> Option<u32> {
    members.iter().filter_map(|at| log.members[*at as usize].ranks).max()
}

/// The members of each communicator: those with one id; of older versions, those with different ranks of one size.
fn groups(log: &Collector) -> Vec<Vec<u32>> {
    let mut groups: BTreeMap<(Option<u32>, String, u32), Vec<u32>> = BTreeMap::new();
    let mut taken: BTreeMap<(Option<u32>, String, u32), BTreeSet<u32>> = BTreeMap::new();
    let mut of_process: BTreeMap<(u32, Option<u32>, String, Option<u32>), u32> = BTreeMap::new();
    let mut open = Vec::new();
    let mut repeated = Vec::new();
    let mut group_of = HashMap::new();
    let with_paths: BTreeSet<u32> = log.paths.keys().map(|key| key.member).collect();
    let mut order: Vec<u32> = (0..log.members.len() as u32).collect();
    // The order of ranks in the log says nothing; that of one process's communicators does.
    order.sort_by_key(|at| log.processes.get(log.members[*at as usize].process as usize));
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
            while taken.get(&key).is_some_and(|ranks| ranks.contains(&rank)) {
                key.2 += 1;
            }
        }
        taken.entry(key.clone()).or_default().insert(rank);
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

fn communicator(
    log: &Collector,
    members: &[u32],
    paths: &HashMap<u32, Vec<(&PathKey, u64)>>,
) -> Communicator {
    let mut hosts: BTreeMap<u32, &str> = BTreeMap::new();
    for member in members.iter().map(|at| &log.members[*at as usize]) {
        if let (Some(rank), Some(host)) = (member.rank, host(log, member)) {
            hosts.entry(rank).or_insert(host);
        }
    }
    let mut uses: BTreeMap<(u32, u32, &str), Use> = BTreeMap::new();
    let mut own: Vec<(&PathKey, u64)> =
        members.iter().filter_map(|at| paths.get(at)).flatten().copied().collect();
    own.sort_by_key(|(key, _)| (key.from, key.to, key.connection, key.side));
    let same_end = |a: &(&PathKey, u64), b: &(&PathKey, u64)| {
        (a.0.from, a.0.to, a.0.connection, a.0.side) == (b.0.from, b.0.to, b.0.connection, b.0.side)
    };
    for ends in own.chunk_by(same_end) {
        for (key, channels) in without_cut(log, ends) {
            let transport = &log.transports[key.transport as usize];
            let known = uses.entry((key.from, key.to, &transport.name)).or_default();
            known.add(log, key, channels, transport);
        }
    }
    let mut classes: BTreeMap<Class, BTreeMap<(u32, u32), BTreeSet<String>>> = BTreeMap::new();
    for ((from, to, transport), used) in uses {
        let is_remote = match (hosts.get(&from), hosts.get(&to)) {
            (Some(a), Some(b)) => Some(a != b),
            _ if transport.starts_with("SHM") || transport.starts_with("P2P/IPC") => Some(false),
            _ => None,
        };
        let class = used.class(transport, is_remote);
        classes.entry(class).or_default().entry((from, to)).or_default().extend(used.nics);
    }
    let mut paths: Vec<JobPath> =
        classes.into_iter().map(|(class, pairs)| row(class, &pairs)).collect();
    let nvls = members.iter().map(|at| log.members[*at as usize].nvls).max().unwrap_or(0);
    if nvls > 0 {
        paths.push(JobPath { channels: [nvls, nvls], ..plain("NVLS") });
    }
    let first = members.iter().find_map(|at| log.members[*at as usize].id.clone());
    Communicator { id: first, ranks: size(log, members), paths }
}

/// Of one end of a pair, without the beginnings of longer lines: a line may be cut, and stand in the log as a whole too.
fn without_cut<'a>(log: &Collector, ends: &[(&'a PathKey, u64)]) -> Vec<(&'a PathKey, u64)> {
    let transport = |key: &PathKey| &log.transports[key.transport as usize];
    let is_cut = |short: &Transport, long: &Transport| {
        let cut_device = match (short.device, long.device) {
            (Some(a), Some(b)) => a != b && b.to_string().starts_with(&a.to_string()),
            _ => false,
        };
        let lacks_end = short.device == long.device && !short.gdrdma && long.gdrdma;
        let lacks_proxy =
            short.device == long.device && short.proxy.is_none() && long.proxy.is_some();
        short.name == long.name
            && !short.gdrdma
            && short.proxy.is_none()
            && (cut_device || lacks_end || lacks_proxy)
    };
    let remaining = ends.iter().map(|(key, channels)| {
        let longer = ends.iter().filter(|(other, _)| is_cut(transport(key), transport(other)));
        let covered = longer.fold(0, |all, (_, channels)| all | channels);
        (*key, channels & !covered)
    });
    remaining.filter(|(_, channels)| *channels != 0).collect()
}

impl Use {
    fn add(&mut self, log: &Collector, key: &PathKey, channels: u64, transport: &Transport) {
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
            let names = log.devices.get(&process);
            let name = names.and_then(|names| device_name(names, device));
            self.nics.insert(name.unwrap_or_else(|| device.to_string()));
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

fn row(class: Class, pairs: &BTreeMap<(u32, u32), BTreeSet<String>>) -> JobPath {
    let is_back = |from: u32, to: u32| from > to && pairs.contains_key(&(to, from));
    let listed: Vec<RankPair> = (pairs.keys())
        .filter(|(from, to)| !is_back(*from, *to))
        .map(|&(from, to)| RankPair {
            from,
            to: (to != NO_RANK).then_some(to),
            both_ways: pairs.contains_key(&(to, from)),
        })
        .collect();
    let nics: BTreeSet<String> = pairs.values().flatten().cloned().collect();
    JobPath {
        gdrdma_send: class.send,
        gdrdma_receive: class.receive,
        pxn: class.pxn,
        same_node: class.is_remote.map(|is_remote| !is_remote),
        channels: [class.channels, class.channels],
        nics: nics.into_iter().collect(),
        pair_count: listed.len() as u64,
        pairs: listed.into_iter().take(MAX_PAIRS).collect(),
        ..plain(&class.transport)
    }
}
