//! `gds_create_qp`, `gds_destroy_qp`, `gds_modify_qp`.

use std::ffi::c_int;
use std::ptr::NonNull;

use engine::hca::Request;
use engine::queue::Waiting;
use engine::{Allocator, Pages};
use process::PerProcess;
use verbs::raw::{
    ibv_context, ibv_modify_qp, ibv_pd, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr,
    ibv_qp_state, ibv_qp_type,
};
use verbs::{Context, ProtectionDomain, QueuePairOptions, Transport};

use crate::abi::{self, Qp};
use crate::behind::{self, Wanted};
use crate::call_error::CallError;
use crate::log::{self, Level};
use crate::pair::{Limits, Pair};
use crate::{guard, pairs, stream};

/// Blocks and entries of a queue at most: an mlx5 counter has 16 bits.
const MOST_WORK: u32 = 1 << 15;
/// Segments of 16 bytes in an entry at most, its heading and the far address included.
const MOST_SEGMENTS: u32 = 63;
/// Of them those of a connection's entry that hold no data: heading, far address and what an atomic operation adds.
const BESIDES: u32 = 3;
/// Of a datagram's: heading, and an address of 48 bytes.
const BESIDES_OF_DATAGRAMS: u32 = 4;

/// Where queues lie: kept for later queue pairs.
static PAGES: PerProcess<Pages> = PerProcess::new(Pages::default);

/// Makes a queue pair of the protection domain, with two completion queues of its own, whose queues the GPU of the current context reaches.
/// It is in state RESET: the program changes its states with `gds_modify_qp`, or with `ibv_modify_qp` of `qp->qp`. `qp_init_attr`
/// tells afterwards what it holds, and its completion queues.
///
/// Returns NULL with `errno`: `EINVAL` for NULL, sizes that cannot be, a shared receive queue, no current CUDA context or one of a
/// device other than `gpu_id` where that is none; `EOPNOTSUPP` for datagrams (`IBV_QPT_UD`) where the device is no mlx5
/// NIC or `GDS_HCA=proxy` is set, for queues in GPU memory and for what is not there yet;
/// otherwise what verbs or CUDA refuse with.
///
/// # Safety
///
/// `pd` and `context` are NULL, or of an open device until the queue pair is destroyed; `qp_init_attr` is NULL or can be read and
/// written. Memory that its work names by keys stays until that work has ended. Nobody destroys `qp->qp` or its completion queues, or
/// polls those, but by this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_create_qp(
    pd: *mut ibv_pd,
    context: *mut ibv_context,
    qp_init_attr: *mut ibv_qp_init_attr,
    gpu_id: c_int,
    flags: c_int,
) -> *mut Qp {
    guard::made("gds_create_qp", || {
        location(flags)?;
        let named =
            |what, pointer: *mut ibv_context| NonNull::new(pointer).ok_or(CallError::Null { what });
        let (raw, domain) = (
            named("context", context)?,
            named("pd", pd.cast())?.cast::<ibv_pd>(),
        );
        let Some(attributes) = NonNull::new(qp_init_attr) else {
            return Err(CallError::Null {
                what: "qp_init_attr",
            });
        };
        for (what, address, alignment) in [
            ("context", context.addr(), align_of::<ibv_context>()),
            ("pd", pd.addr(), align_of::<ibv_pd>()),
            (
                "qp_init_attr",
                qp_init_attr.addr(),
                align_of::<ibv_qp_init_attr>(),
            ),
        ] {
            if !address.is_multiple_of(alignment) {
                return Err(CallError::Misaligned {
                    what,
                    address,
                    alignment,
                });
            }
        }
        // SAFETY: not NULL, aligned, and so the caller promises that it can be read.
        let given = unsafe { attributes.read() };
        let (wanted, limits) = wanted(&given)?;
        // SAFETY: as above, of a protection domain.
        if unsafe { (*domain.as_ptr()).context } != context {
            let what = "the protection domain";
            return Err(CallError::OtherDevice { what });
        }
        let allocator = Allocator::own_pages(gpu(gpu_id)?, PAGES.get());
        // SAFETY: the caller promises that the device stays open, and the domain there.
        let device = unsafe { Context::foreign(raw) }
            .map_err(CallError::verbs("use the program's device"))?;
        // SAFETY: as above.
        let domain = unsafe { ProtectionDomain::foreign(&device, domain) };
        // SAFETY: the caller's promise.
        let made = unsafe { behind::create(&domain, &allocator, &wanted) }?;
        let (number, [sent, received]) = (made.queues.endpoint.qpn, made.completions);
        // SAFETY: it was just made; this member is the program's alone.
        unsafe { (&raw mut (*made.raw).qp_context).write(given.qp_context) };
        let pair = Pair::new(pairs::number(), limits, made, context);
        let mut told = given;
        (told.send_cq, told.recv_cq) = (sent, received);
        (told.cap.max_send_wr, told.cap.max_recv_wr) = (limits.sends, limits.receives);
        (told.cap.max_send_sge, told.cap.max_recv_sge) =
            (limits.send_pieces, limits.receive_pieces);
        // SAFETY: as above; the caller promises that it can be written.
        unsafe { attributes.write(told) };
        let shown = pairs::add(pair);
        let words = format_args!("queue pair {number:#x} of {}: {shown:p}", device.name());
        log::say(Level::Debug, "gds_create_qp", words);
        Ok(shown)
    })
}

