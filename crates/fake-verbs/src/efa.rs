//! EFA devices (`efa` in the machine file): `efadv.h`, and the functions by which an SRD queue pair posts. As rdma-core's provider does, it
//! refuses unsignalled requests, inline data of reads and writes, and flags that it does not know; completions come in no order. A test
//! that wants them gives this library a second name, `libefa.so.1`, by a hard link.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use ibverbs_sys::{
    EFADV_DEVICE_ATTR_CAPS_RDMA_READ, EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE,
    EFADV_DEVICE_ATTR_CAPS_RNR_RETRY, EFADV_QP_DRIVER_TYPE_SRD, IBV_QP_EX_WITH_RDMA_READ,
    IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_SEND,
    IBV_QP_EX_WITH_SEND_WITH_IMM, efadv_device_attr, efadv_qp_init_attr, ibv_ah, ibv_context,
    ibv_qp, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_init_attr_mask as valid,
    ibv_qp_state, ibv_qp_type, ibv_send_flags, ibv_sge, ibv_wr_opcode,
};

use crate::answer::{Errno, infallible, pointer_or_null, status};
use crate::machine::{efa, efa_has, efa_number};
use crate::objects::{Objects, Sge, objects};
use crate::post::sges;
use crate::route::Destination;
use crate::transport::{Target, Work, name_of};

/// SGEs of a request: the numbers of the first EFA devices.
const MAX_SGES: u32 = 2;
/// Length of `struct efadv_device_attr` before `device_caps`: what rdma-core 26 had.
const FIRST_LENGTH: usize = offset_of!(efadv_device_attr, device_caps);

/// A request that is being built.
pub struct Draft {
    wr_id: u64,
    flags: u32,
    opcode: u32,
    immediate: u32,
    remote: (u64, u32),
    sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    destination: Option<Destination>,
}

/// # Safety
///
/// `out` is null or valid for a write of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn efadv_query_device(
    context: *mut ibv_context,
    out: *mut efadv_device_attr,
    length: u32,
) -> c_int {
    status("efadv_query_device", || {
        let device = objects().context(context)?.device;
        if efa(device).is_null() {
            return Err(libc::EOPNOTSUPP);
        }
        if (length as usize) < FIRST_LENGTH {
            return Err(libc::EINVAL);
        }
        let number = |key: &str, default| efa_number(device, key, default);
        let mut all = efadv_device_attr {
            max_sq_wr: number("max_sq_wr", 4096),
            max_rq_wr: number("max_rq_wr", 32768),
            max_sq_sge: MAX_SGES as u16,
            max_rq_sge: MAX_SGES as u16,
            inline_buf_size: number("inline_buf_size", 32) as u16,
            ..efadv_device_attr::default()
        };
        let knows_rdma = efa(device)["old_library"] != true;
        if knows_rdma && length as usize >= size_of::<efadv_device_attr>() {
            all.max_rdma_size = number("max_rdma_size", 1 << 30);
            for (ability, bit) in [
                ("read", EFADV_DEVICE_ATTR_CAPS_RDMA_READ),
                ("write", EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE),
                ("rnr_retry", EFADV_DEVICE_ATTR_CAPS_RNR_RETRY),
            ] {
                if efa_has(device, ability) {
                    all.device_caps |= bit;
                }
            }
        }
        // SAFETY: the caller's guarantee: as much as both know.
        unsafe {
            let known = size_of::<efadv_device_attr>().min(length as usize);
            let from: *const efadv_device_attr = &raw const all;
            from.cast::<u8>().copy_to(out.cast(), known);
        }
        Ok(())
    })
}

