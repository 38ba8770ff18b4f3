//! Every failure is reported at its request, every wait ends in time, and nothing touches memory afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::wire::Syndrome;
use gpu::Compare;
use mp::{Cause, Condition, Error, Failure, Operation, Options, Request, Transfer};

use super::support::{LONG, Rank, hcas, on_ranks, read};

const SHORT: Duration = Duration::from_millis(400);
/// Bound of what takes [`SHORT`], on a busy machine.
const BOUND: Duration = Duration::from_secs(2);

fn short() -> Options {
    Options { timeout: SHORT, ..Options::default() }
}

/// The failure that a wait reports.
fn failure(rank: &Rank, request: Request) -> Failure {
    match rank.ranks.wait(request) {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

/// Runs the two ranks of a fault; a thread each.
fn two(options: Options, first: impl Fn(Rank) + Sync, second: impl Fn(Rank) + Sync) {
    on_ranks(2, options, |rank: Rank| match rank.ranks.rank() {
        0 => first(rank),
        _ => second(rank),
    });
}

#[test]
fn missing_receive_is_detected() {
    // By the retries of the HCA, and by the timeout.
    for (retries, cause) in [(Some(3), Cause::NoReceive), (None, Cause::TimedOut(SHORT))] {
        let options = Options { retries, ..short() };
        let first = |rank: Rank| {
            let (_, region) = rank.memory(4096);
            let sends = [100, 200].map(|bytes| {
                let send = Transfer::send(1, &region, 0..bytes);
                rank.ranks.start(&send).unwrap()
            });
            let [sent, after] = sends;
            let (number, next) = (sent.number(), after.number());
            let start = Instant::now();
            let found = failure(&rank, sent);
            assert!(start.elapsed() < BOUND);
            let expected = Failure {
                peer: 1,
                request: number,
                operation: Operation::Send,
                bytes: 100,
                cause,
                first: None,
            };
            assert_eq!(found, expected);
            let flushed = failure(&rank, after);
            assert_eq!((flushed.request, flushed.cause), (next, Cause::Flushed));
            let named =
                format!("an earlier request failed: send {number} (100 bytes, rank 1) failed");
            assert!(flushed.to_string().contains(&named), "{flushed}");
            let send = Transfer::send(1, &region, 0..8);
            let error = rank.ranks.start(&send).unwrap_err().to_string();
            let named = format!(
                "the connection to rank 1 has failed: send {number} (100 bytes, rank 1) failed"
            );
            assert!(error.contains(&named), "{error}");
            rank.meet();
            rank.end();
        };
        two(options, first, |rank: Rank| {
            rank.meet();
            rank.end();
        });
    }
}

#[test]
fn long_message_fails_at_both_ends() {
    let first = |rank: Rank| {
        let (_, region) = rank.memory(4096);
        rank.meet();
        let sent = rank.ranks.start(&Transfer::send(1, &region, 0..65)).unwrap();
        let found = failure(&rank, sent);
        assert_eq!((found.cause, found.bytes), (Cause::TooLong, 65));
        rank.meet();
        rank.end();
    };
    two(Options::default(), first, |rank: Rank| {
        let (place, region) = rank.memory(4096);
        let received = [0..64, 64..128].map(|range| rank.ranks.receive(0, &region, range).unwrap());
        rank.meet();
        let [too_short, after] = received;
        let found = failure(&rank, too_short);
        assert_eq!((found.cause, found.bytes), (Cause::TooLong, 64));
        assert_eq!(failure(&rank, after).cause, Cause::Flushed);
        assert_eq!(read(&place, 0, 128), [0; 128]);
        rank.meet();
        rank.end();
    });
}

#[test]
fn revoked_memory_is_not_accessed() {
    let first = |rank: Rank| {
        let (_, region) = rank.memory(4096);
        let window = rank.ranks.window(&region).unwrap();
        rank.meet();
        let put = Transfer::put(1, &window, 0, &region, 0..8);
        let put = rank.ranks.start(&put).unwrap();
        assert_eq!(failure(&rank, put).cause, Cause::RemoteAccess);
        rank.meet();
        rank.end();
    };
    two(Options::default(), first, |rank: Rank| {
        let (place, region) = rank.memory(4096);
        place.write(0, &[9; 8]).unwrap();
        let window = rank.ranks.window(&region).unwrap();
        let received = rank.ranks.receive(0, &region, 0..8).unwrap();
        region.revoke();
        let error = rank.ranks.receive(0, &region, 0..8).unwrap_err();
        assert!(matches!(error, Error::NotRegistered), "{error}");
        let (_, other) = rank.memory(64);
        let send = Transfer::send(0, &region, 0..8);
        assert!(matches!(rank.ranks.start(&send), Err(Error::NotRegistered)));
        drop(other);
        rank.meet();
        rank.meet();
        assert_eq!(failure(&rank, received).cause, Cause::Flushed);
        assert_eq!(read(&place, 0, 8), [9; 8]);
        drop(window);
        rank.end();
    });
}

#[test]
fn regions_belong_to_their_communicator() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let stray = on_ranks(2, Options::default(), |other: Rank| {
            let region = other.memory(64).1;
            other.end();
            region
        });
        let receive = rank.ranks.receive(1 - rank.ranks.rank(), &stray[0], 0..8);
        assert!(matches!(receive, Err(Error::NotRegistered)), "{receive:?}");
        rank.end();
    });
}

