//! HCAs of two processes: this test's, and another one that runs this binary again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Access, Endpoint, Hca, Patience, QueuePair, Region, Request};
use gdsync::wire::{Completion, Entry, Operation, RemoteAddress, Syndrome};
use gdsync::{Home, Place};
use gpu::Stream;

use super::lane::{PATIENCE, Registered, bytes, polled, supply, until};

/// Where the other process finds the two sockets.
const MEETING: &str = "GDSYNC_TEST_MEETING";
const MEMORY: usize = 4096;
const OPTIONS: socket::Options = socket::Options {
    patience: PATIENCE,
    room: 1 << 30,
};

/// What the two say to each other in lines, beside the HCAs.
struct Lines(BufReader<UnixStream>);

impl Lines {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
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
    let supply = supply();
    let hca = SimHca::with_lid(supply.clone(), 2).unwrap();
    let stream = UnixStream::connect(meeting.join("messages")).unwrap();
    let joined = socket::join(&hca, stream, OPTIONS).unwrap();
    let mut pair = hca.create(&Request::default()).unwrap();
    let memory = Registered::new(&hca, &supply, Home::Gpu, &[2; MEMORY]);
    for part in 0..3 {
        let to = memory.region.segment(2048 + part * 64, 64);
        pair.receive.post(&[to]).unwrap();
    }
    let near: Endpoint = lines.hear().parse().unwrap();
    hca.connect(pair.endpoint, near, Patience::default()).unwrap();
    lines.say(&pair.endpoint.to_string());
    let remote = memory.region.remote(0);
    lines.say(&format!("{} {}", remote.address, remote.key));
    for _ in 0..3 {
        let Completion { event, bytes, .. } = polled(&mut pair.receive_completions);
        lines.say(&format!("{event:?} of {bytes}"));
    }
    assert_eq!(lines.hear(), "what is there");
    let hex: String = bytes(&memory.place).iter().map(|byte| format!("{byte:02x}")).collect();
    lines.say(&hex);
    assert_eq!(lines.hear(), "now you");
    let entry = Entry::send(&[memory.region.segment(0, 16)]).signalled();
    pair.send.prepare(&entry).unwrap().ring().unwrap();
    assert!(polled(&mut pair.send_completions).event.failed().is_none());
    assert!(joined.ended().is_none() && hca.violations().is_empty());
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
struct Near {
    other: Killed,
    lines: Lines,
    hca: SimHca,
    joined: socket::Joined,
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

fn near() -> Near {
    let meeting = tempfile::tempdir().unwrap();
    let listeners = ["lines", "messages"].map(|name| UnixListener::bind(meeting.path().join(name)).unwrap());
    let mut other = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args(["process::far_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(MEETING, meeting.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = Lines::new(accepted(&listeners[0], &mut other.0));
    let messages = accepted(&listeners[1], &mut other.0);
    let supply = supply();
    let hca = SimHca::with_lid(supply.clone(), 1).unwrap();
    let joined = socket::join(&hca, messages, OPTIONS).unwrap();
    let pair = hca.create(&Request::default()).unwrap();
    let memory = Registered::new(
        &hca,
        &supply,
        Home::Gpu,
        &(0..MEMORY).map(|at| at as u8).collect::<Vec<_>>(),
    );
    lines.say(&pair.endpoint.to_string());
    let far: Endpoint = lines.hear().parse().unwrap();
    assert_eq!(far.lid, 2);
    hca.connect(pair.endpoint, far, Patience::default()).unwrap();
    let there = lines.hear();
    let (address, key) = there.split_once(' ').unwrap();
    let there = RemoteAddress {
        address: address.parse().unwrap(),
        key: key.parse().unwrap(),
    };
    Near {
        stream: supply.gpu().stream().unwrap(),
        other,
        lines,
        hca,
        joined,
        pair,
        memory,
        there,
        _meeting: meeting,
    }
}

impl Near {
    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.there.address + offset,
            ..self.there
        }
    }

    /// A stream rings and waits; the completion.
    fn does(&mut self, entry: Entry) -> Completion {
        let prepared = self.pair.send.prepare(&entry.signalled()).unwrap();
        let wait = self.pair.send_completions.take_wait().unwrap();
        self.stream.batch(&prepared.operations().unwrap()).unwrap();
        self.stream.batch(&wait.operations(false).unwrap()).unwrap();
        self.stream.synchronize_within(PATIENCE).unwrap();
        let completion = self.pair.send_completions.poll().unwrap().unwrap();
        self.pair.send.complete(&completion).unwrap();
        completion
    }
}

#[test]
fn every_operation_between_two_processes_is_what_it_says() {
    let mut near = near();
    let from = |near: &Near, offset, length| near.memory.region.segment(offset, length);
    let well = |completion: Completion| assert!(completion.event.failed().is_none(), "{completion:?}");

    well(near.does(Entry::send(&[from(&near, 10, 5)])));
    assert_eq!(near.lines.hear(), "Received of 5");
    well(near.does(Entry::send(&[from(&near, 20, 6)]).immediate(0xdead_beef)));
    assert_eq!(near.lines.hear(), "ReceivedImmediate { immediate: 3735928559 } of 6");
    well(near.does(Entry::write(near.remote(256), &[from(&near, 30, 40)])));
    well(near.does(Entry::write(near.remote(512), &[from(&near, 70, 3)]).immediate(7)));
    assert_eq!(near.lines.hear(), "Written { immediate: 7 } of 3");
    // What was written is read back, from one byte before it.
    let read = near.does(Entry::read(near.remote(255), &[from(&near, 1024, 42)]));
    assert_eq!(read.bytes, 42);
    let found = bytes(&near.memory.place)[1024..1066].to_vec();
    assert_eq!(found, [vec![2], (30..70).collect(), vec![2]].concat());
    // 0x0202020202020202 is there: added to, and then swapped for what it is then.
    let word = |near: &Near, offset: usize| {
        let bytes = bytes(&near.memory.place);
        u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
    };
    let remote = near.remote(768);
    let add = Operation::FetchAdd { remote, add: 5 };
    well(near.does(Entry::new(add, &[from(&near, 1200, 8)])));
    assert_eq!(word(&near, 1200), 0x0202_0202_0202_0202);
    let swap = Operation::CompareSwap {
        remote,
        compare: 0x0202_0202_0202_0207,
        swap: 0x1112_1314_1516_1718,
    };
    well(near.does(Entry::new(swap, &[from(&near, 1200, 8)])));
    assert_eq!(word(&near, 1200), 0x0202_0202_0202_0207);

    near.lines.say("what is there");
    let hex = near.lines.hear();
    let mut expected = vec![2_u8; MEMORY];
    expected[2048..2053].copy_from_slice(&[10, 11, 12, 13, 14]);
    expected[2112..2118].copy_from_slice(&[20, 21, 22, 23, 24, 25]);
    expected[256..296].copy_from_slice(&(30..70).collect::<Vec<u8>>());
    expected[512..515].copy_from_slice(&[70, 71, 72]);
    expected[768..776].copy_from_slice(&0x1112_1314_1516_1718_u64.to_ne_bytes());
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);

