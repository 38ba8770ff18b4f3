//! Connected queue pairs.

use std::ptr::null_mut;

use ib::ibv_qp_attr_mask as mask;
use ib::ibv_qp_state::{self, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS};
use ibverbs_sys as ib;

use crate::device::{ALL, Device, Queue};

/// A queue pair and its two completion queues.
#[derive(Clone, Copy)]
pub struct QueuePair {
    pub qp: *mut ib::ibv_qp,
    pub number: u32,
    pub sent: Queue,
    pub received: Queue,
}

/// Parameters of a connection.
#[derive(Clone, Copy)]
pub struct Link {
    pub port: u8,
    /// LID of port 1.
    pub lid: u16,
    pub access: u32,
    pub reads: u8,
    pub rnr_retries: u8,
    pub send_psn: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            port: 1,
            lid: 0x0123,
            access: ALL as u32,
            reads: 16,
            rnr_retries: 7,
            send_psn: 0x12_3456,
        }
    }
}

/// 64 requests and 64 receives, with 4 and 3 SGEs, 200 bytes inline.
pub fn capacities() -> ib::ibv_qp_cap {
    ib::ibv_qp_cap {
        max_send_wr: 64,
        max_recv_wr: 64,
        max_send_sge: 4,
        max_recv_sge: 3,
        max_inline_data: 200,
    }
}

/// Two queue pairs of one device, connected to each other.
pub fn connected() -> (Device, QueuePair, QueuePair) {
    connected_by(Link::default(), Link::default())
}

/// Two queue pairs of one device, connected with these parameters.
pub fn connected_by(one: Link, two: Link) -> (Device, QueuePair, QueuePair) {
    let device = Device::open();
    let (a, b) = (device.pair(), device.pair());
    a.connect(b.number, one);
    b.connect(a.number, two);
    (device, a, b)
}

impl Device {
    /// A queue pair in RESET.
    pub fn pair(&self) -> QueuePair {
        self.pair_in(self.pd)
    }

    /// A queue pair in a protection domain or parent domain.
    pub fn pair_in(&self, pd: *mut ib::ibv_pd) -> QueuePair {
        self.pair_of(ib::ibv_qp_type::IBV_QPT_RC, pd)
    }

    /// A queue pair of a type.
    pub fn pair_of(&self, kind: ib::ibv_qp_type::Type, pd: *mut ib::ibv_pd) -> QueuePair {
        self.pair_with(kind, pd, [self.queue(128), self.queue(128)])
    }

    /// A queue pair with these send and receive completion queues.
    pub fn pair_with(
        &self,
        kind: ib::ibv_qp_type::Type,
        pd: *mut ib::ibv_pd,
        [sent, received]: [Queue; 2],
    ) -> QueuePair {
        let mut attributes = ib::ibv_qp_init_attr {
            send_cq: sent.0,
            recv_cq: received.0,
            cap: capacities(),
            qp_type: kind,
            ..Default::default()
        };
        // SAFETY: a live domain and live queues.
        let qp = unsafe { ib::ibv_create_qp(pd, &mut attributes) };
        assert!(!qp.is_null(), "ibv_create_qp: {}", std::io::Error::last_os_error());
        // SAFETY: a live queue pair; its number does not change.
        let number = unsafe { (*qp).qp_num };
        QueuePair { qp, number, sent, received }
    }
}

impl QueuePair {
    /// Changes the attributes of the mask; returns the error number, 0 on success.
    pub fn modify(&self, change: &mut ib::ibv_qp_attr, named: mask) -> i32 {
        // SAFETY: a live queue pair and attributes.
        unsafe { ib::ibv_modify_qp(self.qp, change, i32::try_from(named.0).expect("a mask")) }
    }

    /// To INIT: receives can be posted.
    pub fn initialize(&self, link: Link) {
        let mut change = ib::ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: link.port,
            qp_access_flags: link.access,
            ..Default::default()
        };
        let named = mask::IBV_QP_STATE
            | mask::IBV_QP_PKEY_INDEX
            | mask::IBV_QP_PORT
            | mask::IBV_QP_ACCESS_FLAGS;
        assert_eq!(self.modify(&mut change, named), 0, "to INIT");
    }

    /// The attributes for RTR.
    pub fn ready_to_receive(number: u32, link: Link) -> (ib::ibv_qp_attr, mask) {
        let mut address =
            ib::ibv_ah_attr { port_num: link.port, dlid: link.lid, ..Default::default() };
        if link.port == 2 {
            address.is_global = 1;
            address.grh.sgid_index = 1;
            address.grh.dgid.raw = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 1];
        }
        let change = ib::ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: ib::IBV_MTU_1024,
            dest_qp_num: number,
            rq_psn: 0x12_3456,
            max_dest_rd_atomic: link.reads,
            min_rnr_timer: 12,
            ah_attr: address,
            ..Default::default()
        };
        let named = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        (change, named)
    }

    /// The attributes for RTS. The timeout of 4.096 us * 2^12 with two retries makes 50 ms.
    pub fn ready_to_send(link: Link) -> (ib::ibv_qp_attr, mask) {
        let change = ib::ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: link.send_psn,
            timeout: 12,
            retry_cnt: 2,
            rnr_retry: link.rnr_retries,
            max_rd_atomic: link.reads,
            ..Default::default()
        };
        let named = mask::IBV_QP_STATE
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        (change, named)
    }

    /// From RESET to RTS, connected to queue pair `number`.
    pub fn connect(&self, number: u32, link: Link) {
        self.initialize(link);
        let (mut change, named) = Self::ready_to_receive(number, link);
        assert_eq!(self.modify(&mut change, named), 0, "to RTR");
        let (mut change, named) = Self::ready_to_send(link);
        assert_eq!(self.modify(&mut change, named), 0, "to RTS");
    }

    /// To RESET: empties both queues.
    pub fn reset(&self) {
        let mut change = ib::ibv_qp_attr { qp_state: IBV_QPS_RESET, ..Default::default() };
        assert_eq!(self.modify(&mut change, mask::IBV_QP_STATE), 0, "to RESET");
    }

    pub fn query(&self) -> ib::ibv_qp_attr {
        let mut attributes = ib::ibv_qp_attr::default();
        let mut made = ib::ibv_qp_init_attr { send_cq: null_mut(), ..Default::default() };
        // SAFETY: a live queue pair and output buffers.
        let result = unsafe { ib::ibv_query_qp(self.qp, &mut attributes, 1, &mut made) };
        assert_eq!(result, 0, "ibv_query_qp");
        attributes
    }

    pub fn state(&self) -> ibv_qp_state::Type {
        self.query().qp_state
    }

    pub fn destroy(&self) {
        // SAFETY: the queue pair is not used afterwards.
        assert_eq!(unsafe { ib::ibv_destroy_qp(self.qp) }, 0);
    }
}
