//! Root complexes, positions, parameters and guests.

use crate::check::testing::{
    Edit, GPU, NIC, ROOT_PORT, assert_says, findings, gpu, machine, only, outcomes, root_port,
    set_device_id,
};
use crate::model::{Fact, Facts, Ids, Outcome, PlatformKind, Why};

/// The machine with root ports of this maker and part.
fn with_root(vendor: u16, device: u16) -> Facts {
    let mut facts = machine();
    facts.param("GrdmaPciTopoCheckOverride", "0");
    facts.device_mut(ROOT_PORT).ids = Fact::Known(Ids {
        vendor,
        device: Some(device),
        class: 0x06_0400,
    });
    facts
}

const ALTRA: (u16, u16) = (0x1def, 0xe100);

/// An Altra with GPU and NIC below different root ports.
fn apart() -> Facts {
    let mut facts = with_root(ALTRA.0, ALTRA.1);
    facts.add(root_port("0000:00:05.0"));
    facts.add(gpu("0000:05:00.0"));
    facts
}

#[test]
fn needs_common_bridge() {
    let facts = apart();
    let found = findings("param.grdma-topo", &facts, &[]);
    assert_eq!(
        outcomes(&found),
        [
            ("GPU0 (0000:03:00.0)", Outcome::Pass),
            ("GPU1 (0000:05:00.0)", Outcome::Warn)
        ]
    );
    assert_says(&found[1], "Ampere Altra carries no peer traffic");
    assert!(found[1].message.contains(NIC) && found[1].fix.is_some());
}

#[test]
fn override_and_guest() {
    let mut facts = apart();
    facts.param("GrdmaPciTopoCheckOverride", "1");
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Pass);
    facts.param("GrdmaPciTopoCheckOverride", "2");
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Warn);
    facts.param("GrdmaPciTopoCheckOverride", "0");
    facts.platform.asserted = Some(PlatformKind::Guest);
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Pass);
    let mut facts = machine();
    facts.param("GrdmaPciTopoCheckOverride", "2");
    assert_eq!(
        only("param.grdma-topo", &facts).outcome,
        Outcome::Warn,
        "anywhere"
    );
    set_device_id(&mut facts, GPU, 0x2342);
    assert_eq!(
        only("param.grdma-topo", &facts).outcome,
        Outcome::Pass,
        "but on a coherent GPU"
    );
}

#[test]
fn old_drivers_and_unknown_facts() {
    let mut facts = apart();
    facts.driver.module_version = Fact::Known(Some("575.64.05".to_owned()));
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Skip);
    facts.driver.module_version = Fact::Known(Some("580.65.06".to_owned()));
    assert_eq!(findings("param.grdma-topo", &facts, &[]).len(), 2);
    let mut facts = machine();
    facts.driver.params = Fact::Unknown(Why::Denied);
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Unknown);
    let mut facts = apart();
    facts.rdma = Fact::Unknown(Why::NotCovered);
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Unknown);
    facts.rdma = Fact::Known(Vec::new());
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Skip);
}
