//! `gds_create_qp`, `gds_destroy_qp`, `gds_modify_qp`.

use std::ffi::c_int;

use engine::hca::Request;
use engine::queue::Waiting;
use engine::{Allocator, MemoryLocation, Pages, wire};
use gdr_sys::exports;
use gdr_sys::process::PerProcess;
use verbs::raw::{
    ibv_context, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state,
    ibv_qp_type,
};
use verbs::{Context, ProtectionDomain, QueuePairOptions, Transport};

use crate::abi::{self, Qp};
use crate::backend::{self, PairOptions};
use crate::call_error::CallError;
use crate::log::{self, Level};
use crate::pair::{Limits, ProgramQueuePair};
use crate::{flags, guard, mapped, pairs, stream};

/// Limit of blocks or WQEs per queue: an mlx5 counter has 16 bits.
const MAX_WORK: u32 = 1 << 15;
/// Limit of 16-byte segments per WQE.
const MAX_SEGMENTS: u32 = 63;
/// Segments without data in a connected WQE: control, remote address, atomic.
const OVERHEAD: u32 = 3;
/// Segments without data in a datagram WQE: control, and an address of 48 bytes.
const DATAGRAM_OVERHEAD: u32 = 4;

/// Memory of queues, reused by later queue pairs.
static PAGES: PerProcess<Pages> = PerProcess::new(Pages::default);

exports!(
    use guard::pointer;

    /// Creates a queue pair in the protection domain, with two completion queues, accessible to the GPU of the current context. Its
    /// state is RESET; the program changes it with `gds_modify_qp`, or with `ibv_modify_qp` on `qp->qp`. On return `qp_init_attr` holds
    /// the granted capabilities and the completion queues.
    ///
    /// Returns NULL with `errno`: `EINVAL` for NULL, invalid sizes, a shared receive queue, no current CUDA context, or an unknown
    /// `gpu_id`; `EOPNOTSUPP` for work queues in GPU memory without DEVX; otherwise the error of verbs or CUDA.
    ///
    /// # Safety
    ///
    /// `pd` and `context` are NULL, or of a device that stays open until the queue pair is destroyed; `qp_init_attr` is NULL or readable
    /// and writable. Memory named by keys in posted work stays registered until that work has completed. Only this library destroys `qp->qp`
    /// and its completion queues, and polls these.
    pub unsafe fn gds_create_qp(
        pd: *mut ibv_pd,
        context: *mut ibv_context,
        qp_init_attr: *mut ibv_qp_init_attr,
        gpu_id: c_int,
        flags: c_int,
    ) -> *mut Qp {
        let locations = Locations::of(flags)?;
        let raw = flags::aligned("context", context)?;
        let domain = flags::aligned("pd", pd)?;
        let attributes = flags::aligned("qp_init_attr", qp_init_attr)?;
        // SAFETY: not NULL and aligned; the caller promises that it is readable.
        let given = unsafe { attributes.read() };
        let (options, limits) = pair_options(&given, locations)?;
        // SAFETY: not NULL and aligned; the caller promises a live protection domain.
        if unsafe { (*domain.as_ptr()).context } != context {
            let what = "the protection domain";
            return Err(CallError::OtherDevice { what });
        }
        let gdr = match flags {
            0 => None,
            _ => mapped::gdr().map_or_else(
                |error| {
                    let text = format_args!("{}", gpu::sentence(&error));
                    log::write(Level::Warning, "gds_create_qp", text);
                    None
                },
                Some,
            ),
        };
        let allocator = Allocator::own_pages(gpu(gpu_id)?, gdr, PAGES.get());
        // SAFETY: the caller promises that the device stays open.
        let device = unsafe { Context::foreign(raw) }
            .map_err(CallError::verbs("use the program's device"))?;
        // SAFETY: the caller promises that the domain stays allocated.
        let domain = unsafe { ProtectionDomain::foreign(&device, domain) };
        // SAFETY: the caller's promise.
        let created = unsafe { backend::create(&domain, &allocator, &options) }?;
        let (number, [sent, received]) = (created.queues.endpoint.qpn, created.completions);
        // SAFETY: the queue pair is live, and only the program uses this member.
        unsafe { (&raw mut (*created.raw).qp_context).write(given.qp_context) };
        let pair = ProgramQueuePair::new(pairs::next_id(), limits, created, context);
        let mut granted = given;
        (granted.send_cq, granted.recv_cq) = (sent, received);
        (granted.cap.max_send_wr, granted.cap.max_recv_wr) = (limits.sends, limits.receives);
        (granted.cap.max_send_sge, granted.cap.max_recv_sge) =
            (limits.send_sges, limits.receive_sges);
        // SAFETY: not NULL and aligned; the caller promises that it is writable.
        unsafe { attributes.write(granted) };
        let qp = pairs::add(pair);
        let text = format_args!("queue pair {number:#x} of {}: {qp:p}", device.name());
        log::write(Level::Debug, "gds_create_qp", text);
        Ok(qp)
    }
);

