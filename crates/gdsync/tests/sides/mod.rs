//! One side of a connection (HCA, queue pair, registered memory, stream of a simulated GPU), and tests for every HCA.

pub mod datagrams;
pub mod errors;
pub mod operations;

use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::CompletionQueue;
use gdsync::wire::{Completion, DataSegment, Event, Wqe};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Gpu, Stream};

/// Timeout of every wait.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a side's memory.
pub const BYTES: usize = 8192;

pub struct Side {
    pub hca: Box<dyn Hca>,
    pub pair: QueuePair,
    pub memory: MappedMemory,
    pub region: MemoryRegion,
    pub stream: Stream,
}

impl Side {
    pub fn new(request: &Request, open: impl FnOnce(Allocator) -> Box<dyn Hca>) -> Self {
        let allocator = Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok());
        let hca = open(allocator.clone());
        let memory = allocator.place(MemoryLocation::Host, BYTES).unwrap();
        Self {
            pair: hca.create(request).unwrap(),
            region: hca.register(&memory, Access::ALL).unwrap(),
            stream: allocator.gpu().stream().unwrap(),
            memory,
            hca,
        }
    }

    /// Connects it. Passes the remote endpoint as text, as between machines.
    pub fn connect(&self, peer: &Self, timeout: RetryPolicy) {
        let peer: Endpoint = peer.pair.endpoint.to_string().parse().unwrap();
        self.hca.connect(self.pair.endpoint, peer, timeout).unwrap();
    }

    /// A segment of its memory.
    pub fn at(&self, offset: u64, length: u32) -> DataSegment {
        self.region.segment(offset, length)
    }

    pub fn fill(&self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes).unwrap();
    }

    pub fn seen(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut seen = vec![0; bytes];
        self.memory.read(offset, &mut seen).unwrap();
        seen
    }

    /// Prepares a WQE and rings it by the stream. Returns its counter.
    pub fn ring(&mut self, entry: &Wqe) -> u16 {
        let prepared = self.pair.send.prepare(entry).unwrap();
        self.stream.batch(&prepared.operations().unwrap()).unwrap();
        prepared.counter()
    }

    /// Makes the stream wait for the next send completion.
    pub fn wait_sent(&mut self) {
        let wait = self.pair.send_completions.take_wait().unwrap();
        self.stream.batch(&wait.operations(true).unwrap()).unwrap();
    }

    /// Makes the stream wait for the next receive completion.
    pub fn wait_received(&mut self) {
        let wait = self.pair.receive_completions.take_wait().unwrap();
        self.stream.batch(&wait.operations(true).unwrap()).unwrap();
    }

    /// Waits for the stream.
    pub fn synchronize(&self) {
        self.stream.synchronize_within(TIMEOUT).unwrap();
    }

    /// Rings and waits by the stream, and returns the completion.
    pub fn sent(&mut self, entry: &Wqe) -> Completion {
        let counter = self.ring(entry);
        self.wait_sent();
        self.synchronize();
        let completion = self.next_sent();
        assert_eq!(completion.counter, counter);
        completion
    }

    /// The next send completion, passed to the queue.
    pub fn next_sent(&mut self) -> Completion {
        let completion = next(&mut self.pair.send_completions);
        self.pair.send.complete(&completion).unwrap();
        completion
    }

    /// The next receive completion, passed to the queue.
    pub fn next_received(&mut self) -> Completion {
        let completion = next(&mut self.pair.receive_completions);
        self.pair.receive.complete(&completion).unwrap();
        completion
    }

    /// Syndrome and vendor syndrome of the next send completion.
    pub fn next_failed(&mut self) -> (u8, u8) {
        failure(&self.next_sent())
    }
}

/// Syndrome and vendor syndrome of an error completion.
pub fn failure(completion: &Completion) -> (u8, u8) {
    match completion.event {
        Event::SendFailed(failed) | Event::ReceiveFailed(failed) => {
            (failed.syndrome.code(), failed.vendor)
        }
        _ => panic!("{completion:?}"),
    }
}

/// The next completion of a queue.
pub fn next(queue: &mut CompletionQueue) -> Completion {
    let start = Instant::now();
    loop {
        if let Some(completion) = queue.poll().unwrap() {
            return completion;
        }
        assert!(start.elapsed() < TIMEOUT, "no completion");
        std::thread::yield_now();
    }
}

/// Small queues: eight blocks, four receives, completion queues of eight.
pub const SMALL: fn() -> Request = || Request {
    send_blocks: 8,
    receives: 4,
    receive_segments: 2,
    send_completions: 8,
    receive_completions: 8,
    ..Request::default()
};

/// Test bytes that depend on position and seed.
pub fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect()
}
