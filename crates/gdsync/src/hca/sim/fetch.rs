//! What the requester reads: doorbells, records and send entries.

use std::sync::atomic::{Ordering, fence};

use super::fault::Violation;
use super::link::RemoteOperation;
use super::pair::Pair;
use super::region::{LONGEST, MemoryRegions};
use super::state::State;
use crate::wire::{Control, Decoded, Operation, Payload, Syndrome, Transport, Wqe, producer_of};

/// Takes a doorbell. The register is cleared before the record is read, so that of two doorbells in a row none is missed: either
/// the second is still in the register, or the record is already the second's.
pub(super) fn listen(state: &mut State, pair: &mut Pair) -> bool {
    let Ok(doorbell @ 1..) = pair.send.register.load_u64(0) else {
        return false;
    };
    let cleared = pair.send.register.store_u64(0, 0);
    fence(Ordering::SeqCst);
    let record = pair.send.record.load_u32(0).map(producer_of);
    let (Ok(()), Ok(record)) = (cleared, record) else {
        return false;
    };
    let (rung, index) = Control::rung(doorbell);
    let qpn = pair.qpn;
    let covered = record.wrapping_sub(index);
    let violation = if rung != qpn {
        Violation::WrongQueuePair { qpn, rung }
    } else if covered == 0 || covered > 1 << 15 {
        Violation::DoorbellBeforeRecord { qpn, index, record }
    } else if u32::from(record.wrapping_sub(pair.send.cursor)) > pair.send.depth.entries() {
        Violation::RecordBeyondQueue { qpn, record }
    } else {
        pair.send.producer = record;
        return true;
    };
    state.faults.note(violation);
    true
}

/// What a completion says of an entry that fails: also of one that could not be read.
pub(super) struct Failing {
    pub counter: u16,
    pub opcode: u8,
    pub blocks: u16,
}

impl Failing {
    pub(super) fn of(decoded: &Decoded) -> Self {
        Self {
            counter: decoded.index,
            opcode: decoded.entry.operation.opcode() as u8,
            // At most 16.
            blocks: decoded.blocks as u16,
        }
    }

    /// The entry at the cursor, by what can be read of it: its opcode's byte, and its size if that makes sense.
    pub(super) fn unread(pair: &Pair) -> Self {
        let first = pair.send.blocks(1).unwrap_or_default();
        let blocks = Control::decode(&first).map_or(1, |control| control.blocks() as u16);
        Self {
            counter: pair.send.cursor,
            opcode: first.get(3).copied().unwrap_or(0),
            blocks: blocks.min(pair.send.left()),
        }
    }
}

/// Reads the entry at the cursor.
pub(super) fn fetch(state: &mut State, pair: &Pair) -> Result<Decoded, Failing> {
    let unread = |_| Failing::unread(pair);
    let first = pair.send.blocks(1).map_err(unread)?;
    let control = Control::decode(&first).map_err(|_| Failing::unread(pair))?;
    let (block, qpn) = (pair.send.cursor, pair.qpn);
    if control.index != block {
        let index = control.index;
        state
            .faults
            .note(Violation::WrongIndex { qpn, block, index });
        return Err(Failing::unread(pair));
    }
    if control.qpn != qpn || control.blocks() > usize::from(pair.send.left()) {
        return Err(Failing::unread(pair));
    }
    let bytes = pair.send.blocks(control.blocks()).map_err(unread)?;
    Wqe::decode(&bytes, Transport::Connected).map_err(|_| Failing::unread(pair))
}

/// What an entry asks of the remote side; `None` if nothing.
pub(super) fn request(
    regions: &MemoryRegions,
    entry: &Wqe,
) -> Result<Option<RemoteOperation>, Syndrome> {
    let solicited = entry.flags.solicited;
    let length = entry.payload.bytes();
    if length > LONGEST {
        return Err(Syndrome::LocalLength);
    }
    let bytes = || match &entry.payload {
        Payload::Inline(bytes) => Ok(bytes.clone()),
        Payload::Segments(segments) => regions
            .gather(segments)
            .map_err(|_| Syndrome::LocalProtection),
    };
    let eight = if length == 8 {
        Ok(())
    } else {
        Err(Syndrome::LocalLength)
    };
    Ok(Some(match entry.operation {
        Operation::Nop => return Ok(None),
        Operation::Send { immediate } => RemoteOperation::Send {
            bytes: bytes()?,
            immediate,
            solicited,
        },
        Operation::Write { remote, immediate } => RemoteOperation::Write {
            remote,
            bytes: bytes()?,
            immediate,
            solicited,
        },
        Operation::Read { remote } => RemoteOperation::Read { remote, length },
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => eight.map(|()| RemoteOperation::CompareSwap {
            remote,
            compare,
            swap,
        })?,
        Operation::FetchAdd { remote, add } => {
            eight.map(|()| RemoteOperation::FetchAdd { remote, add })?
        }
    }))
}
