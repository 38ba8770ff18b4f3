//! A queue pair with its device, queues and memory.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use ibverbs_sys::*;

use crate::driver::{ALL, RC, SIGNALED, UC, UD, Verbs, is_readable};

/// A request to send.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub id: u64,
    pub opcode: u32,
    pub flags: u32,
    /// Offsets into the sender's memory, and lengths.
    pub sges: &'a [(usize, u32)],
    pub lkey: Option<u32>,
    pub immediate: u32,
    /// An address and a key.
    pub remote: (u64, u32),
    /// Value to add or compare with, and value to swap in.
    pub operands: (u64, u64),
    /// A datagram's address, queue pair and key.
    pub to: (*mut c_void, u32, u32),
}

pub fn request(id: u64, opcode: u32, sges: &[(usize, u32)]) -> Request<'_> {
    Request {
        id,
        opcode,
        flags: SIGNALED,
        sges,
        lkey: None,
        immediate: 0,
        remote: (0, 0),
        operands: (0, 0),
        to: (null_mut(), 0, 0),
    }
}

/// A queue pair with its device, queues, and 4096 bytes of registered memory.
pub struct End<'verbs> {
    pub verbs: &'verbs Verbs,
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub mr: *mut ibv_mr,
    pub memory: *mut u64,
}

/// Length of the memory in words of 8 bytes.
const WORDS: usize = 512;

/// Capacities of a queue pair and its completion queue.
const ROOM: (ibv_qp_cap, c_int) = (
    ibv_qp_cap {
        max_send_wr: 8,
        max_recv_wr: 8,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 64,
    },
    64,
);

