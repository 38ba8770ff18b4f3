//! A program's work requests, `struct ibv_send_wr` and `struct ibv_recv_wr`, made into entries. Lists are followed as far as a queue is long.

use std::ptr::NonNull;

use engine::wire::{
    DataSegment, Datagram, Fence, Flags, Operation, Payload, RemoteAddress, Transport, Wqe,
};
use gpu::DevicePtr;
use gpu::pointer::{self, MemoryKind};
use verbs::raw::{
    ibv_ah, ibv_recv_wr, ibv_send_flags as flag, ibv_send_wr, ibv_sge, ibv_wr_opcode as opcode,
};

use crate::call_error::CallError;
use crate::pair::{Limits, Pair};

/// A list as far as it was read, and the request that cannot be one with the reason, if there is one.
pub(crate) struct Read<T, W> {
    pub(crate) entries: Vec<(u64, T)>,
    pub(crate) requests: Vec<*mut W>,
    pub(crate) refused: Option<CallError>,
}

impl<T, W> Read<T, W> {
    /// Whom `bad_wr` names where the request of this place failed.
    pub(crate) fn at(&self, position: usize) -> *mut W {
        self.requests
            .get(position)
            .copied()
            .unwrap_or(std::ptr::null_mut())
    }
}

/// Reads a list of sends: no more of it than the queue pair holds, and one.
///
/// # Safety
///
/// `first` is NULL or leads to a list as `ibv_post_send` takes it; what is inline can be read, and address handles are alive.
pub(crate) unsafe fn sends(first: *mut ibv_send_wr, pair: &Pair) -> Read<Wqe, ibv_send_wr> {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        list(
            first,
            pair.limits.sends,
            |wr| (wr.wr_id, wr.next),
            |wr| send(wr, pair),
        )
    }
}

/// Reads a list of receives, likewise.
///
/// # Safety
///
/// `first` is NULL or leads to a list as `ibv_post_recv` takes it.
pub(crate) unsafe fn receives(
    first: *mut ibv_recv_wr,
    limits: &Limits,
) -> Read<Vec<DataSegment>, ibv_recv_wr> {
    let one = |wr: &ibv_recv_wr| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { pieces(wr.sg_list, wr.num_sge, limits.receive_pieces) }?;
        Ok(pieces.iter().map(segment).collect())
    };
    // SAFETY: as above.
    unsafe { list(first, limits.receives, |wr| (wr.wr_id, wr.next), one) }
}

/// # Safety
///
/// `first` and what `next` gives are NULL or can be read.
unsafe fn list<T, W>(
    first: *mut W,
    most: u32,
    next: impl Fn(&W) -> (u64, *mut W),
    one: impl Fn(&W) -> Result<T, CallError>,
) -> Read<T, W> {
    let mut read = Read {
        entries: Vec::new(),
        requests: Vec::new(),
        refused: None,
    };
    if first.is_null() {
        read.refused = Some(CallError::Null { what: "wr" });
    }
    let mut at = first;
    while !at.is_null() && read.refused.is_none() && read.entries.len() <= most as usize {
        read.requests.push(at);
        if !at.is_aligned() {
            let (what, alignment) = ("wr", align_of::<W>());
            read.refused = Some(CallError::Misaligned {
                what,
                address: at.addr(),
                alignment,
            });
            break;
        }
        // SAFETY: not NULL and aligned, and so the caller promises that it can be read.
        let wr = unsafe { &*at };
        let (wr_id, following) = next(wr);
        match one(wr) {
            Ok(made) => read.entries.push((wr_id, made)),
            Err(call_error) => read.refused = Some(call_error),
        }
        at = following;
    }
    read
}

const KNOWN: u32 = flag::IBV_SEND_FENCE.0
    | flag::IBV_SEND_SIGNALED.0
    | flag::IBV_SEND_SOLICITED.0
    | flag::IBV_SEND_INLINE.0;

fn send(wr: &ibv_send_wr, pair: &Pair) -> Result<Wqe, CallError> {
    let limits = &pair.limits;
    let flags = wr.send_flags;
    if flags & !KNOWN != 0 {
        return Err(CallError::Value {
            of: "the flags of a send (fence, signaled, solicited, inline)",
            value: flags.into(),
        });
    }
    // SAFETY: whoever posts a list promises that its pieces can be read.
    let given = unsafe { pieces(wr.sg_list, wr.num_sge, limits.send_pieces) }?;
    let operation = operation(wr)?;
    let datagram = match limits.transport {
        Transport::Connected => None,
        Transport::Datagram if !matches!(operation, Operation::Send { .. }) => {
            return Err(CallError::Value {
                of: "the opcodes of datagrams (IBV_WR_SEND, IBV_WR_SEND_WITH_IMM)",
                value: wr.opcode.into(),
            });
        }
        Transport::Datagram => Some(datagram(wr, pair)?),
    };
    let brings = matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    );
    let payload = match flags & flag::IBV_SEND_INLINE.0 != 0 {
        true if brings => {
            let (what, why) = ("inline data", "what is brought here has its own memory");
            return Err(CallError::Unsupported { what, why });
        }
        true => Payload::Inline(inline(given, limits.inline)?),
        false => Payload::Segments(given.iter().map(segment).collect()),
    };
    Ok(Wqe {
        operation,
        flags: Flags {
            signalled: limits.signals_all || flags & flag::IBV_SEND_SIGNALED.0 != 0,
            solicited: flags & flag::IBV_SEND_SOLICITED.0 != 0,
            // As rdma-core's mlx5 has it.
            fence: match flags & flag::IBV_SEND_FENCE.0 != 0 {
                true => Fence::SmallAndReads,
                false => Fence::None,
            },
        },
        datagram,
        payload,
    })
}

