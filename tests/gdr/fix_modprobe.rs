//! Repairs of modprobe.d: conflicting lines, verified by the real modprobe.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Bench, Kmod};
use serde_json::{Value, json};

fn bench(files: &Value) -> Bench {
    Bench::of("sound", &json!({ "files": files }))
}

/// The check's warnings.
fn warnings(bench: &Bench) -> Vec<String> {
    let run = bench.gdr(&["doctor", "--format", "json", "--only", "param.conflict"]);
    let report: Value = serde_json::from_str(&run.stdout).expect("a report");
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .filter(|found| ["warn", "fail"].contains(&found["outcome"].as_str().expect("an outcome")))
        .map(|found| found["message"].as_str().expect("a message").to_owned())
        .collect()
}

/// Repairs all warnings, calls `then`, verifies that nothing is left to repair, and undoes: files and warnings are as
/// before.
fn there_and_back(bench: &Bench, count: usize, then: impl FnOnce(&Bench)) {
    let before = bench.tree();
    let warned = warnings(bench);
    assert_eq!(warned.len(), count, "{warned:#?}");
    bench.repair(&["fix", "modprobe", "--yes"]).assert_code(0);
    assert_eq!(warnings(bench), Vec::<String>::new());
    then(bench);
    bench.assert_nothing_to_change(&["fix", "modprobe", "--yes"]);
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(warnings(bench), warned);
}

