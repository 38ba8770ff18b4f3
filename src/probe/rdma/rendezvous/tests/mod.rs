//! Two ends on this machine: what each says of the other, however that one ends.

mod ends;
mod file;
mod greetings;
mod processes;
mod strangers;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Conditions, Error, Link, Listener, connect};

/// What the tests have to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Word(String),
    Numbers { all: Vec<u64> },
}

type Text = Link<'static, Said>;

fn word(text: &str) -> Said {
    Said::Word(text.to_owned())
}

/// A patience that a busy machine keeps.
const GENEROUS: Duration = Duration::from_secs(60);
/// Within so long the end of one side ends the other.
const BOTH: Duration = Duration::from_secs(5);
/// What a busy machine may take beyond it.
const BUSY: Duration = Duration::from_secs(3);

fn terms(within: Duration) -> Conditions<'static> {
    Conditions {
        version: "1.2.3",
        capabilities: &["dmabuf", "gpu"],
        token: None,
        until: Instant::now() + within,
        interrupted: &|| false,
    }
}

/// Conditions that somebody may interrupt.
fn interruptible(within: Duration) -> (Conditions<'static>, &'static AtomicBool) {
    let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let asked: &'static (dyn Fn() -> bool + Sync) = Box::leak(Box::new(|| flag.load(Ordering::Relaxed)));
    let terms = Conditions {
        interrupted: asked,
        ..terms(within)
    };
    (terms, flag)
}

fn listener() -> (Listener, SocketAddr) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.address();
    (listener, address)
}

fn join(address: SocketAddr, terms: &Conditions<'static>) -> Result<Text, Error> {
    connect(&address.ip().to_string(), address.port(), terms, &mut |_| {})
}

/// Both ends of a link, the listening one first.
fn pair_with(listening: &Conditions<'static>, connecting: &Conditions<'static>) -> (Text, Text) {
    let (listener, address) = listener();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept(listening, &mut |_| {}).expect("a peer"));
        let joined = join(address, connecting).expect("a listener");
        (accepted.join().expect("a thread"), joined)
    })
}

fn pair() -> (Text, Text) {
    pair_with(&terms(GENEROUS), &terms(GENEROUS))
}

fn soon() -> Instant {
    Instant::now() + GENEROUS
}

/// Waits for trouble, as a caller that measures finds it.
fn trouble(link: &Text) -> Error {
    let begun = Instant::now();
    loop {
        if let Some(error) = link.trouble() {
            assert!(
                begun.elapsed() < BOTH + BUSY,
                "{error} only after {:?}",
                begun.elapsed()
            );
            return error;
        }
        assert!(begun.elapsed() < GENEROUS, "no trouble was seen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const GREETING: &str = r#"{"gdr_rendezvous":1,"version":"0.9.9","capabilities":["dmabuf"]}"#;

/// A listening end, and a peer made by hand at the other.
fn by_hand() -> (Text, TcpStream) {
    let (listener, address) = listener();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(GENEROUS)).expect("a timeout");
    writeln!(stream, "{GREETING}").expect("written");
    let link = listener.accept(&terms(GENEROUS), &mut |_| {}).expect("a peer");
    (link, stream)
}

/// All that a connection says to its end.
fn rest(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
