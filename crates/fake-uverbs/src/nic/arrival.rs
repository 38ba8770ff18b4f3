//! The receive side: a message fills the next receive WQE, or the receive fails and its queue pair with it.

use crate::device::INFINIBAND;
use crate::nic::completion::{Completion, kind};
use crate::nic::memory;
use crate::nic::objects::Objects;
use crate::nic::region::right;
use crate::nic::syndrome::{self, vendor};
use crate::nic::wqe::{self, DataSegment};

/// A message: payload for the receive, or none if the data was written elsewhere.
pub struct Message<'a> {
    pub payload: &'a [u8],
    pub kind: u8,
    /// Byte count of its completion.
    pub bytes: usize,
    pub immediate: [u8; 4],
    pub is_solicited: bool,
    /// Datagrams: bit 4 for a GRH, the low bits for the service level.
    pub flags: u8,
}

/// The sender: its queue pair, and the LID of its port.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub number: u32,
    pub lid: u16,
}

/// Result of a delivery.
pub enum Received {
    Taken,
    NoReceive,
    /// The receive has fewer bytes than the message.
    TooLong,
    /// The receiver failed.
    Broken,
}

impl Objects {
    /// Delivers a message to a queue pair's next receive.
    pub fn receive(&mut self, handle: u32, from: Origin, message: &Message<'_>) -> Received {
        let Some(pair) = self.pairs.get(&handle) else {
            return Received::Broken;
        };
        if pair.receives_left() == 0 {
            return Received::NoReceive;
        }
        let failed = |syndrome: u8| Err((syndrome, vendor(syndrome)));
        let (ended, received) = match self.place(handle, message.payload) {
            Ok(()) => (Ok(()), Received::Taken),
            Err(syndrome::LOCAL_LENGTH) => (failed(syndrome::LOCAL_LENGTH), Received::TooLong),
            Err(syndrome) => (failed(syndrome), Received::Broken),
        };
        self.end_receive(handle, ended, from, message);
        received
    }

    /// Scatters the payload to the next receive's SGEs.
    fn place(&self, handle: u32, payload: &[u8]) -> Result<(), u8> {
        let pair = self.pairs.get(&handle).ok_or(syndrome::LOCAL_OPERATION)?;
        let mut bytes = vec![0; pair.stride];
        // SAFETY: a live queue pair's receive queue, which the provider frees after destroying the pair.
        unsafe { memory::ring(pair.receives, usize::from(pair.used) * pair.stride, &mut bytes) };
        let mut left = payload.len();
        let mut used = Vec::new();
        for data_segment in wqe::receive(&bytes) {
            if left == 0 {
                break;
            }
            if let DataSegment::Named { key, address, bytes } = data_segment {
                let bytes = bytes.min(left);
                left -= bytes;
                used.push(DataSegment::Named { key, address, bytes });
            }
        }
        if left > 0 {
            return Err(syndrome::LOCAL_LENGTH);
        }
        let room = self.local(pair.domain, &used, right::LOCAL_WRITE);
        let room = room.ok_or(syndrome::LOCAL_PROTECTION)?;
        // SAFETY: registered memory with local write access.
        unsafe { memory::scatter(payload, &room) };
        Ok(())
    }

    /// Completes the next receive.
    fn end_receive(
        &mut self,
        handle: u32,
        ended: Result<(), (u8, u8)>,
        from: Origin,
        message: &Message<'_>,
    ) {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return;
        };
        let completion = Completion {
            kind: if ended.is_ok() { message.kind } else { kind::RECEIVE_ERROR },
            user_index: pair.user_index,
            number: pair.number,
            opcode: 0,
            counter: pair.used,
            bytes: u32::try_from(message.bytes).unwrap_or(u32::MAX),
            immediate: message.immediate,
            is_solicited: message.is_solicited,
            flags: message.flags,
            from: (from.number, if pair.now.port == INFINIBAND { from.lid } else { 0 }),
            error: ended.err(),
        };
        pair.used = pair.used.wrapping_add(1);
        let queue = pair.receive_queue;
        if ended.is_err() {
            self.break_pair(handle);
        }
        self.complete(queue, &completion);
    }

    /// Flushes one receive of a failed queue pair; false if there was none.
    pub fn flush_receive(&mut self, handle: u32, flushed: (u8, u8)) -> bool {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return false;
        };
        let left = usize::from(pair.receives_left());
        if left * pair.stride > pair.receives.bytes {
            // A record beyond the queue's size is invalid and ignored.
            pair.used = pair.used.wrapping_add(pair.receives_left());
            return false;
        }
        let nothing = Message {
            payload: &[],
            kind: 0,
            bytes: 0,
            immediate: [0; 4],
            is_solicited: false,
            flags: 0,
        };
        if left > 0 {
            let nobody = Origin { number: 0, lid: 0 };
            self.end_receive(handle, Err(flushed), nobody, &nothing);
        }
        left > 0
    }
}
