//! Random programs, and what they do to byte arrays when executed one after the other. Shares no code with the crate.

/// Bytes of a rank's memory. Each peer has an area of it, in three parts: what it sends, what it puts, what is got from it.
pub const MEMORY: usize = 8 * AREA;
const AREA: usize = 3 * PART;
const PART: usize = 512;

/// xorshift64*.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    pub fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Offset and length.
pub type Piece = (usize, usize);

/// An operation of one rank towards another. It reads memory of the phase's source and writes memory of its target.
#[derive(Debug, Clone)]
pub enum Op {
    /// Sends the pieces into a receive of these pieces.
    Send { from: Vec<Piece>, into: Vec<Piece> },
    /// Writes the piece to the other's memory.
    Put { from: Piece, at: usize, inline: bool, quiet: bool },
    /// Reads the other's memory.
    Get { into: Piece, at: usize },
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request of the `index`th operation of a rank towards another is lost, or its answer.
    Lost { from: usize, to: usize, index: usize, answer: bool },
    /// The HCA fails the operation.
    Failed { from: usize, to: usize, index: usize },
    /// The receive of the operation is missing; the operation is the last send.
    NoReceive { from: usize, to: usize, index: usize },
    /// The rank dies in the middle of the phase; silently, or its HCA says so.
    Dead { rank: usize, silently: bool },
}

/// The operations of each rank towards each other one, in order.
pub type Phase = Vec<Vec<Vec<Op>>>;

#[derive(Debug, Clone)]
pub struct Program {
    pub phases: Vec<Phase>,
    /// Of the last phase.
    pub fault: Option<Fault>,
    /// Streams wait for requests. One that waits for a lost message delays those of other lanes beyond the timeout.
    pub streams_wait: bool,
}

impl Program {
    pub fn random(random: &mut Random, ranks: usize, has_fault: bool) -> Self {
        let count = 1 + random.below(2);
        let phases: Vec<Phase> = (0..count).map(|_| phase(random, ranks)).collect();
        let fault = has_fault.then(|| fault(random, &phases[count - 1]));
        Self { phases, fault, streams_wait: random.is(70) }
    }
}

fn phase(random: &mut Random, ranks: usize) -> Phase {
    let mut phase = vec![vec![Vec::new(); ranks]; ranks];
    for (from, lanes) in phase.iter_mut().enumerate() {
        for (to, lane) in lanes.iter_mut().enumerate() {
            if from != to && random.is(70) {
                let mut received = 0;
                for _ in 0..random.below(6) {
                    lane.push(op(random, (from, to), &mut received));
                }
                // A completion at the end shows that all are done.
                if let Some(Op::Put { quiet, .. }) = lane.last_mut() {
                    *quiet = false;
                }
            }
        }
    }
    phase
}

fn op(random: &mut Random, (from, to): (usize, usize), received: &mut usize) -> Op {
    match random.below(3) {
        0 => {
            let area = from * AREA;
            let room = (PART - *received) / 2;
            let into = split(random, area + *received, room.min(100));
            let bytes: usize = into.iter().map(|(_, length)| length).sum();
            *received += bytes;
            // The message may be shorter than the receive.
            let sent = bytes - random.below(bytes / 4 + 1);
            let start = random.below(MEMORY - sent);
            let from = split(random, start, sent);
            Op::Send { from, into }
        }
        1 => {
            let length = random.below(200);
            Op::Put {
                from: (random.below(MEMORY - length), length),
                at: from * AREA + PART + random.below(PART - length),
                inline: random.is(30),
                quiet: random.is(30),
            }
        }
        _ => {
            let length = random.below(200);
            Op::Get {
                into: (to * AREA + 2 * PART + random.below(PART - length), length),
                at: random.below(MEMORY - length),
            }
        }
    }
}

/// Consecutive pieces of `bytes` bytes.
fn split(random: &mut Random, start: usize, bytes: usize) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), start);
    while at < start + bytes && pieces.len() < 29 {
        let length = 1 + random.below(start + bytes - at);
        pieces.push((at, length));
        at += length;
    }
    if at < start + bytes {
        pieces.push((at, start + bytes - at));
    }
    pieces
}

fn fault(random: &mut Random, phase: &Phase) -> Fault {
    let ranks = phase.len();
    let (from, to) = (random.below(ranks), random.below(ranks));
    let lane = &phase[from][to];
    let index = random.below(lane.len().max(1));
    let last_send = lane.iter().rposition(|op| matches!(op, Op::Send { .. }));
    match (random.below(4), last_send) {
        (0, _) if !lane.is_empty() => Fault::Lost { from, to, index, answer: random.is(50) },
        (1, _) if !lane.is_empty() => Fault::Failed { from, to, index },
        (2, Some(index)) => Fault::NoReceive { from, to, index },
        _ => Fault::Dead { rank: random.below(ranks), silently: random.is(50) },
    }
}

/// The two memories of each rank. Even phases read the first one and write the second one.
#[derive(Debug, Clone)]
pub struct Model(pub Vec<[Vec<u8>; 2]>);

impl Model {
    pub fn random(random: &mut Random, ranks: usize) -> Self {
        let mut memory = || (0..MEMORY).map(|_| random.next() as u8).collect();
        Self((0..ranks).map(|_| [memory(), memory()]).collect())
    }

    /// The bytes that an operation moves.
    pub fn moved(&self, op: &Op, from: usize, to: usize, source: usize) -> Vec<u8> {
        let (own, other) = (&self.0[from][source], &self.0[to][source]);
        let take = |memory: &[u8], (at, length): Piece| memory[at..at + length].to_vec();
        match op {
            Op::Send { from, .. } => from.iter().flat_map(|piece| take(own, *piece)).collect(),
            Op::Put { from, .. } => take(own, *from),
            Op::Get { into, at } => take(other, (*at, into.1)),
        }
    }

    /// Executes an operation.
    pub fn apply(&mut self, op: &Op, from: usize, to: usize, source: usize) {
        let bytes = self.moved(op, from, to, source);
        let target = 1 - source;
        let (rank, pieces) = match op {
            Op::Send { into, .. } => (to, into.clone()),
            Op::Put { at, .. } => (to, vec![(*at, bytes.len())]),
            Op::Get { into, .. } => (from, vec![*into]),
        };
        let mut left = bytes.as_slice();
        for (at, length) in pieces {
            let (now, rest) = left.split_at(length.min(left.len()));
            self.0[rank][target][at..at + now.len()].copy_from_slice(now);
            left = rest;
        }
    }
}

#[test]
fn model_executes_by_hand() {
    let mut model =
        Model(vec![[vec![1; MEMORY], vec![2; MEMORY]], [vec![3; MEMORY], vec![4; MEMORY]]]);
    model.0[0][0][5] = 9;
    let send = Op::Send { from: vec![(5, 1), (0, 3)], into: vec![(10, 2), (20, 100)] };
    model.apply(&send, 0, 1, 0);
    assert_eq!(model.0[1][1][9..13], [4, 9, 1, 4]);
    assert_eq!(model.0[1][1][20..23], [1, 1, 4]);
    model.apply(&Op::Get { into: (7, 2), at: 0 }, 1, 0, 1);
    assert_eq!(model.0[1][0][6..10], [3, 2, 2, 3]);
}
