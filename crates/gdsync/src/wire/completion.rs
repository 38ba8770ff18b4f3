//! CQEs: the NIC's report about a WQE.

use super::{BLOCK, Error, Syndrome, fields};

/// The decoded CQE of a send or receive WQE.
///
/// ```text
/// 17  u8   the receiver's path (datagrams)          48  u64  timestamp
/// 22  u16  source LID (datagrams)                   54  u8   vendor's syndrome (errors)
/// 24  u32  route << 28 | service level << 24
///           | source queue pair (datagrams)         55  u8   syndrome (errors)
/// 32  u32  user's index of the queue pair           56  u32  send opcode << 24 | queue pair
/// 36  u32  immediate data, or an invalidated key    60  u16  the entry's counter
/// 44  u32  bytes                                    62  u8   signature
///                                                   63  u8   opcode << 4 | format << 2 | solicited << 1 | owner
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The kind of completion.
    pub event: Event,
    /// The QPN, 24 bits.
    pub qpn: u32,
    /// WQE counter modulo 2^16: first block in a send queue, index in a receive queue.
    pub counter: u16,
    /// Bytes received, or returned by an RDMA read or atomic.
    pub bytes: u32,
    /// User index of the queue pair, 24 bits; 0 if not set.
    pub user_index: u32,
    /// Source QPN of a datagram, 24 bits.
    pub source: u32,
    /// Source path of a datagram.
    pub origin: Origin,
    /// NIC clock at the time of the CQE; 0 for errors.
    pub timestamp: u64,
    /// The sender requested an event.
    pub solicited: bool,
}

/// Source path of a datagram, needed for a reply. Unused in other completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Origin {
    /// The sender's LID; 0 on Ethernet.
    pub lid: u16,
    /// The lower 7 bits of the destination LID.
    pub path: u8,
    /// The service level, 4 bits.
    pub level: u8,
    /// The first 40 received bytes hold a GRH; otherwise they are reserved but undefined.
    pub has_route: bool,
}

/// The kind of completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// `REQ`: a send WQE succeeded.
    Sent {
        /// Its opcode.
        opcode: u8,
    },
    /// `RESP_WR_IMM`: the remote side wrote memory with immediate data.
    Written {
        /// The immediate data.
        immediate: u32,
    },
    /// `RESP_SEND`: a message arrived.
    Received,
    /// `RESP_SEND_IMM`: a message arrived, with immediate data.
    ReceivedImmediate {
        /// The immediate data.
        immediate: u32,
    },
    /// `RESP_SEND_INV`: a message arrived and invalidated a local key.
    ReceivedInvalidate {
        /// The invalidated key.
        key: u32,
    },
    /// `REQ_ERR`: a send WQE failed.
    SendFailed(Failed),
    /// `RESP_ERR`: a receive WQE failed.
    ReceiveFailed(Failed),
}

/// Details of a failed WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failed {
    /// The syndrome.
    pub syndrome: Syndrome,
    /// The vendor syndrome.
    pub vendor: u8,
    /// Opcode of the send WQE; undefined for receives.
    pub opcode: u8,
}

/// Offset of the polled word: counter, signature and `op_own`, which a GPU loads as highest byte.
pub const WATCHED: usize = 60;

/// Initial `op_own`: opcode 15 and the owner bit inverted for pass 0. rdma-core's provider writes
/// 0xf0, which satisfies a wait for the owner bit of pass 0.
pub const INITIAL_OWNER: u8 = 0xf1;

/// Offset of `op_own`.
const OWNER: usize = 63;
const INVALID: u8 = 15;

impl Event {
    /// The CQE opcode: `MLX5_CQE_…`.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        match self {
            Self::Sent { .. } => 0,
            Self::Written { .. } => 1,
            Self::Received => 2,
            Self::ReceivedImmediate { .. } => 3,
            Self::ReceivedInvalidate { .. } => 4,
            Self::SendFailed(_) => 13,
            Self::ReceiveFailed(_) => 14,
        }
    }

    /// The error details, if the WQE failed.
    #[must_use]
    pub fn failed(&self) -> Option<&Failed> {
        match self {
            Self::SendFailed(failed) | Self::ReceiveFailed(failed) => Some(failed),
            _ => None,
        }
    }

    /// True for a send WQE.
    #[must_use]
    pub fn is_send(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::SendFailed(_))
    }

    fn word36(&self) -> u32 {
        match *self {
            Self::Written { immediate } | Self::ReceivedImmediate { immediate } => immediate,
            Self::ReceivedInvalidate { key } => key,
            _ => 0,
        }
    }

    fn send_opcode(&self) -> u8 {
        match *self {
            Self::Sent { opcode } => opcode,
            Self::SendFailed(failed) | Self::ReceiveFailed(failed) => failed.opcode,
            _ => 0,
        }
    }
}

