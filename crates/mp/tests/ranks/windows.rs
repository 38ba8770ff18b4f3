//! Windows, words and descriptor queues.

use gdsync::MemoryLocation;
use gpu::Compare;
use mp::comm::Credits;
use mp::{Condition, Error, MAX_INLINE, Options, Transfer};

use super::support::{LONG, Rank, bytes, on_ranks, read};

#[test]
fn puts_and_gets_of_all_ranks() {
    on_ranks(4, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let own = ranks.rank() as usize;
        let (memory, region) = rank.memory_at(MemoryLocation::Gpu, 16 << 10);
        let (source, source_region) = rank.memory(16 << 10);
        let window = ranks.window(&region).unwrap();
        source.write(0, &bytes(own as u8, 4096)).unwrap();
        let stream = rank.stream();
        let mut requests = Vec::new();
        for peer in ranks.peers() {
            assert_eq!(window.len_of(peer).unwrap(), 16 << 10);
            // Each rank writes a range of its own: by the CPU, inline, by a stream.
            let at = (own * 3000) as u64;
            let put = Transfer::put(peer, &window, at, &source_region, 0..1000);
            requests.push(ranks.start(&put).unwrap());
            let put = Transfer::put(peer, &window, at + 1000, &source_region, 1000..1256);
            requests.push(ranks.start(&put.inline()).unwrap());
            let put = Transfer::put(peer, &window, at + 1256, &source_region, 1256..3000);
            requests.push(ranks.start_on(&stream, &put).unwrap());
        }
        // Inline data was copied.
        source.write(1000, &[0xee; 256]).unwrap();
        for request in requests {
            ranks.wait(request).unwrap();
        }
        ranks.barrier().unwrap();
        for peer in ranks.peers().map(|peer| peer as usize) {
            assert_eq!(read(&memory, peer * 3000, 3000), bytes(peer as u8, 3000));
        }
        // Each rank reads what its neighbour got from the rank after that.
        let (neighbour, after) = ((own as u32 + 1) % 4, (own + 2) % 4);
        let at = (after * 3000) as u64;
        let blocks = [8000..9000, 10_000..12_000];
        let get = Transfer::get(neighbour, &window, at, &source_region, &blocks[..]);
        let got = ranks.start_on(&stream, &get).unwrap();
        ranks.wait_on(&stream, [&got]).unwrap();
        stream.synchronize_within(LONG).unwrap();
        assert_eq!(ranks.wait(got).unwrap(), 3000);
        let found = [read(&source, 8000, 1000), read(&source, 10_000, 2000)].concat();
        assert_eq!(found, bytes(after as u8, 3000));
        ranks.barrier().unwrap();
        drop(window);
        rank.end();
    });
}

#[test]
fn rejects_puts_outside_windows() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        // The windows differ in size.
        let bytes = 1000 + ranks.rank() as usize * 500;
        let (_, region) = rank.memory(bytes);
        let (_, source) = rank.memory(4096);
        let window = ranks.window(&region).unwrap();
        let available = 1000 + u64::from(peer) * 500;
        for (offset, length) in [(available, 1), (available - 9, 10), (u64::MAX, 10)] {
            let put = Transfer::put(peer, &window, offset, &source, 0..length);
            let error = ranks.start(&put).unwrap_err();
            let expected =
                matches!(error, Error::Window { available: found, .. } if found == available);
            assert!(expected, "{error}");
        }
        let put = Transfer::put(peer, &window, available - 9, &source, 0..9);
        ranks.wait(ranks.start(&put).unwrap()).unwrap();
        let put = Transfer::put(peer, &window, 0, &source, 0..MAX_INLINE as usize + 1);
        let error = ranks.start(&put.inline()).unwrap_err();
        assert!(matches!(error, Error::Inline { bytes: 257 }), "{error}");
        let none = Transfer::put(peer, &window, 0, &source, 0..4).without_completion();
        let request = ranks.start(&none).unwrap();
        let error = ranks.wait_on(&rank.stream(), [&request]).map_err(|e| e.to_string());
        let number = request.number();
        let unwaitable = ranks.wait(request).map_err(|error| error.to_string());
        for error in [error.map(|()| 0), unwaitable] {
            // The put may have ended meanwhile.
            assert!(
                error.is_ok()
                    || error
                        .unwrap_err()
                        .starts_with(&format!("request {number} has no completion"))
            );
        }
        ranks.barrier().unwrap();
        rank.end();
    });
}

/// Puts that nobody waits for free the queue all the same.
#[test]
fn puts_without_completion() {
    let options = Options { depth: 16, ..Options::default() };
    on_ranks(2, options, |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (memory, region) = rank.memory(4096);
        let window = ranks.window(&region).unwrap();
        let (source, source_region) = rank.memory(4);
        for number in 1..=1000 {
            source.store_u32(0, number).unwrap();
            let put = Transfer::put(peer, &window, 8, &source_region, 0..4);
            drop(ranks.start(&put.inline().without_completion()).unwrap());
        }
        let last = Condition { compare: Compare::Eq, value: 1000 };
        last.wait(LONG, || memory.load_u32(8).unwrap()).unwrap();
        ranks.barrier().unwrap();
        rank.end();
    });
}

