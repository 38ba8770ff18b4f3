//! HCAs of two processes: this test and a child that runs the same binary.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Completion, Operation, RemoteAddress, Syndrome, Wqe};
use gdsync::{MappedMemory, MemoryLocation};
use gpu::Stream;

use super::lane::{Registered, TIMEOUT, allocator, bytes, polled, ring, until};

/// Environment variable with the directory of the two sockets.
const SOCKETS: &str = "GDSYNC_TEST_SOCKETS";
const MEMORY: usize = 4096;
const OPTIONS: socket::Options =
    socket::Options { timeout: TIMEOUT, room: 1 << 30, spin: Duration::from_micros(50) };

/// A text channel between the processes, beside the HCAs' socket.
struct Lines(BufReader<UnixStream>);

impl Lines {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the child process ended");
        line.trim_end().to_owned()
    }
}

/// The child's side. Does nothing in a normal test run.
#[test]
fn child_process() {
    let Some(directory) = std::env::var_os(SOCKETS) else {
        return;
    };
    let directory = Path::new(&directory);
    let mut lines = Lines::new(UnixStream::connect(directory.join("lines")).unwrap());
    let allocator = allocator();
    let hca = SimHca::with_lid(allocator.clone(), 2).unwrap();
    let stream = UnixStream::connect(directory.join("messages")).unwrap();
    let connection = socket::join(&hca, stream, OPTIONS).unwrap();
    let mut pair = hca.create(&Request::default()).unwrap();
    let memory = Registered::new(&hca, &allocator, MemoryLocation::Gpu, &[2; MEMORY]);
    for part in 0..3 {
        let to = memory.region.segment(2048 + part * 64, 64);
        pair.receive.post(&[to]).unwrap();
    }
    let local: Endpoint = lines.receive().parse().unwrap();
    hca.connect(pair.endpoint, local, RetryPolicy::default()).unwrap();
    lines.send(&pair.endpoint.to_string());
    let remote = memory.region.remote(0);
    lines.send(&format!("{} {}", remote.address, remote.key));
    for _ in 0..3 {
        let Completion { event, bytes, .. } = polled(&mut pair.receive_completions);
        lines.send(&format!("{event:?} of {bytes}"));
    }
    assert_eq!(lines.receive(), "dump");
    let hex: String = bytes(&memory.place).iter().map(|byte| format!("{byte:02x}")).collect();
    lines.send(&hex);
    assert_eq!(lines.receive(), "reply");
    let entry = Wqe::send(&[memory.region.segment(0, 16)]).signalled();
    ring(&mut pair, &entry);
    assert!(polled(&mut pair.send_completions).event.failed().is_none());
    assert!(connection.ended().is_none() && hca.violations().is_empty());
    lines.send("sent");
    // Wait for a line or the kill.
    lines.receive();
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This process's side, connected to the child's.
struct LocalEnd {
    child: KillOnDrop,
    lines: Lines,
    hca: SimHca,
    connection: socket::Connection,
    pair: QueuePair,
    memory: Registered,
    stream: Stream,
    remote_memory: RemoteAddress,
    _directory: tempfile::TempDir,
}

fn accepted(listener: &UnixListener, child: &mut Child) -> UnixStream {
    listener.set_nonblocking(true).unwrap();
    let stream = until("the child process", || {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the child process ended: {status}");
        }
        listener.accept().ok()
    });
    stream.0.set_nonblocking(false).unwrap();
    stream.0
}

