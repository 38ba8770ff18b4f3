//! Repairs of a translating IOMMU, on machines in directories: by group type if no driver is bound, else by kernel
//! parameter.

use std::fs;
use std::process::Command;

use crate::support::{Bench, merge};
use serde_json::{Value, json};

/// The machine `sound` with changes to GPU, NIC and more.
fn machine(gpu: Value, nic: Value, more: &Value) -> Bench {
    let mut whole = json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"below": {"03:00.0": gpu}}, "02:01.0": {"below": {"04:00.0": nic}}}}}}}}}});
    merge(&mut whole, more);
    Bench::of("sound", &whole)
}

/// GPU and NIC in translating groups with bound drivers; Debian's GRUB.
fn translating(more: &Value) -> Bench {
    let mut grub = json!({"files": {
        "usr/sbin/update-grub": "",
        "usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n",
        "etc/default/grub": "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
    }, "empty_dirs": ["etc/default/grub.d"]});
    merge(&mut grub, more);
    let gpu = json!({"is": "h200", "iommu": "DMA-FQ", "iommu_group": 13});
    let bench = machine(gpu, json!({"iommu": "DMA", "iommu_group": 14}), &grub);
    bench.tool("update-grub", "");
    bench
}

fn judged(bench: &Bench) -> Vec<String> {
    let found = bench.outcomes("pcie.iommu", &[]);
    found.into_iter().map(|(subject, outcome)| format!("{subject}: {outcome}")).collect()
}

fn set(bench: &Bench, path: &str, text: &str) {
    fs::write(bench.root().join(path), text).expect("a file");
}

/// GRUB's kernel command line: sources the settings like grub-mkconfig, and joins them like 10_linux.
fn sourced(bench: &Bench) -> String {
    let script = r#". etc/default/grub; for x in etc/default/grub.d/*.cfg; do if [ -e "$x" ]; then . "./$x"; fi; done
echo "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT""#;
    let sh = Command::new("sh")
        .args(["-ec", &script.replace(". etc", ". ./etc")])
        .current_dir(bench.root())
        .output();
    let sh = sh.expect("sh");
    assert!(sh.status.success(), "{sh:?}");
    String::from_utf8(sh.stdout).expect("a line").trim().to_owned()
}

#[test]
fn changes_group_type_of_unbound_gpu() {
    let gpu = json!({"is": "h200", "iommu": "DMA-FQ", "iommu_group": 13, "without": ["driver"]});
    let bench = machine(gpu, json!({}), &json!({}));
    let before = bench.tree();
    let warned = ["GPU0 (0000:03:00.0): warn", "NIC0 (0000:04:00.0): pass"];
    assert_eq!(judged(&bench), warned);
    let run = bench.repair(&["fix", "iommu", "--yes"]);
    run.assert_code(0);
    run.assert_stdout("echo identity > /sys/kernel/iommu_groups/13/type");
    run.assert_stdout("pcie.iommu: fixed.");
    assert_eq!(bench.text("sys/kernel/iommu_groups/13/type"), "identity\n");
    assert!(bench.holds("pcie.iommu", &[]));
    bench.assert_nothing_to_change(&["fix", "iommu", "--yes"]);
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(judged(&bench), warned);
}

#[test]
fn older_kernel_or_second_device_needs_kernel_parameter() {
    let gpu = json!({"is": "h200", "iommu": "DMA", "iommu_group": 13, "without": ["driver"]});
    let sound = json!({"files": {"usr/sbin/update-grub": "", "usr/sbin/grub-mkconfig": "default/grub.d/\n"}});
    let mut old = sound.clone();
    old["files"]["proc/sys/kernel/osrelease"] = json!(["5.10.0-30-amd64"]);
    // Two functions in the group: supported from 6.4 on, not in 6.1.
    let second = json!({"links": {
        "sys/kernel/iommu_groups/13/devices/0000:03:00.1": "../../../../devices/pci0000:00"}});
    let mut two = sound.clone();
    merge(&mut two, &second);
    let mut older = two.clone();
    older["files"]["proc/sys/kernel/osrelease"] = json!(["6.1.0-40-amd64"]);
    for (more, narrow) in [(sound, true), (old, false), (two, true), (older, false)] {
        let plan = machine(gpu.clone(), json!({}), &more).gdr(&["fix", "iommu", "--dry-run"]);
        plan.assert_code(0);
        assert_eq!(
            plan.stdout.contains("/sys/kernel/iommu_groups/13/type"),
            narrow,
            "{}",
            plan.stdout
        );
        assert_eq!(plan.stdout.contains("zz-gdr-iommu.cfg"), !narrow, "{}", plan.stdout);
    }
}

#[test]
fn bound_devices_need_kernel_parameter() {
    let bench = translating(&json!({}));
    let before = bench.tree();
    let warned = ["GPU0 (0000:03:00.0): warn", "NIC0 (0000:04:00.0): warn"];
    assert_eq!(judged(&bench), warned);
    let run = bench.repair(&["fix", "iommu", "--yes"]);
    run.assert_code(0);
    run.assert_stdout("fixed after the remaining actions");
    assert_eq!(bench.calls(), ["update-grub"]);
    assert_eq!(sourced(&bench), "quiet iommu=pt");
    bench.assert_nothing_to_change(&["fix", "iommu", "--yes"]);
    let doctor = bench.gdr(&["doctor", "--only", "pcie.iommu", "--format", "json"]);
    doctor.assert_stdout("zz-gdr-iommu.cfg passes iommu=pt to the kernel");

    // The reboot.
    let line = bench.text("proc/cmdline");
    set(&bench, "proc/cmdline", &format!("{} {}\n", line.trim_end(), sourced(&bench)));
    for (group, kind) in [("13", "DMA-FQ\n"), ("14", "DMA\n")] {
        let path = format!("sys/kernel/iommu_groups/{group}/type");
        assert_eq!(bench.text(&path), kind);
        set(&bench, &path, "identity\n");
    }
    assert!(bench.holds("pcie.iommu", &[]));
    bench.repair(&["fix", "iommu", "--yes"]).assert_code(0);

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["update-grub"]);
    assert_eq!(sourced(&bench), "quiet");
    set(&bench, "proc/cmdline", &line);
    set(&bench, "sys/kernel/iommu_groups/13/type", "DMA-FQ\n");
    set(&bench, "sys/kernel/iommu_groups/14/type", "DMA\n");
    assert_eq!(bench.tree(), before);
    assert_eq!(judged(&bench), warned);
}

#[test]
fn parameter_depends_on_architecture_and_is_set_once() {
    let arm = json!({"files": {"proc/cpuinfo": ["processor\t: 0", "CPU implementer\t: 0x41"]}});
    let plan = translating(&arm).gdr(&["fix", "iommu", "--dry-run"]);
    plan.assert_code(0);
    plan.assert_stdout("$GRUB_CMDLINE_LINUX_DEFAULT iommu.passthrough=1\"");
    let patch = json!({"files": {"proc/cmdline": ["BOOT_IMAGE=/vmlinuz ro iommu=pt"]}});
    let plan = translating(&patch).gdr(&["fix", "iommu", "--dry-run"]);
    plan.assert_code(1);
    plan.assert_stdout("has iommu=pt already");
    let guest = json!({"files": {"proc/cpuinfo": ["processor\t: 0", "vendor_id\t: GenuineIntel", "flags\t\t: fpu hypervisor"]}});
    let plan = translating(&guest).gdr(&["fix", "iommu", "--dry-run"]);
    plan.assert_code(1);
    plan.assert_stdout("start the guest without one");
}