#[test]
fn waits_for_words() {
    on_ranks(1, Options::default(), |rank: Rank| {
        let (place, _) = rank.memory(4096);
        // Upstream's EQ is > on the CPU, and its EQ and AND are GEQ on streams.
        for (compare, value, unmet, met) in [
            (Compare::Eq, 5, 6, 5),
            (Compare::Eq, 5, 4, 5),
            (Compare::Geq, 5, 4, 6),
            (Compare::Geq, u32::MAX, u32::MAX - 1, 0),
            (Compare::And, 0b0110, 0b1001, 0b0100),
        ] {
            let condition = Condition { compare, value };
            let word = place.part(64, 4).unwrap();
            word.store_u32(0, unmet).unwrap();
            let short = std::time::Duration::from_millis(20);
            let late = condition.wait(short, || word.load_u32(0).unwrap());
            assert!(matches!(late, Err(Error::Word { seen, .. }) if seen == unmet), "{late:?}");
            let stream = rank.stream();
            rank.ranks.wait_word_on(&stream, &word, condition).unwrap();
            std::thread::sleep(short);
            assert!(!stream.is_idle().unwrap(), "{condition}");
            word.store_u32(0, met).unwrap();
            stream.synchronize_within(LONG).unwrap();
            condition.wait(short, || word.load_u32(0).unwrap()).unwrap();
        }
        rank.end();
    });
}

/// The sender waits for each receive, so none is missing, however late it is posted.
#[test]
fn credits_order_receives_before_sends() {
    on_ranks(3, Options { retries: Some(0), ..Options::default() }, |rank: Rank| {
        let ranks = &rank.ranks;
        let credits = Credits::new(ranks).unwrap();
        let (place, region) = rank.memory(8192);
        let stream = rank.stream();
        let mut streamed = Vec::new();
        for round in 0..60_usize {
            let by_stream = round % 3 == 1;
            let mut requests = Vec::new();
            for peer in ranks.peers() {
                let at = 4096 + peer as usize * 64;
                requests.push(ranks.receive(peer, &region, at..at + 64).unwrap());
                if by_stream {
                    streamed.push(credits.give_on(ranks, &stream, peer).unwrap())
                } else {
                    drop(credits.give(ranks, peer).unwrap())
                }
            }
            place.write(0, &[round as u8; 64]).unwrap();
            for peer in ranks.peers() {
                let send = Transfer::send(peer, &region, 0..64);
                requests.push(if by_stream {
                    credits.take_on(ranks, &stream, peer).unwrap();
                    ranks.start_on(&stream, &send).unwrap()
                } else {
                    if round % 3 == 0 {
                        credits.take(ranks, peer).unwrap();
                    } else {
                        while !credits.try_take(peer).unwrap() {}
                    }
                    ranks.start(&send).unwrap()
                });
            }
            for request in requests {
                ranks.wait(request).unwrap();
            }
            for peer in ranks.peers() {
                assert_eq!(read(&place, 4096 + peer as usize * 64, 64), [round as u8; 64]);
            }
        }
        for request in streamed {
            ranks.wait(request).unwrap();
        }
        assert!(matches!(credits.try_take(3), Err(Error::NoPeer { rank: 3 })));
        rank.end();
    });
}

#[test]
fn descriptor_queues() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (memory, region) = rank.memory(8192);
        let window = ranks.window(&region).unwrap();
        let (source, source_region) = rank.memory(8192);
        let (words, _) = rank.memory(64);
        let word = |at: usize| words.part(at * 4, 4).unwrap();
        let stream = rank.stream();
        for round in 1..=10_u32 {
            let message = bytes(round as u8 ^ ranks.rank() as u8, 1000);
            source.write(0, &message).unwrap();
            let received = ranks.receive(peer, &source_region, 4000..5000).unwrap();
            ranks.barrier().unwrap();
            let mut queue = ranks.descriptor_queue();
            let round_begins = Condition { compare: Compare::Eq, value: round };
            queue.wait_word(&word(0), round_begins).unwrap();
            let puts: Vec<_> = (0..4)
                .map(|part| {
                    let range = part * 250..part * 250 + 250;
                    let put =
                        Transfer::put(peer, &window, range.start as u64, &source_region, range);
                    let put = ranks.prepare(&put.without_completion()).unwrap();
                    queue.send(&put).unwrap();
                    put
                })
                .collect();
            let sent = ranks.prepare(&Transfer::send(peer, &source_region, 0..16)).unwrap();
            let early = queue.wait(&sent).unwrap_err();
            assert!(matches!(early, Error::NotPosted { .. }), "{early}");
            queue.send(&sent).unwrap();
            assert!(queue.send(&sent).is_err());
            queue.wait(&sent).unwrap();
            queue.wait(&received).unwrap();
            queue.write_word(&word(1), round);
            assert_eq!(queue.len(), 9);
            queue.post(ranks, &stream).unwrap();
            assert!(queue.is_empty());
            words.store_u32(0, round).unwrap();
            stream.synchronize_within(LONG).unwrap();
            assert_eq!(words.load_u32(4).unwrap(), round);
            // The puts are before the message.
            let expected = bytes(round as u8 ^ peer as u8, 1000);
            assert_eq!(read(&memory, 0, 1000), expected);
            assert_eq!(read(&source, 4000, 16), expected[..16]);
            drop(puts);
            assert_eq!(ranks.wait(received).unwrap(), 16);
            ranks.wait(sent).unwrap();
            ranks.barrier().unwrap();
        }
        // A queue that is not posted ends its waits.
        let received = ranks.receive(peer, &source_region, 4000..5000).unwrap();
        let sent = ranks.prepare(&Transfer::send(peer, &source_region, 0..16)).unwrap();
        let mut queue = ranks.descriptor_queue();
        queue.wait(&received).unwrap();
        queue.send(&sent).unwrap();
        let anything = Condition { compare: Compare::Eq, value: 77 };
        queue.wait_word(&word(3), anything).unwrap();
        drop((queue, sent));
        ranks.barrier().unwrap();
        let sent = ranks.start(&Transfer::send(peer, &source_region, 0..7)).unwrap();
        assert_eq!(ranks.wait(received).unwrap(), 7);
        ranks.wait(sent).unwrap();
        rank.end();
    });
}
