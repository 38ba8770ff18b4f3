//! Posting work requests, and the immediate errors of the manual pages `ibv_post_send` and `ibv_post_recv`.

use std::ffi::c_int;

use ibverbs_sys::{
    ibv_qp, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_wr_opcode,
};

use crate::answer::{Errno, put, status};
use crate::machine::device;
use crate::objects::{Objects, Receive, Sge, objects};
use crate::route::Destination;
use crate::transport::{Target, Work, name_of};

/// `post_send` of a context.
///
/// # Safety
///
/// The requests and the memory they point to are valid as the manual page requires; `bad` is null or valid for a write.
pub unsafe extern "C" fn send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut next = first;
    let code = status("ibv_post_send", || {
        let mut objects = objects();
        while !next.is_null() {
            // SAFETY: not null, and the caller's guarantee.
            let request = unsafe { next.read() };
            // SAFETY: the caller's guarantee.
            unsafe { objects.send(qp, &request)? };
            next = request.next;
        }
        Ok(())
    });
    if code != 0 {
        // SAFETY: the caller's guarantee.
        let _ = unsafe { put(bad, next) };
    }
    code
}

/// `post_recv` of a context.
///
/// # Safety
///
/// The requests and the memory they point to are valid as the manual page requires; `bad` is null or valid for a write.
pub unsafe extern "C" fn receive(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = first;
    let code = status("ibv_post_recv", || {
        let mut objects = objects();
        while !next.is_null() {
            // SAFETY: not null, and the caller's guarantee.
            let request = unsafe { next.read() };
            // SAFETY: the caller's guarantee.
            unsafe { objects.receive(qp, &request)? };
            next = request.next;
        }
        // A sender may be waiting for it.
        objects.progress();
        Ok(())
    });
    if code != 0 {
        // SAFETY: the caller's guarantee.
        let _ = unsafe { put(bad, next) };
    }
    code
}

/// The SGEs of a request.
///
/// # Safety
///
/// `list` points to `count` SGEs.
pub unsafe fn sges(list: *const ibv_sge, count: c_int, most: u32) -> Result<Vec<Sge>, Errno> {
    let count = u32::try_from(count).ok().filter(|count| *count <= most);
    let count = count.ok_or(libc::EINVAL)? as usize;
    if count > 0 && list.is_null() {
        return Err(libc::EINVAL);
    }
    let sge = |place: usize| {
        // SAFETY: the caller's guarantee.
        let sge = unsafe { list.wrapping_add(place).read() };
        Sge { address: sge.addr, bytes: sge.length, lkey: sge.lkey }
    };
    Ok((0..count).map(sge).collect())
}

/// True if the transport supports the opcode.
fn is_supported(kind: u32, opcode: u32) -> bool {
    use ibv_wr_opcode::*;
    match opcode {
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => true,
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => kind != ibv_qp_type::IBV_QPT_UD,
        IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
            kind == ibv_qp_type::IBV_QPT_RC
        }
        _ => false,
    }
}

impl Objects {
    /// # Safety
    ///
    /// The memory that the request points to is valid as the manual page requires.
    unsafe fn send(&mut self, qp: *mut ibv_qp, request: &ibv_send_wr) -> Result<(), Errno> {
        let pair = self.pair(qp)?;
        let (kind, device, state, room) = (pair.kind, pair.device, pair.now.qp_state, pair.room);
        let is_ready = [ibv_qp_state::IBV_QPS_RTS, ibv_qp_state::IBV_QPS_ERR].contains(&state);
        if !is_ready || !is_supported(kind, request.opcode) {
            return Err(libc::EINVAL);
        }
        if pair.sent - pair.send_freed >= room.max_send_wr.into() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: the caller's guarantee.
        let sges = unsafe { sges(request.sg_list, request.num_sge, room.max_send_sge)? };
        let has = |flag: ibv_send_flags| request.send_flags & flag.0 != 0;
        let inline = if has(ibv_send_flags::IBV_SEND_INLINE) {
            // SAFETY: the caller's guarantee: the SGEs name readable memory.
            Some(unsafe { copy_inline(&sges, request.opcode, room.max_inline_data)? })
        } else {
            None
        };
        let is_signalled = pair.signals_all || has(ibv_send_flags::IBV_SEND_SIGNALED);
        let target = self.target(kind, request)?;
        let fate = self.fate(device, name_of(request.opcode));
        let pair = self.pair(qp)?;
        pair.sent += 1;
        pair.sends.push_back(Work {
            wr_id: request.wr_id,
            opcode: request.opcode,
            is_signalled,
            is_solicited: has(ibv_send_flags::IBV_SEND_SOLICITED),
            sges,
            inline,
            immediate: request.__bindgen_anon_1.imm_data,
            target,
            destination: None,
            fate,
            through: pair.sent,
        });
        match state {
            ibv_qp_state::IBV_QPS_RTS => self.progress(),
            _ => self.fail(qp.addr()),
        }
        Ok(())
    }