impl Completion {
    /// A completion of a WQE; bytes and the other fields are 0.
    #[must_use]
    pub fn new(event: Event, qpn: u32, counter: u16) -> Self {
        Self {
            event,
            qpn,
            counter,
            bytes: 0,
            user_index: 0,
            source: 0,
            origin: Origin::default(),
            timestamp: 0,
            solicited: false,
        }
    }

    /// Encodes the CQE with this owner bit (see [`Depth::parity`](super::Depth::parity)). Truncates
    /// 24-bit numbers.
    ///
    /// When others poll the slot, write the word at [`WATCHED`] last.
    #[must_use]
    pub fn encode(&self, owner: bool) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        let mut put = |offset: usize, field: &[u8]| {
            for (to, from) in bytes.iter_mut().skip(offset).zip(field) {
                *to = *from;
            }
        };
        put(17, &[self.origin.path & 0x7f]);
        put(22, &self.origin.lid.to_be_bytes());
        let route =
            u32::from(self.origin.has_route) << 28 | u32::from(self.origin.level & 0xf) << 24;
        put(24, &(route | self.source & 0xff_ffff).to_be_bytes());
        put(32, &(self.user_index & 0xff_ffff).to_be_bytes());
        put(36, &self.event.word36().to_be_bytes());
        put(44, &self.bytes.to_be_bytes());
        match self.event.failed() {
            None => put(48, &self.timestamp.to_be_bytes()),
            Some(failed) => put(54, &[failed.vendor, failed.syndrome.code()]),
        }
        let opcode = u32::from(self.event.send_opcode()) << 24;
        put(56, &(opcode | self.qpn & 0xff_ffff).to_be_bytes());
        put(60, &self.counter.to_be_bytes());
        let solicited = u8::from(self.solicited) << 1;
        put(OWNER, &[self.event.opcode() << 4 | solicited | u8::from(owner)]);
        bytes
    }

    /// Decodes a CQE, ignoring its owner bit.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritten`], [`Error::CompletionOpcode`], [`Error::CompletionFormat`].
    pub fn decode(from: &[u8; BLOCK]) -> Result<Self, Error> {
        let op_own = owner_of(from);
        let (opcode, format) = (op_own >> 4, op_own >> 2 & 3);
        if opcode == INVALID {
            return Err(Error::Unwritten);
        }
        let word = fields::u32_at(from, 56)?;
        let source = fields::u32_at(from, 24)?;
        let immediate = fields::u32_at(from, 36)?;
        let failed = Failed {
            vendor: fields::u8_at(from, 54)?,
            syndrome: Syndrome::of(fields::u8_at(from, 55)?),
            opcode: (word >> 24) as u8,
        };
        let event = match opcode {
            0 => Event::Sent { opcode: failed.opcode },
            1 => Event::Written { immediate },
            2 => Event::Received,
            3 => Event::ReceivedImmediate { immediate },
            4 => Event::ReceivedInvalidate { key: immediate },
            13 => Event::SendFailed(failed),
            14 => Event::ReceiveFailed(failed),
            _ => return Err(Error::CompletionOpcode { opcode }),
        };
        if format != 0 {
            return Err(Error::CompletionFormat { format });
        }
        Ok(Self {
            event,
            qpn: word & 0xff_ffff,
            counter: fields::u16_at(from, 60)?,
            bytes: fields::u32_at(from, 44)?,
            user_index: fields::u32_at(from, 32)? & 0xff_ffff,
            source: source & 0xff_ffff,
            origin: Origin {
                lid: fields::u16_at(from, 22)?,
                path: fields::u8_at(from, 17)? & 0x7f,
                level: (source >> 24) as u8 & 0xf,
                // Two bits: on Ethernet they distinguish header types.
                has_route: source >> 28 & 3 != 0,
            },
            timestamp: match event.failed() {
                None => fields::u64_at(from, 48)?,
                Some(_) => 0,
            },
            solicited: op_own & 2 != 0,
        })
    }
}

