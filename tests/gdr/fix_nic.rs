//! Repairs of NICs on machines in directories: read request size, and the first BAR of a NIC for old GPUs.

use std::fs;

use crate::support::Bench;
use serde_json::{Value, json};

/// Below the switch of the machine `sound`.
fn below_the_switch(ports: Value) -> Value {
    json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": ports}}}}}}})
}

/// Device Control, read by the real setpci.
fn device_control(bench: &Bench, bdf: &str) -> String {
    bench.setpci(bdf, "CAP_EXP+8.w")
}

#[test]
#[ignore = "needs lspci"]
fn sets_read_request_size_and_undoes_it() {
    let bench = Bench::of(
        "sound",
        &below_the_switch(json!({"02:01.0": {"below": {"04:00.0": {"mrrs": 512}}}})),
    );
    let before = bench.tree();
    let says_so =
        |bench: &Bench| bench.outcomes("pcie.payload", &[]).get("NIC0 (0000:04:00.0)").cloned();
    assert_eq!(says_so(&bench).as_deref(), Some("info"));
    // 2 << 12: 512 bytes; bit 11: no snoop; 1 << 5: payload of 256; bit 4: relaxed ordering.
    assert_eq!(device_control(&bench, "0000:04:00.0"), "2830");

    bench.gdr(&["fix", "mrrs", "--dry-run"]).assert_code(0);
    assert_eq!(bench.tree(), before, "a dry run changes nothing");
    let run = bench.repair(&["fix", "mrrs", "--yes"]);
    run.assert_code(0);
    run.assert_stdout("setpci -s 0000:04:00.0 CAP_EXP+0x8.w=5000:7000  (it reads 2830 now)");
    run.assert_stdout("pcie.payload: fixed.");
    assert_eq!(device_control(&bench, "0000:04:00.0"), "5830");
    assert_eq!(says_so(&bench), None);
    bench.assert_nothing_to_change(&["fix", "mrrs", "--yes"]);

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(says_so(&bench).as_deref(), Some("info"));
}

#[test]
fn refuses_in_guest_and_under_lockdown() {
    let small = json!({"02:01.0": {"below": {"04:00.0": {"mrrs": 512}}}});
    let mut guest = below_the_switch(small.clone());
    guest["files"] = json!({"proc/cpuinfo": ["processor\t: 0", "vendor_id\t: GenuineIntel", "flags\t\t: fpu hypervisor"]});
    let run = Bench::of("sound", &guest).repair(&["fix", "mrrs", "--yes"]);
    run.assert_code(1);
    run.assert_stdout("virtual machine");
    let mut locked = below_the_switch(small);
    locked["files"] = json!({"sys/kernel/security/lockdown": ["none [integrity] confidentiality"]});
    let bench = Bench::of("sound", &locked);
    let run = bench.repair(&["fix", "mrrs", "--yes"]);
    run.assert_code(1);
    run.assert_stdout("locked down (integrity)");
    bench.repair(&["fix", "mrrs", "--yes", "--force"]).assert_code(0);
}

/// The setting in `mlxconfig -e q`, with the columns of mstflint 4.2x's manual.
fn settings(current: &str, next: &str) -> Value {
    let text = format!(
        "Configurations:                                          Default             Current             Next Boot\n        \
         NON_PREFETCHABLE_PF_BAR                     False(0)            {current}            {next}\n"
    );
    json!({"mlxconfig -d 0000:04:00.0 -e q": {"answered": {"code": 0, "text": text}}})
}

/// A Tesla K40m beside the NIC, and mlxconfig.
fn kepler(tools: &str) -> Bench {
    let mut patch = below_the_switch(
        json!({"02:00.0": {"below": {"03:00.0": {"is": "h200", "device": "1023"}}}}),
    );
    patch["files"] = json!({
        tools: ["#!/bin/sh"],
        "gdr/tools.json": settings("False(0)", "False(0)").to_string(),
    });
    let bench = Bench::of("sound", &patch);
    // As documented, the program sets the value for the next boot.
    bench.tool(
        "mlxconfig",
        r#"case "$*" in
  "-y -d 0000:04:00.0 set NON_PREFETCHABLE_PF_BAR=1") sed -i 's/False(0)\\n/True(1)\\n/' "$GDR_ROOT/gdr/tools.json" ;;
  "-y -d 0000:04:00.0 set NON_PREFETCHABLE_PF_BAR=0") sed -i 's/True(1)\\n/False(0)\\n/' "$GDR_ROOT/gdr/tools.json" ;;
  *) echo "-E- bad arguments" >&2; exit 1 ;;
esac"#,
    );
    bench
}

/// A firmware reset: bit 3 of the first BAR is cleared, and the next value becomes current.
fn reset(bench: &Bench, prefetchable: bool) {
    let path = bench.root().join("sys/bus/pci/devices/0000:04:00.0/config");
    let mut bytes = bench.config("0000:04:00.0");
    bytes[0x10] = bytes[0x10] & !8 | if prefetchable { 8 } else { 0 };
    fs::write(path, bytes).expect("configuration space");
    let now = if prefetchable { "False(0)" } else { "True(1)" };
    fs::write(bench.root().join("gdr/tools.json"), settings(now, now).to_string())
        .expect("what mlxconfig answers");
}

#[test]
fn makes_first_bar_non_prefetchable() {
    let bench = kepler("usr/bin/mlxconfig");
    let before = bench.tree();
    let outcome = |bench: &Bench| {
        bench.outcomes("rdma.nonprefetchable", &["--profile", "async"])["mlx5_0"].clone()
    };
    assert_eq!(outcome(&bench), "fail");

    let plan = bench.gdr(&["fix", "nonprefetchable", "--profile", "async", "--dry-run"]);
    plan.assert_code(0);
    for word in ["below 4 GiB", "32 MiB", "PF_LOG_BAR_SIZE", "mlxfwreset -d 0000:04:00.0 reset"] {
        assert!(plan.stdout.contains(word), "{word}: {}", plan.stdout);
    }
    assert!(bench.calls().is_empty());

    bench.repair(&["fix", "nonprefetchable", "--profile", "async", "--yes"]).assert_code(0);
    assert_eq!(bench.calls(), ["mlxconfig -y -d 0000:04:00.0 set NON_PREFETCHABLE_PF_BAR=1"]);
    assert_eq!(outcome(&bench), "fail", "not before the reset");
    bench.assert_nothing_to_change(&["fix", "nonprefetchable", "--profile", "async", "--yes"]);
    assert!(bench.calls().is_empty());
    reset(&bench, false);
    assert_eq!(outcome(&bench), "pass");

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["mlxconfig -y -d 0000:04:00.0 set NON_PREFETCHABLE_PF_BAR=0"]);
    reset(&bench, true);
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench), "fail");
}

#[test]
fn uses_mstconfig_or_reports_missing_tool() {
    let plan = kepler("usr/bin/mstconfig").gdr(&["fix", "nonprefetchable", "--dry-run"]);
    plan.assert_code(0);
    let command = "mstconfig -y -d 0000:04:00.0 set NON_PREFETCHABLE_PF_BAR=1";
    assert!(plan.stdout.contains(command), "{}", plan.stdout);
    let plan = kepler("usr/bin/other").gdr(&["fix", "nonprefetchable", "--dry-run"]);
    plan.assert_code(1);
    plan.assert_stdout("package mstflint");
    let plan = Bench::of("sound", &json!({})).gdr(&["fix", "nonprefetchable", "--dry-run"]);
    plan.assert_code(0);
    plan.assert_stdout("Nothing to change");
}
