//! Machines on which the driver maps uncached.

use crate::check::testing::{Edit, ROOT_PORT, assert_says, machine, only};
use crate::model::{Fact, Ids, Outcome, PlatformKind};

#[test]
fn machines_with_uncached_mappings() {
    let mut facts = machine();
    facts.device_mut(ROOT_PORT).ids =
        Fact::Known(Ids { vendor: 0x15b3, device: Some(0xa2da), class: 0x06_0400 });
    assert_says(&only("param.iomap-wc", &facts), "BlueField-3");
    let mut facts = machine();
    facts.platform.architecture = Fact::Known("aarch64".to_owned());
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Pass);
    facts.platform.asserted = Some(PlatformKind::Guest);
    facts.driver.module_version = Fact::Known(Some("580.142".to_owned()));
    assert_eq!(only("param.iomap-wc", &facts).outcome, Outcome::Pass);
    facts.driver.module_version = Fact::Known(Some("590.44.01".to_owned()));
    assert_says(&only("param.iomap-wc", &facts), "guest on an Arm machine");
}
