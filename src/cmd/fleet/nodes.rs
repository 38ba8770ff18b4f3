//! The same command on every node of a launcher, and one report on rank 0.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::child;
use crate::cli::{FleetRun, Global};
use crate::fleet::Fleet;
use crate::model::Absence;
use crate::probe::gather::{
    Collected, NodePlace, Nodes, Waits, collect, deliver, from_environment,
};
use crate::probe::rdma::rendezvous::{Conditions, Meeting, Secret, host_name};
use crate::probe::watch::Interrupts;

pub fn run(
    global: &Global,
    command: &[&str],
    options: &FleetRun,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let place = from_environment(&|name| std::env::var(name).ok())?;
    if place.spare {
        return Ok(0);
    }
    let node = match &place.node {
        Some(node) => node.clone(),
        None => host_name()?,
    };
    let secret = match &options.secret_file {
        Some(file) => Some(Secret::from_file(file)?),
        None => Secret::from_environment()?,
    };
    let file = file(&place, options);
    let host = place.host.as_ref().filter(|_| options.rendezvous.is_none());
    let meeting = Meeting {
        host: host.map(|(host, port)| (host.as_str(), *port)),
        file: &file,
        job: place.job.as_deref(),
        secret: secret.as_ref(),
    };
    let interrupts = Interrupts::catch()?;
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
        let conditions = Conditions {
            until: Instant::now() + waits.arrival,
            interrupted: &interrupted,
        };
        deliver(
            &meeting,
            (&node, place.rank),
            &conditions,
            &mut note,
            |_| work(),
        )
        .with_context(|| format!("{node} could not deliver its report to rank 0"))?;
        return Ok(0);
    }
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let host = match place.nodes.len() {
        0 | 1 => None,
        _ => Some(meeting.host(any)?),
    };
    let waiting = (waits, &interrupted as &(dyn Fn() -> bool + Sync));
    let collected = collect(host, (0, &node), &place.nodes, waiting, &mut note, work)?;
    let mut fleet = merge(&place, waits, collected);
    // Who was rejected may be a node that is missing.
    notes.into_iter().for_each(|note| fleet.note(note));
    let report = fleet.report(options.mask);
    super::print(global, &report, options.format, out)
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
    arguments.extend([
        "--library-timeout".into(),
        global.library_timeout.to_string().into(),
    ]);
    for (name, value) in [("--sysroot", &global.sysroot), ("--from", &global.from)] {
        if let Some(value) = value {
            arguments.extend([name.into(), value.clone().into_os_string()]);
        }
    }
    arguments.extend(options.arguments.iter().cloned());
    arguments
}

/// Everything that came, and who is missing.
fn merge(place: &NodePlace, waits: Waits, collected: Vec<Collected>) -> Fleet {
    let mut fleet = Fleet::default();
    let seconds = waits.arrival.as_secs();
    let missing = format!(
        "it did not arrive within {seconds} s: gdr did not start there, or cannot reach rank 0"
    );
    let has = |rank: u32| collected.iter().any(|result| result.rank == rank);
    let names: Vec<String> = match &place.nodes {
        Nodes::Named(names) => names.clone(),
        Nodes::Count(count) => (0..*count)
            .filter(|rank| !has(*rank))
            .map(|rank| format!("rank {rank}"))
            .collect(),
    };
    for name in &names {
        if !collected.iter().any(|result| result.node == *name) {
            fleet.absent(name, Absence::Missing, missing.clone());
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for result in &collected {
        *counts.entry(&result.node).or_default() += 1;
    }
    for result in &collected {
        // Several processes of one host.
        let name = match counts.get(result.node.as_str()) {
            Some(2..) => format!("{} (rank {})", result.node, result.rank),
            _ => result.node.clone(),
        };
        match &result.outcome {
            Ok(document) => fleet.add(Some(&name), "", document.as_bytes()),
            Err((why, reason)) => fleet.absent(&name, *why, reason.clone()),
        }
    }
    fleet
}
