//! Random requests checked against a model of memory: data, order and content of completions.

use ib::{ibv_wc_opcode as done, ibv_wr_opcode as wr};
use ibverbs_sys as ib;

use crate::bench::QueuePair;
use crate::device::{ALL, Device, Memory};
use crate::random::Random;
use crate::work::{FENCE, INLINE, SIGNALLED, Work};

/// Bytes of a lane's memory.
const BYTES: usize = 4096;

type Place = (usize, usize);

/// Two connected ends, or one connected to itself, with memory of their own.
pub struct Lane {
    ends: Vec<(QueuePair, QueuePair)>,
    memory: Memory,
    /// Expected content of the memory.
    model: Vec<u8>,
    /// The next request's id.
    pub next: u64,
}

/// Expected content of a completion.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    id: u64,
    opcode: u32,
    /// For reads, atomic operations and receives.
    bytes: Option<usize>,
    immediate: Option<u32>,
}

impl Expected {
    fn of(wc: &ib::ibv_wc, with_bytes: bool) -> Self {
        assert_eq!(wc.error(), None, "request {}", wc.wr_id());
        Self {
            id: wc.wr_id(),
            opcode: wc.opcode(),
            bytes: with_bytes.then_some(wc.len()),
            immediate: wc.imm_data(),
        }
    }
}

/// A list of requests and the expected results.
pub struct Batch {
    works: Vec<Work>,
    receives: Vec<(u64, Vec<ib::ibv_sge>)>,
    receives_late: bool,
    ends: (QueuePair, QueuePair),
    sent: Vec<Expected>,
    received: Vec<Expected>,
}

impl Lane {
    pub fn new(device: &Device, ends: Vec<(QueuePair, QueuePair)>, random: &mut Random) -> Self {
        let memory = device.memory(BYTES, ALL);
        let model: Vec<u8> = (0..BYTES).map(|_| random.byte()).collect();
        memory.write(0, &model);
        Self { ends, memory, model, next: 0 }
    }

    fn places(&self, random: &mut Random, most: usize) -> Vec<Place> {
        let count = random.below(most + 1);
        let place = |_| {
            let length = 1 + random.below(50);
            (random.below(BYTES - length), length)
        };
        (0..count).map(place).collect()
    }

    fn sges(&self, places: &[Place]) -> Vec<ib::ibv_sge> {
        places.iter().map(|(at, length)| self.memory.sge(*at, *length)).collect()
    }