/// Encodes `op_own`: opcode, format, solicited, owner.
#[must_use]
pub fn owner_of(entry: &[u8; BLOCK]) -> u8 {
    let [.., op_own] = *entry;
    op_own
}

/// The word that re-arms a polled slot: no opcode, and the owner bit of the finished pass. No wait
/// for the next pass is satisfied, [`Watch::Geq`](super::Watch::Geq) included.
#[must_use]
pub fn rearmed(parity: bool) -> u32 {
    u32::from_ne_bytes([0, 0, 0, INVALID << 4 | u8::from(parity)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A completion with distinct field values, and its bytes written by hand.
    fn received() -> (Completion, [u8; 64]) {
        let completion = Completion {
            event: Event::ReceivedImmediate { immediate: 0x0102_0304 },
            qpn: 0x0a_0b0c,
            counter: 0x1234,
            bytes: 0x0506_0708,
            user_index: 0x11_2233,
            source: 0x44_5566,
            origin: Origin { lid: 0x6162, path: 0x63, level: 0xb, has_route: true },
            timestamp: 0x2122_2324_2526_2728,
            solicited: true,
        };
        let mut bytes = [0; 64];
        bytes[17] = 0x63;
        bytes[22..24].copy_from_slice(&[0x61, 0x62]);
        bytes[24..28].copy_from_slice(&[0x1b, 0x44, 0x55, 0x66]);
        bytes[32..40].copy_from_slice(&[0, 0x11, 0x22, 0x33, 1, 2, 3, 4]);
        bytes[44..56]
            .copy_from_slice(&[5, 6, 7, 8, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
        bytes[56..].copy_from_slice(&[0, 0x0a, 0x0b, 0x0c, 0x12, 0x34, 0, 0x33]);
        (completion, bytes)
    }

    #[test]
    fn matches_hand_written_bytes() {
        let (completion, mut bytes) = received();
        assert_eq!(completion.encode(true), bytes);
        assert_eq!(Completion::decode(&bytes), Ok(completion));
        bytes[63] = 0x32;
        assert_eq!(completion.encode(false), bytes);
        assert_eq!(Completion::decode(&bytes), Ok(completion));
    }

    #[test]
    fn error_matches_hand_written_bytes() {
        let failed = Failed { syndrome: Syndrome::RemoteAccess, vendor: 0x88, opcode: 0x08 };
        let completion = Completion::new(Event::SendFailed(failed), 0x0a_0b0c, 0xfffe);
        let mut bytes = [0; 64];
        bytes[54..].copy_from_slice(&[0x88, 0x13, 8, 0x0a, 0x0b, 0x0c, 0xff, 0xfe, 0, 0xd1]);
        assert_eq!(completion.encode(true), bytes);
        assert_eq!(Completion::decode(&bytes), Ok(completion));
        bytes[63] = 0xe0;
        let event = Completion::decode(&bytes).unwrap().event;
        assert_eq!(event, Event::ReceiveFailed(failed));
    }

    #[test]
    fn rejects_unknown_opcodes() {
        let of = |op_own| {
            let mut bytes = [0; 64];
            bytes[63] = op_own;
            Completion::decode(&bytes)
        };
        for opcode in 0..16_u8 {
            let known = matches!(opcode, 0..=4 | 13 | 14);
            assert_eq!(of(opcode << 4).is_ok(), known, "{opcode}");
        }
        assert_eq!(of(INITIAL_OWNER), Err(Error::Unwritten));
        assert_eq!(of(0x20 | 4), Err(Error::CompletionFormat { format: 1 }));
        assert_eq!(of(0x50), Err(Error::CompletionOpcode { opcode: 5 }));
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_round_trips(bytes in proptest::array::uniform32(any::<[u8; 2]>())) {
            let mut entry = [0; 64];
            entry.copy_from_slice(bytes.as_flattened());
            if let Ok(completion) = Completion::decode(&entry) {
                let again = completion.encode(entry[63] & 1 != 0);
                prop_assert_eq!(Completion::decode(&again), Ok(completion));
                prop_assert_eq!(&again[57..62], &entry[57..62]);
            }
        }
    }
}
