//! Decoding of send and receive WQEs: their segments, big-endian, with the layouts of `mlx5dv.h`.

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

/// The control segment (`struct mlx5_wqe_ctrl_seg`).
#[derive(Debug, Clone, Copy)]
pub struct Control {
    pub opcode: u8,
    /// Variant of the opcode; 0 for all supported ones.
    modifier: u8,
    /// WQEBB index, as the WQE itself says.
    pub index: u16,
    pub number: u32,
    /// Number of 16-byte segments, including this one.
    segments: usize,
    /// `fm_ce_se`: completion and fence flags. Fences always hold, because requests execute in order.
    flags: u8,
    pub immediate: [u8; 4],
}

/// One data segment of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataSegment {
    /// Data in the WQE.
    Inline(Vec<u8>),
    /// An SGE (`struct mlx5_wqe_data_seg`).
    Named { key: u32, address: u64, bytes: usize },
}

/// Remote memory (`struct mlx5_wqe_raddr_seg`).
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: u64,
    pub key: u32,
}

#[derive(Debug, Clone)]
pub struct Wqe {
    /// Destination of a datagram.
    pub to: Option<Address>,
    pub peer: Option<Peer>,
    /// `struct mlx5_wqe_atomic_seg`: swap or add operand, and compare operand.
    pub operands: (u64, u64),
    pub data: Vec<DataSegment>,
}

impl Control {
    /// Decodes the first 16 bytes.
    pub fn read(bytes: &[u8; 16]) -> Self {
        let [modifier, high, low, opcode, a, b, c, segments, .., flags, d, e, f, g] = *bytes;
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

    /// The 16 bytes again, without index and queue pair.
    pub fn bytes16(&self) -> [u8; 16] {
        let [d, e, f, g] = self.immediate;
        let mut bytes = [0; 16];
        bytes[3] = self.opcode;
        bytes[7] = self.segments as u8;
        bytes[11] = self.flags;
        bytes[12..].copy_from_slice(&[d, e, f, g]);
        bytes
    }

    /// Length in bytes, at least one segment.
    pub fn bytes(&self) -> usize {
        self.segments.max(1) * 16
    }

    /// Length in WQEBBs of 64 bytes.
    pub fn blocks(&self) -> u16 {
        self.bytes().div_ceil(64) as u16
    }

    /// Limits a WQE that will not execute to the posted length.
    pub fn bound(&mut self, blocks: u16) {
        self.segments = self.segments.min(usize::from(blocks) * 4);
    }

    /// `MLX5_WQE_CTRL_CQ_UPDATE`: the upper of the two completion bits.
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

    /// True if the request returns data to the sender.
    pub fn takes(&self) -> bool {
        self.opcode == opcode::READ || self.is_atomic()
    }

    /// Decodes the rest of the WQE `bytes`; a datagram's starts with an address. None if the NIC cannot execute it: unknown opcode, too
    /// few segments, truncated address, or the index or queue pair of another WQE.
    pub fn wqe(&self, bytes: &[u8], index: u16, number: u32, is_datagram: bool) -> Option<Wqe> {
        let is_peer = [opcode::WRITE, opcode::WRITE_IMM].contains(&self.opcode) || self.takes();
        let is_known = is_peer || self.is_send() || self.opcode == opcode::NOP;
        let is_here =
            self.index == index && self.number == number && self.modifier == 0 && self.segments > 0;
        if !is_known || !is_here {
            return None;
        }
        let mut wqe = Wqe { to: None, peer: None, operands: (0, 0), data: Vec::new() };
        let mut rest = bytes.get(16..)?;
        if self.opcode == opcode::NOP {
            return Some(wqe);
        }
        if is_datagram {
            let (address, after) = rest.split_first_chunk::<{ Address::BYTES }>()?;
            wqe.to = Some(Address::read(address)?);
            rest = after;
        }
        if is_peer {
            let (segment, after) = rest.split_first_chunk::<16>()?;
            wqe.peer = Some(Peer { address: u64_at(segment, 0), key: u32_at(segment, 8) });
            rest = after;
        }
        if self.is_atomic() {
            let (segment, after) = rest.split_first_chunk::<16>()?;
            wqe.operands = (u64_at(segment, 0), u64_at(segment, 8));
            rest = after;
        }
        while !rest.is_empty() {
            let (data_segment, after) = data_segment(rest)?;
            wqe.data.push(data_segment);
            rest = after;
        }
        Some(wqe)
    }
}

/// The first data segment, and the rest.
fn data_segment(rest: &[u8]) -> Option<(DataSegment, &[u8])> {
    /// `MLX5_INLINE_SEG`.
    const INLINE: u32 = 1 << 31;
    let head = u32_at(rest.first_chunk::<16>()?, 0);
    if head & INLINE == 0 {
        let (segment, after) = rest.split_first_chunk::<16>()?;
        return Some((named(segment), after));
    }
    let end = 4 + (head & !INLINE) as usize;
    let bytes = rest.get(4..end)?.to_vec();
    // Padding to 16 bytes belongs to the segment.
    let after = rest.get(end.next_multiple_of(16)..).unwrap_or_default();
    Some((DataSegment::Inline(bytes), after))
}

/// A data segment. Length 0 means 2^31.
fn named(segment: &[u8; 16]) -> DataSegment {
    let bytes = match u32_at(segment, 0) {
        0 => 1 << 31,
        bytes => bytes as usize,
    };
    DataSegment::Named { key: u32_at(segment, 4), address: u64_at(segment, 8), bytes }
}

/// The SGEs of a receive: all, or up to the one with lkey 0x100 (`MLX5_INVALID_LKEY`).
pub fn receive(bytes: &[u8]) -> Vec<DataSegment> {
    const END: u32 = 0x100;
    let segments = bytes.as_chunks::<16>().0.iter();
    segments.take_while(|segment| u32_at(segment, 4) != END).map(named).collect()
}

fn u32_at(segment: &[u8; 16], at: usize) -> u32 {
    u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]])
}

fn u64_at(segment: &[u8; 16], at: usize) -> u64 {
    u64::from(u32_at(segment, at)) << 32 | u64::from(u32_at(segment, at + 4))
}
