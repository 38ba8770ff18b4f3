//! Two machines: each has a parent with a child, and the parents relay the messages of the children. The client is the one that
//! connects, or the first of two that a launcher started.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::options::RemoteEnd;
use super::pairs::pair_subject;
use crate::probe::channel::{Line, write_line};
use crate::probe::children::Children;
use crate::probe::rendezvous::{
    Conditions, DEFAULT_PORT, Error, Link, Listener, SECRET_VARIABLE, Secret, connect,
    from_environment, host_name, meet, shortened,
};
use crate::probe::scope::{ProbeError, Scope};
use crate::probe::task::Task;
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

/// A probe whose two ends may be on two machines.
pub trait Across {
    /// An end of this machine.
    type LocalEnd;
    /// What the two children say to each other.
    type Message: Serialize + DeserializeOwned + Send + 'static;
    /// What they do.
    type Task: Task;
    /// The name of a failure.
    const NAME: &'static str;
    /// The backend of a failure.
    const BACKEND: &'static str;

    /// The probe's name: `gdr probe NAME`.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The options of every probe.
    fn scope(&self) -> &Scope;

    /// The location of the other end.
    fn remote(&self) -> &RemoteEnd;

    /// What the other machine learns of an end.
    fn inventory(&self, place: &Self::LocalEnd) -> RemotePlace;

    /// Bytes that the server must have room for.
    fn room(&self) -> usize;

    /// The client's task. `limit` is the bandwidth of the connection in bytes per second.
    fn client(&self, place: &Self::LocalEnd, subject: String, limit: Option<u64>) -> Self::Task;

    /// The server's; `None` if it does not have that much room.
    fn server(&self, place: &Self::LocalEnd, subject: String, room: usize) -> Option<Self::Task>;

    /// The name of its results.
    fn subject(task: &Self::Task) -> &str;

    /// Makes texts of the other machine printable.
    fn sanitize(message: Self::Message) -> Self::Message;
}

/// Messages between the parents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ParentMessage<M> {
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
    Child(u32, Line<M>),
    /// The sender's child ended; with a reason if it failed.
    #[serde(rename = "over")]
    ChildEnded(u32, Option<String>),
    /// From the client: no more connections.
    End,
}

/// An end of the other machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePlace {
    pub subject: String,
    /// The lower bandwidth of its port and its path to the GPU, bytes per second.
    pub limit: Option<u64>,
    /// Its curve of `gdr probe transfer`.
    pub curve: Option<Curve>,
}

pub(super) type PeerLink<'a, P> = Link<'a, ParentMessage<<P as Across>::Message>>;

/// Connects to the other machine and measures the connections.
pub fn run<P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    places: &[P::LocalEnd],
) -> Result<(), ProbeError> {
    let interrupts = children.interrupts;
    let interrupted = || interrupts.pending();
    let (link, is_client) = match meet_peer(probe, children, &interrupted) {
        Ok(link) => link,
        Err(error) => {
            report_error::<P>(children, &error);
            return Ok(());
        }
    };
    let role = if is_client { Role::Client { end: 0 } } else { Role::Server };
    run_over(probe, children, places, link, role)
}

/// What this process does on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Measures each of its ends, the first one with this end of the server.
    Client {
        end: usize,
    },
    Server,
}

