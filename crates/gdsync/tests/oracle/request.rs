//! Work requests as plain values: random generation, and conversion to libibverbs.

use ibverbs_sys as ib;
use ibverbs_sys::{ibv_send_flags as flags, ibv_wr_opcode as opcode};

use crate::address::Address;
use crate::random::Random;

/// A work request, input of both the provider and our encoder.
#[derive(Debug, Clone)]
pub struct Request {
    pub id: u64,
    pub operation: Operation,
    pub signalled: bool,
    pub fenced: bool,
    pub solicited: bool,
    /// Inline data.
    pub inline: bool,
    pub pieces: Vec<Sge>,
    pub to: Option<Destination>,
}

/// Operation of a request.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Send,
    /// Immediate data in network byte order.
    SendImmediate([u8; 4]),
    Write(Remote),
    WriteImmediate(Remote, [u8; 4]),
    Read(Remote),
    CompareSwap(Remote, u64, u64),
    FetchAdd(Remote, u64),
}

/// Remote memory.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    pub address: u64,
    pub key: u32,
}

/// A range of local memory.
#[derive(Debug, Clone, Copy)]
pub struct Sge {
    pub address: u64,
    pub length: u32,
    pub key: u32,
}

/// Destination of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    pub address: Address,
    pub queue_pair: u32,
    pub key: u32,
}

/// Requests that a queue pair supports.
pub struct Kind<'a> {
    pub datagrams: bool,
    /// Reads and atomics: only on RC.
    pub reads: bool,
    pub most_pieces: usize,
    pub most_inline: usize,
    /// Source memory of inline data.
    pub arena: &'a [u8],
    pub addresses: &'a [Address],
}

impl Request {
    /// A random request that the queue pair supports.
    pub fn random(random: &mut Random, kind: &Kind) -> Self {
        let operation = operation(random, kind);
        let may_be_inline = !matches!(
            operation,
            Operation::Read(_) | Operation::CompareSwap(..) | Operation::FetchAdd(..)
        );
        let inline = may_be_inline && random.one_in(2);
        let pieces = match operation {
            // Sometimes another length than 8; the provider writes 8 anyway.
            Operation::CompareSwap(..) | Operation::FetchAdd(..) if !random.one_in(4) => {
                vec![Sge { length: 8, ..piece(random) }]
            }
            _ if inline => inline_pieces(random, kind),
            _ => (0..random.below(kind.most_pieces + 1)).map(|_| piece(random)).collect(),
        };
        Self {
            id: random.bits(),
            operation,
            signalled: random.one_in(2),
            fenced: random.one_in(8),
            solicited: random.one_in(8),
            inline,
            pieces,
            to: kind.datagrams.then(|| Destination {
                address: kind.addresses[random.below(kind.addresses.len())],
                queue_pair: random.word() >> 8,
                key: random.word(),
            }),
        }
    }

