//! HCAs of two processes: this test's, and another one that runs this binary again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Completion, Operation, RemoteAddress, Syndrome, Wqe};
use gdsync::{MemoryLocation, Place};
use gpu::Stream;

use super::lane::{Registered, TIMEOUT, allocator, bytes, polled, ring, until};

/// Where the other process finds the two sockets.
const MEETING: &str = "GDSYNC_TEST_MEETING";
const MEMORY: usize = 4096;
const OPTIONS: socket::Options = socket::Options {
    timeout: TIMEOUT,
    room: 1 << 30,
};

/// What the two say to each other in lines, beside the HCAs.
struct Lines(BufReader<UnixStream>);

impl Lines {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, line: &str) {
        self.0
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the other process ended");
        line.trim_end().to_owned()
    }
}

/// The other process's side; in a run of all tests it is nobody's, and does nothing.
#[test]
fn far_process() {
    let Some(meeting) = std::env::var_os(MEETING) else {
        return;
    };
    let meeting = Path::new(&meeting);
    let mut lines = Lines::new(UnixStream::connect(meeting.join("lines")).unwrap());
    let allocator = allocator();
    let hca = SimHca::with_lid(allocator.clone(), 2).unwrap();
    let stream = UnixStream::connect(meeting.join("messages")).unwrap();
    let connection = socket::join(&hca, stream, OPTIONS).unwrap();
    let mut pair = hca.create(&Request::default()).unwrap();
    let memory = Registered::new(&hca, &allocator, MemoryLocation::Gpu, &[2; MEMORY]);
    for part in 0..3 {
        let to = memory.region.segment(2048 + part * 64, 64);
        pair.receive.post(&[to]).unwrap();
    }
    let local: Endpoint = lines.hear().parse().unwrap();
    hca.connect(pair.endpoint, local, RetryPolicy::default())
        .unwrap();
    lines.say(&pair.endpoint.to_string());
    let remote = memory.region.remote(0);
    lines.say(&format!("{} {}", remote.address, remote.key));
    for _ in 0..3 {
        let Completion { event, bytes, .. } = polled(&mut pair.receive_completions);
        lines.say(&format!("{event:?} of {bytes}"));
    }
    assert_eq!(lines.hear(), "what is there");
    let hex: String = bytes(&memory.place)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    lines.say(&hex);
    assert_eq!(lines.hear(), "now you");
    let entry = Wqe::send(&[memory.region.segment(0, 16)]).signalled();
    ring(&mut pair, &entry);
    assert!(polled(&mut pair.send_completions).event.failed().is_none());
    assert!(connection.ended().is_none() && hca.violations().is_empty());
    lines.say("sent");
    // Until it is killed, or told to go on.
    lines.hear();
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This process's side, connected to the other's.
struct LocalEnd {
    other: Killed,
    lines: Lines,
    hca: SimHca,
    connection: socket::Connection,
    pair: QueuePair,
    memory: Registered,
    stream: Stream,
    there: RemoteAddress,
    _meeting: tempfile::TempDir,
}

fn accepted(listener: &UnixListener, other: &mut Child) -> UnixStream {
    listener.set_nonblocking(true).unwrap();
    let stream = until("the other process", || {
        if let Some(status) = other.try_wait().unwrap() {
            panic!("the other process ended: {status}");
        }
        listener.accept().ok()
    });
    stream.0.set_nonblocking(false).unwrap();
    stream.0
}

fn local() -> LocalEnd {
    let meeting = tempfile::tempdir().unwrap();
    let listeners =
        ["lines", "messages"].map(|name| UnixListener::bind(meeting.path().join(name)).unwrap());
    let mut other = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "process::far_process",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(MEETING, meeting.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = Lines::new(accepted(&listeners[0], &mut other.0));
    let messages = accepted(&listeners[1], &mut other.0);
    let allocator = allocator();
    let hca = SimHca::with_lid(allocator.clone(), 1).unwrap();
    let connection = socket::join(&hca, messages, OPTIONS).unwrap();
    let pair = hca.create(&Request::default()).unwrap();
    let memory = Registered::new(
        &hca,
        &allocator,
        MemoryLocation::Gpu,
        &(0..MEMORY).map(|at| at as u8).collect::<Vec<_>>(),
    );
    lines.say(&pair.endpoint.to_string());
    let peer: Endpoint = lines.hear().parse().unwrap();
    assert_eq!(peer.lid, 2);
    hca.connect(pair.endpoint, peer, RetryPolicy::default())
        .unwrap();
    let there = lines.hear();
    let (address, key) = there.split_once(' ').unwrap();
    let there = RemoteAddress {
        address: address.parse().unwrap(),
        key: key.parse().unwrap(),
    };
    LocalEnd {
        stream: allocator.gpu().stream().unwrap(),
        other,
        lines,
        hca,
        connection,
        pair,
        memory,
        there,
        _meeting: meeting,
    }
}

impl LocalEnd {
    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.there.address + offset,
            ..self.there
        }
    }

    /// A stream rings and waits; the completion.
    fn does(&mut self, entry: Wqe) -> Completion {
        let prepared = self.pair.send.prepare(&entry.signalled()).unwrap();
        let wait = self.pair.send_completions.take_wait().unwrap();
        self.stream.batch(&prepared.operations().unwrap()).unwrap();
        self.stream.batch(&wait.operations(false).unwrap()).unwrap();
        self.stream.synchronize_within(TIMEOUT).unwrap();
        let completion = self.pair.send_completions.poll().unwrap().unwrap();
        self.pair.send.complete(&completion).unwrap();
        completion
    }
}

