//! `gdr doctor --baseline`: one machine against its own earlier report.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Gdr, Node, Run, scratch};

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// One machine against its own earlier report: counters are judged by their rate since then, not by their sum.
#[test]
fn doctor_judges_counters_since_its_earlier_report() {
    let node = Node::good();
    let root = node.laid_out();
    let port = root.path().join("sys/class/infiniband/mlx5_0/ports/1/counters");
    fs::create_dir_all(&port).expect("a directory");
    let count =
        |errors: u64| fs::write(port.join("symbol_error"), format!("{errors}\n")).expect("a file");
    let doctor = |more: &[&str]| {
        let args = ["doctor", "--only", "rdma.counters"];
        Gdr::new().sysroot(root.path()).args(args).args(more).run()
    };
    count(90_000);
    let old = scratch();
    let file = old.path().join("old.json");
    let mut report = json_of(&doctor(&["--format", "json"]));
    let taken = report["taken"].as_str().and_then(|taken| humantime::parse_rfc3339(taken).ok());
    let earlier = taken.expect("a time") - std::time::Duration::from_secs(86_400);
    report["taken"] = json!(humantime::format_rfc3339_seconds(earlier).to_string());
    fs::write(&file, report.to_string()).expect("a file");
    let baseline = ["--baseline", file.to_str().expect("a name")];
    for (errors, outcome, words) in [
        (90_000, "pass", "No counter of errors rose within 24 h."),
        (90_100, "info", "Errors were rare within 24 h: symbol_error +100."),
        (99_600, "warn", "Errors rose within 24 h: symbol_error +9600."),
    ] {
        count(errors);
        let report = json_of(&doctor(&[&baseline[..], &["--format", "json"]].concat()));
        let found = report["findings"].as_array().expect("findings").iter();
        let found: Vec<&Value> = found.filter(|finding| finding["subject"] == "mlx5_0").collect();
        assert_eq!(found[0]["outcome"], outcome, "{errors}: {found:#?}");
        assert!(
            found[0]["message"].as_str().is_some_and(|text| text.starts_with(words)),
            "{found:#?}"
        );
    }
    let run = doctor(&baseline);
    run.assert_stdout("new     rdma.counters (mlx5_0): warn: Errors rose within 24 h");
    let formatted = |format: &str| doctor(&[&baseline[..], &["--format", format]].concat());
    formatted("markdown").assert_stdout("\n- new: rdma.counters");
    let page = formatted("html");
    page.assert_stdout(">What changed</h2>");
    page.assert_stdout("warn: Errors rose within 24 h");
    count(90_000);
    doctor(&baseline).assert_stdout(": nothing changed.");
    let run = doctor(&["--baseline", "/nonexistent.json"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}
