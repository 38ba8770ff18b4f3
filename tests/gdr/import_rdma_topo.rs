//! `--from` with rdma_topo's dump: facts match the machine's own files, ACS included.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Gdr, Machine, agreement, classes, everywhere, file, limited, rdma_topo};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tempfile::TempDir;

fn from(file: &Path) -> Gdr {
    Gdr::new().args(["--from".as_ref(), file.as_os_str()])
}

#[test]
fn classes_match_machine() {
    let mut known = 0;
    for (name, machine, root) in everywhere() {
        let dump = file(&root, "dump.json", &rdma_topo(&machine, root.path()));
        let expected = classes(Gdr::new().sysroot(root.path())).expect("the machine's classes");
        let dumped = classes(from(&dump)).expect("the dump's classes");
        known += agreement(&name, &expected, &dumped);
        // This machine's software device is not a PCI function.
        let software = if name == "virtual-functions" { 5 } else { 0 };
        let unknown: Vec<_> =
            expected.iter().filter(|(pair, class)| dumped.get(*pair) != Some(class)).collect();
        assert_eq!(unknown.len(), software, "{name}: {unknown:?}");
    }
    assert!(known >= 300, "only {known} pairs");
}

/// A check's findings without sentences about facts that no dump has.
fn findings(gdr: Gdr, check: &str) -> Vec<Value> {
    // A dump has no CPU flags, so both texts mention where they apply.
    let run = gdr.args(["doctor", "--platform", "bare-metal", "--format", "json"]).run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
    let all = report["findings"].as_array().expect("findings");
    all.iter()
        .filter(|finding| finding["id"] == check)
        .map(|finding| {
            json!([
                finding["outcome"],
                finding["severity"],
                finding["subject"],
                finding["evidence"],
                finding["fix"]
            ])
        })
        .collect()
}

#[test]
fn acs_findings_match_machine() {
    let mut judged = 0;
    for (name, machine, root) in everywhere() {
        let dump = file(&root, "dump.json", &rdma_topo(&machine, root.path()));
        let expected = findings(Gdr::new().sysroot(root.path()), "pcie.acs");
        let dumped = findings(from(&dump), "pcie.acs");
        assert_eq!(dumped, expected, "{name}");
        judged +=
            expected.iter().filter(|finding| finding[0] == "fail" || finding[0] == "warn").count();
    }
    assert!(judged >= 10, "only {judged} findings");
}

#[test]
fn finds_expected_ports() {
    let mut ports = 0;
    for name in crate::support::names() {
        let machine = Machine::load(&name);
        let Some(expected) = machine.expect().acs_findings else {
            continue;
        };
        let root = machine.laid_out();
        let dump = file(&root, "dump.json", &rdma_topo(&machine, root.path()));
        let dumped = findings(from(&dump), "pcie.acs");
        let bad = |finding: &&Value| finding[0] == "fail" || finding[0] == "warn";
        let mut found: Vec<&str> =
            dumped.iter().filter(bad).filter_map(|finding| finding[2].as_str()).collect();
        let mut expected: Vec<&str> =
            expected.iter().map(|finding| finding.port.as_str()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        ports += expected.len();
        assert_eq!(found, expected, "{name}");
    }
    assert!(ports > 0);
}

#[test]
fn management_functions_are_not_rows() {
    let (machine, root) = laid_out("hgx-h100-8gpu-8nic");
    let dump = file(&root, "dump.json", &rdma_topo(&machine, root.path()));
    let nics = |gdr: Gdr| {
        let run = gdr.args(["topo", "--format", "json"]).run();
        let document: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let devices = document["devices"].as_array().expect("devices").clone();
        devices.iter().filter(|device| device["kind"] == "nic").count()
    };
    let expected = machine.expect().nics.expect("the NICs that a person expects").len();
    assert_eq!(nics(from(&dump)), expected);
}

fn laid_out(name: &str) -> (Machine, TempDir) {
    let machine = Machine::load(name);
    let root = machine.laid_out();
    (machine, root)
}

/// A function of a hand-written dump. Its configuration space is Python's
/// `base64.b64encode(zlib.compress(bytes(64)))`.
fn function(bdf: &str) -> Value {
    json!({
        "realpath": format!("/sys/devices/pci0000:00/{bdf}"),
        "config": "eJxjYKAMAAAAQAAB",
        "iommu_group": null,
        "modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00",
        "numa_node": -1,
        "subsystems": {},
    })
}

#[test]
#[ignore = "needs prlimit"]
fn rejects_hostile_dumps_early() {
    let text = |value: Value| value.to_string();
    let with = |key: &str, value: Value| {
        let mut one = function("0000:01:00.0");
        one[key] = value;
        text(json!([one]))
    };
    let names: Vec<String> = (0..100_000).map(|n| format!("mlx5_{n}")).collect();
    let many = text(function("0000:01:00.0")) + ",";
    let cases = [
        (
            "deep",
            "[{\"realpath\":\"x\",\"a\":".to_owned() + &"[".repeat(1_000_000),
            "rdma_topo's dump",
        ),
        (
            "many",
            format!("[{}{}]", many.repeat(20_000), function("0000:02:00.0")),
            "more than 16384 PCI functions",
        ),
        (
            "names",
            with("subsystems", json!({ "infiniband": names })),
            "more than 64 devices below one function",
        ),
        ("twice", text(json!([function("0000:01:00.0"), function("0000:01:00.0")])), "twice"),
        ("base64", with("config", json!("%%%")), "config"),
        ("zlib", with("config", json!("AAAA")), "config"),
        ("long", with("config", json!("A".repeat(1 << 15))), "config"),
        ("address", with("realpath", json!("/etc/passwd")), "realpath"),
        ("number", with("numa_node", json!(1e300)), "rdma_topo's dump"),
        (
            "cut",
            with("numa_node", json!(0)).trim_end_matches(']').to_owned(),
            "unexpected end of the text",
        ),
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, text, expected) in cases {
        let path = file(&dir, name, text.as_bytes());
        let started = Instant::now();
        let run = limited(&path);
        assert_eq!(run.code, 2, "{name}: {}", run.stderr);
        assert!(
            run.stderr.contains(expected) && run.stderr.lines().count() == 1,
            "{name}: {}",
            run.stderr
        );
        assert!(started.elapsed() < Duration::from_secs(120), "{name}: {:?}", started.elapsed());
    }
}

#[test]
fn mutated_dumps_do_not_panic() {
    let (machine, root) = laid_out("cascade-asymmetric");
    let text = rdma_topo(&machine, root.path());
    let mut runner =
        TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    runner
        .run(&(any::<prop::sample::Index>(), any::<bool>(), changes), |(cut, whole, changes)| {
            let mut bytes = text.clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let path = file(&root, "changed.json", &bytes);
            let run = from(&path).args(["topo"]).run();
            prop_assert!(matches!(run.code, 0 | 2), "{}: {}", run.code, run.stderr);
            prop_assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            Ok(())
        })
        .expect("no change makes gdr fall over");
}
