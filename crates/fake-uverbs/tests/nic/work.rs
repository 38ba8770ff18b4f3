//! Work requests of tests.

use std::ptr::null_mut;

use ib::ibv_wr_opcode as wr;
use ibverbs_sys as ib;

use crate::bench::QueuePair;
use crate::device::Memory;

/// A send request.
#[derive(Clone)]
pub struct Work {
    pub id: u64,
    pub opcode: wr::Type,
    pub sges: Vec<ib::ibv_sge>,
    /// `ibv_send_flags`; signalled by default.
    pub flags: u32,
    /// Remote address and rkey.
    pub peer: (u64, u32),
    /// In network byte order.
    pub immediate: u32,
    /// Compare or add operand, and swap operand.
    pub operands: (u64, u64),
    /// Datagrams: address handle, queue pair number, Q_Key.
    pub to: Option<(*mut ib::ibv_ah, u32, u32)>,
}

pub const SIGNALLED: u32 = ib::ibv_send_flags::IBV_SEND_SIGNALED.0;
pub const INLINE: u32 = ib::ibv_send_flags::IBV_SEND_INLINE.0;
pub const FENCE: u32 = ib::ibv_send_flags::IBV_SEND_FENCE.0;

impl Work {
    fn new(id: u64, opcode: wr::Type, sges: &[ib::ibv_sge]) -> Self {
        Self {
            id,
            opcode,
            sges: sges.to_vec(),
            flags: SIGNALLED,
            peer: (0, 0),
            immediate: 0,
            operands: (0, 0),
            to: None,
        }
    }

    pub fn send(id: u64, sges: &[ib::ibv_sge]) -> Self {
        Self::new(id, wr::IBV_WR_SEND, sges)
    }

    pub fn write(id: u64, sges: &[ib::ibv_sge], peer: &Memory, offset: usize) -> Self {
        let peer = (peer.address(offset), peer.key);
        Self { peer, ..Self::new(id, wr::IBV_WR_RDMA_WRITE, sges) }
    }

    pub fn read(id: u64, sges: &[ib::ibv_sge], peer: &Memory, offset: usize) -> Self {
        Self { opcode: wr::IBV_WR_RDMA_READ, ..Self::write(id, sges, peer, offset) }
    }

    pub fn fetch_add(id: u64, sge: ib::ibv_sge, peer: &Memory, offset: usize, add: u64) -> Self {
        Self {
            opcode: wr::IBV_WR_ATOMIC_FETCH_AND_ADD,
            operands: (add, 0),
            ..Self::write(id, &[sge], peer, offset)
        }
    }

    pub fn compare_swap(
        id: u64,
        sge: ib::ibv_sge,
        peer: &Memory,
        offset: usize,
        operands: (u64, u64),
    ) -> Self {
        Self {
            opcode: wr::IBV_WR_ATOMIC_CMP_AND_SWP,
            operands,
            ..Self::write(id, &[sge], peer, offset)
        }
    }

    /// Replaces the flags.
    pub fn with(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    /// Adds immediate data.
    pub fn immediate(self, immediate: u32) -> Self {
        let opcode = match self.opcode {
            wr::IBV_WR_SEND => wr::IBV_WR_SEND_WITH_IMM,
            _ => wr::IBV_WR_RDMA_WRITE_WITH_IMM,
        };
        Self { opcode, immediate, ..self }
    }

    fn is_atomic(&self) -> bool {
        [wr::IBV_WR_ATOMIC_FETCH_AND_ADD, wr::IBV_WR_ATOMIC_CMP_AND_SWP].contains(&self.opcode)
    }

    fn of_verbs(&mut self) -> ib::ibv_send_wr {
        let mut work = ib::ibv_send_wr {
            wr_id: self.id,
            sg_list: self.sges.as_mut_ptr(),
            num_sge: i32::try_from(self.sges.len()).expect("few SGEs"),
            opcode: self.opcode,
            send_flags: self.flags,
            ..Default::default()
        };
        work.__bindgen_anon_1.imm_data = self.immediate;
        if let Some((ah, remote_qpn, remote_qkey)) = self.to {
            work.wr.ud = ib::ibv_send_wr_datagram { ah, remote_qpn, remote_qkey };
        } else if self.is_atomic() {
            work.wr.atomic = ib::ibv_send_wr_atomic {
                remote_addr: self.peer.0,
                compare_add: self.operands.0,
                swap: self.operands.1,
                rkey: self.peer.1,
            };
        } else {
            work.wr.rdma = ib::ibv_send_wr_rdma { remote_addr: self.peer.0, rkey: self.peer.1 };
        }
        work
    }
}

impl QueuePair {
    /// Posts requests as one list.
    pub fn post(&self, works: &[Work]) {
        let mut owned = works.to_vec();
        let mut list: Vec<_> = owned.iter_mut().map(Work::of_verbs).collect();
        let mut next = null_mut();
        for work in list.iter_mut().rev() {
            work.next = next;
            next = work;
        }
        let mut bad = null_mut();
        // SAFETY: a live queue pair; the requests are linked and point to their SGEs.
        let result = unsafe { ib::ibv_post_send(self.qp, next, &mut bad) };
        assert_eq!(result, 0, "ibv_post_send");
    }

    /// Posts one request and waits for its success.
    pub fn run(&self, work: Work) {
        let id = work.id;
        self.post(&[work]);
        assert_eq!(self.sent.success(), id);
    }

    /// Posts one request, waits for its failure and returns the status.
    pub fn fail(&self, work: Work) -> u32 {
        let id = work.id;
        self.post(&[work]);
        let (failed, status) = self.sent.failure();
        assert_eq!(failed, id);
        status
    }

    pub fn receive(&self, id: u64, sges: &[ib::ibv_sge]) {
        let mut sges = sges.to_vec();
        let mut work = ib::ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: i32::try_from(sges.len()).expect("few SGEs"),
        };
        let mut bad = null_mut();
        // SAFETY: a live queue pair; the request points to its SGEs.
        let result = unsafe { ib::ibv_post_recv(self.qp, &mut work, &mut bad) };
        assert_eq!(result, 0, "ibv_post_recv");
    }
}
