//! The responder: executes requests of the remote side, and receives datagrams.

use super::failure::fail;
use super::fault::Violation;
use super::link::{Answer, Body, Message, RemoteError, RemoteOperation};
use super::pair::{Mark, SimQueuePair};
use super::state::State;
use crate::wire::{
    Completion, DataSegment, Event, Failed, Origin, RemoteAddress, Syndrome, Transport,
};
use crate::{Error, MappedMemory};

/// Executes the request in `message`, without the body. `None` for a duplicate of an earlier request, which a NIC recognises by its
/// PSN.
pub(super) fn respond(
    state: &mut State,
    message: &Message,
    operation: RemoteOperation,
) -> Option<Answer> {
    let qpn = message.to.qpn;
    let Some(mut pair) = state.pairs.remove(&qpn) else {
        return Some(Answer::NotConnected);
    };
    let outcome = if pair.peer == Some(message.from) && !pair.failed {
        if message.sequence <= pair.answered {
            state.pairs.insert(qpn, pair);
            return None;
        }
        pair.answered = message.sequence;
        perform(state, &mut pair, operation)
    } else {
        Ok(Answer::NotConnected)
    };
    let answer = outcome.unwrap_or_else(|error| {
        // An invalid request breaks the connection.
        fail(&mut pair);
        Answer::Refused(error)
    });
    state.pairs.insert(qpn, pair);
    Some(answer)
}

/// Receives a datagram; it is lost without a posted receive, or if it is for another queue pair.
pub(super) fn datagram(state: &mut State, message: Message) {
    let Body::Datagram { key, level, bytes, immediate, solicited } = message.body else {
        return;
    };
    let Some(mut pair) = state.pairs.remove(&message.to.qpn) else {
        return;
    };
    let is_receiver = pair.transport == Transport::Datagram && pair.key == key && !pair.failed;
    if is_receiver {
        let event = received(immediate);
        let origin = Origin { lid: message.from.lid, level, ..Origin::default() };
        let from = Some((message.from.qpn, origin));
        let whole = [&[0; ROUTE_BYTES], &bytes[..]].concat();
        if receive(state, &mut pair, &whole, (event, from), solicited).is_err() {
            fail(&mut pair);
        }
    }
    state.pairs.insert(message.to.qpn, pair);
}

/// Space before a datagram in its receive, for a GRH. These ports have none.
const ROUTE_BYTES: usize = 40;

fn received(immediate: Option<u32>) -> Event {
    match immediate {
        None => Event::Received,
        Some(immediate) => Event::ReceivedImmediate { immediate },
    }
}

/// Writes the error CQE of a receive.
pub(super) fn failed(
    state: &mut State,
    pair: &mut SimQueuePair,
    counter: u16,
    syndrome: Syndrome,
    vendor: u8,
) {
    let failed = Failed { syndrome, vendor, opcode: 0 };
    let completion = Completion::new(Event::ReceiveFailed(failed), pair.qpn, counter);
    complete(state, pair, completion);
}

fn perform(
    state: &mut State,
    pair: &mut SimQueuePair,
    operation: RemoteOperation,
) -> Result<Answer, RemoteError> {
    let done = Answer::Done(Vec::new());
    match operation {
        RemoteOperation::Send { bytes, immediate, solicited } => {
            let event = received(immediate);
            Ok(if receive(state, pair, &bytes, (event, None), solicited)? {
                done
            } else {
                Answer::NotReady
            })
        }
        RemoteOperation::Write { remote, bytes, immediate, solicited } => {
            // Without a posted receive, do not write the data either.
            if immediate.is_some() && !pair.receive.is_posted() {
                return Ok(Answer::NotReady);
            }
            if !bytes.is_empty() {
                let place =
                    state.regions.remote(remote, bytes.len() as u64, |access| access.remote_write);
                let place = place.map_err(|_| RemoteError::Access)?;
                place.write(0, &bytes).map_err(|_| RemoteError::Operation)?;
            }
            if let Some(immediate) = immediate {
                take(
                    state,
                    pair,
                    bytes.len(),
                    (Event::Written { immediate }, None),
                    solicited,
                    |_, _| Ok(()),
                )?;
            }
            Ok(done)
        }
        RemoteOperation::Read { remote, length } => {
            if length == 0 {
                return Ok(done);
            }
            let place = state.regions.remote(remote, length, |access| access.remote_read);
            let place = place.map_err(|_| RemoteError::Access)?;
            let mut bytes = vec![0; place.len()];
            place.read(0, &mut bytes).map_err(|_| RemoteError::Operation)?;
            Ok(Answer::Done(bytes))
        }
        RemoteOperation::CompareSwap { remote, compare, swap } => {
            atomic(state, remote, |old| if old == compare { swap } else { old })
        }
        RemoteOperation::FetchAdd { remote, add } => {
            atomic(state, remote, |old| old.wrapping_add(add))
        }
    }
}