    let to = near.memory.region.segment(3000, 16);
    near.pair.receive.post(&[to]).unwrap();
    near.lines.say("now you");
    let received = polled(&mut near.pair.receive_completions);
    assert_eq!(received.bytes, 16);
    assert_eq!(bytes(&near.memory.place)[3000..3016], [2; 16]);
    assert_eq!(near.lines.hear(), "sent");
    near.lines.say("end");
    assert!(near.other.0.wait().unwrap().success());
    assert!(matches!(
        *until("the link's end", || near.joined.ended()),
        socket::Error::Closed
    ));
}

#[test]
fn memory_of_the_other_process_that_is_not_registered_is_refused() {
    let mut near = near();
    let nowhere = near.remote(MEMORY as u64);
    let completion = near.does(Entry::write(nowhere, &[]).inline(b"no"));
    assert_eq!(completion.event.failed().unwrap().syndrome, Syndrome::RemoteAccess);
    assert!(near.joined.ended().is_none());
}

#[test]
fn a_process_that_is_killed_leaves_no_stream_behind() {
    for delay in [0, 1, 5] {
        let mut near = near();
        // All that is posted there is taken, and what comes then is asked again and again.
        let posted = 3;
        let mut operations = Vec::new();
        for _ in 0..posted + 2 {
            let prepared = near.pair.send.prepare(&Entry::send(&[]).inline(&[7]).signalled());
            operations.extend(prepared.unwrap().operations().unwrap());
            let wait = near.pair.send_completions.take_wait().unwrap();
            operations.extend(wait.operations(false).unwrap());
        }
        near.stream.batch(&operations).unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        near.other.0.kill().unwrap();
        near.stream.synchronize_within(PATIENCE).unwrap();
        let mut syndromes = Vec::new();
        while let Some(completion) = near.pair.send_completions.poll().unwrap() {
            syndromes.extend(completion.event.failed().map(|failed| failed.syndrome));
        }
        // The first of them met nobody, and took the others with it.
        assert_eq!(syndromes.first(), Some(&Syndrome::TransportRetry), "{syndromes:?}");
        assert!(syndromes[1..].iter().all(|syndrome| *syndrome == Syndrome::Flushed));
        assert!(near.joined.ended().is_some());
    }
}

#[test]
fn a_process_that_is_killed_while_much_is_under_way_ends_what_is() {
    const BYTES: u32 = 64 << 20;
    let mut near = near();
    let place: Place = supply().place(Home::Host, BYTES as usize).unwrap();
    let region: Region = near.hca.register(&place, Access::ALL).unwrap();
    // It has not the room, but learns that from all of it.
    let entry = Entry::send(&[region.segment(0, BYTES)]).signalled();
    near.pair.send.prepare(&entry).unwrap().ring().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    near.other.0.kill().unwrap();
    let completion = polled(&mut near.pair.send_completions);
    let failed = completion.event.failed().unwrap();
    // Killed before it had all, or told in time that it was too much.
    let syndromes = [Syndrome::TransportRetry, Syndrome::RemoteInvalidRequest];
    assert!(syndromes.contains(&failed.syndrome), "{failed:?}");
}
