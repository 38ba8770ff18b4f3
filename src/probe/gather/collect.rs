//! Rank 0: takes in the results of all nodes, its own included, each with a deadline.

use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::message::{Message, Outcome, WINDOW};
use super::place::Nodes;
use crate::model::Absence;
use crate::probe::rendezvous::{Conditions, Error, Host, Link};

/// Most bytes of a node's document.
const MAX_DOCUMENT: usize = 64 << 20;
/// How long a node that has connected may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// How long rank 0 waits.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// For nodes to arrive.
    pub arrival: Duration,
    /// For the work of a node.
    pub work: Duration,
}

/// The result of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    pub rank: u32,
    pub node: String,
    pub outcome: Outcome,
}

/// A node that is or was connected.
enum Event {
    Arrived(u32, String),
    Ended(Collected),
}

/// Does the own work, and takes in the results of all nodes that arrive in time. `rank` and `node` are those of this process. Nodes
/// that do not arrive are not in the result.
pub fn collect<'a>(
    host: Option<Host>,
    (rank, node): (u32, &str),
    nodes: &Nodes,
    (waits, interrupted): (Waits, &'a (dyn Fn() -> bool + Sync)),
    note: &mut dyn FnMut(String),
    work: impl FnOnce() -> Outcome + Send,
) -> Result<Vec<Collected>, Error> {
    let begun = Instant::now();
    let arrival = Conditions { until: begun + waits.arrival, interrupted };
    // A node that arrives last has its time for the work too.
    let until = begun + waits.arrival + waits.work;
    let others = nodes.len().saturating_sub(1);
    let (sender, events) = channel();
    let mut collected = Vec::new();
    let mut arrived = BTreeSet::from([(rank, node.to_owned())]);
    std::thread::scope(|scope| {
        let own = sender.clone();
        let name = node.to_owned();
        scope.spawn(move || {
            let outcome = work();
            // Ignored: the receiver is gone only after an error.
            let _ = own.send(Event::Ended(Collected { rank, node: name, outcome }));
        });
        let mut connected = 0;
        let mut take = |link: Link<'a, Message>| {
            let sender = sender.clone();
            connected += 1;
            scope.spawn(move || receive(link, until, &sender));
            connected < others
        };
        let ended = match &host {
            Some(host) if others > 0 => host.accept_each(&arrival, note, &mut take),
            _ => Ok(()),
        };
        // The port closes, and a file that names it is removed.
        drop(host);
        drop(sender);
        for event in events {
            match event {
                Event::Arrived(rank, node) => drop(arrived.insert((rank, node))),
                Event::Ended(result) => collected.push(result),
            }
        }
        match ended {
            // What came before the interrupt is reported.
            Err(Error::Interrupted) => Ok(()),
            ended => ended,
        }
    })?;
    for (rank, node) in arrived {
        if !collected.iter().any(|result| result.rank == rank) {
            let reason = "it arrived, and its connection ended without a result".to_owned();
            collected.push(Collected { rank, node, outcome: Err((Absence::Ended, reason)) });
        }
    }
    Ok(collected)
}

/// Takes in one node's messages.
fn receive(link: Link<'_, Message>, until: Instant, events: &Sender<Event>) {
    let (rank, node, gdr) = match link.receive(until.min(Instant::now() + INTRODUCTION)) {
        Ok(Message::Arrived { node, rank, gdr }) => (rank, node, gdr),
        // A process that proves the secret and then says nothing has no name.
        Ok(_) | Err(_) => return,
    };
    // Ignored here and below: the receiver is gone only after an error.
    let _ = events.send(Event::Arrived(rank, node.clone()));
    let ours = env!("CARGO_PKG_VERSION");
    let outcome = document(&link, until).map_err(|(why, reason)| {
        if gdr == ours {
            (why, reason)
        } else {
            (Absence::Version, format!("gdr {gdr} runs there, {ours} here: {reason}"))
        }
    });
    let _ = events.send(Event::Ended(Collected { rank, node, outcome }));
    // Ignored: the result is here.
    let _ = link.bye();
}

fn document(link: &Link<'_, Message>, until: Instant) -> Outcome {
    let mut document = String::new();
    let mut parts = 0;
    loop {
        match link.receive(until) {
            Ok(Message::Part(part)) if document.len() + part.len() <= MAX_DOCUMENT => {
                document.push_str(&part);
                parts += 1;
                if parts % WINDOW == 0
                    && let Err(error) = link.send(&Message::Next)
                {
                    return Err((Absence::Ended, error.to_string()));
                }
            }
            Ok(Message::Finished) => return Ok(document),
            Ok(Message::Failed { why, reason }) => return Err((why, reason)),
            Ok(Message::Part(_)) => {
                return Err((
                    Absence::Invalid,
                    format!("its report is larger than {} MiB", MAX_DOCUMENT >> 20),
                ));
            }
            Ok(Message::Arrived { .. } | Message::Next) => {
                return Err((Absence::Invalid, "it sent messages in the wrong order".to_owned()));
            }
            Err(Error::TimedOut { .. }) => {
                return Err((
                    Absence::TimedOut,
                    "it is alive, and did not finish in time".to_owned(),
                ));
            }
            Err(Error::PeerFailed { why, .. }) => return Err((Absence::Ended, why)),
            Err(Error::PeerGone { why, .. }) => {
                return Err((Absence::Ended, format!("its connection ended: {why}")));
            }
            Err(error) => return Err((Absence::Ended, error.to_string())),
        }
    }
}
