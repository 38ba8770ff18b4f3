//! Lines of modprobe.d that block modules or lose options.

use crate::check::testing::{GPU, assert_fix_says, assert_says, bind, findings, machine, only};
use crate::kmod;
use crate::model::{Fact, Facts, Finding, Module, Outcome, Why};

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

fn results(text: &str, command_line: &str) -> Vec<(Outcome, String)> {
    let found = findings("param.conflict", &with(text, command_line), &[]);
    found.into_iter().map(|found| (found.outcome, found.message)).collect()
}

fn warned(text: &str, command_line: &str) -> Finding {
    let found = only("param.conflict", &with(text, command_line));
    assert_eq!(found.outcome, Outcome::Warn, "{found:#?}");
    found
}

#[test]
fn fix_joins_overridden_registry_keys() {
    let text = "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\n\
                options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1\"\n";
    let found = warned(text, "");
    assert_says(&found, "PeerMappingOverride=1 of /etc/modprobe.d/a.conf:1 is lost");
    let fix = found.fix.expect("a fix");
    assert_eq!(fix.id().unwrap_or("advice"), "modprobe");
    assert!(
        fix.text().contains("NVreg_RegistryDwords=\"RMForceP2PType=1;PeerMappingOverride=1;\""),
        "{}",
        fix.text()
    );
    // The command line is read last.
    let found =
        warned("options nvidia NVreg_RegistryDwords=A=1\n", "nvidia.NVreg_RegistryDwords=B=1");
    assert_says(&found, "(/proc/cmdline)");
}

#[test]
fn options_for_unloaded_names() {
    let found = warned("options nvidia-current NVreg_EnableMSI=1\n", "");
    assert!(
        found.message.starts_with("Options for nvidia_current have no effect"),
        "{}",
        found.message
    );
    let found =
        warned("install nvidia modprobe -i nvidia-current\noptions nvidia NVreg_EnableMSI=1\n", "");
    assert_says(&found, "modprobe nvidia loads nvidia_current");
    let text = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\noptions nvidia NVreg_EnableMSI=1\n";
    let found = warned(text, "");
    assert_says(&found, "udev loads nvidia_current");
    assert_fix_says(&found, "options nvidia-current NVreg_EnableMSI=1");
    let both = format!("{text}options nvidia-current NVreg_EnableMSI=1\n");
    let found = findings("param.conflict", &with(&both, ""), &[]);
    let warnings = found.iter().filter(|found| found.outcome == Outcome::Warn);
    assert_eq!(warnings.count(), 0, "{found:#?}");
}

#[test]
fn blocked_modules() {
    for (text, words, says) in [
        ("install nvidia /bin/false\n", "", "a command that loads nothing"),
        ("alias nvidia off\n", "", "'off'"),
        ("", "module_blacklist=nvidia", "Kernel refuses"),
        ("install mlx5_core /bin/true\n", "", "in place of mlx5_core"),
    ] {
        let found = warned(text, words);
        assert_says(&found, says);
        // No file overrides the command line, so there is no fix.
        let remedies = if words.is_empty() { "modprobe" } else { "advice" };
        assert_eq!(found.fix.expect("a fix").id().unwrap_or("advice"), remedies);
    }
    // One memory path of several.
    let found = results("install nvidia-peermem /bin/false\n", "");
    assert_eq!((found[0].0, found[1].0), (Outcome::Pass, Outcome::Info), "{found:?}");
}

#[test]
fn blacklist_of_unloaded_driver() {
    let found = results("blacklist nvidia\n", "");
    assert_eq!((found[0].0, found[1].0), (Outcome::Pass, Outcome::Info), "{found:?}");
    let found = only("param.conflict", &unloaded(with("blacklist nvidia\n", "")));
    assert_eq!(found.outcome, Outcome::Warn);
    assert_says(&found, "modprobe nvidia does");
    // All GPUs are passed through, so the host needs no driver.
    let mut facts = unloaded(with("blacklist nvidia\n", ""));
    bind(&mut facts, GPU, Some("vfio-pci"));
    assert_eq!(only("param.conflict", &facts).outcome, Outcome::Pass);
}

#[test]
fn unknown_files_and_missing_gpus() {
    let mut facts = machine();
    facts.modprobe.directives = Fact::Unknown(Why::Denied);
    let found = only("param.conflict", &facts);
    assert_eq!((found.outcome, found.needs.as_deref()), (Outcome::Unknown, Some("root")));
    let mut facts = with("install nvidia /bin/false\n", "");
    facts.pci = Fact::Known(Vec::new());
    assert_eq!(only("param.conflict", &facts).outcome, Outcome::Skip);
    let mut facts = with("blacklist mlx5_core\n", "");
    facts.kernel.modules =
        Fact::Known(vec![Module { name: "mlx5_core".to_owned(), users: Vec::new() }]);
    let found = findings("param.conflict", &facts, &[]);
    assert!(found.iter().all(|found| found.outcome != Outcome::Warn), "{found:#?}");
}
