//! Converts work requests, `struct ibv_send_wr` and `struct ibv_recv_wr`, to WQEs. Reads lists only up to the queue's depth.

use engine::wire::{
    DataSegment, Datagram, Fence, Flags, Operation, Payload, RemoteAddress, Transport, Wqe,
};
use gpu::DevicePtr;
use gpu::pointer::{self, MemoryKind};
use verbs::raw::{
    ibv_recv_wr, ibv_send_flags as flag, ibv_send_wr, ibv_sge, ibv_wr_opcode as opcode,
};

use crate::call_error::CallError;
use crate::flags;
use crate::pair::{Limits, ProgramQueuePair};

/// A list of work requests up to the first invalid one, and its error.
pub(crate) struct WorkList<T, W> {
    pub(crate) entries: Vec<(u64, T)>,
    pub(crate) requests: Vec<*mut W>,
    pub(crate) error: Option<CallError>,
}

impl<T, W> WorkList<T, W> {
    /// The work request at a position, for `bad_wr`; NULL after the end.
    pub(crate) fn at(&self, position: usize) -> *mut W {
        self.requests.get(position).copied().unwrap_or(std::ptr::null_mut())
    }
}

/// Reads a list of sends, at most one more than the queue's depth.
///
/// # Safety
///
/// `first` is NULL or a valid list for `ibv_post_send`; inline data is readable, and address handles are live.
pub(crate) unsafe fn sends(
    first: *mut ibv_send_wr,
    pair: &ProgramQueuePair,
) -> WorkList<Wqe, ibv_send_wr> {
    // SAFETY: the caller's promise.
    unsafe { list(first, pair.limits.sends, |wr| (wr.wr_id, wr.next), |wr| send(wr, pair)) }
}

/// Reads a list of receives, at most one more than the queue's depth.
///
/// # Safety
///
/// `first` is NULL or a valid list for `ibv_post_recv`.
pub(crate) unsafe fn receives(
    first: *mut ibv_recv_wr,
    limits: &Limits,
) -> WorkList<Vec<DataSegment>, ibv_recv_wr> {
    let one = |wr: &ibv_recv_wr| {
        // SAFETY: the caller's promise.
        let sges = unsafe { sges(wr.sg_list, wr.num_sge, limits.receive_sges) }?;
        Ok(sges.iter().map(segment).collect())
    };
    // SAFETY: as above.
    unsafe { list(first, limits.receives, |wr| (wr.wr_id, wr.next), one) }
}

/// # Safety
///
/// `first` and the results of `next` are NULL or readable.
unsafe fn list<T, W>(
    first: *mut W,
    most: u32,
    next: impl Fn(&W) -> (u64, *mut W),
    one: impl Fn(&W) -> Result<T, CallError>,
) -> WorkList<T, W> {
    let mut read = WorkList { entries: Vec::new(), requests: Vec::new(), error: None };
    if first.is_null() {
        read.error = Some(CallError::Null { what: "wr" });
    }
    let mut at = first;
    while !at.is_null() && read.error.is_none() && read.entries.len() <= most as usize {
        read.requests.push(at);
        if let Err(call_error) = flags::check("wr", at) {
            read.error = Some(call_error);
            break;
        }
        // SAFETY: not NULL and aligned; the caller promises that it is readable.
        let wr = unsafe { &*at };
        let (wr_id, following) = next(wr);
        match one(wr) {
            Ok(made) => read.entries.push((wr_id, made)),
            Err(call_error) => read.error = Some(call_error),
        }
        at = following;
    }
    read
}

const KNOWN: u32 = flag::IBV_SEND_FENCE.0
    | flag::IBV_SEND_SIGNALED.0
    | flag::IBV_SEND_SOLICITED.0
    | flag::IBV_SEND_INLINE.0;

fn send(wr: &ibv_send_wr, pair: &ProgramQueuePair) -> Result<Wqe, CallError> {
    let limits = &pair.limits;
    let flags = wr.send_flags;
    if flags & !KNOWN != 0 {
        return Err(CallError::Value {
            of: "send_flags (fence, signaled, solicited and inline are supported)",
            value: flags.into(),
        });
    }
    // SAFETY: the caller of the C function promises readable SGEs.
    let given = unsafe { sges(wr.sg_list, wr.num_sge, limits.send_sges) }?;
    let operation = operation(wr)?;
    let datagram = match limits.transport {
        Transport::Connected => None,
        Transport::Datagram if !matches!(operation, Operation::Send { .. }) => {
            return Err(CallError::Value {
                of: "opcode of a datagram (IBV_WR_SEND and IBV_WR_SEND_WITH_IMM are supported)",
                value: wr.opcode.into(),
            });
        }
        Transport::Datagram => Some(datagram(wr, pair)?),
    };
    let brings = matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    );
    let is_inline = flags & flag::IBV_SEND_INLINE.0 != 0;
    if is_inline && brings {
        let (what, why) = ("inline data", "the operation writes to local memory");
        return Err(CallError::Unsupported { what, why });
    }
    let payload = if is_inline {
        Payload::Inline(inline(given, limits.inline)?)
    } else {
        Payload::Segments(given.iter().map(segment).collect())
    };
    Ok(Wqe {
        operation,
        flags: Flags {
            signalled: limits.signals_all || flags & flag::IBV_SEND_SIGNALED.0 != 0,
            solicited: flags & flag::IBV_SEND_SOLICITED.0 != 0,
            // As in rdma-core's mlx5 provider.
            fence: if flags & flag::IBV_SEND_FENCE.0 != 0 {
                Fence::SmallAndReads
            } else {
                Fence::None
            },
        },
        datagram,
        payload,
    })
}

