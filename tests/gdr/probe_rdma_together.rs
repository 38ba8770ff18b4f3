//! `gdr probe rdma --together`: several connections at the same time, over fakes.

use std::time::{Duration, Instant};

use crate::support::nics::{Bench, Report, SHORT};
use serde_json::{Value, json};

const RAILS: [&str; 5] = ["--memory", "host", "--device", "mlx5_0,mlx5_1", "--together"];

fn figures(report: &Report, name: &str) -> Vec<Value> {
    let of = |result: &&Value| json!([result["subject"], result["verdict"], result["verified"]]);
    report.named(name).iter().map(of).collect()
}

#[test]
fn rails_run_alone_and_together() {
    let report = Bench::of("two", &json!({})).probe(&RAILS);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(
        figures(&report, "rdma.alone.bandwidth"),
        [json!(["mlx5_0:1", "ok", 0]), json!(["mlx5_1:1", "ok", 0]),]
    );
    // The bytes of all rounds are compared after the last one.
    assert_eq!(
        figures(&report, "rdma.together.bandwidth"),
        [json!(["mlx5_0:1", "ok", 65536]), json!(["mlx5_1:1", "ok", 65536]),]
    );
    let sum = report.named("rdma.together.sum.bandwidth");
    let each: f64 = report
        .named("rdma.together.bandwidth")
        .iter()
        .filter_map(|result| result["median"].as_f64())
        .sum();
    let [sum] = sum[..] else { panic!("{sum:#?}") };
    assert_eq!(sum["subject"], "all together");
    let median = sum["median"].as_f64().expect("a figure");
    assert!((median / each - 1.0).abs() < 1e-6, "{median} of {each}");
    let notes = report.value["notes"].to_string();
    assert!(notes.contains("Together the 2 connections reach"), "{notes}");
}

#[test]
fn one_connection_is_not_together() {
    let one = ["--memory", "host", "--device", "mlx5_0", "--together"];
    let report = Bench::of("two", &json!({})).probe(&one);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let notes = report.value["notes"].to_string();
    assert!(notes.contains("--together needs two connections"), "{notes}");
    assert!(figures(&report, "rdma.alone.bandwidth").is_empty());
}

#[test]
fn failure_of_one_rail_ends_all() {
    let patch = json!({"verbs": {"fail": [{"nth": 40, "status": 12}]}});
    let begun = Instant::now();
    let report = Bench::of("two", &patch).probe(&RAILS);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(report.code, 1, "{:#}", report.value);
    let [sum] = report.named("rdma.together.sum.bandwidth")[..] else {
        panic!("{:#}", report.value);
    };
    assert_eq!(sum["verdict"], "impossible");
    let reason = sum["reason"].as_str().expect("a reason");
    assert!(reason.contains("no answer from the remote end"), "{reason}");
}

#[test]
fn wrong_options_are_rejected() {
    let bench = Bench::of("two", &json!({}));
    for options in [&["--together", "--all"][..], &["--together", "--listen"]] {
        let run = bench.gdr().args(SHORT).args(options).run();
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
}
