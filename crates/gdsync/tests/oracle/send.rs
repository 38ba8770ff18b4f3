//! Random sends by Debian's provider and by our encoder: compares every byte of the send queue, the doorbell record and the
//! doorbell register, over many passes of the queue and of the 16-bit counter.

use std::collections::VecDeque;
use std::ptr::null_mut;

use ibverbs_sys as ib;

use crate::address::addresses;
use crate::encode;
use crate::hand;
use crate::inside::inside;
use crate::kernel::Builder;
use crate::provider::{Completions, Device, QueuePair};
use crate::random::Random;
use crate::request::{Kind, Request};

/// Minimum requests per run.
const REQUESTS: usize = 10_000;

/// Minimum blocks per run: the 16-bit counter wraps.
const BLOCKS: u32 = 70_000;

#[test]
#[ignore = "needs libmlx5"]
fn reliable_connection() {
    inside("send::reliable_connection", &[("MLX5_SHUT_UP_BF", "1")], || {
        run(ib::ibv_qp_type::IBV_QPT_RC, false, Doorbell::Eight);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn reliable_connection_all_signalled() {
    inside("send::reliable_connection_all_signalled", &[("MLX5_SHUT_UP_BF", "1")], || {
        run(ib::ibv_qp_type::IBV_QPT_RC, true, Doorbell::Eight)
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn unreliable_connection() {
    inside("send::unreliable_connection", &[("MLX5_SHUT_UP_BF", "1")], || {
        run(ib::ibv_qp_type::IBV_QPT_UC, false, Doorbell::Eight);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn datagrams() {
    inside("send::datagrams", &[("MLX5_SHUT_UP_BF", "1")], || {
        run(ib::ibv_qp_type::IBV_QPT_UD, false, Doorbell::Eight);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn blue_flame() {
    inside("send::blue_flame", &[], || {
        run(ib::ibv_qp_type::IBV_QPT_RC, false, Doorbell::BlueFlame);
    });
}

/// With BlueFlame, but the queue pair shares its register with others.
#[test]
#[ignore = "needs libmlx5"]
fn shared_register() {
    inside("send::shared_register", &[], || {
        run(ib::ibv_qp_type::IBV_QPT_RC, false, Doorbell::Shared);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn datagrams_by_blue_flame() {
    inside("send::datagrams_by_blue_flame", &[], || {
        run(ib::ibv_qp_type::IBV_QPT_UD, false, Doorbell::BlueFlame);
    });
}

/// How a doorbell is rung.
#[derive(Clone, Copy, PartialEq)]
enum Doorbell {
    /// The first eight bytes of the last WQE.
    Eight,
    /// Whole blocks of a WQE that is posted alone and fits in the register's buffer; otherwise eight bytes.
    BlueFlame,
    /// The first eight bytes, always to the same address.
    Shared,
}

/// A request without a completion.
struct Posted {
    id: u64,
    /// Counter of its first block.
    index: u32,
    opcode: u8,
}

fn run(kind: ib::ibv_qp_type::Type, signals_all: bool, doorbell: Doorbell) {
    let mut random = Random(0x6764_7379_6e63 ^ u64::from(kind));
    let device = Device::open();
    let mut sent = device.completions(64);
    let received = device.completions(64);
    let cap = ib::ibv_qp_cap {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 6,
        max_recv_sge: 1,
        max_inline_data: 700,
    };
    if doorbell == Doorbell::Shared {
        // The fake kernel has 15 registers that are not shared.
        for _ in 0..15 {
            device.pair(kind, &sent, &received, cap, signals_all);
        }
    }
    let pair = device.pair(kind, &sent, &received, cap, signals_all);
    // The fake kernel's registers have two buffers of 256 bytes, used alternately.
    assert_eq!(pair.buffer_size, if doorbell == Doorbell::Shared { 0 } else { 256 });
    let mut arena = vec![0; 1 << 16];
    arena.fill_with(|| random.byte());
    let datagrams = kind == ib::ibv_qp_type::IBV_QPT_UD;
    let known = if datagrams { addresses(&device, &mut random, 64) } else { Vec::new() };
    let kind = Kind {
        datagrams,
        reads: kind == ib::ibv_qp_type::IBV_QPT_RC,
        most_pieces: cap.max_send_sge as usize,
        most_inline: pair.cap.max_inline_data as usize,
        arena: &arena,
        addresses: &known,
    };

    let mut queue = Queue::new(&pair, doorbell, signals_all, datagrams);
    let mut requests = 0;
    while requests < REQUESTS || queue.counter < BLOCKS {
        let chain = 1 + random.below(4);
        while queue.posted.len() + chain >= pair.cap.max_send_wr as usize {
            queue.complete(&mut sent, &mut random);
        }
        let chain: Vec<Request> = (0..chain).map(|_| Request::random(&mut random, &kind)).collect();
        queue.post(&chain, &arena, &mut random);
        requests += chain.len();
    }
}

/// The expected state of the provider's send queue.
struct Queue<'a> {
    pair: &'a QueuePair,
    doorbell: Doorbell,
    signals_all: bool,
    datagrams: bool,
    /// Number of posted blocks.
    counter: u32,
    /// Offset of the register's buffer for the next doorbell.
    buffer: usize,
    posted: VecDeque<Posted>,
    /// Posts the same requests by a kernel.
    kernel: Builder,
}

impl<'a> Queue<'a> {
    fn new(pair: &'a QueuePair, doorbell: Doorbell, signals_all: bool, datagrams: bool) -> Self {
        Self {
            pair,
            doorbell,
            signals_all,
            datagrams,
            counter: 0,
            buffer: 0,
            posted: VecDeque::new(),
            kernel: Builder::new(pair.sq.length()),
        }
    }

    /// Posts requests in one list and compares everything that the provider has written with our encoding.
    ///
    /// The queue is filled with one byte first, to detect bytes that the provider does not write.
    fn post(&mut self, chain: &[Request], arena: &[u8], random: &mut Random) {
        let fill = random.byte();
        self.pair.sq.fill(fill);
        self.pair.register.fill(!fill);
        let received = self.pair.record.four(0);
        post(self.pair, chain);

        let mut expected = vec![fill; self.pair.sq.length()];
        let begin = self.counter;
        let mut last = (0, 0);
        let mut entries = Vec::new();
        let mut unwritten = Vec::new();
        for request in chain {
            let index = self.counter as u16;
            let encoded = encode::send(request, self.signals_all, self.pair.number, index, arena);
            assert_eq!(encoded.blocks.len() % 64, 0);
            let length = expected.len();
            let start = self.counter as usize * 64 % length;
            for at in (0..encoded.segments * 16).filter(|at| !encoded.unwritten.contains(at)) {
                expected[(start + at) % length] = encoded.blocks[at];
            }
            unwritten.extend(encoded.unwritten.iter().map(|at| (start + at) % length));
            last = (self.counter, encoded.segments);
            entries.push((start, encoded.blocks.clone()));
            self.posted.push_back(Posted {
                id: request.id,
                index: self.counter,
                opcode: encoded.blocks[3],
            });
            self.counter += u32::try_from(encoded.blocks.len() / 64).expect("a few blocks");
        }
        let found = self.pair.sq.read();
        assert!(
            found == expected,
            "the send queue at {:#x}, {} blocks, after {chain:#x?}\n{}",
            self.counter,
            expected.len() / 64,
            difference(&found, &expected)
        );
        self.check_kernel(chain, (begin, last.0), (&found, &unwritten), fill, arena);
        for (start, blocks) in entries {
            // Our decoder reads the provider's bytes as the same WQE.
            let around = found[start..].iter().chain(&found);
            let written: Vec<u8> = around.take(blocks.len()).copied().collect();
            assert_eq!(encode::reencode(&written, self.datagrams), blocks);
        }
        let record = self.pair.record;
        assert_eq!(
            record.four(4),
            encode::record(self.counter),
            "the doorbell record's second word"
        );
        assert_eq!(record.four(0), received, "the doorbell record's first word");
        self.check_doorbell(last, chain.len(), &expected, !fill);
    }

    /// A kernel writes what the provider has written: the queue, but for bytes that the provider leaves as they were, the doorbell record
    /// and the doorbell.
    fn check_kernel(
        &self,
        chain: &[Request],
        (begin, last): (u32, u32),
        (found, unwritten): (&[u8], &[usize]),
        fill: u8,
        arena: &[u8],
    ) {
        let place = (self.pair.number, begin, self.signals_all);
        let (mut ring, record, doorbell) = self.kernel.post(chain, place, fill, arena);
        for at in unwritten {
            ring[*at] = fill;
        }
        assert!(
            ring == found,
            "by a kernel at {begin:#x}, after {chain:#x?}\n{}",
            difference(found, &ring)
        );
        assert_eq!(record, self.pair.record.four(4), "the doorbell record");
        let start = last as usize * 64 % found.len();
        assert_eq!(doorbell, found[start..start + 8], "the doorbell");
    }

    /// Compares the whole doorbell register.
    fn check_doorbell(
        &mut self,
        (index, segments): (u32, usize),
        requests: usize,
        queue: &[u8],
        fill: u8,
    ) {
        let size = self.pair.buffer_size;
        let mut expected = vec![fill; self.pair.register.length()];
        let copied = self.doorbell == Doorbell::BlueFlame
            && requests == 1
            && segments > 1
            && segments * 16 <= size;
        let start = index as usize * 64 % queue.len();
        if copied {
            for at in 0..(segments * 16).next_multiple_of(64) {
                expected[self.buffer + at] = queue[(start + at) % queue.len()];
            }
        } else {
            expected[self.buffer..self.buffer + 8]
                .copy_from_slice(&encode::ring(queue[start..].first_chunk().expect("a block")));
        }
        let found = self.pair.register.read();
        assert!(found == expected, "the doorbell register\n{}", difference(&found, &expected));
        let doorbell = *found[self.buffer..].first_chunk().expect("eight bytes");
        assert_eq!(encode::rung(doorbell), (self.pair.number, index as u16));
        self.buffer ^= size;
    }

    /// Completes requests up to a random one by a single CQE.
    fn complete(&mut self, sent: &mut Completions, random: &mut Random) {
        let last = random.below(self.posted.len());
        let posted = self.posted.drain(..=last).next_back().expect("one at least");
        let entry = hand::requester(self.pair, posted.index as u16, posted.opcode, sent.owner());
        sent.put(&entry);
        let mut wc = ib::ibv_wc::default();
        assert_eq!(sent.poll(&mut wc), 1);
        assert_eq!((wc.wr_id(), wc.error(), wc.qp_num), (posted.id, None, self.pair.number));
    }
}

/// Posts one list of requests.
fn post(pair: &QueuePair, chain: &[Request]) {
    let mut works: Vec<_> = chain.iter().map(Request::of_verbs).collect();
    let mut next = null_mut();
    for (pieces, work) in works.iter_mut().rev() {
        work.sg_list = pieces.as_mut_ptr();
        work.next = next;
        next = work;
    }
    let mut bad = null_mut();
    // SAFETY: the queue pair is live; the requests, their SGEs and the arena of inline data outlive the call.
    let result = unsafe { ib::ibv_post_send(pair.qp, next, &mut bad) };
    assert_eq!(result, 0, "ibv_post_send of {chain:#x?}");
}

/// The blocks of 16 bytes that differ.
pub fn difference(found: &[u8], expected: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (number, (found, expected)) in found.chunks(16).zip(expected.chunks(16)).enumerate() {
        if found != expected {
            let at = number * 16;
            let _ = writeln!(
                text,
                "{at:#06x}: provider {found:02x?}\n        expected {expected:02x?}"
            );
        }
    }
    text
}
