//! `--baseline`: 40 changes planted between two days of a fleet, each expected by hand and reported once; equal fleets; reports of
//! different gdrs; and error counters by rate.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Node, Run, reports, scratch};

const DAY1: &str = "2026-11-27T06:00:00Z";
const DAY2: &str = "2026-11-28T06:00:00Z";

fn write(dir: &Path, name: &str, report: &Value) {
    fs::write(dir.join(format!("{name}.json")), report.to_string()).expect("a file");
}

/// The report of the good node with a name and a time.
fn named(template: &Value, name: &str, taken: &str) -> Value {
    let mut report = template.clone();
    report["host"]["name"] = json!(name);
    report["taken"] = json!(taken);
    report
}

fn compare(day1: &Path, day2: &Path, more: &[&str]) -> Run {
    let args = ["fleet", "report", "--baseline"];
    Gdr::new().args(args).args([day1]).args(more).args([day2]).run()
}

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// Replaces the findings of a check by one of this outcome.
fn finding(report: &mut Value, check: &str, subject: &str, outcome: &str, message: &str) {
    let findings = report["findings"].as_array_mut().expect("findings");
    findings.retain(|finding| finding["id"] != check);
    findings.push(json!({
        "id": check, "outcome": outcome, "severity": "error", "subject": subject, "message": message,
        "evidence": [], "needs": null, "fix": null,
    }));
}

