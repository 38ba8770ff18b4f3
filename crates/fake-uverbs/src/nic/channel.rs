//! Completion channels: a program arms a queue and reads completion events from a descriptor.

use std::ffi::c_int;

use crate::bytes::Answer;
use crate::nic::memory;
use crate::nic::objects::Objects;
use crate::switches::switches;

/// A completion channel: both ends of a socket pair.
pub struct Channel {
    pub context: c_int,
    /// The program's end, which it closes itself.
    pub read: c_int,
    write: c_int,
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the NIC's own descriptor. Not `close`, which this library overrides.
        unsafe { libc::syscall(libc::SYS_close, self.write) };
    }
}

/// The event state of a completion queue.
pub struct EventState {
    read: c_int,
    write: c_int,
    /// Identifies the queue in an event (`struct ib_uverbs_comp_event_desc`).
    name: u64,
    /// The record's second word, written to arm the queue: a 24-bit counter, and above it the bit for solicited completions only
    /// (`MLX5_CQ_DB_REQ_NOT_SOL`).
    record: usize,
    last_armed: u32,
    is_armed: bool,
    /// Completions written up to the last one, and up to the last solicited one.
    written: u32,
    solicited: u32,
    events: u32,
}

impl EventState {
    /// State of an unarmed queue.
    fn new(channel: &Channel, name: u64, record: usize) -> Self {
        /// No program writes this value, so its first write is recognised as new.
        const NOTHING: u32 = u32::MAX;
        // SAFETY: the record of the queue being created, whose alignment `create_completion_queue` checked.
        unsafe { memory::set_record(record, NOTHING) };
        Self {
            read: channel.read,
            write: channel.write,
            name,
            record,
            last_armed: NOTHING,
            is_armed: false,
            written: 0,
            solicited: 0,
            events: 0,
        }
    }

    /// Notes a completion; `count` is the number written so far.
    pub fn written(&mut self, count: u32, is_solicited: bool) {
        self.written = count;
        if is_solicited {
            self.solicited = count;
        }
        self.tell();
    }

    /// Handles a doorbell for this queue, or for another one that may have overwritten it.
    pub fn ring(&mut self, is_named: bool) {
        // SAFETY: a live queue's record.
        let armed = unsafe { memory::record(self.record) };
        if is_named || armed != self.last_armed {
            self.last_armed = armed;
            self.is_armed = true;
            self.tell();
        }
    }

    /// Sends one event if the queue is armed and has a new completion.
    fn tell(&mut self) {
        const SOLICITED: u32 = 1 << 24;
        let last = if self.last_armed & SOLICITED != 0 { self.solicited } else { self.written };
        // 24-bit serial numbers: a newer one is less than half the range ahead.
        let ahead = last.wrapping_sub(self.last_armed) & 0xff_ffff;
        if !self.is_armed || ahead == 0 || ahead >= 1 << 23 {
            return;
        }
        self.is_armed = false;
        let event = self.name.to_ne_bytes();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the NIC's descriptor and an 8-byte buffer.
        let sent = unsafe { libc::send(self.write, event.as_ptr().cast(), event.len(), flags) };
        self.events += u32::from(sent == 8);
    }

    /// Number of events that the program has read. Unread events are removed from the channel, as the kernel does.
    pub fn events_read(&self) -> u32 {
        let mut others = Vec::new();
        let mut unread = 0;
        loop {
            let mut event = [0; 8];
            // SAFETY: the program's end, possibly closed, and an 8-byte buffer.
            let got = unsafe {
                libc::recv(self.read, event.as_mut_ptr().cast(), event.len(), libc::MSG_DONTWAIT)
            };
            match got {
                8 if u64::from_ne_bytes(event) == self.name => unread += 1,
                8 => others.push(event),
                _ => break,
            }
        }
        for event in others {
            // SAFETY: as in `tell`.
            unsafe {
                libc::send(
                    self.write,
                    event.as_ptr().cast(),
                    event.len(),
                    libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                )
            };
        }
        self.events.saturating_sub(unread)
    }
}

impl Objects {
    /// `CREATE_COMP_CHANNEL`: `struct ib_uverbs_create_comp_channel_resp`. Unsupported without an executing NIC, which sends the events.
    pub fn create_channel(&mut self, context: c_int) -> Result<Answer, c_int> {
        if !switches().executes {
            return Err(libc::EOPNOTSUPP);
        }
        let mut ends = [-1; 2];
        // SAFETY: an array of two descriptors.
        let created = unsafe {
            libc::socketpair(
                libc::AF_UNIX,
                libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
                0,
                ends.as_mut_ptr(),
            )
        };
        let [read, write] = ends;
        let descriptor = u32::try_from(read).ok().filter(|_| created == 0).ok_or(libc::EMFILE)?;
        // The kernel reused the descriptor number, so the old channel was closed.
        self.channels.retain(|channel| channel.read != read);
        self.channels.push(Channel { context, read, write });
        let mut answer = Answer::new();
        answer.u32(0, descriptor);
        Ok(answer)
    }

    /// The event state of a queue on this channel of the context; none for -1.
    pub fn event_state(
        &self,
        context: c_int,
        channel: c_int,
        name: u64,
        record: usize,
    ) -> Result<Option<EventState>, c_int> {
        if channel < 0 {
            return Ok(None);
        }
        let mut known =
            self.channels.iter().filter(|known| known.context == context && known.read == channel);
        known.next().map(|channel| Some(EventState::new(channel, name, record))).ok_or(libc::EINVAL)
    }
}
