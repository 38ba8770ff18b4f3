//! Direct verbs of mlx5: the memory of queue pairs and completion queues, for programs that write WQEs and ring doorbells themselves.
//! The types keep such queues apart from the provider's `send`, `receive` and `poll`, which would conflict.
//!
//! ```compile_fail,E0599
//! fn both(queue: &verbs::CompletionQueue<verbs::Direct>) {
//!     let _ = queue.poll(&mut []);
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn both(pair: &mut verbs::QueuePair<verbs::Rts, verbs::Direct>, request: &verbs::Request<'_>) {
//!     let _ = pair.send(request);
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn both(pair: &verbs::QueuePair<verbs::Rts>) {
//!     let _ = pair.layout();
//! }
//! ```
//!
//! The same calls compile with the matching types:
//!
//! ```
//! fn each(
//!     queue: &verbs::CompletionQueue,
//!     pair: &mut verbs::QueuePair<verbs::Rts>,
//!     request: &verbs::Request<'_>,
//!     direct: &verbs::QueuePair<verbs::Rts, verbs::Direct>,
//! ) {
//!     let _ = queue.poll(&mut []);
//!     let _ = pair.send(request);
//!     let _ = direct.layout();
//! }
//! ```

use std::ptr::NonNull;
use std::sync::Arc;

use gpu::BorrowedMemory;
use ibverbs_sys::{
    self as raw, ibv_qp_type as kind, mlx5dv_obj_type as object, mlx5dv_qp_create_flags as flags,
};

use crate::completion::Direct;
use crate::domain::Threads;
use crate::{
    CompletionQueue, Context, Error, ProtectionDomain, QueuePair, QueuePairOptions, Reset,
    Transport,
};

/// A ring of WQEs or CQEs.
#[derive(Debug, Clone)]
pub struct Ring {
    /// All bytes of the ring.
    pub memory: BorrowedMemory,
    /// Number of entries (WQEBBs of 64 bytes in a send queue): a power of two.
    pub entries: u32,
    /// Bytes per entry.
    pub stride: u32,
}

/// Words within a page that is shared with other words.
#[derive(Debug, Clone)]
pub struct Words {
    /// The whole page or pages, for registration with a GPU.
    pub pages: BorrowedMemory,
    /// Offset of the words.
    pub offset: usize,
}

/// Memory of a queue pair.
#[derive(Debug, Clone)]
pub struct QueuePairLayout {
    /// The send queue, in WQEBBs of 64 bytes.
    pub send: Ring,
    /// The receive queue.
    pub receive: Ring,
    /// Two 32-bit big-endian doorbell records: receive queue, then send queue.
    pub records: Words,
    /// The 64-bit doorbell register, in a page of registers.
    pub register: Words,
    /// BlueFlame size: WQE bytes that may be written to the register instead of a doorbell; 0 without BlueFlame.
    pub inline_register: u32,
}

/// Memory of a completion queue.
#[derive(Debug, Clone)]
pub struct CompletionQueueLayout {
    /// The queue.
    pub ring: Ring,
    /// Two 32-bit big-endian doorbell records: consumer index and arm.
    pub records: Words,
    /// Its number (CQN).
    pub number: u32,
}

impl Context {
    /// True if the provider is mlx5; always false without libmlx5.
    #[must_use]
    pub fn is_mlx5(&self) -> bool {
        let is_supported = raw::mlx5dv().ok().and_then(|library| library.mlx5dv_is_supported);
        is_supported.is_some_and(|is_supported| {
            // SAFETY: the context is open, and keeps its device.
            unsafe { is_supported((*self.as_raw()).device) }
        })
    }
}

impl ProtectionDomain {
    /// A parent domain for the queue pairs of one thread: the provider gives them an exclusive doorbell register if one is free.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]: EOPNOTSUPP if the provider has no thread domains.
    pub fn of_one_thread(&self) -> Result<Self, Error> {
        let context = self.context();
        let mut attributes = raw::ibv_td_init_attr::default();
        // SAFETY: the context is open.
        let thread = unsafe { raw::ibv_alloc_td(context.as_raw(), &mut attributes) };
        let threads = Threads::new(context.check_pointer("ibv_alloc_td", thread)?, self.clone());
        let mut attributes = raw::ibv_parent_domain_init_attr {
            pd: self.as_raw(),
            td: threads.as_raw(),
            ..raw::ibv_parent_domain_init_attr::default()
        };
        // SAFETY: both domains are alive, and the new one holds them.
        let parent = unsafe { raw::ibv_alloc_parent_domain(context.as_raw(), &mut attributes) };
        let parent = context.check_pointer("ibv_alloc_parent_domain", parent)?;
        Ok(Self::parent(parent, threads, context))
    }

    /// Creates a queue pair without scatter-to-CQE: the provider's default would put short payloads into the CQE for its poller to copy,
    /// which a GPU does not wait for.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] without libmlx5, [`Error::Missing`], [`Error::Call`].
    pub fn direct_queue_pair(
        &self,
        options: QueuePairOptions,
        sent: &CompletionQueue<Direct>,
        received: &CompletionQueue<Direct>,
    ) -> Result<QueuePair<Reset, Direct>, Error> {
        let function = "mlx5dv_create_qp";
        let create = raw::mlx5dv()?.mlx5dv_create_qp.ok_or(Error::Missing { function })?;
        let mut wanted = raw::ibv_qp_init_attr_ex {
            send_cq: sent.as_raw(),
            recv_cq: received.as_raw(),
            cap: options.cap(),
            qp_type: match options.transport {
                Transport::Rc => kind::IBV_QPT_RC,
                Transport::Uc => kind::IBV_QPT_UC,
                Transport::Ud => kind::IBV_QPT_UD,
                Transport::Srd => {
                    return Err(Error::NotEfa { name: self.context().name().to_owned() });
                }
            },
            comp_mask: raw::ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0,
            pd: self.as_raw(),
            ..raw::ibv_qp_init_attr_ex::default()
        };
        let mut besides = raw::mlx5dv_qp_init_attr {
            comp_mask: raw::mlx5dv_qp_init_attr_mask::MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS
                .0
                .into(),
            create_flags: flags::MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE.0,
            ..raw::mlx5dv_qp_init_attr::default()
        };
        // SAFETY: the domain and both queues are alive; the library writes the actual capacities back into the attributes.
        let made = unsafe { create(self.context().as_raw(), &mut wanted, &mut besides) };
        let made = self.context().check_pointer(function, made)?;
        Ok(QueuePair::of(
            made,
            wanted.cap.max_inline_data,
            options.transport,
            self,
            [sent, received],
        ))
    }
}

impl<S> QueuePair<S, Direct> {
    /// Its memory, which stays until the queue pair and this description are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] without libmlx5, [`Error::Missing`], [`Error::Call`]; [`Error::Layout`] for invalid memory.
    pub fn layout(&self) -> Result<QueuePairLayout, Error> {
        let mut layout = raw::mlx5dv_qp::default();
        let mut object_pointers = raw::mlx5dv_obj {
            qp_in: self.as_raw(),
            qp_out: &raw mut layout,
            ..raw::mlx5dv_obj::default()
        };
        self.domain().context().init_object(
            &mut object_pointers,
            object::MLX5DV_OBJ_QP.0,
            "a queue pair",
        )?;
        let keep = self.owned();
        let ring = |what, buffer, entries: u32, stride: u32| -> Result<Ring, Error> {
            let memory = borrowed(what, buffer, entries as usize * stride as usize, keep.clone())?;
            Ok(Ring { memory, entries, stride })
        };
        Ok(QueuePairLayout {
            send: ring("a send queue", layout.sq_buf, layout.sq_wqe_cnt, layout.sq_stride)?,
            receive: ring("a receive queue", layout.rq_buf, layout.rq_wqe_cnt, layout.rq_stride)?,
            records: words("doorbell records", layout.dbrec.cast(), 8, keep.clone())?,
            register: words("a doorbell register", layout.bf_reg, 8, keep.clone())?,
            inline_register: layout.bf_size,
        })
    }
}

impl CompletionQueue<Direct> {
    /// Its memory, which stays until the queue and this description are dropped.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::layout`].
    pub fn layout(&self) -> Result<CompletionQueueLayout, Error> {
        let mut layout = raw::mlx5dv_cq::default();
        let mut object_pointers = raw::mlx5dv_obj {
            cq_in: self.as_raw(),
            cq_out: &raw mut layout,
            ..raw::mlx5dv_obj::default()
        };
        self.context().init_object(
            &mut object_pointers,
            object::MLX5DV_OBJ_CQ.0,
            "a completion queue",
        )?;
        let keep: Keep = self.owned();
        let (entries, stride) = (layout.cqe_cnt, layout.cqe_size);
        let bytes = entries as usize * stride as usize;
        Ok(CompletionQueueLayout {
            ring: Ring {
                memory: borrowed("a completion queue", layout.buf, bytes, keep.clone())?,
                entries,
                stride,
            },
            records: words("doorbell records", layout.dbrec.cast(), 8, keep)?,
            number: layout.cqn,
        })
    }
}

impl Context {
    pub(crate) fn init_object(
        &self,
        objects: &mut raw::mlx5dv_obj,
        which: u32,
        what: &'static str,
    ) -> Result<(), Error> {
        let function = "mlx5dv_init_obj";
        let init = raw::mlx5dv()?.mlx5dv_init_obj.ok_or(Error::Missing { function })?;
        // The library does not check the type of the device.
        if !self.is_mlx5() {
            let name = self.name().to_owned();
            return Err(Error::NotMlx5 { name, what });
        }
        // SAFETY: the object is alive and an mlx5 device's, and the output is valid.
        let errno = unsafe { init(objects, which.into()) };
        self.check_errno(function, errno)
    }
}

type Keep = Arc<dyn std::any::Any + Send + Sync>;

/// Memory of the provider that lives as long as its object.
fn borrowed(
    what: &'static str,
    start: *mut std::ffi::c_void,
    bytes: usize,
    keep: Keep,
) -> Result<BorrowedMemory, Error> {
    let start =
        NonNull::new(start.cast::<u8>()).filter(|start| bytes > 0 && start.addr().get() % 8 == 0);
    let start = start.ok_or(Error::Layout { what, bytes })?;
    // SAFETY: the provider reported this memory of the object and keeps it while `keep` keeps the object; this object's type has no
    // functions with which the provider would access it.
    Ok(unsafe { BorrowedMemory::new(start, bytes, keep) })
}

/// Words of the provider, with their whole pages, which also hold words of other objects.
pub(crate) fn words(
    what: &'static str,
    at: *mut std::ffi::c_void,
    bytes: usize,
    keep: Keep,
) -> Result<Words, Error> {
    let page = rustix::param::page_size();
    let offset = at.addr() % page;
    let whole = (offset + bytes).next_multiple_of(page);
    if at.is_null() {
        return Err(Error::Layout { what, bytes });
    }
    // One allocation: the provider allocates pages for records and maps pages of registers.
    let start = at.wrapping_byte_sub(offset);
    Ok(Words { pages: borrowed(what, start, whole, keep)?, offset })
}