exports!(
    use guard::call;

    /// Destroys a queue pair and its completion queues. Flushes work in progress and releases streams that wait for completions. If a
    /// stream may still ring the doorbell of an mlx5 NIC, the verbs objects stay until the process ends, and `ibv_dealloc_pd` fails with
    /// `EBUSY`.
    ///
    /// Returns 0, also for NULL, as libgdsync does; `EINVAL` for an unknown or destroyed queue pair.
    ///
    /// # Safety
    ///
    /// None: the pointer is looked up, not dereferenced.
    pub unsafe fn gds_destroy_qp(qp: *mut Qp) -> c_int {
        if qp.is_null() {
            return Ok(());
        }
        if pairs::remove(qp)?.end() { Ok(()) } else { Err(CallError::Gone { what: "queue pair" }) }
    }

    /// Calls `ibv_modify_qp` on the verbs queue pair. Work posted before goes to the device at once if the new state accepts it.
    ///
    /// Returns the result of `ibv_modify_qp`; `EINVAL` for NULL and unknown queue pairs; `EOPNOTSUPP` for the state RESET, which would not
    /// empty the queues: create another queue pair instead.
    ///
    /// # Safety
    ///
    /// `attr` is NULL or readable.
    pub unsafe fn gds_modify_qp(qp: *mut Qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        unsafe { modify(&pair, attr, attr_mask) }
    }
);

exports!(
    use guard::number;

    /// [`gds_modify_qp`] for the verbs queue pair of a queue pair. The compatibility header's `ibv_modify_qp` calls it.
    ///
    /// Returns as `gds_modify_qp`; `-ENOENT`, without a message, for other queue pairs.
    ///
    /// # Safety
    ///
    /// As [`gds_modify_qp`].
    pub unsafe fn gds_modify_verbs_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: c_int,
    ) -> c_int {
        let Some(pair) = pairs::of_verbs_pair(qp) else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: the caller's promise.
        unsafe { modify(&pair, attr, attr_mask) }?;
        Ok(0)
    }
);

