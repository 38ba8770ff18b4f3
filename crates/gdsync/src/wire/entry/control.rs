//! The control segment of a WQE: opcode, QPN, size and flags.

use crate::wire::{BLOCK, Error, SEGMENT, fields};

/// Opcode of a send WQE (`MLX5_OPCODE_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// No operation; it completes.
    Nop = 0x00,
    /// RDMA write.
    Write = 0x08,
    /// RDMA write with immediate data; consumes a receive WQE of the remote side.
    WriteImmediate = 0x09,
    /// Send.
    Send = 0x0a,
    /// Send with immediate data.
    SendImmediate = 0x0b,
    /// RDMA read.
    Read = 0x10,
    /// Compare and swap of 8 bytes.
    CompareSwap = 0x11,
    /// Fetch and add of 8 bytes.
    FetchAdd = 0x12,
}

impl Opcode {
    /// All opcodes.
    pub const ALL: [Self; 8] = [
        Self::Nop,
        Self::Write,
        Self::WriteImmediate,
        Self::Send,
        Self::SendImmediate,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
    ];

    /// Returns the opcode with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&opcode| opcode as u8 == number)
    }

    /// True if it names remote memory.
    #[must_use]
    pub fn has_remote(self) -> bool {
        !matches!(self, Self::Nop | Self::Send | Self::SendImmediate)
    }

    /// True for the two atomic operations.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// True if it carries immediate data.
    #[must_use]
    pub fn has_immediate(self) -> bool {
        matches!(self, Self::WriteImmediate | Self::SendImmediate)
    }
}

/// Fence mode: the upper three bits of `fm_ce_se` (`MLX5_FENCE_MODE_…` in the Linux driver).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fence {
    /// Nothing.
    #[default]
    None,
    /// 1: earlier local invalidations and bindings
    /// (`MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE`, 0x20).
    Small,
    /// 2: earlier reads and atomics (0x40).
    ReadsAndAtomics,
    /// 3: all earlier WQEs (0x60).
    Strong,
    /// 4: modes 1 and 2 (`MLX5_WQE_CTRL_FENCE`, 0x80), used for `IBV_SEND_FENCE`.
    SmallAndReads,
}

/// `fm_ce_se`: fence, completion and event flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags {
    /// Write a CQE on success too (`MLX5_WQE_CTRL_CQ_UPDATE`, 8).
    pub signalled: bool,
    /// The remote side's receive raises an event (`MLX5_WQE_CTRL_SOLICITED`, 2).
    pub solicited: bool,
    /// The fence mode.
    pub fence: Fence,
}

const SOLICITED: u8 = 2;
/// Two bits: 0 writes a CQE only on error, 2 always. Other values are unused here.
const COMPLETION: u8 = 0b1100;
const ALWAYS: u8 = 2 << 2;
const FENCES: [Fence; 5] =
    [Fence::None, Fence::Small, Fence::ReadsAndAtomics, Fence::Strong, Fence::SmallAndReads];

impl Flags {
    /// Encodes the byte.
    #[must_use]
    pub fn bits(self) -> u8 {
        let signalled = if self.signalled { ALWAYS } else { 0 };
        let solicited = if self.solicited { SOLICITED } else { 0 };
        (self.fence as u8) << 5 | signalled | solicited
    }

    /// Decodes a byte.
    ///
    /// # Errors
    ///
    /// [`Error::Flags`] for unknown bits.
    pub fn of(byte: u8) -> Result<Self, Error> {
        let unknown = Error::Flags { flags: byte };
        let &fence = FENCES.get(usize::from(byte >> 5)).ok_or(unknown)?;
        let signalled = match byte & COMPLETION {
            0 => false,
            ALWAYS => true,
            _ => return Err(unknown),
        };
        let flags = Self { signalled, solicited: byte & SOLICITED != 0, fence };
        if flags.bits() == byte { Ok(flags) } else { Err(unknown) }
    }
}