/// What is planted on a node: a change of the first day's report, one of the second day's, and the expected kind, name and words.
type Plant = (fn(&mut Value), fn(&mut Value), &'static str, &'static str, &'static str);

fn same(_: &mut Value) {}

/// Forty changes, by hand.
const PLANTS: [Plant; 40] = [
    (
        same,
        |r| finding(r, "pcie.acs", "0000:17:02.0", "fail", "It redirects."),
        "new",
        "pcie.acs",
        "0000:17:02.0",
    ),
    (
        same,
        |r| finding(r, "rdma.port", "mlx5_3", "fail", "The port is DOWN."),
        "new",
        "rdma.port",
        "mlx5_3",
    ),
    (
        same,
        |r| finding(r, "limits.memlock", "this process", "fail", "Locked memory is limited."),
        "new",
        "limits.memlock",
        "this process",
    ),
    (
        same,
        |r| {
            finding(
                r,
                "gpu.persistence",
                "GPU0 (0000:18:00.0), GPU1 (0000:19:00.0)",
                "warn",
                "Persistence mode is off.",
            )
        },
        "new",
        "gpu.persistence",
        "GPU0 (0000:18:00.0), GPU1 (0000:19:00.0)",
    ),
    (
        same,
        |r| finding(r, "peermem.loaded", "machine", "fail", "nvidia-peermem is not loaded."),
        "new",
        "peermem.loaded",
        "machine",
    ),
    (
        same,
        |r| finding(r, "gpu.nouveau", "machine", "fail", "nouveau is loaded."),
        "new",
        "gpu.nouveau",
        "machine",
    ),
    (
        same,
        |r| {
            finding(r, "pcie.link", "0000:1b:00.0", "warn", "It runs at x8; both ends support x16.")
        },
        "new",
        "pcie.link",
        "0000:1b:00.0",
    ),
    (
        same,
        |r| {
            finding(
                r,
                "gpu.fabric",
                "GPU7 (0000:cb:00.0)",
                "fail",
                "It has not joined the NVLink fabric.",
            )
        },
        "new",
        "gpu.fabric",
        "GPU7 (0000:cb:00.0)",
    ),
    (
        same,
        |r| finding(r, "sw.known-bad", "NVIDIA driver", "warn", "It has a known fault."),
        "new",
        "sw.known-bad",
        "NVIDIA driver",
    ),
    (
        |r| finding(r, "pcie.acs", "0000:17:02.0", "fail", "It redirects."),
        same,
        "fixed",
        "pcie.acs",
        "0000:17:02.0",
    ),
    (
        |r| finding(r, "rdma.port", "mlx5_3", "fail", "The port is DOWN."),
        |r| finding(r, "rdma.port", "mlx5_3", "pass", "The port is active."),
        "fixed",
        "rdma.port",
        "mlx5_3",
    ),
    (
        |r| finding(r, "limits.memlock", "this process", "fail", "Limited."),
        |r| finding(r, "limits.memlock", "this process", "pass", "Unlimited."),
        "fixed",
        "limits.memlock",
        "this process",
    ),
    (
        |r| finding(r, "gpu.mig", "GPU2 (0000:3a:00.0)", "warn", "MIG is on."),
        |r| finding(r, "gpu.mig", "GPU2 (0000:3a:00.0)", "pass", "MIG is off."),
        "fixed",
        "gpu.mig",
        "GPU2 (0000:3a:00.0)",
    ),
    (
        |r| finding(r, "pcie.iommu", "machine", "warn", "Translates."),
        |r| finding(r, "pcie.iommu", "machine", "info", "Passes through."),
        "fixed",
        "pcie.iommu",
        "machine",
    ),
    (
        |r| finding(r, "rdma.port", "mlx5_3", "warn", "The port is slow."),
        |r| finding(r, "rdma.port", "mlx5_3", "fail", "The port is DOWN."),
        "changed",
        "rdma.port",
        "warn: The port is slow.",
    ),
    (
        |r| finding(r, "pcie.acs", "0000:17:02.0", "fail", "It redirects requests."),
        |r| finding(r, "pcie.acs", "0000:17:02.0", "fail", "It redirects completions."),
        "changed",
        "pcie.acs",
        "It redirects completions.",
    ),
    // One of two is repaired: the other one is still wrong.
    (
        |r| finding(r, "gpu.mig", "GPU2 (0000:3a:00.0), GPU3 (0000:3b:00.0)", "warn", "MIG is on."),
        |r| finding(r, "gpu.mig", "GPU2 (0000:3a:00.0)", "warn", "MIG is on."),
        "fixed",
        "gpu.mig",
        "GPU3 (0000:3b:00.0)",
    ),
    (
        same,
        |r| finding(r, "gpu.driver", "driver", "unknown", "NVML is not available."),
        "unknown",
        "gpu.driver",
        "NVML is not available.",
    ),
    (
        |r| finding(r, "rdma.port", "mlx5_3", "fail", "The port is DOWN."),
        |r| finding(r, "rdma.port", "mlx5_3", "unknown", "ports/1/state is not available."),
        "unknown",
        "rdma.port",
        "ports/1/state is not available.",
    ),
    (
        |r| finding(r, "pcie.acs", "0000:17:02.0", "fail", "It redirects."),
        |r| finding(r, "pcie.acs", "machine", "skip", "In a guest."),
        "unknown",
        "pcie.acs",
        "does not apply",
    ),
    (
        same,
        |r| {
            gpus(r).remove(3);
        },
        "device",
        "GPU 0000:3b:00.0",
        "NVIDIA H100 80GB HBM3, x16",
    ),
    (
        |r| {
            gpus(r).remove(7);
        },
        same,
        "device",
        "GPU 0000:cb:00.0",
        "NVIDIA H100 80GB HBM3, x16",
    ),
    (
        same,
        |r| {
            gone_nic(r, "mlx5_5");
        },
        "device",
        "NIC mlx5_5",
        "x16",
    ),
    (
        same,
        |r| gpus(r)[0]["width"] = json!(8),
        "device",
        "GPU 0000:18:00.0",
        "NVIDIA H100 80GB HBM3, x8",
    ),
    (
        same,
        |r| gpus(r)[1]["model"] = json!("NVIDIA H100 PCIe"),
        "device",
        "GPU 0000:19:00.0",
        "NVIDIA H100 PCIe, x16",
    ),
    (
        same,
        |r| port(r, "mlx5_1:1")["rate"] = json!(200.0),
        "device",
        "port mlx5_1:1",
        "ACTIVE, 200 Gb/s",
    ),
    (
        same,
        |r| port(r, "mlx5_4:1")["state"] = json!("INIT"),
        "device",
        "port mlx5_4:1",
        "INIT, 400 Gb/s",
    ),
    (same, |r| version(r, "driver", "590.44.01"), "version", "driver", "590.44.01"),
    (same, |r| version(r, "kernel", "6.8.0-99"), "version", "kernel", "6.8.0-99"),
    (same, |r| version(r, "firmware of mlx5_1", "28.39.1002"), "version", "firmware", "28.39.1002"),
    (
        same,
        |r| {
            ["mlx5_0", "mlx5_1"]
                .iter()
                .for_each(|nic| version(r, &format!("firmware of {nic}"), "28.99.1"))
        },
        "version",
        "firmware",
        "28.99.1",
    ),
    (
        |r| version(r, "/usr/lib/libnccl.so.2", "2.27.3"),
        |r| version(r, "/usr/lib/libnccl.so.2", "2.28.9"),
        "version",
        "/usr/lib/libnccl.so.2",
        "2.28.9",
    ),
    (
        same,
        |r| version(r, "/opt/lib/libnccl.so.2", "2.20.5"),
        "version",
        "/opt/lib/libnccl.so.2",
        "2.20.5",
    ),
    (
        |r| counters(r, "mlx5_0:1", json!({ "symbol_error": 5 })),
        |r| counters(r, "mlx5_0:1", json!({ "symbol_error": 2405 })),
        "counter",
        "counters",
        "symbol_error +2400 in 24 h (100 an hour)",
    ),
    (
        |r| counters(r, "mlx5_6:1", json!({ "link_downed": 1 })),
        |r| counters(r, "mlx5_6:1", json!({ "link_downed": 4 })),
        "counter",
        "counters",
        "link_downed +3 in 24 h",
    ),
    (
        |r| counters(r, "0000:1b:00.0", json!({})),
        |r| counters(r, "0000:1b:00.0", json!({ "nonfatal.CmpltTO": 2 })),
        "counter",
        "counters",
        "nonfatal.CmpltTO +2 in 24 h (0 an hour)",
    ),
    // The counter was reset: what it has now came since then.
    (
        |r| counters(r, "mlx5_5:1", json!({ "out_of_sequence": 90000 })),
        |r| counters(r, "mlx5_5:1", json!({ "out_of_sequence": 4800 })),
        "counter",
        "counters",
        "out_of_sequence +4800 in 24 h (200 an hour)",
    ),
    (
        same,
        |r| {
            finding(r, "gpu.driver", "driver", "fail", "The driver is not loaded.");
            explained(r, "gpu.driver", "peermem.loaded");
            finding(r, "peermem.loaded", "machine", "fail", "Not loaded.");
        },
        "new",
        "gpu.driver",
        "The driver is not loaded.",
    ),
    (
        |r| {
            finding(r, "gpu.driver", "driver", "fail", "The driver is not loaded.");
            explained(r, "gpu.driver", "peermem.loaded");
            finding(r, "peermem.loaded", "machine", "fail", "Not loaded.");
        },
        same,
        "fixed",
        "gpu.driver",
        "The driver is not loaded.",
    ),
    (
        same,
        |r| {
            finding(r, "rdma.counters", "mlx5_0", "warn", "Errors rose within 24 h.");
            counters(r, "mlx5_0:1", json!({ "symbol_error": 9000 }));
        },
        "new",
        "rdma.counters",
        "Errors rose",
    ),
];

fn gpus(report: &mut Value) -> &mut Vec<Value> {
    report["readings"]["gpus"].as_array_mut().expect("GPUs")
}

fn gone_nic(report: &mut Value, name: &str) {
    for list in ["nics", "ports"] {
        let list = report["readings"][list].as_array_mut().expect("a list");
        list.retain(|device| {
            device["name"].as_str().is_none_or(|own| own.split(':').next() != Some(name))
        });
    }
}

fn port<'r>(report: &'r mut Value, name: &str) -> &'r mut Value {
    let ports = report["readings"]["ports"].as_array_mut().expect("ports");
    ports.iter_mut().find(|port| port["name"] == name).expect("a port")
}