#[test]
fn every_operation_between_two_processes_is_what_it_says() {
    let mut local = local();
    let from = |local: &LocalEnd, offset, length| local.memory.region.segment(offset, length);
    let well =
        |completion: Completion| assert!(completion.event.failed().is_none(), "{completion:?}");

    well(local.does(Wqe::send(&[from(&local, 10, 5)])));
    assert_eq!(local.lines.hear(), "Received of 5");
    well(local.does(Wqe::send(&[from(&local, 20, 6)]).immediate(0xdead_beef)));
    assert_eq!(
        local.lines.hear(),
        "ReceivedImmediate { immediate: 3735928559 } of 6"
    );
    well(local.does(Wqe::write(local.remote(256), &[from(&local, 30, 40)])));
    well(local.does(Wqe::write(local.remote(512), &[from(&local, 70, 3)]).immediate(7)));
    assert_eq!(local.lines.hear(), "Written { immediate: 7 } of 3");
    // What was written is read back, from one byte before it.
    let read = local.does(Wqe::read(local.remote(255), &[from(&local, 1024, 42)]));
    assert_eq!(read.bytes, 42);
    let found = bytes(&local.memory.place)[1024..1066].to_vec();
    assert_eq!(found, [vec![2], (30..70).collect(), vec![2]].concat());
    // 0x0202020202020202 is there: added to, and then swapped for what it is then.
    let word = |local: &LocalEnd, offset: usize| {
        let bytes = bytes(&local.memory.place);
        u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
    };
    let remote = local.remote(768);
    let add = Operation::FetchAdd { remote, add: 5 };
    well(local.does(Wqe::new(add, &[from(&local, 1200, 8)])));
    assert_eq!(word(&local, 1200), 0x0202_0202_0202_0202);
    let swap = Operation::CompareSwap {
        remote,
        compare: 0x0202_0202_0202_0207,
        swap: 0x1112_1314_1516_1718,
    };
    well(local.does(Wqe::new(swap, &[from(&local, 1200, 8)])));
    assert_eq!(word(&local, 1200), 0x0202_0202_0202_0207);

    local.lines.say("what is there");
    let hex = local.lines.hear();
    let mut expected = vec![2_u8; MEMORY];
    expected[2048..2053].copy_from_slice(&[10, 11, 12, 13, 14]);
    expected[2112..2118].copy_from_slice(&[20, 21, 22, 23, 24, 25]);
    expected[256..296].copy_from_slice(&(30..70).collect::<Vec<u8>>());
    expected[512..515].copy_from_slice(&[70, 71, 72]);
    expected[768..776].copy_from_slice(&0x1112_1314_1516_1718_u64.to_ne_bytes());
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);

    let to = local.memory.region.segment(3000, 16);
    local.pair.receive.post(&[to]).unwrap();
    local.lines.say("now you");
    let received = polled(&mut local.pair.receive_completions);
    assert_eq!(received.bytes, 16);
    assert_eq!(bytes(&local.memory.place)[3000..3016], [2; 16]);
    assert_eq!(local.lines.hear(), "sent");
    local.lines.say("end");
    assert!(local.other.0.wait().unwrap().success());
    assert!(matches!(
        *until("the link's end", || local.connection.ended()),
        socket::Error::Closed
    ));
}

