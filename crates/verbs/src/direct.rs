//! Direct verbs of mlx5: where the provider keeps the memory of a queue pair and of a completion queue, for who writes the entries
//! and rings the doorbell himself. The types keep such queues from the provider's own `send`, `receive` and `poll`: the two would not
//! know of one another.
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
//! What these three do not do by a slip of the pen alone:
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

/// A ring of a queue.
#[derive(Debug, Clone)]
pub struct Ring {
    /// All of it.
    pub memory: BorrowedMemory,
    /// Entries (of a send queue, blocks of 64 bytes): a power of two.
    pub entries: u32,
    /// Bytes of one.
    pub stride: u32,
}

/// Words in a page that others have words in too.
#[derive(Debug, Clone)]
pub struct Words {
    /// The whole page, or pages: what is registered with a GPU.
    pub pages: BorrowedMemory,
    /// Where the words begin in it.
    pub offset: usize,
}

/// Where a queue pair's memory lies.
#[derive(Debug, Clone)]
pub struct QueuePairLayout {
    /// The send queue, of blocks of 64 bytes.
    pub send: Ring,
    /// The receive queue.
    pub receive: Ring,
    /// Two doorbell records of 32 bits, big-endian: of the receive queue, then of the send queue.
    pub records: Words,
    /// The doorbell register, of 64 bits: a page of the device's registers.
    pub register: Words,
    /// Bytes of an entry that may be written into the register instead of a doorbell; 0 where it takes doorbells alone.
    pub inline_register: u32,
}

/// Where a completion queue's memory lies.
#[derive(Debug, Clone)]
pub struct CompletionQueueLayout {
    /// The queue.
    pub ring: Ring,
    /// Two doorbell records of 32 bits, big-endian: the consumer index, and what arms it for an event.
    pub records: Words,
    /// Its number.
    pub number: u32,
}

impl Context {
    /// Whether it is an mlx5 device, by its provider's word; a machine without libmlx5 has none.
    #[must_use]
    pub fn is_mlx5(&self) -> bool {
        let is_supported = raw::mlx5dv()
            .ok()
            .and_then(|library| library.mlx5dv_is_supported);
        is_supported.is_some_and(|is_supported| {
            // SAFETY: the context is open, and its device is there for as long.
            unsafe { is_supported((*self.as_raw()).device) }
        })
    }
}

impl ProtectionDomain {
    /// This domain for one thread's queue pairs: the provider gives them a doorbell register that no other queue pairs have, where it
    /// has one left.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]: EOPNOTSUPP where the provider has no thread domains.
    pub fn of_one_thread(&self) -> Result<Self, Error> {
        let context = self.context();
        let mut attributes = raw::ibv_td_init_attr::default();
        // SAFETY: the context is open.
        let thread = unsafe { raw::ibv_alloc_td(context.as_raw(), &mut attributes) };
        let threads = Threads::new(context.made("ibv_alloc_td", thread)?, self.clone());
        let mut attributes = raw::ibv_parent_domain_init_attr {
            pd: self.as_raw(),
            td: threads.as_raw(),
            ..raw::ibv_parent_domain_init_attr::default()
        };
        // SAFETY: both domains are alive, and the new one holds them.
        let parent = unsafe { raw::ibv_alloc_parent_domain(context.as_raw(), &mut attributes) };
        let parent = context.made("ibv_alloc_parent_domain", parent)?;
        Ok(Self::parent(parent, threads, context))
    }