fn version(report: &mut Value, name: &str, version: &str) {
    report["readings"]["versions"][name] = json!(version);
}

fn counters(report: &mut Value, of: &str, counters: Value) {
    report["readings"]["counters"][of] = counters;
}

/// A check explains another one.
fn explained(report: &mut Value, root: &str, check: &str) {
    report["roots"] =
        json!([{ "check": root, "outcome": "fail", "subjects": ["driver"], "explains": [check] }]);
}

/// The good node: nothing of it fails in a way that hides what is planted.
fn template() -> Value {
    let mut report = reports::doctor(&Node::good(), "NAME", &[]);
    report["roots"] = json!([]);
    let findings = report["findings"].as_array_mut().expect("findings");
    for finding in findings {
        if ["fail", "warn", "unknown"].iter().any(|outcome| finding["outcome"] == *outcome) {
            finding["outcome"] = json!("pass");
        }
    }
    for port in report["readings"]["ports"].as_array_mut().expect("ports") {
        port["state"] = json!("ACTIVE");
        port["rate"] = json!(400.0);
    }
    for nic in 0..8 {
        report["readings"]["counters"][format!("mlx5_{nic}:1")] = json!({});
    }
    report
}

#[test]
fn forty_changes_are_reported_once_each() {
    let (day1, day2) = (scratch(), scratch());
    let template = template();
    for number in 1..=200 {
        let name = format!("n{number}");
        let (mut old, mut new) = (named(&template, &name, DAY1), named(&template, &name, DAY2));
        // Plants stand on every fifth node.
        if let Some((before, after, ..)) =
            PLANTS.get((number / 5_usize).wrapping_sub(1)).filter(|_| number % 5 == 0)
        {
            before(&mut old);
            after(&mut new);
        }
        write(day1.path(), &name, &old);
        write(day2.path(), &name, &new);
    }
    let report = json_of(&compare(day1.path(), day2.path(), &["--format", "json"]));
    let comparison = &report["comparison"];
    assert_eq!(comparison["nodes"], 200);
    assert_eq!(comparison["taken"], DAY1);
    assert_eq!(comparison["notes"], json!([]));
    let differences = comparison["differences"].as_array().expect("differences");
    for (at, (_, _, kind, what, words)) in PLANTS.iter().enumerate() {
        let node = format!("n{}", (at + 1) * 5);
        let of_node: Vec<&Value> = differences
            .iter()
            .filter(|difference| difference["nodes"].as_str().is_some_and(|nodes| nodes == node))
            .filter(|difference| difference["kind"] != "still")
            .collect();
        assert_eq!(of_node.len(), 1, "{node} {kind} {what}: {of_node:#?}");
        let found = of_node[0];
        assert_eq!((&found["kind"], &found["what"]), (&json!(kind), &json!(what)), "{found:#}");
        let devices = found["devices"].as_array().expect("devices");
        let devices: Vec<&str> = devices.iter().filter_map(Value::as_str).collect();
        let text = format!("{} {} {}", devices.join(", "), found["before"], found["now"]);
        assert!(text.contains(words), "{node}: {words} is not in {text}");
    }
    let changed = differences.iter().filter(|difference| difference["kind"] != "still").count();
    assert_eq!(changed, PLANTS.len(), "{differences:#?}");
    let run = compare(day1.path(), day2.path(), &[]);
    run.assert_stdout("new     n5: pcie.acs (0000:17:02.0): fail: It redirects.");
    run.assert_stdout("(+1: peermem.loaded)");
    // A CI system fails for a new failure, not for a version or a repair.
    let run = compare(day1.path(), day2.path(), &["--format", "junit"]);
    let cases: Vec<&str> = run.stdout.lines().collect();
    let case = |class: &str, words: &str| {
        let class = format!("classname=\"gdr.baseline.{class}\"");
        let found = cases.iter().find(|line| line.contains(&class) && line.contains(words));
        *found.unwrap_or_else(|| panic!("{class} {words}: {}", run.stdout))
    };
    assert!(case("new", "n5: pcie.acs (0000:17:02.0): fail").contains("<failure"), "{cases:?}");
    for kind in ["fixed", "version"] {
        assert!(case(kind, "name=").ends_with("/>"), "{}", case(kind, "name="));
    }
    let baseline = cases.iter().filter(|line| line.contains("gdr.baseline.")).count();
    assert_eq!(baseline, PLANTS.len());
}

