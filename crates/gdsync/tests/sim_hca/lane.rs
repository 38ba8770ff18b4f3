//! A queue pair connected to itself, two memories and a reference model. Compares every WQE in the ring, every CQE in its slot,
//! and the memories while nothing is in progress.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::{CompletionQueue, Prepared};
use gdsync::wire::{Completion, DataSegment, Operation, RemoteAddress, Wqe};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Gpu, MemOp, Stream};

use super::model::{Address, MEMORY, Model, Op, Random};
use super::table::{
    COMPARE_SWAP, CompletionEntry, FETCH_ADD, NOP, READ, SEND, SEND_IMM, WRITE, WRITE_IMM,
};

/// Timeout of every wait.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub fn allocator() -> Allocator {
    Allocator::new(Gpu::sim(), Some(Gdr::open_with(BackendKind::Sim).unwrap()))
}

/// Polls until there is a result.
pub fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    let mut polls = 0_u32;
    loop {
        if let Some(result) = poll() {
            return result;
        }
        assert!(start.elapsed() < TIMEOUT, "timeout: {what}");
        polls += 1;
        match polls {
            0..1000 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// The next completion of a queue.
pub fn polled(queue: &mut CompletionQueue) -> Completion {
    until("a completion", || queue.poll().unwrap())
}

/// Prepares a WQE and rings its doorbell by the CPU.
pub fn ring(pair: &mut QueuePair, entry: &Wqe) {
    pair.send.prepare(entry).unwrap().ring().unwrap();
}

/// Prepares a WQE and returns the stream operations of its doorbell.
pub fn rung(pair: &mut QueuePair, entry: &Wqe) -> [MemOp; 3] {
    pair.send.prepare(entry).unwrap().operations().unwrap()
}

/// The stream operations that wait for the next completion.
pub fn waited(queue: &mut CompletionQueue, flush: bool) -> [MemOp; 2] {
    queue.take_wait().unwrap().operations(flush).unwrap()
}

pub fn bytes(place: &MappedMemory) -> Vec<u8> {
    let mut bytes = vec![0; place.len()];
    place.read(0, &mut bytes).unwrap();
    bytes
}

/// Memory registered with all access rights.
#[derive(Debug)]
pub struct Registered {
    pub place: MappedMemory,
    pub region: MemoryRegion,
}

impl Registered {
    pub fn new(
        hca: &SimHca,
        allocator: &Allocator,
        location: MemoryLocation,
        contents: &[u8],
    ) -> Self {
        let place = allocator.place(location, contents.len()).unwrap();
        place.write(0, contents).unwrap();
        let region = hca.register(&place, Access::ALL).unwrap();
        Self { place, region }
    }

    fn address(&self) -> Address {
        Address { base: self.place.address(), key: self.region.lkey }
    }
}

/// In each round, both streams send to the other side and wait for both completions. The memories hold 1 and 2; after eight
/// rounds each has 512 bytes of the other.
pub fn exchange(
    streams: &[Stream; 2],
    [one, two]: [(&mut QueuePair, &Registered); 2],
    rounds: u64,
) {
    let memories = [one.1, two.1];
    let mut sides = [one, two];
    for round in 0..rounds {
        let offset = round % 8 * 64;
        for (pair, memory) in &mut sides {
            pair.receive.post(&[memory.region.segment(1024 + offset, 64)]).unwrap();
        }
        for (stream, (pair, memory)) in streams.iter().zip(&mut sides) {
            let entry = Wqe::send(&[memory.region.segment(offset, 64)]).signalled();
            let mut batch = rung(pair, &entry).to_vec();
            for queue in [&mut pair.send_completions, &mut pair.receive_completions] {
                batch.extend(waited(queue, true));
            }
            stream.batch(&batch).unwrap();
        }
        for (stream, (pair, _)) in streams.iter().zip(&mut sides) {
            stream.synchronize_within(TIMEOUT).unwrap();
            let sent = pair.send_completions.poll().unwrap().unwrap();
            pair.send.complete(&sent).unwrap();
            let received = pair.receive_completions.poll().unwrap().unwrap();
            pair.receive.complete(&received).unwrap();
        }
    }
    assert_eq!(bytes(&memories[0].place)[1024..1536], [2; 512]);
    assert_eq!(bytes(&memories[1].place)[1024..1536], [1; 512]);
}

/// What rings doorbells or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Cpu,
    Stream,
}

/// Parameters of a lane.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub request: Request,
    pub memory: MemoryLocation,
}

