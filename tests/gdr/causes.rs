//! On every machine: a consequence is never shown beside or before its cause, and the table ends with the first step that helps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Gdr, Run, everywhere, recorded};

/// The devices that a subject names: `GPU0`, `0000:43:00.0`, `mlx5_0`. None is the whole machine.
fn devices(subject: &str) -> BTreeSet<&str> {
    let words = subject.split([' ', ',', '(', ')']);
    words
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()) && !word.contains('/'))
        .collect()
}

fn is_wrong(finding: &Value) -> bool {
    finding["outcome"] == "fail" || finding["outcome"] == "warn"
}

/// True if another failure or warning explains this one: the registry says so, and they are about the same devices.
fn is_consequence(finding: &Value, all: &[Value]) -> bool {
    let check = gdr::check::find(finding["id"].as_str().expect("an id")).expect("a check");
    let mine = devices(finding["subject"].as_str().expect("a subject"));
    all.iter().filter(|other| is_wrong(other)).any(|other| {
        let its = devices(other["subject"].as_str().expect("a subject"));
        let is_near = mine.is_empty() || its.is_empty() || !mine.is_disjoint(&its);
        is_near && check.explained_by.iter().any(|cause| other["id"] == **cause)
    })
}

/// The checks of the blocks of a table, in order.
fn blocks(table: &str) -> Vec<&str> {
    let block = |line: &'_ str| line.starts_with("FAIL ") || line.starts_with("WARN ");
    let lines = table.lines().filter(|line| block(line));
    lines.filter_map(|line| line.split_whitespace().nth(1)).collect()
}

/// Asserts both and returns the number of consequences.
fn judge(name: &str, doctor: impl Fn(&str) -> Run) -> usize {
    let report: Value = serde_json::from_str(&doctor("json").stdout).expect("JSON");
    let table = doctor("table").stdout;
    let findings = report["findings"].as_array().expect("findings");
    let wrong: Vec<&Value> = findings.iter().filter(|finding| is_wrong(finding)).collect();
    let roots: BTreeSet<&str> = wrong
        .iter()
        .filter(|finding| !is_consequence(finding, findings))
        .filter_map(|finding| finding["id"].as_str())
        .collect();
    for id in blocks(&table) {
        assert!(roots.contains(id), "{name}: {id} is a consequence and has a block:\n{table}");
    }
    for id in &roots {
        assert!(blocks(&table).contains(id), "{name}: {id} has no block:\n{table}");
    }
    let steps = report["next_steps"].as_array().expect("steps");
    for step in steps {
        for id in step["checks"].as_array().expect("checks") {
            let id = id.as_str().expect("an id");
            let has_problem = wrong.iter().any(|finding| finding["id"] == *id);
            let is_root = !has_problem || roots.contains(id);
            assert!(is_root, "{name}: a step repairs {id}, which is a consequence:\n{table}");
        }
    }
    let fixable = |id: &&&str| wrong.iter().any(|one| one["id"] == ***id && !one["fix"].is_null());
    if let Some(root) = roots.iter().find(fixable) {
        assert!(!steps.is_empty(), "{name}: {root} has no step:\n{table}");
    }
    // The last line is the first step.
    if let Some(first) = steps.first() {
        let last = table.rsplit_once("\nNext step: ").map_or("", |(_, last)| last);
        let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
        let command = first["command"].as_str().unwrap_or_default();
        let named = first["checks"][0].as_str().unwrap_or_default();
        let is_first = match command {
            "" => last.starts_with(named),
            command => last == command.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        assert!(is_first, "{name}: {first}\n{table}");
    }
    wrong.len() - wrong.iter().filter(|finding| !is_consequence(finding, findings)).count()
}

#[test]
fn no_consequence_comes_before_its_cause_on_any_machine() {
    let (mut machines, mut consequences) = (0, 0);
    for name in recorded() {
        let file = format!("{}/tests/recorded/{name}/snapshot.json", env!("CARGO_MANIFEST_DIR"));
        for profile in ["rdma", "all"] {
            consequences += judge(&name, |format| {
                let args = ["--from", &file, "doctor", "--profile", profile, "--format", format];
                Gdr::new().args(args).run()
            });
        }
        machines += 1;
    }
    for (name, _, dir) in everywhere() {
        consequences += judge(&name, |format| {
            let args = ["doctor", "--profile", "all", "--format", format];
            Gdr::new().sysroot(dir.path()).args(args).run()
        });
        machines += 1;
    }
    assert!(machines > 20 && consequences > 10, "{machines} machines, {consequences} consequences");
}