#[test]
fn equal_fleets_say_so_in_one_line() {
    let (day1, day2) = (scratch(), scratch());
    let mut template = template();
    for number in 1..=12 {
        let name = format!("n{number}");
        write(day1.path(), &name, &named(&template, &name, DAY1));
        // Errors below the rate, an idle link, and memory in use are not a change.
        counters(
            &mut template,
            "mlx5_0:1",
            json!({ "symbol_error": number, "np_cnp_sent": 1_000_000 }),
        );
        gpus(&mut template)[0]["speed"] = json!(2.5);
        gpus(&mut template)[0]["bar1_used"] = json!(number);
        let mut new = named(&template, &name, DAY2);
        if number == 12 {
            // A list that cannot be read names no device that is gone.
            new["readings"]["gpus"] = Value::Null;
            new["readings"]["nics"] = Value::Null;
            new["readings"]["ports"] = json!([]);
        }
        write(day2.path(), &name, &new);
        counters(&mut template, "mlx5_0:1", json!({}));
    }
    let run = compare(day1.path(), day2.path(), &[]);
    let line = run.stdout.lines().last().expect("a line");
    assert!(
        line.ends_with(": nothing changed on 12 nodes.")
            || run.stdout.contains("nothing changed on 12"),
        "{}",
        run.stdout
    );
    assert_eq!(
        json_of(&compare(day1.path(), day2.path(), &["--format", "json"]))["comparison"]["differences"],
        json!([])
    );
}

