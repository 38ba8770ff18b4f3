//! Keys and machines that make mappings uncached.

use crate::check::testing::{Edit, ROOT_PORT, machine, only};
use crate::model::{Fact, Ids, Outcome, PlatformKind, Why};

#[test]
fn a_key_makes_mappings_uncached() {
    assert_eq!(only("param.iomap-wc", &machine()).outcome, Outcome::Pass);
    for (name, text) in [
        (
            "RegistryDwords",
            "PeerMappingOverride=1;rmforcedisableiomapwc=0x1",
        ),
        (
            "RegistryDwordsPerDevice",
            "pci=0000:03:00.0;RmForceDisableIomapWC=1",
        ),
    ] {
        let mut facts = machine();
        facts.param(name, text);
        let found = only("param.iomap-wc", &facts);
        assert_eq!(found.outcome, Outcome::Info, "{text}");
        assert!(found.message.contains("uncached") && found.fix.is_some());
    }
    // The driver compares with 1.
    let mut facts = machine();
    facts.param("RegistryDwords", "RmForceDisableIomapWC=2");
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Pass);
}

#[test]
fn some_machines_have_it_without_a_key() {
    let mut facts = machine();
    facts.device_mut(ROOT_PORT).ids = Fact::Known(Ids {
        vendor: 0x15b3,
        device: Some(0xa2da),
        class: 0x06_0400,
    });
    assert!(
        only("param.iomap-wc", &facts)
            .message
            .contains("BlueField-3")
    );
    let mut facts = machine();
    facts.platform.architecture = Fact::Known("aarch64".to_owned());
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Pass);
    facts.platform.asserted = Some(PlatformKind::Guest);
    assert!(
        only("param.iomap-wc", &facts)
            .message
            .contains("guest on an Arm machine")
    );
}

#[test]
fn unknown_parameters_are_no_pass() {
    let mut facts = machine();
    facts.driver.params = Fact::Unknown(Why::Denied);
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Unknown);
    facts.driver.params = Fact::Known(None);
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Skip);
}
