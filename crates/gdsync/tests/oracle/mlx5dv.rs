//! The memory of libmlx5's queues: `mlx5dv_init_obj`, declared as in `infiniband/mlx5dv.h` of rdma-core 44.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use ibverbs_sys::{ibv_cq, ibv_qp};

/// `struct mlx5dv_qp`: memory of a queue pair.
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

/// A work queue of `wqe_cnt` × `stride` bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WorkQueue {
    pub buf: *mut u8,
    pub wqe_cnt: u32,
    pub stride: u32,
}

/// A doorbell register: two buffers of `size` bytes used alternately, or one doorbell of eight bytes if `size` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Register {
    pub reg: *mut u8,
    pub size: u32,
}

/// `struct mlx5dv_cq`: memory of a completion queue.
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

/// `struct mlx5dv_obj`: pairs of a verbs object and its output.
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

fn init_obj(objects: &mut Objects, which: u64) {
    type InitObj = unsafe extern "C" fn(*mut Objects, u64) -> c_int;
    // SAFETY: the provider that libibverbs has loaded already.
    let library = unsafe { libloading::Library::new("libmlx5.so.1") }.expect("libmlx5.so.1");
    // SAFETY: the function's signature in mlx5dv.h.
    let function =
        unsafe { library.get::<InitObj>(b"mlx5dv_init_obj\0") }.expect("mlx5dv_init_obj");
    // SAFETY: the object is live, and its output has the type of mlx5dv.h.
    let result = unsafe { function(objects, which) };
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
    // SAFETY: the structure consists of pointers and integers, for which zero is valid.
    let mut layout: QueuePair = unsafe { std::mem::zeroed() };
    init_obj(&mut Objects { qp: (qp, &mut layout), ..nothing() }, QP);
    layout
}

/// The memory of a live completion queue.
pub fn completion_queue(cq: *mut ibv_cq) -> CompletionQueue {
    // SAFETY: as above.
    let mut layout: CompletionQueue = unsafe { std::mem::zeroed() };
    init_obj(&mut Objects { cq: (cq, &mut layout), ..nothing() }, CQ);
    layout
}