/// A check that only one gdr knows is not a change of the machine, and is named once.
#[test]
fn another_gdr_is_said_once() {
    let (day1, day2) = (scratch(), scratch());
    let template = template();
    for name in ["n1", "n2"] {
        let mut old = named(&template, name, DAY1);
        old["gdr"] = json!("0.0.9");
        let findings = old["findings"].as_array_mut().expect("findings");
        findings.retain(|finding| finding["id"] != "rdma.lossless");
        finding(&mut old, "old.check", "machine", "fail", "It was judged then.");
        old["readings"]["versions"].as_object_mut().expect("versions").remove("CUDA");
        write(day1.path(), name, &old);
        let mut new = named(&template, name, DAY2);
        finding(&mut new, "rdma.lossless", "mlx5_0", "fail", "It is judged now.");
        write(day2.path(), name, &new);
    }
    let comparison =
        json_of(&compare(day1.path(), day2.path(), &["--format", "json"]))["comparison"].clone();
    let differences = comparison["differences"].as_array().expect("differences");
    assert_eq!(differences.len(), 1, "{differences:#?}");
    assert_eq!(
        (&differences[0]["what"], &differences[0]["nodes"]),
        (&json!("gdr"), &json!("n[1-2]"))
    );
    let notes: Vec<&str> =
        comparison["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("only this report has") && notes[0].ends_with("rdma.lossless"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("only the earlier report has") && notes[1].ends_with("old.check"),
        "{notes:?}"
    );
}

/// What is still wrong has the day of its first report, over records that were kept in between; nodes come and go.
#[test]
fn still_wrong_since_the_first_record() {
    let (history, reports) = (scratch(), scratch());
    let template = template();
    let keep = |taken: &str, nodes: &[&str]| {
        for file in fs::read_dir(reports.path()).expect("a directory") {
            fs::remove_file(file.expect("a file").path()).expect("a file");
        }
        for name in nodes {
            let mut report = named(&template, name, taken);
            finding(&mut report, "rdma.port", "mlx5_3", "fail", "The port is DOWN.");
            write(reports.path(), name, &report);
        }
        let run = Gdr::new()
            .args(["fleet", "report", "--format", "json", "--keep"])
            .args([history.path()])
            .args(["--baseline"])
            .args([history.path()])
            .args([reports.path()])
            .run();
        let report = json_of(&run);
        let since = |action: &Value| (action["node"].clone(), action["since"].clone());
        let actions = report["actions"].as_array().expect("actions").iter().map(since);
        (report["comparison"].clone(), actions.collect::<Vec<_>>())
    };
    assert_eq!(keep(DAY1, &["n1", "n2"]).0, Value::Null);
    keep(DAY2, &["n1", "n2"]);
    let (third, actions) = keep("2026-11-29T06:00:00Z", &["n1", "n3"]);
    assert_eq!(actions, [(json!("n1"), json!(DAY1)), (json!("n3"), Value::Null)]);
    let shown: Vec<[&Value; 4]> = third["differences"]
        .as_array()
        .expect("differences")
        .iter()
        .map(|difference| ["kind", "what", "nodes", "since"].map(|key| &difference[key]))
        .collect();
    assert_eq!(
        shown,
        [
            [&json!("node"), &json!("no report now"), &json!("n2"), &Value::Null],
            [&json!("node"), &json!("no report before"), &json!("n3"), &Value::Null],
            [&json!("still"), &json!("rdma.port"), &json!("n1"), &json!(DAY1)],
        ]
    );
    let names: Vec<String> = fs::read_dir(history.path())
        .expect("a directory")
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"2026-11-29T060000Z.json.zst".to_owned()), "{names:?}");
}
