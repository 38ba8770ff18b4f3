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

/// NVLinks that recover from errors again and again since an earlier report are a fault; corrected errors and the sum since the driver's load
/// are not.
#[test]
fn doctor_judges_nvlink_recoveries_by_rate() {
    let doctor = |recoveries: u64, replays: u64, more: &[&str]| {
        let mut node = Node::good();
        node.gpu(0)["link_errors"] =
            json!({"known": {"dl_recovery": recoveries, "dl_replay": replays}});
        let root = node.laid_out();
        let args = ["doctor", "--only", "gpu.nvlink", "--format", "json"];
        json_of(&Gdr::new().sysroot(root.path()).args(args).args(more).run())
    };
    let mut old = doctor(9_000, 5, &[]);
    let bdf = old["readings"]["gpus"][0]["bdf"].as_str().expect("an address").to_owned();
    let name = format!("NVLink of {bdf}");
    assert_eq!(old["readings"]["counters"][&name], json!({"nvlink.dl_recovery": 9000}), "{old:#}");
    let taken = old["taken"].as_str().and_then(|taken| humantime::parse_rfc3339(taken).ok());
    let earlier = taken.expect("a time") - std::time::Duration::from_secs(86_400);
    old["taken"] = json!(humantime::format_rfc3339_seconds(earlier).to_string());
    let dir = scratch();
    let file = dir.path().join("old.json");
    fs::write(&file, old.to_string()).expect("a file");
    let baseline = ["--baseline", file.to_str().expect("a name")];
    for (recoveries, replays, is_fault) in
        [(9_000, 5, false), (9_100, 1 << 30, false), (9_600, 5, true)]
    {
        let report = doctor(recoveries, replays, &baseline);
        let findings = report["findings"].as_array().expect("findings").iter();
        let mut of_gpu = findings.filter(|found| {
            found["subject"].as_str().is_some_and(|subject| subject.contains(&bdf))
        });
        let found = of_gpu.next().expect("a finding");
        let text = found["message"].as_str().expect("a message");
        let words = "NVLinks count errors now: within 24 h nvlink.dl_recovery +600 rose.";
        assert_eq!(text.starts_with(words), is_fault, "{recoveries}: {found:#}");
        assert_eq!(found["outcome"] == "warn", is_fault, "{found:#}");
    }
}
