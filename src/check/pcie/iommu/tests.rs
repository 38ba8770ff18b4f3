//! IOMMU groups of all types, by platform and profile.

use crate::check::testing::{
    Edit, GPU, NIC, assert_fix_says, assert_says, findings, fix, gpu, machine, only, root_port,
    set_device_id,
};
use crate::model::{Fact, Facts, Finding, Outcome, Why};

/// The GPU in a group of this type, the NIC in an identity group.
fn with(kind: &str) -> Facts {
    let mut facts = machine();
    facts.attributes_mut(GPU).iommu_group = Fact::Known(Some(3));
    facts.attributes_mut(NIC).iommu_group = Fact::Known(Some(4));
    facts.kernel.iommu_groups =
        [(3, Fact::Known(kind.to_owned())), (4, Fact::Known("identity".to_owned()))].into();
    facts.kernel.iommus = Fact::Known(vec!["dmar0".to_owned()]);
    facts.kernel.command_line = Fact::Known("ro intel_iommu=on quiet".to_owned());
    facts
}

fn first(facts: &Facts, profile: &str) -> Finding {
    findings("pcie.iommu", facts, &[profile]).remove(0)
}

#[test]
fn off_and_identity_pass() {
    assert_eq!(
        only("pcie.iommu", &machine()).message,
        "The IOMMU is off: addresses are not translated."
    );
    let found = only("pcie.iommu", &with("identity"));
    assert_eq!(
        (found.outcome, found.subject.as_str()),
        (Outcome::Pass, "GPU0 (0000:03:00.0), NIC0 (0000:04:00.0)")
    );
    assert_eq!(found.evidence[0].value, "identity");
    let mut facts = machine();
    facts.platform.hypervisor_flag = Fact::Known(true);
    assert_says(&only("pcie.iommu", &facts), "The host's IOMMU is not visible");
    let mut facts = machine();
    facts.kernel.iommus = Fact::Known(vec!["dmar0".to_owned()]);
    assert_says(&only("pcie.iommu", &facts), "in no IOMMU group");
}

#[test]
fn translation_warns_for_rdma() {
    for kind in ["DMA", "DMA-FQ"] {
        let facts = with(kind);
        let found = findings("pcie.iommu", &facts, &["rdma"]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].outcome, found[1].outcome), (Outcome::Warn, Outcome::Pass));
        assert_eq!(found[0].subject, "GPU0 (0000:03:00.0)");
        let (id, advice) = fix(&found[0]);
        assert!(id == "iommu" && advice.contains("iommu=pt"), "{advice}");
        assert!(
            found[0]
                .evidence
                .iter()
                .any(|e| e.source == "/proc/cmdline" && e.value == "intel_iommu=on")
        );
    }
}

#[test]
fn translation_is_unproven_since_595_on_7_0() {
    for (driver, release, words) in [
        ("595.84", "7.0.0-30-generic", "unproven"),
        ("610.43.02", "7.1.2", "unproven"),
        ("595.84", "6.19.4", "works, but slowly"),
        ("580.142", "7.0.0-30-generic", "works, but slowly"),
        // Without .map_phys the modules do not map through the IOMMU.
        ("580.119.02", "6.19.4", "unproven"),
        ("570.300.01", "7.0.0-30-generic", "unproven"),
        ("580.119.02", "6.18.4", "works, but slowly"),
    ] {
        let mut facts = with("DMA-FQ");
        facts.driver.module_version = Fact::Known(Some(driver.to_owned()));
        facts.kernel.release = Fact::Known(release.to_owned());
        let found = first(&facts, "rdma");
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, words);
    }
    let mut facts = with("DMA-FQ");
    facts.driver.module_version = Fact::Unknown(Why::Denied);
    facts.driver.version_line = Fact::Unknown(Why::Denied);
    facts.kernel.release = Fact::Known("7.0.0-30-generic".to_owned());
    assert_says(&first(&facts, "rdma"), "version, which is unknown");
}

#[test]
fn translation_without_remapping_fails() {
    let mut facts = with("DMA");
    facts.param("DmaRemapPeerMmio", "0");
    assert_eq!(first(&facts, "rdma").outcome, Outcome::Fail);
}

#[test]
fn translation_fails_for_p2p_without_nvlink() {
    let mut facts = with("DMA");
    assert_eq!(first(&facts, "p2p").outcome, Outcome::Warn, "one GPU has no peer");
    facts.add(root_port("0000:00:05.0"));
    facts.add(gpu("0000:05:00.0"));
    // NVML does not list the second GPU, so no NVLink connects them.
    let found = first(&facts, "p2p");
    assert_eq!(found.outcome, Outcome::Fail);
    assert!(found.message.ends_with("may lose data silently."));
    assert_eq!(first(&facts, "rdma").outcome, Outcome::Warn);
    facts.nvml = Fact::Unknown(Why::NotCovered);
    assert!(first(&facts, "p2p").message.contains("unless NVLink connects it"));
    facts.platform.hypervisor_flag = Fact::Known(true);
    assert_eq!(first(&facts, "p2p").outcome, Outcome::Warn);
}

#[test]
fn translation_on_arm_is_info() {
    let mut facts = with("DMA");
    facts.platform.architecture = Fact::Known("aarch64".to_owned());
    let found = first(&facts, "rdma");
    assert_eq!(found.outcome, Outcome::Info);
    assert_fix_says(&found, "iommu.passthrough=1");
    set_device_id(&mut facts, GPU, 0x2342);
    let found = first(&facts, "rdma");
    assert_says(&found, "normal on Grace");
    assert_eq!((found.outcome, found.fix), (Outcome::Info, None));
}

#[test]
fn unknown_architecture_names_both_parameters() {
    let mut facts = with("DMA");
    facts.platform.architecture = Fact::Unknown(Why::NotCovered);
    let command = first(&facts, "rdma").fix.expect("a fix").text();
    assert!(command.contains("iommu=pt") && command.contains("iommu.passthrough=1"));
}

#[test]
fn unread_groups_are_unknown() {
    let mut facts = with("identity");
    facts.kernel.iommu_groups.insert(3, Fact::Unknown(Why::Denied));
    let found = findings("pcie.iommu", &facts, &[]);
    assert_eq!((found[0].outcome, found[1].outcome), (Outcome::Pass, Outcome::Unknown));
    assert_eq!(
        (found[0].subject.as_str(), found[1].subject.as_str()),
        ("NIC0 (0000:04:00.0)", "GPU0 (0000:03:00.0)")
    );
    facts.attributes_mut(NIC).iommu_group = Fact::Unknown(Why::NotCovered);
    assert_eq!(only("pcie.iommu", &facts).outcome, Outcome::Unknown);
}