/// A rank that dies ends every wait of the others: of the CPU, of streams, for messages and for words.
#[test]
fn dead_peer_ends_every_wait() {
    let first = |rank: Rank| {
        let ranks = &rank.ranks;
        let (place, region) = rank.memory(4096);
        let received = [0..8, 8..16, 16..24].map(|range| ranks.receive(1, &region, range).unwrap());
        let streams = [rank.stream(), rank.stream(), rank.stream()];
        rank.meet();
        let start = Instant::now();
        ranks.wait_on(&streams[0], [&received[1]]).unwrap();
        let word = place.part(2048, 4).unwrap();
        let condition = Condition { compare: Compare::Eq, value: 1 };
        ranks.wait_word_on(&streams[1], &word, condition).unwrap();
        let put_on = ranks.start_on(&streams[2], &Transfer::send(1, &region, 0..8)).unwrap();
        ranks.wait_on(&streams[2], [&put_on]).unwrap();
        for stream in &streams {
            stream.synchronize_within(LONG).unwrap();
        }
        assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
        // The send has no answer, which fails the connection at once.
        assert_eq!(failure(&rank, put_on).cause, Cause::NoAnswer);
        for request in received {
            assert_eq!(failure(&rank, request).cause, Cause::Flushed);
        }
        assert!(start.elapsed() < BOUND);
        assert_eq!(ranks.open_requests(), 0);
        let open = rank.ranks.finalize();
        assert!(matches!(open, Err(Error::Bootstrap(_))), "{open:?}");
    };
    two(short(), first, |rank: Rank| {
        rank.meet();
        // It dies: no barrier, its HCA ends.
        let Rank { ranks, hca, .. } = rank;
        drop(ranks);
        drop(hca);
    });
}

/// Only receives, no sends: nothing shows that the peer is dead but the time.
#[test]
fn silent_peer_ends_waits_in_time() {
    let first = |rank: Rank| {
        let ranks = &rank.ranks;
        let (_, region) = rank.memory(4096);
        let received = [0..8, 8..16].map(|range| ranks.receive(1, &region, range).unwrap());
        let [first, second] = received;
        let (stream, start) = (rank.stream(), Instant::now());
        ranks.wait_on(&stream, [&second]).unwrap();
        stream.synchronize_within(LONG).unwrap();
        let took = start.elapsed();
        assert!(took >= SHORT && took < BOUND, "{took:?}");
        // The first one holds the second one up.
        assert_eq!(failure(&rank, second).cause, Cause::Flushed);
        assert_eq!(failure(&rank, first).cause, Cause::TimedOut(SHORT));
        rank.meet();
        rank.end();
    };
    two(Options { timeout: SHORT, ..Options::default() }, first, |rank: Rank| {
        rank.meet();
        rank.end();
    });
}

