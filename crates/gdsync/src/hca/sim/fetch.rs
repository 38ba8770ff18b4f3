//! Reads doorbells, records and send WQEs.

use super::fault::Violation;
use super::link::{Body, LONGEST_DATAGRAM, RemoteOperation};
use super::pair::SimQueuePair;
use super::region::{LONGEST, MemoryRegions};
use super::state::State;
use crate::wire::{Control, Datagram, Decoded, Operation, Payload, Syndrome, Wqe};

/// Polls the doorbell. True if it was rung.
pub(super) fn poll_doorbell(state: &mut State, pair: &mut SimQueuePair) -> bool {
    let Some(doorbell) = pair.send.doorbell() else {
        return false;
    };
    let Some(record) = pair.send.acknowledge(doorbell) else {
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

/// Fields of a WQE that its CQE needs, also known for unreadable WQEs.
pub(super) struct WqeInfo {
    pub counter: u16,
    pub opcode: u8,
    pub blocks: u16,
}

impl WqeInfo {
    pub(super) fn of(decoded: &Decoded) -> Self {
        Self {
            counter: decoded.index,
            opcode: decoded.entry.operation.opcode() as u8,
            // At most 16.
            blocks: decoded.blocks as u16,
        }
    }

    /// The WQE at the cursor, even if malformed.
    pub(super) fn peek(pair: &SimQueuePair) -> Self {
        let (opcode, blocks) = pair.send.peek();
        Self { counter: pair.send.cursor, opcode, blocks }
    }
}

/// Reads the WQE at the cursor.
pub(super) fn fetch(state: &mut State, pair: &SimQueuePair) -> Result<Decoded, WqeInfo> {
    let unread = || WqeInfo::peek(pair);
    let first = pair.send.blocks(1).map_err(|_| unread())?;
    let control = Control::decode(&first).map_err(|_| unread())?;
    let (block, qpn) = (pair.send.cursor, pair.qpn);
    if control.index != block {
        let index = control.index;
        state.faults.note(Violation::WrongIndex { qpn, block, index });
        return Err(unread());
    }
    if control.qpn != qpn || control.blocks() > usize::from(pair.send.left()) {
        return Err(unread());
    }
    let bytes = pair.send.blocks(control.blocks()).map_err(|_| unread())?;
    Wqe::decode(&bytes, pair.transport).map_err(|_| unread())
}

/// The message of a payload.
fn gather(regions: &MemoryRegions, payload: &Payload) -> Result<Vec<u8>, Syndrome> {
    match payload {
        Payload::Inline(bytes) => Ok(bytes.clone()),
        Payload::Segments(segments) => {
            regions.gather(segments).map_err(|_| Syndrome::LocalProtection)
        }
    }
}

/// The datagram for the remote side. `own` is the Q_Key of the sender, which a Q_Key with the highest bit stands for (InfiniBand
/// specification, 10.2.5).
pub(super) fn datagram(
    regions: &MemoryRegions,
    entry: &Wqe,
    to: &Datagram,
    own: u32,
) -> Result<Body, Syndrome> {
    if entry.payload.bytes() > LONGEST_DATAGRAM {
        return Err(Syndrome::LocalLength);
    }
    let Operation::Send { immediate } = entry.operation else {
        return Err(Syndrome::LocalOperation);
    };
    Ok(Body::Datagram {
        key: if to.key >> 31 == 0 { to.key } else { own },
        level: to.path.rate_and_level & 0xf,
        bytes: gather(regions, &entry.payload)?,
        immediate,
        solicited: entry.flags.solicited,
    })
}

/// The request for the remote side; `None` for a no-op.
pub(super) fn request(
    regions: &MemoryRegions,
    entry: &Wqe,
) -> Result<Option<RemoteOperation>, Syndrome> {
    let solicited = entry.flags.solicited;
    let length = entry.payload.bytes();
    if length > LONGEST {
        return Err(Syndrome::LocalLength);
    }
    let bytes = || gather(regions, &entry.payload);
    let eight = if length == 8 { Ok(()) } else { Err(Syndrome::LocalLength) };
    Ok(Some(match entry.operation {
        Operation::Nop => return Ok(None),
        Operation::Send { immediate } => {
            RemoteOperation::Send { bytes: bytes()?, immediate, solicited }
        }
        Operation::Write { remote, immediate } => {
            RemoteOperation::Write { remote, bytes: bytes()?, immediate, solicited }
        }
        Operation::Read { remote } => RemoteOperation::Read { remote, length },
        Operation::CompareSwap { remote, compare, swap } => {
            eight.map(|()| RemoteOperation::CompareSwap { remote, compare, swap })?
        }
        Operation::FetchAdd { remote, add } => {
            eight.map(|()| RemoteOperation::FetchAdd { remote, add })?
        }
    }))
}
