//! State changes of firmware queue pairs by a C program, in the terms of `ibv_modify_qp`.

use std::net::Ipv6Addr;

use ibverbs_sys::{
    self as raw, ibv_access_flags as flag, ibv_qp_attr_mask as mask, ibv_qp_state as state,
};

use super::QueuePair;
use crate::{Access, Address, Behaviour, Borrowed, Error, Peer, Reset, Route, Transport};

impl QueuePair<Reset> {
    /// Leaves the state changes to the program.
    #[must_use]
    pub fn borrow(self) -> QueuePair<Borrowed> {
        QueuePair { inner: self.inner, state: std::marker::PhantomData }
    }
}

impl QueuePair<Borrowed> {
    /// Its transport.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.inner.transport
    }

    /// Changes the state, as `ibv_modify_qp` does for a queue pair in state `from`: RESET to INIT, to RTR, to RTS, and every state to
    /// ERROR. Returns the new state.
    ///
    /// # Errors
    ///
    /// [`Error::StateChange`] for other changes, and for missing or unsupported attributes; otherwise as
    /// [`QueuePair::init`], [`QueuePair::ready_to_receive`] and [`QueuePair::ready_to_send`].
    pub fn change(
        &self,
        from: state::Type,
        attributes: &raw::ibv_qp_attr,
        given: mask,
    ) -> Result<state::Type, Error> {
        let to = match given.0 & mask::IBV_QP_STATE.0 {
            0 => from,
            _ => attributes.qp_state,
        };
        let context = self.inner.domain.context();
        let invalid = |why| Error::StateChange { name: context.name().into(), from, to, why };
        if to == state::IBV_QPS_ERR && from != state::IBV_QPS_RESET {
            self.fail()?;
            return Ok(to);
        }
        let required = required(self.inner.transport, from, to)
            .ok_or_else(|| invalid("supported are RESET to INIT, to RTR, to RTS, and to ERROR"))?;
        if given.0 & required.0 != required.0 {
            return Err(invalid("a required attribute is not in the mask (see ibv_modify_qp(3))"));
        }
        if given.0 & !(required | mask::IBV_QP_CUR_STATE).0 != 0 {
            return Err(invalid("an attribute in the mask does not belong to it"));
        }
        let command = match to {
            state::IBV_QPS_INIT if attributes.pkey_index != 0 => {
                return Err(invalid("pkey_index must be 0"));
            }
            state::IBV_QPS_INIT => {
                let access = access(attributes.qp_access_flags);
                self.inner.to_init(attributes.port_num, access, attributes.qkey)?
            }
            state::IBV_QPS_RTR => {
                let to = &attributes.ah_attr;
                if self.inner.transport != Transport::Ud
                    && (to.src_path_bits != 0 || to.static_rate != 0 || to.grh.flow_label != 0)
                {
                    return Err(invalid("src_path_bits, static_rate and flow_label must be 0"));
                }
                let (route, peer) = remote(attributes);
                self.inner.to_rtr(route, peer, behaviour(attributes))?
            }
            _ => {
                let behaviour =
                    Behaviour { reads: attributes.max_rd_atomic, ..behaviour(attributes) };
                self.inner.to_rts(attributes.sq_psn, behaviour)?
            }
        };
        command.modify(&self.inner.object)?;
        Ok(to)
    }
}

/// The attributes that a change needs (`ibv_modify_qp(3)`); `None` for one that is not supported.
fn required(transport: Transport, from: state::Type, to: state::Type) -> Option<mask> {
    use Transport::{Rc, Srd, Uc, Ud};
    let connection =
        mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN | mask::IBV_QP_RQ_PSN;
    let changed = match (from, to) {
        (state::IBV_QPS_RESET, state::IBV_QPS_INIT) => {
            let port = mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
            match transport {
                Rc | Uc => port | mask::IBV_QP_ACCESS_FLAGS,
                Ud | Srd => port | mask::IBV_QP_QKEY,
            }
        }
        (state::IBV_QPS_INIT, state::IBV_QPS_RTR) => match transport {
            Rc => connection | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER,
            Uc => connection,
            Ud | Srd => mask(0),
        },
        (state::IBV_QPS_RTR, state::IBV_QPS_RTS) => match transport {
            Rc => {
                mask::IBV_QP_SQ_PSN
                    | mask::IBV_QP_TIMEOUT
                    | mask::IBV_QP_RETRY_CNT
                    | mask::IBV_QP_RNR_RETRY
                    | mask::IBV_QP_MAX_QP_RD_ATOMIC
            }
            Uc | Ud | Srd => mask::IBV_QP_SQ_PSN,
        },
        _ => return None,
    };
    Some(changed | mask::IBV_QP_STATE)
}

fn access(flags: u32) -> Access {
    Access {
        remote_write: flags & flag::IBV_ACCESS_REMOTE_WRITE.0 != 0,
        remote_read: flags & flag::IBV_ACCESS_REMOTE_READ.0 != 0,
        remote_atomic: flags & flag::IBV_ACCESS_REMOTE_ATOMIC.0 != 0,
        ..Access::default()
    }
}

fn remote(attributes: &raw::ibv_qp_attr) -> (Route, Peer) {
    let to = &attributes.ah_attr;
    let route = Route {
        port: to.port_num,
        gid_index: to.grh.sgid_index,
        hop_limit: to.grh.hop_limit,
        traffic_class: to.grh.traffic_class,
        service_level: to.sl,
        flow_label: to.grh.flow_label,
        static_rate: to.static_rate,
    };
    // SAFETY: any bytes are valid for all members of the union.
    let gid = unsafe { to.grh.dgid.raw };
    let address = Address { lid: to.dlid, gid: (to.is_global != 0).then(|| Ipv6Addr::from(gid)) };
    let peer = Peer { address, queue_pair: attributes.dest_qp_num, psn: attributes.rq_psn };
    (route, peer)
}

fn behaviour(attributes: &raw::ibv_qp_attr) -> Behaviour {
    Behaviour {
        mtu: 128 << attributes.path_mtu.min(16),
        timeout: attributes.timeout,
        retries: attributes.retry_cnt,
        receiver_retries: attributes.rnr_retry,
        receiver_timer: attributes.min_rnr_timer,
        reads: attributes.max_dest_rd_atomic,
    }
}
