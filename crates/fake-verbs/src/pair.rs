//! Queue pairs: creation, state changes, and what happens to posted requests.

use std::ffi::c_int;

use ibverbs_sys::{
    ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as bits, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_state, ibv_qp_type, ibv_wc_status,
};
use serde_json::json;

use crate::answer::{Errno, note, pointer_or_null, put, status};
use crate::device::attributes;
use crate::fate::Fate;
use crate::machine::{efa, limit, ports};
use crate::objects::{Objects, QueuePair, Shared, objects, until_acknowledged};
use crate::port::{mtu, mtu_number, pkeys};
use crate::route::is_sound;
use crate::state::may_change;

/// PSNs and queue pair numbers have 24 bits.
const NUMBER: u32 = 0xff_ffff;

/// # Safety
///
/// `wanted` is null or points to the wanted attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    wanted: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer_or_null("ibv_create_qp", || {
        // SAFETY: the caller's guarantee.
        let wanted = unsafe { wanted.as_ref() }.ok_or(libc::EINVAL)?;
        objects().create_qp(pd, wanted)
    })
}

impl Objects {
    /// Creates a queue pair of any type.
    pub fn create_qp(
        &mut self,
        pd: *mut ibv_pd,
        wanted: &ibv_qp_init_attr,
    ) -> Result<*mut ibv_qp, Errno> {
        let objects = self;
        let domain = objects.domain(pd)?;
        let (context, device) = (domain.context, domain.device);
        objects.check_qp(context, device, wanted)?;
        // Numbers are per device: two devices may use the same one.
        let number = objects.numbers.entry(device).or_insert(0x10);
        *number = (*number + 1) & NUMBER;
        let number = *number;
        let handle = objects.handle();
        let qp_base = ibv_qp {
            context: objects.contexts.get(&context).ok_or(libc::EINVAL)?.pointer(),
            qp_context: wanted.qp_context,
            pd,
            send_cq: wanted.send_cq,
            recv_cq: wanted.recv_cq,
            handle,
            qp_num: number,
            state: ibv_qp_state::IBV_QPS_RESET,
            qp_type: wanted.qp_type,
            ..ibv_qp::default()
        };
        let raw = Shared::new(ibv_qp_ex { qp_base, ..ibv_qp_ex::default() });
        let pointer = raw.pointer().cast();
        let pair = QueuePair {
            raw,
            drafts: Ok(Vec::new()),
            context,
            device,
            domain: pd.addr(),
            number,
            kind: wanted.qp_type,
            send_queue: wanted.send_cq.addr(),
            receive_queue: wanted.recv_cq.addr(),
            signals_all: wanted.sq_sig_all != 0,
            room: wanted.cap,
            now: fresh(wanted.cap),
            sends: Default::default(),
            receives: Default::default(),
            sent: 0,
            send_freed: 0,
            received: 0,
            receive_freed: 0,
            unacknowledged: 0,
        };
        objects.pairs.insert(pair.raw.address(), pair);
        Ok(pointer)
    }

    /// Checks type, capacities and completion queues of a wanted queue pair, and the device's limit of queue pairs.
    fn check_qp(
        &mut self,
        context: usize,
        device: usize,
        wanted: &ibv_qp_init_attr,
    ) -> Result<(), Errno> {
        let limits = attributes(device);
        let max = |limit: c_int| u32::try_from(limit).unwrap_or(0);
        if !efa(device).is_null() {
            return self.check_efa_qp(context, device, wanted);
        }
        let is_supported =
            [ibv_qp_type::IBV_QPT_RC, ibv_qp_type::IBV_QPT_UC, ibv_qp_type::IBV_QPT_UD]
                .contains(&wanted.qp_type);
        let cap = wanted.cap;
        let fits = cap.max_send_wr.max(cap.max_recv_wr) <= max(limits.max_qp_wr)
            && cap.max_send_sge.max(cap.max_recv_sge) <= max(limits.max_sge)
            && cap.max_inline_data <= limit(device, "max_inline_data", 220);
        if !is_supported || !fits || !wanted.srq.is_null() {
            return Err(libc::EINVAL);
        }
        for cq in [wanted.send_cq, wanted.recv_cq] {
            if self.queue(cq)?.context != context {
                return Err(libc::EINVAL);
            }
        }
        let existing = self.pairs.values().filter(|pair| pair.device == device);
        if existing.count() >= usize::try_from(limits.max_qp).unwrap_or(0) {
            return Err(libc::ENOMEM);
        }
        Ok(())
    }
}

