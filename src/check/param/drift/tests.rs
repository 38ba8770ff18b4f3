//! Three copies that agree, differ, and cannot be read.

use crate::check::testing::{Edit, findings, machine, only, options};
use crate::model::{Directive, Fact, Facts, Finding, Initramfs, Outcome, Why};

const FILE: &str = "/etc/modprobe.d/nvidia.conf";

/// The machine with these options in its one file.
fn with(line: &str) -> Facts {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Known(vec![options(FILE, "nvidia", line)]);
    facts
}

/// The machine whose initramfs has the driver and these options.
fn carrying(directives: Vec<Directive>) -> Facts {
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

fn of(facts: &Facts, subject: &str) -> Finding {
    let found = findings("param.drift", facts, &[]);
    let one = found.iter().find(|found| found.subject == subject);
    one.unwrap_or_else(|| panic!("no finding on {subject}: {found:#?}"))
        .clone()
}

#[test]
fn what_is_loaded_is_what_is_written() {
    for line in [
        "NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableStreamMemOPs=0x0",
        "NVreg_RegistryDwords=peermappingoverride=0x1",
        "NVreg_RegistryDwords=\"PeerMappingOverride=1;DmaRemapPeerMmio=1\"",
        "NVreg_RegistryDwords=A=1 NVreg_RegistryDwords=\"PeerMappingOverride=1\" NVreg_NotShown=7 modeset=1",
    ] {
        let line_has_more = line.contains("Dma");
        let found = of(&with(line), "driver");
        let want = if line_has_more {
            Outcome::Warn
        } else {
            Outcome::Pass
        };
        // The string is kept whole, so a key that is there once more makes another string.
        assert_eq!(found.outcome, want, "{line}: {found:#?}");
    }
}

#[test]
fn a_value_that_was_written_later_is_not_in_effect() {
    let found = of(
        &with("NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableStreamMemOPs=1"),
        "driver",
    );
    assert_eq!(found.outcome, Outcome::Warn);
    assert_eq!(
        found.message,
        "The loaded driver has EnableStreamMemOPs=0, and the next load will use EnableStreamMemOPs=1 \
         (/etc/modprobe.d/nvidia.conf:1)."
    );
}

#[test]
fn a_value_that_was_given_by_hand_is_gone_at_the_next_load() {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Known(Vec::new());
    let found = of(&facts, "driver");
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(
        found
            .message
            .contains("its default, which nothing sets otherwise"),
        "{}",
        found.message
    );
    let fix = found.fix.expect("a fix").text();
    assert!(
        fix.contains("options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\""),
        "{fix}"
    );
    facts.param("RegistryDwords", "");
    assert_eq!(of(&facts, "driver").outcome, Outcome::Pass);
    // The kernel's command line counts as the file does.
    facts.param("EnableStreamMemOPs", "1");
    let mut word = options("/proc/cmdline", "nvidia", "NVreg_EnableStreamMemOPs=1");
    word.line = 0;
    facts.modprobe.command_line = Fact::Known(vec![word]);
    assert_eq!(of(&facts, "driver").outcome, Outcome::Pass);
}

#[test]
fn an_old_initramfs_wins_at_the_next_boot() {
    let stale = options(
        "/boot/initrd.img-6.8.0-90-generic: etc/modprobe.d/nvidia.conf",
        "nvidia",
        "NVreg_EnableMSI=1",
    );
    let found = of(&carrying(vec![stale]), "initramfs");
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(
        found.message.contains("the initramfs wins"),
        "{}",
        found.message
    );
    let fix = found.fix.expect("a fix");
    assert_eq!(
        (fix.id().unwrap_or("advice"), fix.text().as_str()),
        ("initramfs", "update-initramfs -u -k 6.8.0-90-generic")
    );
    let same = options("x", "nvidia", "NVreg_RegistryDwords=PeerMappingOverride=1");
    assert_eq!(
        of(&carrying(vec![same]), "initramfs").outcome,
        Outcome::Pass
    );
}

#[test]
fn a_driver_that_came_from_the_initramfs_is_said_to() {
    let mut facts = carrying(vec![options("x", "nvidia", "NVreg_EnableStreamMemOPs=1")]);
    facts.param("RegistryDwords", "");
    facts.param("EnableStreamMemOPs", "1");
    let found = of(&facts, "driver");
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(
        found.message.contains("it was loaded from the initramfs"),
        "{}",
        found.message
    );
}

#[test]
fn an_image_without_the_driver_changes_nothing() {
    let found = of(&machine(), "initramfs");
    assert_eq!(found.outcome, Outcome::Pass);
    let mut facts = carrying(Vec::new());
    if let Some(Fact::Known(Some(image))) = &mut facts.modprobe.initramfs {
        image.modules = vec!["lib/modules/x/nvidia-drm.ko".to_owned()];
    }
    assert_eq!(of(&facts, "initramfs").outcome, Outcome::Pass);
    facts.modprobe.initramfs = Some(Fact::Known(None));
    assert_eq!(of(&facts, "initramfs").outcome, Outcome::Skip);
}

#[test]
fn what_cannot_be_read_is_unknown_and_says_what_would_tell() {
    let mut facts = machine();
    facts.modprobe.initramfs = Some(Fact::Unknown(Why::Denied));
    let found = of(&facts, "initramfs");
    assert_eq!(
        (found.outcome, found.needs.as_deref()),
        (Outcome::Unknown, Some("root"))
    );
    assert_eq!(
        of(&facts, "driver").outcome,
        Outcome::Pass,
        "the other copies are known"
    );
    let mut facts = carrying(Vec::new());
    if let Some(Fact::Known(Some(image))) = &mut facts.modprobe.initramfs {
        image.failure = Some("it is packed with bzip2, which gdr does not read".to_owned());
    }
    let found = of(&facts, "initramfs");
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
        assert_eq!(of(&facts, "driver").outcome, Outcome::Unknown);
    }
    let mut facts = machine();
    facts.driver.params = Fact::Known(None);
    facts.modprobe.initramfs = None;
    assert_eq!(only("param.drift", &facts).outcome, Outcome::Skip);
}