    fn put(&mut self, bytes: &[u8], places: &[Place]) {
        let mut left = bytes;
        for (at, length) in places {
            let (now, later) = left.split_at((*length).min(left.len()));
            self.model[*at..at + now.len()].copy_from_slice(now);
            left = later;
        }
        assert!(left.is_empty());
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.model[at..].first_chunk().expect("eight bytes"))
    }

    /// A random list of requests; updates the model as if all were executed.
    pub fn batch(&mut self, random: &mut Random) -> Batch {
        let ends = self.ends[random.below(self.ends.len())];
        let mut batch = Batch {
            works: Vec::new(),
            receives: Vec::new(),
            receives_late: random.one_in(4),
            ends,
            sent: Vec::new(),
            received: Vec::new(),
        };
        let before = self.model.clone();
        let count = 1 + random.below(8);
        for number in 0..count {
            self.request(random, &before, number + 1 == count, &mut batch);
        }
        batch
    }

    fn request(&mut self, random: &mut Random, before: &[u8], is_last: bool, batch: &mut Batch) {
        let id = self.next;
        self.next += 1;
        let mut places = self.places(random, 4);
        let total = |places: &[Place]| places.iter().map(|place| place.1).sum::<usize>();
        let peer = random.below(BYTES - 300);
        let kind = random.below(8);
        // Inline data is copied when the list is posted, before any request executes.
        let inline = kind < 4 && random.one_in(3);
        let from = if inline { before } else { &self.model[..] };
        let payload: Vec<u8> =
            places.iter().flat_map(|(at, length)| from[*at..at + length].to_vec()).collect();
        let sges = self.sges(&places);
        let immediate = random.word();
        let (work, opcode, moved) = match kind {
            0 => (Work::send(id, &sges), done::IBV_WC_SEND, None),
            1 => (Work::send(id, &sges).immediate(immediate), done::IBV_WC_SEND, None),
            2 => (Work::write(id, &sges, &self.memory, peer), done::IBV_WC_RDMA_WRITE, None),
            3 => {
                let work = Work::write(id, &sges, &self.memory, peer).immediate(immediate);
                (work, done::IBV_WC_RDMA_WRITE, None)
            }
            4 | 5 => {
                let work = Work::read(id, &sges, &self.memory, peer);
                (work, done::IBV_WC_RDMA_READ, Some(total(&places)))
            }
            _ => {
                let peer = peer / 8 * 8;
                places = vec![(random.below(BYTES - 8), 8)];
                let sge = self.sges(&places)[0];
                let old = self.word(peer);
                let (work, opcode, new) = if kind == 6 {
                    let add = random.bits();
                    let work = Work::fetch_add(id, sge, &self.memory, peer, add);
                    (work, done::IBV_WC_FETCH_ADD, old.wrapping_add(add))
                } else {
                    let compared = if random.one_in(2) { old } else { random.bits() };
                    let swap = random.bits();
                    let work = Work::compare_swap(id, sge, &self.memory, peer, (compared, swap));
                    (work, done::IBV_WC_COMP_SWAP, if compared == old { swap } else { old })
                };
                self.put(&new.to_ne_bytes(), &[(peer, 8)]);
                self.put(&old.to_ne_bytes(), &places);
                (work, opcode, Some(8))
            }
        };
        match kind {
            0 | 1 | 3 => self.arrive(random, kind, &payload, immediate, batch),
            4 | 5 => {
                let read = self.model[peer..peer + total(&places)].to_vec();
                self.put(&read, &places);
            }
            _ => {}
        }
        if kind == 2 || kind == 3 {
            self.put(&payload, &[(peer, payload.len())]);
        }
        let is_signalled = is_last || random.one_in(2);
        let mut flags = if is_signalled { SIGNALLED } else { 0 };
        flags |= if inline { INLINE } else { 0 };
        flags |= if random.one_in(4) { FENCE } else { 0 };
        if is_signalled {
            let has_immediate =
                [wr::IBV_WR_SEND_WITH_IMM, wr::IBV_WR_RDMA_WRITE_WITH_IMM].contains(&work.opcode);
            batch.sent.push(Expected {
                id,
                opcode,
                bytes: moved,
                // The provider reports immediate data at the sender too, with an unspecified value.
                immediate: has_immediate.then_some(0),
            });
        }
        batch.works.push(work.with(flags));
    }

    /// A receive for an arriving message, of the same size or larger.
    fn arrive(
        &mut self,
        random: &mut Random,
        kind: usize,
        payload: &[u8],
        immediate: u32,
        batch: &mut Batch,
    ) {
        let mut places = self.places(random, 2);
        let room: usize = places.iter().map(|place| place.1).sum();
        if kind != 3 && room < payload.len() {
            let rest = payload.len() - room + random.below(5);
            if rest > 0 {
                places.push((random.below(BYTES - rest), rest));
            }
        }
        if kind != 3 {
            self.put(payload, &places);
        }
        let id = self.next;
        self.next += 1;
        batch.receives.push((id, self.sges(&places)));
        batch.received.push(Expected {
            id,
            opcode: if kind == 3 { done::IBV_WC_RECV_RDMA_WITH_IMM } else { done::IBV_WC_RECV },
            bytes: Some(payload.len()),
            immediate: (kind != 0).then_some(immediate),
        });
    }

    /// Compares the memory with the model.
    pub fn check(&self) {
        let found = self.memory.read(0, BYTES);
        if let Some(at) = (0..BYTES).find(|at| found[*at] != self.model[*at]) {
            panic!("byte {at:#x} is {:#x}, not {:#x}", found[at], self.model[at]);
        }
    }
}

impl Batch {
    /// Posts requests and receives, in either order.
    pub fn post(&self) {
        let receive = || {
            for (id, sges) in &self.receives {
                self.ends.1.receive(*id, sges);
            }
        };
        if !self.receives_late {
            receive();
        }
        self.ends.0.post(&self.works);
        if self.receives_late {
            receive();
        }
    }

    /// Takes all completions; no more may come.
    pub fn wait(&self) {
        let takes = [done::IBV_WC_RDMA_READ, done::IBV_WC_FETCH_ADD, done::IBV_WC_COMP_SWAP];
        for expected in &self.sent {
            let wc = self.ends.0.sent.wait();
            let mut found = Expected::of(&wc, takes.contains(&wc.opcode()));
            found.immediate = found.immediate.map(|_| 0);
            assert_eq!(&found, expected);
        }
        for expected in &self.received {
            assert_eq!(&Expected::of(&self.ends.1.received.wait(), true), expected);
        }
        assert!(self.ends.0.sent.poll().is_none() && self.ends.1.received.poll().is_none());
    }
}
