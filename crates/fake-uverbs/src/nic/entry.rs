//! What a request of a send queue says: the segments of its blocks, all numbers big-endian, by the layouts of `mlx5dv.h`.

use crate::nic::datagram::Address;

/// `MLX5_OPCODE_*`.
pub mod opcode {
    pub const NOP: u8 = 0x00;
    pub const WRITE: u8 = 0x08;
    pub const WRITE_IMM: u8 = 0x09;
    pub const SEND: u8 = 0x0a;
    pub const SEND_IMM: u8 = 0x0b;
    pub const READ: u8 = 0x10;
    pub const COMPARE_SWAP: u8 = 0x11;
    pub const FETCH_ADD: u8 = 0x12;
}

/// What a request begins with (`struct mlx5_wqe_ctrl_seg`), and how long it is.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    pub opcode: u8,
    /// Which variant of the opcode; 0 for all that are known here.
    modifier: u8,
    /// The index of its first block, as it says itself.
    pub index: u16,
    pub number: u32,
    /// Segments of 16 bytes, this one among them.
    segments: usize,
    /// `fm_ce_se`: how it is completed, and fences, which are kept anyway where one request follows the other.
    flags: u8,
    pub immediate: [u8; 4],
}

/// Bytes that a request moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// They stand in the request.
    Inline(Vec<u8>),
    /// A key names them (`struct mlx5_wqe_data_seg`).
    Named {
        key: u32,
        address: u64,
        bytes: usize,
    },
}

/// The remote end's memory (`struct mlx5_wqe_raddr_seg`).
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: u64,
    pub key: u32,
}

#[derive(Debug, Clone)]
pub struct Entry {
    /// Whom a datagram is for.
    pub to: Option<Address>,
    pub peer: Option<Peer>,
    /// `struct mlx5_wqe_atomic_seg`: what is swapped in or added, and what is compared with.
    pub operands: (u64, u64),
    pub pieces: Vec<Piece>,
}

impl Control {
    /// From the first 16 bytes.
    pub fn read(bytes: &[u8; 16]) -> Self {
        let [
            modifier,
            high,
            low,
            opcode,
            a,
            b,
            c,
            segments,
            ..,
            flags,
            d,
            e,
            f,
            g,
        ] = *bytes;
        Self {
            opcode,
            modifier,
            index: u16::from_be_bytes([high, low]),
            number: u32::from_be_bytes([0, a, b, c]),
            segments: usize::from(segments & 0x3f),
            flags,
            immediate: [d, e, f, g],
        }
    }

    /// Bytes that it has; at least this segment.
    pub fn bytes(&self) -> usize {
        self.segments.max(1) * 16
    }

    /// Blocks of 64 bytes that it fills.
    pub fn blocks(&self) -> u16 {
        self.bytes().div_ceil(64) as u16
    }

    /// A request that is not executed is no longer than what was posted.
    pub fn bound(&mut self, blocks: u16) {
        self.segments = self.segments.min(usize::from(blocks) * 4);
    }

    /// `MLX5_WQE_CTRL_CQ_UPDATE`: of the two bits for completions, the upper one.
    pub fn is_signalled(&self) -> bool {
        self.flags & 8 != 0
    }

    /// `MLX5_WQE_CTRL_SOLICITED`.
    pub fn is_solicited(&self) -> bool {
        self.flags & 2 != 0
    }

    pub fn has_immediate(&self) -> bool {
        [opcode::WRITE_IMM, opcode::SEND_IMM].contains(&self.opcode)
    }

    pub fn is_send(&self) -> bool {
        [opcode::SEND, opcode::SEND_IMM].contains(&self.opcode)
    }

    pub fn is_atomic(&self) -> bool {
        [opcode::COMPARE_SWAP, opcode::FETCH_ADD].contains(&self.opcode)
    }

    /// Whether bytes come back.
    pub fn takes(&self) -> bool {
        self.opcode == opcode::READ || self.is_atomic()
    }

    /// The rest of the request, of which these are all bytes; that of a datagram begins with an address. None where the NIC cannot
    /// execute it: an opcode that it does not know, too few segments, half an address, or an index or a queue pair that is not the
    /// one it lies in.
    pub fn entry(&self, bytes: &[u8], index: u16, number: u32, is_datagram: bool) -> Option<Entry> {
        let is_peer = [opcode::WRITE, opcode::WRITE_IMM].contains(&self.opcode) || self.takes();
        let is_known = is_peer || self.is_send() || self.opcode == opcode::NOP;
        let is_here =
            self.index == index && self.number == number && self.modifier == 0 && self.segments > 0;
        if !is_known || !is_here {
            return None;
        }
        let mut entry = Entry {
            to: None,
            peer: None,
            operands: (0, 0),
            pieces: Vec::new(),
        };
        let mut rest = bytes.get(16..)?;
        if self.opcode == opcode::NOP {
            return Some(entry);
        }
        if is_datagram {
            let (address, after) = rest.split_first_chunk::<{ Address::BYTES }>()?;
            entry.to = Some(Address::read(address)?);
            rest = after;
        }
        if is_peer {
            let (segment, after) = rest.split_first_chunk::<16>()?;
            entry.peer = Some(Peer {
                address: u64_at(segment, 0),
                key: u32_at(segment, 8),
            });
            rest = after;
        }
        if self.is_atomic() {
            let (segment, after) = rest.split_first_chunk::<16>()?;
            entry.operands = (u64_at(segment, 0), u64_at(segment, 8));
            rest = after;
        }
        while !rest.is_empty() {
            let (piece, after) = piece(rest)?;
            entry.pieces.push(piece);
            rest = after;
        }
        Some(entry)
    }
}

/// The first piece, and what comes after it.
fn piece(rest: &[u8]) -> Option<(Piece, &[u8])> {
    /// `MLX5_INLINE_SEG`.
    const INLINE: u32 = 1 << 31;
    let head = u32_at(rest.first_chunk::<16>()?, 0);
    if head & INLINE == 0 {
        let (segment, after) = rest.split_first_chunk::<16>()?;
        return Some((named(segment), after));
    }
    let end = 4 + (head & !INLINE) as usize;
    let bytes = rest.get(4..end)?.to_vec();
    // What fills the last segment up belongs to it, as far as the request goes.
    let after = rest.get(end.next_multiple_of(16)..).unwrap_or_default();
    Some((Piece::Inline(bytes), after))
}

/// A data segment. A length of 0 means 2^31.
fn named(segment: &[u8; 16]) -> Piece {
    let bytes = match u32_at(segment, 0) {
        0 => 1 << 31,
        bytes => bytes as usize,
    };
    Piece::Named {
        key: u32_at(segment, 4),
        address: u64_at(segment, 8),
        bytes,
    }
}

/// The pieces of a receive: data segments to its end, or to the one with the key 0x100 (`MLX5_INVALID_LKEY`).
pub fn receive(bytes: &[u8]) -> Vec<Piece> {
    const END: u32 = 0x100;
    let segments = bytes.as_chunks::<16>().0.iter();
    segments
        .take_while(|segment| u32_at(segment, 4) != END)
        .map(named)
        .collect()
}

fn u32_at(segment: &[u8; 16], at: usize) -> u32 {
    u32::from_be_bytes([
        segment[at],
        segment[at + 1],
        segment[at + 2],
        segment[at + 3],
    ])
}

fn u64_at(segment: &[u8; 16], at: usize) -> u64 {
    u64::from(u32_at(segment, at)) << 32 | u64::from(u32_at(segment, at + 4))
}
