//! Errors complete with a NIC's syndromes, in the order of the work, and break both queue pairs. No stream waits forever.

use std::time::Duration;

use gdsync::hca::{Access, RetryPolicy};
use gdsync::wire::{DataSegment, Event, Operation, RemoteAddress, Wqe};

use super::{Side, failure};

/// Connects two new sides of an HCA, with small queues.
pub type Connect<'a> = &'a dyn Fn(RetryPolicy) -> (Side, Side);

/// Syndromes of mlx5dv.h.
const LOCAL_LENGTH: u8 = 0x01;
const LOCAL_PROTECTION: u8 = 0x04;
const FLUSHED: u8 = 0x05;
const INVALID_REQUEST: u8 = 0x12;
const REMOTE_ACCESS: u8 = 0x13;
const NOT_READY: u8 = 0x16;

/// A key of no region.
const NO_KEY: u32 = 0x0bad_0bad;

fn pair(connect: Connect<'_>) -> (Side, Side) {
    connect(RetryPolicy::default())
}

/// True if the WQE succeeds.
fn succeeds(local: &mut Side, entry: Wqe) -> bool {
    local.sent(&entry.signalled()).event.failed().is_none()
}

/// The syndrome of a WQE that fails, signalled or not.
fn syndrome(local: &mut Side, entry: &Wqe) -> u8 {
    failure(&local.sent(entry)).0
}

/// Segments outside of their region end a stream's waits in order: what is before succeeds, what is behind is flushed.
pub fn local_memory(connect: Connect<'_>) {
    let wrong: [fn(&Side) -> DataSegment; 6] = [
        |side| DataSegment { key: NO_KEY, ..side.at(0, 8) },
        // Across the end, and after it.
        |side| side.at(8185, 8),
        |side| side.at(8192, 1),
        |side| DataSegment { address: side.region.address - 1, ..side.at(0, 8) },
        |side| DataSegment { address: 0x1000, ..side.at(0, 8) },
        |side| DataSegment { address: u64::MAX, ..side.at(0, 8) },
    ];
    for (wrong, make) in wrong
        .into_iter()
        .flat_map(|wrong| [(wrong, Wqe::write as fn(_, &[_]) -> _), (wrong, Wqe::read)])
    {
        let (mut local, peer) = pair(connect);
        // One doorbell for all three: the last one is valid but not executed.
        let entries = [
            Wqe::write(peer.region.remote(0), &[local.at(0, 8)]).signalled(),
            make(peer.region.remote(0), &[local.at(0, 8), wrong(&local)]),
            Wqe::write(peer.region.remote(64), &[]).inline(b"behind"),
        ];
        let [good, bad, behind] = entries.map(|entry| local.pair.send.prepare(&entry).unwrap());
        let (good, bad) = (good.counter(), bad.counter());
        local.stream.batch(&behind.operations().unwrap()).unwrap();
        for _ in 0..3 {
            local.wait_sent();
        }
        local.synchronize();
        let (first, second) = (local.next_sent(), local.next_sent());
        assert_eq!((first.counter, first.event), (good, Event::Sent { opcode: 8 }));
        assert_eq!((second.counter, failure(&second).0), (bad, LOCAL_PROTECTION));
        assert_eq!(local.next_failed().0, FLUSHED);
        assert_eq!(peer.seen(64, 6), [0; 6]);
    }
}

/// Memory that is registered for reading alone is not written, and a region that is gone not even read.
pub fn local_access(connect: Connect<'_>) {
    let (mut local, peer) = pair(connect);
    let only_read = local.hca.register(&local.memory, Access::NONE).unwrap();
    let piece = only_read.segment(0, 8);
    assert!(succeeds(&mut local, Wqe::write(peer.region.remote(0), &[piece])));
    let read = Wqe::read(peer.region.remote(0), &[piece]);
    assert_eq!(syndrome(&mut local, &read), LOCAL_PROTECTION);
    let (mut local, peer) = pair(connect);
    let gone = local.hca.register(&local.memory, Access::ALL).unwrap();
    let piece = gone.segment(0, 8);
    drop(gone);
    let write = Wqe::write(peer.region.remote(0), &[piece]);
    assert_eq!(syndrome(&mut local, &write), LOCAL_PROTECTION);
}

