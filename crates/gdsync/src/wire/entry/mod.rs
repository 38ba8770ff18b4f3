//! Send WQEs.

mod control;
mod datagram;
mod operation;
mod payload;

#[cfg(test)]
mod tests;

pub use control::{Control, Fence, Flags, MAX_BLOCKS, Opcode};
pub use datagram::{AddressVector, Datagram, GlobalRoute};
pub use operation::{Operation, RemoteAddress};
pub use payload::Payload;

use super::{BLOCK, DataSegment, Error, SEGMENT, fields};
use control::MAX_SEGMENTS;

/// A send WQE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wqe {
    /// The operation.
    pub operation: Operation,
    /// Fence, completion and event flags.
    pub flags: Flags,
    /// The destination, on a datagram queue pair.
    pub datagram: Option<Datagram>,
    /// The local data.
    pub payload: Payload,
}

/// The transport of a queue pair, which determines the layout of its WQEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A reliable or unreliable connection.
    Connected,
    /// Datagrams: an address follows the control segment.
    Datagram,
}

/// A decoded WQE with the other fields of its control segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The WQE.
    pub entry: Wqe,
    /// The QPN.
    pub qpn: u32,
    /// First block, modulo 2^16.
    pub index: u16,
    /// Number of blocks.
    pub blocks: usize,
}

impl Wqe {
    /// A WQE with these data segments, not signalled and without a fence.
    #[must_use]
    pub fn new(operation: Operation, segments: &[DataSegment]) -> Self {
        Self {
            operation,
            flags: Flags::default(),
            datagram: None,
            payload: Payload::Segments(segments.to_vec()),
        }
    }

    /// No operation.
    #[must_use]
    pub fn nop() -> Self {
        Self::new(Operation::Nop, &[])
    }

    /// Sends the concatenated segments.
    #[must_use]
    pub fn send(segments: &[DataSegment]) -> Self {
        Self::new(Operation::Send { immediate: None }, segments)
    }

    /// Writes the concatenated segments to remote memory.
    #[must_use]
    pub fn write(remote: RemoteAddress, segments: &[DataSegment]) -> Self {
        let immediate = None;
        Self::new(Operation::Write { remote, immediate }, segments)
    }

    /// Reads remote memory into the segments.
    #[must_use]
    pub fn read(remote: RemoteAddress, segments: &[DataSegment]) -> Self {
        Self::new(Operation::Read { remote }, segments)
    }

    /// Replaces the segments with inline data.
    #[must_use]
    pub fn inline(mut self, bytes: &[u8]) -> Self {
        self.payload = Payload::Inline(bytes.to_vec());
        self
    }

    /// Adds immediate data; no effect on operations without it.
    #[must_use]
    pub fn immediate(mut self, value: u32) -> Self {
        if let Operation::Send { immediate } | Operation::Write { immediate, .. } =
            &mut self.operation
        {
            *immediate = Some(value);
        }
        self
    }

    /// Requests a CQE on success too.
    #[must_use]
    pub fn signalled(mut self) -> Self {
        self.flags.signalled = true;
        self
    }

