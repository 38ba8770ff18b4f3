//! Messages by the CPU.

use gdsync::{Allocator, MemoryLocation};
use gpu::{Allocation, Gpu};
use mp::{Options, Transfer};

use super::support::{Rank, bytes, hcas, on_hcas, on_ranks, read};

#[test]
fn all_ranks_send_to_all() {
    on_ranks(5, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let (place, region) = rank.memory(64 << 10);
        let own = ranks.rank();
        assert_eq!((ranks.size(), ranks.peers().count()), (5, 4));
        for round in 0..50_u8 {
            let slot = |peer: u32| peer as usize * 4096..peer as usize * 4096 + 3000;
            let received: Vec<_> = ranks
                .peers()
                .map(|peer| ranks.receive(peer, &region, slot(peer)).unwrap())
                .collect();
            ranks.barrier().unwrap();
            let sent: Vec<_> = ranks
                .peers()
                .map(|peer| {
                    let start = 32768 + peer as usize * 4096;
                    let message =
                        bytes((own as u8 * 16 + peer as u8) ^ round, 2000 + peer as usize);
                    place.write(start, &message).unwrap();
                    let blocks = start..start + message.len();
                    ranks.start(&Transfer::send(peer, &region, blocks)).unwrap()
                })
                .collect();
            for (request, peer) in received.into_iter().zip(ranks.peers()) {
                let count = ranks.wait(request).unwrap() as usize;
                assert_eq!(count, 2000 + own as usize);
                let expected = bytes((peer as u8 * 16 + own as u8) ^ round, count);
                assert_eq!(read(&place, slot(peer).start, count), expected);
            }
            for request in sent {
                ranks.wait(request).unwrap();
            }
        }
        rank.end();
    });
}

#[test]
fn gathers_and_scatters_thirty_blocks() {
    on_ranks(2, Options::default(), |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory_at(MemoryLocation::Gpu, 64 << 10);
        let blocks: Vec<_> = (0..30).map(|at| at * 100..at * 100 + 1 + at).collect();
        if ranks.rank() == 0 {
            place.write(0, &bytes(9, 4096)).unwrap();
            ranks.barrier().unwrap();
            let sent = ranks.start(&Transfer::send(peer, &region, &blocks)).unwrap();
            ranks.wait(sent).unwrap();
        } else {
            // Other blocks: 30 of 17 bytes, for 465 bytes.
            let into: Vec<_> = (0..30).map(|at| at * 50..at * 50 + 17).collect();
            let received = ranks.receive(peer, &region, &into).unwrap();
            ranks.barrier().unwrap();
            assert_eq!(ranks.wait(received).unwrap(), 465);
            let source = bytes(9, 4096);
            let sent: Vec<u8> =
                blocks.iter().flat_map(|block| source[block.clone()].to_vec()).collect();
            let mut found: Vec<u8> =
                into.iter().flat_map(|block| read(&place, block.start, 17)).collect();
            assert_eq!(found.split_off(465), vec![0; 45]);
            assert_eq!(found, sent);
        }
        rank.end();
    });
}

#[test]
fn empty_message_and_message_to_itself() {
    let options = Options { peers: Some(vec![0]), ..Options::default() };
    on_ranks(1, options, |rank: Rank| {
        let ranks = &rank.ranks;
        let (place, region) = rank.memory(4096);
        place.write(0, b"to itself").unwrap();
        for length in [9, 0] {
            let received = ranks.receive(0, &region, 100..200).unwrap();
            let sent = ranks.start(&Transfer::send(0, &region, 0..length)).unwrap();
            assert_eq!(ranks.wait(received).unwrap(), length as u64);
            assert_eq!(ranks.wait(sent).unwrap(), 0);
        }
        assert_eq!(read(&place, 100, 10), b"to itself\0");
        rank.end();
    });
}

