//! Each syndrome, real or injected, ends a stream's wait and flushes the remaining work.

use std::time::Duration;

use gdsync::MemoryLocation;
use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Access, Hca, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Completion, DataSegment, Event, Operation, Syndrome, Wqe};

use super::lane::{Registered, TIMEOUT, allocator, bytes, polled, ring, rung, waited};

struct Two {
    allocator: gdsync::Allocator,
    hca: SimHca,
    local: QueuePair,
    peer: QueuePair,
    memory: Registered,
}

/// Two connected queue pairs of one HCA, with three fast RNR retries.
fn two() -> Two {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let [local, peer] = [0, 1].map(|_| hca.create(&Request::default()).unwrap());
    let timeout = RetryPolicy {
        retries: Some(3),
        pause: Duration::from_micros(10),
    };
    hca.connect(local.endpoint, peer.endpoint, timeout).unwrap();
    hca.connect(peer.endpoint, local.endpoint, timeout).unwrap();
    let memory = Registered::new(&hca, &allocator, MemoryLocation::Host, &[0x5a; 4096]);
    Two {
        allocator,
        hca,
        local,
        peer,
        memory,
    }
}

fn failed(completion: &Completion) -> (u8, u8) {
    match completion.event.failed() {
        Some(failed) => (failed.syndrome.code(), failed.vendor),
        None => panic!("{completion:?} is no failure"),
    }
}

/// The numbers of mlx5dv.h, and an unknown one.
const SYNDROMES: [u8; 14] = [
    0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77,
];

#[test]
fn send_errors_end_waits() {
    for (number, code) in SYNDROMES.into_iter().enumerate() {
        let mut two = two();
        let vendor = 0x80 + number as u8;
        let syndrome = Syndrome::of(code);
        two.hca
            .inject(two.local.send.qpn(), 2, Effect::Fail { syndrome, vendor });
        // Two succeed (the first unsignalled), an unsignalled one fails, two are flushed.
        let write = Wqe::write(two.memory.region.remote(0), &[]).inline(&[1]);
        let mut batch = Vec::new();
        for position in 0..5 {
            let entry = if position % 2 == 1 {
                write.clone().signalled()
            } else {
                write.clone()
            };
            batch.extend(rung(&mut two.local, &entry));
        }
        for _ in 0..4 {
            batch.extend(waited(&mut two.local.send_completions, false));
        }
        let stream = two.allocator.gpu().stream().unwrap();
        stream.batch(&batch).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();

        let completions: Vec<Completion> = (0..4)
            .map(|_| two.local.send_completions.poll().unwrap().unwrap())
            .collect();
        assert_eq!(
            (completions[0].event, completions[0].counter),
            (Event::Sent { opcode: 8 }, 1)
        );
        assert_eq!(completions[1].counter, 2);
        assert_eq!(failed(&completions[1]), (code, vendor));
        for (position, flushed) in completions[2..].iter().enumerate() {
            assert_eq!(
                (failed(flushed).0, flushed.counter),
                (0x05, position as u16 + 3)
            );
        }
        for completion in &completions {
            two.local.send.complete(completion).unwrap();
        }
        assert_eq!(two.local.send.pending(), 0);
    }
}

#[test]
fn receive_errors_end_waits() {
    for code in SYNDROMES {
        let mut two = two();
        let syndrome = Syndrome::of(code);
        let effect = Effect::FailReceive {
            syndrome,
            vendor: 0x99,
        };
        two.hca.inject(two.peer.send.qpn(), 0, effect);
        for _ in 0..2 {
            two.peer
                .receive
                .post(&[two.memory.region.segment(0, 64)])
                .unwrap();
        }
        let stream = two.allocator.gpu().stream().unwrap();
        let wait = two.peer.receive_completions.take_wait().unwrap();
        stream.batch(&wait.operations(false).unwrap()).unwrap();
        let send = Wqe::send(&[]).inline(&[1]);
        ring(&mut two.local, &send);
        stream.synchronize_within(TIMEOUT).unwrap();
        let completion = two.peer.receive_completions.poll().unwrap().unwrap();
        assert_eq!((failed(&completion), completion.counter), ((code, 0x99), 0));
        assert_eq!(two.peer.receive.complete(&completion).unwrap(), 0);
        // The other receive is flushed.
        let flushed = polled(&mut two.peer.receive_completions);
        assert_eq!((failed(&flushed).0, flushed.counter), (0x05, 1));
        // The sender gets a remote operation error.
        assert_eq!(failed(&polled(&mut two.local.send_completions)).0, 0x14);
        assert_eq!(bytes(&two.memory.place), [0x5a; 4096]);
    }
}

