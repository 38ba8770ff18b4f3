//! Ports, GIDs and MTUs of the small machine.

use super::*;
use crate::check::testing::{Edit, assert_says, findings, machine, only, outcomes};
use crate::model::{Facts, Outcome, VerbsDevice, VerbsPort, Why};

fn known(text: &str) -> Fact<String> {
    Fact::Known(text.to_owned())
}

fn gid(index: u32, reach: GidReach, kind: &str, here: bool) -> RdmaGid {
    RdmaGid {
        index,
        reach,
        kind: known(kind),
        interface: Fact::Known(Some("eth0".to_owned())),
        here: Fact::Known(here),
        mtu: Fact::Known(here.then_some(9000)),
    }
}

fn port_mut(facts: &mut Facts) -> &mut RdmaPort {
    match &mut facts.nic_mut().ports {
        Fact::Known(ports) => &mut ports[0],
        Fact::Unknown(_) => panic!("no ports"),
    }
}

fn roce(gids: Vec<RdmaGid>) -> Facts {
    let mut facts = machine();
    let port = port_mut(&mut facts);
    port.link_layer = known("Ethernet");
    port.gids = Fact::Known(gids);
    facts
}

fn link_local() -> Vec<RdmaGid> {
    vec![
        gid(0, GidReach::LinkLocal, "IB/RoCE v1", true),
        gid(1, GidReach::LinkLocal, ROCE_V2, true),
    ]
}

#[test]
fn empty_gid_table_warns() {
    assert_eq!(only("rdma.port", &roce(Vec::new())).outcome, Outcome::Warn);
}

/// With port attributes from an open device.
fn with_verbs_port(mut facts: Facts, active: u32, largest: u32) -> Facts {
    let opened = VerbsTrial::Opened(VerbsDevice {
        ports: vec![VerbsPort { number: 1, active_mtu: Some(active), largest_mtu: Some(largest) }],
        ..VerbsDevice::default()
    });
    if let Fact::Known(VerbsOutcome::Read(verbs)) = &mut facts.verbs {
        verbs.trials = Some([("mlx5_0".to_owned(), opened)].into());
    }
    facts
}

#[test]
fn small_mtu_is_reported() {
    let with_mtu = |mtu: u32| {
        let mut gids = vec![gid(3, GidReach::Ipv4, ROCE_V2, true)];
        gids[0].mtu = Fact::Known(Some(mtu));
        roce(gids)
    };
    // As the kernel computes it, with 96 bytes of headers.
    for (mtu, outcome, word) in [
        (4192, Outcome::Pass, "on eth0."),
        (4191, Outcome::Info, "packets of 2048 bytes"),
        (1500, Outcome::Info, "packets of 1024 bytes: an MTU of 4192 or more allows 4096."),
        (1119, Outcome::Warn, "packets of 512 bytes"),
        (100, Outcome::Warn, "packets of 0 bytes"),
    ] {
        let found = only("rdma.port", &with_mtu(mtu));
        assert_eq!(found.outcome, outcome, "{mtu}");
        assert_says(&found, word);
        assert_eq!(found.fix.is_some(), outcome != Outcome::Pass);
    }
    for (facts, active, largest, outcome, word) in [
        (with_mtu(9000), 4096, 4096, Outcome::Pass, "on eth0."),
        (with_mtu(9000), 1024, 4096, Outcome::Info, "fewer than the 4096"),
        (with_mtu(1500), 1024, 4096, Outcome::Info, "MTU of 1500"),
        (with_mtu(1500), 1024, 1024, Outcome::Pass, "on eth0."),
        (machine(), 4096, 4096, Outcome::Pass, "active."),
        (machine(), 2048, 4096, Outcome::Info, "have 2048 of 4096 bytes"),
        (machine(), 512, 4096, Outcome::Warn, "have 512 of 4096 bytes"),
    ] {
        let found = only("rdma.port", &with_verbs_port(facts, active, largest));
        assert_eq!(found.outcome, outcome, "{active} of {largest}");
        assert_says(&found, word);
    }
    let mut down = with_verbs_port(machine(), 256, 4096);
    port_mut(&mut down).state = known("DOWN");
    let found = findings("rdma.port", &down, &[]);
    assert_eq!((found[0].outcome, found[0].message.as_str()), (Outcome::Info, "The port is DOWN."));
}

#[test]
fn distant_nic_needs_no_address() {
    let mut facts = roce(link_local());
    let far = "0000:05:00.0";
    let mut nic = crate::check::testing::rdma("mlx5_1", far);
    nic.ports = facts.nic_mut().ports.clone();
    facts.add(crate::check::testing::gpu(far));
    let device = facts.device_mut(far);
    device.ids = Fact::Known(crate::model::Ids {
        vendor: crate::model::Ids::MELLANOX,
        device: Some(0x1021),
        class: 0x02_0000,
    });
    device.numa_node = Fact::Known(Some(1));
    if let Fact::Known(devices) = &mut facts.rdma {
        devices.push(nic);
    }
    let found = findings("rdma.port", &facts, &[]);
    assert_eq!(outcomes(&found), [("mlx5_0", Outcome::Warn), ("mlx5_1", Outcome::Info)]);
}

#[test]
fn unknown_namespace_of_address() {
    let mut unknown = gid(3, GidReach::Ipv6, ROCE_V2, true);
    unknown.here = Fact::Unknown(Why::Denied);
    let found = only("rdma.port", &roce(vec![unknown]));
    assert_eq!(found.outcome, Outcome::Unknown);
}

#[test]
fn warns_only_if_all_ports_are_down() {
    let mut facts = machine();
    assert_eq!(only("rdma.port", &facts).outcome, Outcome::Pass);
    port_mut(&mut facts).state = known("DOWN");
    let found = findings("rdma.port", &facts, &[]);
    assert_eq!(outcomes(&found), [("mlx5_0", Outcome::Info), ("machine", Outcome::Warn)]);
    if let Fact::Known(ports) = &mut facts.nic_mut().ports {
        let up = RdmaPort { number: 2, state: known("ACTIVE"), ..ports[0].clone() };
        ports.push(up);
    }
    let found = findings("rdma.port", &facts, &[]);
    assert_eq!(outcomes(&found), [("mlx5_0/1", Outcome::Info), ("mlx5_0/2", Outcome::Pass)]);
}