/// A control segment: 16 bytes.
///
/// ```text
///  0  u32  modifier << 24 | index << 8 | opcode
///  4  u32  queue pair << 8 | segments
///  8  u8   signature
///  9  u16  0 (stream of a dynamically connected initiator)
/// 11  u8   flags
/// 12  u32  immediate
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// First block in the queue, modulo 2^16.
    pub index: u16,
    /// The opcode.
    pub opcode: Opcode,
    /// The QPN, 24 bits.
    pub qpn: u32,
    /// Segments of 16 bytes, including this one: 1 to 63.
    pub segments: u8,
    /// 0 unless the queue pair checks signatures; ours do not.
    pub signature: u8,
    /// Fence, completion and event flags.
    pub flags: Flags,
    /// Immediate data, 0 if the opcode has none.
    pub immediate: u32,
}

/// Width of a QPN.
pub(super) const QPN_BITS: u32 = 24;
/// Segments of the longest WQE: `ds` has 6 bits.
pub(super) const MAX_SEGMENTS: usize = 0x3f;

/// Blocks of the longest WQE: 63 segments.
pub const MAX_BLOCKS: usize = MAX_SEGMENTS.div_ceil(BLOCK / SEGMENT);

impl Control {
    /// The 64-bit doorbell value of a WQE: the first 8 bytes of its control segment, in order.
    #[must_use]
    pub fn doorbell(entry: &[u8; BLOCK]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = *entry;
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }

    /// QPN and WQE index of a doorbell value. A NIC that reads doorbell records reads nothing else from it.
    #[must_use]
    pub fn rung(doorbell: u64) -> (u32, u16) {
        let [_, high, low, _, q1, q2, q3, _] = doorbell.to_ne_bytes();
        (u32::from_be_bytes([0, q1, q2, q3]), u16::from_be_bytes([high, low]))
    }

    /// The end of the blocks that a doorbell value covers, for queue pairs without a doorbell record: the WQE's index and its length, as in
    /// rdma-core's test (v64.0, `post_send` of `tests/mlx5_base.py`). DOCA GPUNetIO rings with the end itself and no length (v2.0.1,
    /// `doca_gpu_dev_common_prepare_db`).
    #[must_use]
    pub fn end(doorbell: u64) -> u16 {
        let [.., segments] = doorbell.to_ne_bytes();
        let blocks = usize::from(segments & 0x3f).div_ceil(BLOCK / SEGMENT);
        // At most 16.
        Self::rung(doorbell).1.wrapping_add(blocks as u16)
    }

    /// Number of 64-byte blocks of the WQE.
    #[must_use]
    pub fn blocks(&self) -> usize {
        usize::from(self.segments).div_ceil(BLOCK / SEGMENT)
    }

    /// Encodes the segment at the start of `to`.
    ///
    /// # Errors
    ///
    /// [`Error::Wide`] for a QPN of more than 24 bits; [`Error::TooLarge`]; [`Error::Short`].
    pub fn encode(&self, to: &mut [u8]) -> Result<(), Error> {
        let segments = usize::from(self.segments);
        if segments > MAX_SEGMENTS {
            return Err(Error::TooLarge { segments });
        }
        narrow("QPN", self.qpn.into(), QPN_BITS)?;
        let index = u32::from(self.index);
        fields::put_u32(to, 0, index << 8 | self.opcode as u32)?;
        fields::put_u32(to, 4, self.qpn << 8 | u32::from(self.segments))?;
        fields::put(to, 8, &[self.signature, 0, 0, self.flags.bits()])?;
        fields::put_u32(to, 12, self.immediate)
    }

    /// Decodes a segment.
    ///
    /// # Errors
    ///
    /// [`Error::Short`], [`Error::Opcode`], [`Error::Flags`]; [`Error::Size`] for 0 or more than 63
    /// segments.
    pub fn decode(from: &[u8]) -> Result<Self, Error> {
        let [modifier, high, low, opcode] = fields::bytes_at(from, 0)?;
        let owner = fields::u32_at(from, 4)?;
        let known = Opcode::of(opcode).filter(|_| modifier == 0);
        let segments = owner as u8;
        if segments == 0 || usize::from(segments) > MAX_SEGMENTS {
            let segments = segments.into();
            return Err(Error::Size { segments, need: 1 });
        }
        Ok(Self {
            index: u16::from_be_bytes([high, low]),
            opcode: known.ok_or(Error::Opcode { opcode, modifier })?,
            qpn: owner >> 8,
            segments,
            signature: fields::u8_at(from, 8)?,
            flags: Flags::of(fields::u8_at(from, 11)?)?,
            immediate: fields::u32_at(from, 12)?,
        })
    }
}

