//! Fixes on machines with sources that cannot be read: they say what is unknown, and end with 3, never with "Nothing to change."

use std::path::Path;

use gdr::fix::FIXES;
use serde_json::{Value, json};

use crate::support::{Bench, Run, gdr, merge};

/// How a source is not there.
#[derive(Debug, Clone, Copy)]
enum Gap {
    /// The snapshot lacks it.
    Missing,
    Denied,
    /// An input/output error.
    Broken,
}

impl Gap {
    /// The record of a path with this gap: errno 13 is EACCES, 5 is EIO.
    fn record(self) -> Value {
        let all = |errno: i32| {
            let failure = json!({ "errno": errno });
            let questions = ["link", "list", "read", "open", "part", "state"];
            let errors = questions.map(|question| (question.to_owned(), failure.clone()));
            json!({ "errors": serde_json::Map::from_iter(errors) })
        };
        match self {
            Self::Missing => Value::Null,
            Self::Denied => all(13),
            Self::Broken => all(5),
        }
    }
}

/// Sources that each fix reads: the fix, a path, and words of the answer if it cannot be read.
const SOURCES: [(&str, &str, &str); 25] = [
    ("iommu", "/sys/bus/pci/devices", "/sys/bus/pci/devices"),
    ("iommu", "/sys/bus/pci/devices/0000:03:00.0/config", "0000:03:00.0/config"),
    ("iommu", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("acs", "/sys/bus/pci/devices", "/sys/bus/pci/devices"),
    ("acs", "/sys/bus/pci/devices/0000:02:00.0/config", "0000:02:00.0"),
    ("acs", "/sys/bus/pci/devices/0000:03:00.0/config", "0000:03:00.0/config"),
    ("acs", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("mrrs", "/sys/bus/pci/devices", "/sys/bus/pci/devices"),
    ("mrrs", "/sys/bus/pci/devices/0000:04:00.0/config", "0000:04:00.0"),
    ("mrrs", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("nonprefetchable", "/sys/bus/pci/devices", "/sys/bus/pci/devices"),
    ("nonprefetchable", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("modprobe", "/etc/modprobe.d", "/etc/modprobe.d"),
    ("modprobe", "/proc/cmdline", "/proc/cmdline"),
    ("peer-mapping", "/etc/modprobe.d", "/etc/modprobe.d"),
    ("peer-mapping", "/proc/cmdline", "/proc/cmdline"),
    ("stream-memops", "/etc/modprobe.d", "/etc/modprobe.d"),
    ("stream-memops", "/proc/cmdline", "/proc/cmdline"),
    ("rdma-modules", "/sys/bus/pci/devices", "/sys/bus/pci/devices"),
    ("rdma-modules", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("peermem", "/sys/class/infiniband", "/sys/class/infiniband"),
    ("gdrdrv-node", "/proc/devices", "/proc/devices"),
    ("memlock", "/etc/security/limits.d", "limits.d"),
    ("persistence", "nvml", "persistence mode"),
    ("initramfs", "/etc/modprobe.d", "/etc/modprobe.d"),
];

/// A machine on which no fix has anything to do, or on which each says why not.
fn snapshot(bench: &Bench) -> Value {
    let file = bench.tools().join("snapshot.json");
    let path = file.to_str().expect("a path");
    bench.gdr(&["snapshot", "-o", path]).assert_code(0);
    let text = std::fs::read(&file).expect("a snapshot");
    serde_json::from_slice(&text).expect("a snapshot")
}

fn run(snapshot: &Value, directory: &Path, args: &[&str]) -> Run {
    let file = directory.join("changed.json");
    std::fs::write(&file, snapshot.to_string()).expect("a file");
    let path = file.to_str().expect("a path");
    gdr(&[args, &["--from", path]].concat())
}

fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each source of each fix, missing, denied and broken.
#[test]
#[ignore = "slow: a hundred plans"]
fn unreadable_source_is_unknown() {
    // A directory has no device nodes; without the module the node does not matter.
    let devices = json!({"files": {"proc/devices": ["Character devices:", "195 nvidia"]}});
    let bench = Bench::of("sound", &devices);
    let whole = snapshot(&bench);
    for fix in FIXES {
        let sources = SOURCES.iter().filter(|(id, ..)| *id == fix.id);
        assert!(sources.count() > 0, "no source of {} is tried", fix.id);
        // A snapshot of a machine without options has no image.
        if fix.id == "initramfs" {
            continue;
        }
        let run = run(&whole, &bench.tools(), &["fix", fix.id, "--dry-run"]);
        let unread = flat(&run).contains("unknown: ");
        assert!(run.code != 3 && !unread, "{}: {run:?}", fix.id);
    }
    for (fix, source, says) in SOURCES {
        for gap in [Gap::Missing, Gap::Denied, Gap::Broken] {
            let about = format!("{fix} without {source}, {gap:?}");
            let patch = match source {
                "nvml" => json!({"libraries": {"nvml": null}}),
                path => json!({"files": {path: gap.record()}}),
            };
            let mut changed = whole.clone();
            if source != "nvml" {
                assert!(whole["files"].get(source).is_some(), "{about}: no such path is recorded");
                changed["files"].as_object_mut().expect("paths").remove(source);
            }
            merge(&mut changed, &patch);
            let run = run(&changed, &bench.tools(), &["fix", fix, "--dry-run"]);
            assert_eq!(run.code, 3, "{about}: {run:?}");
            let text = flat(&run);
            assert!(text.contains("unknown: "), "{about}: {text}");
            assert!(text.contains(says), "{about}: {text}");
            assert!(!text.contains("Nothing to change"), "{about}: {text}");
        }
    }
}

/// The quoted case: no PCI devices, in every way to ask for a repair.
#[test]
fn unreadable_devices_are_unknown() {
    let bench = Bench::of("sound", &json!({}));
    let mut changed = snapshot(&bench);
    let denied = Gap::Denied.record();
    changed["files"]["/sys/bus/pci/devices"] = denied;
    for args in [
        &["fix-acs", "--dry-run"][..],
        &["fix-acs", "--yes"],
        &["fix-acs", "--dry-run", "--all-bridges"],
        &["fix-acs", "--dry-run", "--device", "0000:02:00.0"],
        &["fix-acs", "--dry-run", "--pair", "GPU0", "NIC0"],
        &["fix", "acs", "iommu", "--dry-run"],
        &["fix", "--dry-run"],
        &["fix", "--yes"],
    ] {
        let run = run(&changed, &bench.tools(), args);
        assert_eq!(run.code, 3, "{args:?}: {run:?}");
        let text = flat(&run);
        let says = "cannot read /sys/bus/pci/devices: permission denied; needs root.";
        assert!(text.contains(says), "{args:?}: {text}");
        assert!(!text.contains("Nothing to change"), "{args:?}: {text}");
    }
}

/// A device of which the list of PCI functions knows nothing, or whose place cannot be read: the plan without it is smaller.
#[test]
fn device_that_another_source_names_is_unknown() {
    const DEVICES: &str = "/sys/bus/pci/devices";
    let bench = Bench::of("hgx-acs-redirect", &json!({}));
    let whole = snapshot(&bench);
    let steps = |run: &Run| run.stdout.matches("stops redirecting").count();
    let all = steps(&run(&whole, &bench.tools(), &["fix", "acs", "--dry-run"]));
    assert!(all > 0, "a machine with ports that redirect");
    for (bdf, by) in [
        ("0000:19:00.0", "/proc/driver/nvidia/gpus"),
        ("0000:1a:00.0", "mlx5_0"),
        ("0000:17:01.0", "the link of 0000:19:00.0"),
    ] {
        let mut changed = whole.clone();
        let names = changed["files"][DEVICES]["names"].as_array_mut().expect("names");
        names.retain(|name| name != bdf);
        let run = run(&changed, &bench.tools(), &["fix", "acs", "--dry-run"]);
        assert_eq!(run.code, 3, "{bdf}: {run:?}");
        let text = flat(&run);
        assert!(text.contains(&format!("has no {bdf}, which {by} names")), "{bdf}: {text}");
    }
    let mut changed = whole.clone();
    changed["files"][format!("{DEVICES}/0000:19:00.0")] = Gap::Denied.record();
    let run = run(&changed, &bench.tools(), &["fix", "acs", "--dry-run"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(flat(&run).contains("the place of GPU"), "{run:?}");
}

/// Every path that a snapshot has, denied: no plan gets smaller without saying why. Minutes; `GDR_EVERY=7` tries each seventh path.
#[test]
#[ignore = "minutes: a plan for each path of each machine"]
fn manual_no_plan_gets_smaller() {
    let every = std::env::var("GDR_EVERY").map_or(1, |text| text.parse().expect("a number"));
    for machine in crate::support::names() {
        let bench = Bench::of(&machine, &json!({}));
        let whole = snapshot(&bench);
        let ids: Vec<&str> = FIXES.iter().map(|fix| fix.id).collect();
        let args = [&["fix"], &ids[..], &["--dry-run", "--format", "json"]].concat();
        let plan = |snapshot: &Value| {
            let run = run(snapshot, &bench.tools(), &args);
            let plan: Value = serde_json::from_str(&run.stdout)
                .unwrap_or_else(|error| panic!("{machine}: {error}: {run:?}"));
            plan["repairs"].as_array().expect("repairs").clone()
        };
        let first = plan(&whole);
        let paths = whole["files"].as_object().expect("paths");
        for path in paths.keys().step_by(every) {
            let mut changed = whole.clone();
            changed["files"][path] = Gap::Denied.record();
            for (before, now) in first.iter().zip(plan(&changed)) {
                let is_open = |repair: &Value| {
                    repair.get("unknown").is_some() || repair.get("refused").is_some()
                };
                let count = |repair: &Value| repair["steps"].as_array().map_or(0, Vec::len);
                assert!(count(&now) >= count(before) || is_open(&now), "{machine}, {path}: {now}");
            }
        }
    }
}
