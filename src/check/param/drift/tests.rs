//! Copies of the options that agree, differ or cannot be read.

use crate::check::testing::{Edit, assert_says, findings, machine, only, options};
use crate::model::{Directive, Fact, Facts, Finding, Initramfs, Outcome, Why};

const FILE: &str = "/etc/modprobe.d/nvidia.conf";

/// The machine with these options in its one file.
fn with(line: &str) -> Facts {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Known(vec![options(FILE, "nvidia", line)]);
    facts
}

/// The machine whose initramfs has the driver and these options.
fn with_initramfs(directives: Vec<Directive>) -> Facts {
    let mut facts = machine();
    facts.modprobe.initramfs = Some(Fact::Known(Some(Initramfs {
        path: "/boot/initrd.img-6.8.0-90-generic".to_owned(),
        packing: vec!["zstd".to_owned()],
        modules: vec!["usr/lib/modules/6.8.0-90-generic/updates/dkms/nvidia-current.ko".to_owned()],
        directives,
        failure: None,
    })));
    facts
}

fn finding_on(facts: &Facts, subject: &str) -> Finding {
    let found = findings("param.drift", facts, &[]);
    let is_on = |found: &&Finding| found.subject.split(", ").any(|part| part == subject);
    let one = found.iter().find(is_on);
    one.unwrap_or_else(|| panic!("no finding on {subject}: {found:#?}")).clone()
}

#[test]
fn compares_loaded_and_written_options() {
    for line in [
        "NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableStreamMemOPs=0x0",
        "NVreg_RegistryDwords=peermappingoverride=0x1",
        "NVreg_RegistryDwords=\"PeerMappingOverride=1;DmaRemapPeerMmio=1\"",
        "NVreg_RegistryDwords=A=1 NVreg_RegistryDwords=\"PeerMappingOverride=1\" NVreg_NotShown=7 modeset=1",
    ] {
        let line_has_more = line.contains("Dma");
        let found = finding_on(&with(line), "driver");
        let want = if line_has_more { Outcome::Warn } else { Outcome::Pass };
        // The string is kept whole, so a key that is there once more makes another string.
        assert_eq!(found.outcome, want, "{line}: {found:#?}");
    }
}

#[test]
fn value_set_by_hand() {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Known(Vec::new());
    let found = finding_on(&facts, "driver");
    assert_eq!(found.outcome, Outcome::Warn);
    assert_says(&found, "its default, which nothing changes");
    let fix = found.fix.expect("a fix").text();
    assert!(
        fix.contains("options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\""),
        "{fix}"
    );
    facts.param("RegistryDwords", "");
    assert_eq!(finding_on(&facts, "driver").outcome, Outcome::Pass);
    // The kernel's command line counts as the file does.
    facts.param("EnableStreamMemOPs", "1");
    let mut word = options("/proc/cmdline", "nvidia", "NVreg_EnableStreamMemOPs=1");
    word.line = 0;
    facts.modprobe.command_line = Fact::Known(vec![word]);
    assert_eq!(finding_on(&facts, "driver").outcome, Outcome::Pass);
}

#[test]
fn driver_loaded_from_initramfs() {
    let mut facts = with_initramfs(vec![options("x", "nvidia", "NVreg_EnableStreamMemOPs=1")]);
    facts.param("RegistryDwords", "");
    facts.param("EnableStreamMemOPs", "1");
    let found = finding_on(&facts, "driver");
    assert_eq!(found.outcome, Outcome::Warn);
    assert_says(&found, "it was loaded from the initramfs");
}

#[test]
fn image_without_driver() {
    let found = finding_on(&machine(), "initramfs");
    assert_eq!(found.outcome, Outcome::Pass);
    let mut facts = with_initramfs(Vec::new());
    if let Some(Fact::Known(Some(image))) = &mut facts.modprobe.initramfs {
        image.modules = vec!["lib/modules/x/nvidia-drm.ko".to_owned()];
    }
    assert_eq!(finding_on(&facts, "initramfs").outcome, Outcome::Pass);
    facts.modprobe.initramfs = Some(Fact::Known(None));
    assert_eq!(finding_on(&facts, "initramfs").outcome, Outcome::Skip);
}

#[test]
fn unreadable_copies() {
    let mut facts = machine();
    facts.modprobe.initramfs = Some(Fact::Unknown(Why::Denied));
    let found = finding_on(&facts, "initramfs");
    assert_eq!((found.outcome, found.needs.as_deref()), (Outcome::Unknown, Some("root")));
    assert_eq!(finding_on(&facts, "driver").outcome, Outcome::Pass, "the other copies are known");
    let mut facts = with_initramfs(Vec::new());
    if let Some(Fact::Known(Some(image))) = &mut facts.modprobe.initramfs {
        image.failure = Some("it is packed with bzip2, which gdr does not read".to_owned());
    }
    let found = finding_on(&facts, "initramfs");
    assert_eq!(found.outcome, Outcome::Unknown);
    assert!(found.message.contains("bzip2") && found.needs.is_some());
    for unknown in [
        |facts: &mut Facts| facts.modprobe.directives = Fact::Unknown(Why::Denied),
        |facts: &mut Facts| facts.modprobe.command_line = Fact::Unknown(Why::Broken),
        |facts: &mut Facts| facts.driver.params = Fact::Unknown(Why::Denied),
        |facts: &mut Facts| {
            facts.platform.container_marks = Fact::Known(vec!["namespace pid:[1]".to_owned()])
        },
    ] {
        let mut facts = machine();
        unknown(&mut facts);
        assert_eq!(finding_on(&facts, "driver").outcome, Outcome::Unknown);
    }
    let mut facts = machine();
    facts.driver.params = Fact::Known(None);
    facts.modprobe.initramfs = None;
    assert_eq!(only("param.drift", &facts).outcome, Outcome::Skip);
}