impl<'verbs> End<'verbs> {
    pub fn new(verbs: &'verbs Verbs, device: usize, kind: u32) -> Self {
        let (cap, entries) = ROOM;
        let context = verbs.open(device);
        let pd = verbs.pd(context).expect("a domain");
        let cq = verbs.cq(context, entries).expect("a queue");
        let mut wanted = ibv_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            cap,
            qp_type: kind,
            ..ibv_qp_init_attr::default()
        };
        let qp = verbs.qp(pd, &mut wanted).expect("a queue pair");
        // Lives as long as the process.
        let memory = vec![0_u64; WORDS].leak().as_mut_ptr();
        let mr = verbs
            .register(pd, memory.cast(), WORDS * 8, ALL)
            .expect("a registration");
        Self {
            verbs,
            context,
            pd,
            cq,
            qp,
            mr,
            memory,
        }
    }

    pub fn number(&self) -> u32 {
        // SAFETY: a live object of this end.
        unsafe { (*self.qp).qp_num }
    }

    pub fn state(&self) -> u32 {
        self.verbs.query(self.qp).0.qp_state
    }

    pub fn lkey(&self) -> u32 {
        // SAFETY: a live object of this end.
        unsafe { (*self.mr).lkey }
    }

    pub fn rkey(&self) -> u32 {
        // SAFETY: a live object of this end.
        unsafe { (*self.mr).rkey }
    }

    /// Address of an offset in its memory.
    pub fn at(&self, offset: usize) -> u64 {
        self.memory.expose_provenance() as u64 + offset as u64
    }

    /// Address and rkey of an offset in its memory.
    pub fn remote(&self, offset: usize) -> (u64, u32) {
        (self.at(offset), self.rkey())
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= WORDS * 8);
        // SAFETY: within the memory, which nothing else uses now.
        unsafe {
            self.memory
                .cast::<u8>()
                .add(offset)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    pub fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        assert!(offset + bytes <= WORDS * 8);
        let mut out = vec![0; bytes];
        // SAFETY: as above.
        unsafe {
            self.memory
                .cast::<u8>()
                .add(offset)
                .copy_to(out.as_mut_ptr(), bytes)
        };
        out
    }

    fn sges(&self, sges: &[(usize, u32)], lkey: u32) -> Vec<ibv_sge> {
        let sge = |(offset, length): &(usize, u32)| ibv_sge {
            addr: self.at(*offset),
            length: *length,
            lkey,
        };
        sges.iter().map(sge).collect()
    }

    fn ops(&self) -> ibv_context_ops {
        // SAFETY: an open context.
        unsafe { (*self.context).ops }
    }

    /// Posts requests in one list. Error: the error number and the index of the failed request.
    pub fn post_all(&self, requests: &[Request<'_>]) -> Result<(), (c_int, usize)> {
        let mut sges: Vec<Vec<ibv_sge>> = requests
            .iter()
            .map(|request| self.sges(request.sges, request.lkey.unwrap_or_else(|| self.lkey())))
            .collect();
        let mut all: Vec<ibv_send_wr> = Vec::new();
        for (request, sges) in requests.iter().zip(&mut sges) {
            // SAFETY: a live object of this end.
            let kind = unsafe { (*self.qp).qp_type };
            let wr = match request.opcode {
                _ if kind == UD => ibv_send_wr_target {
                    ud: ibv_send_wr_datagram {
                        ah: request.to.0.cast(),
                        remote_qpn: request.to.1,
                        remote_qkey: request.to.2,
                    },
                },
                ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP
                | ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD => ibv_send_wr_target {
                    atomic: ibv_send_wr_atomic {
                        remote_addr: request.remote.0,
                        compare_add: request.operands.0,
                        swap: request.operands.1,
                        rkey: request.remote.1,
                    },
                },
                _ => ibv_send_wr_target {
                    rdma: ibv_send_wr_rdma {
                        remote_addr: request.remote.0,
                        rkey: request.remote.1,
                    },
                },
            };
            all.push(ibv_send_wr {
                wr_id: request.id,
                next: null_mut(),
                sg_list: sges.as_mut_ptr(),
                num_sge: c_int::try_from(sges.len()).expect("few"),
                opcode: request.opcode,
                send_flags: request.flags,
                __bindgen_anon_1: ibv_send_wr_value {
                    imm_data: request.immediate,
                },
                wr,
                ..ibv_send_wr::default()
            });
        }
        let first = all.as_mut_ptr();
        for place in 1..all.len() {
            // SAFETY: both are in the list.
            unsafe { (*first.add(place - 1)).next = first.add(place) };
        }
        let mut bad = null_mut();
        let post = self.ops().post_send.expect("the function");
        // SAFETY: the requests, their SGEs and the memory are alive.
        let code = unsafe { post(self.qp, first, &mut bad) };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: `bad` points into the list.
        let place = unsafe { bad.offset_from(first) };
        Err((code, usize::try_from(place).expect("a place")))
    }

    pub fn post(&self, request: &Request<'_>) -> c_int {
        let posted = self.post_all(std::slice::from_ref(request));
        posted.map_or_else(|(code, _)| code, |()| 0)
    }

    pub fn receive(&self, id: u64, sges: &[(usize, u32)]) -> c_int {
        let mut sges = self.sges(sges, self.lkey());
        let mut request = ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: c_int::try_from(sges.len()).expect("few"),
        };
        let mut bad = null_mut();
        let post = self.ops().post_recv.expect("the function");
        // SAFETY: the request, its SGEs and the memory are alive.
        let code = unsafe { post(self.qp, &mut request, &mut bad) };
        assert_eq!(code != 0, bad == &raw mut request);
        code
    }

    pub fn poll(&self) -> Option<ibv_wc> {
        let mut out = [ibv_wc::default(); 2];
        let poll = self.ops().poll_cq.expect("the function");
        // SAFETY: the array has two entries.
        let count = unsafe { poll(self.cq, 1, out.as_mut_ptr()) };
        assert!((0..=1).contains(&count), "{count}");
        (count == 1).then_some(out[0])
    }

    /// All completions: `wr_id` and status.
    pub fn completions(&self) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| self.poll())
            .map(|completion| {
                (
                    completion.wr_id(),
                    completion.error().map_or(0, |(status, _)| status),
                )
            })
            .collect()
    }

    /// True if its context has an asynchronous event.
    pub fn has_event(&self) -> bool {
        // SAFETY: an open context.
        is_readable(unsafe { (*self.context).async_fd })
    }

    pub fn lid(&self) -> u16 {
        self.verbs.port(self.context, 1).expect("a port").lid
    }

    /// All attributes of a connection to `peer`, by LID.
    pub fn toward(&self, peer: &End<'_>) -> ibv_qp_attr {
        ibv_qp_attr {
            path_mtu: IBV_MTU_1024,
            qkey: 0x1111_1111,
            rq_psn: 5,
            sq_psn: 5,
            dest_qp_num: peer.number(),
            qp_access_flags: ALL,
            ah_attr: ibv_ah_attr {
                dlid: peer.lid(),
                port_num: 1,
                ..ibv_ah_attr::default()
            },
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            port_num: 1,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 0,
            ..ibv_qp_attr::default()
        }
    }

    /// From RESET to RTS.
    pub fn start(&self, attributes: &ibv_qp_attr) {
        // SAFETY: a live object of this end.
        let kind = unsafe { (*self.qp).qp_type };
        for (state, mask) in steps(kind) {
            let attributes = ibv_qp_attr {
                qp_state: state,
                ..*attributes
            };
            assert_eq!(
                self.verbs.modify(self.qp, &attributes, mask),
                0,
                "to {state}"
            );
        }
    }
}

/// State and attribute mask of each step to RTS, from the manual page of `ibv_modify_qp`.
pub fn steps(kind: u32) -> [(u32, u32); 3] {
    // IBV_QP_STATE, PKEY_INDEX, PORT and ACCESS_FLAGS or QKEY.
    let first = 1 | 1 << 4 | 1 << 5;
    // AV, PATH_MTU, DEST_QPN, RQ_PSN; MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER.
    let connection = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12;
    let reliable = connection | 1 << 17 | 1 << 15;
    // SQ_PSN; TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC.
    let last = 1 | 1 << 16;
    let (init, rtr, rts) = (1, 2, 3);
    match kind {
        RC => [
            (init, first | 1 << 3),
            (rtr, reliable),
            (rts, last | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13),
        ],
        UC => [(init, first | 1 << 3), (rtr, connection), (rts, last)],
        _ => [(init, first | 1 << 6), (rtr, 1), (rts, last)],
    }
}

/// Two connected ends on two devices.
pub fn pair(verbs: &Verbs, kind: u32) -> (End<'_>, End<'_>) {
    let (here, there) = (End::new(verbs, 0, kind), End::new(verbs, 1, kind));
    here.start(&here.toward(&there));
    there.start(&there.toward(&here));
    (here, there)
}