fn fresh(cap: ibverbs_sys::ibv_qp_cap) -> ibv_qp_attr {
    let qp_state = ibv_qp_state::IBV_QPS_RESET;
    ibv_qp_attr { qp_state, cur_qp_state: qp_state, cap, ..ibv_qp_attr::default() }
}

/// Waits until the program has acknowledged every event about it that it read.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status("ibv_destroy_qp", || {
        let mut objects = objects();
        while objects.pair(qp)?.unacknowledged > 0 {
            objects = until_acknowledged(objects);
        }
        let address = qp.addr();
        note(&json!({"destroyed": objects.pair(qp)?.number}));
        objects.pairs.remove(&address);
        objects.forget_completions(address);
        objects.forget_events(address);
        objects.progress();
        Ok(())
    })
}

/// # Safety
///
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    out: *mut ibv_qp_attr,
    _mask: c_int,
    made_with: *mut ibv_qp_init_attr,
) -> c_int {
    status("ibv_query_qp", || {
        let mut objects = objects();
        let pair = objects.pair(qp)?;
        let raw: *mut ibv_qp = pair.raw.pointer().cast();
        // SAFETY: the queue pair is alive; its members change only under the lock that is held.
        let shown = unsafe {
            (*raw).state = pair.now.qp_state;
            *raw
        };
        let init = ibv_qp_init_attr {
            qp_context: shown.qp_context,
            send_cq: shown.send_cq,
            recv_cq: shown.recv_cq,
            srq: shown.srq,
            cap: pair.room,
            qp_type: pair.kind,
            sq_sig_all: c_int::from(pair.signals_all),
        };
        // SAFETY: the caller's guarantee.
        unsafe {
            put(out, pair.now)?;
            put(made_with, init)
        }
    })
}

/// # Safety
///
/// `wanted` is null or points to the attributes that the mask names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    wanted: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    status("ibv_modify_qp", || {
        // SAFETY: the caller's guarantee.
        let wanted = *unsafe { wanted.as_ref() }.ok_or(libc::EINVAL)?;
        let mask = u32::try_from(mask).map_err(|_| libc::EINVAL)?;
        let mut objects = objects();
        let pair = objects.pair(qp)?;
        let has = |bit: bits| mask & bit.0 != 0;
        let from = pair.now.qp_state;
        let to = if has(bits::IBV_QP_STATE) { wanted.qp_state } else { from };
        if has(bits::IBV_QP_CUR_STATE) && wanted.cur_qp_state != from {
            return Err(libc::EINVAL);
        }
        if !may_change(pair.kind, from, to, mask) {
            return Err(libc::EINVAL);
        }
        pair.now = changed(pair, &wanted, mask)?;
        note(&json!({
            "pair": pair.number, "kind": pair.kind, "state": to, "access": pair.now.qp_access_flags,
            "qkey": pair.now.qkey, "sq_psn": pair.now.sq_psn, "pkey_index": pair.now.pkey_index,
            "mtu": 128 << pair.now.path_mtu, "hop_limit": pair.now.ah_attr.grh.hop_limit,
            "traffic_class": pair.now.ah_attr.grh.traffic_class, "flow_label": pair.now.ah_attr.grh.flow_label,
            "gid_index": pair.now.ah_attr.grh.sgid_index, "service_level": pair.now.ah_attr.sl,
            "static_rate": pair.now.ah_attr.static_rate, "timeout": pair.now.timeout, "retries": pair.now.retry_cnt,
            "receiver_retries": pair.now.rnr_retry, "receiver_timer": pair.now.min_rnr_timer,
        }));
        if has(bits::IBV_QP_STATE) {
            // SAFETY: the queue pair is alive; its members change only under the lock that is held.
            unsafe { (*pair.raw.pointer()).qp_base.state = to };
        }
        match to {
            ibv_qp_state::IBV_QPS_RESET => objects.reset(qp.addr()),
            ibv_qp_state::IBV_QPS_ERR => objects.fail(qp.addr()),
            _ => pair.now.qp_state = to,
        }
        if let Ok(pair) = objects.pair(qp) {
            pair.now.cur_qp_state = pair.now.qp_state;
        }
        objects.progress();
        Ok(())
    })
}

