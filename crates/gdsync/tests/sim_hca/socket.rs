//! HCAs linked over a socket: two valid ones, and a remote side with hand-written messages.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Endpoint, Hca, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Syndrome, Wqe};
use gdsync::{Error, MemoryLocation};
use socket::{Connection, Options};

use super::lane::{Registered, TIMEOUT, allocator, bytes, exchange, polled, ring, until};

/// Options with a timeout that tests do not reach.
const LONG: Options = Options { timeout: TIMEOUT, room: 256 << 20, spin: Duration::ZERO };

struct Side {
    connection: Connection,
    hca: SimHca,
    pair: QueuePair,
    memory: Registered,
}

fn side(lid: u16, stream: UnixStream, options: Options) -> Side {
    let allocator = allocator();
    let hca = SimHca::with_lid(allocator.clone(), lid).unwrap();
    Side {
        connection: socket::join(&hca, stream, options).unwrap(),
        pair: hca.create(&Request::default()).unwrap(),
        memory: Registered::new(&hca, &allocator, MemoryLocation::Gpu, &[lid as u8; 4096]),
        hca,
    }
}

fn sides(options: Options) -> [Side; 2] {
    let (local, peer) = UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || side(2, peer, options));
    let sides = [side(1, local, options), other.join().unwrap()];
    let ends = sides.each_ref().map(|side| side.pair.endpoint);
    for (side, peer) in sides.iter().zip([ends[1], ends[0]]) {
        side.hca.connect(side.pair.endpoint, peer, RetryPolicy::default()).unwrap();
    }
    sides
}

/// A side whose peer is this test, with LID 2 and queue pair 0x77.
fn by_hand(options: Options) -> (Side, UnixStream) {
    let (local, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"gdr-sim\n\x00\x02\x00\x02").unwrap();
    let side = side(1, local, options);
    let mut hello = [0; 12];
    peer.read_exact(&mut hello).unwrap();
    assert_eq!(hello, *b"gdr-sim\n\x00\x02\x00\x01");
    let there = Endpoint::new(2, 0x77);
    side.hca.connect(side.pair.endpoint, there, RetryPolicy::default()).unwrap();
    (side, peer)
}

fn send(pair: &mut QueuePair, payload: &[u8]) {
    let entry = Wqe::send(&[]).inline(payload).signalled();
    ring(pair, &entry);
}

fn fails(pair: &mut QueuePair, syndrome: Syndrome) {
    let completion = polled(&mut pair.send_completions);
    assert_eq!(completion.event.failed().unwrap().syndrome, syndrome);
}

fn ended(connection: &Connection) -> Arc<socket::Error> {
    until("the link's end", || connection.ended())
}

#[test]
fn streams_exchange_messages() {
    let [mut one, mut two] = sides(LONG);
    let (local, peer) = (allocator(), allocator());
    let streams = [local.gpu().stream().unwrap(), peer.gpu().stream().unwrap()];
    let ends = [(&mut one.pair, &one.memory), (&mut two.pair, &two.memory)];
    exchange(&streams, ends, 50);
    assert!(one.connection.ended().is_none() && two.connection.ended().is_none());
    assert!(one.hca.violations().is_empty() && two.hca.violations().is_empty());
}

#[test]
fn transfers_large_messages() {
    // More than a socket buffer, and several read chunks.
    const BYTES: usize = (5 << 20) + 3;
    let [mut one, two] = sides(LONG);
    let allocator = allocator();
    let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let from = Registered::new(&one.hca, &allocator, MemoryLocation::Host, &sent);
    let to = Registered::new(&two.hca, &allocator, MemoryLocation::Host, &vec![0xff; BYTES]);
    let segment = from.region.segment(0, BYTES as u32);
    let write = Wqe::write(to.region.remote(0), &[segment]).signalled();
    ring(&mut one.pair, &write);
    polled(&mut one.pair.send_completions);
    assert!(bytes(&to.place) == sent);
    from.place.write(0, &vec![0; BYTES]).unwrap();
    let read = Wqe::read(to.region.remote(0), &[segment]).signalled();
    ring(&mut one.pair, &read);
    let completion = polled(&mut one.pair.send_completions);
    assert_eq!(completion.bytes as usize, BYTES);
    assert!(bytes(&from.place) == sent);
}