/// Whom it is for: `wr.ud`.
fn datagram(wr: &ibv_send_wr, pair: &Pair) -> Result<Datagram, CallError> {
    // SAFETY: any bytes are numbers and a pointer, and on this queue pair it is the member that is meant.
    let to = unsafe { wr.wr.ud };
    let what = "wr.ud.ah";
    let handle = NonNull::new(to.ah).ok_or(CallError::Null { what })?;
    if !handle.is_aligned() {
        let (address, alignment) = (to.ah.addr(), align_of::<ibv_ah>());
        return Err(CallError::Misaligned {
            what,
            address,
            alignment,
        });
    }
    Ok(Datagram {
        qpn: to.remote_qpn,
        key: to.remote_qkey,
        // SAFETY: whoever posts a list promises that it is an address handle of the device, and alive.
        path: unsafe { pair.address(handle) }?,
    })
}

fn operation(wr: &ibv_send_wr) -> Result<Operation, CallError> {
    let immediate = || Some(u32::from_be(wr.__bindgen_anon_1.imm_data));
    let remote = || {
        // SAFETY: any bytes are numbers, and the opcode says which member it is.
        let rdma = unsafe { wr.wr.rdma };
        RemoteAddress {
            address: rdma.remote_addr,
            key: rdma.rkey,
        }
    };
    let atomic = || {
        // SAFETY: as above.
        let atomic = unsafe { wr.wr.atomic };
        let remote = RemoteAddress {
            address: atomic.remote_addr,
            key: atomic.rkey,
        };
        (remote, atomic.compare_add, atomic.swap)
    };
    Ok(match wr.opcode {
        opcode::IBV_WR_SEND => Operation::Send { immediate: None },
        opcode::IBV_WR_SEND_WITH_IMM => Operation::Send {
            immediate: immediate(),
        },
        opcode::IBV_WR_RDMA_WRITE => Operation::Write {
            remote: remote(),
            immediate: None,
        },
        opcode::IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
            remote: remote(),
            immediate: immediate(),
        },
        opcode::IBV_WR_RDMA_READ => Operation::Read { remote: remote() },
        opcode::IBV_WR_ATOMIC_CMP_AND_SWP => {
            let (remote, compare, swap) = atomic();
            Operation::CompareSwap {
                remote,
                compare,
                swap,
            }
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
            let (what, why) = (
                "this opcode",
                "sends, writes, reads and atomic operations are",
            );
            return Err(CallError::Unsupported { what, why });
        }
        other => {
            let of = "enum ibv_wr_opcode";
            return Err(CallError::Value {
                of,
                value: other.into(),
            });
        }
    })
}

/// # Safety
///
/// `list` is NULL or has `count` pieces.
unsafe fn pieces<'a>(
    list: *const ibv_sge,
    count: i32,
    most: u32,
) -> Result<&'a [ibv_sge], CallError> {
    let known = u32::try_from(count).ok().filter(|&count| count <= most);
    let Some(known) = known else {
        return Err(CallError::Bounds {
            what: "num_sge",
            value: count.into(),
            bounds: "it is between 0 and what the queue pair was made for",
        });
    };
    if known == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(CallError::Null { what: "sg_list" });
    }
    if !list.is_aligned() {
        return Err(CallError::Misaligned {
            what: "sg_list",
            address: list.addr(),
            alignment: align_of::<ibv_sge>(),
        });
    }
    // SAFETY: not NULL, aligned, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, known as usize) })
}

fn segment(piece: &ibv_sge) -> DataSegment {
    DataSegment {
        length: piece.length,
        key: piece.lkey,
        address: piece.addr,
    }
}

/// The bytes themselves, which the CPU takes along.
fn inline(pieces: &[ibv_sge], most: u32) -> Result<Vec<u8>, CallError> {
    let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    if bytes > most.into() {
        return Err(CallError::Bounds {
            what: "inline data of a send, in bytes,",
            value: i64::try_from(bytes).unwrap_or(i64::MAX),
            bounds: "the queue pair was made for fewer (max_inline_data)",
        });
    }
    let mut taken = Vec::with_capacity(bytes as usize);
    for piece in pieces.iter().filter(|piece| piece.length != 0) {
        let address = piece.addr as usize;
        if address == 0 {
            return Err(CallError::Null {
                what: "addr of inline data",
            });
        }
        let is_device = pointer::describe(DevicePtr::new(piece.addr))
            .is_ok_and(|known| known.kind == MemoryKind::Device);
        if is_device {
            return Err(CallError::Unreachable { address });
        }
        let start = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the CPU's own memory, and whoever posts inline data promises that it can be read.
        taken
            .extend_from_slice(unsafe { std::slice::from_raw_parts(start, piece.length as usize) });
    }
    Ok(taken)
}
