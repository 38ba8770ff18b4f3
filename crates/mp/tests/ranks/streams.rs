//! Transfers and waits by streams, in one step, in two steps, and by what kernels get.

use std::time::Duration;

use gdsync::{MappedMemory, Program};
use gpu::{Compare, MemOp, Stream, Word};
use mp::{Error, Options, SendDescriptor, Transfer, WaitDescriptor};

use super::support::{LONG, Rank, bytes, on_ranks, read};

/// Streams of both ranks send a message there and back, without the CPU between.
#[test]
fn streams_exchange_messages() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(64 << 10);
        let stream = rank.stream();
        let slot = |round: usize| round * 256..round * 256 + 200;
        for round in 0..20_usize {
            let message = bytes(round as u8, 200);
            if ranks.rank() == 0 {
                place.write(slot(round).start, &message).unwrap();
            }
        }
        let mut requests = Vec::new();
        for round in 0..20_usize {
            let send = Transfer::send(peer, &region, slot(round));
            let received = ranks.receive(peer, &region, slot(round + 100)).unwrap();
            if ranks.rank() == 0 {
                requests.push(ranks.start_on(&stream, &send).unwrap());
                ranks.wait_on(&stream, [&received]).unwrap();
            } else {
                ranks.wait_on(&stream, [&received]).unwrap();
                // Sends what it received.
                let send = Transfer::send(peer, &region, slot(round + 100));
                let sent = ranks.prepare(&send).unwrap();
                ranks.post_on(&stream, [&sent]).unwrap();
                ranks.wait_on(&stream, [&sent]).unwrap();
                requests.push(sent);
            }
            requests.push(received);
        }
        stream.synchronize_within(LONG).unwrap();
        // Also of a request that has ended.
        let again = ranks.wait_on(&stream, [&requests[1]]);
        assert!(matches!(again, Err(Error::Waited { .. })), "{again:?}");
        for request in requests {
            ranks.wait(request).unwrap();
        }
        for round in 0..20_usize {
            let found = read(&place, slot(round + 100).start, 200);
            assert_eq!(found, bytes(round as u8, 200));
        }
        rank.end();
    });
}

/// A stream may wait for any request, in any order; the CPU completes those before it.
#[test]
fn waits_in_any_order() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(4096);
        if ranks.rank() == 1 {
            let received: Vec<_> = (0..3)
                .map(|at| ranks.receive(peer, &region, at * 100..at * 100 + 8).unwrap())
                .collect();
            let stream = rank.stream();
            ranks.wait_on(&stream, [&received[2], &received[0]]).unwrap();
            ranks.barrier().unwrap();
            let mut received = received.into_iter();
            let (first, second, third) =
                (received.next().unwrap(), received.next().unwrap(), received.next().unwrap());
            assert_eq!(ranks.wait(second).unwrap(), 8);
            assert_eq!(ranks.wait(third).unwrap(), 8);
            assert_eq!(ranks.wait(first).unwrap(), 8);
            stream.synchronize_within(LONG).unwrap();
            assert_eq!(read(&place, 200, 8), [3; 8]);
        } else {
            ranks.barrier().unwrap();
            for number in 1..4 {
                place.write(0, &[number; 8]).unwrap();
                let sent = ranks.start(&Transfer::send(peer, &region, 0..8)).unwrap();
                ranks.wait(sent).unwrap();
            }
        }
        rank.end();
    });
}

/// The CPU's doorbell would start what a stream has not reached.
#[test]
fn cpu_follows_streams() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(4096);
        if ranks.rank() == 1 {
            let slot = |at: usize| at * 8..at * 8 + 8;
            let received: Vec<_> =
                (0..4).map(|at| ranks.receive(peer, &region, slot(at)).unwrap()).collect();
            ranks.barrier().unwrap();
            for request in received {
                assert_eq!(ranks.wait(request).unwrap(), 8);
            }
            let expected = [[11; 8], [2; 8], [13; 8], [4; 8]].concat();
            assert_eq!(read(&place, 0, 32), expected);
            return rank.end();
        }
        ranks.barrier().unwrap();
        let (stream, gate) = gated(&rank);
        for (at, message) in [1, 2, 3, 4].into_iter().enumerate() {
            place.write(at * 8, &[message; 8]).unwrap();
        }
        let send = |at: usize| Transfer::send(peer, &region, at * 8..at * 8 + 8);
        let first = ranks.start_on(&stream, &send(0)).unwrap();
        let second = ranks.start(&send(1)).unwrap();
        let third = ranks.prepare(&send(2)).unwrap();
        let fourth = ranks.start(&send(3)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for request in [&first, &second, &fourth] {
            assert!(!request.has_ended());
        }
        // A message is what the memory holds when its turn comes.
        place.write(0, &[11; 8]).unwrap();
        gate.store_u32(0, 1).unwrap();
        ranks.wait(first).unwrap();
        ranks.wait(second).unwrap();
        assert!(!fourth.has_ended());
        place.write(16, &[13; 8]).unwrap();
        ranks.post_on(&stream, [&third]).unwrap();
        stream.synchronize_within(LONG).unwrap();
        ranks.wait(fourth).unwrap();
        ranks.wait(third).unwrap();
        rank.end();
    });
}

