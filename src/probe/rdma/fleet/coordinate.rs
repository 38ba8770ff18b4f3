//! Rank 0: waits for the nodes, leads them through the rounds, and collects the figures. A node that fails is left out of the rounds
//! that follow.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::message::{MAX_RAILS, Message, PairFigures, Ready, Work, interface};
use crate::model::Absence;
use crate::probe::rendezvous::{Conditions, Error, Host, Link, shortened};

/// How long a node that has connected may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// How much longer than a client rank 0 waits for a round.
const MARGIN: Duration = Duration::from_secs(10);
/// How much later than its partner rank 0 may see that a node has ended: the time of a heartbeat, and some more.
const NOTICE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most characters of a name and of a reason from another machine.
const MAX_NAME: usize = 200;
const MAX_REASON: usize = 500;

/// How long rank 0 waits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For nodes to arrive.
    pub arrival: Duration,
    /// For a node to be ready, and for a round.
    pub round: Duration,
}

/// Pairs that work at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// All NICs of a pair at once; else one after another.
    pub together: bool,
    /// The number of the server's NIC is that of the client's plus this, modulo the number of rails.
    pub shift: usize,
    /// Client and server, as numbers of nodes.
    pub pairs: Vec<(usize, usize)>,
}

/// A node, and why it has no figures if it has none.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub rank: u32,
    pub node: String,
    /// Its NICs; empty if it could not take part.
    pub ready: Option<Ready>,
    /// Why it could not take part, or did not to the end.
    pub failure: Option<(Absence, String)>,
}

/// The figures of two NICs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairMeasured {
    pub round: usize,
    /// Number of the node, and of its NIC.
    pub client: (usize, usize),
    pub server: (usize, usize),
    pub figures: PairFigures,
}

struct Member<'a> {
    measured: Measured,
    /// `None` after it failed.
    link: Option<Link<'a, Message>>,
}

impl Member<'_> {
    fn address(&self) -> Option<IpAddr> {
        let address = self.link.as_ref()?.peer().ip().to_canonical();
        // A process on the host of rank 0: its name for itself helps no other host.
        (!address.is_loopback() && self.measured.rank != 0).then_some(address)
    }

    /// The interface of this host that leads to the node, if its address is link-local; else 0.
    fn interface(&self) -> u32 {
        self.link.as_ref().map_or(0, |link| interface(link.peer()))
    }

    fn fail(&mut self, why: Absence, reason: String) {
        self.link = None;
        let reason = shortened(&reason, MAX_REASON);
        self.measured.failure.get_or_insert((why, reason));
    }

    fn lost(&mut self, error: &Error) {
        let (why, reason) = match error {
            // Not this node's fault; the report says so once.
            Error::Interrupted => return,
            Error::TimedOut { .. } => {
                (Absence::TimedOut, "it is alive, and did not finish in time".to_owned())
            }
            Error::PeerFailed { why, .. } => (Absence::Ended, why.clone()),
            Error::PeerGone { why, .. } => (Absence::Ended, format!("its connection ended: {why}")),
            error => (Absence::Ended, error.to_string()),
        };
        self.fail(why, reason);
    }

    fn rails(&self) -> usize {
        match (&self.link, &self.measured.ready) {
            (Some(_), Some(ready)) => ready.nics.len().min(MAX_RAILS),
            _ => 0,
        }
    }
}

