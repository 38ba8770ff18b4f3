//! Objects of Debian's provider: the device, queue pairs in RTS, completion queues that the test writes.

use std::ffi::c_int;
use std::ptr::null_mut;

use ibverbs_sys as ib;

use crate::memory::Memory;
use crate::mlx5dv;

/// An open device with a protection domain. Nothing is destroyed: the process ends with the test.
pub struct Device {
    pub context: *mut ib::ibv_context,
    pub pd: *mut ib::ibv_pd,
}

/// A completion queue and its memory.
pub struct Completions {
    pub cq: *mut ib::ibv_cq,
    /// `entries` of 64 bytes.
    pub buffer: Memory,
    /// Consumer index, arming.
    pub record: Memory,
    pub entries: u32,
    /// Number of CQEs that the test has written.
    pub written: u32,
}

/// A queue pair in RTS and its memory.
pub struct QueuePair {
    pub qp: *mut ib::ibv_qp,
    pub number: u32,
    /// The user index in its CQEs.
    pub user_index: u32,
    /// The granted capabilities.
    pub cap: ib::ibv_qp_cap,
    /// Send queue: blocks of 64 bytes.
    pub sq: Memory,
    /// Receive queue: entries of `rq_stride` bytes.
    pub rq: Memory,
    pub rq_stride: usize,
    /// Receive counter, send counter.
    pub record: Memory,
    /// Both buffers of the doorbell register.
    pub register: Memory,
    /// Size of one buffer; 0 for a doorbell of eight bytes.
    pub buffer_size: usize,
}

impl Device {
    /// Opens the only device.
    pub fn open() -> Self {
        let mut count: c_int = 0;
        // SAFETY: room for a number.
        let list = unsafe { ib::ibv_get_device_list(&mut count) };
        assert!(!list.is_null() && count == 1, "{count} devices; the fake kernel has one");
        // SAFETY: the list has one device and is freed after the open.
        let context = unsafe { ib::ibv_open_device(*list) };
        assert!(!context.is_null(), "ibv_open_device: {}", std::io::Error::last_os_error());
        // SAFETY: the list of above.
        unsafe { ib::ibv_free_device_list(list) };
        // SAFETY: the open context.
        let pd = unsafe { ib::ibv_alloc_pd(context) };
        assert!(!pd.is_null(), "ibv_alloc_pd: {}", std::io::Error::last_os_error());
        Self { context, pd }
    }

    /// A completion queue of at least `entries` CQEs.
    pub fn completions(&self, entries: i32) -> Completions {
        // SAFETY: the open context; no channel.
        let cq = unsafe { ib::ibv_create_cq(self.context, entries - 1, null_mut(), null_mut(), 0) };
        assert!(!cq.is_null(), "ibv_create_cq: {}", std::io::Error::last_os_error());
        let layout = mlx5dv::completion_queue(cq);
        assert_eq!(layout.cqe_size, 64, "MLX5_CQE_SIZE is not for this test");
        Completions {
            cq,
            buffer: Memory::new(layout.buf, layout.cqe_cnt as usize * 64),
            record: Memory::new(layout.dbrec.cast(), 8),
            entries: layout.cqe_cnt,
            written: 0,
        }
    }

    /// A queue pair in RTS.
    pub fn pair(
        &self,
        kind: ib::ibv_qp_type::Type,
        send: &Completions,
        receive: &Completions,
        cap: ib::ibv_qp_cap,
        signals_all: bool,
    ) -> QueuePair {
        let mut attributes = ib::ibv_qp_init_attr {
            send_cq: send.cq,
            recv_cq: receive.cq,
            cap,
            qp_type: kind,
            sq_sig_all: c_int::from(signals_all),
            ..Default::default()
        };
        // SAFETY: the live domain and queues.
        let qp = unsafe { ib::ibv_create_qp(self.pd, &mut attributes) };
        assert!(!qp.is_null(), "ibv_create_qp: {}", std::io::Error::last_os_error());
        for state in [
            ib::ibv_qp_state::IBV_QPS_INIT,
            ib::ibv_qp_state::IBV_QPS_RTR,
            ib::ibv_qp_state::IBV_QPS_RTS,
        ] {
            let mut change = ib::ibv_qp_attr { qp_state: state, ..Default::default() };
            // `IBV_QP_STATE`: the fake kernel requires nothing else.
            // SAFETY: the live queue pair.
            let result = unsafe { ib::ibv_modify_qp(qp, &mut change, 1) };
            assert_eq!(result, 0, "ibv_modify_qp to {state}");
        }
        // SAFETY: the live queue pair; its number does not change.
        let number = unsafe { (*qp).qp_num };
        let layout = mlx5dv::queue_pair(qp);
        assert_eq!(layout.sq.stride, 64);
        let buffer_size = layout.bf.size as usize;
        QueuePair {
            qp,
            number,
            user_index: user_index(number),
            cap: attributes.cap,
            sq: Memory::new(layout.sq.buf, layout.sq.wqe_cnt as usize * 64),
            rq: Memory::new(layout.rq.buf, layout.rq.wqe_cnt as usize * layout.rq.stride as usize),
            rq_stride: layout.rq.stride as usize,
            record: Memory::new(layout.dbrec.cast(), 8),
            register: Memory::new(layout.bf.reg, (2 * buffer_size).max(8)),
            buffer_size,
        }
    }

    pub fn address(&self, attributes: &mut ib::ibv_ah_attr) -> *mut ib::ibv_ah {
        // SAFETY: the live domain.
        let handle = unsafe { ib::ibv_create_ah(self.pd, attributes) };
        assert!(!handle.is_null(), "ibv_create_ah: {}", std::io::Error::last_os_error());
        handle
    }
}

/// The user index that the provider passed to the fake kernel.
fn user_index(number: u32) -> u32 {
    type UserIndex = unsafe extern "C" fn(u32) -> u32;
    let fake = libloading::os::unix::Library::this();
    // SAFETY: the function's signature in crate fake-uverbs, which is preloaded.
    let query = unsafe { fake.get::<UserIndex>(b"fake_uverbs_user_index\0") }
        .expect("fake-uverbs is preloaded");
    // SAFETY: the function takes no pointers.
    let index = unsafe { query(number) };
    assert_ne!(index, u32::MAX, "queue pair {number:#x}");
    index
}

impl Completions {
    /// Writes 64 bytes to the next slot without advancing.
    pub fn place(&self, entry: &[u8; 64]) {
        self.buffer.write((self.written % self.entries) as usize * 64, entry);
    }

    /// Writes a CQE as the NIC does.
    pub fn put(&mut self, entry: &[u8; 64]) {
        self.place(entry);
        self.written += 1;
    }

    /// The owner bit of the next completion: the parity of the pass over the queue.
    pub fn owner(&self) -> u8 {
        (self.written / self.entries) as u8 & 1
    }

    /// Polls at most one completion. Keeps fields of `wc` that the provider does not write.
    pub fn poll(&self, wc: &mut ib::ibv_wc) -> c_int {
        // SAFETY: the live queue, and room for one completion.
        unsafe { ib::ibv_poll_cq(self.cq, 1, wc) }
    }

    /// Polls up to `room.len()` completions.
    pub fn poll_all(&self, room: &mut [ib::ibv_wc]) -> c_int {
        let count = c_int::try_from(room.len()).expect("a few");
        // SAFETY: the live queue, and room for so many.
        unsafe { ib::ibv_poll_cq(self.cq, count, room.as_mut_ptr()) }
    }
}
