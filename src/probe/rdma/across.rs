//! Two machines: each has a parent with a child, and the parents relay the messages of the children. The client is the one that
//! connects, or the first of two that a launcher started.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::Message;
use super::curve::Curve;
use super::options::{Options, RemoteEnd};
use super::pairs::{new_task, pair_subject};
use super::rendezvous::{
    Conditions, DEFAULT_PORT, Error, Link, Listener, SECRET_VARIABLE, Secret, connect,
    from_environment, host_name, meet, shortened,
};
use super::task::{Part, Place, Task};
use crate::probe::channel::{Line, write_line};
use crate::probe::children::Children;
use crate::probe::scope::ProbeError;
use crate::probe::verdict::Subject;
use crate::probe::watch::Wire;

/// How long a client tries to connect, and processes of a launcher wait for each other.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the server waits for its client.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3600);
/// Longest time between two messages. A link detects a dead peer earlier.
const BETWEEN: Duration = Duration::from_secs(24 * 3600);
/// Most connections of a client: 32 GPUs with 32 ports each.
const MAX_CONNECTIONS: u32 = 1024;
/// Most characters of a name and of a reason from the other machine.
const MAX_NAME: usize = 200;
const MAX_REASON: usize = 2000;
/// The ends do not have the same curves.
const OTHER_PROBE: &str = "the two ends run different probes, or have different numbers of NICs: start gdr probe transfer on both, with the \
                           same options";
/// How long a child may take to end after its peer ended.
const GRACE: Duration = Duration::from_millis(500);

/// Messages between the parents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParentMessage {
    /// The sender's ends: both send it first.
    #[serde(rename = "has")]
    Inventory {
        host: String,
        /// Its ends, in order.
        ends: Vec<RemotePlace>,
    },
    /// From the client: the next connection.
    Begin {
        /// Counted from 0.
        number: u32,
        /// Its name in results.
        subject: String,
        /// Index of the server's end.
        end: usize,
        room: usize,
    },
    /// A message of the sender's child to the other child.
    #[serde(rename = "say")]
    Child(u32, Line<Message>),
    /// The sender's child ended; with a reason if it failed.
    #[serde(rename = "over")]
    ChildEnded(u32, Option<String>),
    /// From the client: no more connections.
    End,
}

/// An end of the other machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RemotePlace {
    subject: String,
    /// The lower bandwidth of its port and its path to the GPU, bytes per second.
    limit: Option<u64>,
    /// Its curve of `gdr probe transfer`.
    curve: Option<Curve>,
}

impl RemotePlace {
    fn new(place: &Place) -> Self {
        Self {
            subject: place.subject.clone(),
            limit: place.rate.into_iter().chain(place.path).min(),
            curve: place.curve,
        }
    }
}

type PeerLink<'a> = Link<'a, ParentMessage>;

/// Connects to the other machine and measures the connections.
pub fn run(
    options: &Options,
    children: &mut Children<'_>,
    places: &[Place],
) -> Result<(), ProbeError> {
    let interrupts = children.interrupts;
    let interrupted = || interrupts.pending();
    let (link, is_client) = match meet_peer(options, children, &interrupted) {
        Ok(link) => link,
        Err(error) => {
            report_error(children, &error);
            return Ok(());
        }
    };
    match run_role(options, children, places, &link, is_client) {
        Ok(true) => {
            // Ignored: the measurements are complete.
            let _ = link.bye();
            Ok(())
        }
        // The drop of the link sends the reason.
        Ok(false) => Ok(()),
        Err(error) => {
            link.fail(&gpu::sentence(&error));
            Err(error)
        }
    }
}

/// Reports why the probe ends.
fn report_error(children: &mut Children<'_>, error: &Error) {
    match error {
        Error::Interrupted => {
            children.report.complete = false;
            children.note("Interrupted: this is what was done until then.".to_owned());
        }
        error => report_impossible(children, error.to_string()),
    }
}

fn meet_peer<'a>(
    options: &Options,
    children: &mut Children<'_>,
    interrupted: &'a (dyn Fn() -> bool + Sync),
) -> Result<(PeerLink<'a>, bool), Error> {
    let conditions = |time: Duration| Conditions {
        until: Instant::now() + time,
        interrupted,
    };
    let progress = &mut *children.progress;
    let mut note = |note: String| progress.message(&note);
    match &options.remote {
        RemoteEnd::At { host, port, secret } => {
            connect(host, *port, secret, &conditions(CONNECT_TIMEOUT), &mut note)
                .map(|link| (link, true))
        }
        RemoteEnd::Comes(address, given) => {
            let secret = match given {
                Some(given) => given.clone(),
                None => Secret::generate().map_err(|error| Error::System {
                    what: "cannot generate a secret".to_owned(),
                    why: error.to_string(),
                })?,
            };
            let listener = bind(*address, &secret)?;
            for line in
                describe_server(options.name(), listener.address(), &secret, given.is_some())
            {
                note(line);
            }
            let link = listener.accept(&conditions(LISTEN_TIMEOUT), &mut note)?;
            Ok((link, false))
        }
        RemoteEnd::Launched(file, given) => {
            let variables = |name: &str| std::env::var(name).ok();
            let Some(place) = from_environment(&variables)? else {
                return Err(Error::System {
                    what: "no launcher variables are set".to_owned(),
                    why: "start gdr with srun or mpirun, or use HOST or --listen".to_owned(),
                });
            };
            let everywhere = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            let meeting = conditions(CONNECT_TIMEOUT);
            let link = meet(
                &place,
                file.as_deref(),
                everywhere,
                given.as_ref(),
                &meeting,
                &mut note,
            )?;
            Ok((link, place.rank == 0))
        }
        RemoteEnd::Here(_) => Err(Error::System {
            what: "both ends are on this machine".to_owned(),
            why: "no rendezvous is needed".to_owned(),
        }),
    }
}

