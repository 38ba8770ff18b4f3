//! Errors of encoding and decoding WQEs and CQEs.

/// Why bytes cannot be decoded or a value cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few bytes.
    #[error("buffer too short: {need} bytes needed, {have} available")]
    Short {
        /// Required bytes.
        need: usize,
        /// Available bytes.
        have: usize,
    },
    /// A WQE of more than 63 segments: the size field has 6 bits.
    #[error(
        "WQE too large: {segments} segments of 16 bytes, limit 63; use fewer data segments or less inline data"
    )]
    TooLarge {
        /// Segments, the control segment included.
        segments: usize,
    },
    /// A send WQE with too few segments for its opcode.
    #[error("invalid WQE size: {segments} segments of 16 bytes, its opcode needs {need}")]
    Size {
        /// Segments of the WQE.
        segments: usize,
        /// Minimum for its opcode.
        need: usize,
    },
    /// An unknown opcode.
    #[error("unknown opcode {opcode:#04x} with modifier {modifier:#04x}")]
    Opcode {
        /// The opcode.
        opcode: u8,
        /// The opcode modifier.
        modifier: u8,
    },
    /// Unknown flags in a control segment.
    #[error("unknown flags {flags:#04x} in a control segment")]
    Flags {
        /// The byte `fm_ce_se`.
        flags: u8,
    },
    /// A number too wide for its field.
    #[error("{what} {value:#x} exceeds {bits} bits")]
    Wide {
        /// The field.
        what: &'static str,
        /// The value.
        value: u64,
        /// Width of the field in bits.
        bits: u32,
    },
    /// A data segment of 2 GiB or more, or of 0 bytes, which a NIC reads as 2 GiB.
    #[error("invalid length {length:#x} of a data segment: at least 1, less than 2^31")]
    SegmentLength {
        /// Length in bytes.
        length: u32,
    },
    /// Inline data that does not fill the remaining segments of the WQE.
    #[error("invalid inline length {length}: it must fill the {room} remaining bytes of the WQE")]
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
    #[error("the CQE has not been written yet")]
    Unwritten,
    /// An unknown CQE opcode.
    #[error("unknown CQE opcode {opcode}")]
    CompletionOpcode {
        /// The upper half of `op_own`.
        opcode: u8,
    },
    /// A CQE with inline data or in compressed format: the queue uses an unsupported feature.
    #[error("unsupported CQE format {format}: turn off scatter to CQE and CQE compression")]
    CompletionFormat {
        /// Bits 2 and 3 of `op_own`.
        format: u8,
    },
    /// A queue depth that is too large or not a power of two.
    #[error("invalid queue depth {entries}: a power of two, at most {most}")]
    Depth {
        /// Requested depth.
        entries: u32,
        /// Maximum depth.
        most: u32,
    },
}
