//! `gdr fleet probe rdma`: the NICs of all nodes measure each other in rounds, and rank 0 names the parts at fault.

use std::cell::OnceCell;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;

use super::nodes::{Start, merge, names};
use crate::cli::{FleetProbe, Global};
use crate::cmd::document;
use crate::cmd::expected::expected_machine;
use crate::cmd::machine::Machine;
use crate::cmd::mask_key::Masked;
use crate::cmd::probe::Session;
use crate::collect::CollectOptions;
use crate::fleet::isolation::{Measurement, Nic};
use crate::fleet::schedule::{self, Phase, schedule};
use crate::fleet::{Fleet, Links, topology};
use crate::model::PROBE_SCHEMA;
use crate::output::Progress;
use crate::probe::arguments::Arguments as _;
use crate::probe::gather::Collected;
use crate::probe::interrupts::Interrupts;
use crate::probe::rdma::fleet::{
    Measured, Node, PairMeasured, Round, Timeouts, coordinate, take_part,
};
use crate::probe::rdma::{self, RdmaProbe};
use crate::probe::rendezvous::{Host, Meeting, expand};

/// The sizes of a link: that of its latency and that of its bandwidth.
const SIZES: [usize; 2] = [8, 1 << 20];

pub fn run(
    global: &Global,
    options: &FleetProbe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let wanted = options.link_options().map_err(|why| anyhow!("after --: {why}"))?;
    check(global, &wanted)?;
    let start = Start::new(&options.run)?;
    if start.place.spare {
        return Ok(0);
    }
    let is_first = start.place.rank == 0;
    // Before anything is measured.
    let switches = match options.topology.as_deref().filter(|_| is_first) {
        Some(file) => {
            let text = document::open(file, |content| document::whole(content))
                .with_context(|| format!("--topology {}", file.display()))?;
            Some(String::from_utf8_lossy(&text).into_owned())
        }
        None => None,
    };
    let interrupts = Interrupts::catch()?;
    let measured = measure(global, options, &wanted, (&start, switches), &interrupts, (out, err));
    crate::cmd::concluded(&interrupts, measured, err)
}

