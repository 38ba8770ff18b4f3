//! Posting work requests: what of them is refused at once, by `ibv_post_send`'s and `ibv_post_recv`'s manual pages.

use std::ffi::c_int;

use ibverbs_sys::{
    ibv_qp, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_wr_opcode,
};

use crate::answer::{Errno, put, status};
use crate::transport::{Target, Work, name_of};
use crate::world::{Piece, Receive, World, world};

/// `post_send` of a context.
///
/// # Safety
///
/// The requests and what they lead to are those of the manual page; `bad` is null or valid for a write.
pub unsafe extern "C" fn send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut next = first;
    let code = status("ibv_post_send", || {
        let mut world = world();
        while !next.is_null() {
            // SAFETY: not null, and this function's own condition.
            let request = unsafe { next.read() };
            // SAFETY: this function's own condition.
            unsafe { world.send(qp, &request)? };
            next = request.next;
        }
        Ok(())
    });
    if code != 0 {
        // SAFETY: this function's own condition.
        let _ = unsafe { put(bad, next) };
    }
    code
}

/// `post_recv` of a context.
///
/// # Safety
///
/// The requests and what they lead to are those of the manual page; `bad` is null or valid for a write.
pub unsafe extern "C" fn receive(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = first;
    let code = status("ibv_post_recv", || {
        let mut world = world();
        while !next.is_null() {
            // SAFETY: not null, and this function's own condition.
            let request = unsafe { next.read() };
            // SAFETY: this function's own condition.
            unsafe { world.receive(qp, &request)? };
            next = request.next;
        }
        // Somebody may have waited for it.
        world.go_on();
        Ok(())
    });
    if code != 0 {
        // SAFETY: this function's own condition.
        let _ = unsafe { put(bad, next) };
    }
    code
}

/// The pieces of a request.
///
/// # Safety
///
/// `list` leads to `count` pieces.
unsafe fn pieces(list: *const ibv_sge, count: c_int, most: u32) -> Result<Vec<Piece>, Errno> {
    let count = u32::try_from(count).ok().filter(|count| *count <= most);
    let count = count.ok_or(libc::EINVAL)? as usize;
    if count > 0 && list.is_null() {
        return Err(libc::EINVAL);
    }
    let piece = |place: usize| {
        // SAFETY: this function's own condition.
        let piece = unsafe { list.wrapping_add(place).read() };
        Piece {
            address: piece.addr,
            bytes: piece.length,
            lkey: piece.lkey,
        }
    };
    Ok((0..count).map(piece).collect())
}

/// What a transport can do.
fn is_known(kind: u32, opcode: u32) -> bool {
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

impl World {
    /// # Safety
    ///
    /// What the request leads to is that of the manual page.
    unsafe fn send(&mut self, qp: *mut ibv_qp, request: &ibv_send_wr) -> Result<(), Errno> {
        let pair = self.pair(qp)?;
        let (kind, device, state, room) = (pair.kind, pair.device, pair.now.qp_state, pair.room);
        let is_ready = [ibv_qp_state::IBV_QPS_RTS, ibv_qp_state::IBV_QPS_ERR].contains(&state);
        if !is_ready || !is_known(kind, request.opcode) {
            return Err(libc::EINVAL);
        }
        if pair.sent - pair.send_freed >= room.max_send_wr.into() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: this function's own condition.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge, room.max_send_sge)? };
        let has = |flag: ibv_send_flags| request.send_flags & flag.0 != 0;
        let inline = match has(ibv_send_flags::IBV_SEND_INLINE) {
            // SAFETY: this function's own condition: the pieces are memory that can be read now.
            true => Some(unsafe { taken_along(&pieces, request.opcode, room.max_inline_data)? }),
            false => None,
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
            pieces,
            inline,
            immediate: request.__bindgen_anon_1.imm_data,
            target,
            fate,
            through: pair.sent,
        });
        match state {
            ibv_qp_state::IBV_QPS_RTS => self.go_on(),
            _ => self.fail(qp.addr()),
        }
        Ok(())
    }

    fn target(&self, kind: u32, request: &ibv_send_wr) -> Result<Target, Errno> {
        use ibv_wr_opcode::*;
        if kind == ibv_qp_type::IBV_QPT_UD {
            // SAFETY: what goes with a datagram.
            let to = unsafe { request.wr.ud };
            let handle = self.handles.get(&to.ah.addr()).ok_or(libc::EINVAL)?;
            return Ok(Target::Datagram {
                to: Box::new(handle.to),
                domain: handle.domain,
                number: to.remote_qpn,
                qkey: to.remote_qkey,
            });
        }
        Ok(match request.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => Target::Queue,
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: what goes with an atomic operation.
                let at = unsafe { request.wr.atomic };
                Target::Word {
                    address: at.remote_addr,
                    rkey: at.rkey,
                    compare_add: at.compare_add,
                    swap: at.swap,
                }
            }
            _ => {
                // SAFETY: what goes with a read or a write.
                let at = unsafe { request.wr.rdma };
                Target::Memory {
                    address: at.remote_addr,
                    rkey: at.rkey,
                }
            }
        })
    }

    /// # Safety
    ///
    /// What the request leads to is that of the manual page.
    unsafe fn receive(&mut self, qp: *mut ibv_qp, request: &ibv_recv_wr) -> Result<(), Errno> {
        let pair = self.pair(qp)?;
        if pair.now.qp_state == ibv_qp_state::IBV_QPS_RESET {
            return Err(libc::EINVAL);
        }
        if pair.received - pair.receive_freed >= pair.room.max_recv_wr.into() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: this function's own condition.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge, pair.room.max_recv_sge)? };
        pair.received += 1;
        pair.receives.push_back(Receive {
            wr_id: request.wr_id,
            pieces,
            through: pair.received,
        });
        if pair.now.qp_state == ibv_qp_state::IBV_QPS_ERR {
            self.fail(qp.addr());
        }
        Ok(())
    }
}

/// Data that goes along in the request: no key is asked for.
///
/// # Safety
///
/// The pieces can be read.
unsafe fn taken_along(pieces: &[Piece], opcode: u32, most: u32) -> Result<Vec<u8>, Errno> {
    let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
    if bytes > most.into() || ["read", "fetch_add", "compare_swap"].contains(&name_of(opcode)) {
        return Err(libc::EINVAL);
    }
    let mut taken = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
        let start = std::ptr::with_exposed_provenance::<u8>(piece.address as usize);
        let place = taken.len();
        taken.resize(place + piece.bytes as usize, 0);
        // SAFETY: this function's own condition, and there is as much room.
        unsafe { start.copy_to(taken[place..].as_mut_ptr(), piece.bytes as usize) };
    }
    Ok(taken)
}