/// QPN and path of a datagram's sender; `None` for the remote end of a connection.
type Source = Option<(u32, Origin)>;

/// Delivers a message to the posted receive; false if there is none.
fn receive(
    state: &mut State,
    pair: &mut SimQueuePair,
    bytes: &[u8],
    event: (Event, Source),
    solicited: bool,
) -> Result<bool, RemoteError> {
    if !pair.receive.is_posted() {
        return Ok(false);
    }
    take(state, pair, bytes.len(), event, solicited, |state, segments| {
        let room: u64 = segments.iter().map(|segment| u64::from(segment.length)).sum();
        if (bytes.len() as u64) > room {
            return Err((Syndrome::LocalLength, RemoteError::Invalid));
        }
        let written = state.regions.scatter(segments, bytes);
        written.map_err(|_| (Syndrome::LocalProtection, RemoteError::Operation))
    })?;
    Ok(true)
}

/// Takes the posted receive, calls `fill`, and writes its CQE.
fn take(
    state: &mut State,
    pair: &mut SimQueuePair,
    length: usize,
    (event, source): (Event, Source),
    solicited: bool,
    fill: impl FnOnce(&State, &[DataSegment]) -> Result<(), (Syndrome, RemoteError)>,
) -> Result<(), RemoteError> {
    let (counter, segments) = pair.receive.take();
    if let Some((syndrome, vendor)) = state.faults.for_receive(pair.qpn) {
        failed(state, pair, counter, syndrome, vendor);
        return Err(RemoteError::Operation);
    }
    let unreadable = |_: Error| (Syndrome::LocalOperation, RemoteError::Operation);
    let filled = segments.map_err(unreadable).and_then(|segments| fill(state, &segments));
    if let Err((syndrome, error)) = filled {
        failed(state, pair, counter, syndrome, 0);
        return Err(error);
    }
    let mut completion = Completion::new(event, pair.qpn, counter);
    completion.bytes = length as u32;
    completion.solicited = solicited;
    (completion.source, completion.origin) = source.unwrap_or_else(|| {
        let peer = pair.peer.map_or(0, |peer| peer.qpn);
        (peer, Origin::default())
    });
    complete(state, pair, completion);
    Ok(())
}

/// Replaces 8 bytes and answers with the previous value. Atomic among requests of this HCA, as on most NICs, not with the CPU.
fn atomic(
    state: &State,
    remote: RemoteAddress,
    new: impl Fn(u64) -> u64,
) -> Result<Answer, RemoteError> {
    if !remote.address.is_multiple_of(8) {
        return Err(RemoteError::Invalid);
    }
    let place = state.regions.remote(remote, 8, |access| access.remote_atomic);
    let place = place.map_err(|_| RemoteError::Access)?;
    let old = swap(&place, new).map_err(|_| RemoteError::Operation)?;
    Ok(Answer::Done(old.to_ne_bytes().to_vec()))
}

fn swap(place: &MappedMemory, new: impl Fn(u64) -> u64) -> Result<u64, Error> {
    let old = place.load_u64(0)?;
    place.store_u64(0, new(old))?;
    Ok(old)
}

fn complete(state: &mut State, pair: &mut SimQueuePair, mut completion: Completion) {
    state.clock += 1;
    if completion.event.failed().is_none() {
        completion.timestamp = state.clock;
    }
    if pair.receive_completions.write(&completion, Mark::Valid).is_err() {
        let qpn = pair.qpn;
        state.faults.note(Violation::Overrun { qpn });
        fail(pair);
    }
}
