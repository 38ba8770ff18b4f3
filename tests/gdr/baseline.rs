//! Baselines of probes: saved figures, and what a later run says about them. The figures are those of a simulated device, so
//! the tests change the saved ones by more than this machine's noise.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Gdr, Run, gdr, scratch};

const PROBE: [&str; 5] = ["probe", "copy", "--sim", "--quick", "--size=64KiB"];

fn probe(more: &[&str]) -> Run {
    Gdr::new().args(PROBE).args(more).run()
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON")
}

/// Changes every result of this name.
fn change(file: &Path, name: &str, change: impl Fn(&mut Value)) {
    let mut report = read(file);
    let results = report["results"].as_array_mut().expect("results");
    let named = results.iter_mut().filter(|result| result["name"] == name);
    let changed = named.map(change).count();
    assert!(changed > 0, "no result {name}");
    fs::write(file, report.to_string()).expect("a file");
}

/// Multiplies the figures of every result of this name.
fn scale(file: &Path, name: &str, factor: f64) {
    change(file, name, |result| {
        for figure in ["median", "mad", "p5", "p95", "max"] {
            if let Some(value) = result[figure].as_f64() {
                result[figure] = Value::from(value * factor);
            }
        }
        let runs = result.get_mut("runs").and_then(Value::as_array_mut).into_iter().flatten();
        for run in runs {
            *run = Value::from(run.as_f64().expect("a number") * factor);
        }
    });
}

#[test]
#[ignore = "slow: many probes"]
fn regression_is_named_and_fails() {
    let dir = scratch();
    let file = dir.path().join("base.json");
    let name = file.to_string_lossy();
    let run = probe(&["--save", &name, "--runs", "2"]);
    run.assert_code(0);
    run.assert_stderr(format!("gdr probe copy --baseline {name}"));
    let saved = read(&file);
    assert_eq!(saved["schema"], "gdr.probe/1");
    let result = &saved["results"]
        .as_array()
        .expect("results")
        .iter()
        .find(|result| result["name"] == "copy.write.latency")
        .expect("a result");
    assert_eq!(result["runs"].as_array().map(Vec::len), Some(2));
    assert!(result["mad"].is_number(), "{result}");
    // Everything was a thousand times slower then.
    for name in ["copy.write.latency", "copy.read.latency"] {
        scale(&file, name, 1000.0);
    }
    let now = probe(&["--baseline", &name, "--format", "json"]);
    let report: Value = serde_json::from_str(&now.stdout).expect("JSON");
    let changes = report["baseline"]["changes"].as_array().expect("changes");
    let change = |name: &str| {
        changes
            .iter()
            .find(|change| change["fact"].as_str().is_some_and(|fact| fact.starts_with(name)))
            .expect("a change")
    };
    assert_eq!(change("copy.write.latency")["figure"]["regression"], false);
    // And a thousand times faster.
    scale(&file, "copy.write.latency", 1e-6);
    let now = probe(&["--baseline", &name, "--format", "json"]);
    now.assert_code(1);
    let report: Value = serde_json::from_str(&now.stdout).expect("JSON");
    let changes = report["baseline"]["changes"].as_array().expect("changes");
    // Regressions come first.
    assert_eq!(changes[0]["figure"]["regression"], true);
    let named = changes.iter().any(|change| {
        let fact = change["fact"].as_str().unwrap_or_default();
        change["figure"]["regression"] == true
            && fact.starts_with("copy.write.latency, 65536 bytes")
    });
    assert!(named, "{changes:#?}");
    let table = probe(&["--baseline", &name]);
    table.assert_code(1);
    table.assert_stdout("! copy.write.latency, 65536 bytes");
    table.assert_stdout(format!("baseline {name}"));
}

#[test]
fn saved_reports_are_compared_as_snapshots_are() {
    let dir = scratch();
    let (a, b) = (dir.path().join("a.json"), dir.path().join("b.json"));
    probe(&["--save", &a.to_string_lossy()]).assert_code(0);
    // As little noise as on an idle machine.
    change(&a, "copy.read.latency", |result| {
        result["mad"] = Value::from(result["median"].as_f64().expect("a median") / 100.0);
    });
    fs::copy(&a, &b).expect("a copy");
    let diff = |format| {
        gdr(&["snapshot", "--diff", &a.to_string_lossy(), &b.to_string_lossy(), "--format", format])
    };
    let same = diff("table");
    same.assert_code(0);
    same.assert_stdout("no differences");
    scale(&b, "copy.read.latency", 2.0);
    let run = diff("json");
    run.assert_code(1);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["schema"], "gdr.diff/1");
    // A number in a file may lose its last bit.
    let percent = report["changes"][0]["figure"]["percent"].as_f64();
    assert!(percent.is_some_and(|percent| (percent - 100.0).abs() < 1e-9), "{report:#}");
    diff("table").assert_stdout("(+100.0 %; noise explains ");
    let snapshot = "tests/recorded/h200-x1/snapshot.json";
    let mixed = gdr(&["snapshot", "--diff", &a.to_string_lossy(), snapshot]);
    mixed.assert_code(2);
    mixed.assert_stderr("cannot be compared");
}

#[test]
fn wrong_baselines_are_errors() {
    let dir = scratch();
    let file = dir.path().join("base.json");
    let name = file.to_string_lossy();
    let run = probe(&["--baseline", &name]);
    run.assert_code(2);
    run.assert_stderr("No such file");
    for (text, words) in [
        ("{}", "this is not a gdr.probe/1"),
        ("not JSON", "this is not a gdr.probe/1"),
        ("{\"schema\":\"gdr.probe/1\"}", "invalid gdr.probe/1"),
    ] {
        fs::write(&file, text).expect("a file");
        let run = probe(&["--baseline", &name]);
        run.assert_code(2);
        run.assert_stderr(words);
    }
    probe(&["--save", &name]).assert_code(0);
    let run = gdr(&["probe", "host", "--sim", "--quick", "--baseline", &name]);
    run.assert_code(2);
    run.assert_stderr("a baseline of gdr probe copy, not of gdr probe host");
    let run = gdr(&["probe", "copy", "--baseline", &name]);
    run.assert_code(2);
    run.assert_stderr("it was simulated");
    let snapshot = "tests/recorded/h200-x1/snapshot.json";
    gdr(&["--from", snapshot, "probe", "copy", "--save", &name]).assert_code(2);
    let run = gdr(&["--from", &name, "doctor"]);
    run.assert_code(2);
    run.assert_stderr("the results of a probe");
}