/// Remote memory is accessed within its region, with the rights that it has.
pub fn remote_access(connect: Connect<'_>) {
    let all = Access::ALL;
    let rights = [
        Access { remote_write: false, ..all },
        Access { remote_read: false, ..all },
        Access { remote_atomic: false, ..all },
    ];
    let part = |side: &Side, access| {
        let memory = side.memory.part(1024, 64).unwrap();
        side.hca.register(&memory, access).unwrap()
    };
    for (missing, access) in rights.into_iter().enumerate() {
        for operation in 0..3 {
            let (mut local, peer) = pair(connect);
            let region = part(&peer, access);
            let (piece, remote) = ([local.at(0, 8)], region.remote(8));
            let entry = match operation {
                0 => Wqe::write(remote, &piece),
                1 => Wqe::read(remote, &piece),
                _ => Wqe::new(Operation::FetchAdd { remote, add: 1 }, &piece),
            };
            if operation == missing {
                assert_eq!(syndrome(&mut local, &entry), REMOTE_ACCESS)
            } else {
                assert!(succeeds(&mut local, entry), "{operation} of {missing}")
            }
        }
    }
    let outside: [fn(RemoteAddress) -> RemoteAddress; 4] = [
        |remote| RemoteAddress { address: remote.address + 57, ..remote },
        |remote| RemoteAddress { address: remote.address - 1, ..remote },
        |remote| RemoteAddress { address: u64::MAX - 3, ..remote },
        |remote| RemoteAddress { key: NO_KEY, ..remote },
    ];
    for outside in outside {
        let (mut local, mut peer) = pair(connect);
        let region = part(&peer, all);
        let write = |remote| Wqe::write(remote, &[]).inline(b"8 bytes.");
        assert!(succeeds(&mut local, write(region.remote(56))));
        assert_eq!(peer.seen(1080, 8), b"8 bytes.");
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        let beyond = write(outside(region.remote(0)));
        assert_eq!(syndrome(&mut local, &beyond), REMOTE_ACCESS);
        // The remote queue pair fails too.
        peer.wait_received();
        peer.synchronize();
        assert_eq!(failure(&peer.next_received()).0, FLUSHED);
    }
    let (mut local, peer) = pair(connect);
    let gone = part(&peer, all);
    let write = Wqe::write(gone.remote(0), &[]).inline(&[0]);
    drop(gone);
    assert_eq!(syndrome(&mut local, &write), REMOTE_ACCESS);
}

/// A message that is longer than its receive, and an atomic operation that is not aligned.
pub fn invalid_requests(connect: Connect<'_>) {
    let (mut local, mut peer) = pair(connect);
    for _ in 0..2 {
        peer.pair.receive.post(&[peer.at(0, 4)]).unwrap();
    }
    let send = Wqe::send(&[]).inline(b"five!");
    assert_eq!(syndrome(&mut local, &send), INVALID_REQUEST);
    assert_eq!(failure(&peer.next_received()).0, LOCAL_LENGTH);
    assert_eq!(failure(&peer.next_received()).0, FLUSHED);
    assert_eq!(peer.seen(0, 8), [0; 8]);
    let (mut local, peer) = pair(connect);
    let remote = peer.region.remote(4);
    let add = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[local.at(0, 8)]);
    assert_eq!(syndrome(&mut local, &add), INVALID_REQUEST);
}

/// Without a receive the retries run out, and nothing is written before there is one.
pub fn retries(connect: Connect<'_>) {
    let policy = RetryPolicy { retries: Some(3), pause: Duration::from_micros(10) };
    let (mut local, _peer) = connect(policy);
    assert_eq!(syndrome(&mut local, &Wqe::send(&[]).inline(b"x")), NOT_READY);
    let (mut local, peer) = connect(policy);
    let write = Wqe::write(peer.region.remote(0), &[]).inline(&[1]).immediate(1);
    assert_eq!(syndrome(&mut local, &write), NOT_READY);
    assert_eq!(peer.seen(0, 1), [0]);
}

/// All of them.
pub fn all(connect: Connect<'_>) {
    local_memory(connect);
    local_access(connect);
    remote_access(connect);
    invalid_requests(connect);
    retries(connect);
}