#[test]
fn dropped_peer_fails_requests() {
    for which in 0..3 {
        let [mut one, two] = sides(LONG);
        // No receive is posted, so it is retried.
        send(&mut one.pair, b"1");
        let Side { connection, hca, pair, .. } = two;
        match which {
            0 => drop(connection),
            // Its link remains and answers.
            1 => drop(hca),
            _ => drop(pair),
        }
        fails(&mut one.pair, Syndrome::TransportRetry);
        if which == 0 {
            assert!(matches!(*ended(&one.connection), socket::Error::Closed));
            let gone = one.hca.create(&Request::default()).unwrap();
            // The LID stays reachable until the local connection is dropped.
            let there = Endpoint::new(2, 0x100);
            one.hca.connect(gone.endpoint, there, RetryPolicy::default()).unwrap();
            drop(one.connection);
            let refused = one.hca.connect(gone.endpoint, there, RetryPolicy::default());
            assert!(matches!(refused, Err(Error::Unreachable { lid: 2 })), "{refused:?}");
        }
    }
}

#[test]
fn drop_answers_finished_requests() {
    for _ in 0..20 {
        let [mut one, mut two] = sides(LONG);
        two.pair.receive.post(&[two.memory.region.segment(0, 64)]).unwrap();
        send(&mut one.pair, b"once");
        polled(&mut two.pair.receive_completions);
        drop(two);
        let completion = polled(&mut one.pair.send_completions);
        assert!(completion.event.failed().is_none(), "{completion:?}");
    }
}

#[test]
fn links_again_after_drop() {
    let [one, two] = sides(LONG);
    let (Side { connection, hca, .. }, other) = (one, two.hca);
    drop((connection, two.connection));
    let (local, peer) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || (socket::join(&other, peer, LONG).unwrap(), other));
    let again = socket::join(&hca, local, LONG).unwrap();
    let (_there, _other) = thread.join().unwrap();
    assert!(again.ended().is_none());
}

#[test]
fn rejects_duplicate_lids() {
    let (local, peer) = UnixStream::pair().unwrap();
    let join = |lid, stream| {
        let hca = SimHca::with_lid(allocator(), lid).unwrap();
        socket::join(&hca, stream, LONG).map(|_| ())
    };
    let other = std::thread::spawn(move || join(7, peer));
    for refused in [join(7, local), other.join().unwrap()] {
        let error = refused.unwrap_err();
        assert!(matches!(error, socket::Error::SameLid { lid: 7 }), "{error:?}");
        assert!(error.to_string().contains("SimHca::with_lid"), "{error}");
    }

    let hca = SimHca::with_lid(allocator(), 1).unwrap();
    let third = SimHca::with_lid(allocator(), 9).unwrap();
    hca.join(&third);
    let (local, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"gdr-sim\n\x00\x02\x00\x09").unwrap();
    let refused = socket::join(&hca, local, LONG).unwrap_err();
    assert!(matches!(refused, socket::Error::Taken { lid: 9 }), "{refused:?}");
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"gdr-sim\n\x00\x02\x00\x01");
}

