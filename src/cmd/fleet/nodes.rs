//! The same command on every node of a launcher, and one report on rank 0.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::child;
use crate::check;
use crate::cli::{FleetRun, Global};
use crate::cmd::mask_key;
use crate::fleet::Fleet;
use crate::model::{Absence, MaskKey};
use crate::probe::gather::{
    Collected, NodePlace, Nodes, Waits, collect, deliver, from_environment,
};
use crate::probe::interrupts::Interrupts;
use crate::probe::rendezvous::{Conditions, Meeting, Secret, host_name};

pub fn run(
    global: &Global,
    command: &[&str],
    options: &FleetRun,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let start = Start::new(options)?;
    if start.place.spare {
        return Ok(0);
    }
    let interrupts = Interrupts::catch()?;
    let status = work_on(global, command, options, &start, &interrupts, (out, err));
    crate::cmd::concluded(&interrupts, status, err)
}

/// Works on this node, and on rank 0 prints the report of all.
fn work_on(
    global: &Global,
    command: &[&str],
    options: &FleetRun,
    start: &Start,
    interrupts: &Interrupts,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> anyhow::Result<u8> {
    let meeting = start.meeting(options);
    let (place, node) = (&start.place, &start.node);
    let interrupted = || interrupts.pending();
    let waits = Waits {
        arrival: Duration::from_secs(options.arrival),
        work: Duration::from_secs(options.timeout),
    };
    let arguments = arguments(global, command, options);
    let work = || child::run(&arguments, waits.work, &interrupted);
    let mut notes = Vec::new();
    let mut note = |text: String| {
        super::super::remark(err, &text);
        notes.push(text);
    };
    if place.rank > 0 {
        let conditions =
            Conditions { until: Instant::now() + waits.arrival, interrupted: &interrupted };
        deliver(&meeting, (node, place.rank), &conditions, &mut note, |_| work())
            .with_context(|| format!("{node} could not deliver its report to rank 0"))?;
        return Ok(0);
    }
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let host = match place.nodes.len() {
        0 | 1 => None,
        _ => Some(meeting.host(any)?),
    };
    let waiting = (waits, &interrupted as &(dyn Fn() -> bool + Sync));
    let collected = collect(host, (0, node), &place.nodes, waiting, &mut note, work)?;
    let mut fleet = merge(place, waits.arrival, collected);
    // Who was rejected may be a node that is missing.
    notes.into_iter().for_each(|note| fleet.note(note));
    let report = fleet.report(options.mask || start.key.is_some(), start.key.as_ref());
    interrupts.printing();
    super::print(global, &report, options.format, out)
}

/// This process among those of the launcher.
pub struct Start {
    pub place: NodePlace,
    /// The name of this node.
    pub node: String,
    /// Masks the names of the nodes.
    pub key: Option<MaskKey>,
    secret: Option<Secret>,
    file: PathBuf,
}

impl Start {
    pub fn new(options: &FleetRun) -> anyhow::Result<Self> {
        let place = from_environment(&|name| std::env::var(name).ok())?;
        Ok(Self {
            node: match &place.node {
                Some(node) => node.clone(),
                None => host_name()?,
            },
            secret: match &options.secret_file {
                Some(file) => Some(Secret::from_file(file)?),
                None => Secret::from_environment()?,
            },
            file: file(&place, options),
            key: mask_key::read(options.mask_key.as_deref().filter(|_| place.rank == 0))?,
            place,
        })
    }

    /// Where the nodes meet.
    pub fn meeting(&self, options: &FleetRun) -> Meeting<'_> {
        let host = self.place.host.as_ref();
        let host = host.filter(|_| options.rendezvous.is_none());
        Meeting {
            host: host.map(|(host, port)| (host.as_str(), *port)),
            file: &self.file,
            job: self.place.job.as_deref(),
            secret: self.secret.as_ref(),
        }
    }
}

/// The rendezvous file; by default in the working directory, which most clusters share.
fn file(place: &NodePlace, options: &FleetRun) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let job = place.job.iter().flat_map(|job| job.chars()).take(100);
    let job: String = job.map(|c| if plain(c) { c } else { '_' }).collect();
    let default = || PathBuf::from(format!("gdr-fleet-{job}"));
    options.rendezvous.clone().unwrap_or_else(default)
}

/// The command line of each node.
fn arguments(global: &Global, command: &[&str], options: &FleetRun) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
    arguments.extend(["--format", "json", "--color", "never"].map(OsString::from));
    arguments.extend(["--library-timeout".into(), global.library_timeout.to_string().into()]);
    let roots = global.sysroot.iter().map(|root| ("--sysroot", root));
    for (name, value) in roots.chain(global.from.iter().map(|file| ("--from", file))) {
        arguments.extend([name.into(), value.clone().into_os_string()]);
    }
    arguments.extend(options.arguments.iter().cloned());
    arguments
}

/// The names of nodes, of which several may be processes of one host.
pub fn names(collected: &[Collected]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for result in collected {
        *counts.entry(&result.node).or_default() += 1;
    }
    let name = |result: &Collected| match counts.get(result.node.as_str()) {
        Some(2..) => format!("{} (rank {})", result.node, result.rank),
        _ => result.node.clone(),
    };
    collected.iter().map(name).collect()
}

/// Everything that came, and who is missing.
pub fn merge(place: &NodePlace, arrival: Duration, collected: Vec<Collected>) -> Fleet {
    let mut fleet = Fleet::new(check::is_volatile, check::is_of_one_device);
    let seconds = arrival.as_secs();
    let missing = format!(
        "it did not arrive within {seconds} s: gdr did not start there, or cannot reach rank 0"
    );
    let has = |rank: u32| collected.iter().any(|result| result.rank == rank);
    let expected: Vec<String> = match &place.nodes {
        Nodes::Named(names) => names.clone(),
        Nodes::Count(count) => {
            (0..*count).filter(|rank| !has(*rank)).map(|rank| format!("rank {rank}")).collect()
        }
    };
    for name in &expected {
        if !collected.iter().any(|result| result.node == *name) {
            fleet.absent(name, Absence::Missing, missing.clone());
        }
    }
    let names = names(&collected);
    for (name, result) in names.iter().zip(collected) {
        match result.outcome {
            Ok(document) => fleet.add(Some(name), "", document.as_bytes()),
            Err((why, reason)) => fleet.absent(name, why, reason),
        }
    }
    fleet
}
