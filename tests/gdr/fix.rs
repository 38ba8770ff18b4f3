//! Repairs through the built binary, on machines in directories: finding, plan, repair, check, undo, finding.

use crate::support::Bench;
use serde_json::{Value, json};

/// A switch above GPU and NIC whose two ports redirect, as set by the kernel with an IOMMU: SV RR CR UF.
fn redirecting() -> Value {
    json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "001d"}, "02:01.0": {"acs_ctl": "001d"}}}}}}}}})
}

#[test]
fn clears_redirecting_ports_and_undoes_it() {
    let bench = Bench::of("sound", &redirecting());
    let before = bench.tree();
    let (gpu, nic) = (bench.config("0000:02:00.0"), bench.config("0000:02:01.0"));
    let failed = |bench: &Bench| {
        let found = bench.outcomes("pcie.acs", &[]);
        let failed: Vec<&str> =
            found.iter().filter(|(_, o)| *o == "fail").map(|(s, _)| s.as_str()).collect();
        assert_eq!(failed, ["0000:02:00.0", "0000:02:01.0"]);
    };
    failed(&bench);

    let plan = bench.gdr(&["fix-acs", "--dry-run"]);
    plan.assert_code(0);
    plan.assert_stdout("setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000:000c  (it reads 001d now)");
    assert_eq!(bench.tree(), before, "a dry run changes nothing");

    let run = bench.repair(&["fix-acs", "--yes"]);
    run.assert_code(0);
    run.assert_stdout("pcie.acs: fixed.");
    assert!(bench.holds("pcie.acs", &[]));
    for (bdf, old) in [("0000:02:00.0", &gpu), ("0000:02:01.0", &nic)] {
        let new = bench.config(bdf);
        let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
        // One byte: 1d (SV RR CR UF) becomes 11 (SV UF).
        assert_eq!(changed.len(), 1, "{bdf}");
        assert_eq!((old[changed[0]], new[changed[0]]), (0x1d, 0x11), "{bdf}");
    }
    bench.assert_nothing_to_change(&["fix-acs", "--yes"]);

    let undo = bench.repair(&["undo"]);
    undo.assert_code(0);
    assert_eq!(bench.tree(), before);
    failed(&bench);
    bench.repair(&["undo"]).assert_code(2);
}

/// A recorded machine gets the same plan, but is not repaired.
#[test]
fn plans_for_recorded_machine() {
    let bench = Bench::of("sound", &redirecting());
    let file = bench.tools().join("snapshot.json");
    let file = file.to_str().expect("a path");
    bench.gdr(&["snapshot", "-o", file]).assert_code(0);
    for format in ["table", "script", "json"] {
        let args = ["fix-acs", "--dry-run", "--format", format];
        let here = bench.gdr(&args);
        let there = crate::support::gdr(&[&args[..], &["--from", file]].concat());
        here.assert_code(0);
        // The host says where it was read from.
        let plan = |text: &str| match serde_json::from_str::<serde_json::Value>(text) {
            Ok(mut document) => {
                document["host"] = serde_json::Value::Null;
                document.to_string()
            }
            Err(_) => text.to_owned(),
        };
        assert_eq!((plan(&here.stdout), here.code), (plan(&there.stdout), there.code), "{format}");
        here.assert_stdout("0000:02:01.0");
    }
    let run = crate::support::gdr(&["fix-acs", "--yes", "--from", file]);
    run.assert_code(2);
    run.assert_stderr("--format script");
}

/// Only the chosen ports: one port, one pair, every bridge.
#[test]
fn selects_ports() {
    let redirecting = json!({"roots": {"0000:00": {"below": {"00:01.0": {"acs_ctl": "001d", "below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "003d"}, "02:01.0": {"acs_ctl": "0019"}}}}}}}}});
    let bench = Bench::of("sound", &redirecting);
    let plan = |args: &[&str]| {
        let run = bench.gdr(&[&["fix-acs", "--dry-run", "--format", "json"], args].concat());
        run.assert_code(0);
        let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
        let steps = plan["repairs"][0]["steps"].as_array().expect("steps").clone();
        let step = |step: &Value| {
            (
                step["bdf"].as_str().expect("an address").to_owned(),
                step["old"].as_u64().expect("a value"),
                step["new"].as_u64().expect("a value"),
            )
        };
        steps.iter().map(step).collect::<Vec<_>>()
    };
    let of = |bdf: &str, old, new| (bdf.to_owned(), old, new);
    // Egress control is kept if no vector bit blocks the other port.
    let (gpu, nic) = (of("0000:02:00.0", 0x3d, 0x31), of("0000:02:01.0", 0x19, 0x11));
    assert_eq!(plan(&[]), [gpu.clone(), nic.clone()]);
    assert_eq!(plan(&["--pair", "GPU0", "NIC0"]), [gpu, nic.clone()]);
    assert_eq!(plan(&["--pair", "gpu0", "mlx5_0"]).len(), 2);
    assert_eq!(plan(&["--device", "0000:02:01.0"]), std::slice::from_ref(&nic));
    // --all-bridges also clears egress control; the root port is not part of the pair.
    assert_eq!(
        plan(&["--all-bridges"]),
        [of("0000:00:01.0", 0x1d, 0x11), of("0000:02:00.0", 0x3d, 0x11), nic]
    );
    let unknown = bench.gdr(&["fix-acs", "--dry-run", "--pair", "GPU0", "GPU7"]);
    unknown.assert_code(1);
    unknown.assert_stdout("There is no device GPU7");
}

/// Refusals with their reasons.
#[test]
fn refusals_change_nothing() {
    let merge = |patch: Value| {
        let mut whole = redirecting();
        crate::support::merge(&mut whole, &patch);
        whole
    };
    let held =
        merge(json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:01.0": {"below": {"04:00.0": {"driver": "vfio-pci"}}}}}}}}}}}));
    let locked = merge(
        json!({"files": {"sys/kernel/security/lockdown": ["none [integrity] confidentiality"]}}),
    );
    let guest = merge(
        json!({"files": {"proc/cpuinfo": ["processor\t: 0", "vendor_id\t: GenuineIntel", "flags\t\t: fpu vme hypervisor"]}}),
    );
    // The NIC of a virtual machine is in no pair; only a request for its port meets it.
    let its_port: &[&str] = &["--device", "0000:02:01.0"];
    for (patch, args, says, forced) in [
        (held, its_port, "virtual machine", 0),
        (locked, &[][..], "locked down (integrity)", 0),
        (guest, &[][..], "the host controls these ports", 1),
    ] {
        let bench = Bench::of("sound", &patch);
        let before = bench.tree();
        let run = bench.repair(&[&["fix-acs", "--yes"], args].concat());
        run.assert_code(1);
        assert!(run.stdout.contains(says), "{}", run.stdout);
        assert_eq!(bench.tree(), before);
        bench
            .repair(&["fix-acs", "--yes", "--force", "--device", "0000:02:00.0"])
            .assert_code(forced);
    }
}
