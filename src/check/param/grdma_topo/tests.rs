//! Root complexes, positions, parameters and guests.

use crate::check::testing::{
    Edit, GPU, NIC, ROOT_PORT, assert_says, bind, findings, gpu, machine, only, outcomes,
    root_port, set_device_id,
};
use crate::model::{Fact, Facts, Ids, Outcome, PlatformKind, Verdict, Why};
use crate::topo::topology;

/// The machine with root ports of this maker and part.
fn with_root(vendor: u16, device: u16) -> Facts {
    let mut facts = machine();
    facts.param("GrdmaPciTopoCheckOverride", "0");
    facts.device_mut(ROOT_PORT).ids =
        Fact::Known(Ids { vendor, device: Some(device), class: 0x06_0400 });
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
        [("GPU0 (0000:03:00.0)", Outcome::Pass), ("GPU1 (0000:05:00.0)", Outcome::Warn)]
    );
    assert_says(&found[1], "Ampere Altra carries no peer traffic");
    assert!(found[1].message.contains(NIC) && found[1].fix.is_some());
}

/// A NIC whose function is unknown is not a NIC that is missing, whatever rule the driver has for the GPU.
#[test]
fn nic_without_a_known_function_is_unknown_or_a_note() {
    for (mut facts, outcome) in [
        (apart(), Outcome::Unknown),
        (coherent("580.159.04", "0", [Some(0), Some(1)]), Outcome::Info),
    ] {
        if let Fact::Known(nics) = &mut facts.rdma {
            nics.iter_mut().for_each(|nic| nic.place = Fact::Unknown(Why::NotCovered));
        }
        let found = findings("param.grdma-topo", &facts, &[]);
        assert!(!found.is_empty());
        for finding in found {
            assert_eq!(finding.outcome, outcome, "{}", finding.message);
        }
    }
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
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Warn, "anywhere");
}

/// A GB200 and a NIC below one switch, with this driver, override and IOMMU groups.
fn coherent(driver: &str, value: &str, groups: [Option<u32>; 2]) -> Facts {
    let mut facts = machine();
    set_device_id(&mut facts, GPU, 0x2941);
    facts.driver.module_version = Fact::Known(Some(driver.to_owned()));
    facts.param("GrdmaPciTopoCheckOverride", value);
    facts.attributes_mut(GPU).iommu_group = Fact::Known(groups[0]);
    facts.attributes_mut(NIC).iommu_group = Fact::Known(groups[1]);
    facts
}

/// kernel-open/nvidia/nv-pci.c, nv_pci_is_valid_topology_for_direct_pci, at these tags.
#[test]
fn forced_mapping_of_coherent_gpus() {
    let (apart, together, none) = ([Some(1), Some(2)], [Some(3), Some(3)], [None, None]);
    for (driver, value, groups, outcome) in [
        ("565.77", "0", apart, Outcome::Pass),
        ("570.86.15", "0", apart, Outcome::Warn),
        ("575.64.05", "2", apart, Outcome::Pass),
        ("575.64.05", "0", together, Outcome::Pass),
        ("580.65.06", "0", apart, Outcome::Warn),
        ("580.65.06", "0", none, Outcome::Pass),
        ("580.142", "1", apart, Outcome::Pass),
        ("580.142", "2", together, Outcome::Warn),
        ("590.48.01", "0", together, Outcome::Pass),
        ("595.45.04", "1", apart, Outcome::Warn),
        ("595.45.04", "2", together, Outcome::Pass),
        ("595.45.04", "0", [Some(1), None], Outcome::Warn),
        ("595.91.07", "0", [Some(1), None], Outcome::Unknown),
        ("595.91.07", "1", apart, Outcome::Warn),
        ("610.12", "0", apart, Outcome::Unknown),
        // No published source of this driver says that one group is enough.
        ("610.12", "0", together, Outcome::Unknown),
        ("610.12", "0", none, Outcome::Unknown),
    ] {
        let found = only("param.grdma-topo", &coherent(driver, value, groups));
        assert_eq!(found.outcome, outcome, "{driver} {value} {groups:?}: {}", found.message);
    }
}

#[test]
fn forced_mapping_depends_on_software() {
    // On another root port NCCL uses the default mapping; the plugin for EFA never does.
    let mut facts = coherent("580.142", "0", [Some(1), Some(2)]);
    facts.device_mut(NIC).place = facts.device_mut(ROOT_PORT).place.clone();
    let found = only("param.grdma-topo", &facts);
    assert_eq!(found.outcome, Outcome::Info, "{}", found.message);
    assert_says(&found, "NCCL 2.27 and later does not ask");
    facts.driver.module_version = Fact::Known(Some("610.12".to_owned()));
    let found = only("param.grdma-topo", &facts);
    assert_eq!(found.outcome, Outcome::Info, "{}", found.message);
    assert!(!found.message.contains("denies"), "{}", found.message);
    facts.driver.module_version = Fact::Known(Some("580.142".to_owned()));
    facts.device_mut(NIC).ids =
        Fact::Known(Ids { vendor: 0x1d0f, device: Some(0xefa3), class: 0x02_0000 });
    let found = only("param.grdma-topo", &facts);
    assert_eq!(found.outcome, Outcome::Warn, "{}", found.message);
    assert_says(&found, "aws-ofi-nccl");
    assert!(found.fix.is_some_and(|fix| fix.text().contains("NVreg_GrdmaPciTopoCheckOverride=1")));
    bind(&mut facts, NIC, Some("efa"));
    let found = only("peermem.loaded", &facts);
    assert_eq!(found.outcome, Outcome::Warn, "{}", found.message);
    facts.driver.module_version = Fact::Known(Some("610.12".to_owned()));
    assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
    facts.driver.module_version = Fact::Known(Some("580.142".to_owned()));
    facts.attributes_mut(NIC).iommu_group = Fact::Unknown(Why::Denied);
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Unknown);
}

/// The verdict of `gdr topo` on the GPU's best NIC, and whether it is the one below the GPU's switch.
#[test]
fn topo_follows_the_driver() {
    for (driver, value, verdict) in [
        ("580.142", "0", Verdict::Bad),
        ("580.142", "1", Verdict::Good),
        ("595.45.04", "1", Verdict::Bad),
        ("610.12", "1", Verdict::Unknown),
    ] {
        let facts = coherent(driver, value, [Some(1), Some(2)]);
        let topology = topology(&facts);
        let found = &topology.matches[0];
        assert_eq!(found.verdict, verdict, "{driver} {value}: {}", found.reason);
        assert_eq!(found.advice.is_some(), verdict == Verdict::Bad);
        assert!(found.reason.contains("PIX"), "{}", found.reason);
    }
    let mut facts = coherent("580.142", "0", [Some(1), Some(2)]);
    facts.attributes_mut(NIC).iommu_group = Fact::Unknown(Why::NotCovered);
    assert_eq!(topology(&facts).matches[0].verdict, Verdict::Unknown);
    facts.driver = Default::default();
    assert_eq!(topology(&facts).matches[0].verdict, Verdict::Unknown);
}

#[test]
fn unknown_model_has_no_rule() {
    let mut facts = machine();
    set_device_id(&mut facts, GPU, 0x3041);
    assert_eq!(only("param.grdma-topo", &facts).outcome, Outcome::Unknown);
    // Below one switch the path is PCI Express whatever the model.
    assert_eq!(topology(&facts).matches[0].verdict, Verdict::Good);
    facts.device_mut(NIC).place = facts.device_mut(ROOT_PORT).place.clone();
    assert_eq!(topology(&facts).matches[0].verdict, Verdict::Unknown);
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
