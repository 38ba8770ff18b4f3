//! Reference encoding of WQEs and CQEs, from mlx5dv.h. Shares no code with the crate.

/// A send WQE of a connected queue pair.
#[derive(Debug, Clone, Default)]
pub struct SendEntry {
    pub opcode: u8,
    pub index: u16,
    pub qpn: u32,
    pub flags: u8,
    pub immediate: u32,
    pub remote: Option<(u64, u32)>,
    pub atomic: Option<(u64, u64)>,
    pub segments: Vec<(u32, u32, u64)>,
    pub inline: Option<Vec<u8>>,
}

pub const NOP: u8 = 0x00;
pub const WRITE: u8 = 0x08;
pub const WRITE_IMM: u8 = 0x09;
pub const SEND: u8 = 0x0a;
pub const SEND_IMM: u8 = 0x0b;
pub const READ: u8 = 0x10;
pub const COMPARE_SWAP: u8 = 0x11;
pub const FETCH_ADD: u8 = 0x12;

pub const CQ_UPDATE: u8 = 0x08;
pub const SOLICITED: u8 = 0x02;

impl SendEntry {
    /// Its blocks, padded with zeros.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some((address, key)) = self.remote {
            body.extend(address.to_be_bytes());
            body.extend(key.to_be_bytes());
            body.extend([0; 4]);
        }
        if let Some((swap_add, compare)) = self.atomic {
            body.extend(swap_add.to_be_bytes());
            body.extend(compare.to_be_bytes());
        }
        for &(length, key, address) in &self.segments {
            if length > 0 {
                body.extend(length.to_be_bytes());
                body.extend(key.to_be_bytes());
                body.extend(address.to_be_bytes());
            }
        }
        if let Some(bytes) = self.inline.as_ref().filter(|bytes| !bytes.is_empty()) {
            body.extend((bytes.len() as u32 | 0x8000_0000).to_be_bytes());
            body.extend(bytes);
        }
        let ds = 1 + body.len().div_ceil(16) as u32;
        let mut bytes = Vec::new();
        bytes.extend(((u32::from(self.index) << 8) | u32::from(self.opcode)).to_be_bytes());
        bytes.extend(((self.qpn << 8) | ds).to_be_bytes());
        bytes.extend([0, 0, 0, self.flags]);
        bytes.extend(self.immediate.to_be_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionEntry {
    pub opcode: u8,
    pub solicited: bool,
    pub immediate: u32,
    pub byte_count: u32,
    pub source: u32,
    /// Opcode of the send WQE.
    pub send_opcode: u8,
    pub qpn: u32,
    pub counter: u16,
    /// Syndrome and vendor syndrome.
    pub error: Option<(u8, u8)>,
}

impl CompletionEntry {
    /// Its 64 bytes with a timestamp of 0.
    pub fn bytes(&self, owner: bool) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[24..28].copy_from_slice(&self.source.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.immediate.to_be_bytes());
        bytes[44..48].copy_from_slice(&self.byte_count.to_be_bytes());
        if let Some((syndrome, vendor)) = self.error {
            bytes[54] = vendor;
            bytes[55] = syndrome;
        }
        bytes[56..60]
            .copy_from_slice(&((u32::from(self.send_opcode) << 24) | self.qpn).to_be_bytes());
        bytes[60..62].copy_from_slice(&self.counter.to_be_bytes());
        bytes[63] = (self.opcode << 4) | (u8::from(self.solicited) << 1) | u8::from(owner);
        bytes
    }
}