#[test]
fn memory_of_the_other_process_that_is_not_registered_is_refused() {
    let mut local = local();
    let nowhere = local.remote(MEMORY as u64);
    let completion = local.does(Wqe::write(nowhere, &[]).inline(b"no"));
    assert_eq!(
        completion.event.failed().unwrap().syndrome,
        Syndrome::RemoteAccess
    );
    assert!(local.connection.ended().is_none());
}

#[test]
fn a_process_that_is_killed_leaves_no_stream_behind() {
    for delay in [0, 1, 5] {
        let mut local = local();
        // All that is posted there is taken, and what comes then is asked again and again.
        let posted = 3;
        let mut operations = Vec::new();
        for _ in 0..posted + 2 {
            let prepared = local
                .pair
                .send
                .prepare(&Wqe::send(&[]).inline(&[7]).signalled());
            operations.extend(prepared.unwrap().operations().unwrap());
            let wait = local.pair.send_completions.take_wait().unwrap();
            operations.extend(wait.operations(false).unwrap());
        }
        local.stream.batch(&operations).unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        local.other.0.kill().unwrap();
        local.stream.synchronize_within(TIMEOUT).unwrap();
        let mut syndromes = Vec::new();
        while let Some(completion) = local.pair.send_completions.poll().unwrap() {
            syndromes.extend(completion.event.failed().map(|failed| failed.syndrome));
        }
        // The first of them met nobody, and took the others with it.
        assert_eq!(
            syndromes.first(),
            Some(&Syndrome::TransportRetry),
            "{syndromes:?}"
        );
        assert!(
            syndromes[1..]
                .iter()
                .all(|syndrome| *syndrome == Syndrome::Flushed)
        );
        assert!(local.connection.ended().is_some());
    }
}

#[test]
fn a_process_that_is_killed_while_much_is_under_way_ends_what_is() {
    const BYTES: u32 = 64 << 20;
    let mut local = local();
    let place: Place = allocator()
        .place(MemoryLocation::Host, BYTES as usize)
        .unwrap();
    let region: MemoryRegion = local.hca.register(&place, Access::ALL).unwrap();
    // It has not the room, but learns that from all of it.
    let entry = Wqe::send(&[region.segment(0, BYTES)]).signalled();
    ring(&mut local.pair, &entry);
    std::thread::sleep(Duration::from_millis(5));
    local.other.0.kill().unwrap();
    let completion = polled(&mut local.pair.send_completions);
    let failed = completion.event.failed().unwrap();
    // Killed before it had all, or told in time that it was too much.
    let syndromes = [Syndrome::TransportRetry, Syndrome::RemoteInvalidRequest];
    assert!(syndromes.contains(&failed.syndrome), "{failed:?}");
}