    /// Sets the fence mode.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.flags.fence = fence;
        self
    }

    /// Sets the destination of a datagram.
    #[must_use]
    pub fn to(mut self, datagram: Datagram) -> Self {
        self.datagram = Some(datagram);
        self
    }

    /// Number of 64-byte blocks.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`].
    pub fn blocks(&self) -> Result<usize, Error> {
        self.segments().map(|segments| segments.div_ceil(BLOCK / SEGMENT))
    }

    /// Encodes the WQE as block `index` of queue pair `qpn` and returns the number of blocks. Bytes after the last segment
    /// are zeros (rdma-core keeps the old bytes; a NIC does not read them).
    ///
    /// In a ring, a WQE wraps only between blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Short`] if `to` is too short; [`Error::TooLarge`], [`Error::Wide`], [`Error::SegmentLength`],
    /// [`Error::Meaning`] for an invalid WQE.
    pub fn encode(&self, qpn: u32, index: u16, to: &mut [u8]) -> Result<usize, Error> {
        self.check()?;
        let segments = self.segments()?;
        let blocks = segments.div_ceil(BLOCK / SEGMENT);
        let (need, have) = (blocks * BLOCK, to.len());
        let to = to.get_mut(..need).ok_or(Error::Short { need, have })?;
        to.fill(0);
        let control = Control {
            index,
            opcode: self.operation.opcode(),
            qpn,
            // At most 63.
            segments: segments as u8,
            signature: 0,
            flags: self.flags,
            immediate: self.operation.immediate().unwrap_or(0),
        };
        control.encode(to)?;
        let mut offset = SEGMENT;
        if let Some(datagram) = &self.datagram {
            datagram.put(to, offset)?;
            offset += datagram::BYTES;
        }
        if let Some(remote) = self.operation.remote() {
            fields::put_u64(to, offset, remote.address)?;
            fields::put_u32(to, offset + 8, remote.key)?;
            offset += SEGMENT;
        }
        if let Some((first, second)) = self.operation.atomic() {
            fields::put_u64(to, offset, first)?;
            fields::put_u64(to, offset + 8, second)?;
            offset += SEGMENT;
        }
        let atomic = self.operation.atomic().is_some();
        self.payload.put(to, offset, atomic)?;
        Ok(blocks)
    }

    /// Decodes a WQE from consecutive blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Short`], [`Error::Opcode`], [`Error::Flags`], [`Error::Size`], [`Error::Wide`], [`Error::SegmentLength`],
    /// [`Error::Inline`], [`Error::Meaning`].
    pub fn decode(from: &[u8], transport: Transport) -> Result<Decoded, Error> {
        let control = Control::decode(from)?;
        let opcode = control.opcode;
        let segments = usize::from(control.segments);
        let (need, have) = (segments * SEGMENT, from.len());
        let from = from.get(..need).ok_or(Error::Short { need, have })?;
        let mut offset = SEGMENT;
        let mut skip = |bytes: usize| {
            let start = offset;
            offset += bytes;
            if offset <= from.len() {
                Ok(start)
            } else {
                Err(Error::Size { segments, need: offset / SEGMENT })
            }
        };
        let datagram = match transport {
            Transport::Connected => None,
            Transport::Datagram => Some(Datagram::at(from, skip(datagram::BYTES)?)?),
        };
        let mut remote = RemoteAddress { address: 0, key: 0 };
        if opcode.has_remote() {
            let start = skip(SEGMENT)?;
            remote.address = fields::u64_at(from, start)?;
            remote.key = fields::u32_at(from, start + 8)?;
        }
        let (mut first, mut second) = (0, 0);
        if opcode.is_atomic() {
            let start = skip(SEGMENT)?;
            first = fields::u64_at(from, start)?;
            second = fields::u64_at(from, start + 8)?;
        }
        let immediate = opcode.has_immediate().then_some(control.immediate);
        let entry = Self {
            operation: match opcode {
                Opcode::Nop => Operation::Nop,
                Opcode::Send | Opcode::SendImmediate => Operation::Send { immediate },
                Opcode::Write | Opcode::WriteImmediate => Operation::Write { remote, immediate },
                Opcode::Read => Operation::Read { remote },
                Opcode::CompareSwap => {
                    Operation::CompareSwap { remote, compare: second, swap: first }
                }
                Opcode::FetchAdd => Operation::FetchAdd { remote, add: first },
            },
            flags: control.flags,
            datagram,
            payload: Payload::of(from.get(offset..).unwrap_or_default(), opcode.is_atomic())?,
        };
        entry.check()?;
        Ok(Decoded { blocks: control.blocks(), qpn: control.qpn, index: control.index, entry })
    }

    /// Number of 16-byte segments.
    fn segments(&self) -> Result<usize, Error> {
        let datagram = self.datagram.map_or(0, |_| datagram::BYTES / SEGMENT);
        let remote = usize::from(self.operation.remote().is_some());
        let atomic = usize::from(self.operation.atomic().is_some());
        let segments = 1 + datagram + remote + atomic + self.payload.segments();
        if segments > MAX_SEGMENTS {
            return Err(Error::TooLarge { segments });
        }
        Ok(segments)
    }

    /// Rejects combinations that no WQE supports.
    fn check(&self) -> Result<(), Error> {
        let operation = self.operation.opcode();
        let wrong = |why| Err(Error::Meaning { operation, why });
        let inline = matches!(&self.payload, Payload::Inline(bytes) if !bytes.is_empty());
        match self.operation {
            Operation::Nop if self.payload.bytes() > 0 => wrong("has no payload"),
            Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
                if inline =>
            {
                wrong("writes to local memory and cannot have inline data")
            }
            Operation::Send { .. } | Operation::Nop => Ok(()),
            _ if self.datagram.is_some() => wrong("is not supported by datagrams"),
            _ => Ok(()),
        }
    }
}