    /// SGEs and request for libibverbs; the caller sets the pointers.
    pub fn of_verbs(&self) -> (Vec<ib::ibv_sge>, ib::ibv_send_wr) {
        let mut work = ib::ibv_send_wr {
            wr_id: self.id,
            num_sge: i32::try_from(self.pieces.len()).expect("some pieces"),
            ..Default::default()
        };
        let mut bits = flags(0);
        for (set, flag) in [
            (self.signalled, flags::IBV_SEND_SIGNALED),
            (self.fenced, flags::IBV_SEND_FENCE),
            (self.solicited, flags::IBV_SEND_SOLICITED),
            (self.inline, flags::IBV_SEND_INLINE),
        ] {
            if set {
                bits |= flag;
            }
        }
        work.send_flags = bits.0;
        work.opcode = match self.operation {
            Operation::Send => opcode::IBV_WR_SEND,
            Operation::SendImmediate(_) => opcode::IBV_WR_SEND_WITH_IMM,
            Operation::Write(_) => opcode::IBV_WR_RDMA_WRITE,
            Operation::WriteImmediate(..) => opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            Operation::Read(_) => opcode::IBV_WR_RDMA_READ,
            Operation::CompareSwap(..) => opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
            Operation::FetchAdd(..) => opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
        };
        match self.operation {
            Operation::SendImmediate(data) | Operation::WriteImmediate(_, data) => {
                work.__bindgen_anon_1.imm_data = u32::from_ne_bytes(data);
            }
            _ => {}
        }
        match self.operation {
            Operation::Send | Operation::SendImmediate(_) => {}
            Operation::Write(remote)
            | Operation::WriteImmediate(remote, _)
            | Operation::Read(remote) => {
                work.wr.rdma =
                    ib::ibv_send_wr_rdma { remote_addr: remote.address, rkey: remote.key };
            }
            Operation::CompareSwap(remote, compare_add, swap) => {
                work.wr.atomic = atomic(remote, compare_add, swap)
            }
            // The provider ignores the swap value.
            Operation::FetchAdd(remote, add) => {
                work.wr.atomic = atomic(remote, add, 0x5555_5555_5555_5555)
            }
        }
        if let Some(to) = self.to {
            work.wr.ud = ib::ibv_send_wr_datagram {
                ah: to.address.handle,
                remote_qpn: to.queue_pair,
                remote_qkey: to.key,
            };
        }
        (self.pieces.iter().map(Sge::of_verbs).collect(), work)
    }

    /// The inline data, read from the arena.
    pub fn inline_bytes(&self, arena: &[u8]) -> Vec<u8> {
        let from = |piece: &Sge| {
            let start = usize::try_from(piece.address).expect("64 bits") - arena.as_ptr() as usize;
            arena[start..start + piece.length as usize].to_vec()
        };
        self.pieces.iter().flat_map(from).collect()
    }
}

impl Sge {
    /// The SGE for libibverbs.
    pub fn of_verbs(&self) -> ib::ibv_sge {
        ib::ibv_sge { addr: self.address, length: self.length, lkey: self.key }
    }
}

fn atomic(remote: Remote, compare_add: u64, swap: u64) -> ib::ibv_send_wr_atomic {
    ib::ibv_send_wr_atomic { remote_addr: remote.address, compare_add, swap, rkey: remote.key }
}

fn operation(random: &mut Random, kind: &Kind) -> Operation {
    let data = random.word().to_be_bytes();
    if kind.datagrams {
        return if random.one_in(2) { Operation::Send } else { Operation::SendImmediate(data) };
    }
    let remote = Remote { address: random.bits(), key: random.word() };
    match random.below(if kind.reads { 7 } else { 4 }) {
        0 => Operation::Send,
        1 => Operation::SendImmediate(data),
        2 => Operation::Write(remote),
        3 => Operation::WriteImmediate(remote, data),
        4 => Operation::Read(remote),
        5 => Operation::CompareSwap(remote, random.bits(), random.bits()),
        _ => Operation::FetchAdd(remote, random.bits()),
    }
}

/// A random SGE that the provider does not dereference; one in five is empty.
pub fn piece(random: &mut Random) -> Sge {
    let length = match random.below(5) {
        0 => 0,
        1 => random.word() >> 1,
        _ => random.word() >> 12,
    };
    Sge { address: random.bits(), length, key: random.word() }
}

/// SGEs in the arena, together within the inline limit.
fn inline_pieces(random: &mut Random, kind: &Kind) -> Vec<Sge> {
    let mut left = match random.below(8) {
        0 => kind.most_inline,
        1 => 0,
        _ => random.below(kind.most_inline + 1),
    };
    let count = random.below(kind.most_pieces + 1);
    let piece = |position: usize| {
        let length = match random.below(5) {
            0 => 0,
            _ if position + 1 == count => left,
            _ => random.below(left + 1),
        };
        left -= length;
        let place = random.below(kind.arena.len() - length);
        Sge {
            address: kind.arena.as_ptr() as u64 + place as u64,
            length: u32::try_from(length).expect("less than the arena"),
            key: random.word(),
        }
    };
    (0..count).map(piece).collect()
}
