//! Tests of two ends on this machine.

mod connecting;
mod ends;
mod file;
mod foreign;
mod handshake;
mod processes;
mod secrets;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Conditions, Error, Handshake, Link, Listener, Next, Secret, Session, connect};

/// Messages of the tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TestMessage {
    Word(String),
    Numbers { all: Vec<u64> },
}

type Text = Link<'static, TestMessage>;

fn word(text: &str) -> TestMessage {
    TestMessage::Word(text.to_owned())
}

/// A timeout that a busy machine keeps.
const GENEROUS: Duration = Duration::from_secs(60);
/// Longest time until the end of one peer ends the other.
const BOTH: Duration = Duration::from_secs(5);
/// Extra time for a busy machine.
const BUSY: Duration = Duration::from_secs(3);

fn conditions(within: Duration) -> Conditions<'static> {
    Conditions { until: Instant::now() + within, interrupted: &|| false }
}

/// Conditions with a flag that interrupts.
fn interruptible(within: Duration) -> (Conditions<'static>, &'static AtomicBool) {
    let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let asked: &'static (dyn Fn() -> bool + Sync) =
        Box::leak(Box::new(|| flag.load(Ordering::Relaxed)));
    let conditions = Conditions { interrupted: asked, ..conditions(within) };
    (conditions, flag)
}

/// The shared secret.
fn secret() -> Secret {
    Secret::parse(&"07".repeat(32)).expect("a secret")
}

fn listener() -> (Listener, SocketAddr) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &secret()).expect("a port");
    let address = listener.address();
    (listener, address)
}

fn accept(listener: Listener) -> Text {
    listener.accept(&conditions(GENEROUS), &mut |_| {}).expect("a peer")
}

fn join(address: SocketAddr, conditions: &Conditions<'static>) -> Result<Text, Error> {
    connect(&address.ip().to_string(), address.port(), &secret(), conditions, &mut |_| {})
}

/// Both ends of a link, the listening one first.
fn pair_with(listening: &Conditions<'static>, connecting: &Conditions<'static>) -> (Text, Text) {
    let (listener, address) = listener();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept(listening, &mut |_| {}).expect("a peer"));
        let connected = join(address, connecting).expect("a listener");
        (accepted.join().expect("a thread"), connected)
    })
}

fn pair() -> (Text, Text) {
    pair_with(&conditions(GENEROUS), &conditions(GENEROUS))
}

fn soon() -> Instant {
    Instant::now() + GENEROUS
}

/// Polls for a failure, as a measuring caller does.
fn failure(link: &Text) -> Error {
    let begun = Instant::now();
    loop {
        if let Some(error) = link.failure() {
            assert!(begun.elapsed() < BOTH + BUSY, "{error} only after {:?}", begun.elapsed());
            return error;
        }
        assert!(begun.elapsed() < GENEROUS, "no trouble was seen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A peer with the secret that sends arbitrary frames.
struct RawPeer {
    stream: TcpStream,
    session: Session,
}

impl RawPeer {
    /// Proves the secret to a listener.
    fn prove(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(GENEROUS)).expect("a timeout");
        let (mut handshake, first) = Handshake::client(&secret().key()).expect("random bytes");
        stream.write_all(&first).expect("written");
        loop {
            let count = stream.read(handshake.room()).expect("an answer");
            assert_ne!(count, 0, "it receives no");
            match handshake.received(count) {
                Next::Wait => {}
                Next::Send(bytes) => stream.write_all(&bytes).expect("written"),
                Next::Done(_, session) => {
                    return Self { stream, session: *session };
                }
                Next::Rejected(why) => panic!("{why:?}"),
            }
        }
    }

    /// Sends a payload in the next frame.
    fn send_payload(&mut self, payload: &[u8]) {
        let frame = self.session.writer.frame(payload).expect("a frame");
        // The other end may have closed already.
        let _ = self.stream.write_all(&frame);
    }

    /// All payloads until the end of the connection, separated by spaces.
    fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        // Ignored: a reset is an end too.
        let _ = self.stream.read_to_end(&mut bytes);
        self.session.reader.feed(&bytes);
        let mut said = String::new();
        while let Ok(Some(payload)) = self.session.reader.take() {
            said.push_str(&String::from_utf8_lossy(&payload));
            said.push(' ');
        }
        said
    }
}

/// A listening end connected to a [`RawPeer`].
fn raw_peer() -> (Text, RawPeer) {
    let (listener, address) = listener();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept(listener));
        let peer = RawPeer::prove(address);
        (accepted.join().expect("a thread"), peer)
    })
}

/// Reads until the end of the connection.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Ignored: a reset is an end too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
