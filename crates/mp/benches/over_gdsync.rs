//! Compares messages of this crate with the same exchange written with `gdsync` alone, alternating in one process:
//! `cargo bench -p mp --bench over_gdsync -- [BLOCKS]`, or the binary itself. On GPU 0 if there is one, else on a simulated GPU; on software HCAs.
//!
//! 1. Ping-pong: two ranks in this thread exchange a message of 8 bytes and its answer. Both ways post a receive, build a WQE, ring and
//!    poll.
//! 2. Posting sends on a stream, 32 in a row: building each WQE, and a batch of two writes and the barrier between them.
//!
//! Prints the median times and their ratios; a ratio above 1 means that ours is slower.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::Wqe;
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Gpu, MemOp, Stream};
use mp::bootstrap::Local;
use mp::{Communicator, Options, Region, Transfer};

const BYTES: usize = 8;
/// Exchanges of a block; the ways alternate block by block.
const BLOCK: usize = 200;
const BLOCKS: usize = 100;
/// Messages on a stream before it is waited for.
const POSTED: usize = 32;
const DEPTH: u32 = 64;

/// Two HCAs, linked, and their allocators.
fn machine() -> [(Arc<SimHca>, Allocator); 2] {
    let gpu = Gpu::open(0).unwrap_or_else(|_| Gpu::sim());
    let gdr = if gpu.is_sim() { Gdr::open_with(BackendKind::Sim).ok() } else { Gdr::open().ok() };
    let hcas = [1, 2].map(|lid| {
        let allocator = Allocator::new(gpu.clone(), gdr.clone());
        let hca = SimHca::with_lid(allocator.clone(), lid).expect("an HCA");
        (Arc::new(hca), allocator)
    });
    hcas[0].0.join(&hcas[1].0);
    hcas
}

/// A way to exchange messages.
trait Way {
    /// Posts a receive at a rank.
    fn receive(&mut self, rank: usize);
    /// Sends from a rank.
    fn send(&mut self, rank: usize);
    /// Waits for the next message at a rank.
    fn arrive(&mut self, rank: usize);
    /// Waits for the sends of a rank.
    fn sent(&mut self, rank: usize);
    /// Sends from rank 0 when the stream reaches it.
    fn send_on(&mut self, stream: &Stream);
}

/// `gdsync` alone.
struct Direct {
    pairs: [QueuePair; 2],
    regions: [MemoryRegion; 2],
    open: [u32; 2],
}

impl Direct {
    fn new(machine: &[(Arc<SimHca>, Allocator); 2]) -> Self {
        let request = Request {
            send_blocks: 2 * DEPTH,
            receives: DEPTH,
            send_completions: DEPTH,
            receive_completions: DEPTH,
            ..Request::default()
        };
        let pairs = machine.each_ref().map(|(hca, _)| hca.create(&request).expect("a queue pair"));
        let endpoints = [pairs[0].endpoint, pairs[1].endpoint];
        for (rank, (hca, _)) in machine.iter().enumerate() {
            hca.connect(endpoints[rank], endpoints[1 - rank], RetryPolicy::default())
                .expect("a connection");
        }
        let regions = machine.each_ref().map(|(hca, allocator)| {
            let place = place(allocator);
            hca.register(&place, Access::ALL).expect("registered")
        });
        Self { pairs, regions, open: [0; 2] }
    }

    fn wqe(&self, rank: usize) -> Wqe {
        Wqe::send(&[self.regions[rank].segment(0, BYTES as u32)]).signalled()
    }
}

fn place(allocator: &Allocator) -> MappedMemory {
    let place = allocator.place(MemoryLocation::Host, 4096);
    place.expect("memory")
}

impl Way for Direct {
    fn receive(&mut self, rank: usize) {
        let segment = self.regions[rank].segment(1024, BYTES as u32);
        self.pairs[rank].receive.post(&[segment]).expect("posted");
    }

    fn send(&mut self, rank: usize) {
        let wqe = self.wqe(rank);
        let prepared = self.pairs[rank].send.prepare(&wqe).expect("prepared");
        prepared.ring().expect("rung");
        self.open[rank] += 1;
    }

    fn arrive(&mut self, rank: usize) {
        let pair = &mut self.pairs[rank];
        let start = Instant::now();
        let completion = loop {
            match pair.receive_completions.poll().expect("polled") {
                Some(completion) => break completion,
                None => pause(start.elapsed()),
            }
        };
        assert!(completion.event.failed().is_none());
        pair.receive.complete(&completion).expect("its WQE");
    }

    fn sent(&mut self, rank: usize) {
        let pair = &mut self.pairs[rank];
        let start = Instant::now();
        while self.open[rank] > 0 {
            match pair.send_completions.poll().expect("polled") {
                Some(completion) => {
                    assert!(completion.event.failed().is_none());
                    pair.send.complete(&completion).expect("its WQE");
                    self.open[rank] -= 1;
                }
                None => pause(start.elapsed()),
            }
        }
    }

    fn send_on(&mut self, stream: &Stream) {
        let wqe = self.wqe(0);
        let prepared = self.pairs[0].send.prepare(&wqe).expect("prepared");
        let ops = prepared.operations().expect("the operations");
        stream.batch(&ops).expect("enqueued");
        self.open[0] += 1;
    }
}