/// Two lines for the user: where this server listens, and the command for the other machine.
fn describe_server(
    probe: &str,
    address: SocketAddr,
    secret: &Secret,
    is_given: bool,
) -> [String; 2] {
    let minutes = LISTEN_TIMEOUT.as_secs() / 60;
    let host = match address.ip().is_unspecified() {
        // Without a host name the user must fill in the address.
        true => host_name().unwrap_or_else(|_| "HOST".to_owned()),
        false if address.is_ipv6() => format!("[{}]", address.ip()),
        false => address.ip().to_string(),
    };
    let host = match address.port() {
        DEFAULT_PORT => host,
        port => format!("{host}:{port}"),
    };
    let listening = format!("listening at {address} for {minutes} minutes, for one peer");
    if secret.is_none() {
        return [
            format!(
                "{listening}, without a secret: any user of this machine can connect; the command for this machine:"
            ),
            format!("gdr probe {probe} --no-secret {host}"),
        ];
    }
    match is_given {
        true => [
            format!(
                "{listening}; the command for the other machine, with the same secret in {SECRET_VARIABLE} or --secret-file:"
            ),
            format!("gdr probe {probe} {host}"),
        ],
        false => [
            format!("{listening}; the command for the other machine, with a secret for this run:"),
            format!(
                "{SECRET_VARIABLE}={} gdr probe {probe} {host}",
                secret.text()
            ),
        ],
    }
}

/// Listens at an address; falls back from `[::]` to `0.0.0.0` without IPv6.
fn bind(address: SocketAddr, secret: &Secret) -> Result<Listener, Error> {
    match Listener::bind(address, secret) {
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Listener::bind(
            SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()),
            secret,
        ),
        bound => bound,
    }
}

/// Runs the client or the server; false if it ended early.
fn run_role(
    options: &Options,
    children: &mut Children<'_>,
    places: &[Place],
    link: &PeerLink<'_>,
    is_client: bool,
) -> Result<bool, ProbeError> {
    let ours = ParentMessage::Inventory {
        host: children
            .report
            .host
            .name
            .clone()
            .unwrap_or_else(|| "that machine".to_owned()),
        ends: places.iter().map(RemotePlace::new).collect(),
    };
    let theirs = match link.exchange(&ours, Instant::now() + options.scope.terms.timeout) {
        Ok(ParentMessage::Inventory { host, ends }) if !ends.is_empty() => {
            (shortened(&host, MAX_NAME), ends)
        }
        Ok(_) => return report_unexpected(children),
        Err(error) => return report_lost(children, &error),
    };
    match is_client {
        true => client(options, children, places, link, &theirs),
        false => server(options, children, places, link, &theirs.0),
    }
}

fn report_unexpected(children: &mut Children<'_>) -> Result<bool, ProbeError> {
    report_impossible(
        children,
        "the peer sent an unexpected message: is it the same version of gdr?".to_owned(),
    );
    Ok(false)
}

fn report_lost(children: &mut Children<'_>, error: &Error) -> Result<bool, ProbeError> {
    report_error(children, error);
    Ok(false)
}

fn client(
    options: &Options,
    children: &mut Children<'_>,
    places: &[Place],
    link: &PeerLink<'_>,
    (host, ends): &(String, Vec<RemotePlace>),
) -> Result<bool, ProbeError> {
    for (number, place) in (0..).zip(places) {
        // Pairs the ends in order; starts again if the server has fewer.
        let end = number as usize % ends.len();
        let remote = &ends[end];
        if remote.curve != place.curve {
            report_impossible(children, OTHER_PROBE.to_owned());
            return Ok(false);
        }
        let limit = RemotePlace::new(place)
            .limit
            .into_iter()
            .chain(remote.limit)
            .min();
        let subject = pair_subject(
            &place.subject,
            &format!("{host} {}", shortened(&remote.subject, MAX_NAME)),
        );
        let task = new_task(options, subject.clone(), Part::Client(place.clone()), limit);
        let begin = ParentMessage::Begin {
            number,
            subject,
            end,
            room: task.room,
        };
        if let Err(error) = link.send(&begin) {
            return report_lost(children, &error);
        }
        if !relay(children, link, number, task)? {
            return Ok(false);
        }
    }
    match link.send(&ParentMessage::End) {
        Ok(()) => Ok(true),
        Err(error) => report_lost(children, &error),
    }
}

