//! Completion channels: a program asks to be told of the next completion, and reads that from a descriptor.

use std::ffi::c_int;

use crate::bytes::Answer;
use crate::nic::memory;
use crate::nic::world::World;
use crate::switches::switches;

/// A completion channel: both ends of a pair of sockets.
pub struct Channel {
    pub context: c_int,
    /// The program's end, which it closes itself.
    pub read: c_int,
    write: c_int,
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the NIC's own descriptor. Not `close`, which is this library's own.
        unsafe { libc::syscall(libc::SYS_close, self.write) };
    }
}

/// What a completion queue tells, and whether it has been asked to.
pub struct Notice {
    read: c_int,
    write: c_int,
    /// By which the program names the queue in an event (`struct ib_uverbs_comp_event_desc`).
    name: u64,
    /// The record's second word: what the program asked for last. Its counter has 24 bits; the bit above asks for solicited
    /// completions alone (`MLX5_CQ_DB_REQ_NOT_SOL`).
    record: usize,
    heard: u32,
    is_armed: bool,
    /// The completions that had been written when the last one came, and the last solicited one.
    written: u32,
    solicited: u32,
    events: u32,
}

impl Notice {
    /// One of a channel that nobody has asked anything yet.
    fn new(channel: &Channel, name: u64, record: usize) -> Self {
        /// What no program writes, so that whatever it writes first is seen to be new.
        const NOTHING: u32 = u32::MAX;
        // SAFETY: a record that is being made, aligned as `create_completion_queue` checked.
        unsafe { memory::set_record(record, NOTHING) };
        Self {
            read: channel.read,
            write: channel.write,
            name,
            record,
            heard: NOTHING,
            is_armed: false,
            written: 0,
            solicited: 0,
            events: 0,
        }
    }

    /// A completion was written, the so manieth.
    pub fn written(&mut self, count: u32, is_solicited: bool) {
        self.written = count;
        if is_solicited {
            self.solicited = count;
        }
        self.tell();
    }

    /// A doorbell for this queue, or for another one that may have hidden it.
    pub fn ring(&mut self, is_named: bool) {
        // SAFETY: a live queue's record.
        let asked = unsafe { memory::record(self.record) };
        if is_named || asked != self.heard {
            self.heard = asked;
            self.is_armed = true;
            self.tell();
        }
    }

    /// Tells what there is, where that was asked for; once.
    fn tell(&mut self) {
        const SOLICITED: u32 = 1 << 24;
        let last = if self.heard & SOLICITED != 0 {
            self.solicited
        } else {
            self.written
        };
        // Of 24 bits: what comes after the program's counter is less than half of them ahead.
        let ahead = last.wrapping_sub(self.heard) & 0xff_ffff;
        if !self.is_armed || ahead == 0 || ahead >= 1 << 23 {
            return;
        }
        self.is_armed = false;
        let event = self.name.to_ne_bytes();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the NIC's descriptor, and eight bytes.
        let sent = unsafe { libc::send(self.write, event.as_ptr().cast(), event.len(), flags) };
        self.events += u32::from(sent == 8);
    }

    /// How many events the program has read. Those that it has not are taken out of the channel, as the kernel does.
    pub fn finish(&self) -> u32 {
        let mut others = Vec::new();
        let mut unread = 0;
        loop {
            let mut event = [0; 8];
            // SAFETY: the program's end, which it may have closed, and room for eight bytes.
            let got = unsafe {
                libc::recv(
                    self.read,
                    event.as_mut_ptr().cast(),
                    event.len(),
                    libc::MSG_DONTWAIT,
                )
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

impl World {
    /// `CREATE_COMP_CHANNEL`: `struct ib_uverbs_create_comp_channel_resp`. Without a NIC that executes, nobody would ever tell anything.
    pub fn create_channel(&mut self, context: c_int) -> Result<Answer, c_int> {
        if !switches().executes {
            return Err(libc::EOPNOTSUPP);
        }
        let mut ends = [-1; 2];
        // SAFETY: room for two descriptors.
        let made = unsafe {
            libc::socketpair(
                libc::AF_UNIX,
                libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
                0,
                ends.as_mut_ptr(),
            )
        };
        let [read, write] = ends;
        let told = u32::try_from(read)
            .ok()
            .filter(|_| made == 0)
            .ok_or(libc::EMFILE)?;
        // A descriptor that is given out again was closed before: its channel is no more.
        self.channels.retain(|channel| channel.read != read);
        self.channels.push(Channel {
            context,
            read,
            write,
        });
        let mut answer = Answer::new();
        answer.u32(0, told);
        Ok(answer)
    }

    /// What a queue tells, where `channel` is one of this open device's; none for -1.
    pub fn notice(
        &self,
        context: c_int,
        channel: c_int,
        name: u64,
        record: usize,
    ) -> Result<Option<Notice>, c_int> {
        if channel < 0 {
            return Ok(None);
        }
        let mut known = self
            .channels
            .iter()
            .filter(|known| known.context == context && known.read == channel);
        known
            .next()
            .map(|channel| Some(Notice::new(channel, name, record)))
            .ok_or(libc::EINVAL)
    }
}
