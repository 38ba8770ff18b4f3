//! RoCE: GIDs and their types decide which port is reached. Tests of the probes, which run over this library, prove data transfer.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

#[test]
fn roce_routes_by_gid_and_type() {
    let port = |last: u8, first: &str| {
        json!([{"link_layer": "ethernet", "gids": [
            {"gid": format!("::ffff:192.0.2.{last}"), "type": first},
            {"gid": format!("::ffff:192.0.2.{last}"), "type": "roce2"},
        ]}])
    };
    let machine =
        json!({"verbs": {"devices": [{"ports": port(1, "roce1")}, {"ports": port(2, "roce1")}]}});
    on("work::roce_routes_by_gid_and_type", &machine, |verbs| {
        let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
        let with = |own: &End<'_>, peer: &End<'_>, index: u8| {
            let mut attributes = own.toward(peer);
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.sgid_index = index;
            attributes.ah_attr.grh.dgid.raw = verbs.gid(peer.context, 1).expect("a GID");
            attributes
        };
        let local = here.toward(&there);
        let [(_, first), (_, second), _] = steps(RC);
        assert_eq!(
            verbs.modify(
                here.qp,
                &ibv_qp_attr {
                    qp_state: 1,
                    ..local
                },
                first
            ),
            0
        );
        assert_eq!(
            verbs.modify(
                here.qp,
                &ibv_qp_attr {
                    qp_state: 2,
                    ..local
                },
                second
            ),
            libc::EINVAL,
            "not global"
        );
        let nowhere = with(&here, &there, 2);
        assert_eq!(
            verbs.modify(
                here.qp,
                &ibv_qp_attr {
                    qp_state: 2,
                    ..nowhere
                },
                second
            ),
            libc::EINVAL,
            "no such GID"
        );
        assert!(
            verbs
                .ah(here.pd, &local.ah_attr)
                .is_err_and(|code| code == libc::EINVAL)
        );
        assert_eq!(verbs.modify(here.qp, &ibv_qp_attr::default(), 1), 0);

        here.start(&with(&here, &there, 1));
        there.start(&with(&there, &here, 1));
        here.write(0, b"routed");
        let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 6)]);
        write.remote = there.remote(0);
        assert_eq!(here.post(&write), 0);
        assert_eq!(
            (here.completions(), there.read(0, 6)),
            (vec![(1, 0)], b"routed".to_vec())
        );
    });
}

#[test]
fn roce_types_do_not_mix() {
    let port = |last: u8, kind: &str| json!([{"link_layer": "ethernet", "gids": [{"gid": format!("::ffff:192.0.2.{last}"), "type": kind}]}]);
    let machine =
        json!({"verbs": {"devices": [{"ports": port(1, "roce1")}, {"ports": port(2, "roce2")}]}});
    on("work::roce_types_do_not_mix", &machine, |verbs| {
        let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
        let (mut first, mut second) = (here.toward(&there), there.toward(&here));
        for (attributes, peer) in [(&mut first, &there), (&mut second, &here)] {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.dgid.raw = verbs.gid(peer.context, 0).expect("a GID");
        }
        here.start(&first);
        there.start(&second);
        assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
        assert_eq!(here.completions(), [(1, 12)]);
    });
}
