//! What happens at a receive queue: a message finds its place in the next receive, or the receive fails and its pair with it.

use crate::device::{INFINIBAND, LID};
use crate::nic::completion::{Completion, kind};
use crate::nic::entry::{self, Piece};
use crate::nic::memory;
use crate::nic::region::right;
use crate::nic::syndrome::{self, vendor};
use crate::nic::world::World;
use crate::switches::{Fate, Side, switches};

/// What arrives: bytes for the receive, or none where they went elsewhere.
pub struct Message<'a> {
    pub payload: &'a [u8],
    pub kind: u8,
    /// How many bytes its completion tells.
    pub bytes: usize,
    pub immediate: [u8; 4],
    pub is_solicited: bool,
    /// Of a datagram: in bit 4 whether it has a global route, below that its service level.
    pub flags: u8,
}

/// What became of it.
pub enum Received {
    Taken,
    NoReceive,
    /// There was less room than it has bytes.
    TooLong,
    /// The receiver cannot take it.
    Broken,
}

impl World {
    /// Gives a message to a queue pair's next receive.
    pub fn receive(&mut self, handle: u32, from: u32, message: &Message<'_>) -> Received {
        let Some(pair) = self.pairs.get(&handle) else {
            return Received::Broken;
        };
        if pair.receives_left() == 0 {
            return Received::NoReceive;
        }
        let fate = switches().fate(Side::Receive, pair.index, pair.receives_ended);
        if let Fate::Fails { syndrome, vendor } = fate {
            self.end_receive(handle, Err((syndrome, vendor)), from, message, true);
            return Received::Broken;
        }
        let failed = |syndrome: u8| Err((syndrome, vendor(syndrome)));
        let (ended, received) = match self.place(handle, message.payload) {
            Ok(()) => (Ok(()), Received::Taken),
            Err(syndrome::LOCAL_LENGTH) => (failed(syndrome::LOCAL_LENGTH), Received::TooLong),
            Err(syndrome) => (failed(syndrome), Received::Broken),
        };
        self.end_receive(handle, ended, from, message, fate != Fate::Vanishes);
        received
    }

    /// Puts bytes where the next receive says.
    fn place(&self, handle: u32, payload: &[u8]) -> Result<(), u8> {
        let pair = self.pairs.get(&handle).ok_or(syndrome::LOCAL_OPERATION)?;
        let mut bytes = vec![0; pair.stride];
        // SAFETY: a live queue pair's receive queue, which the provider gives back after the pair is destroyed.
        unsafe {
            memory::ring(
                pair.receives,
                usize::from(pair.used) * pair.stride,
                &mut bytes,
            )
        };
        let mut left = payload.len();
        let mut used = Vec::new();
        for piece in entry::receive(&bytes) {
            if left == 0 {
                break;
            }
            if let Piece::Named {
                key,
                address,
                bytes,
            } = piece
            {
                let bytes = bytes.min(left);
                left -= bytes;
                used.push(Piece::Named {
                    key,
                    address,
                    bytes,
                });
            }
        }
        if left > 0 {
            return Err(syndrome::LOCAL_LENGTH);
        }
        let room = self.local(pair.domain, &used, right::LOCAL_WRITE);
        let room = room.ok_or(syndrome::LOCAL_PROTECTION)?;
        // SAFETY: registered memory, which its rights say may be written.
        unsafe { memory::scatter(payload, &room) };
        Ok(())
    }

    /// The next receive has ended.
    fn end_receive(
        &mut self,
        handle: u32,
        ended: Result<(), (u8, u8)>,
        from: u32,
        message: &Message<'_>,
        is_told: bool,
    ) {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return;
        };
        let completion = Completion {
            kind: if ended.is_ok() {
                message.kind
            } else {
                kind::RECEIVE_ERROR
            },
            user_index: pair.user_index,
            number: pair.number,
            opcode: 0,
            counter: pair.used,
            bytes: u32::try_from(message.bytes).unwrap_or(u32::MAX),
            immediate: message.immediate,
            is_solicited: message.is_solicited,
            flags: message.flags,
            from: (from, if pair.now.port == INFINIBAND { LID } else { 0 }),
            error: ended.err(),
        };
        pair.used = pair.used.wrapping_add(1);
        pair.receives_ended += 1;
        let queue = pair.receive_queue;
        if ended.is_err() {
            self.break_pair(handle);
        }
        if is_told {
            self.complete(queue, &completion);
        }
    }

    /// Ends a receive of a broken queue pair; whether there was one.
    pub fn flush_receive(&mut self, handle: u32, flushed: (u8, u8)) -> bool {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return false;
        };
        let left = usize::from(pair.receives_left());
        if left * pair.stride > pair.receives.bytes {
            // A record of more than there is: nothing of it can be believed.
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
            self.end_receive(handle, Err(flushed), 0, &nothing, true);
        }
        left > 0
    }
}
