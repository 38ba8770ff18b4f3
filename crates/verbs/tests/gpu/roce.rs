//! RoCE: GIDs and their types decide which port is reached.

use std::net::Ipv6Addr;

use serde_json::{Value, json};
use verbs::{Access, Address, Buffer, Completion, Pages, Request, Route, Work};

use crate::ends::{End, connected, domain};
use crate::machine::{machine, on};

/// The address of `mlx5_0` (last byte 1) or `mlx5_1` (last byte 2).
fn address(last: u8) -> Address {
    let gid: Ipv6Addr = format!("::ffff:192.0.2.{last}").parse().expect("a GID");
    Address { lid: 0, gid: Some(gid) }
}

/// Two RoCE NICs. Each has its address once for each type.
fn with_types(first: &[&str], second: &[&str]) -> Value {
    let mut machine = machine();
    for (last, types) in [(1, first), (2, second)] {
        let gid = address(last).gid;
        let gids: Vec<_> = types.iter().map(|kind| json!({"gid": gid, "type": kind})).collect();
        machine["verbs"]["devices"][usize::from(last) - 1]["ports"] =
            json!([{"link_layer": "ethernet", "gids": gids}]);
    }
    machine
}

/// Writes 6 bytes from one end to the other; returns the completion and what arrived.
fn written(here: &mut End, there: &End) -> (Completion, [u8; 6]) {
    let [source, target] = [0, 1].map(|_| Buffer::new(4096, Pages::Ordinary).expect("memory"));
    source.write(0, b"routed").expect("it is inside");
    let local = here.domain.register(&source, Access::ALL);
    let remote = there.domain.register(&target, Access::ALL);
    let (local, remote) = (local.expect("a region"), remote.expect("a region"));
    let pieces = [local.sge(0, 6).expect("it is inside")];
    let request = Request::new(1, Work::Write(remote.remote(), None), &pieces);
    let completion = here.done(&request).expect("it is taken");
    let mut arrived = [0; 6];
    target.read(0, &mut arrived).expect("it is inside");
    (completion, arrived)
}

#[test]
fn routes_by_gid_and_type() {
    let types = ["roce1", "roce2"];
    let test = "roce::routes_by_gid_and_type";
    on(test, &with_types(&types, &types), || {
        let (mut here, there) = connected(address(1), address(2), 1);
        let (completion, arrived) = written(&mut here, &there);
        assert!(completion.outcome.is_ok(), "{completion:?}");
        assert_eq!(&arrived, b"routed");
    });
}

#[test]
fn rejects_lid_and_unknown_gid_index() {
    let types = ["roce1", "roce2"];
    let test = "roce::rejects_lid_and_unknown_gid_index";
    on(test, &with_types(&types, &types), || {
        let domain = domain("mlx5_0");
        let to = |address, index| domain.datagram(Route::of(1, index), address, 1, 0).map(drop);
        let by_lid = Address { lid: 9, gid: None };
        for refused in [to(by_lid, 0), to(address(2), 2)] {
            assert_eq!(refused.expect_err("no such path").errno(), Some(22));
        }
        to(address(2), 1).expect("an address");
    });
}

#[test]
fn types_do_not_mix() {
    let test = "roce::types_do_not_mix";
    on(test, &with_types(&["roce1"], &["roce2"]), || {
        let (mut here, there) = connected(address(1), address(2), 0);
        let (completion, arrived) = written(&mut here, &there);
        // IBV_WC_RETRY_EXC_ERR.
        assert_eq!(completion.outcome.expect_err("no answer").status, 12);
        assert_eq!(arrived, [0; 6]);
    });
}
