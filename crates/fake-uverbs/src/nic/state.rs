//! Attributes of queue pairs: `ibv_modify_qp` and `ibv_query_qp`.

use std::ffi::c_int;
use std::time::Duration;

use crate::bytes::{Answer, Request};
use crate::nic::objects::Objects;
use crate::nic::peers;
use crate::nic::ports::Destination;
use crate::nic::rules::{is_allowed, mask};
use crate::switches::switches;

/// `enum ib_qp_state`.
pub mod stage {
    pub const RESET: u8 = 0;
    pub const INIT: u8 = 1;
    pub const READY_TO_RECEIVE: u8 = 2;
    pub const READY_TO_SEND: u8 = 3;
    pub const DRAINED: u8 = 4;
    pub const ERROR: u8 = 6;
}

/// The attributes, in the units of `struct ib_uverbs_modify_qp`.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    pub state: u8,
    pub port: u8,
    pub access: u32,
    pub destination: u32,
    pub address: Destination,
    /// True if the address reaches the NIC's own port.
    pub is_reached: bool,
    pub receive_psn: u32,
    pub send_psn: u32,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub rnr_timer: u8,
    pub rnr_retries: u8,
    pub timeout: u8,
    pub retries: u8,
    pub qkey: u32,
    pub pkey_index: u16,
    pub path_mtu: u8,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            state: stage::RESET,
            port: 0,
            access: 0,
            destination: 0,
            address: Destination([0; 32]),
            is_reached: false,
            receive_psn: 0,
            send_psn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            rnr_timer: 0,
            rnr_retries: 0,
            timeout: 0,
            retries: 0,
            qkey: 0,
            pkey_index: 0,
            path_mtu: 0,
        }
    }
}

/// Longest wait by default, within the process and for another one, which a busy machine may keep waiting.
const MAX_WAIT: Duration = Duration::from_millis(300);
const MAX_WAIT_FOR_PEERS: Duration = Duration::from_millis(1_500);

/// The limit of a wait that a queue pair limits to this time.
fn limited(wait: Duration) -> Duration {
    let most = if peers::are_reached() { MAX_WAIT_FOR_PEERS } else { MAX_WAIT };
    switches().wait.unwrap_or(wait.min(most))
}

impl Attributes {
    pub fn receives(&self) -> bool {
        [stage::READY_TO_RECEIVE, stage::READY_TO_SEND, stage::DRAINED].contains(&self.state)
    }

    /// How long a request waits for an answer; unlimited if the timeout is 0. One try takes 4.096 us * 2^`timeout` (InfiniBand
    /// specification, 9.7.6.1.3).
    pub fn answer_timeout(&self) -> Option<Duration> {
        let attempt = Duration::from_nanos(4096 << self.timeout.min(31));
        let all = attempt * (u32::from(self.retries) + 1);
        (self.timeout != 0).then(|| limited(all))
    }

    /// How long a request waits for a receive at the remote end; unlimited if `rnr_retry` is 7.
    pub fn rnr_timeout(&self, peer: &Self) -> Option<Duration> {
        let all = rnr_timer(peer.rnr_timer) * u32::from(self.rnr_retries);
        (self.rnr_retries != 7).then(|| limited(all))
    }

    /// Copies the attributes that the mask of `struct ib_uverbs_modify_qp` names.
    fn take(&mut self, request: Request) {
        let named = request.u32(68);
        let has = |bit: u32| named & bit != 0;
        let byte = |bit: u32, place: &mut u8, at: usize| {
            if has(bit) {
                *place = request.u8(at);
            }
        };
        byte(mask::STATE, &mut self.state, 96);
        byte(mask::PATH_MTU, &mut self.path_mtu, 98);
        byte(mask::MAX_RD_ATOMIC, &mut self.max_rd_atomic, 101);
        byte(mask::MAX_DEST_RD_ATOMIC, &mut self.max_dest_rd_atomic, 102);
        byte(mask::RNR_TIMER, &mut self.rnr_timer, 103);
        byte(mask::PORT, &mut self.port, 104);
        byte(mask::TIMEOUT, &mut self.timeout, 105);
        byte(mask::RETRIES, &mut self.retries, 106);
        byte(mask::RNR_RETRIES, &mut self.rnr_retries, 107);
        let word = |bit: u32, place: &mut u32, at: usize| {
            if has(bit) {
                *place = request.u32(at);
            }
        };
        word(mask::QKEY, &mut self.qkey, 72);
        word(mask::RQ_PSN, &mut self.receive_psn, 76);
        word(mask::SQ_PSN, &mut self.send_psn, 80);
        word(mask::DESTINATION, &mut self.destination, 84);
        word(mask::ACCESS, &mut self.access, 88);
        if has(mask::PKEY) {
            self.pkey_index = request.u16(92);
        }
        if has(mask::ADDRESS) {
            self.address = Destination(request.array(0));
            self.is_reached = self.address.is_own(self.port);
        }
    }
}

impl Objects {
    /// `MODIFY_QP`. Checked as in the kernel if the NIC executes; unchecked otherwise.
    pub fn modify_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        // Read doorbells first: the provider clears the records after the change to RESET.
        self.read_doorbells();
        let pair = self.pair_of(context, request.u32(64))?;
        let mut now = pair.now;
        now.take(request);
        if switches().executes {
            let named = request.u32(68);
            if !is_allowed(pair.kind, pair.now.state, now.state, named) {
                return Err(libc::EINVAL);
            }
            if named & mask::PORT != 0 && ![1, 2].contains(&now.port) {
                return Err(libc::EINVAL);
            }
            if named & mask::ADDRESS != 0 && !now.address.is_valid(now.port) {
                return Err(libc::EINVAL);
            }
        }
        pair.now = now;
        if now.state == stage::RESET {
            pair.now = Attributes::default();
            pair.empty();
        }
        Ok(Answer::new())
    }

    /// `QUERY_QP`: `struct ib_uverbs_query_qp_resp`.
    pub fn query_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let pair = self.pair_of(context, request.u32(8))?;
        let now = &pair.now;
        let mut answer = Answer::new();
        answer.put(0, &now.address.0);
        for (field, capacity) in pair.capacities.iter().enumerate() {
            answer.u32(64 + 4 * field, *capacity);
        }
        let words = [now.qkey, now.receive_psn, now.send_psn, now.destination, now.access];
        for (field, word) in words.iter().enumerate() {
            answer.u32(84 + 4 * field, *word);
        }
        answer.u16(104, now.pkey_index);
        let bytes = [
            now.state,
            now.state, // cur_qp_state
            now.path_mtu,
            0, // path_mig_state
            0, // sq_draining
            now.max_rd_atomic,
            now.max_dest_rd_atomic,
            now.rnr_timer,
            now.port,
            now.timeout,
            now.retries,
            now.rnr_retries,
        ];
        answer.put(108, &bytes);
        answer.u8(122, pair.signals_all);
        Ok(answer)
    }
}

/// The RNR NAK timer: the specification's table of 32 values (9.7.5.2.8) in units of 10 us.
fn rnr_timer(code: u8) -> Duration {
    const STEPS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(10 * STEPS[usize::from(code & 31)])
}
