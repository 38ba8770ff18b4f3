//! The layouts of mlx5's WQEs and CQEs and the index arithmetic of its queues. Pure functions on byte slices.
//!
//! All fields are big-endian in memory; a GPU loads the polled word of a CQE as little-endian. Numbers and layouts are from
//! rdma-core's `providers/mlx5/mlx5dv.h`; conventions beyond them (omitted segments, wrapping) from its `qp.c` and `cq.c`.
//!
//! ```
//! use gdsync::wire::{BLOCK, DataSegment, Transport, Wqe};
//!
//! let payload = [DataSegment { length: 64, key: 0x1234, address: 0x7000 }];
//! let entry = Wqe::send(&payload).signalled();
//! let mut blocks = [0; BLOCK];
//! assert_eq!(entry.encode(0x2a, 7, &mut blocks)?, 1);
//! let decoded = Wqe::decode(&blocks, Transport::Connected)?;
//! assert_eq!((decoded.qpn, decoded.index, decoded.entry), (0x2a, 7, entry));
//! # Ok::<(), gdsync::wire::Error>(())
//! ```

mod completion;
mod counter;
mod entry;
mod error;
mod fields;
mod receive;
mod syndrome;

pub use completion::{
    Completion, Event, Failed, INITIAL_OWNER, Origin, WATCHED, owner_of, rearmed,
};
pub use counter::{Depth, Watch, completion_record, consumer_of, producer_of, queue_record};
pub use entry::{
    AddressVector, Control, Datagram, Decoded, Fence, Flags, GlobalRoute, MAX_BLOCKS, Opcode,
    Operation, Payload, RemoteAddress, Transport, Wqe,
};
pub use error::Error;
pub use receive::{decode as decode_receive, encode as encode_receive};
pub use syndrome::Syndrome;

/// Bytes of a basic block of a send queue (`MLX5_SEND_WQE_BB`), and of a CQE.
pub const BLOCK: usize = 64;

/// Bytes of a segment, the unit of a WQE's size (`ds`).
pub const SEGMENT: usize = 16;

/// The key that ends a receive WQE shorter than its stride (`MLX5_INVALID_LKEY`).
pub const END_KEY: u32 = 0x100;

/// An SGE: a range of registered local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataSegment {
    /// Length in bytes, below 2^31. Encoding omits segments of 0 bytes.
    pub length: u32,
    /// The lkey.
    pub key: u32,
    /// Address in the memory region.
    pub address: u64,
}

impl DataSegment {
    /// Writes its 16 bytes.
    fn put(&self, to: &mut [u8], offset: usize) -> Result<(), Error> {
        fields::put_u32(to, offset, self.length)?;
        fields::put_u32(to, offset + 4, self.key)?;
        fields::put_u64(to, offset + 8, self.address)
    }

    /// Reads its 16 bytes.
    fn at(from: &[u8], offset: usize) -> Result<Self, Error> {
        Ok(Self {
            length: fields::u32_at(from, offset)?,
            key: fields::u32_at(from, offset + 4)?,
            address: fields::u64_at(from, offset + 8)?,
        })
    }

    /// Lengths have 31 bits: the highest bit marks an inline segment.
    fn fits(&self) -> Result<(), Error> {
        if self.length >> 31 == 0 {
            Ok(())
        } else {
            Err(Error::SegmentLength { length: self.length })
        }
    }
}
