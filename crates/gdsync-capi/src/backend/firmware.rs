//! mlx5 NICs, with queues in GPU memory: created by firmware commands (DEVX), with doorbells rung by the GPU.
//!
//! The firmware's objects are not verbs objects, so the program gets stand-ins with their numbers. Only this library's functions accept
//! them; the kernel knows no object of their handle, so other verbs fail.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::Allocator;
use engine::hca::mlx5::Queues;
use engine::hca::mlx5::own::{self, Firmware};
use engine::hca::{Endpoint, QueuePair};
use engine::wire::AddressVector;
use verbs::devx::{Devx, QueuePair as DevxPair};
use verbs::raw::{ibv_ah, ibv_cq, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_type};
use verbs::{Borrowed, Context, ProtectionDomain, Transport};

use super::{Backend, BackendPair, PairOptions, mlx5};
use crate::call_error::CallError;

/// The program's view of a queue pair.
struct StandIns {
    pair: Box<UnsafeCell<Padded<ibv_qp>>>,
    completions: [Box<UnsafeCell<Padded<ibv_cq>>>; 2],
}

/// An object with zeros after it: a provider that is given it by mistake reads its own fields there.
#[derive(Default)]
#[repr(C)]
struct Padded<T> {
    object: T,
    _zeros: [[u64; 32]; 16],
}

// SAFETY: the library writes `state` under the queue pair's lock, and only the program reads the objects.
unsafe impl Send for StandIns {}
// SAFETY: as above.
unsafe impl Sync for StandIns {}

impl std::fmt::Debug for StandIns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StandIns")
    }
}

/// No object of the kernel has this handle.
const NO_HANDLE: u32 = u32::MAX;

impl StandIns {
    fn new(domain: &ProtectionDomain, pair: &DevxPair<Borrowed>, options: &PairOptions) -> Self {
        let context = domain.context().as_raw();
        let queue = |entries: u32| {
            Box::new(UnsafeCell::new(Padded {
                object: ibv_cq {
                    context,
                    handle: NO_HANDLE,
                    cqe: c_int::try_from(entries).unwrap_or(c_int::MAX),
                    ..ibv_cq::default()
                },
                _zeros: Default::default(),
            }))
        };
        let completions =
            [queue(options.request.send_completions), queue(options.request.receive_completions)];
        let [send_cq, recv_cq] = [&completions[0], &completions[1]].map(|queue| queue.get().cast());
        let object = ibv_qp {
            context,
            pd: domain.as_raw(),
            send_cq,
            recv_cq,
            handle: NO_HANDLE,
            qp_num: pair.number(),
            qp_type: match pair.transport() {
                Transport::Rc => ibv_qp_type::IBV_QPT_RC,
                Transport::Uc => ibv_qp_type::IBV_QPT_UC,
                Transport::Ud => ibv_qp_type::IBV_QPT_UD,
                Transport::Srd => ibv_qp_type::IBV_QPT_DRIVER,
            },
            ..ibv_qp::default()
        };
        let pair = Padded { object, _zeros: Default::default() };
        Self { pair: Box::new(UnsafeCell::new(pair)), completions }
    }
}

/// Destroys the queue pair with the engine's queues, before their memory.
#[derive(Debug)]
struct Resource {
    _pair: Arc<DevxPair<Borrowed>>,
    _stand_ins: StandIns,
}

/// The NIC needs no service.
#[derive(Debug)]
struct Nic {
    context: Context,
    pair: std::sync::Weak<DevxPair<Borrowed>>,
}

impl Backend for Nic {
    fn serve(&self) {}

    fn wake(&self) {}

    unsafe fn modify(
        &self,
        raw: *mut ibv_qp,
        attributes: *mut ibv_qp_attr,
        what: c_int,
    ) -> Result<(), CallError> {
        let pair = self.pair.upgrade();
        let pair = pair.ok_or(CallError::Gone { what: "queue pair" })?;
        // SAFETY: the caller's promise: a live stand-in.
        let state = unsafe { &raw mut (*raw).state };
        // SAFETY: as above.
        let (from, attributes) = unsafe { (state.read(), attributes.read()) };
        let changed = pair.change(from, &attributes, ibv_qp_attr_mask(what.cast_unsigned()));
        let to = changed.map_err(CallError::verbs("change the state"))?;
        // SAFETY: as above.
        unsafe { state.write(to) };
        Ok(())
    }

    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError> {
        // SAFETY: the caller's promise.
        unsafe { mlx5::address(&self.context, handle) }
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    static CREATED: AtomicU32 = AtomicU32::new(1);
    let context = domain.context();
    let devx = Devx::of(context).map_err(|source| CallError::NoDevx { source })?;
    let firmware = Firmware {
        devx,
        domain: domain.clone(),
        transport: options.verbs.transport,
        user_index: CREATED.fetch_add(1, Ordering::Relaxed) & 0xff_ffff,
    };
    let created = own::create(&firmware, allocator, &options.request);
    let (queues, pair) = created.map_err(CallError::engine("create queues in GPU memory"))?;
    let Queues { send, receive, send_completions, receive_completions } = queues;
    let pair = Arc::new(pair.borrow());
    let stand_ins = StandIns::new(domain, &pair, options);
    let raw = stand_ins.pair.get().cast();
    let [sent, received] = &stand_ins.completions;
    let completions = [sent.get().cast(), received.get().cast()];
    let backend = Nic { context: context.clone(), pair: Arc::downgrade(&pair) };
    let endpoint = Endpoint::new(0, pair.number());
    let resource = Resource { _pair: pair, _stand_ins: stand_ins };
    Ok(BackendPair {
        queues: QueuePair::new(
            send,
            receive,
            [send_completions, receive_completions],
            endpoint,
            Box::new(resource),
        ),
        backend: Box::new(backend),
        raw,
        completions,
    })
}
