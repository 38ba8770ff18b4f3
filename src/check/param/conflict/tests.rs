//! Lines that are usual, and lines that work against each other.

use crate::check::testing::{Edit, GPU, bind, findings, machine, only};
use crate::kmod;
use crate::model::{Fact, Facts, Finding, HiddenFile, Module, Outcome, Why};

/// The machine with this text as its one file, and this command line.
fn with(text: &str, command_line: &str) -> Facts {
    let mut facts = machine();
    facts.modprobe.directives =
        Fact::Known(kmod::directives("/etc/modprobe.d/a.conf", text).expect("few"));
    facts.modprobe.command_line = Fact::Known(kmod::command_line(command_line));
    facts
}

/// The driver is not there.
fn unloaded(mut facts: Facts) -> Facts {
    facts.driver.module_version = Fact::Known(None);
    facts.driver.version_line = Fact::Known(None);
    facts.driver.params = Fact::Known(None);
    facts
}

fn said(text: &str, command_line: &str) -> Vec<(Outcome, String)> {
    let found = findings("param.conflict", &with(text, command_line), &[]);
    found
        .into_iter()
        .map(|found| (found.outcome, found.message))
        .collect()
}

fn warned(text: &str, command_line: &str) -> Finding {
    let found = only("param.conflict", &with(text, command_line));
    assert_eq!(found.outcome, Outcome::Warn, "{found:#?}");
    found
}

#[test]
fn usual_lines_are_no_conflict() {
    for (text, words) in [
        ("", ""),
        (
            "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableGpuFirmware=0\n",
            "quiet",
        ),
        (
            "blacklist nouveau\noptions nouveau modeset=0\ninstall nouveau /bin/false\n",
            "modprobe.blacklist=nouveau",
        ),
        (
            "options nvidia NVreg_RegistryDwords=A=1\noptions nvidia NVreg_RegistryDwords=\"A=0;B=1\"\n",
            "",
        ),
        (
            "options nvidia_drm modeset=1\noptions nvidia-uvm uvm_disable_hmm=1\n",
            "nvidia-drm.modeset=1",
        ),
        (
            "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n",
            "",
        ),
        (
            "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\nalias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia\n\
             options nvidia NVreg_EnableMSI=1\n",
            "",
        ),
        ("softdep nvidia pre: mlx5_core\nblacklist nvidiafb\n", ""),
    ] {
        let found = only("param.conflict", &with(text, words));
        assert_eq!(found.outcome, Outcome::Pass, "{text}: {found:#?}");
    }
}

#[test]
fn of_two_strings_the_last_counts_and_the_fix_joins_them() {
    let text = "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\n\
                options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1\"\n";
    let found = warned(text, "");
    assert!(
        found
            .message
            .contains("PeerMappingOverride=1 of /etc/modprobe.d/a.conf:1 is lost"),
        "{}",
        found.message
    );
    let fix = found.fix.expect("a fix");
    assert_eq!(fix.id().unwrap_or("advice"), "modprobe");
    assert!(
        fix.text()
            .contains("NVreg_RegistryDwords=\"RMForceP2PType=1;PeerMappingOverride=1;\""),
        "{}",
        fix.text()
    );
    // The command line is read last.
    let found = warned(
        "options nvidia NVreg_RegistryDwords=A=1\n",
        "nvidia.NVreg_RegistryDwords=B=1",
    );
    assert!(
        found.message.contains("(/proc/cmdline)"),
        "{}",
        found.message
    );
}

#[test]
fn what_the_driver_passes_over_is_said() {
    let found = warned(
        "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1,RMForceP2PType=1\"\n",
        "",
    );
    assert!(
        found
            .message
            .contains("'PeerMappingOverride=1,RMForceP2PType=1'"),
        "{}",
        found.message
    );
}

#[test]
fn misspelt_parameters_are_named_with_what_was_meant() {
    for (line, meant) in [
        ("NVreg_EnableStreamMemOps=1", "NVreg_EnableStreamMemOPs"),
        ("NVReg_RegistryDwords=A=1", "NVreg_RegistryDwords"),
        ("EnableResizableBar=1", "NVreg_EnableResizableBar"),
    ] {
        let found = warned(&format!("options nvidia {line}\n"), "");
        assert!(
            found.message.contains(&format!("{meant} may be meant")),
            "{}",
            found.message
        );
    }
    let found = said("options nvidia NVreg_Quux=1\n", "");
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].0, found[1].0), (Outcome::Pass, Outcome::Info));
    let mut facts = with("options nvidia NVreg_OfRelease700=1\n", "");
    facts.param("OfRelease700", "0");
    assert_eq!(
        only("param.conflict", &facts).outcome,
        Outcome::Pass,
        "the loaded driver has it"
    );
}