/// A message that arrives after its receive timed out does not reach the memory.
#[test]
fn late_message_does_not_reach_the_memory() {
    let first = |rank: Rank| {
        let (place, region) = rank.memory(4096);
        let received = rank.ranks.receive(1, &region, 0..8).unwrap();
        assert_eq!(failure(&rank, received).cause, Cause::TimedOut(SHORT));
        rank.meet();
        rank.meet();
        assert_eq!(read(&place, 0, 8), [0; 8]);
        rank.end();
    };
    two(short(), first, |rank: Rank| {
        let (place, region) = rank.memory(4096);
        place.write(0, &[7; 8]).unwrap();
        rank.meet();
        let sent = rank.ranks.start(&Transfer::send(0, &region, 0..8)).unwrap();
        assert_eq!(failure(&rank, sent).cause, Cause::NoAnswer);
        rank.meet();
        rank.end();
    });
}

#[test]
fn injected_errors_are_reported_at_their_request() {
    let all = [
        (Syndrome::LocalOperation, Cause::Hca { syndrome: Syndrome::LocalOperation, vendor: 0x77 }),
        (Syndrome::TransportRetry, Cause::NoAnswer),
        (Syndrome::ReceiverNotReady, Cause::NoReceive),
        (Syndrome::LocalProtection, Cause::LocalAccess),
        (Syndrome::RemoteAccess, Cause::RemoteAccess),
    ];
    for (syndrome, cause) in all {
        on_ranks(2, Options::default(), |rank: Rank| {
            let ranks = &rank.ranks;
            let peer = 1 - ranks.rank();
            let (_, region) = rank.memory(4096);
            let window = ranks.window(&region).unwrap();
            if ranks.rank() == 0 {
                // The first queue pair of a software HCA has this number.
                rank.hca.inject(0x100, 2, Effect::Fail { syndrome, vendor: 0x77 });
                let put = |at: usize| Transfer::put(peer, &window, 0, &region, at..at + 8);
                // An unsignalled one before, and one after.
                let none = ranks.start(&put(0).without_completion()).unwrap();
                let requests = [8, 16, 24].map(|at| ranks.start(&put(at)).unwrap());
                drop(none);
                let [well, failed, after] = requests;
                let number = failed.number();
                assert_eq!(failure(&rank, after).cause, Cause::Flushed);
                let found = failure(&rank, failed);
                assert_eq!((found.request, found.cause), (number, cause));
                assert_eq!(ranks.wait(well).unwrap(), 0);
            }
            rank.meet();
            assert_eq!(ranks.open_requests(), 0);
            let Rank { ranks, .. } = rank;
            ranks.finalize().unwrap();
        });
    }
}

/// Lost CQEs and CQEs of the wrong pass: the wait times out.
#[test]
fn lost_completions_time_out() {
    for effect in [Effect::Drop, Effect::WrongOwner, Effect::Stale] {
        let first = |rank: Rank| {
            let (_, region) = rank.memory(4096);
            let window = rank.ranks.window(&region).unwrap();
            rank.hca.inject(0x100, 0, effect);
            let put = Transfer::put(1, &window, 0, &region, 0..8);
            let stream = rank.stream();
            // A CQE of the wrong pass that is written before the wait would be found by the CPU.
            let gate = rank.ranks.allocator().gpu().pinned(4).unwrap();
            stream.hold(&gate, LONG).unwrap();
            let request = rank.ranks.start_on(&stream, &put).unwrap();
            rank.ranks.wait_on(&stream, [&request]).unwrap();
            gate.store_u32(0, 1).unwrap();
            stream.synchronize_within(LONG).unwrap();
            let found = failure(&rank, request);
            assert_eq!(found.cause, Cause::TimedOut(SHORT), "{effect:?}");
            rank.meet();
            rank.end();
        };
        two(short(), first, |rank: Rank| {
            let (_, region) = rank.memory(4096);
            let _window = rank.ranks.window(&region).unwrap();
            rank.meet();
            rank.end();
        });
    }
}