/// # Safety
///
/// Both structures are null or valid, the second one for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn efadv_create_qp_ex(
    context: *mut ibv_context,
    wanted: *mut ibv_qp_init_attr_ex,
    of_efa: *mut efadv_qp_init_attr,
    length: u32,
) -> *mut ibv_qp {
    pointer_or_null("efadv_create_qp_ex", || {
        let mut objects = objects();
        let device = objects.context(context)?.device;
        if efa(device).is_null() {
            return Err(libc::EOPNOTSUPP);
        }
        let needed = offset_of!(efadv_qp_init_attr, reserved);
        if (length as usize) < needed {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's guarantee.
        let (wanted, of_efa) = unsafe {
            let of_efa = of_efa.as_ref().ok_or(libc::EINVAL)?;
            (wanted.as_mut().ok_or(libc::EINVAL)?, of_efa)
        };
        let both = (valid::IBV_QP_INIT_ATTR_PD | valid::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).0;
        if wanted.qp_type != ibv_qp_type::IBV_QPT_DRIVER
            || of_efa.comp_mask != 0
            || of_efa.reserved != [0; 4]
        {
            return Err(libc::EINVAL);
        }
        let mut able = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
        if efa_has(device, "read") {
            able |= IBV_QP_EX_WITH_RDMA_READ;
        }
        if efa_has(device, "write") {
            able |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
        }
        let operations = wanted.send_ops_flags;
        if of_efa.driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD
            || wanted.comp_mask != both
            || operations & !u64::from(able) != 0
        {
            return Err(libc::EOPNOTSUPP);
        }
        let plain = ibv_qp_init_attr {
            qp_context: wanted.qp_context,
            send_cq: wanted.send_cq,
            recv_cq: wanted.recv_cq,
            srq: wanted.srq,
            cap: wanted.cap,
            qp_type: wanted.qp_type,
            sq_sig_all: wanted.sq_sig_all,
        };
        let qp = objects.create_qp(wanted.pd, &plain)?;
        let extended = objects.pair(qp)?.raw.pointer();
        let has = |operation: u32| operations & u64::from(operation) != 0;
        // SAFETY: just created; the program does not have it yet.
        let extended = unsafe { &mut *extended };
        extended.wr_send = has(IBV_QP_EX_WITH_SEND).then_some(send as _);
        extended.wr_send_imm = has(IBV_QP_EX_WITH_SEND_WITH_IMM).then_some(send_immediate as _);
        extended.wr_rdma_read = has(IBV_QP_EX_WITH_RDMA_READ).then_some(read as _);
        extended.wr_rdma_write = has(IBV_QP_EX_WITH_RDMA_WRITE).then_some(write as _);
        extended.wr_rdma_write_imm =
            has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM).then_some(write_immediate as _);
        extended.wr_set_ud_addr = Some(set_address);
        extended.wr_set_sge = Some(set_sge);
        extended.wr_set_sge_list = Some(set_sge_list);
        extended.wr_set_inline_data = Some(set_inline);
        extended.wr_start = Some(start);
        extended.wr_complete = Some(complete);
        extended.wr_abort = Some(abort);
        Ok(qp)
    })
}

/// NULL for a queue pair without functions.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    infallible("ibv_qp_to_qp_ex", std::ptr::null_mut(), || {
        let mut objects = objects();
        let pair = objects.pair(qp)?;
        match pair.kind {
            ibv_qp_type::IBV_QPT_DRIVER => Ok(pair.raw.pointer()),
            _ => Err(libc::EINVAL),
        }
    })
}

extern "C" fn start(qp: *mut ibv_qp_ex) {
    infallible("ibv_wr_start", (), || {
        objects().pair(qp.cast())?.drafts = Ok(Vec::new());
        Ok(())
    });
}

extern "C" fn abort(qp: *mut ibv_qp_ex) {
    start(qp);
}

unsafe extern "C" fn send(qp: *mut ibv_qp_ex) {
    begin(qp, ibv_wr_opcode::IBV_WR_SEND, (0, 0), 0);
}

unsafe extern "C" fn send_immediate(qp: *mut ibv_qp_ex, immediate: u32) {
    begin(qp, ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, (0, 0), immediate);
}

unsafe extern "C" fn read(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    begin(qp, ibv_wr_opcode::IBV_WR_RDMA_READ, (address, rkey), 0);
}

unsafe extern "C" fn write(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    begin(qp, ibv_wr_opcode::IBV_WR_RDMA_WRITE, (address, rkey), 0);
}

unsafe extern "C" fn write_immediate(qp: *mut ibv_qp_ex, rkey: u32, address: u64, immediate: u32) {
    let opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
    begin(qp, opcode, (address, rkey), immediate);
}

fn begin(qp: *mut ibv_qp_ex, opcode: u32, remote: (u64, u32), immediate: u32) {
    infallible("ibv_wr_send", (), || {
        let mut objects = objects();
        let pair = objects.pair(qp.cast())?;
        // SAFETY: the queue pair is alive; the program sets both members before it begins a request.
        let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
        if let Ok(drafts) = &mut pair.drafts {
            drafts.push(Draft {
                wr_id,
                flags,
                opcode,
                immediate,
                remote,
                sges: Vec::new(),
                inline: None,
                destination: None,
            });
        }
        Ok(())
    });
}

/// Changes the request that was begun last; a failure is that of `wr_complete`.
fn change(qp: *mut ibv_qp_ex, change: impl FnOnce(&Objects, &mut Draft) -> Result<(), Errno>) {
    infallible("ibv_wr_set", (), || {
        let mut objects = objects();
        let Ok(mut drafts) =
            std::mem::replace(&mut objects.pair(qp.cast())?.drafts, Ok(Vec::new()))
        else {
            objects.pair(qp.cast())?.drafts = Err(libc::EINVAL);
            return Ok(());
        };
        let changed = match drafts.last_mut() {
            Some(draft) => change(&objects, draft),
            None => Err(libc::EINVAL),
        };
        objects.pair(qp.cast())?.drafts = changed.map(|()| drafts);
        Ok(())
    });
}

