//! A node: it serves the others all the time, and is a client when rank 0 says so.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::message::{MAX_RAILS, Message, Nic, PairFigures, Ready, Work, interface};
use crate::model::figure::rdma;
use crate::model::{CounterKind, ProbeReport, ProbeResult, ProbeVerdict};
use crate::probe::children::{Children, Watcher};
use crate::probe::events::Step;
use crate::probe::interrupts::Interrupts;
use crate::probe::machine::Machine;
use crate::probe::rdma::across::{self, PeerLink, Role};
use crate::probe::rdma::options::Options;
use crate::probe::rdma::parent::rails;
use crate::probe::rdma::task::LocalEnd;
use crate::probe::rendezvous::{
    Conditions, Error, Link, Listener, Meeting, Secret, connect, shortened,
};
use crate::probe::supervise::empty_report;

/// Longest time between two messages of rank 0: a link detects a dead one earlier.
const BETWEEN: Duration = Duration::from_secs(24 * 3600);
/// How long a server may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most characters of a reason.
const MAX_REASON: usize = 500;

/// This node of a fleet.
pub struct Node<'n> {
    pub options: &'n Options,
    pub machine: &'n Machine,
    pub name: &'n str,
    pub rank: u32,
    pub interrupts: &'n Interrupts,
}

/// Shows nothing: rank 0 reports.
struct Silent;

impl Watcher for Silent {
    fn step(&mut self, _: &str, _: &Step) {}

    fn message(&mut self, _: &str) {}
}

/// Connects to rank 0 and takes part until it ends the rounds.
pub fn take_part(
    node: &Node<'_>,
    meeting: &Meeting<'_>,
    arrival: Duration,
    note: &mut dyn FnMut(String),
) -> Result<(), Error> {
    let interrupted = || node.interrupts.pending();
    let conditions = Conditions { until: Instant::now() + arrival, interrupted: &interrupted };
    let (link, secret) = meeting.reach(&conditions, note)?;
    link.send(&Message::Arrived {
        node: node.name.to_owned(),
        rank: node.rank,
        gdr: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
    let prepared = prepare(node).and_then(|(report, places)| {
        let listener = Listener::bind(any, &secret).map_err(|error| error.to_string())?;
        Ok((report, places, listener))
    });
    let (report, places, listener) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            link.send(&Message::Ready(Err(shortened(&why, MAX_REASON))))?;
            // Until rank 0 has read it.
            return match link.receive(Instant::now() + BETWEEN) {
                Ok(_) | Err(Error::PeerDone { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        }
    };
    let notes = report.notes.iter().take(20);
    link.send(&Message::Ready(Ok(Ready {
        port: listener.address().port(),
        nics: places.iter().map(nic).collect(),
        simulated: node.options.scope.sim,
        notes: notes.map(|note| shortened(note, MAX_REASON)).collect(),
    })))?;
    let done = AtomicBool::new(false);
    let is_over = || done.load(Ordering::Relaxed) || node.interrupts.pending();
    std::thread::scope(|scope| {
        scope.spawn(|| serve(node, &places, &listener, &is_over));
        let ended = follow(node, &places, &link, &secret);
        done.store(true, Ordering::Relaxed);
        ended
    })
}

/// The NICs that take part.
fn prepare(node: &Node<'_>) -> Result<(ProbeReport, Vec<LocalEnd>), String> {
    let mut report = empty_report(node.options, node.machine);
    let mut silent = Silent;
    let mut children = children(node, &mut report, &mut silent);
    let mut places =
        rails(node.options, node.machine, &mut children).map_err(|error| gpu::sentence(&error))?;
    places.truncate(MAX_RAILS);
    if places.is_empty() {
        return Err(reason(&report).unwrap_or_else(|| "it has no NIC to measure".to_owned()));
    }
    Ok((report, places))
}

fn nic(place: &LocalEnd) -> Nic {
    let port = verbs::nic::Port {
        root: Path::new("/"),
        device: &place.port.device,
        number: place.port.number.into(),
    };
    Nic {
        subject: place.subject.clone(),
        device: place.port.device.clone(),
        interfaces: port.interfaces(),
    }
}

fn children<'c>(
    node: &Node<'c>,
    report: &'c mut ProbeReport,
    progress: &'c mut dyn Watcher,
) -> Children<'c> {
    Children {
        report,
        interrupts: node.interrupts,
        timeout: node.options.scope.terms.timeout,
        progress,
        lister: None,
    }
}

/// Serves every client until the rounds are over.
fn serve<'a>(
    node: &Node<'_>,
    places: &[LocalEnd],
    listener: &Listener,
    is_over: &'a (dyn Fn() -> bool + Sync),
) {
    let conditions = Conditions { until: Instant::now() + BETWEEN, interrupted: is_over };
    std::thread::scope(|scope| {
        let mut take = |link: PeerLink<'a, Options>| {
            scope.spawn(move || {
                let mut report = report(node);
                let (mut silent, role) = (Silent, Role::Server);
                let mut children = children(node, &mut report, &mut silent);
                // Ignored: the client has the results, and the reason of a failure.
                let _ = across::run_over(node.options, &mut children, places, link, role);
            });
            true
        };
        // Ignored: it ends when the rounds are over, and a client that finds no server reports that.
        let _ = listener.accept_each(&conditions, &mut |_| {}, &mut take);
    });
}

