//! Checks of commands, and busy objects.

use ib::ibv_qp_attr_mask as mask;
use ib::ibv_qp_state;
use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, QueuePair};
use crate::device::{ALL, Device};
use crate::errors::to_error;
use crate::inside::inside;

const INVALID: i32 = 22;
const BUSY: i32 = 16;

/// Objects in use cannot be destroyed.
#[test]
#[ignore = "needs libmlx5"]
fn busy_objects() {
    inside("keys::busy_objects", &[NIC], || {
        let device = Device::open();
        let memory = device.memory(64, ALL);
        let pair = device.pair();
        // SAFETY: a live queue, which survives the failing call.
        assert_eq!(unsafe { ib::ibv_destroy_cq(pair.sent.0) }, BUSY);
        pair.destroy();
        // SAFETY: an unused queue.
        assert_eq!(unsafe { ib::ibv_destroy_cq(pair.sent.0) }, 0);
        // SAFETY: a live domain, which survives the failing call.
        assert_eq!(unsafe { ib::ibv_dealloc_pd(device.pd) }, BUSY);
        memory.deregister();
        // SAFETY: an empty domain.
        assert_eq!(unsafe { ib::ibv_dealloc_pd(device.pd) }, 0);
    });
}

/// Remote write requires local write.
#[test]
#[ignore = "needs libmlx5"]
fn invalid_access_flags() {
    inside("keys::invalid_access_flags", &[NIC], || {
        let device = Device::open();
        let mut byte = [0_u8; 8];
        for rights in [2, 8] {
            // SAFETY: a live domain and live memory.
            let region = unsafe { ib::ibv_reg_mr(device.pd, byte.as_mut_ptr().cast(), 8, rights) };
            assert!(region.is_null());
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(INVALID));
        }
    });
}

/// State changes with each required attribute left out, invalid transitions, and invalid addresses.
#[test]
#[ignore = "needs libmlx5"]
fn state_changes() {
    inside("keys::state_changes", &[NIC], || {
        let device = Device::open();
        let pair = device.pair();
        let link = Link::default();
        let refused = |change: &mut ib::ibv_qp_attr, named: mask| {
            assert_eq!(pair.modify(change, named), INVALID)
        };
        let (mut receive, to_receive) = QueuePair::ready_to_receive(pair.number, link);
        let (mut send, to_send) = QueuePair::ready_to_send(link);
        refused(&mut to_error(), mask::IBV_QP_STATE);
        refused(&mut receive, to_receive);
        refused(&mut send, to_send);
        let mut first = ib::ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_INIT,
            port_num: 1,
            ..Default::default()
        };
        let to_first = mask::IBV_QP_STATE
            | mask::IBV_QP_PORT
            | mask::IBV_QP_PKEY_INDEX
            | mask::IBV_QP_ACCESS_FLAGS;
        for bit in (1..32).map(|bit| 1 << bit).filter(|bit| to_first.0 & bit != 0) {
            refused(&mut first, mask(to_first.0 & !bit));
        }
        pair.initialize(link);
        for bit in (1..32).map(|bit| 1 << bit).filter(|bit| to_receive.0 & bit != 0) {
            refused(&mut receive, mask(to_receive.0 & !bit));
        }
        refused(&mut receive, to_receive | mask::IBV_QP_TIMEOUT);
        let mut foreign = receive;
        foreign.ah_attr.port_num = 2;
        foreign.ah_attr.is_global = 1;
        foreign.ah_attr.grh.sgid_index = 3; // not set
        refused(&mut foreign, to_receive);
        assert_eq!(pair.modify(&mut receive, to_receive), 0);
        for bit in (1..32).map(|bit| 1 << bit).filter(|bit| to_send.0 & bit != 0) {
            refused(&mut send, mask(to_send.0 & !bit));
        }
        assert_eq!(pair.modify(&mut send, to_send), 0);

        let attributes = pair.query();
        assert_eq!(attributes.qp_state, ibv_qp_state::IBV_QPS_RTS);
        assert_eq!(
            (attributes.dest_qp_num, attributes.qp_access_flags, attributes.port_num),
            (pair.number, ALL as u32, 1)
        );
        assert_eq!(
            (attributes.rq_psn, attributes.sq_psn, attributes.path_mtu),
            (0x12_3456, 0x12_3456, ib::IBV_MTU_1024)
        );
        assert_eq!(
            (
                attributes.timeout,
                attributes.retry_cnt,
                attributes.rnr_retry,
                attributes.min_rnr_timer
            ),
            (12, 2, 7, 12)
        );
        assert_eq!(
            (attributes.max_rd_atomic, attributes.max_dest_rd_atomic, attributes.ah_attr.dlid),
            (16, 16, 0x0123)
        );
    });
}

/// An Ethernet address requires a GID.
#[test]
#[ignore = "needs libmlx5"]
fn roce_requires_gid() {
    inside("keys::roce_requires_gid", &[NIC], || {
        let device = Device::open();
        let pair = device.pair();
        let link = Link { port: 2, ..Link::default() };
        pair.initialize(link);
        let (mut change, named) = QueuePair::ready_to_receive(pair.number, link);
        change.ah_attr.is_global = 0;
        assert_eq!(pair.modify(&mut change, named), INVALID);
        change.ah_attr.is_global = 1;
        assert_eq!(pair.modify(&mut change, named), 0);
    });
}

/// Both ports are active and have GIDs.
#[test]
#[ignore = "needs libmlx5"]
fn ports() {
    inside("keys::ports", &[NIC], || {
        let device = Device::open();
        for (port, layer) in [(1, 1), (2, 2)] {
            let mut attributes = ib::ibv_port_attr::default();
            assert_eq!(
                // SAFETY: an open context and an output buffer.
                unsafe { ib::ibv_query_port(device.context, port, &mut attributes) },
                0
            );
            assert_eq!(
                (attributes.state, u32::from(attributes.link_layer)),
                (ib::ibv_port_state::IBV_PORT_ACTIVE, layer)
            );
            let mut gid = ib::ibv_gid::default();
            assert_eq!(
                // SAFETY: as above.
                unsafe { ib::ibv_query_gid(device.context, port, 0, &mut gid) },
                0
            );
            // SAFETY: any bytes are a GID.
            assert_eq!(unsafe { gid.raw }[..2], [0xfe, 0x80]);
        }
    });
}