unsafe extern "C" fn set_address(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, number: u32, qkey: u32) {
    change(qp, |objects, draft| {
        let handle = objects.handles.get(&ah.addr()).ok_or(libc::EINVAL)?;
        draft.destination =
            Some(Destination { to: Box::new(handle.to), domain: handle.domain, number, qkey });
        Ok(())
    });
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, address: u64, bytes: u32) {
    change(qp, |_, draft| {
        draft.sges = vec![Sge { address, bytes, lkey }];
        Ok(())
    });
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    change(qp, |_, draft| {
        let most = match draft.opcode {
            ibv_wr_opcode::IBV_WR_SEND | ibv_wr_opcode::IBV_WR_SEND_WITH_IMM => MAX_SGES,
            _ => 1,
        };
        let count = c_int::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: the program's list has `count` SGEs.
        draft.sges = unsafe { sges(list, count, most) }?;
        Ok(())
    });
}

unsafe extern "C" fn set_inline(qp: *mut ibv_qp_ex, from: *mut c_void, bytes: usize) {
    change(qp, |objects, draft| {
        let most = objects.pairs.get(&qp.addr()).map_or(0, |pair| pair.room.max_inline_data);
        if bytes > most as usize || name_of(draft.opcode) != "send" {
            return Err(libc::EINVAL);
        }
        let mut taken = vec![0; bytes];
        // SAFETY: the program's data has this length.
        unsafe { from.cast::<u8>().copy_to(taken.as_mut_ptr(), bytes) };
        draft.inline = Some(taken);
        Ok(())
    });
}

/// Posts all requests, or none.
extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    status("ibv_wr_complete", || {
        let mut objects = objects();
        let pair = objects.pair(qp.cast())?;
        let drafts = std::mem::replace(&mut pair.drafts, Ok(Vec::new()))?;
        let known = (ibv_send_flags::IBV_SEND_SIGNALED | ibv_send_flags::IBV_SEND_INLINE).0;
        let is_signalled = |draft: &Draft| {
            draft.flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0 || pair.signals_all
        };
        let is_sound = |draft: &Draft| {
            is_signalled(draft) && draft.flags & !known == 0 && draft.destination.is_some()
        };
        if pair.now.qp_state != ibv_qp_state::IBV_QPS_RTS || !drafts.iter().all(is_sound) {
            return Err(libc::EINVAL);
        }
        let free = u64::from(pair.room.max_send_wr) - (pair.sent - pair.send_freed);
        if drafts.len() as u64 > free {
            return Err(libc::ENOMEM);
        }
        let device = pair.device;
        for draft in drafts {
            let fate = objects.fate(device, name_of(draft.opcode));
            let pair = objects.pair(qp.cast())?;
            pair.sent += 1;
            pair.sends.push_back(Work {
                wr_id: draft.wr_id,
                opcode: draft.opcode,
                is_signalled: true,
                is_solicited: false,
                sges: draft.sges,
                inline: draft.inline,
                immediate: draft.immediate,
                target: match name_of(draft.opcode) {
                    "send" => Target::Queue,
                    _ => Target::Memory { address: draft.remote.0, rkey: draft.remote.1 },
                },
                destination: draft.destination,
                fate,
                through: pair.sent,
            });
        }
        objects.progress();
        Ok(())
    })
}

impl Objects {
    /// As `check_qp`, for an EFA device: EOPNOTSUPP for connections.
    pub fn check_efa_qp(
        &mut self,
        context: usize,
        device: usize,
        wanted: &ibv_qp_init_attr,
    ) -> Result<(), Errno> {
        if ![ibv_qp_type::IBV_QPT_UD, ibv_qp_type::IBV_QPT_DRIVER].contains(&wanted.qp_type) {
            return Err(libc::EOPNOTSUPP);
        }
        let (cap, number) = (wanted.cap, |key: &str, default| efa_number(device, key, default));
        let fits = cap.max_send_wr <= number("max_sq_wr", 4096)
            && cap.max_recv_wr <= number("max_rq_wr", 32768)
            && cap.max_send_sge.max(cap.max_recv_sge) <= MAX_SGES
            && cap.max_inline_data <= number("inline_buf_size", 32);
        let mut is_own = |cq| self.queue(cq).is_ok_and(|queue| queue.context == context);
        let are_own = is_own(wanted.send_cq) && is_own(wanted.recv_cq);
        if fits && are_own && wanted.srq.is_null() { Ok(()) } else { Err(libc::EINVAL) }
    }
}