/// # Safety
///
/// As [`gds_modify_qp`].
unsafe fn modify(
    pair: &ProgramQueuePair,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> Result<(), CallError> {
    flags::check("attr", attr)?;
    let changes_state = attr_mask & ibv_qp_attr_mask::IBV_QP_STATE.0.cast_signed() != 0;
    // SAFETY: not NULL and aligned; the caller promises that it is readable.
    if changes_state && unsafe { (*attr).qp_state } == ibv_qp_state::IBV_QPS_RESET {
        let (what, why) = ("the state RESET", "destroy the queue pair and create another");
        return Err(CallError::Unsupported { what, why });
    }
    // SAFETY: the queue pair is live during the call, and the attributes are readable.
    unsafe { pair.modify(attr, attr_mask) }?;
    pair.serve();
    Ok(())
}

/// The memory of a queue pair's parts, from `enum gds_create_qp_flags`.
#[derive(Debug, Clone, Copy)]
struct Locations {
    queues: MemoryLocation,
    records: MemoryLocation,
    completions: [MemoryLocation; 2],
}

impl Locations {
    fn of(flags: c_int) -> Result<Self, CallError> {
        let allowed = abi::CREATE_WQ_ON_GPU
            | abi::CREATE_TX_CQ_ON_GPU
            | abi::CREATE_RX_CQ_ON_GPU
            | abi::CREATE_WQ_DBREC_ON_GPU;
        if flags & !allowed != 0 {
            return Err(CallError::Flags { flags, allowed });
        }
        let location = |flag| match flags & flag {
            0 => MemoryLocation::Host,
            _ => MemoryLocation::Gpu,
        };
        Ok(Self {
            queues: location(abi::CREATE_WQ_ON_GPU),
            records: location(abi::CREATE_WQ_DBREC_ON_GPU),
            completions: [abi::CREATE_TX_CQ_ON_GPU, abi::CREATE_RX_CQ_ON_GPU].map(location),
        })
    }
}

/// The GPU of the current context. Another valid `gpu_id` works too, because queues are registered for all GPUs.
fn gpu(gpu_id: c_int) -> Result<gpu::Gpu, CallError> {
    let current =
        gpu::Gpu::current().map_err(CallError::cuda("find the GPU of the current context"))?;
    let ordinal = current.device().ordinal;
    match u32::try_from(gpu_id) {
        Ok(requested) if requested == ordinal => Ok(current),
        Ok(requested)
            if gpu::devices()
                .is_ok_and(|devices| devices.iter().any(|device| device.ordinal == requested)) =>
        {
            let text = format_args!(
                "GPU {gpu_id} was requested, but the current context is on GPU {ordinal}; using GPU {ordinal}"
            );
            log::write(Level::Warning, "gds_create_qp", text);
            Ok(current)
        }
        _ => Err(CallError::Bounds { what: "gpu_id", value: gpu_id.into(), bounds: "no such GPU" }),
    }
}

fn pair_options(
    given: &ibv_qp_init_attr,
    locations: Locations,
) -> Result<(PairOptions, Limits), CallError> {
    if !given.srq.is_null() {
        let (what, why) = ("a shared receive queue", "each queue pair has its own");
        return Err(CallError::Unsupported { what, why });
    }
    let verbs = verbs_options(given)?;
    let segments =
        overhead(verbs.transport) + verbs.send_sges.max((4 + verbs.inline_bytes).div_ceil(16));
    let blocks = verbs.send_depth.saturating_mul(segments.div_ceil(4)).next_power_of_two();
    let request = Request {
        send_blocks: bounded(
            "max_send_wr",
            blocks,
            MAX_WORK,
            "the send queue would exceed 32768 blocks of 64 bytes; reduce requests, SGEs or inline data",
        )?,
        receives: verbs.receive_depth.next_power_of_two(),
        receive_segments: verbs.receive_sges.next_power_of_two(),
        send_completions: verbs.send_depth.next_power_of_two(),
        receive_completions: verbs.receive_depth.next_power_of_two(),
        waiting: if stream::capabilities()?.nor { Waiting::Nor } else { Waiting::WithoutNor },
        transport: if verbs.transport.is_datagram() {
            wire::Transport::Datagram
        } else {
            wire::Transport::Connected
        },
        queues: locations.queues,
        records: locations.records,
        completions: locations.completions,
        ..Request::default()
    };
    let options = PairOptions { verbs, request };
    let limits = Limits {
        sends: verbs.send_depth,
        receives: verbs.receive_depth,
        send_sges: verbs.send_sges,
        receive_sges: verbs.receive_sges,
        inline: verbs.inline_bytes,
        signals_all: given.sq_sig_all != 0,
        transport: request.transport,
    };
    Ok((options, limits))
}

/// The requested sizes, checked against the limits of WQEs and queues.
fn verbs_options(given: &ibv_qp_init_attr) -> Result<QueuePairOptions, CallError> {
    let transport = match given.qp_type {
        ibv_qp_type::IBV_QPT_RC => Transport::Rc,
        ibv_qp_type::IBV_QPT_UC => Transport::Uc,
        ibv_qp_type::IBV_QPT_UD => Transport::Ud,
        other => {
            let of = "qp_type (IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD)";
            return Err(CallError::Value { of, value: other.into() });
        }
    };
    let (max_sges, max_inline) = if transport.is_datagram() {
        ("the maximum is 59", "the maximum is 940")
    } else {
        ("the maximum is 60", "the maximum is 956")
    };
    let (cap, room) = (given.cap, MAX_SEGMENTS - overhead(transport));
    let depth = |what, value| {
        Ok::<_, CallError>(bounded(what, value, MAX_WORK, "the maximum is 32768")?.max(1))
    };
    let receive_room = MAX_SEGMENTS - OVERHEAD;
    Ok(QueuePairOptions {
        transport,
        send_depth: depth("max_send_wr", cap.max_send_wr)?,
        receive_depth: depth("max_recv_wr", cap.max_recv_wr)?,
        send_sges: bounded("max_send_sge", cap.max_send_sge, room, max_sges)?.max(1),
        receive_sges: bounded("max_recv_sge", cap.max_recv_sge, receive_room, "the maximum is 60")?
            .max(1),
        inline_bytes: bounded("max_inline_data", cap.max_inline_data, room * 16 - 4, max_inline)?,
    })
}

/// Segments of a WQE without data.
fn overhead(transport: Transport) -> u32 {
    if transport.is_datagram() { DATAGRAM_OVERHEAD } else { OVERHEAD }
}

fn bounded(
    what: &'static str,
    value: u32,
    most: u32,
    bounds: &'static str,
) -> Result<u32, CallError> {
    if value <= most {
        Ok(value)
    } else {
        Err(CallError::Bounds { what, value: value.into(), bounds })
    }
}