    fn target(&self, kind: u32, request: &ibv_send_wr) -> Result<Target, Errno> {
        use ibv_wr_opcode::*;
        if kind == ibv_qp_type::IBV_QPT_UD {
            // SAFETY: the union's member for datagrams.
            let to = unsafe { request.wr.ud };
            let handle = self.handles.get(&to.ah.addr()).ok_or(libc::EINVAL)?;
            return Ok(Target::Datagram(Destination {
                to: Box::new(handle.to),
                domain: handle.domain,
                number: to.remote_qpn,
                qkey: to.remote_qkey,
            }));
        }
        Ok(match request.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => Target::Queue,
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: the union's member for atomic operations.
                let at = unsafe { request.wr.atomic };
                Target::Atomic {
                    address: at.remote_addr,
                    rkey: at.rkey,
                    compare_add: at.compare_add,
                    swap: at.swap,
                }
            }
            _ => {
                // SAFETY: the union's member for reads and writes.
                let at = unsafe { request.wr.rdma };
                Target::Memory { address: at.remote_addr, rkey: at.rkey }
            }
        })
    }

    /// # Safety
    ///
    /// The memory that the request points to is valid as the manual page requires.
    unsafe fn receive(&mut self, qp: *mut ibv_qp, request: &ibv_recv_wr) -> Result<(), Errno> {
        let pair = self.pair(qp)?;
        if pair.now.qp_state == ibv_qp_state::IBV_QPS_RESET {
            return Err(libc::EINVAL);
        }
        if pair.received - pair.receive_freed >= pair.room.max_recv_wr.into() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: the caller's guarantee.
        let sges = unsafe { sges(request.sg_list, request.num_sge, pair.room.max_recv_sge)? };
        pair.received += 1;
        pair.receives.push_back(Receive { wr_id: request.wr_id, sges, through: pair.received });
        let flushes = device(pair.device)["flushes_late_receives"] != false;
        if flushes && pair.now.qp_state == ibv_qp_state::IBV_QPS_ERR {
            self.fail(qp.addr());
        }
        Ok(())
    }
}

/// Copies inline data; keys are not checked.
///
/// # Safety
///
/// The SGEs name readable memory.
unsafe fn copy_inline(sges: &[Sge], opcode: u32, most: u32) -> Result<Vec<u8>, Errno> {
    let bytes: u64 = sges.iter().map(|sge| u64::from(sge.bytes)).sum();
    if bytes > most.into() || ["read", "fetch_add", "compare_swap"].contains(&name_of(opcode)) {
        return Err(libc::EINVAL);
    }
    let mut taken = Vec::new();
    for sge in sges.iter().filter(|sge| sge.bytes > 0) {
        let start = std::ptr::with_exposed_provenance::<u8>(sge.address as usize);
        let place = taken.len();
        taken.resize(place + sge.bytes as usize, 0);
        // SAFETY: the caller's guarantee, and the buffer was resized to fit.
        unsafe { start.copy_to(taken[place..].as_mut_ptr(), sge.bytes as usize) };
    }
    Ok(taken)
}
