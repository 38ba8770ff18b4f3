//! What a request does: a send, a put or a get.

use std::ops::Range;

use gdsync::wire::{DataSegment, Payload, Wqe};

use crate::region::Copier;
use crate::{Error, Operation, Region, Window};

/// Most blocks of a request.
pub const MAX_BLOCKS: usize = 30;
/// Most bytes of a message: the limit of NIC ports.
pub const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of inline data.
pub const MAX_INLINE: u64 = 256;

/// The blocks of a region that a request uses: a range, or up to 30 of them.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    one: [Range<usize>; 1],
    many: Option<&'a [Range<usize>]>,
}

impl From<Range<usize>> for Blocks<'_> {
    fn from(range: Range<usize>) -> Self {
        let (one, many) = ([range], None);
        Self { one, many }
    }
}

impl<'a> From<&'a [Range<usize>]> for Blocks<'a> {
    fn from(ranges: &'a [Range<usize>]) -> Self {
        Self { one: [const { 0..0 }], many: Some(ranges) }
    }
}

impl<'a> From<&'a Vec<Range<usize>>> for Blocks<'a> {
    fn from(ranges: &'a Vec<Range<usize>>) -> Self {
        Self::from(ranges.as_slice())
    }
}

impl Blocks<'_> {
    pub(crate) fn as_slice(&self) -> &[Range<usize>] {
        self.many.unwrap_or(&self.one)
    }
}

/// A send, a put or a get of blocks of a region.
#[derive(Debug, Clone)]
#[must_use = "start it, or prepare it"]
pub struct Transfer<'a> {
    pub(crate) peer: u32,
    pub(crate) region: &'a Region,
    blocks: Blocks<'a>,
    target: Target<'a>,
    is_inline: bool,
    pub(crate) has_completion: bool,
}

#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    Receive,
    Put(&'a Window, u64),
    Get(&'a Window, u64),
}

impl<'a> Transfer<'a> {
    fn new(peer: u32, region: &'a Region, blocks: Blocks<'a>, target: Target<'a>) -> Self {
        Self { peer, region, blocks, target, is_inline: false, has_completion: true }
    }

    /// Sends the concatenated blocks to a receive of the peer.
    pub fn send(peer: u32, region: &'a Region, blocks: impl Into<Blocks<'a>>) -> Self {
        Self::new(peer, region, blocks.into(), Target::Receive)
    }

    /// Writes the concatenated blocks to the peer's part of a window, at an offset.
    pub fn put(
        peer: u32,
        window: &'a Window,
        offset: u64,
        region: &'a Region,
        blocks: impl Into<Blocks<'a>>,
    ) -> Self {
        Self::new(peer, region, blocks.into(), Target::Put(window, offset))
    }

    /// Reads from the peer's part of a window, at an offset, into the blocks.
    pub fn get(
        peer: u32,
        window: &'a Window,
        offset: u64,
        region: &'a Region,
        blocks: impl Into<Blocks<'a>>,
    ) -> Self {
        Self::new(peer, region, blocks.into(), Target::Get(window, offset))
    }

    /// Copies the data of a put into the WQE, so the memory may change at once (`MP_PUT_INLINE`). No effect on others.
    pub fn inline(mut self) -> Self {
        self.is_inline = self.operation() == Operation::Put;
        self
    }

    /// Makes a put that cannot be waited for (`MP_PUT_NOWAIT`): a later request of the same peer that completes shows that it has
    /// completed too. No effect on others.
    pub fn without_completion(mut self) -> Self {
        self.has_completion = self.operation() != Operation::Put;
        self
    }

    pub(crate) fn blocks(&self) -> &[Range<usize>] {
        self.blocks.as_slice()
    }

    pub(crate) fn operation(&self) -> Operation {
        match self.target {
            Target::Receive => Operation::Send,
            Target::Put(..) => Operation::Put,
            Target::Get(..) => Operation::Get,
        }
    }

    /// True if the blocks are read when the WQE is executed.
    pub(crate) fn reads_blocks(&self) -> bool {
        self.operation() != Operation::Get && !self.is_inline
    }

    /// The WQE of its blocks' [bytes](bytes_of), unsignalled.
    pub(crate) fn wqe(&self, bytes: u64, copier: &Copier) -> Result<Wqe, Error> {
        let remote = |window: &Window, offset| window.at(self.peer, offset, bytes);
        let mut wqe = match self.target {
            Target::Receive => Wqe::send(&[]),
            Target::Put(window, offset) => Wqe::write(remote(window, offset)?, &[]),
            Target::Get(window, offset) => Wqe::read(remote(window, offset)?, &[]),
        };
        wqe.payload = if self.is_inline {
            Payload::Inline(self.inline_data(bytes, copier)?)
        } else {
            Payload::Segments(segments(self.region, self.blocks())?)
        };
        Ok(wqe)
    }

    fn inline_data(&self, bytes: u64, copier: &Copier) -> Result<Vec<u8>, Error> {
        if bytes > MAX_INLINE {
            return Err(Error::Inline { bytes });
        }
        let mut data = Vec::with_capacity(bytes as usize);
        for block in self.blocks() {
            self.region.inside(block)?;
            if let Some(staged) = self.region.staged() {
                copier.download(staged, block)?;
            }
            let start = data.len();
            data.resize(start + block.len(), 0);
            let to = data.get_mut(start..).unwrap_or_default();
            self.region.place().read(block.start, to)?;
        }
        Ok(data)
    }
}

/// The SGEs of blocks.
pub(crate) fn segments(
    region: &Region,
    blocks: &[Range<usize>],
) -> Result<Vec<DataSegment>, Error> {
    match blocks {
        [block] => Ok(vec![region.segment(block)?]),
        blocks => blocks.iter().map(|block| region.segment(block)).collect(),
    }
}

/// The sum of the blocks' lengths, within the limits.
pub(crate) fn bytes_of(blocks: &[Range<usize>]) -> Result<u64, Error> {
    let lengths = blocks.iter().map(|block| block.len() as u64);
    let bytes = lengths.fold(0, u64::saturating_add);
    if blocks.len() <= MAX_BLOCKS && bytes <= MAX_BYTES {
        Ok(bytes)
    } else {
        Err(Error::TooLarge { blocks: blocks.len(), bytes })
    }
}