/// The destination, from `wr.ud`.
fn datagram(wr: &ibv_send_wr, pair: &ProgramQueuePair) -> Result<Datagram, CallError> {
    // SAFETY: any bytes are valid for this member's integers and pointer; on a datagram queue pair it is the one in use.
    let to = unsafe { wr.wr.ud };
    let handle = flags::aligned("wr.ud.ah", to.ah)?;
    Ok(Datagram {
        qpn: to.remote_qpn,
        key: to.remote_qkey,
        // SAFETY: the caller of the C function promises a live address handle of the device.
        path: unsafe { pair.address(handle) }?,
    })
}

fn operation(wr: &ibv_send_wr) -> Result<Operation, CallError> {
    let immediate = || Some(u32::from_be(wr.__bindgen_anon_1.imm_data));
    let remote = || {
        // SAFETY: any bytes are valid integers, and the opcode selects this member.
        let rdma = unsafe { wr.wr.rdma };
        RemoteAddress { address: rdma.remote_addr, key: rdma.rkey }
    };
    let atomic = || {
        // SAFETY: as above.
        let atomic = unsafe { wr.wr.atomic };
        let remote = RemoteAddress { address: atomic.remote_addr, key: atomic.rkey };
        (remote, atomic.compare_add, atomic.swap)
    };
    Ok(match wr.opcode {
        opcode::IBV_WR_SEND => Operation::Send { immediate: None },
        opcode::IBV_WR_SEND_WITH_IMM => Operation::Send { immediate: immediate() },
        opcode::IBV_WR_RDMA_WRITE => Operation::Write { remote: remote(), immediate: None },
        opcode::IBV_WR_RDMA_WRITE_WITH_IMM => {
            Operation::Write { remote: remote(), immediate: immediate() }
        }
        opcode::IBV_WR_RDMA_READ => Operation::Read { remote: remote() },
        opcode::IBV_WR_ATOMIC_CMP_AND_SWP => {
            let (remote, compare, swap) = atomic();
            Operation::CompareSwap { remote, compare, swap }
        }
        opcode::IBV_WR_ATOMIC_FETCH_AND_ADD => {
            let (remote, add, _) = atomic();
            Operation::FetchAdd { remote, add }
        }
        opcode::IBV_WR_LOCAL_INV
        | opcode::IBV_WR_BIND_MW
        | opcode::IBV_WR_SEND_WITH_INV
        | opcode::IBV_WR_TSO
        | opcode::IBV_WR_DRIVER1 => {
            let (what, why) = ("this opcode", "sends, writes, reads and atomics are supported");
            return Err(CallError::Unsupported { what, why });
        }
        other => {
            let of = "enum ibv_wr_opcode";
            return Err(CallError::Value { of, value: other.into() });
        }
    })
}

/// # Safety
///
/// `list` is NULL or has `count` SGEs.
unsafe fn sges<'a>(
    list: *const ibv_sge,
    count: i32,
    most: u32,
) -> Result<&'a [ibv_sge], CallError> {
    let known = u32::try_from(count).ok().filter(|&count| count <= most);
    let Some(known) = known else {
        return Err(CallError::Bounds {
            what: "num_sge",
            value: count.into(),
            bounds: "it must be 0 to the queue pair's max_send_sge or max_recv_sge",
        });
    };
    if known == 0 {
        return Ok(&[]);
    }
    flags::check("sg_list", list)?;
    // SAFETY: not NULL and aligned; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, known as usize) })
}

fn segment(sge: &ibv_sge) -> DataSegment {
    DataSegment { length: sge.length, key: sge.lkey, address: sge.addr }
}

/// Copies inline data.
fn inline(sges: &[ibv_sge], most: u32) -> Result<Vec<u8>, CallError> {
    let bytes: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    if bytes > most.into() {
        return Err(CallError::Bounds {
            what: "length of inline data",
            value: i64::try_from(bytes).unwrap_or(i64::MAX),
            bounds: "it exceeds the queue pair's max_inline_data",
        });
    }
    let mut taken = Vec::with_capacity(bytes as usize);
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        let address = sge.addr as usize;
        if address == 0 {
            return Err(CallError::Null { what: "addr of inline data" });
        }
        let is_device = pointer::describe(DevicePtr::new(sge.addr))
            .is_ok_and(|known| known.kind == MemoryKind::Device);
        if is_device {
            return Err(CallError::Unreachable { address });
        }
        let start = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: not device memory; the caller of the C function promises that it is readable.
        taken.extend_from_slice(unsafe { std::slice::from_raw_parts(start, sge.length as usize) });
    }
    Ok(taken)
}