/// A report that names the node.
fn report(node: &Node<'_>) -> ProbeReport {
    let mut report = empty_report(node.options, node.machine);
    report.host.name = Some(node.name.to_owned());
    report
}

/// Does the work of rank 0's messages.
fn follow(
    node: &Node<'_>,
    places: &[LocalEnd],
    link: &Link<'_, Message>,
    secret: &Secret,
) -> Result<(), Error> {
    loop {
        match link.receive(Instant::now() + BETWEEN) {
            Ok(Message::Work(work)) => {
                let until = Instant::now() + Duration::from_secs(work.seconds);
                let figures = measure(node, places, link, secret, (&work, until));
                link.send(&Message::Measured(work.number, figures))?;
            }
            Ok(Message::End) | Err(Error::PeerDone { .. }) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Measures all pairs of a round, one after another or at once.
fn measure(
    node: &Node<'_>,
    places: &[LocalEnd],
    link: &Link<'_, Message>,
    secret: &Secret,
    (work, until): (&Work, Instant),
) -> Vec<PairFigures> {
    let address = host(work, link.peer());
    let pair = |(ours, theirs): (usize, usize)| match places.get(ours) {
        Some(place) => {
            connect_and_measure(node, place, theirs, (&address, work.port), secret, until)
        }
        None => failed("rank 0 chose a NIC that does not exist".to_owned()),
    };
    if !work.together {
        return work.pairs.iter().copied().map(pair).collect();
    }
    std::thread::scope(|scope| {
        let running: Vec<_> =
            work.pairs.iter().map(|numbers| scope.spawn(|| pair(*numbers))).collect();
        let join = |running: std::thread::ScopedJoinHandle<'_, PairFigures>| {
            let ended = running.join();
            ended.unwrap_or_else(|_| failed("gdr failed: a thread ended".to_owned()))
        };
        running.into_iter().map(join).collect()
    })
}

/// The server's address, with the interface of a link-local one.
fn host(work: &Work, rank_0: SocketAddr) -> String {
    let (address, interface) = match (work.address, work.interface) {
        (Some(address), 0) => (address, interface(rank_0)),
        (Some(address), number) => (address, number),
        (None, _) => (rank_0.ip(), interface(rank_0)),
    };
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() && interface != 0 => {
            format!("{address}%{interface}")
        }
        address => address.to_string(),
    }
}

fn failed(why: String) -> PairFigures {
    PairFigures { failed: Some(shortened(&why, MAX_REASON)), ..PairFigures::default() }
}

fn connect_and_measure(
    node: &Node<'_>,
    place: &LocalEnd,
    end: usize,
    (host, port): (&str, u16),
    secret: &Secret,
    until: Instant,
) -> PairFigures {
    let is_over = || node.interrupts.pending() || Instant::now() >= until;
    let conditions =
        Conditions { until: until.min(Instant::now() + CONNECT_TIMEOUT), interrupted: &is_over };
    let link: PeerLink<'_, Options> = match connect(host, port, secret, &conditions, &mut |_| {}) {
        Ok(link) => link,
        Err(Error::Interrupted) => return failed("there was no time left".to_owned()),
        Err(error) => return failed(error.to_string()),
    };
    let mut report = report(node);
    let (mut silent, role) = (Silent, Role::Client { end });
    let mut children = children(node, &mut report, &mut silent);
    let places = std::slice::from_ref(place);
    if let Err(error) = across::run_over(node.options, &mut children, places, link, role) {
        return failed(gpu::sentence(&error));
    }
    figures(&report)
}

/// The figures of a report about one connection.
fn figures(report: &ProbeReport) -> PairFigures {
    if let Some(why) = reason(report) {
        return failed(why);
    }
    let value = |names: &[&str]| {
        let of_name = |result: &&ProbeResult| names.contains(&result.name.as_str());
        let results = report.results.iter().filter(of_name);
        results.max_by_key(|result| result.bytes)?.median
    };
    let is_loss = |kind| matches!(kind, CounterKind::Loss | CounterKind::Link);
    let losses = report.counters.iter().filter(|change| is_loss(change.kind));
    let figures = PairFigures {
        there: value(&[rdma::WRITE.name, rdma::STAGED.name]),
        back: value(&[rdma::READ.name]),
        latency: value(&[rdma::SEND_LATENCY.name]),
        lost: losses.map(|change| change.rise).fold(0, u64::saturating_add),
        failed: None,
    };
    match figures.there {
        Some(_) => figures,
        None => failed("it did not finish".to_owned()),
    }
}

/// Why a report has no figures.
fn reason(report: &ProbeReport) -> Option<String> {
    let is_bad = |result: &&ProbeResult| match result.verdict {
        ProbeVerdict::Wrong => true,
        ProbeVerdict::Impossible => result.required,
        _ => false,
    };
    let bad = report.results.iter().find(is_bad);
    let reason = bad.and_then(|result| result.reason.clone());
    reason.or_else(|| {
        let note = report.notes.last().cloned();
        (!report.complete).then(|| note.unwrap_or_else(|| "it did not finish".to_owned()))
    })
}