/// Destroys a queue pair and its completion queues. What is in progress is given up; streams that wait for its completions go on. Where
/// a stream may still ring the doorbell of an mlx5 NIC, that NIC's objects stay until the process ends, and `ibv_dealloc_pd` is refused
/// with `EBUSY`.
///
/// Returns 0, also for NULL, as libgdsync does; `EINVAL` for what is no queue pair, or no more.
///
/// # Safety
///
/// None: the pointer is looked up, and not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_destroy_qp(qp: *mut Qp) -> c_int {
    guard::call("gds_destroy_qp", || {
        if qp.is_null() {
            return Ok(());
        }
        match pairs::remove(qp)?.end() {
            true => Ok(()),
            false => Err(CallError::Gone { what: "queue pair" }),
        }
    })
}

/// As `ibv_modify_qp` of its verbs queue pair; what was posted or rung before goes to the device at once where the new state takes it.
///
/// Returns what `ibv_modify_qp` does; `EINVAL` for NULL and what is no queue pair; `EOPNOTSUPP` for the state RESET, which would not
/// empty the queues: destroy it, and make another.
///
/// # Safety
///
/// `attr` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_modify_qp(
    qp: *mut Qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    guard::call("gds_modify_qp", || {
        let pair = pairs::of(qp)?;
        if attr.is_null() {
            return Err(CallError::Null { what: "attr" });
        }
        if !attr.is_aligned() {
            let (address, alignment) = (attr.addr(), align_of::<ibv_qp_attr>());
            return Err(CallError::Misaligned {
                what: "attr",
                address,
                alignment,
            });
        }
        let changes_state = attr_mask & ibv_qp_attr_mask::IBV_QP_STATE.0.cast_signed() != 0;
        // SAFETY: not NULL, aligned, and so the caller promises that it can be read.
        if changes_state && unsafe { (*attr).qp_state } == ibv_qp_state::IBV_QPS_RESET {
            let (what, why) = ("the state RESET", "destroy the queue pair and make another");
            return Err(CallError::Unsupported { what, why });
        }
        // SAFETY: the queue pair is alive meanwhile, and the attributes are as above.
        match pair.with_raw(|raw| unsafe { ibv_modify_qp(raw, attr, attr_mask) })? {
            0 => pair.serve(),
            -1 => {
                return Err(CallError::Change {
                    source: std::io::Error::last_os_error(),
                });
            }
            errno => {
                return Err(CallError::Change {
                    source: std::io::Error::from_raw_os_error(errno),
                });
            }
        }
        Ok(())
    })
}

/// Queues lie in host memory alone.
fn location(flags: c_int) -> Result<(), CallError> {
    let allowed = abi::CREATE_WQ_ON_GPU
        | abi::CREATE_TX_CQ_ON_GPU
        | abi::CREATE_RX_CQ_ON_GPU
        | abi::CREATE_WQ_DBREC_ON_GPU;
    match flags {
        0 => Ok(()),
        flags if flags & !allowed != 0 => Err(CallError::Flags { flags, allowed }),
        _ => Err(CallError::Unsupported {
            what: "a queue in GPU memory",
            why: "flags are GDS_CREATE_QP_DEFAULT",
        }),
    }
}

