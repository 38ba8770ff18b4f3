//! Repairs through the built binary, on laid-out machines: finding, plan, repair, the check that holds, undo, the finding
//! again.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Bench, Run};

/// A switch above GPU and NIC whose two ports redirect, as the kernel sets them with an IOMMU on: SV RR CR UF.
fn redirecting() -> Value {
    json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "001d"}, "02:01.0": {"acs_ctl": "001d"}}}}}}}}})
}

fn config(bench: &Bench, bdf: &str) -> Vec<u8> {
    fs::read(bench.root().join(format!("sys/bus/pci/devices/{bdf}/config"))).expect("configuration space")
}

fn ended(run: &Run, code: i32) {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
}

#[test]
fn redirecting_ports_are_cleared_and_set_back() {
    let bench = Bench::of("sound", &redirecting());
    let before = bench.tree();
    let (gpu, nic) = (config(&bench, "0000:02:00.0"), config(&bench, "0000:02:01.0"));
    let failed = |bench: &Bench| {
        let found = bench.outcomes("pcie.acs", &[]);
        let failed: Vec<&str> = found
            .iter()
            .filter(|(_, o)| *o == "fail")
            .map(|(s, _)| s.as_str())
            .collect();
        assert_eq!(failed, ["0000:02:00.0", "0000:02:01.0"]);
    };
    failed(&bench);

    let plan = bench.gdr(&["fix-acs", "--dry-run"]);
    ended(&plan, 0);
    assert!(
        plan.stdout
            .contains("setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000:000c  (it reads 001d now)"),
        "{}",
        plan.stdout
    );
    assert_eq!(bench.tree(), before, "a dry run changes nothing");

    let run = bench.repair(&["fix-acs", "--yes"]);
    ended(&run, 0);
    assert!(run.stdout.contains("pcie.acs: it holds now."), "{}", run.stdout);
    assert!(bench.holds("pcie.acs", &[]));
    for (bdf, old) in [("0000:02:00.0", &gpu), ("0000:02:01.0", &nic)] {
        let new = config(&bench, bdf);
        let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
        // One byte: 1d (SV RR CR UF) becomes 11 (SV UF).
        assert_eq!(changed.len(), 1, "{bdf}");
        assert_eq!((old[changed[0]], new[changed[0]]), (0x1d, 0x11), "{bdf}");
    }
    let again = bench.repair(&["fix-acs", "--yes"]);
    ended(&again, 0);
    assert!(again.stdout.contains("Nothing is to be changed"), "{}", again.stdout);

    let undo = bench.repair(&["undo"]);
    ended(&undo, 0);
    assert_eq!(bench.tree(), before);
    failed(&bench);
    ended(&bench.repair(&["undo"]), 2);
}