#[test]
fn options_for_a_name_that_is_not_loaded_go_nowhere() {
    let found = warned("options nvidia-current NVreg_EnableMSI=1\n", "");
    assert!(
        found
            .message
            .starts_with("Options for nvidia_current reach nothing"),
        "{}",
        found.message
    );
    let found = warned(
        "install nvidia modprobe -i nvidia-current\noptions nvidia NVreg_EnableMSI=1\n",
        "",
    );
    assert!(
        found
            .message
            .contains("modprobe nvidia loads nvidia_current"),
        "{}",
        found.message
    );
    let text = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\noptions nvidia NVreg_EnableMSI=1\n";
    let found = warned(text, "");
    assert!(
        found.message.contains("udev loads nvidia_current"),
        "{}",
        found.message
    );
    assert!(
        found
            .fix
            .expect("a fix")
            .text()
            .contains("options nvidia-current NVreg_EnableMSI=1")
    );
    let both = format!("{text}options nvidia-current NVreg_EnableMSI=1\n");
    let found = findings("param.conflict", &with(&both, ""), &[]);
    let warnings = found.iter().filter(|found| found.outcome == Outcome::Warn);
    assert_eq!(warnings.count(), 0, "{found:#?}");
}

#[test]
fn modules_that_are_kept_from_loading() {
    for (text, words, says) in [
        (
            "install nvidia /bin/false\n",
            "",
            "a command that loads nothing",
        ),
        ("alias nvidia off\n", "", "'off'"),
        ("", "module_blacklist=nvidia", "The kernel refuses"),
        ("install mlx5_core /bin/true\n", "", "in place of mlx5_core"),
    ] {
        let found = warned(text, words);
        assert!(found.message.contains(says), "{}", found.message);
        // No file goes over the command line: gdr only names the word.
        let remedies = if words.is_empty() {
            "modprobe"
        } else {
            "advice"
        };
        assert_eq!(found.fix.expect("a fix").id().unwrap_or("advice"), remedies);
    }
    // One memory path of several.
    let found = said("install nvidia-peermem /bin/false\n", "");
    assert_eq!(
        (found[0].0, found[1].0),
        (Outcome::Pass, Outcome::Info),
        "{found:?}"
    );
}

#[test]
fn a_blacklist_matters_where_the_driver_is_not_loaded() {
    let found = said("blacklist nvidia\n", "");
    assert_eq!(
        (found[0].0, found[1].0),
        (Outcome::Pass, Outcome::Info),
        "{found:?}"
    );
    let found = only("param.conflict", &unloaded(with("blacklist nvidia\n", "")));
    assert_eq!(found.outcome, Outcome::Warn);
    assert!(
        found.message.contains("modprobe nvidia does"),
        "{}",
        found.message
    );
    // Every GPU is a guest's: nobody wants the driver here.
    let mut facts = unloaded(with("blacklist nvidia\n", ""));
    bind(&mut facts, GPU, Some("vfio-pci"));
    assert_eq!(only("param.conflict", &facts).outcome, Outcome::Pass);
}

#[test]
fn a_hidden_file_is_worth_knowing() {
    let mut facts = machine();
    facts.modprobe.hidden = vec![HiddenFile {
        path: "/usr/lib/modprobe.d/nvidia.conf".to_owned(),
        by: "/etc/modprobe.d/nvidia.conf".to_owned(),
    }];
    let found = findings("param.conflict", &facts, &[]);
    assert_eq!(
        (found[0].outcome, found[1].outcome),
        (Outcome::Pass, Outcome::Info)
    );
}

#[test]
fn what_is_unknown_is_no_pass_and_a_machine_without_a_gpu_has_no_conflict() {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Unknown(Why::Denied);
    let found = only("param.conflict", &facts);
    assert_eq!(
        (found.outcome, found.needs.as_deref()),
        (Outcome::Unknown, Some("root"))
    );
    let mut facts = with("install nvidia /bin/false\n", "");
    facts.pci = Fact::Known(Vec::new());
    assert_eq!(only("param.conflict", &facts).outcome, Outcome::Skip);
    let mut facts = with("blacklist mlx5_core\n", "");
    facts.kernel.modules = Fact::Known(vec![Module {
        name: "mlx5_core".to_owned(),
        users: Vec::new(),
    }]);
    let found = findings("param.conflict", &facts, &[]);
    assert!(
        found.iter().all(|found| found.outcome != Outcome::Warn),
        "{found:#?}"
    );
}