/// The GPU of the current context. The queues are registered for all GPUs of the process, so another number is no obstacle.
fn gpu(gpu_id: c_int) -> Result<gpu::Gpu, CallError> {
    let current =
        gpu::Gpu::current().map_err(CallError::cuda("tell the GPU of the current context"))?;
    let ordinal = current.device().ordinal;
    match u32::try_from(gpu_id) {
        Ok(wanted) if wanted == ordinal => Ok(current),
        Ok(wanted)
            if gpu::devices()
                .is_ok_and(|devices| devices.iter().any(|device| device.ordinal == wanted)) =>
        {
            let words = format_args!(
                "GPU {gpu_id} is asked for, and the current context is of GPU {ordinal}: that is used"
            );
            log::say(Level::Warning, "gds_create_qp", words);
            Ok(current)
        }
        _ => Err(CallError::Bounds {
            what: "gpu_id",
            value: gpu_id.into(),
            bounds: "there is no such GPU",
        }),
    }
}

fn wanted(given: &ibv_qp_init_attr) -> Result<(Wanted, Limits), CallError> {
    if !given.srq.is_null() {
        let (what, why) = ("a shared receive queue", "each queue pair has its own");
        return Err(CallError::Unsupported { what, why });
    }
    let options = options(given)?;
    let segments = besides(options.transport)
        + options
            .send_pieces
            .max((4 + options.inline_bytes).div_ceil(16));
    let blocks = options
        .send_depth
        .saturating_mul(segments.div_ceil(4))
        .next_power_of_two();
    let request = Request {
        send_blocks: bounded(
            "max_send_wr",
            blocks,
            MOST_WORK,
            "so many requests of so many pieces take more than 32768 blocks of 64 bytes",
        )?,
        receives: options.receive_depth.next_power_of_two(),
        receive_segments: options.receive_pieces.next_power_of_two(),
        send_completions: options.send_depth.next_power_of_two(),
        receive_completions: options.receive_depth.next_power_of_two(),
        waiting: match stream::capabilities()?.nor {
            true => Waiting::Nor,
            false => Waiting::WithoutNor,
        },
        ..Request::default()
    };
    let wanted = Wanted { options, request };
    let limits = Limits {
        sends: options.send_depth,
        receives: options.receive_depth,
        send_pieces: options.send_pieces,
        receive_pieces: options.receive_pieces,
        inline: options.inline_bytes,
        signals_all: given.sq_sig_all != 0,
        transport: wanted.transport(),
    };
    Ok((wanted, limits))
}

/// The sizes that a program asks for, where a WQE and a queue hold as much.
fn options(given: &ibv_qp_init_attr) -> Result<QueuePairOptions, CallError> {
    let transport = match given.qp_type {
        ibv_qp_type::IBV_QPT_RC => Transport::Rc,
        ibv_qp_type::IBV_QPT_UC => Transport::Uc,
        ibv_qp_type::IBV_QPT_UD => Transport::Ud,
        other => {
            let of = "IBV_QPT_RC, IBV_QPT_UC and IBV_QPT_UD";
            return Err(CallError::Value {
                of,
                value: other.into(),
            });
        }
    };
    let (most_pieces, most_inline) = match transport {
        Transport::Ud => ("it is 59 at most", "it is 940 at most"),
        Transport::Rc | Transport::Uc => ("it is 60 at most", "it is 956 at most"),
    };
    let (cap, room) = (given.cap, MOST_SEGMENTS - besides(transport));
    let depth = |what, value| {
        Ok::<_, CallError>(bounded(what, value, MOST_WORK, "it is 32768 at most")?.max(1))
    };
    let receive_room = MOST_SEGMENTS - BESIDES;
    Ok(QueuePairOptions {
        transport,
        send_depth: depth("max_send_wr", cap.max_send_wr)?,
        receive_depth: depth("max_recv_wr", cap.max_recv_wr)?,
        send_pieces: bounded("max_send_sge", cap.max_send_sge, room, most_pieces)?.max(1),
        receive_pieces: bounded(
            "max_recv_sge",
            cap.max_recv_sge,
            receive_room,
            "it is 60 at most",
        )?
        .max(1),
        inline_bytes: bounded(
            "max_inline_data",
            cap.max_inline_data,
            room * 16 - 4,
            most_inline,
        )?,
    })
}

/// Segments of a WQE that hold no data.
fn besides(transport: Transport) -> u32 {
    match transport {
        Transport::Ud => BESIDES_OF_DATAGRAMS,
        Transport::Rc | Transport::Uc => BESIDES,
    }
}

fn bounded(
    what: &'static str,
    value: u32,
    most: u32,
    bounds: &'static str,
) -> Result<u32, CallError> {
    match value <= most {
        true => Ok(value),
        false => Err(CallError::Bounds {
            what,
            value: value.into(),
            bounds,
        }),
    }
}