fn local() -> LocalEnd {
    let directory = tempfile::tempdir().unwrap();
    let listeners =
        ["lines", "messages"].map(|name| UnixListener::bind(directory.path().join(name)).unwrap());
    let mut child = KillOnDrop(
        Command::new(std::env::current_exe().unwrap())
            .args(["process::child_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(SOCKETS, directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = Lines::new(accepted(&listeners[0], &mut child.0));
    let messages = accepted(&listeners[1], &mut child.0);
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
    lines.send(&pair.endpoint.to_string());
    let peer: Endpoint = lines.receive().parse().unwrap();
    assert_eq!(peer.lid, 2);
    hca.connect(pair.endpoint, peer, RetryPolicy::default()).unwrap();
    let remote_memory = lines.receive();
    let (address, key) = remote_memory.split_once(' ').unwrap();
    let remote_memory =
        RemoteAddress { address: address.parse().unwrap(), key: key.parse().unwrap() };
    LocalEnd {
        stream: allocator.gpu().stream().unwrap(),
        child,
        lines,
        hca,
        connection,
        pair,
        memory,
        remote_memory,
        _directory: directory,
    }
}

impl LocalEnd {
    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.remote_memory.address + offset, ..self.remote_memory }
    }

    /// Rings and waits by a stream, and returns the completion.
    fn execute(&mut self, entry: Wqe) -> Completion {
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
fn every_operation_between_processes() {
    let mut local = local();
    let from = |local: &LocalEnd, offset, length| local.memory.region.segment(offset, length);
    let expect_success =
        |completion: Completion| assert!(completion.event.failed().is_none(), "{completion:?}");

    expect_success(local.execute(Wqe::send(&[from(&local, 10, 5)])));
    assert_eq!(local.lines.receive(), "Received of 5");
    expect_success(local.execute(Wqe::send(&[from(&local, 20, 6)]).immediate(0xdead_beef)));
    assert_eq!(local.lines.receive(), "ReceivedImmediate { immediate: 3735928559 } of 6");
    expect_success(local.execute(Wqe::write(local.remote(256), &[from(&local, 30, 40)])));
    expect_success(
        local.execute(Wqe::write(local.remote(512), &[from(&local, 70, 3)]).immediate(7)),
    );
    assert_eq!(local.lines.receive(), "Written { immediate: 7 } of 3");
    // Read it back, from one byte before it.
    let read = local.execute(Wqe::read(local.remote(255), &[from(&local, 1024, 42)]));
    assert_eq!(read.bytes, 42);
    let found = bytes(&local.memory.place)[1024..1066].to_vec();
    assert_eq!(found, [vec![2], (30..70).collect(), vec![2]].concat());
    // The word is 0x0202020202020202: add 5, then swap it.
    let word = |local: &LocalEnd, offset: usize| {
        let bytes = bytes(&local.memory.place);
        u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
    };
    let remote = local.remote(768);
    let add = Operation::FetchAdd { remote, add: 5 };
    expect_success(local.execute(Wqe::new(add, &[from(&local, 1200, 8)])));
    assert_eq!(word(&local, 1200), 0x0202_0202_0202_0202);
    let swap = Operation::CompareSwap {
        remote,
        compare: 0x0202_0202_0202_0207,
        swap: 0x1112_1314_1516_1718,
    };
    expect_success(local.execute(Wqe::new(swap, &[from(&local, 1200, 8)])));
    assert_eq!(word(&local, 1200), 0x0202_0202_0202_0207);

    local.lines.send("dump");
    let hex = local.lines.receive();
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
    local.lines.send("reply");
    let received = polled(&mut local.pair.receive_completions);
    assert_eq!(received.bytes, 16);
    assert_eq!(bytes(&local.memory.place)[3000..3016], [2; 16]);
    assert_eq!(local.lines.receive(), "sent");
    local.lines.send("end");
    assert!(local.child.0.wait().unwrap().success());
    assert!(matches!(*until("the link's end", || local.connection.ended()), socket::Error::Closed));
}

#[test]
fn rejects_unregistered_remote_memory() {
    let mut local = local();
    let nowhere = local.remote(MEMORY as u64);
    let completion = local.execute(Wqe::write(nowhere, &[]).inline(b"no"));
    assert_eq!(completion.event.failed().unwrap().syndrome, Syndrome::RemoteAccess);
    assert!(local.connection.ended().is_none());
}

#[test]
fn killed_peer_ends_stream_waits() {
    for delay in [0, 1, 5] {
        let mut local = local();
        // The child's receives are used up, so the last two sends are retried.
        let posted = 3;
        let mut operations = Vec::new();
        for _ in 0..posted + 2 {
            let prepared = local.pair.send.prepare(&Wqe::send(&[]).inline(&[7]).signalled());
            operations.extend(prepared.unwrap().operations().unwrap());
            let wait = local.pair.send_completions.take_wait().unwrap();
            operations.extend(wait.operations(false).unwrap());
        }
        local.stream.batch(&operations).unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        local.child.0.kill().unwrap();
        local.stream.synchronize_within(TIMEOUT).unwrap();
        let mut syndromes = Vec::new();
        while let Some(completion) = local.pair.send_completions.poll().unwrap() {
            syndromes.extend(completion.event.failed().map(|failed| failed.syndrome));
        }
        // The first one fails, the others are flushed.
        assert_eq!(syndromes.first(), Some(&Syndrome::TransportRetry), "{syndromes:?}");
        assert!(syndromes[1..].iter().all(|syndrome| *syndrome == Syndrome::Flushed));
        assert!(local.connection.ended().is_some());
    }
}

#[test]
fn killed_peer_fails_a_large_transfer() {
    const BYTES: u32 = 64 << 20;
    let mut local = local();
    let place: MappedMemory = allocator().place(MemoryLocation::Host, BYTES as usize).unwrap();
    let region: MemoryRegion = local.hca.register(&place, Access::ALL).unwrap();
    // The receive is too small, which the child detects after the whole message.
    let entry = Wqe::send(&[region.segment(0, BYTES)]).signalled();
    ring(&mut local.pair, &entry);
    std::thread::sleep(Duration::from_millis(5));
    local.child.0.kill().unwrap();
    let completion = polled(&mut local.pair.send_completions);
    let failed = completion.event.failed().unwrap();
    // Killed before or after it rejected the message.
    let syndromes = [Syndrome::TransportRetry, Syndrome::RemoteInvalidRequest];
    assert!(syndromes.contains(&failed.syndrome), "{failed:?}");
}