/// Without any call, the monitor rings a deferred doorbell.
#[test]
fn monitor_rings_deferred_doorbells() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (_, region) = rank.memory(4096);
        if ranks.rank() == 1 {
            let received = [0, 8].map(|at| ranks.receive(peer, &region, at..at + 8).unwrap());
            ranks.barrier().unwrap();
            for request in received {
                ranks.wait(request).unwrap();
            }
            ranks.barrier().unwrap();
            return rank.end();
        }
        ranks.barrier().unwrap();
        let (stream, gate) = gated(&rank);
        let send = Transfer::send(peer, &region, 0..8);
        let requests = [ranks.start_on(&stream, &send).unwrap(), ranks.start(&send).unwrap()];
        gate.store_u32(0, 1).unwrap();
        // The other rank gets both messages.
        ranks.barrier().unwrap();
        for request in requests {
            ranks.wait(request).unwrap();
        }
        rank.end();
    });
}

/// A stream that waits for the word that is returned.
fn gated(rank: &Rank) -> (gpu::Stream, MappedMemory) {
    let gate = rank.memory(64).0;
    let stream = rank.stream();
    let mut program = Program::new();
    program.wait32(&gate, 0, 1, Compare::Eq);
    program.post(&stream).unwrap();
    (stream, gate)
}

#[test]
fn prepared_requests_are_posted_in_order() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(4096);
        if ranks.rank() == 1 {
            let received = [0, 8, 16].map(|at| ranks.receive(peer, &region, at..at + 8).unwrap());
            ranks.barrier().unwrap();
            for request in received {
                ranks.wait(request).unwrap();
            }
            assert_eq!(read(&place, 0, 24), [[1; 8], [2; 8], [4; 8]].concat());
            return rank.end();
        }
        for (at, message) in [1, 2, 3, 4].into_iter().enumerate() {
            place.write(at * 8, &[message; 8]).unwrap();
        }
        ranks.barrier().unwrap();
        let stream = rank.stream();
        let send = |at: usize| Transfer::send(peer, &region, at * 8..at * 8 + 8);
        let [first, second, third] = [0, 1, 2].map(|at| ranks.prepare(&send(at)).unwrap());
        let early = ranks.post_on(&stream, [&second]).unwrap_err();
        assert!(matches!(early, Error::Order { peer: 1, request: 2, first: 1 }), "{early}");
        let early = ranks.start_on(&stream, &send(3)).unwrap_err();
        assert!(matches!(early, Error::Order { first: 1, .. }), "{early}");
        let unposted = ranks.wait_on(&stream, [&first]).unwrap_err();
        assert!(matches!(unposted, Error::NotPosted { request: 1 }), "{unposted}");
        ranks.post_on(&stream, [&first, &second]).unwrap();
        let again = ranks.post_on(&stream, [&first]).unwrap_err();
        assert!(matches!(again, Error::Posted { request: 1 }), "{again}");
        // The last prepared request is removed.
        drop(third);
        let fourth = ranks.start_on(&stream, &send(3)).unwrap();
        for request in [first, second, fourth] {
            ranks.wait(request).unwrap();
        }
        rank.end();
    });
}

#[test]
fn kernels_send_and_wait() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(4096);
        let stream = rank.stream();
        let received = ranks.receive(peer, &region, 100..200).unwrap();
        let second = ranks.receive(peer, &region, 200..300).unwrap();
        let arrives = ranks.wait_descriptor(&received).unwrap();
        place.write(0, &bytes(ranks.rank() as u8, 100)).unwrap();
        let sent = ranks.prepare(&Transfer::send(peer, &region, 0..100)).unwrap();
        let unsent = ranks.wait_descriptor(&sent).unwrap_err();
        assert!(matches!(unsent, Error::NotPosted { .. }), "{unsent}");
        let leaves = ranks.send_descriptor(&sent).unwrap();
        let again = ranks.send_descriptor(&sent).unwrap_err();
        assert!(matches!(again, Error::Posted { .. }), "{again}");
        let done = ranks.wait_descriptor(&sent).unwrap();
        ranks.barrier().unwrap();
        kernel(&stream, leaves, [done, arrives]);
        stream.synchronize_within(LONG).unwrap();
        assert_eq!(ranks.wait(received).unwrap(), 100);
        assert!(sent.has_ended());
        ranks.wait(sent).unwrap();
        // Ended: the descriptor is satisfied.
        let sent = ranks.start(&Transfer::send(peer, &region, 0..100)).unwrap();
        ranks.wait(sent).unwrap();
        while !second.has_ended() {
            std::thread::yield_now();
        }
        kernel_wait(&stream, ranks.wait_descriptor(&second).unwrap());
        stream.synchronize_within(LONG).unwrap();
        assert_eq!(ranks.wait(second).unwrap(), 100);
        assert_eq!(read(&place, 100, 100), bytes(peer as u8, 100));
        rank.end();
    });
}

/// What a kernel does with the descriptors, done by a stream.
fn kernel(stream: &Stream, send: SendDescriptor, waits: [WaitDescriptor; 2]) {
    // SAFETY: the words of the queues live until the stream is synchronised.
    let [record, doorbell] = [send.record.0, send.doorbell.0].map(|at| unsafe { Word::at(at) });
    let ring = [
        MemOp::Write32 { at: record, value: send.record.1 },
        MemOp::Barrier,
        MemOp::Write64 { at: doorbell, value: send.doorbell.1 },
    ];
    stream.batch(&ring).unwrap();
    waits.into_iter().for_each(|wait| kernel_wait(stream, wait));
}

fn kernel_wait(stream: &Stream, wait: WaitDescriptor) {
    // SAFETY: as above.
    let [word, flag] = [wait.word.0, wait.flag.0].map(|at| unsafe { Word::at(at) });
    let ops = [
        MemOp::Wait32 { at: word, value: wait.word.1, compare: wait.compare, flush: false },
        MemOp::Write32 { at: flag, value: wait.flag.1 },
    ];
    stream.batch(&ops).unwrap();
}
