//! Ports of the small machine, changed one at a time.

use super::*;
use crate::check::testing::{Edit, findings, machine, only};
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
fn roce_wants_an_address_that_others_reach() {
    let mut gids = link_local();
    gids.push(gid(2, GidReach::Ipv4, "IB/RoCE v1", true));
    gids.push(gid(3, GidReach::Ipv4, ROCE_V2, true));
    let found = only("rdma.port", &roce(gids.clone()));
    assert_eq!(found.outcome, Outcome::Pass);
    assert_eq!(
        found.message,
        "The port is active; GID index 3 is RoCE v2 over IPv4, on eth0."
    );
    gids[3].mtu = Fact::Known(Some(1500));
    assert!(
        only("rdma.port", &roce(gids))
            .message
            .ends_with("4200 or more does not.")
    );
    let found = only("rdma.port", &roce(link_local()));
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(found.message.contains("its own segment"));
    assert_eq!(only("rdma.port", &roce(Vec::new())).outcome, Outcome::Warn);
}

#[test]
fn a_nic_that_is_nobodys_best_needs_no_address() {
    let mut facts = roce(link_local());
    let far = "0000:05:00.0";
    let mut card = crate::check::testing::rdma("mlx5_1", far);
    card.ports = facts.nic_mut().ports.clone();
    facts.add(crate::check::testing::gpu(far));
    let device = facts.device_mut(far);
    device.ids = Fact::Known(crate::model::Ids {
        vendor: crate::model::Ids::MELLANOX,
        device: Some(0x1021),
        class: 0x02_0000,
    });
    device.numa_node = Fact::Known(Some(1));
    if let Fact::Known(devices) = &mut facts.rdma {
        devices.push(card);
    }
    let found = findings("rdma.port", &facts, &[]);
    let said: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
    assert_eq!(said, [("mlx5_0", Outcome::Warn), ("mlx5_1", Outcome::Info)]);
}

#[test]
fn an_address_in_another_namespace_is_of_no_use_here() {
    let found = only("rdma.port", &roce(vec![gid(3, GidReach::Ipv6, ROCE_V2, false)]));
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(
        found
            .message
            .contains("belong to eth0, which is not in this network namespace")
    );
    let mut unknown = gid(3, GidReach::Ipv6, ROCE_V2, true);
    unknown.here = Fact::Unknown(Why::Denied);
    assert_eq!(only("rdma.port", &roce(vec![unknown])).outcome, Outcome::Unknown);
}

#[test]
fn a_port_that_is_down_is_no_fault_while_another_is_up() {
    let mut facts = machine();
    assert_eq!(only("rdma.port", &facts).outcome, Outcome::Pass);
    port_mut(&mut facts).state = known("DOWN");
    let found = findings("rdma.port", &facts, &[]);
    let said: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
    assert_eq!(said, [("mlx5_0", Outcome::Info), ("machine", Outcome::Warn)]);
    if let Fact::Known(ports) = &mut facts.nic_mut().ports {
        let up = RdmaPort {
            number: 2,
            state: known("ACTIVE"),
            ..ports[0].clone()
        };
        ports.push(up);
    }
    let found = findings("rdma.port", &facts, &[]);
    let said: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
    assert_eq!(said, [("mlx5_0/1", Outcome::Info), ("mlx5_0/2", Outcome::Pass)]);
}

#[test]
fn infiniband_without_a_subnet_manager_stays_in_init() {
    let mut facts = machine();
    port_mut(&mut facts).state = known("INIT");
    let found = findings("rdma.port", &facts, &[]);
    assert!(found[0].outcome == Outcome::Warn && found[0].message.contains("subnet manager"));
    port_mut(&mut facts).state = Fact::Unknown(Why::Denied);
    assert_eq!(only("rdma.port", &facts).outcome, Outcome::Unknown);
}

#[test]
fn the_payload_that_an_open_device_tells_is_evidence() {
    let mut facts = machine();
    let opened = VerbsTrial::Opened(VerbsDevice {
        ports: vec![VerbsPort {
            number: 1,
            active_mtu: Some(4096),
            largest_mtu: Some(4096),
        }],
        ..VerbsDevice::default()
    });
    if let Fact::Known(VerbsOutcome::Read(verbs)) = &mut facts.verbs {
        verbs.trials = Some([("mlx5_0".to_owned(), opened)].into());
    }
    let evidence = only("rdma.port", &facts).evidence;
    assert!(evidence.iter().any(|e| e.value == "4096 bytes"), "{evidence:?}");
}