/// As the crate waits.
fn pause(waited: Duration) {
    if waited < Duration::from_micros(200) {
        std::hint::spin_loop()
    } else {
        std::thread::yield_now()
    }
}

/// This crate.
struct Ours {
    ranks: Vec<Communicator>,
    regions: Vec<Region>,
    receives: [VecDeque<mp::Request>; 2],
    sends: [Vec<mp::Request>; 2],
}

impl Ours {
    fn new(machine: &[(Arc<SimHca>, Allocator); 2]) -> Self {
        let threads = Local::ranks(2).into_iter().zip(machine.clone());
        let threads = threads.map(|(bootstrap, (hca, allocator))| {
            std::thread::spawn(move || {
                let options = Options { depth: DEPTH, ..Options::default() };
                Communicator::connect(Box::new(bootstrap), hca, allocator, options)
                    .expect("a connection")
            })
        });
        let threads: Vec<_> = threads.collect();
        let ranks = threads.into_iter().map(|thread| thread.join().expect("a rank"));
        let ranks: Vec<Communicator> = ranks.collect();
        let register = |ranks: &Communicator| {
            let place = place(ranks.allocator());
            ranks.register(&place).expect("registered")
        };
        Self {
            regions: ranks.iter().map(register).collect(),
            ranks,
            receives: [VecDeque::new(), VecDeque::new()],
            sends: [Vec::new(), Vec::new()],
        }
    }

    fn transfer(&self, rank: usize) -> Transfer<'_> {
        Transfer::send(1 - rank as u32, &self.regions[rank], 0..BYTES)
    }
}

impl Way for Ours {
    fn receive(&mut self, rank: usize) {
        let peer = 1 - rank as u32;
        let range = 1024..1024 + BYTES;
        let received = self.ranks[rank].receive(peer, &self.regions[rank], range);
        self.receives[rank].push_back(received.expect("posted"));
    }

    fn send(&mut self, rank: usize) {
        let sent = self.ranks[rank].start(&self.transfer(rank));
        self.sends[rank].push(sent.expect("started"));
    }

    fn arrive(&mut self, rank: usize) {
        if let Some(received) = self.receives[rank].pop_front() {
            self.ranks[rank].wait(received).expect("received");
        }
    }

    fn sent(&mut self, rank: usize) {
        for sent in self.sends[rank].drain(..) {
            self.ranks[rank].wait(sent).expect("sent");
        }
    }

    fn send_on(&mut self, stream: &Stream) {
        let sent = self.ranks[0].start_on(stream, &self.transfer(0));
        self.sends[0].push(sent.expect("started"));
    }
}

/// Seconds per message and answer of each exchange of a block.
fn ping_pong(way: &mut dyn Way, times: &mut Vec<f64>) {
    for _ in 0..BLOCK {
        let begun = Instant::now();
        way.receive(0);
        way.receive(1);
        way.send(0);
        way.arrive(1);
        way.send(1);
        way.arrive(0);
        way.sent(0);
        way.sent(1);
        times.push(begun.elapsed().as_secs_f64());
    }
}

/// Seconds per post of [`POSTED`] in a row, behind a closed gate so that nothing is sent meanwhile.
fn post(way: &mut dyn Way, stream: &Stream, gate: &MappedMemory, times: &mut Vec<f64>) {
    for _ in 0..POSTED {
        way.receive(1);
    }
    let closed = MemOp::Wait32 {
        at: gate.word(0, 4).expect("a word"),
        value: 1,
        compare: gpu::Compare::Eq,
        flush: false,
    };
    gate.store_u32(0, 0).expect("closed");
    stream.batch(&[closed]).expect("enqueued");
    for _ in 0..POSTED {
        let begun = Instant::now();
        way.send_on(stream);
        times.push(begun.elapsed().as_secs_f64());
    }
    gate.store_u32(0, 1).expect("open");
    for _ in 0..POSTED {
        way.arrive(1);
    }
    way.sent(0);
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let machine = machine();
    let (mut direct, mut ours) = (Direct::new(&machine), Ours::new(&machine));
    let allocator = &machine[0].1;
    let stream = allocator.gpu().stream().expect("a stream");
    let gate = place(allocator);
    let (mut exchanges, mut posts) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let argument = std::env::args().filter_map(|argument| argument.parse().ok());
    let blocks: usize = { argument }.next().unwrap_or(BLOCKS);
    for block in 0..=blocks {
        for (position, way) in [&mut direct as &mut dyn Way, &mut ours].into_iter().enumerate() {
            ping_pong(way, &mut exchanges[position]);
            post(way, &stream, &gate, &mut posts[position]);
        }
        // The first block warms up.
        if block == 0 {
            exchanges.iter_mut().chain(&mut posts).for_each(Vec::clear);
        }
    }
    let name = &allocator.gpu().device().name;
    let mut out = std::io::stdout();
    for (what, [bare, own]) in
        [("message and answer", &mut exchanges), ("posting a send on a stream", &mut posts)]
    {
        let (bare, own) = (median(bare) * 1e6, median(own) * 1e6);
        let line = writeln!(
            out,
            "{name}: {what}: gdsync {bare:.3} us, mp {own:.3} us, ratio {:.3}",
            own / bare
        );
        line.expect("written");
    }
}