/// Measures as one of the nodes, and on rank 0 prints the report of all.
fn measure(
    global: &Global,
    options: &FleetProbe,
    wanted: &RdmaProbe,
    (start, switches): (&Start, Option<String>),
    interrupts: &Interrupts,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> anyhow::Result<u8> {
    let is_first = start.place.rank == 0;
    let meeting = start.meeting(&options.run);
    let timeouts = Timeouts {
        arrival: Duration::from_secs(options.run.arrival),
        round: Duration::from_secs(options.run.timeout),
    };
    let host = if is_first { Some(meeting.host(IpAddr::V6(Ipv6Addr::UNSPECIFIED))?) } else { None };
    let machine = Machine::of(global, err)?;
    let session = Session {
        machine: &machine,
        want: CollectOptions::default(),
        global,
        scope: &wanted.nics.scope,
        profile: RdmaProbe::PROFILE,
        masked: Masked::by(None)?,
    };
    let facts = machine.facts(session.want);
    let expected = expected_machine(&machine, &facts)?;
    let rdma = link_options(&session, wanted, options.quick)?;
    let node = Node {
        options: &rdma,
        machine: &expected,
        name: &start.node,
        rank: start.place.rank,
        interrupts,
    };
    let Some(host) = host else {
        let mut note = |text: String| crate::cmd::remark(err, &text);
        take_part(&node, &meeting, timeouts.arrival, &mut note)
            .with_context(|| format!("{} could not take part to the end", start.node))?;
        return Ok(0);
    };
    let begun = Instant::now();
    let mut run = lead(host, start, &node, (&meeting, timeouts), options.quick)?;
    run.seconds = begun.elapsed().as_secs_f64();
    let mut notes = std::mem::take(&mut run.notes);
    let fleet = fleet(start, timeouts, run, (switches, options.quick), &mut notes);
    for text in &notes {
        crate::cmd::remark(err, text);
    }
    let report = fleet.report(options.run.mask || start.key.is_some(), start.key.as_ref());
    interrupts.printing();
    super::print(global, &report, options.run.format, out)
}

/// What rank 0 has after the rounds.
struct Run {
    members: Vec<Measured>,
    measured: Vec<PairMeasured>,
    schedule: Vec<schedule::Round>,
    is_complete: bool,
    notes: Vec<String>,
    seconds: f64,
}

/// Leads all nodes through the rounds; this one is a node like the others.
fn lead(
    host: Host,
    start: &Start,
    node: &Node<'_>,
    (meeting, timeouts): (&Meeting<'_>, Timeouts),
    quick: bool,
) -> anyhow::Result<Run> {
    let interrupted = || node.interrupts.pending();
    let mut bar = Progress::new();
    let mut notes = Vec::new();
    let planned = OnceCell::new();
    let (coordinated, own) = std::thread::scope(|scope| {
        let own = scope.spawn(|| take_part(node, meeting, timeouts.arrival, &mut |_| {}));
        let coordinated = coordinate(
            host,
            start.place.nodes.len(),
            (timeouts, &interrupted),
            &mut |text| notes.push(text),
            &|nodes, rails| rounds(planned.get_or_init(|| schedule(nodes, rails, quick))),
            &mut |round, rounds| bar.show("fleet", "the nodes", round as u64, rounds as u64),
        );
        (coordinated, own.join())
    });
    bar.clear();
    let (members, measured, is_complete) = coordinated?;
    match own {
        Ok(Err(error)) if is_complete => notes.push(format!("{}: {error}", start.node)),
        Ok(_) => {}
        Err(panic) => std::panic::resume_unwind(panic),
    }
    if !is_complete {
        notes.push("Interrupted: this is what was done until then.".to_owned());
    }
    Ok(Run {
        members,
        measured,
        schedule: planned.into_inner().unwrap_or_default(),
        is_complete,
        notes,
        seconds: 0.0,
    })
}

/// The nodes and what was measured between them.
fn fleet(
    start: &Start,
    timeouts: Timeouts,
    run: Run,
    (switches, quick): (Option<String>, bool),
    notes: &mut Vec<String>,
) -> Fleet {
    let members = run.members.iter();
    let collected: Vec<Collected> =
        members.map(|member| collected(member, run.is_complete)).collect();
    let mut links = links(names(&collected), &run, quick);
    if let Some(text) = switches {
        let nics = nics(&links.nodes, &run.members);
        match topology::leaves(&text, &|list| expand(list), &nics) {
            Ok(leaves) => links.leaves = leaves,
            Err(why) => notes.push(format!("--topology is not used: {why}")),
        }
    }
    let mut fleet = merge(&start.place, timeouts.arrival, collected);
    for text in notes.iter() {
        fleet.note(text.clone());
    }
    fleet.connect(links);
    fleet
}

/// Options that make no sense here.
fn check(global: &Global, wanted: &RdmaProbe) -> anyhow::Result<()> {
    if global.sysroot.is_some() || !global.from.is_empty() {
        bail!("gdr fleet probe rdma measures: it does not work with --sysroot or --from");
    }
    let peer = &wanted.nics.peer;
    if peer.peer.is_some()
        || peer.listen.is_some()
        || peer.rendezvous.is_some()
        || peer.secret_file.is_some()
        || peer.no_secret
        || wanted.nics.remote_device.is_some()
    {
        bail!(
            "gdr fleet probe chooses both ends of each connection: omit HOST, --listen, --rendezvous, --secret-file, --no-secret \
             and --remote-device after --"
        );
    }
    let scope = &wanted.nics.scope;
    if scope.save.is_some()
        || scope.baseline.is_some()
        || scope.masks.mask_key.is_some()
        || wanted.own.all
        || wanted.own.odp
        || wanted.own.show_perftest
    {
        bail!(
            "--save, --baseline, --all, --odp and --show-perftest are options of gdr probe rdma alone; --mask-key stands before --"
        );
    }
    Ok(())
}

/// The options of every connection.
fn link_options(
    session: &Session<'_>,
    wanted: &RdmaProbe,
    quick: bool,
) -> anyhow::Result<rdma::Options> {
    let mut scope = session.scope()?;
    if scope.terms.sizes.is_empty() {
        scope.terms.sizes = SIZES.to_vec();
    }
    if quick {
        scope.terms.depth = crate::probe::depth::Depth::Quick;
    }
    Ok(rdma::Options {
        remote: rdma::RemoteEnd::Launched(None, None),
        link: true,
        // The other NUMA node is compared on one machine only.
        ..wanted.probe(scope, false)?
    })
}

/// The schedule, as its nodes need it.
fn rounds(schedule: &[schedule::Round]) -> Vec<Round> {
    let rounds = schedule.iter().map(|round| Round {
        together: round.phase == Phase::Together,
        shift: round.shift,
        pairs: round.pairs.clone(),
    });
    rounds.collect()
}

/// A node as a report of a probe.
fn collected(member: &Measured, is_complete: bool) -> Collected {
    let document = |simulated: bool| {
        json!({
            "schema": PROBE_SCHEMA,
            "gdr": env!("CARGO_PKG_VERSION"),
            "host": { "source": "live", "name": member.node },
            "probe": "rdma",
            "simulated": simulated,
            "complete": is_complete,
            "results": [],
        })
    };
    let simulated = member.ready.as_ref().is_some_and(|ready| ready.simulated);
    Collected {
        rank: member.rank,
        node: member.node.clone(),
        outcome: match &member.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(document(simulated).to_string()),
        },
    }
}

/// The names of each node's NICs.
fn nics(nodes: &[String], members: &[Measured]) -> Vec<(String, Vec<topology::NicNames>)> {
    let names = |nic: &rdma::fleet::Nic| {
        let device = std::iter::once(nic.device.clone());
        device.chain(nic.interfaces.iter().cloned()).collect()
    };
    let of_member = |member: &Measured| {
        let ready = member.ready.iter();
        ready.flat_map(|ready| &ready.nics).map(names).collect()
    };
    let nics = members.iter().map(of_member);
    nodes.iter().cloned().zip(nics).collect()
}

fn links(nodes: Vec<String>, run: &Run, quick: bool) -> Links {
    let nics = run.members.iter().map(|member| {
        let ready = member.ready.iter();
        ready.flat_map(|ready| &ready.nics).map(|nic| nic.subject.clone()).collect()
    });
    let nic = |(node, rail)| Nic { node, rail };
    let measurement = |pair: &PairMeasured| Measurement {
        phase: run.schedule.get(pair.round).map_or(Phase::Alone, |round| round.phase),
        client: nic(pair.client),
        server: nic(pair.server),
        there: pair.figures.there,
        back: pair.figures.back,
        latency: pair.figures.latency,
        lost: pair.figures.lost,
        failed: pair.figures.failed.is_some(),
    };
    let reasons = run.measured.iter().enumerate();
    Links {
        nodes,
        nics: nics.collect(),
        leaves: Vec::new(),
        measurements: run.measured.iter().map(measurement).collect(),
        reasons: reasons
            .filter_map(|(at, pair)| Some((at, pair.figures.failed.clone()?)))
            .collect(),
        rounds: run.schedule.len(),
        quick,
        seconds: run.seconds,
    }
}