/// Leads `count` nodes, this one included, through the rounds that `plan` makes for a number of nodes and of rails. The second result
/// has what was measured, and the third is false after an interrupt.
pub fn coordinate(
    host: Host,
    count: usize,
    (timeouts, interrupted): (Timeouts, &(dyn Fn() -> bool + Sync)),
    note: &mut dyn FnMut(String),
    plan: &dyn Fn(usize, usize) -> Vec<Round>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Vec<Measured>, Vec<PairMeasured>, bool), Error> {
    let mut members = arrive(&host, count, (timeouts, interrupted), note)?;
    // The port closes, and a file that names it is removed.
    drop(host);
    leave_out_link_local(&mut members);
    let until = Instant::now() + timeouts.round;
    for member in &mut members {
        ready(member, until);
    }
    let rails = members.iter().map(Member::rails).max().unwrap_or(0);
    let able: Vec<usize> = (0..members.len()).filter(|at| members[*at].rails() > 0).collect();
    let rounds = plan(able.len(), rails);
    let mut measured = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        progress(number, rounds.len());
        if interrupted() {
            break;
        }
        let pairs = round
            .pairs
            .iter()
            .filter_map(|(client, server)| Some((*able.get(*client)?, *able.get(*server)?)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        run(&mut members, (number, round, &pairs), rails, timeouts, &mut measured);
    }
    let is_complete = !interrupted();
    notice_ended(&mut members, &mut measured, rounds.len(), interrupted);
    for member in &mut members {
        if let Some(link) = member.link.take() {
            // Ignored: it has nothing more to do.
            let _ = link.send(&Message::End);
            let _ = link.bye();
        }
    }
    let members = members.into_iter().map(|member| member.measured);
    Ok((members.collect(), measured, is_complete))
}

/// The nodes that arrive in time, by rank.
fn arrive<'a>(
    host: &Host,
    count: usize,
    (timeouts, interrupted): (Timeouts, &'a (dyn Fn() -> bool + Sync)),
    note: &mut dyn FnMut(String),
) -> Result<Vec<Member<'a>>, Error> {
    let conditions = Conditions { until: Instant::now() + timeouts.arrival, interrupted };
    let (sender, arrived) = channel();
    let accepted = std::thread::scope(|scope| {
        let mut connected = 0;
        host.accept_each(&conditions, note, &mut |link: Link<'a, Message>| {
            let sender = sender.clone();
            connected += 1;
            scope.spawn(move || {
                // A process that proves the secret and then says nothing has no name.
                let first = link.receive(Instant::now() + INTRODUCTION);
                if let Ok(Message::Arrived { node, rank, gdr }) = first {
                    // Ignored: the receiver outlives this thread.
                    let _ = sender.send((link, node, rank, gdr));
                }
            });
            connected < count
        })
    });
    drop(sender);
    match accepted {
        Ok(()) | Err(Error::Interrupted) => {}
        Err(error) => return Err(error),
    }
    let mut members: Vec<Member<'a>> = Vec::new();
    let mut ranks = BTreeSet::new();
    for (link, node, rank, gdr) in arrived {
        let node = shortened(&node, MAX_NAME);
        if !ranks.insert(rank) {
            note(format!("{node} is left out: rank {rank} had arrived before"));
            continue;
        }
        let mut member = Member {
            measured: Measured { rank, node, ready: None, failure: None },
            link: Some(link),
        };
        let ours = env!("CARGO_PKG_VERSION");
        if gdr != ours {
            let gdr = shortened(&gdr, MAX_NAME);
            member.fail(Absence::Version, format!("gdr {gdr} runs there, {ours} here"));
        }
        members.push(member);
    }
    members.sort_by_key(|member| member.measured.rank);
    Ok(members)
}

