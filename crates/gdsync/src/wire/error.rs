//! Errors of encoding and decoding WQEs and CQEs.

/// Why bytes cannot be decoded or a value cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few bytes.
    #[error("the entry needs {need} bytes and there are {have}")]
    Short {
        /// Required bytes.
        need: usize,
        /// Available bytes.
        have: usize,
    },
    /// A WQE of more than 63 segments: the size field has 6 bits.
    #[error(
        "the entry would be {segments} segments of 16 bytes; 63 is the most: use fewer data segments or less inline data"
    )]
    TooLarge {
        /// Segments, the control segment included.
        segments: usize,
    },
    /// A send WQE with too few segments for its opcode.
    #[error(
        "the entry says that it is {segments} segments of 16 bytes long, and its opcode needs {need}"
    )]
    Size {
        /// Segments of the WQE.
        segments: usize,
        /// Minimum for its opcode.
        need: usize,
    },
    /// An unknown opcode.
    #[error("opcode {opcode:#04x} with modifier {modifier:#04x} is not known here")]
    Opcode {
        /// The opcode.
        opcode: u8,
        /// The opcode modifier.
        modifier: u8,
    },
    /// Unknown flags in a control segment.
    #[error("the flags {flags:#04x} of a control segment have a meaning that is not known here")]
    Flags {
        /// The byte `fm_ce_se`.
        flags: u8,
    },
    /// A number too wide for its field.
    #[error("{what} is {value:#x} and has {bits} bits")]
    Wide {
        /// The field.
        what: &'static str,
        /// The value.
        value: u64,
        /// Width of the field in bits.
        bits: u32,
    },
    /// A data segment of 2 GiB or more, or of 0 bytes, which a NIC reads as 2 GiB.
    #[error("a data segment of {length:#x} bytes: it must have at least 1 and less than 2^31")]
    SegmentLength {
        /// Length in bytes.
        length: u32,
    },
    /// Inline data that does not fill the remaining segments of the WQE.
    #[error(
        "{length} bytes inline, where the rest of the entry has room for {room} and must be filled"
    )]
    Inline {
        /// Length in the inline segment.
        length: usize,
        /// Bytes after its header.
        room: usize,
    },
    /// An operation with a payload or address it does not support.
    #[error("{operation:?} {why}")]
    Meaning {
        /// The operation.
        operation: super::Opcode,
        /// The problem.
        why: &'static str,
    },
    /// A CQE not written since the queue was created or re-armed.
    #[error("the completion entry has not been written yet")]
    Unwritten,
    /// An unknown CQE opcode.
    #[error("completion opcode {opcode} is not known here")]
    CompletionOpcode {
        /// The upper half of `op_own`.
        opcode: u8,
    },
    /// A CQE with inline data or in compressed format: the queue uses an unsupported feature.
    #[error(
        "the completion entry has format {format}: scatter to completion entries and their compression must be off"
    )]
    CompletionFormat {
        /// Bits 2 and 3 of `op_own`.
        format: u8,
    },
    /// A queue depth that is too large or not a power of two.
    #[error("a queue of {entries} entries: it must be a power of two, at most {most}")]
    Depth {
        /// Requested depth.
        entries: u32,
        /// Maximum depth.
        most: u32,
    },
}
