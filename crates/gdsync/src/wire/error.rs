//! What bytes can be that no entry is, and what values no entry holds.

/// Why bytes are no entry, or a value fits into none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than the entry needs.
    #[error("the entry needs {need} bytes and there are {have}")]
    Short {
        /// Bytes needed.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// An entry of more than 63 segments: its size is a field of 6 bits.
    #[error(
        "the entry would be {segments} segments of 16 bytes; 63 is the most: use fewer data segments or less inline data"
    )]
    TooLarge {
        /// Segments, the control segment included.
        segments: usize,
    },
    /// A send entry whose size in segments has no room for what its opcode needs.
    #[error(
        "the entry says that it is {segments} segments of 16 bytes long, and its opcode needs {need}"
    )]
    Size {
        /// As the entry has it.
        segments: usize,
        /// The fewest its opcode has.
        need: usize,
    },
    /// An unknown opcode.
    #[error("opcode {opcode:#04x} with modifier {modifier:#04x} is not known here")]
    Opcode {
        /// The opcode.
        opcode: u8,
        /// What modifies it.
        modifier: u8,
    },
    /// Flags of a control segment that mean nothing known.
    #[error("the flags {flags:#04x} of a control segment have a meaning that is not known here")]
    Flags {
        /// The byte `fm_ce_se`.
        flags: u8,
    },
    /// A number that does not fit into its field.
    #[error("{what} is {value:#x} and has {bits} bits")]
    Wide {
        /// The field.
        what: &'static str,
        /// What it was to be.
        value: u64,
        /// Bits of the field.
        bits: u32,
    },
    /// A data segment of 2 GiB or more, or one of no bytes in an entry, which a NIC takes for 2 GiB.
    #[error("a data segment of {length:#x} bytes: it must have at least 1 and less than 2^31")]
    SegmentLength {
        /// Bytes.
        length: u32,
    },
    /// Inline data that does not fill the entry's remaining segments.
    #[error(
        "{length} bytes inline, where the rest of the entry has room for {room} and must be filled"
    )]
    Inline {
        /// Bytes, by the inline segment.
        length: usize,
        /// Bytes that follow its header.
        room: usize,
    },
    /// An operation with a payload or an address that it does not have.
    #[error("{operation:?} {why}")]
    Meaning {
        /// The operation.
        operation: super::Opcode,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A completion entry that nobody has written since the queue was made (or re-armed).
    #[error("the completion entry has not been written yet")]
    Unwritten,
    /// A completion entry with an opcode that is not known here.
    #[error("completion opcode {opcode} is not known here")]
    CompletionOpcode {
        /// The upper half of `op_own`.
        opcode: u8,
    },
    /// A completion entry that holds received data itself, or others: the queue was made with a feature that must be off.
    #[error(
        "the completion entry has format {format}: scatter to completion entries and their compression must be off"
    )]
    CompletionFormat {
        /// Bits 2 and 3 of `op_own`.
        format: u8,
    },
    /// A queue's depth that is no power of two, or too large to count.
    #[error("a queue of {entries} entries: it must be a power of two, at most {most}")]
    Depth {
        /// Entries asked for.
        entries: u32,
        /// The largest.
        most: u32,
    },
}
