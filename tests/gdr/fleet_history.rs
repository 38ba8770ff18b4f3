//! `gdr fleet history`: the line of each node, nodes that fail and recover, and what a directory may hold.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Run, gdr, scratch};

/// A record of a day: each node with its state (`.`, `X`, `?`; `-` for an absent one, a space for none) and how often its links went down.
fn record(dir: &Path, day: u32, nodes: &[(&str, char, u64)]) {
    let taken = format!("2026-10-{day:02}T06:00:00Z");
    let state = |letter| match letter {
        '.' => "ok",
        'X' => "failed",
        _ => "undetermined",
    };
    let present = nodes.iter().filter(|(_, letter, _)| ".X?".contains(*letter));
    let present = present.map(|(name, letter, flaps)| {
        let problems = if *letter == 'X' { json!([{ "problem": 0 }]) } else { json!([]) };
        json!({
            "name": name, "taken": taken, "gdr": "0.1.0", "state": state(*letter), "problems": problems,
            "counters": { "mlx5_0:1": { "link_downed": flaps, "symbol_error": 3 } },
        })
    });
    let absent = nodes.iter().filter(|(_, letter, _)| *letter == '-').map(|(name, ..)| *name);
    let document = json!({
        "schema": "gdr.record/1", "gdr": "0.1.0", "taken": taken, "checks": [], "versions": [], "devices": [],
        "problems": [{ "check": "rdma.port", "device": "mlx5_0", "outcome": "fail", "message": "The port is DOWN." }],
        "nodes": present.collect::<Vec<_>>(), "absent": absent.collect::<Vec<_>>(),
    });
    fs::write(dir.join(format!("{taken}.json")), document.to_string()).expect("a file");
}

fn history(dir: &Path, more: &[&str]) -> Run {
    Gdr::new().args(["fleet", "history"]).args([dir]).args(more).run()
}

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// Ten days of six nodes.
pub fn ten_days() -> tempfile::TempDir {
    let dir = scratch();
    let lines = [
        ("n1", ".........."),
        ("n2", ".X.X..X..."),
        ("n3", "....XXXXXX"),
        ("n4", "...---...."),
        ("n5", ".....?...."),
        ("n6", "     ....."),
    ];
    for day in 0..10 {
        let nodes: Vec<(&str, char, u64)> = lines
            .iter()
            .filter_map(|(name, line)| {
                // The links of n5 go down twice; its counter of the sixth day begins again.
                let flaps = if *name == "n5" { [1, 1, 2, 3, 3, 0, 0, 0, 0, 0][day] } else { 1 };
                Some((*name, line.chars().nth(day)?, flaps))
            })
            .collect();
        record(dir.path(), day as u32 + 1, &nodes);
    }
    dir
}

#[test]
fn each_node_has_its_line() {
    let dir = ten_days();
    let run = history(dir.path(), &["--format", "json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let report = json_of(&run);
    assert_eq!((&report["always_ok"], &report["always_ok_count"]), (&json!("n[1,6]"), &json!(2)));
    assert_eq!(report["days"][0], "2026-10-01");
    assert_eq!(report["not_ok"], json!([0, 1, 0, 2, 2, 3, 2, 1, 1, 1]));
    let nodes: Vec<Value> = report["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            json!([
                node["name"],
                node["line"],
                node["failures"],
                node["recoveries"],
                node["flaps"],
                node["link_flaps"],
                node["since"]
            ])
        })
        .collect();
    assert_eq!(
        nodes,
        [
            json!(["n3", "....XXXXXX", 1, 0, false, 0, "2026-10-05T06:00:00Z"]),
            json!(["n2", ".X.X..X...", 3, 3, true, 0, "2026-10-08T06:00:00Z"]),
            json!(["n4", "...---....", 1, 1, false, 0, "2026-10-07T06:00:00Z"]),
            json!(["n5", ".....?....", 1, 1, false, 2, "2026-10-07T06:00:00Z"]),
        ]
    );
    let problem = &report["nodes"][0]["problems"][0];
    assert_eq!((&problem["check"], &problem["reports"]), (&json!("rdma.port"), &json!(6)));
    let table = history(dir.path(), &[]);
    for line in [
        "6 nodes on 10 days from 2026-10-01 to 2026-10-10: 1 not ok now, 1 that fail and recover, 2",
        "n3  ....XXXXXX  failed since 2026-10-05T06:00:00Z; rdma.port (mlx5_0) in 6 reports",
        "n2  .X.X..X...  ok since 2026-10-08T06:00:00Z; fails and recovers: 3 failures;",
        "always ok: n[1,6]",
    ] {
        table.assert_stdout(line);
    }
    let page = history(dir.path(), &["--format", "html"]).stdout;
    assert_eq!(page.matches("<title>n").count(), 4, "{page}");
    assert!(page.contains("<title>2026-10-06: 3</title>"), "{page}");
}