fn server(
    options: &Options,
    children: &mut Children<'_>,
    places: &[Place],
    link: &PeerLink<'_>,
    host: &str,
) -> Result<bool, ProbeError> {
    let mut served = 0;
    loop {
        match link.receive(Instant::now() + BETWEEN) {
            Ok(ParentMessage::Begin {
                number,
                subject,
                end,
                room,
            }) => {
                let is_possible = number == served
                    && served < MAX_CONNECTIONS
                    && room <= super::plan::MAX_MESSAGE;
                let Some(place) = places.get(end).filter(|_| is_possible) else {
                    return report_unexpected(children);
                };
                let subject = shortened(&subject, 2 * MAX_NAME);
                let part = Part::Server(place.clone());
                let task = Task {
                    room,
                    ..new_task(options, subject, part, None)
                };
                if !relay(children, link, number, task)? {
                    return Ok(false);
                }
                served += 1;
            }
            // Late messages of a connection that ended.
            Ok(ParentMessage::Child(..) | ParentMessage::ChildEnded(..)) => {}
            Ok(ParentMessage::End) => {
                let note = format!(
                    "{host} was the client and has the results; connections served here: {served}."
                );
                children.report.notes.push(note);
                return Ok(true);
            }
            Ok(ParentMessage::Inventory { .. }) => return report_unexpected(children),
            Err(error) => return report_lost(children, &error),
        }
    }
}

/// Runs a child, and relays messages between it and the other machine's child; false if the probe cannot continue.
fn relay(
    children: &mut Children<'_>,
    link: &PeerLink<'_>,
    number: u32,
    task: Task,
) -> Result<bool, ProbeError> {
    let (childs, ours) = UnixStream::pair()?;
    let (stop, stops) = UnixStream::pair()?;
    let sent = Arc::new(Mutex::new(Instant::now()));
    let wire = Wire {
        socket: Stdio::from(OwnedFd::from(childs)),
        stop,
        sent: Some(Arc::clone(&sent)),
    };
    let (ran, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let received = to_child(link, number, &ours);
            if received.is_err() {
                // The child reports what it has within the grace time, or is stopped.
                std::thread::sleep(GRACE);
                let _ = stops.shutdown(Shutdown::Both);
            }
            received
        });
        let sending = scope.spawn(|| from_child(link, number, &ours, &sent));
        let ran = children.run_with(&task.subject, &task, &[], Some(wire));
        // Reads the child's messages to the end, even if the child hangs in the kernel.
        let _ = ours.shutdown(Shutdown::Read);
        let _ = sending.join();
        let why = match &ran {
            Ok(ran) => ran.failure.clone(),
            Err(error) => Some(gpu::sentence(error)),
        };
        // Ignored: the thread that receives reports a broken link.
        let _ = link.send(&ParentMessage::ChildEnded(number, why));
        (ran, receiving.join())
    });
    let ran = ran?;
    match received {
        Ok(Ok(())) => Ok(ran.go_on),
        Ok(Err(error)) => report_lost(children, &error),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Sends the messages of the local child.
fn from_child(link: &PeerLink<'_>, number: u32, child: &UnixStream, sent: &Mutex<Instant>) {
    for line in BufReader::new(child).lines().map_while(Result::ok) {
        *sent.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let Ok(message) = serde_json::from_str(&line) else {
            return;
        };
        // Ignored: the thread that receives reports a broken link.
        let _ = link.send(&ParentMessage::Child(number, message));
    }
}

/// Forwards the messages of the remote child until it ends.
fn to_child(link: &PeerLink<'_>, number: u32, child: &UnixStream) -> Result<(), Error> {
    // Ignored: a child that has ended needs no more messages.
    let forward = |line: Line<Message>| drop(write_line(child, &sanitize(line)));
    let ended = loop {
        match link.receive(Instant::now() + BETWEEN) {
            Ok(ParentMessage::Child(from, line)) if from == number => forward(line),
            Ok(ParentMessage::ChildEnded(from, why)) if from == number => {
                if let Some(failed) = why {
                    forward(Line::Failed { failed });
                }
                break Ok(());
            }
            Ok(_) => {}
            Err(error) => {
                forward(Line::Failed {
                    failed: error.to_string(),
                });
                break Err(error);
            }
        }
    };
    // The child reads the end after the last message.
    let _ = child.shutdown(Shutdown::Write);
    ended
}

/// Reports why the probe is impossible.
pub fn report_impossible(children: &mut Children<'_>, why: String) {
    let result = Subject::machine("verbs").impossible("rdma", None, true, why);
    children.report.results.push(result);
}

/// Makes texts of the other machine printable.
fn sanitize(line: Line<Message>) -> Line<Message> {
    match line {
        Line::Failed { failed } => Line::Failed {
            failed: shortened(&failed, MAX_REASON),
        },
        Line::Message(Message::Found(Some(what))) => {
            Line::Message(Message::Found(Some(shortened(&what, MAX_REASON))))
        }
        line => line,
    }
}
