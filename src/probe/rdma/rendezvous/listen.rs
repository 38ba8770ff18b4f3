//! The side that listens: it waits for its peer, and turns others away.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Conditions;
use super::error::Error;
use super::link::Link;
use super::porter::{Porter, TOLD, wait_out};
use super::socket::{again, any_ready, write_all};
use super::wire::{Greeting, Lines, line, quote};

/// How often a wait asks whether somebody wants to stop.
const SLICE: Duration = Duration::from_millis(50);
/// How long who came may take to say what it is.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// So many are heard at a time; the others wait in the kernel.
const HEARD: usize = 16;

/// A port that is listened on.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// Somebody who came and did not introduce itself yet.
struct Newcomer {
    stream: TcpStream,
    address: SocketAddr,
    lines: Lines,
    since: Instant,
}

/// What came of a newcomer.
enum Heard {
    /// Nothing yet.
    Waiting,
    /// It is the peer.
    Peer(Greeting),
    /// It is a gdr that speaks another protocol.
    Protocol(Error),
    /// It is none; in words that go after its address.
    Stranger(String),
}

/// Listens at an address and waits for the peer: [`Listener::bind`] and [`Listener::accept`] in one.
pub fn listen<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    address: SocketAddr,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    Listener::bind(address)?.accept(terms, note)
}

impl Listener {
    /// Listens at this address, and no other; port 0 is a port that is free.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::Listen {
            address,
            why: error.to_string(),
        };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer. Who comes and is none is told so, is noted, and ends no wait.
    pub fn accept<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        self,
        terms: &Conditions<'a>,
        note: &mut dyn FnMut(String),
    ) -> Result<Link<'a, M>, Error> {
        if self.address.ip().is_unspecified() {
            note(format!(
                "listening on all addresses: whoever reaches this machine reaches port {}",
                self.address.port()
            ));
        }
        let begun = Instant::now();
        let mut newcomers: Vec<Newcomer> = Vec::new();
        let mut others = Others::default();
        loop {
            if (terms.interrupted)() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= terms.until {
                return Err(Error::NobodyCame {
                    address: self.address,
                    waited: begun.elapsed(),
                    turned_away: others.in_words(),
                });
            }
            self.wait(&newcomers);
            while newcomers.len() < HEARD {
                match self.socket.accept() {
                    Ok((stream, address)) => newcomers.extend(Newcomer::new(stream, address)),
                    Err(error) => {
                        wait_out(&error);
                        break;
                    }
                }
            }
            let mut waiting = Vec::new();
            for mut who in newcomers {
                match who.hear(terms) {
                    Heard::Waiting => waiting.push(who),
                    Heard::Peer(greeting) if who.answer(terms, None) => {
                        let porter = Porter::start(self.socket, who.address, terms)?;
                        return Link::new(who.stream, who.address, greeting, who.lines, Some(porter), terms);
                    }
                    Heard::Peer(_) => others.turned_away(who.address, "it left again", note),
                    Heard::Protocol(error) => {
                        who.answer(terms, None);
                        return Err(error);
                    }
                    Heard::Stranger(why) => {
                        who.answer(terms, Some(format!("it waits for another: {why}")));
                        others.turned_away(who.address, &why, note);
                    }
                }
            }
            newcomers = waiting;
        }
    }

    /// Waits a little for somebody to come, or to say something.
    fn wait(&self, newcomers: &[Newcomer]) {
        let mut waiting: Vec<PollFd<'_>> = newcomers
            .iter()
            .map(|newcomer| PollFd::from_borrowed_fd(newcomer.stream.as_fd(), PollFlags::IN))
            .collect();
        if newcomers.len() < HEARD {
            waiting.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
        }
        any_ready(&mut waiting, SLICE);
    }
}

impl Newcomer {
    fn new(stream: TcpStream, address: SocketAddr) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        // A connection that delays small lines is slower, and no worse.
        let _ = stream.set_nodelay(true);
        Some(Self {
            stream,
            address,
            lines: Lines::default(),
            since: Instant::now(),
        })
    }

    /// What it has said by now.
    fn hear(&mut self, terms: &Conditions<'_>) -> Heard {
        let stranger = |why: &str| Heard::Stranger(why.to_owned());
        let mut buffer = [0; 16384];
        match (&self.stream).read(&mut buffer) {
            Ok(0) if self.lines.begun().is_empty() => return stranger("it came and left without a word"),
            Ok(0) => return Heard::Stranger(format!("it sent {} and left", quote(self.lines.begun()))),
            Ok(count) => self.lines.feed(&buffer[..count]),
            Err(error) if again(&error) => {}
            Err(error) => return Heard::Stranger(format!("it left ({error})")),
        }
        let foreign = |bytes: &[u8]| Heard::Stranger(format!("it is no gdr, and sent {}", quote(bytes)));
        if !Greeting::may_begin(self.lines.begun()) {
            return foreign(self.lines.begun());
        }
        let line = match self.lines.take() {
            Ok(Some(line)) => line,
            Ok(None) if self.since.elapsed() < INTRODUCTION => return Heard::Waiting,
            Ok(None) if self.lines.begun().is_empty() => return stranger("it said nothing"),
            Ok(None) | Err(_) => return foreign(self.lines.begun()),
        };
        match Greeting::parse(&line) {
            Ok(greeting) if greeting.token == terms.token => Heard::Peer(greeting),
            Ok(_) => stranger("it is a gdr of another run"),
            Err(unread) => match unread.error(self.address, terms) {
                Some(error) => Heard::Protocol(error),
                None => foreign(&line),
            },
        }
    }

    /// Greets it, or says why it is not taken; false where it takes no answer.
    fn answer(&self, terms: &Conditions<'_>, refused: Option<String>) -> bool {
        let greeting = Greeting {
            token: None,
            refused,
            ..Greeting::of(terms)
        };
        line(&greeting).is_ok_and(|line| {
            let until = Instant::now() + Duration::from_millis(500);
            write_all(&self.stream, &line, until, &|| !(terms.interrupted)()).is_ok()
        })
    }
}

/// Those who came and were no peer.
#[derive(Default)]
struct Others {
    count: usize,
    last: String,
}

impl Others {
    fn turned_away(&mut self, who: SocketAddr, why: &str, note: &mut dyn FnMut(String)) {
        self.count += 1;
        self.last = format!("{who}: {why}");
        if self.count <= TOLD {
            note(format!("still listening; turned away {}", self.last));
        } else if self.count == TOLD + 1 {
            note("still listening; those who are turned away from here on are not told of".to_owned());
        }
    }

    /// What goes after "nobody came".
    fn in_words(&self) -> String {
        match self.count {
            0 => String::new(),
            1 => format!(" but one that was turned away ({})", self.last),
            more => format!(" but {more} that were turned away (the last {})", self.last),
        }
    }
}