#[test]
fn rejects_invalid_hello() {
    let soon = Options { timeout: Duration::from_millis(50), ..LONG };
    let join = |input: &[u8], stays: bool, options| {
        let (local, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(input).unwrap();
        let peer = stays.then_some(peer);
        let hca = SimHca::with_lid(allocator(), 1).unwrap();
        let refused = socket::join(&hca, local, options).unwrap_err();
        drop(peer);
        gpu::sentence(&refused)
    };
    let http = join(b"HTTP/1.1 400", true, LONG);
    assert!(http.ends_with("its first bytes are HTTP/1.1"), "{http}");
    let version = join(b"gdr-sim\n\x00\x01\x00\x05", true, LONG);
    assert!(version.contains("has protocol version 1, this one 2"), "{version}");
    let half = join(b"gdr-si", true, soon);
    assert!(half.contains("sent no hello within 50 ms"), "{half}");
    // The write may fail before the end of the stream is read: the error is the same.
    let gone = join(b"", false, LONG);
    assert!(gone.contains("the remote HCA is gone"), "{gone}");
}

#[test]
fn silent_peer_ends_the_link() {
    let soon = Options { timeout: Duration::from_millis(100), ..LONG };
    let (mut side, peer) = by_hand(soon);
    // Without a request, silence is allowed.
    std::thread::sleep(Duration::from_millis(300));
    assert!(side.connection.ended().is_none());
    send(&mut side.pair, b"nobody answers");
    fails(&mut side.pair, Syndrome::TransportRetry);
    assert!(matches!(*ended(&side.connection), socket::Error::Silent(_)));
    drop(peer);

    let (mut side, peer) = by_hand(soon);
    let large = Registered::new(&side.hca, &allocator(), MemoryLocation::Host, &vec![1; 8 << 20]);
    let entry = Wqe::send(&[large.region.segment(0, 8 << 20)]).signalled();
    ring(&mut side.pair, &entry);
    fails(&mut side.pair, Syndrome::TransportRetry);
    assert!(matches!(*ended(&side.connection), socket::Error::NotRead(_)));
    drop(peer);
}

#[test]
fn retries_when_the_buffer_is_full() {
    let narrow = Options { room: 1000, ..LONG };
    let [one, two] = sides(narrow);
    let allocator = allocator();
    let from = Registered::new(&one.hca, &allocator, MemoryLocation::Host, &[5; 1 << 16]);
    let to = Registered::new(&two.hca, &allocator, MemoryLocation::Host, &[0; 8 << 16]);
    let mut pairs: Vec<(QueuePair, QueuePair)> = Vec::new();
    for _ in 0..8 {
        let request = Request::default();
        let (local, peer) = (one.hca.create(&request).unwrap(), two.hca.create(&request).unwrap());
        let timeout = RetryPolicy::default();
        one.hca.connect(local.endpoint, peer.endpoint, timeout).unwrap();
        two.hca.connect(peer.endpoint, local.endpoint, timeout).unwrap();
        pairs.push((local, peer));
    }
    for (number, (local, _)) in (0..).zip(&mut pairs) {
        for _ in 0..4 {
            let segment = from.region.segment(0, 1 << 16);
            let entry = Wqe::write(to.region.remote(number << 16), &[segment]).signalled();
            ring(local, &entry);
        }
    }
    for (local, _) in &mut pairs {
        for _ in 0..4 {
            let completion = polled(&mut local.send_completions);
            assert!(completion.event.failed().is_none(), "{completion:?}");
        }
    }
    assert!(bytes(&to.place) == vec![5; 8 << 16]);
}

/// A head from queue pair 0x77 to 0x100, with other bytes at these offsets.
fn head(kind: u8, sequence: u8, more: &[(usize, u8)]) -> [u8; 64] {
    let mut head = [0; 64];
    (head[0], head[7], head[10], head[23]) = (kind, 0x77, 0x01, sequence);
    for (at, byte) in more {
        head[*at] = *byte;
    }
    head
}

/// Reads a head from the HCA.
fn read_head(peer: &mut UnixStream) -> [u8; 64] {
    let mut head = [0; 64];
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    peer.read_exact(&mut head).unwrap();
    head
}

#[test]
fn messages_match_literal_bytes() {
    let (mut side, mut peer) = by_hand(LONG);
    assert_eq!(side.pair.endpoint.qpn, 0x100);
    send(&mut side.pair, b"hi");
    let request = read_head(&mut peer);
    let mut expected = [0; 64];
    (expected[0], expected[6], expected[11], expected[23], expected[63]) = (1, 1, 0x77, 1, 2);
    assert_eq!(request, expected);
    let mut payload = [0; 2];
    peer.read_exact(&mut payload).unwrap();
    assert_eq!(payload, *b"hi");
    peer.write_all(&head(16, 1, &[])).unwrap();
    let done = polled(&mut side.pair.send_completions);
    assert!(done.event.failed().is_none());

    // The reverse direction: write, then read the same bytes.
    let remote = side.memory.region.remote(16);
    let mut write = head(2, 9, &[(63, 3)]);
    write[24..32].copy_from_slice(&remote.address.to_be_bytes());
    write[32..36].copy_from_slice(&remote.key.to_be_bytes());
    peer.write_all(&write).unwrap();
    peer.write_all(b"abc").unwrap();
    let answer = read_head(&mut peer);
    assert_eq!((answer[0], answer[6], answer[11], answer[23]), (16, 1, 0x77, 9));
    assert_eq!(bytes(&side.memory.place)[15..20], *b"\x01abc\x01");
    let mut read = write;
    (read[0], read[23], read[47], read[63]) = (3, 10, 4, 0);
    peer.write_all(&read).unwrap();
    let answer = read_head(&mut peer);
    assert_eq!((answer[0], answer[23], answer[63]), (16, 10, 4));
    let mut payload = [0; 4];
    peer.read_exact(&mut payload).unwrap();
    assert_eq!(payload, *b"abc\x01");
    // An unknown key is an error of the request, not of the link.
    (read[23], read[35]) = (11, read[35] ^ 1);
    peer.write_all(&read).unwrap();
    let answer = read_head(&mut peer);
    assert_eq!((answer[0], answer[2], answer[23]), (18, 2, 11));
    assert!(side.connection.ended().is_none());
}

/// Invalid messages: name, bytes, expected text of the error.
fn wrong_messages() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let one = |head: [u8; 64]| head.to_vec();
    vec![
        (
            "nonsense",
            vec![0x20; 64],
            "malformed message from the remote HCA at byte 0: invalid byte 56 (0x20)",
        ),
        ("unknown kind", one(head(99, 1, &[])), "invalid byte 0 (0x63): unknown kind of message"),
        ("truncated head", vec![1; 10], "at byte 0: 54 bytes are missing"),
        (
            "truncated payload",
            [one(head(17, 1, &[])), one(head(1, 5, &[(60, 0x40)])), vec![0; 6]].concat(),
            "at byte 64: 1073741818 bytes are missing",
        ),
        (
            "answer without request",
            one(head(16, 2, &[])),
            "queue pair 0x77, request 2: answer without a matching request",
        ),
        (
            "answer of another queue pair",
            one(head(16, 1, &[(7, 0x78)])),
            "queue pair 0x78, request 1: answer from an unexpected queue pair",
        ),
        ("answer too long", one(head(16, 1, &[(63, 1)])), "answer longer than requested"),
        (
            "duplicate request",
            // Sent together, so that the second usually arrives before the first is answered.
            [one(head(5, 3, &[])), one(head(5, 3, &[]))].concat(),
            "duplicate number of an unanswered request",
        ),
        ("end of stream", Vec::new(), "the remote HCA is gone"),
    ]
}

