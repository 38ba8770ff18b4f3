//! Two processes whose NICs reach each other: one sends to the other, writes and reads its memory, and sees it end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use gdsync::hca::{Endpoint, Request, RetryPolicy};
use gdsync::wire::{Event, Operation, RemoteAddress, Transport, Wqe};

use crate::inside::inside;
use crate::sides::{SMALL, Side, bytes, datagrams};
use crate::{NIC, side};

/// Set in the second process.
const OTHER: &str = "GDSYNC_OTHER_PROCESS";
const MARK: &str = "other: ";

/// The second process, which talks on its standard input and output.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--include-ignored", "--nocapture"])
            .env(OTHER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// The next line that it says. The harness writes others.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim().to_owned();
            }
        }
    }

    fn tell(&mut self, line: impl std::fmt::Display) {
        writeln!(self.input, "{line}").unwrap();
    }
}

fn say(line: impl std::fmt::Display) {
    let mut output = std::io::stdout();
    writeln!(output, "{MARK}{line}").unwrap();
}

fn heard() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Runs one end in each of two processes with a NIC.
fn between(test: &str, here: fn(Other), there: fn()) {
    if std::env::var_os(OTHER).is_some() {
        return there();
    }
    here(Other::start(test));
}

/// Connects to the other process, which does the same, and returns the address and key of its memory.
fn connected(
    request: &Request,
    say: &mut dyn FnMut(String),
    hear: &mut dyn FnMut() -> String,
) -> (Side, Endpoint, RemoteAddress) {
    let side = side(1, request);
    let own = side.region.remote(0);
    say(side.pair.endpoint.to_string());
    say(format!("{} {}", own.address, own.key));
    let peer: Endpoint = hear().parse().unwrap();
    let memory = hear();
    let (address, key) = memory.split_once(' ').unwrap();
    let remote = RemoteAddress { address: address.parse().unwrap(), key: key.parse().unwrap() };
    assert_ne!(side.pair.endpoint.lid, peer.lid);
    if request.transport == Transport::Connected {
        let timeout = RetryPolicy::default();
        side.hca.connect(side.pair.endpoint, peer, timeout).unwrap();
    }
    (side, peer, remote)
}

fn join(other: &mut Other, request: &Request) -> (Side, Endpoint, RemoteAddress) {
    let other = std::cell::RefCell::new(other);
    connected(request, &mut |line| other.borrow_mut().tell(line), &mut || other.borrow_mut().line())
}

fn joined(request: &Request) -> (Side, Endpoint, RemoteAddress) {
    connected(request, &mut |line| say(line), &mut heard)
}

#[test]
#[ignore = "needs libmlx5"]
fn reach_each_other() {
    let test = "processes::reach_each_other";
    let directory = tempfile::tempdir().unwrap();
    let peers = ("FAKE_UVERBS_PEERS", directory.path().to_str().unwrap());
    inside(test, &[NIC[0], peers], || {
        between("processes::reach_each_other", here, there);
    });
}

fn here(mut other: Other) {
    let (mut side, peer, remote) = join(&mut other, &SMALL());
    let at = |offset: u64| RemoteAddress { address: remote.address + offset, ..remote };
    side.fill(0, &bytes(3, 4000));
    // Before a receive is posted, so that it is repeated; then one whose rings wrap.
    for round in 0..20_u64 {
        let length = 100 + round as u32 * 100;
        side.ring(&Wqe::send(&[side.at(0, length)]).immediate(7).signalled());
        side.wait_sent();
        other.tell("receive");
        side.synchronize();
        let sent = side.next_sent();
        assert_eq!(sent.event.failed(), None, "{sent:?}");
        assert_eq!(other.line(), format!("{length} {}", side.pair.endpoint.qpn));
    }
    // 4000 bytes there and back, and an atomic operation.
    let write = Wqe::write(at(1000), &[side.at(0, 4000)]);
    side.sent(&write.signalled());
    side.sent(&Wqe::read(at(1000), &[side.at(4000, 4000)]).signalled());
    assert_eq!(side.seen(4000, 4000), bytes(3, 4000));
    side.sent(&Wqe::write(at(64), &[]).inline(&41_u64.to_ne_bytes()).signalled());
    let remote = at(64);
    let add = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[side.at(0, 8)]);
    let added = side.sent(&add.signalled());
    assert_eq!((added.bytes, side.seen(0, 8)), (8, 41_u64.to_ne_bytes().to_vec()));
    other.tell("word");
    assert_eq!(other.line(), "42");
    // A key that the other process has not registered.
    let mut wrong = at(0);
    wrong.key ^= 0x5500;
    side.ring(&Wqe::write(wrong, &[side.at(0, 8)]).signalled());
    side.wait_sent();
    side.synchronize();
    assert_eq!(side.next_failed().0, 0x13);
    // Datagrams.
    let (mut side, peer) = {
        other.tell("datagrams");
        let (side, to, _) = join(&mut other, &datagrams::request());
        assert_eq!(to.lid, peer.lid);
        (side, to)
    };
    other.tell("ready");
    assert_eq!(other.line(), "ready");
    let there = side.hca.datagram(side.pair.endpoint, peer, datagrams::KEY).unwrap();
    side.fill(0, b"a datagram");
    side.sent(&Wqe::send(&[side.at(0, 10)]).to(there).signalled());
    assert_eq!(
        other.line(),
        format!("a datagram {} {}", side.pair.endpoint.qpn, side.pair.endpoint.lid)
    );
    // After its end requests fail.
    other.tell("connect again");
    let (mut side, _, _) = join(&mut other, &SMALL());
    other.tell("end");
    assert!(other.child.wait().unwrap().success());
    side.ring(&Wqe::send(&[side.at(0, 8)]).signalled());
    side.wait_sent();
    side.synchronize();
    assert_eq!(side.next_failed().0, 0x15);
}

fn there() {
    let (mut side, _, _) = joined(&SMALL());
    for round in 0..20_u64 {
        assert_eq!(heard(), "receive");
        let length = 100 + round as u32 * 100;
        // Late for the first ones, which the sender repeats.
        std::thread::sleep(std::time::Duration::from_millis(2));
        side.pair.receive.post(&[side.at(0, 3000)]).unwrap();
        let received = side.next_received();
        assert_eq!(received.event, Event::ReceivedImmediate { immediate: 7 });
        assert_eq!(side.seen(0, length as usize), bytes(3, 4000)[..length as usize]);
        say(format!("{} {}", received.bytes, received.source));
    }
    assert_eq!(heard(), "word");
    let word: [u8; 8] = side.seen(64, 8).try_into().unwrap();
    say(u64::from_ne_bytes(word));
    assert_eq!(heard(), "datagrams");
    let (mut side, _, _) = joined(&datagrams::request());
    side.pair.receive.post(&[side.at(0, 200)]).unwrap();
    assert_eq!(heard(), "ready");
    say("ready");
    let received = side.next_received();
    assert_eq!(received.bytes, 50);
    let text = String::from_utf8(side.seen(40, 10)).unwrap();
    say(format!("{text} {} {}", received.source, received.origin.lid));
    assert_eq!(heard(), "connect again");
    let _side = joined(&SMALL());
    assert_eq!(heard(), "end");
}