/// Posts a WQE and returns its syndrome.
fn syndrome_of(two: &mut Two, entry: &Wqe) -> u8 {
    ring(&mut two.local, entry);
    failed(&polled(&mut two.local.send_completions)).0
}

#[test]
fn checks_local_memory() {
    let readable = |two: &Two| {
        let place = two.allocator.place(MemoryLocation::Host, 64).unwrap();
        two.hca.register(&place, Access::NONE).unwrap()
    };
    type Wrong = fn(&Two) -> DataSegment;
    let cases: [(&str, Wrong); 4] = [
        ("unknown key", |_| DataSegment {
            length: 1,
            key: 0x55,
            address: 0,
        }),
        ("beyond its end", |two| two.memory.region.segment(4090, 7)),
        ("before its start", |two| {
            two.memory.region.segment(u64::MAX, 2)
        }),
        ("another region's key", |two| DataSegment {
            address: 0x1000,
            ..two.memory.region.segment(0, 8)
        }),
    ];
    for (what, segment) in cases {
        for reads in [false, true] {
            let mut two = two();
            let (segment, remote) = (segment(&two), two.memory.region.remote(0));
            let entry = if reads { Wqe::read } else { Wqe::write }(remote, &[segment]);
            assert_eq!(syndrome_of(&mut two, &entry), 0x04, "{what}, read: {reads}");
            assert_eq!(bytes(&two.memory.place), [0x5a; 4096]);
        }
    }
    // Memory without write access can be read.
    let mut two = two();
    let region = readable(&two);
    let write = Wqe::write(two.memory.region.remote(0), &[region.segment(0, 64)]).signalled();
    ring(&mut two.local, &write);
    assert!(
        polled(&mut two.local.send_completions)
            .event
            .failed()
            .is_none()
    );
    let read = Wqe::read(two.memory.region.remote(0), &[region.segment(0, 64)]);
    assert_eq!(syndrome_of(&mut two, &read), 0x04);
}

#[test]
fn remote_memory_is_checked() {
    let rights = [
        Access {
            remote_write: false,
            ..Access::ALL
        },
        Access {
            remote_read: false,
            ..Access::ALL
        },
        Access {
            remote_atomic: false,
            ..Access::ALL
        },
    ];
    for (position, access) in rights.into_iter().enumerate() {
        for operation in 0..3 {
            let mut two = two();
            let place = two.allocator.place(MemoryLocation::Host, 64).unwrap();
            let region = two.hca.register(&place, access).unwrap();
            let (local, remote) = (two.memory.region.segment(0, 8), region.remote(8));
            let entry = match operation {
                0 => Wqe::write(remote, &[local]),
                1 => Wqe::read(remote, &[local]),
                _ => Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[local]),
            };
            ring(&mut two.local, &entry.signalled());
            let completion = polled(&mut two.local.send_completions);
            match operation == position {
                true => assert_eq!(failed(&completion).0, 0x13),
                false => assert!(completion.event.failed().is_none(), "{completion:?}"),
            }
        }
    }
    let outside = [4090, u64::MAX - 3, 1 << 40];
    for offset in outside {
        let mut two = two();
        let write = Wqe::write(two.memory.region.remote(offset), &[]).inline(&[0; 8]);
        assert_eq!(syndrome_of(&mut two, &write), 0x13);
    }
    let mut two = two();
    let place = two.allocator.place(MemoryLocation::Host, 64).unwrap();
    let gone = two.hca.register(&place, Access::ALL).unwrap();
    let remote = gone.remote(0);
    drop(gone);
    assert_eq!(
        syndrome_of(&mut two, &Wqe::write(remote, &[]).inline(&[0])),
        0x13
    );
    // The invalid request broke the remote queue pair too.
    ring(&mut two.peer, &Wqe::nop());
    assert_eq!(failed(&polled(&mut two.peer.send_completions)).0, 0x05);
}

#[test]
fn checks_atomic_alignment_and_length() {
    let mut unaligned = two();
    let (local, remote) = (
        unaligned.memory.region.segment(0, 8),
        unaligned.memory.region.remote(4),
    );
    let entry = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[local]);
    assert_eq!(syndrome_of(&mut unaligned, &entry), 0x12);
    let mut none = two();
    let remote = none.memory.region.remote(8);
    let entry = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[]);
    assert_eq!(syndrome_of(&mut none, &entry), 0x01);
}