/// Checks that `value` fits in `bits` bits.
pub(super) fn narrow(what: &'static str, value: u64, bits: u32) -> Result<(), Error> {
    if value >> bits == 0 { Ok(()) } else { Err(Error::Wide { what, value, bits }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_match_rdma_core() {
        let fenced = Flags { signalled: true, solicited: true, fence: Fence::SmallAndReads };
        assert_eq!(fenced.bits(), 0x80 | 8 | 2);
        let small = Flags { fence: Fence::Small, ..Flags::default() };
        assert_eq!(small.bits(), 0x20);
        // 5 fences, signalled or not, solicited or not.
        let known = (0..=u8::MAX).filter(|&byte| Flags::of(byte).is_ok());
        assert_eq!(known.clone().count(), 20);
        assert!(known.into_iter().all(|byte| Flags::of(byte).unwrap().bits() == byte));
    }

    #[test]
    fn doorbell_has_the_end() {
        // Index, opcode, QPN and length in segments, by hand; and DOCA's, with the end and no length.
        for (bytes, end) in [
            ([0, 0x12, 0x34, 0x08, 0xab, 0xcd, 0xef, 3], 0x1235),
            ([0, 0x12, 0x34, 0x08, 0xab, 0xcd, 0xef, 5], 0x1236),
            ([0, 0xff, 0xff, 0x0a, 0xab, 0xcd, 0xef, 0x3f], 15),
            ([0, 0x12, 0x35, 0, 0xab, 0xcd, 0xef, 0], 0x1235),
        ] {
            assert_eq!(Control::end(u64::from_ne_bytes(bytes)), end, "{bytes:x?}");
        }
    }

    #[test]
    fn matches_hand_written_bytes() {
        let control = Control {
            index: 0x1234,
            opcode: Opcode::SendImmediate,
            qpn: 0xab_cdef,
            segments: 0x3f,
            signature: 0x5a,
            flags: Flags { signalled: true, ..Flags::default() },
            immediate: 0x0102_0304,
        };
        let mut bytes = [0xee; BLOCK];
        control.encode(&mut bytes).unwrap();
        let expected = [0, 0x12, 0x34, 0x0b, 0xab, 0xcd, 0xef, 0x3f, 0x5a, 0, 0, 8, 1, 2, 3, 4];
        assert_eq!(bytes[..16], expected);
        assert_eq!(Control::decode(&bytes), Ok(control));
        assert_eq!(control.blocks(), 16);
        let doorbell = Control::doorbell(&bytes);
        assert_eq!(doorbell.to_ne_bytes(), expected[..8]);
        assert_eq!(Control::rung(doorbell), (0xab_cdef, 0x1234));
    }

    #[test]
    fn rejects_malformed_segments() {
        let mut bytes = [0; 16];
        assert_eq!(Control::decode(&bytes), Err(Error::Size { segments: 0, need: 1 }));
        bytes[7] = 0x40;
        assert_eq!(Control::decode(&bytes), Err(Error::Size { segments: 0x40, need: 1 }));
        bytes[7] = 1;
        assert!(Control::decode(&bytes).is_ok());
        bytes[0] = 8;
        assert_eq!(Control::decode(&bytes), Err(Error::Opcode { opcode: 0, modifier: 8 }));
        assert_eq!(Control::decode(&bytes[..12]), Err(Error::Opcode { opcode: 0, modifier: 8 }));
        bytes[0] = 0;
        assert_eq!(Control::decode(&bytes[..12]), Err(Error::Short { need: 16, have: 12 }));
    }
}