/// Measures the connections over a link to the other machine.
pub(super) fn run_over<P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    places: &[P::LocalEnd],
    link: PeerLink<'_, P>,
    role: Role,
) -> Result<(), ProbeError> {
    match run_role(probe, children, places, &link, role) {
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
fn report_error<P: Across>(children: &mut Children<'_>, error: &Error) {
    match error {
        Error::Interrupted => {
            children.report.complete = false;
            children.note("Interrupted: this is what was done until then.".to_owned());
        }
        error => report_impossible::<P>(children, error.to_string()),
    }
}

fn meet_peer<'a, P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    interrupted: &'a (dyn Fn() -> bool + Sync),
) -> Result<(PeerLink<'a, P>, bool), Error> {
    let conditions = |time: Duration| Conditions { until: Instant::now() + time, interrupted };
    let progress = &mut *children.progress;
    let mut note = |note: String| progress.message(&note);
    match probe.remote() {
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
            let listener = Listener::bind(*address, &secret)?;
            for line in describe_server(probe.name(), listener.address(), &secret, given.is_some())
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
            let link =
                meet(&place, file.as_deref(), everywhere, given.as_ref(), &meeting, &mut note)?;
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
    let host = match address.ip() {
        // Without a host name the user must fill in the address.
        ip if ip.is_unspecified() => host_name().unwrap_or_else(|_| "HOST".to_owned()),
        // The other machine has an interface of its own to it.
        IpAddr::V6(ip) if ip.is_unicast_link_local() => format!("[{ip}%INTERFACE]"),
        IpAddr::V6(ip) => format!("[{ip}]"),
        IpAddr::V4(ip) => ip.to_string(),
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
    if is_given {
        [
            format!(
                "{listening}; the command for the other machine, with the same secret in {SECRET_VARIABLE} or --secret-file:"
            ),
            format!("gdr probe {probe} {host}"),
        ]
    } else {
        [
            format!("{listening}; the command for the other machine, with a secret for this run:"),
            format!("{SECRET_VARIABLE}={} gdr probe {probe} {host}", secret.text()),
        ]
    }
}

/// Runs the client or the server; false if it ended early.
fn run_role<P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    places: &[P::LocalEnd],
    link: &PeerLink<'_, P>,
    role: Role,
) -> Result<bool, ProbeError> {
    let ours = ParentMessage::Inventory {
        host: children.report.host.name.clone().unwrap_or_else(|| "that machine".to_owned()),
        ends: places.iter().map(|place| probe.inventory(place)).collect(),
    };
    let theirs = match link.exchange(&ours, Instant::now() + probe.scope().terms.timeout) {
        Ok(ParentMessage::Inventory { host, ends }) if !ends.is_empty() => {
            (shortened(&host, MAX_NAME), ends)
        }
        Ok(_) => return report_unexpected::<P>(children),
        Err(error) => return report_lost::<P>(children, &error),
    };
    match role {
        Role::Client { end } => client(probe, children, places, link, &theirs, end),
        Role::Server => server(probe, children, places, link, &theirs.0),
    }
}

fn report_unexpected<P: Across>(children: &mut Children<'_>) -> Result<bool, ProbeError> {
    report_impossible::<P>(
        children,
        "the peer sent an unexpected message: is it the same version of gdr?".to_owned(),
    );
    Ok(false)
}

fn report_lost<P: Across>(children: &mut Children<'_>, error: &Error) -> Result<bool, ProbeError> {
    report_error::<P>(children, error);
    Ok(false)
}

fn client<P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    places: &[P::LocalEnd],
    link: &PeerLink<'_, P>,
    (host, ends): &(String, Vec<RemotePlace>),
    first: usize,
) -> Result<bool, ProbeError> {
    for (number, place) in (0..).zip(places) {
        // Pairs the ends in order; starts again if the server has fewer.
        let end = (first + number as usize) % ends.len();
        let remote = &ends[end];
        let ours = probe.inventory(place);
        if remote.curve != ours.curve {
            report_impossible::<P>(children, OTHER_PROBE.to_owned());
            return Ok(false);
        }
        let limit = ours.limit.into_iter().chain(remote.limit).min();
        let subject = pair_subject(
            &ours.subject,
            &format!("{host} {}", shortened(&remote.subject, MAX_NAME)),
        );
        let task = probe.client(place, subject.clone(), limit);
        let begin = ParentMessage::Begin { number, subject, end, room: probe.room() };
        if let Err(error) = link.send(&begin) {
            return report_lost::<P>(children, &error);
        }
        if !relay::<P>(children, link, number, task)? {
            return Ok(false);
        }
    }
    match link.send(&ParentMessage::End) {
        Ok(()) => Ok(true),
        Err(error) => report_lost::<P>(children, &error),
    }
}

fn server<P: Across>(
    probe: &P,
    children: &mut Children<'_>,
    places: &[P::LocalEnd],
    link: &PeerLink<'_, P>,
    host: &str,
) -> Result<bool, ProbeError> {
    let mut served = 0;
    loop {
        match link.receive(Instant::now() + BETWEEN) {
            Ok(ParentMessage::Begin { number, subject, end, room }) => {
                let is_possible = number == served && served < MAX_CONNECTIONS;
                let place = places.get(end).filter(|_| is_possible);
                let subject = shortened(&subject, 2 * MAX_NAME);
                let Some(task) = place.and_then(|place| probe.server(place, subject, room)) else {
                    return report_unexpected::<P>(children);
                };
                if !relay::<P>(children, link, number, task)? {
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
            Ok(ParentMessage::Inventory { .. }) => return report_unexpected::<P>(children),
            Err(error) => return report_lost::<P>(children, &error),
        }
    }
}

/// Runs a child, and relays messages between it and the other machine's child; false if the probe cannot continue.
fn relay<P: Across>(
    children: &mut Children<'_>,
    link: &PeerLink<'_, P>,
    number: u32,
    task: P::Task,
) -> Result<bool, ProbeError> {
    let (childs, ours) = UnixStream::pair()?;
    let (stop, stops) = UnixStream::pair()?;
    let sent = Arc::new(Mutex::new(Instant::now()));
    let wire =
        Wire { socket: Stdio::from(OwnedFd::from(childs)), stop, sent: Some(Arc::clone(&sent)) };
    let (ran, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let received = to_child::<P>(link, number, &ours);
            if received.is_err() {
                // The child reports what it has within the grace time, or is stopped.
                std::thread::sleep(GRACE);
                let _ = stops.shutdown(Shutdown::Both);
            }
            received
        });
        let sending = scope.spawn(|| from_child::<P>(link, number, &ours, &sent));
        let ran = children.run_with(P::subject(&task), &task, &[], Some(wire));
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
        Ok(Err(error)) => report_lost::<P>(children, &error),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Sends the messages of the local child.
fn from_child<P: Across>(
    link: &PeerLink<'_, P>,
    number: u32,
    child: &UnixStream,
    sent: &Mutex<Instant>,
) {
    for line in BufReader::new(child).lines().map_while(Result::ok) {
        *sent.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let Ok(message) = serde_json::from_slice(line.as_bytes()) else {
            return;
        };
        // Ignored: the thread that receives reports a broken link.
        let _ = link.send(&ParentMessage::Child(number, message));
    }
}

/// Forwards the messages of the remote child until it ends.
fn to_child<P: Across>(
    link: &PeerLink<'_, P>,
    number: u32,
    child: &UnixStream,
) -> Result<(), Error> {
    // Ignored: a child that has ended needs no more messages.
    let forward = |line: Line<P::Message>| drop(write_line(child, &sanitize::<P>(line)));
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
                forward(Line::Failed { failed: error.to_string() });
                break Err(error);
            }
        }
    };
    // The child reads the end after the last message.
    let _ = child.shutdown(Shutdown::Write);
    ended
}

/// Reports why the probe is impossible.
pub fn report_impossible<P: Across>(children: &mut Children<'_>, why: String) {
    let result = Subject::machine(P::BACKEND).impossible(P::NAME, None, true, why);
    children.report.results.push(result);
}

/// A text of the other machine, printable.
pub fn reason(text: &str) -> String {
    shortened(text, MAX_REASON)
}

/// Makes texts of the other machine printable.
fn sanitize<P: Across>(line: Line<P::Message>) -> Line<P::Message> {
    match line {
        Line::Failed { failed } => Line::Failed { failed: reason(&failed) },
        Line::Message(message) => Line::Message(P::sanitize(message)),
    }
}
