//! Completion queues: writing CQEs, and overruns.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::{Answer, Request};
use crate::nic::channel::EventState;
use crate::nic::memory;
use crate::nic::objects::Objects;

/// Completions lost to overruns since the process started.
static OVERRUNS: AtomicU64 = AtomicU64::new(0);

/// Kinds of CQEs in `mlx5dv.h`: the high half of the last byte.
pub mod kind {
    pub const REQUEST: u8 = 0;
    pub const RECEIVED_WRITE_IMM: u8 = 1;
    pub const RECEIVED_SEND: u8 = 2;
    pub const RECEIVED_SEND_IMM: u8 = 3;
    pub const REQUEST_ERROR: u8 = 13;
    pub const RECEIVE_ERROR: u8 = 14;
}

/// A CQE without its owner bit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Completion {
    pub kind: u8,
    /// Identifies the queue pair to the provider.
    pub user_index: u32,
    /// The queue pair's number.
    pub number: u32,
    /// The request's opcode; 0 for a receive.
    pub opcode: u8,
    /// Index of the request's first WQEBB, or of the receive.
    pub counter: u16,
    pub bytes: u32,
    /// In the byte order of the request.
    pub immediate: [u8; 4],
    /// Sending queue pair and the LID of its port.
    pub from: (u32, u16),
    /// First byte of `flags_rqpn`, before the sender's queue pair number.
    pub flags: u8,
    /// The sender set the solicited flag.
    pub is_solicited: bool,
    /// Syndrome and vendor's syndrome.
    pub error: Option<(u8, u8)>,
}

impl Completion {
    /// `struct mlx5_cqe64` or `struct mlx5_err_cqe`, big-endian.
    fn cqe(&self, owner: u8) -> [u8; 64] {
        let mut cqe = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| cqe[at..at + bytes.len()].copy_from_slice(bytes);
        put(32, &self.user_index.to_be_bytes());
        match self.error {
            Some((syndrome, vendor)) => put(54, &[vendor, syndrome]),
            None => {
                put(22, &self.from.1.to_be_bytes());
                put(24, &(u32::from(self.flags) << 24 | self.from.0).to_be_bytes());
                put(36, &self.immediate);
                put(44, &self.bytes.to_be_bytes());
            }
        }
        put(56, &(u32::from(self.opcode) << 24 | self.number).to_be_bytes());
        put(60, &self.counter.to_be_bytes());
        put(63, &[self.kind << 4 | owner]);
        cqe
    }
}

/// A completion queue: its CQEs and its consumer-index record.
pub struct CompletionQueue {
    pub context: c_int,
    buffer: usize,
    record: usize,
    /// A power of two.
    entries: u32,
    /// Bytes per CQE: 64, or 128 with the content in the second half.
    stride: u32,
    written: u32,
    /// After an overrun no CQE is written, as on a NIC.
    has_overrun: bool,
    pub event_state: Option<EventState>,
}

impl CompletionQueue {
    /// An empty queue: addresses of ring and record, number of entries, bytes per entry.
    pub fn new(
        context: c_int,
        (buffer, record): (usize, usize),
        entries: u32,
        stride: u32,
    ) -> Self {
        Self {
            context,
            buffer,
            record,
            entries,
            stride,
            written: 0,
            has_overrun: false,
            event_state: None,
        }
    }

    fn put(&mut self, completion: &Completion) {
        if self.has_overrun {
            OVERRUNS.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: a live queue's record, which the provider frees after destroying the queue; aligned, as `create` checked.
        let taken = unsafe { memory::record(self.record) };
        // The consumer index has 24 bits.
        if self.written.wrapping_sub(taken) & 0xff_ffff >= self.entries {
            self.has_overrun = true;
            OVERRUNS.fetch_add(1, Ordering::Relaxed);
            crate::log(&format!(
                "a completion queue of {} entries is overrun: {completion:?} is lost, and all after it",
                self.entries
            ));
            return;
        }
        let owner = ((self.written / self.entries) & 1) as u8;
        let place = (self.written % self.entries) as usize * self.stride as usize
            + self.stride as usize
            - 64;
        // SAFETY: within a live queue's buffer, which the provider keeps while the queue lives.
        unsafe { memory::completion(self.buffer + place, &completion.cqe(owner)) };
        self.written = self.written.wrapping_add(1);
        if let Some(event_state) = &mut self.event_state {
            event_state
                .written(self.written, completion.is_solicited || completion.error.is_some());
        }
    }
}

impl Objects {
    /// `CREATE_CQ`: `struct ib_uverbs_create_cq`, then `struct mlx5_ib_create_cq` at 32; answered with
    /// `struct ib_uverbs_create_cq_resp`, then `struct mlx5_ib_create_cq_resp` at 8. The provider requests a power of two minus one
    /// entries and gets the same number.
    pub fn create_completion_queue(
        &mut self,
        context: c_int,
        request: Request,
    ) -> Result<Answer, c_int> {
        let place = |at: usize| usize::try_from(request.u64(at)).map_err(|_| libc::EFAULT);
        let mut queue = CompletionQueue {
            context,
            buffer: place(32)?,
            record: place(40)?,
            entries: request.u32(16).saturating_add(1),
            stride: request.u32(48),
            written: 0,
            has_overrun: false,
            event_state: None,
        };
        let aligned = queue.buffer.is_multiple_of(64)
            && queue.record.is_multiple_of(8)
            && queue.buffer != 0
            && queue.record != 0;
        if !aligned || !queue.entries.is_power_of_two() || ![64, 128].contains(&queue.stride) {
            return Err(libc::EINVAL);
        }
        let bytes = queue.entries as usize * queue.stride as usize;
        queue.buffer.checked_add(bytes).ok_or(libc::EFAULT)?;
        queue.event_state =
            self.event_state(context, request.i32(24), request.u64(8), queue.record + 4)?;
        let handle = self.next();
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, queue.entries - 1); // cqe
        answer.u32(8, handle); // cqn
        self.queues.insert(handle, queue);
        Ok(answer)
    }

    /// `DESTROY_CQ`, answered with `struct ib_uverbs_destroy_cq_resp`: `EBUSY` while a queue pair uses it.
    pub fn destroy_completion_queue(
        &mut self,
        context: c_int,
        request: Request,
    ) -> Result<Answer, c_int> {
        let handle = request.u32(8);
        let known = self.queues.get(&handle).is_some_and(|queue| queue.context == context);
        if self.pairs.values().any(|pair| pair.completes_in(handle)) {
            return Err(libc::EBUSY);
        }
        let gone = known.then(|| self.queues.remove(&handle)).flatten().ok_or(libc::EINVAL)?;
        let mut answer = Answer::new();
        answer.u32(0, gone.event_state.map_or(0, |event_state| event_state.events_read())); // comp_events_reported
        Ok(answer)
    }

    pub fn complete(&mut self, queue: u32, completion: &Completion) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.put(completion);
        }
    }
}

/// Completions lost to overruns, for tests.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_overruns() -> u64 {
    OVERRUNS.load(Ordering::Relaxed)
}