/// More messages than the queues hold: posting waits for completions.
#[test]
fn queues_never_overflow() {
    let options = Options { depth: 8, ..Options::default() };
    on_ranks(2, options, |rank: Rank| {
        let ranks = &rank.ranks;
        let peer = 1 - ranks.rank();
        let (place, region) = rank.memory(64 << 10);
        if ranks.rank() == 0 {
            for number in 0..1000_u32 {
                let at = number as usize % 64 * 4;
                place.store_u32(at, number).unwrap();
                // Its outcome is not needed.
                drop(ranks.start(&Transfer::send(peer, &region, at..at + 4)).unwrap());
            }
        } else {
            let mut received = std::collections::VecDeque::new();
            for number in 0..1000_usize {
                let at = number % 8 * 4;
                if number >= 8 {
                    let request = received.pop_front().unwrap();
                    assert_eq!(ranks.wait(request).unwrap(), 4);
                    let found = place.load_u32(at).unwrap() as usize;
                    assert_eq!(found, number - 8);
                }
                received.push_back(ranks.receive(peer, &region, at..at + 4).unwrap());
            }
            for request in received {
                ranks.wait(request).unwrap();
            }
        }
        rank.end();
    });
}

#[test]
fn gpu_memory_is_registered_mapped_or_staged() {
    for stages in [false, true] {
        let options = Options { stages, ..Options::default() };
        on_ranks(2, options, |rank: Rank| {
            let peer = 1 - rank.ranks.rank();
            let gpu = rank.ranks.allocator().gpu().clone();
            let memory = gpu.allocate(Allocation::Malloc, 64 << 10).unwrap();
            let region = rank.ranks.register_gpu(&memory, 4096..8192).unwrap();
            assert!(!region.is_staged());
            exchange(&rank, peer, &memory, &region);
            rank.end();
        });
    }
}

fn exchange(rank: &Rank, peer: u32, memory: &gpu::DeviceMemory, region: &mp::Region) {
    let ranks = &rank.ranks;
    let stream = rank.stream();
    let message = bytes(ranks.rank() as u8, 1000);
    let received = ranks.receive(peer, region, 2000..3000).unwrap();
    ranks.barrier().unwrap();
    stream.write(memory, 4096, &message).unwrap();
    let sent = ranks.start(&Transfer::send(peer, region, 0..1000)).unwrap();
    ranks.wait(sent).unwrap();
    assert_eq!(ranks.wait(received).unwrap(), 1000);
    let mut found = vec![0; 1000];
    stream.read(memory, 4096 + 2000, &mut found).unwrap();
    assert_eq!(found, bytes(peer as u8, 1000));
    // By a stream: what it writes before is sent, what it reads after was received.
    let received = ranks.receive(peer, region, 3000..4000).unwrap();
    ranks.barrier().unwrap();
    stream.fill(memory, 4096, 500, 5).unwrap();
    let send = Transfer::send(peer, region, 0..600);
    let sent = ranks.start_on(&stream, &send).unwrap();
    stream.fill(memory, 4096, 600, 6).unwrap();
    ranks.wait_on(&stream, [&received]).unwrap();
    stream.read(memory, 4096 + 3000, &mut found).unwrap();
    // Copies of staged memory are in the stream's order; a NIC reads the memory itself.
    let expected = [vec![5; 500], bytes(peer as u8, 1000)[500..600].to_vec()].concat();
    if region.is_staged() {
        assert_eq!(found[..600], expected);
    }
    assert_eq!(ranks.wait(received).unwrap(), 600);
    ranks.wait(sent).unwrap();
}

/// Without a mapping the software HCA cannot access GPU memory: an error, or staged.
#[test]
fn stages_unmapped_gpu_memory_on_request() {
    for stages in [false, true] {
        let options = Options { stages, ..Options::default() };
        let unmapped = || Allocator::new(Gpu::sim(), None);
        on_hcas(hcas(2), unmapped, options, |rank: Rank| {
            let gpu = rank.ranks.allocator().gpu().clone();
            let memory = gpu.allocate(Allocation::Malloc, 64 << 10).unwrap();
            let region = rank.ranks.register_gpu(&memory, 4096..8192);
            if stages {
                let region = region.unwrap();
                assert!(region.is_staged());
                exchange(&rank, 1 - rank.ranks.rank(), &memory, &region);
            } else {
                let error = region.unwrap_err().to_string();
                assert!(error.contains("needs a CPU mapping"), "{error}");
            }
            rank.end();
        });
    }
}
