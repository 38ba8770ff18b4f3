//! What libmlx5 tells of its queues: `mlx5dv_init_obj`, by our own declarations of what `infiniband/mlx5dv.h` (rdma-core 44) has.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use ibverbs_sys::{ibv_cq, ibv_qp};

/// `struct mlx5dv_qp`: where a queue pair's memory lies.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct QueuePair {
    /// The doorbell record: two big-endian words, receive and send.
    pub dbrec: *mut u32,
    pub sq: WorkQueue,
    pub rq: WorkQueue,
    pub bf: Register,
    pub comp_mask: u64,
    pub uar_mmap_offset: i64,
    pub tirn: u32,
    pub tisn: u32,
    pub rqn: u32,
    pub sqn: u32,
    pub tir_icm_addr: u64,
}

/// A work queue: so many entries of `stride` bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WorkQueue {
    pub buf: *mut u8,
    pub wqe_cnt: u32,
    pub stride: u32,
}

/// A doorbell register: two buffers of `size` bytes that are used by turns, or one doorbell of eight bytes where `size` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Register {
    pub reg: *mut u8,
    pub size: u32,
}

/// `struct mlx5dv_cq`: where a completion queue's memory lies.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CompletionQueue {
    pub buf: *mut u8,
    /// The doorbell record: two big-endian words, consumer index and arming.
    pub dbrec: *mut u32,
    pub cqe_cnt: u32,
    pub cqe_size: u32,
    pub cq_uar: *mut c_void,
    pub cqn: u32,
    pub comp_mask: u64,
}

/// `struct mlx5dv_obj`: pairs of a verbs object and the place for what is told of it.
#[repr(C)]
struct Objects {
    qp: (*mut ibv_qp, *mut QueuePair),
    cq: (*mut ibv_cq, *mut CompletionQueue),
    others: [(*mut c_void, *mut c_void); 5],
}

/// `MLX5DV_OBJ_QP`.
const QP: u64 = 1 << 0;
/// `MLX5DV_OBJ_CQ`.
const CQ: u64 = 1 << 1;

fn ask(objects: &mut Objects, which: u64) {
    type InitObj = unsafe extern "C" fn(*mut Objects, u64) -> c_int;
    // SAFETY: the provider that libibverbs has loaded already.
    let library = unsafe { libloading::Library::new("libmlx5.so.1") }.expect("libmlx5.so.1");
    // SAFETY: the function's signature in mlx5dv.h.
    let init_obj =
        unsafe { library.get::<InitObj>(b"mlx5dv_init_obj\0") }.expect("mlx5dv_init_obj");
    // SAFETY: a live object, and room for what is told of it.
    let result = unsafe { init_obj(objects, which) };
    assert_eq!(result, 0, "mlx5dv_init_obj");
}

fn nothing() -> Objects {
    Objects {
        qp: (null_mut(), null_mut()),
        cq: (null_mut(), null_mut()),
        others: [(null_mut(), null_mut()); 5],
    }
}

/// The memory of a live queue pair.
pub fn queue_pair(qp: *mut ibv_qp) -> QueuePair {
    // SAFETY: pointers and integers: zero is a value of each.
    let mut told: QueuePair = unsafe { std::mem::zeroed() };
    ask(
        &mut Objects {
            qp: (qp, &mut told),
            ..nothing()
        },
        QP,
    );
    told
}

/// The memory of a live completion queue.
pub fn completion_queue(cq: *mut ibv_cq) -> CompletionQueue {
    // SAFETY: as above.
    let mut told: CompletionQueue = unsafe { std::mem::zeroed() };
    ask(
        &mut Objects {
            cq: (cq, &mut told),
            ..nothing()
        },
        CQ,
    );
    told
}