    /// A queue pair whose payloads all go where its entries say. The provider's own would put short ones into the completion entry, for
    /// its poller to copy, which a GPU does not wait for.
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
        let create = raw::mlx5dv()?
            .mlx5dv_create_qp
            .ok_or(Error::Missing { function })?;
        let mut wanted = raw::ibv_qp_init_attr_ex {
            send_cq: sent.as_raw(),
            recv_cq: received.as_raw(),
            cap: options.cap(),
            qp_type: match options.transport {
                Transport::Rc => kind::IBV_QPT_RC,
                Transport::Uc => kind::IBV_QPT_UC,
                Transport::Ud => kind::IBV_QPT_UD,
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
        // SAFETY: the domain and both queues are alive; what the pair holds is written back into the attributes.
        let made = unsafe { create(self.context().as_raw(), &mut wanted, &mut besides) };
        let made = self.context().made(function, made)?;
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
    /// Where its memory lies, which stays until the queue pair, and what is told of it here, is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] without libmlx5, [`Error::Missing`], [`Error::Call`]; [`Error::Layout`] for memory that cannot be.
    pub fn layout(&self) -> Result<QueuePairLayout, Error> {
        let mut told = raw::mlx5dv_qp::default();
        let mut asked = raw::mlx5dv_obj {
            qp_in: self.as_raw(),
            qp_out: &raw mut told,
            ..raw::mlx5dv_obj::default()
        };
        self.domain()
            .context()
            .ask(&mut asked, object::MLX5DV_OBJ_QP.0, "a queue pair")?;
        let keep = self.owned();
        let ring = |what, buffer, entries: u32, stride: u32| -> Result<Ring, Error> {
            let memory = borrowed(
                what,
                buffer,
                entries as usize * stride as usize,
                keep.clone(),
            )?;
            Ok(Ring {
                memory,
                entries,
                stride,
            })
        };
        Ok(QueuePairLayout {
            send: ring("a send queue", told.sq_buf, told.sq_wqe_cnt, told.sq_stride)?,
            receive: ring(
                "a receive queue",
                told.rq_buf,
                told.rq_wqe_cnt,
                told.rq_stride,
            )?,
            records: words("doorbell records", told.dbrec.cast(), 8, keep.clone())?,
            register: words("a doorbell register", told.bf_reg, 8, keep.clone())?,
            inline_register: told.bf_size,
        })
    }
}

impl CompletionQueue<Direct> {
    /// Where its memory lies. The memory stays until the queue and this description are dropped.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::layout`].
    pub fn layout(&self) -> Result<CompletionQueueLayout, Error> {
        let mut told = raw::mlx5dv_cq::default();
        let mut asked = raw::mlx5dv_obj {
            cq_in: self.as_raw(),
            cq_out: &raw mut told,
            ..raw::mlx5dv_obj::default()
        };
        self.context()
            .ask(&mut asked, object::MLX5DV_OBJ_CQ.0, "a completion queue")?;
        let keep: Keep = self.owned();
        let (entries, stride) = (told.cqe_cnt, told.cqe_size);
        let bytes = entries as usize * stride as usize;
        Ok(CompletionQueueLayout {
            ring: Ring {
                memory: borrowed("a completion queue", told.buf, bytes, keep.clone())?,
                entries,
                stride,
            },
            records: words("doorbell records", told.dbrec.cast(), 8, keep)?,
            number: told.cqn,
        })
    }
}

impl Context {
    pub(crate) fn ask(
        &self,
        objects: &mut raw::mlx5dv_obj,
        which: u32,
        what: &'static str,
    ) -> Result<(), Error> {
        let function = "mlx5dv_init_obj";
        let ask = raw::mlx5dv()?
            .mlx5dv_init_obj
            .ok_or(Error::Missing { function })?;
        // The library takes what it is given for its own.
        if !self.is_mlx5() {
            let name = self.name().to_owned();
            return Err(Error::NotMlx5 { name, what });
        }
        // SAFETY: the object is alive and an mlx5 device's, and there is room for what is told of it.
        let errno = unsafe { ask(objects, which.into()) };
        self.answered(function, errno)
    }
}

type Keep = Arc<dyn std::any::Any + Send + Sync>;

/// Memory of the provider's, which is there while its object is.
fn borrowed(
    what: &'static str,
    start: *mut std::ffi::c_void,
    bytes: usize,
    keep: Keep,
) -> Result<BorrowedMemory, Error> {
    let start =
        NonNull::new(start.cast::<u8>()).filter(|start| bytes > 0 && start.addr().get() % 8 == 0);
    let start = start.ok_or(Error::Layout { what, bytes })?;
    // SAFETY: the provider told that the object's memory is there, and keeps it until the object is destroyed, which `keep` does; it
    // touches it by functions that the type of the object has not.
    Ok(unsafe { BorrowedMemory::new(start, bytes, keep) })
}

/// Words of the provider's: all of their pages, which hold other objects' words of the same kind.
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
    // Of the same allocation: the provider takes pages for records, and maps pages of registers.
    let start = at.wrapping_byte_sub(offset);
    Ok(Words {
        pages: borrowed(what, start, whole, keep)?,
        offset,
    })
}