fn params(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn comments_out_blocking_lines() {
    let bench = bench(&json!({
        "etc/modprobe.d/site.conf": "# by hand\r\noptions snd a=1\n  install nvidia \\\n    /bin/false\nblacklist nouveau\nalias nvidia-uvm off",
        "etc/modprobe.d/z.conf": ["install nvidia /bin/true"],
        "usr/lib/modprobe.d/vendor.conf": ["# a vendor's", "install mlx5_core /bin/true", "options mlx5_core prof_sel=2"],
    }));
    let kmod = Kmod::new(&bench.root(), &["nvidia", "nvidia-uvm", "mlx5_core"]);
    let modules = ["nvidia", "nvidia_uvm", "mlx5_core"];
    assert_eq!(modules.map(|name| kmod.named(name)), [None, None, None]);
    // One warning per module.
    there_and_back(&bench, 3, |bench| {
        assert_eq!(
            bench.text("etc/modprobe.d/site.conf"),
            "# by hand\r\noptions snd a=1\n# gdr:   install nvidia \\\n# gdr:     /bin/false\nblacklist nouveau\n# gdr: alias nvidia-uvm off"
        );
        assert_eq!(bench.text("etc/modprobe.d/z.conf"), "# gdr: install nvidia /bin/true\n");
        assert_eq!(
            bench.text("etc/modprobe.d/vendor.conf"),
            "# a vendor's\n# gdr: install mlx5_core /bin/true\noptions mlx5_core prof_sel=2\n"
        );
        let names = modules.map(|name| kmod.named(name).map(|(name, _)| name).unwrap_or_default());
        assert_eq!(names, ["nvidia", "nvidia-uvm", "mlx5_core"]);
        assert_eq!(kmod.named("mlx5_core").expect("a module").1, params(&[("prof_sel", "2")]));
        assert!(kmod.config("install nvidia").is_empty() && kmod.config("install mlx5").is_empty());
        assert_eq!(kmod.config("blacklist nouveau"), ["blacklist nouveau"]);
    });
    assert_eq!(kmod.named("nvidia"), None);
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn removes_blacklist_of_unloaded_driver() {
    let bench = bench(&json!({
        "proc/modules": ["ib_core 544768 0 - Live 0x0000000000000000 (OE)", "mlx5_core 2514944 0 - Live 0x0000000000000000"],
        "run/modprobe.d/hook.conf": ["blacklist nvidiafb", "blacklist nvidia", "blacklist nouveau"],
    }));
    // The driver is not loaded.
    for path in ["proc/driver", "sys/module/nvidia"] {
        fs::remove_dir_all(bench.root().join(path)).expect("what a driver shows");
    }
    let kmod = Kmod::new(&bench.root(), &["nvidia"]);
    assert_eq!(kmod.by_device(), None);
    there_and_back(&bench, 1, |bench| {
        assert_eq!(
            bench.text("etc/modprobe.d/hook.conf"),
            "blacklist nvidiafb\n# gdr: blacklist nvidia\nblacklist nouveau\n"
        );
        assert_eq!(kmod.config("blacklist"), ["blacklist nvidiafb", "blacklist nouveau"]);
        assert_eq!(kmod.by_device(), Some(("nvidia".to_owned(), BTreeMap::new())));
    });
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn sets_ineffective_options_in_effective_file() {
    let bench = bench(&json!({
        "etc/modprobe.d/a.conf": ["options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableMSI=1"],
        "etc/modprobe.d/b.conf": [
            "options nvidia NVreg_EnableStreamMemOps=1 NVreg_EnableMSI=0",
            "options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1,DmaRemap=2\"",
        ],
        "usr/lib/modprobe.d/c.conf": ["# another name", "options nvidia-current NVreg_EnableResizableBar=1 NVreg_EnableMSI=1"],
    }));
    let kmod = Kmod::new(&bench.root(), &["nvidia"]);
    // Overridden, skipped, without effect, misspelt.
    there_and_back(&bench, 4, |bench| {
        let expected = params(&[
            ("NVreg_EnableMSI", "0"),
            ("NVreg_EnableResizableBar", "1"),
            ("NVreg_EnableStreamMemOPs", "1"),
            ("NVreg_RegistryDwords", "RMForceP2PType=1;DmaRemap=2;PeerMappingOverride=1;"),
        ]);
        assert_eq!(kmod.named("nvidia"), Some(("nvidia".to_owned(), expected.clone())));
        assert_eq!(kmod.by_device(), Some(("nvidia".to_owned(), expected)));
        assert!(kmod.config("options nvidia_current").is_empty());
        // Correct lines are kept.
        assert_eq!(
            bench.text("etc/modprobe.d/a.conf"),
            "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\" NVreg_EnableMSI=1\n"
        );
        assert_eq!(
            bench.text("etc/modprobe.d/b.conf"),
            "# gdr: options nvidia NVreg_EnableStreamMemOps=1 NVreg_EnableMSI=0\n\
             options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1,DmaRemap=2\"\n"
        );
    });
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn debian_driver_gets_options_by_both_loads() {
    let bench = bench(&json!({
        "etc/modprobe.d/nvidia.conf": ["install nvidia modprobe -i nvidia-current $CMDLINE_OPTS"],
        "etc/modprobe.d/own.conf": ["options nvidia NVreg_EnableStreamMemOPs=0", "options nvidia NVreg_EnableStreamMemOPs=1"],
        "etc/modprobe.d/p.conf": ["options nvidia-current NVreg_EnableMSI=1"],
    }));
    let kmod = Kmod::new(&bench.root(), &["nvidia-current"]);
    let module = "nvidia-current".to_owned();
    assert_eq!(kmod.by_device(), Some((module.clone(), params(&[("NVreg_EnableMSI", "1")]))));
    there_and_back(&bench, 1, |bench| {
        let expected = params(&[("NVreg_EnableMSI", "1"), ("NVreg_EnableStreamMemOPs", "1")]);
        assert_eq!(kmod.by_device(), Some((module.clone(), expected.clone())));
        assert_eq!(kmod.named("nvidia"), Some((module, expected)));
        assert!(
            bench
                .text("etc/modprobe.d/zz-gdr.conf")
                .contains("options nvidia-current NVreg_EnableStreamMemOPs=1\n")
        );
    });
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn repairs_driver_and_peer_mapping_together() {
    let bench = bench(&json!({
        "etc/modprobe.d/a.conf": ["options nvidia NVreg_RegistryDwords=A=1"],
        "etc/modprobe.d/b.conf": ["options nvidia NVreg_RegistryDwords=B=1"],
    }));
    let kmod = Kmod::new(&bench.root(), &["nvidia"]);
    let before = bench.tree();
    bench.repair(&["fix", "modprobe", "peer-mapping", "--yes"]).assert_code(0);
    let (_, with) = kmod.named("nvidia").expect("a module");
    assert_eq!(with, params(&[("NVreg_RegistryDwords", "B=1;A=1;PeerMappingOverride=1;")]));
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
}

#[test]
fn reports_manual_changes() {
    // The kernel command line.
    let bench = bench(&json!({ "proc/cmdline": ["ro module_blacklist=nvidia"] }));
    let before = bench.tree();
    let run = bench.repair(&["fix", "modprobe", "--yes"]);
    run.assert_code(1);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        output.contains("has module_blacklist=nvidia") && output.contains("remove it"),
        "{output}"
    );
    assert_eq!(bench.tree(), before);

    // A file that is a symbolic link.
    let bench = self::bench(&json!({ "etc/nvidia/modprobe.conf": ["install nvidia /bin/false"] }));
    let directory = bench.root().join("etc/modprobe.d");
    fs::create_dir_all(&directory).expect("a directory");
    symlink("../nvidia/modprobe.conf", directory.join("nvidia.conf")).expect("a link");
    let before = bench.tree();
    let run = bench.repair(&["fix", "modprobe", "--yes"]);
    run.assert_code(1);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("/etc/modprobe.d/nvidia.conf is a symbolic link"), "{output}");
    assert_eq!(bench.tree(), before);
}