pub struct Lane {
    pub pair: QueuePair,
    local: Registered,
    peer: Registered,
    model: Model,
    shape: Shape,
    /// Completions of the send and the receive queue.
    counts: [u32; 2],
    expected: [VecDeque<CompletionEntry>; 2],
    prepared: Vec<Prepared>,
    /// The last WQE is not signalled.
    unsignalled: bool,
}

impl Lane {
    pub fn new(hca: &SimHca, allocator: &Allocator, shape: Shape, random: &mut Random) -> Self {
        let pair = hca.create(&shape.request).unwrap();
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default()).unwrap();
        let (local, peer) = (random.bytes(MEMORY), random.bytes(MEMORY));
        Self {
            pair,
            local: Registered::new(hca, allocator, shape.memory, &local),
            peer: Registered::new(hca, allocator, shape.memory, &peer),
            model: Model::new(local, peer),
            shape,
            counts: [0; 2],
            expected: Default::default(),
            prepared: Vec::new(),
            unsignalled: false,
        }
    }

    /// True if the send queue is large enough for the WQE.
    pub fn holds(&self, op: &Op) -> bool {
        let blocks = self.entry(op).blocks().unwrap();
        blocks <= self.shape.request.send_blocks as usize
    }

    /// Posts a receive for a message of `length` bytes.
    pub fn post(&mut self, random: &mut Random, length: usize) {
        let most = self.shape.request.receive_segments as usize;
        let mut pieces = random.pieces(random.clone().below(most), 60);
        let room: usize = pieces.iter().map(|&(_, length)| length as usize).sum();
        let rest = length.saturating_sub(room);
        pieces.push((random.below(MEMORY - rest), rest as u32));
        let region = &self.peer.region;
        let segments: Vec<DataSegment> =
            pieces.iter().map(|&(offset, length)| region.segment(offset as u64, length)).collect();
        self.pair.receive.post(&segments).unwrap();
        self.model.post(&pieces);
    }

    /// Prepares a WQE without ringing, after making room. It is signalled if the queue would be full without a completion.
    pub fn prepare(&mut self, op: &Op, random: &mut Random) {
        let blocks = self.entry(op).blocks().unwrap() as u32;
        let mut op = op.clone();
        let receives = self.expected[1].len() as u32;
        let no_room = self.pair.send.free() < blocks
            || self.pair.receive.free() == 0
            || self.expected[0].len() as u32 + 1 >= self.shape.request.send_completions
            || receives + 1 >= self.shape.request.receive_completions;
        if no_room {
            self.settle(By::Cpu, By::Cpu, None);
        }
        op.signalled |= self.pair.send.free() <= blocks;
        if op.takes_receive() {
            self.post(random, op.length());
        }
        let qpn = self.pair.send.qpn();
        let prepared = self.pair.send.prepare(&self.entry(&op)).unwrap();
        let index = prepared.counter();
        // Compare the ring with the reference encoding.
        let table = op.table(index, qpn, self.local.address(), self.peer.address()).bytes();
        let depth = self.shape.request.send_blocks as usize;
        for (position, block) in table.chunks(64).enumerate() {
            let slot = (usize::from(index) + position) % depth;
            let mut found = [0; 64];
            self.pair.send.parts().ring.read(slot * 64, &mut found).unwrap();
            assert_eq!(found[..], *block, "block {position} of {op:?}");
        }
        self.unsignalled = !op.signalled;
        let (send, receive) = self.model.apply(&op, index, qpn);
        self.expected[0].extend(send);
        self.expected[1].extend(receive);
        self.prepared.push(prepared);
    }

    /// Rings all prepared WQEs and waits for their completions.
    pub fn settle(&mut self, ring: By, wait: By, stream: Option<&Stream>) {
        self.ring(ring, wait, stream);
        self.drain();
    }

    pub fn ring(&mut self, ring: By, wait: By, stream: Option<&Stream>) {
        if self.unsignalled {
            self.unsignalled = false;
            // A signalled no-op reports the end; one block is reserved for it.
            let op = Op { opcode: NOP, signalled: true, ..Op::default() };
            let qpn = self.pair.send.qpn();
            let prepared = self.pair.send.prepare(&self.entry(&op)).unwrap();
            let (send, _) = self.model.apply(&op, prepared.counter(), qpn);
            self.expected[0].extend(send);
            self.prepared.push(prepared);
        }
        let mut batch = Vec::new();
        for prepared in self.prepared.drain(..) {
            match ring {
                By::Cpu => prepared.ring().unwrap(),
                By::Stream => batch.extend(prepared.operations().unwrap()),
            }
        }
        if wait == By::Stream {
            let queues = [&mut self.pair.send_completions, &mut self.pair.receive_completions];
            for (queue, expected) in queues.into_iter().zip(&self.expected) {
                for _ in expected {
                    batch.extend(waited(queue, false));
                }
            }
        }
        if let Some(stream) = stream {
            stream.batch(&batch).unwrap();
        }
    }

    /// Polls and compares the expected completions.
    pub fn drain(&mut self) {
        for side in [1, 0] {
            while let Some(expected) = self.expected[side].pop_front() {
                let queue = match side {
                    0 => &mut self.pair.send_completions,
                    _ => &mut self.pair.receive_completions,
                };
                let completion = polled(queue);
                let (n, entries) = (self.counts[side], queue.entries());
                let mut found = [0; 64];
                let slot = (n % entries) as usize * 64;
                queue.parts().ring.read(slot, &mut found).unwrap();
                found[48..56].fill(0);
                let owner = n / entries % 2 == 1;
                if queue.parts().waiting == gdsync::queue::Waiting::Nor {
                    assert_eq!(found, expected.bytes(owner), "completion {n}: {expected:?}");
                }
                assert_eq!(completion.counter, expected.counter);
                assert_eq!(completion.bytes, expected.byte_count);
                self.counts[side] = n.wrapping_add(1);
                match side {
                    0 => self.pair.send.complete(&completion).unwrap(),
                    _ => self.pair.receive.complete(&completion).unwrap(),
                };
            }
        }
        assert!(self.pair.send_completions.poll().unwrap().is_none());
        assert!(self.pair.receive_completions.poll().unwrap().is_none());
    }

    /// Compares both memories with the model. Nothing may be in progress.
    pub fn compare(&self) {
        assert!(bytes(&self.local.place) == self.model.local, "local memory differs");
        assert!(bytes(&self.peer.place) == self.model.peer, "remote memory differs");
    }

    /// Number of completions polled from each queue.
    pub fn counts(&self) -> [u32; 2] {
        self.counts
    }

    /// The WQE in the crate's types.
    fn entry(&self, op: &Op) -> Wqe {
        let remote: RemoteAddress = self.peer.region.remote(op.remote as u64);
        let immediate = op.has_immediate().then_some(op.immediate);
        let operation = match op.opcode {
            NOP => Operation::Nop,
            SEND | SEND_IMM => Operation::Send { immediate },
            WRITE | WRITE_IMM => Operation::Write { remote, immediate },
            READ => Operation::Read { remote },
            COMPARE_SWAP => Operation::CompareSwap { remote, compare: op.second, swap: op.first },
            FETCH_ADD => Operation::FetchAdd { remote, add: op.first },
            other => panic!("opcode {other}"),
        };
        let local = &self.local.region;
        let segments: Vec<DataSegment> = op
            .pieces
            .iter()
            .map(|&(offset, length)| local.segment(offset as u64, length))
            .collect();
        let mut entry = Wqe::new(operation, &segments);
        if let Some(bytes) = &op.inline {
            entry = entry.inline(bytes);
        }
        entry.flags.signalled = op.signalled;
        entry.flags.solicited = op.solicited;
        entry
    }
}