/// A mask in the history is that of the reports with the same key.
#[test]
fn names_are_masked() {
    let dir = ten_days();
    let text = "the key of the site";
    let keys = scratch();
    let file = keys.path().join("key");
    fs::write(&file, text).expect("a key");
    let mask = gdr::model::MaskKey::new(text.as_bytes()).expect("a key").host("n3");
    let with_key = ["--mask-key", &*file.to_string_lossy()].map(str::to_owned).to_vec();
    for (more, name) in [(with_key, mask.as_str()), (vec!["--mask".to_owned()], "node3")] {
        for format in ["table", "json", "html"] {
            let mut more: Vec<&str> = more.iter().map(String::as_str).collect();
            more.extend(["--format", format]);
            let run = history(dir.path(), &more);
            assert_eq!(run.code, 1, "{}", run.stderr);
            assert!(run.stdout.contains(name), "{format}: {}", run.stdout);
            let words = run.stdout.split(|c: char| !c.is_alphanumeric());
            let plain: Vec<&str> = words.filter(|word| ["n2", "n3", "n4"].contains(word)).collect();
            assert!(plain.is_empty(), "{format}: {plain:?}");
        }
    }
}

/// Reports of nodes in a directory of each day, a report of a fleet, and files that are neither.
#[test]
fn reports_and_broken_files() {
    let dir = scratch();
    for (day, outcome) in [(1, "pass"), (2, "fail")] {
        let below = dir.path().join(format!("2026-10-0{day}"));
        fs::create_dir(&below).expect("a directory");
        for name in ["a", "b"] {
            let outcome = if name == "a" { outcome } else { "pass" };
            let report = json!({
                "schema": "gdr.doctor/1", "gdr": "0.1.0", "taken": format!("2026-10-0{day}T00:00:00Z"), "host": { "source": "live", "name": name },
                "findings": [{ "id": "gpu.driver", "outcome": outcome, "severity": "error", "subject": "driver", "message": "m", "evidence": [] }],
            });
            fs::write(below.join(format!("{name}.json")), report.to_string()).expect("a file");
        }
    }
    let fleet = json!({
        "schema": "gdr.fleet/1", "gdr": "0.1.0", "taken": "2026-10-03T00:00:00Z",
        "nodes": [{ "name": "a", "state": "ok" }, { "name": "b", "state": "failed" }],
        "absent": [{ "node": "c", "why": "missing", "reason": "r" }],
    });
    fs::write(dir.path().join("third.json"), fleet.to_string()).expect("a file");
    fs::write(dir.path().join("half.json"), "{\"schema\":\"gdr.rec").expect("a file");
    let report = json_of(&history(dir.path(), &["--format", "json"]));
    let lines: Vec<String> = report["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| format!("{} {}", node["name"], node["line"]))
        .collect();
    assert_eq!(lines, ["\"b\" \"..X\"", "\"c\" \"  -\"", "\"a\" \".X.\""]);
    let notes = report["notes"].as_array().expect("notes");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].as_str().is_some_and(|note| note.contains("half.json")), "{notes:?}");
    let empty = scratch();
    let run = gdr(&["fleet", "history", &empty.path().display().to_string()]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("--keep writes them"), "{}", run.stderr);
}
