//! Rust version of the kernel in crate `gpu`'s `post.ptx`, whose layouts it reads: posts requests to mlx5 send queues, rings their
//! doorbells and polls their completion queues. Blocks run one after another, with one thread each.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::kernels::{Word32, Word64};
use super::queue::Queue;
use super::span::Span;

/// Parameters of the kernel.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the parameters in post.ptx")]
pub struct Post {
    pub queues: Span,
    /// Number of queues: blocks.
    pub count: usize,
    pub rounds: u32,
    pub batch: u32,
    pub ahead: u32,
    pub words: usize,
    pub limit: Duration,
    pub memory: Resolver,
}

/// Finds memory by its device address: what a kernel's loads and stores reach.
#[derive(Clone)]
pub struct Resolver(Arc<Find>);

type Find = dyn Fn(u64, usize) -> Option<Span> + Send + Sync;

impl Resolver {
    /// `find` returns the memory of an address and a number of bytes, or `None` if the GPU cannot access all of it.
    #[must_use]
    pub fn new(find: impl Fn(u64, usize) -> Option<Span> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    fn find(&self, what: &str, address: u64, bytes: usize) -> Result<Span, String> {
        (self.0)(address, bytes).ok_or_else(|| {
            format!(
                "illegal address: {what}, {bytes} bytes at {address:#x}, is not mapped for the GPU"
            )
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// Bytes of a queue, of a request and of a block of a send queue.
const QUEUE: usize = 256;
const REQUEST: usize = 128;
const BLOCK: usize = 64;

const DONE: u64 = 1;
const LATE: u64 = 2;
const FAILED: u64 = 3;
const FULL: u64 = 4;
const OTHER: u64 = 5;

impl Post {
    pub(crate) fn run(&self, queue: &Queue) -> Result<(), String> {
        for block in 0..self.count {
            Block::new(self, block)?.run(queue)?;
        }
        Ok(())
    }
}

/// One block of the kernel.
struct Block<'a> {
    post: &'a Post,
    state: QueueWords,
    ring: Span,
    mask: usize,
    record: Option<Span>,
    register: Span,
    cqes: Span,
    cq_mask: u32,
    cq_record: Option<Span>,
    qpn: u32,
    flame: usize,
    requests: Vec<Request>,
    producer: u32,
    freed: u32,
    consumer: u32,
    number: u32,
    checked: u32,
    wrong: u64,
    first_wrong: u64,
}

/// Words of a queue.
struct QueueWords {
    span: Span,
    start: usize,
}

impl QueueWords {
    fn word(&self, index: usize) -> Word64 {
        Word64::at(&self.span, self.start / 8 + index)
    }

    fn load(&self, index: usize) -> u64 {
        self.word(index).load()
    }
}

struct Request {
    opcode: u8,
    flags: u8,
    has_remote: bool,
    is_atomic: bool,
    is_inline: bool,
    immediate: u32,
    offset: u32,
    blocks: u32,
    remote: (u64, u32),
    operands: (u64, u64),
    payload: Option<Span>,
    length: usize,
    datagram: Option<[u32; 12]>,
    source: Option<Span>,
    destination: Option<Span>,
}

impl Request {
    fn read(post: &Post, list: &Span, index: usize) -> Result<Self, String> {
        let wide = |at: usize| Word64::at(list, (index * REQUEST + at) / 8).load();
        let word = |at: usize| Word32::at(list, (index * REQUEST + at) / 4).load();
        let head = word(0);
        let (length, is_inline) = (word(56) as usize, head & 0x4_0000 != 0);
        let bytes = if is_inline { length } else { length * 16 };
        let find = |what, address, bytes| match (address, bytes) {
            (0, _) | (_, 0) => Ok(None),
            (address, bytes) => post.memory.find(what, address, bytes).map(Some),
        };
        let datagram =
            (head & 0x8_0000 != 0).then(|| std::array::from_fn(|position| word(64 + position * 4)));
        Ok(Self {
            opcode: head as u8,
            flags: (head >> 8) as u8,
            has_remote: head & 0x1_0000 != 0,
            is_atomic: head & 0x2_0000 != 0,
            is_inline,
            immediate: word(4),
            offset: word(8),
            blocks: word(12),
            remote: (wide(16), word(24)),
            operands: (wide(32), wide(40)),
            payload: find("the payload of a request", wide(48), bytes)?,
            length,
            datagram,
            source: find("a message", wide(112), post.words * 4)?,
            destination: find("a message's destination", wide(120), post.words * 4)?,
        })
    }
}

impl<'a> Block<'a> {
    fn new(post: &'a Post, block: usize) -> Result<Self, String> {
        let state = QueueWords { span: post.queues.clone(), start: block * QUEUE };
        let find = |what, index, bytes| post.memory.find(what, state.load(index), bytes);
        let optional = |what, index| match state.load(index) {
            0 => Ok(None),
            _ => find(what, index, 4).map(Some),
        };
        let (mask, cq_mask) = (state.load(1) as usize, state.load(5) as u32);
        let (flame, count) = (state.load(8) as usize, state.load(10) as usize);
        let list = find("the list of requests", 9, count * REQUEST)?;
        let requests = (0..count).map(|index| Request::read(post, &list, index));
        let (producer, number) = (state.load(11) as u32, state.load(13) as u32);
        Ok(Self {
            ring: find("a send queue", 0, mask + 1)?,
            mask,
            record: optional("a doorbell record", 2)?,
            register: find("a doorbell register", 3, (2 * flame).max(8))?,
            cqes: find("a completion queue", 4, (cq_mask as usize + 1) * BLOCK)?,
            cq_mask,
            cq_record: optional("the record of a completion queue", 6)?,
            qpn: state.load(7) as u32,
            flame,
            requests: requests.collect::<Result<_, _>>()?,
            producer,
            freed: producer,
            consumer: state.load(12) as u32,
            number,
            checked: number,
            wrong: 0,
            first_wrong: u64::from(u32::MAX),
            state,
            post,
        })
    }

    fn run(mut self, queue: &Queue) -> Result<(), String> {
        let begun = now();
        let (mut posted, mut done) = (0, 0);
        let entries = (self.mask + 1) / BLOCK;
        let (status, detail) = loop {
            if posted < self.post.rounds && posted - done <= self.post.ahead {
                let need = self.need(self.number);
                if (self.producer.wrapping_sub(self.freed) + need) as usize <= entries {
                    self.build();
                    self.ring(need);
                    posted += 1;
                    continue;
                }
                if posted == done {
                    break (FULL, need);
                }
            }
            if done == self.post.rounds {
                break (DONE, 0);
            }
            let (status, detail) = self.wait(queue)?;
            if status != DONE {
                break (status, detail);
            }
            done += 1;
        };
        for (index, value) in [
            (11, self.producer.into()),
            (12, self.consumer.into()),
            (13, self.number.into()),
            (16, done.into()),
            (17, detail.into()),
            (18, self.wrong),
            (19, self.first_wrong),
            (20, begun),
            (21, now()),
            (15, status),
        ] {
            self.state.word(index).store(value);
        }
        Ok(())
    }

    /// The requests of the batch whose first message has this number.
    fn batch(&self, number: u32) -> std::ops::Range<usize> {
        let first = number as usize % self.requests.len().max(1);
        first..first + self.post.batch as usize
    }

    /// Its last request.
    fn last(&self, number: u32) -> &Request {
        &self.requests[self.batch(number).end - 1]
    }

    fn need(&self, number: u32) -> u32 {
        let last = self.last(number);
        last.offset + last.blocks
    }

    /// Fills the messages of the next batch and writes their WQEs.
    fn build(&self) {
        for (position, number) in self.batch(self.number).zip(self.number..) {
            let request = &self.requests[position];
            if let Some(source) = &request.source {
                for k in 0..self.post.words {
                    Word32::at(source, k).fill(message_word(number, k as u32));
                }
            }
            self.write(request, self.producer.wrapping_add(request.offset));
        }
    }

    /// Writes the WQE whose first block is `index`.
    fn write(&self, request: &Request, index: u32) {
        let first = index as usize * BLOCK;
        let mut at = first + 16;
        let mut put = |words: &[u32]| {
            for word in words {
                self.at(at).fill(*word);
                at += 4;
            }
        };
        let halves = |value: u64| [(value >> 32) as u32, value as u32].map(u32::swap_bytes);
        if let Some(datagram) = &request.datagram {
            put(datagram);
        }
        if request.has_remote {
            let (address, key) = request.remote;
            put(&halves(address));
            put(&[key.swap_bytes(), 0]);
        }
        if request.is_atomic {
            put(&halves(request.operands.0));
            put(&halves(request.operands.1));
        }
        match &request.payload {
            Some(bytes) if request.is_inline => {
                put(&[(request.length as u32 | 1 << 31).swap_bytes()]);
                let padded = (4 + request.length).next_multiple_of(16) - 4;
                for word in (0..padded).step_by(4) {
                    let byte =
                        |at: usize| if at < request.length { Word32::byte(bytes, at) } else { 0 };
                    put(&[u32::from_le_bytes(std::array::from_fn(|k| byte(word + k)))]);
                }
            }
            Some(segments) => {
                for segment in 0..request.length {
                    let word = |k: usize| Word32::at(segments, segment * 4 + k).load();
                    let length = match word(2) {
                        0 => continue,
                        _ if request.is_atomic => 8,
                        length => length,
                    };
                    put(&[length, word(3), word(1), word(0)].map(u32::swap_bytes));
                }
            }
            None => {}
        }
        let segments = ((at - first) / 16) as u32;
        let control = [
            (index & 0xffff) << 8 | u32::from(request.opcode),
            self.qpn << 8 | segments,
            u32::from(request.flags),
            request.immediate,
        ];
        for (position, word) in control.into_iter().enumerate() {
            self.at(first + position * 4).store(word.swap_bytes());
        }
    }

    /// The word of the ring at a byte of the whole queue.
    fn at(&self, byte: usize) -> Word32 {
        Word32::at(&self.ring, (byte & self.mask) / 4)
    }

    /// Writes the record and rings for the last WQE of the batch.
    fn ring(&mut self, need: u32) {
        let last = self.last(self.number);
        let (first, blocks) = (self.producer.wrapping_add(last.offset), last.blocks);
        self.producer = self.producer.wrapping_add(need);
        if let Some(record) = &self.record {
            Word32::at(record, 0).store((self.producer & 0xffff).swap_bytes());
        }
        let start = first as usize * BLOCK;
        let mut to = 0;
        if self.flame > 0 {
            to = self.state.load(14) as usize;
            self.state.word(14).store((to ^ self.flame) as u64);
        }
        let bytes = blocks as usize * BLOCK;
        let count = if bytes <= self.flame { bytes } else { 8 };
        for at in (0..count).step_by(8) {
            let [low, high] = [0, 4].map(|half| u64::from(self.at(start + at + half).load()));
            Word64::at(&self.register, (to + at) / 8).store(high << 32 | low);
        }
        self.number = self.number.wrapping_add(self.post.batch);
    }

    /// Waits for the CQE of the oldest batch, and compares its messages.
    fn wait(&mut self, queue: &Queue) -> Result<(u64, u32), String> {
        let offset = self.last(self.checked).offset;
        let slot = (self.consumer & self.cq_mask) as usize * BLOCK / 4;
        let owner = u32::from(self.consumer & (self.cq_mask + 1) != 0);
        let word = Word32::at(&self.cqes, slot + 15);
        let is_written = |seen: u32| seen >> 28 != 15 && seen >> 24 & 1 == owner;
        let start = Instant::now();
        let what = || format!("completion {} of a kernel's queue", self.consumer);
        queue.wait_until(what, || is_written(word.load()) || start.elapsed() >= self.post.limit)?;
        let seen = word.load();
        if !is_written(seen) {
            return Ok((LATE, 0));
        }
        if seen >> 28 >= 13 {
            return Ok((FAILED, Word32::at(&self.cqes, slot + 13).load()));
        }
        let counter = (seen & 0xffff).swap_bytes() >> 16;
        if counter != self.freed.wrapping_add(offset) & 0xffff {
            return Ok((OTHER, counter));
        }
        self.consumer = self.consumer.wrapping_add(1);
        if let Some(record) = &self.cq_record {
            Word32::at(record, 0).store((self.consumer & 0xff_ffff).swap_bytes());
        }
        self.compare();
        self.freed = self.freed.wrapping_add(self.need(self.checked));
        self.checked = self.checked.wrapping_add(self.post.batch);
        Ok((DONE, 0))
    }

    fn compare(&mut self) {
        for (position, number) in self.batch(self.checked).zip(self.checked..) {
            let Some(found) = &self.requests[position].destination else {
                continue;
            };
            let differs =
                |k: &usize| Word32::at(found, *k).load() != message_word(number, *k as u32);
            let wrong = (0..self.post.words).filter(differs).count() as u64;
            if wrong > 0 {
                self.wrong += wrong;
                self.first_wrong = self.first_wrong.min(number.into());
            }
        }
    }
}

/// Word `k` of message `number`.
fn message_word(number: u32, k: u32) -> u32 {
    let base = number.wrapping_add(1).wrapping_mul(0x9e37_79b9);
    base.wrapping_add(k.wrapping_mul(0x85eb_ca6b))
}

/// Nanoseconds of a clock of the process.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