/// A link-local address means nothing without an interface, whose number is another on each host. A node takes the interface by which it
/// reached rank 0. That is right if all nodes did so by link-local addresses of one network.
fn leave_out_link_local(members: &mut [Member<'_>]) {
    let remote = members.iter().filter(|member| member.address().is_some());
    let interfaces: BTreeSet<u32> = remote.map(Member::interface).collect();
    if interfaces.len() < 2 {
        return;
    }
    for member in members.iter_mut().filter(|member| member.interface() != 0) {
        let address = member.address().map(|address| address.to_string());
        member.fail(
            Absence::Ended,
            format!(
                "it reached rank 0 from the link-local address {}, at which not all nodes can reach it: name rank 0 by another address",
                address.unwrap_or_default()
            ),
        );
    }
}

fn ready(member: &mut Member<'_>, until: Instant) {
    let Some(link) = &member.link else { return };
    match link.receive(until) {
        Ok(Message::Ready(Ok(mut ready))) => {
            for nic in &mut ready.nics {
                nic.subject = shortened(&nic.subject, MAX_NAME);
                nic.device = shortened(&nic.device, MAX_NAME);
            }
            for note in &mut ready.notes {
                *note = shortened(note, MAX_REASON);
            }
            member.measured.ready = Some(ready);
        }
        Ok(Message::Ready(Err(why))) => {
            // Ignored: it has nothing more to do.
            let _ = link.send(&Message::End);
            member.fail(Absence::Ended, why);
        }
        Ok(_) => member.fail(Absence::Invalid, "it sent messages in the wrong order".to_owned()),
        Err(error) => member.lost(&error),
    }
}

/// Finds the nodes that ended in the last round, and drops what failed because of a node that ended at any time: it is named, and its
/// partners are not to blame.
fn notice_ended(
    members: &mut [Member<'_>],
    measured: &mut Vec<PairMeasured>,
    rounds: usize,
    interrupted: &dyn Fn() -> bool,
) {
    let until = Instant::now() + NOTICE;
    loop {
        for member in members.iter_mut() {
            if let Some(error) = member.link.as_ref().and_then(Link::failure) {
                member.lost(&error);
            }
        }
        let has_ended = |node: usize| members[node].measured.failure.is_some();
        measured.retain(|pair| {
            pair.figures.failed.is_none() || !has_ended(pair.client.0) && !has_ended(pair.server.0)
        });
        let is_last =
            |pair: &PairMeasured| pair.round + 1 == rounds && pair.figures.failed.is_some();
        if !measured.iter().any(is_last) || interrupted() || Instant::now() >= until {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Runs a round. Pairs of which a node has failed are left out.
fn run(
    members: &mut [Member<'_>],
    (number, round, pairs): (usize, &Round, &[(usize, usize)]),
    rails: usize,
    timeouts: Timeouts,
    measured: &mut Vec<PairMeasured>,
) {
    let number32 = u32::try_from(number).unwrap_or(u32::MAX);
    let mut working = Vec::new();
    for (client, server) in pairs {
        let (own, theirs) = (members[*client].rails(), members[*server].rails());
        let nics = (0..own).map(|nic| (nic, (nic + round.shift) % rails));
        let nics: Vec<(usize, usize)> = nics.filter(|(_, other)| *other < theirs).collect();
        let Some(ready) = members[*server].measured.ready.as_ref() else {
            continue;
        };
        if nics.is_empty() {
            continue;
        }
        let work = Message::Work(Work {
            number: number32,
            address: members[*server].address(),
            interface: match members[*client].address() {
                None => members[*server].interface(),
                Some(_) => 0,
            },
            port: ready.port,
            pairs: nics.clone(),
            together: round.together,
            seconds: timeouts.round.as_secs(),
        });
        let sent = members[*client].link.as_ref().map(|link| link.send(&work));
        match sent {
            Some(Ok(())) => working.push((*client, *server, nics)),
            Some(Err(error)) => members[*client].lost(&error),
            None => {}
        }
    }
    let until = Instant::now() + timeouts.round + MARGIN;
    for (client, server, nics) in working {
        let Some(link) = &members[client].link else {
            continue;
        };
        match link.receive(until) {
            Ok(Message::Measured(done, figures))
                if done == number32 && figures.len() == nics.len() =>
            {
                let dead = members[server].link.as_ref().and_then(Link::failure);
                if let Some(error) = dead {
                    // What the client saw is the end of the server.
                    members[server].lost(&error);
                    continue;
                }
                measured.extend(nics.into_iter().zip(figures).map(|((own, theirs), figures)| {
                    PairMeasured {
                        round: number,
                        client: (client, own),
                        server: (server, theirs),
                        figures,
                    }
                }));
            }
            Ok(_) => members[client]
                .fail(Absence::Invalid, "it sent messages in the wrong order".to_owned()),
            Err(error) => members[client].lost(&error),
        }
    }
}