#[test]
fn invalid_message_ends_the_link() {
    for (what, input, words) in wrong_messages() {
        let (mut side, mut peer) = by_hand(LONG);
        send(&mut side.pair, b"hello");
        read_head(&mut peer);
        let mut payload = [0; 5];
        peer.read_exact(&mut payload).unwrap();
        peer.write_all(&input).unwrap();
        drop(peer);
        let why = gpu::sentence(&*ended(&side.connection));
        if what == "duplicate request" && !why.contains(words) {
            // The first was answered before the second was read.
            assert!(why.contains("the remote HCA is gone"), "{why}");
        } else {
            assert!(why.contains(words), "{what}: {why}");
        }
        let completion = polled(&mut side.pair.send_completions);
        assert!(completion.event.failed().is_some(), "{what}");
        // The HCA still works.
        let mut own = side.hca.create(&Request::default()).unwrap();
        let timeout = RetryPolicy::default();
        side.hca.connect(own.endpoint, own.endpoint, timeout).unwrap();
        own.receive.post(&[side.memory.region.segment(0, 64)]).unwrap();
        send(&mut own, b"well");
        assert!(polled(&mut own.send_completions).event.failed().is_none());
    }
}

#[test]
#[ignore = "needs root"]
fn rejects_another_user() {
    let nobody = rustix::process::Uid::from_raw(65_534);
    // The peer credentials of a socket pair are those of its creator: here a thread of user nobody.
    let (local, _peer) = std::thread::spawn(move || {
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        UnixStream::pair().unwrap()
    })
    .join()
    .unwrap();
    let hca = SimHca::with_lid(allocator(), 1).unwrap();
    match socket::join(&hca, local, LONG) {
        Err(socket::Error::OtherUser { local: 0, peer: 65_534 }) => {}
        other => panic!("{other:?}"),
    }
}