#[test]
fn open_requests_are_counted_and_ended() {
    let streams: Arc<std::sync::Mutex<Vec<gpu::Stream>>> = Arc::default();
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(4096);
        let received = ranks.receive(peer, &region, 0..8).unwrap();
        let prepared = ranks.prepare(&Transfer::send(peer, &region, 0..8)).unwrap();
        let stream = rank.stream();
        ranks.wait_on(&stream, [&received]).unwrap();
        let word = place.part(8, 4).unwrap();
        let condition = Condition { compare: Compare::Eq, value: 3 };
        let other = rank.stream();
        ranks.wait_word_on(&other, &word, condition).unwrap();
        assert_eq!(ranks.open_requests(), 2);
        assert_eq!(rank.ranks.finalize().unwrap(), 2);
        // The streams were released.
        stream.synchronize_within(LONG).unwrap();
        other.synchronize_within(LONG).unwrap();
        drop((received, prepared));
        streams.lock().unwrap().push(stream);
    });
}

#[test]
fn ranks_agree_on_errors() {
    // Rank 2 names a rank that does not name it.
    let hcas = hcas(3);
    let locals = mp::bootstrap::Local::ranks(3);
    let peers = [vec![1], vec![0, 2], vec![0]];
    std::thread::scope(|scope| {
        let start = |((local, hca), peers): ((mp::bootstrap::Local, Arc<SimHca>), Vec<u32>)| {
            scope.spawn(move || {
                let options = Options { peers: Some(peers), ..Options::default() };
                let allocator = super::support::allocator();
                mp::Communicator::connect(Box::new(local), hca, allocator, options).map(drop)
            })
        };
        let threads: Vec<_> = locals.into_iter().zip(hcas).zip(peers).map(start).collect();
        let errors: Vec<String> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap().unwrap_err().to_string())
            .collect();
        assert_eq!(
            errors[0],
            "rank 1: rank 2 does not name rank 1 as a peer: both must name each other"
        );
        assert_eq!(errors[1], "rank 2 does not name rank 1 as a peer: both must name each other");
        assert_eq!(errors[2], "rank 0 does not name rank 2 as a peer: both must name each other");
    });
    for (peers, invalid) in [(vec![1, 1], 1), (vec![2], 2)] {
        let options = Options { peers: Some(peers), ..Options::default() };
        let local = mp::bootstrap::Local::ranks(1).remove(0);
        let hca = super::support::hcas(1).remove(0);
        let allocator = super::support::allocator();
        let error =
            mp::Communicator::connect(Box::new(local), hca, allocator, options).unwrap_err();
        let is_expected = matches!(error, Error::InvalidPeer { rank, last: 0 } if rank == invalid);
        assert!(is_expected, "{error}");
    }
}

#[test]
fn rejects_invalid_arguments() {
    two(
        Options::default(),
        |rank: Rank| {
            let ranks = &rank.ranks;
            let (_, region) = rank.memory(4096);
            let unknown = ranks.receive(7, &region, 0..8).unwrap_err();
            assert!(matches!(unknown, Error::NoPeer { rank: 7 }), "{unknown}");
            let own = ranks.start(&Transfer::send(0, &region, 0..8)).unwrap_err();
            assert!(matches!(own, Error::NoPeer { rank: 0 }), "{own}");
            #[expect(clippy::reversed_empty_ranges, reason = "an invalid range")]
            for range in [4095..4097, 5000..5001, 9..8] {
                let outside = ranks.receive(1, &region, range.clone()).unwrap_err();
                assert!(matches!(outside, Error::Range { .. }), "{outside}");
                let outside = ranks.start(&Transfer::send(1, &region, range)).unwrap_err();
                assert!(matches!(outside, Error::Range { .. }), "{outside}");
            }
            let many: Vec<_> = (0..31).map(|at| at..at + 1).collect();
            let many = ranks.receive(1, &region, &many).unwrap_err();
            assert!(matches!(many, Error::TooLarge { blocks: 31, bytes: 31 }), "{many}");
            rank.end();
        },
        Rank::end,
    );
}