#[test]
fn oversized_message_fails_both_sides() {
    let mut two = two();
    two.peer
        .receive
        .post(&[two.memory.region.segment(0, 8)])
        .unwrap();
    assert_eq!(syndrome_of(&mut two, &Wqe::send(&[]).inline(&[0; 9])), 0x12);
    assert_eq!(failed(&polled(&mut two.peer.receive_completions)).0, 0x01);
    assert_eq!(bytes(&two.memory.place), [0x5a; 4096]);
    let mut two = self::two();
    let wrong = DataSegment {
        length: 64,
        key: 0x55,
        address: 0,
    };
    two.peer.receive.post(&[wrong]).unwrap();
    assert_eq!(syndrome_of(&mut two, &Wqe::send(&[]).inline(&[0; 9])), 0x14);
    assert_eq!(failed(&polled(&mut two.peer.receive_completions)).0, 0x04);
}

#[test]
fn retries_until_the_limit() {
    let mut limited = two();
    assert_eq!(
        syndrome_of(&mut limited, &Wqe::send(&[]).inline(&[1])),
        0x16
    );
    let mut limited = two();
    let write = Wqe::write(limited.memory.region.remote(0), &[])
        .inline(&[1])
        .immediate(1);
    assert_eq!(syndrome_of(&mut limited, &write), 0x16);
    assert_eq!(
        bytes(&limited.memory.place)[0],
        0x5a,
        "not written before there is a receive"
    );

    let mut unlimited = two();
    let (local, peer) = (unlimited.local.endpoint, unlimited.peer.endpoint);
    unlimited
        .hca
        .connect(local, peer, RetryPolicy::default())
        .unwrap();
    let send = Wqe::send(&[]).inline(b"late").signalled();
    ring(&mut unlimited.local, &send);
    // Another queue pair works during the retries.
    for _ in 0..50 {
        ring(&mut unlimited.peer, &Wqe::nop().signalled());
        let done = polled(&mut unlimited.peer.send_completions);
        unlimited.peer.send.complete(&done).unwrap();
    }
    assert!(unlimited.local.send_completions.poll().unwrap().is_none());
    unlimited
        .peer
        .receive
        .post(&[unlimited.memory.region.segment(0, 4)])
        .unwrap();
    assert!(
        polled(&mut unlimited.local.send_completions)
            .event
            .failed()
            .is_none()
    );
    assert_eq!(bytes(&unlimited.memory.place)[..4], *b"late");
}

#[test]
fn malformed_wqe_is_local_error() {
    for (offset, value) in [(3, 0x7f), (7, 0x3f), (7, 0), (11, 0x07), (31, 0)] {
        let mut two = two();
        let write = Wqe::write(
            two.memory.region.remote(0),
            &[two.memory.region.segment(0, 8)],
        );
        let prepared = two.local.send.prepare(&write).unwrap();
        // 31 stands for a data segment of length 0.
        let offset = if offset == 31 { 35 } else { offset };
        two.local.send.parts().ring.write(offset, &[value]).unwrap();
        prepared.ring().unwrap();
        let completion = polled(&mut two.local.send_completions);
        assert_eq!(
            (failed(&completion).0, completion.counter),
            (0x02, 0),
            "{offset} {value:#x}"
        );
        two.local.send.complete(&completion).unwrap();
    }
}

#[test]
fn flushes_work_after_failure() {
    let mut two = two();
    let (syndrome, vendor) = (Syndrome::RemoteAborted, 0);
    two.hca
        .inject(two.local.send.qpn(), 0, Effect::Fail { syndrome, vendor });
    assert_eq!(syndrome_of(&mut two, &Wqe::nop()), 0x22);
    for _ in 0..300 {
        two.local.receive.post(&[]).unwrap();
        ring(&mut two.local, &Wqe::nop());
        let sent = polled(&mut two.local.send_completions);
        let received = polled(&mut two.local.receive_completions);
        assert_eq!((failed(&sent).0, failed(&received).0), (0x05, 0x05));
        // The first WQE is still pending.
        let _ = two.local.send.complete(&sent).unwrap();
        two.local.receive.complete(&received).unwrap();
    }
}