/// The attributes after a change, if the device supports them.
fn changed(pair: &QueuePair, wanted: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_attr, Errno> {
    let mut now = pair.now;
    let device = pair.device;
    let wanted_port = match mask & bits::IBV_QP_PORT.0 {
        0 => now.port_num,
        _ => wanted.port_num,
    };
    let limits = attributes(device);
    macro_rules! take {
        ($($bit:ident: $field:ident, $is_sound:expr;)*) => { $(
            if mask & bits::$bit.0 != 0 {
                now.$field = wanted.$field;
                if !$is_sound {
                    return Err(libc::EINVAL);
                }
            }
        )* };
    }
    let most = |limit: c_int| u8::try_from(limit).unwrap_or(u8::MAX);
    take! {
        IBV_QP_PORT: port_num, (1..=ports(device)).contains(&now.port_num);
        IBV_QP_PKEY_INDEX: pkey_index, usize::from(now.pkey_index) < pkeys(device, wanted_port).len();
        IBV_QP_ACCESS_FLAGS: qp_access_flags, true;
        IBV_QP_QKEY: qkey, true;
        IBV_QP_AV: ah_attr, is_sound(device, &now.ah_attr).is_ok();
        IBV_QP_PATH_MTU: path_mtu, (1..=mtu_number(mtu(device, now.port_num))).contains(&now.path_mtu);
        IBV_QP_DEST_QPN: dest_qp_num, now.dest_qp_num <= NUMBER;
        IBV_QP_RQ_PSN: rq_psn, true;
        IBV_QP_SQ_PSN: sq_psn, true;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic, now.max_dest_rd_atomic <= most(limits.max_qp_rd_atom);
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic, now.max_rd_atomic <= most(limits.max_qp_init_rd_atom);
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer, now.min_rnr_timer < 32;
        IBV_QP_TIMEOUT: timeout, now.timeout < 32;
        IBV_QP_RETRY_CNT: retry_cnt, now.retry_cnt < 8;
        IBV_QP_RNR_RETRY: rnr_retry, now.rnr_retry < 8;
    }
    now.rq_psn &= NUMBER;
    now.sq_psn &= NUMBER;
    Ok(now)
}

impl Objects {
    /// Back to the initial state: posted requests are dropped without completions.
    fn reset(&mut self, address: usize) {
        self.forget_completions(address);
        if let Some(pair) = self.pairs.get_mut(&address) {
            pair.now = fresh(pair.room);
            pair.sends.clear();
            pair.receives.clear();
            (pair.sent, pair.send_freed, pair.received, pair.receive_freed) = (0, 0, 0, 0);
        }
    }

    /// Moves a queue pair to the state ERR and flushes posted requests.
    pub fn fail(&mut self, address: usize) {
        let Some(pair) = self.pairs.get_mut(&address) else {
            return;
        };
        pair.now.qp_state = ibv_qp_state::IBV_QPS_ERR;
        pair.now.cur_qp_state = ibv_qp_state::IBV_QPS_ERR;
        let sends = std::mem::take(&mut pair.sends);
        let receives = std::mem::take(&mut pair.receives);
        for work in sends.iter().filter(|work| work.fate != Fate::Vanishes) {
            self.end_send(address, work, Err((ibv_wc_status::IBV_WC_WR_FLUSH_ERR, None)));
        }
        for receive in receives {
            self.flush_receive(address, &receive);
        }
    }
}
