//! `gdr probe rdma --odp` against the fake libibverbs: what a NIC offers for on-demand paging, with which access flags both ends register,
//! and what is said of a NIC that offers less.

use crate::support::nics::{Bench, HOST, Report, SHORT, TWO};
use serde_json::{Value, json};

/// Access flag of on-demand paging in verbs.h, and the one of relaxed ordering.
const ON_DEMAND: u64 = 1 << 6;
const RELAXED: u64 = 1 << 20;

/// What mlx5 offers (Linux 6.12, drivers/infiniband/hw/mlx5/odp.c).
fn mlx5() -> Value {
    json!({"verbs": {"odp": {
        "implicit": true,
        "rc": ["send", "recv", "write", "read", "atomic", "srq_recv"],
        "ud": ["send", "srq_recv"],
    }}})
}

fn bench(patch: &Value) -> Bench {
    Bench::of("two", patch).logging()
}

fn probe(bench: &Bench, options: &[&str]) -> Report {
    bench.probe(&[options, &["--odp"]].concat())
}

fn odp(report: &Report) -> Vec<&Value> {
    let results = report.results().iter();
    let named = results.filter(|result| {
        let name = result["name"].as_str().expect("a name");
        name.contains("odp")
    });
    named.collect()
}

#[test]
fn every_offered_operation_is_verified_and_measured_twice() {
    for options in [&HOST[..], &TWO[..]] {
        let bench = bench(&mlx5());
        let report = probe(&bench, options);
        assert_eq!(report.code, 0, "{:#}", report.value);
        for name in [
            "validate.rc.write",
            "validate.rc.read",
            "validate.rc.send",
            "validate.rc.fetch-add",
            "validate.rc.compare-swap",
            "rdma.write.latency",
            "rdma.read.latency",
            "rdma.send.latency",
            "rdma.write.bandwidth",
            "rdma.read.bandwidth",
            "rdma.send.bandwidth",
        ] {
            let ordinary = report.named(name);
            let paged = report.named(&format!("{name}.odp"));
            let sizes = |results: &[&Value]| -> Vec<Value> {
                results.iter().map(|result| result["bytes"].clone()).collect()
            };
            assert!(!ordinary.is_empty(), "{name}");
            assert_eq!(sizes(&paged), sizes(&ordinary), "{name}");
            for result in paged {
                assert_eq!(result["verdict"], "ok", "{result}");
                let compared = !name.ends_with("latency");
                assert!(!compared || result["verified"] == result["bytes"], "{result}");
            }
        }
        for name in ["rdma.write.first-touch.odp", "rdma.write.next-touch.odp"] {
            let touched = report.named(name);
            let bytes: Vec<u64> =
                touched.iter().map(|result| result["bytes"].as_u64().expect("bytes")).collect();
            assert_eq!(bytes, [8, 65536], "{name}");
            for result in touched {
                assert_eq!(
                    (&result["unit"], &result["samples"], &result["verified"]),
                    (&json!("us"), &json!(20), &result["bytes"]),
                    "{result}"
                );
            }
        }
        // Immediate data, both ways and the message rate are not repeated.
        assert_eq!(odp(&report).len(), 3 * 3 + 2 + 3 * 2 + 3 * 2 + 2 * 2);
        // Unreliable transports stay last: they may lose messages.
        let name = |result: &Value| result["name"].as_str().expect("a name").to_owned();
        let names: Vec<String> = report.results().iter().map(name).collect();
        let last_paged = names.iter().rposition(|name| name.ends_with(".odp"));
        let first_unreliable = names.iter().position(|name| name.contains(".uc."));
        assert!(last_paged < first_unreliable, "{names:?}");
        // Two ends of each case, and a trial of each end.
        let all = bench.registrations();
        let paged: Vec<&u64> = all.iter().filter(|access| **access & ON_DEMAND != 0).collect();
        assert_eq!(paged.len(), 2 * (3 * 3 + 2 + 3 * 2 + 3 * 2 + 2) + 2);
        // Bandwidth is compared with that of the same order of writes.
        let relaxed = paged.iter().filter(|access| ***access & RELAXED != 0);
        assert_eq!(relaxed.count(), 2 * 3 * 2);
    }
}

#[test]
fn report_says_what_the_nic_offers() {
    let bench = bench(&mlx5());
    // Also without the option.
    let report = bench.probe(&HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let expected = json!({
        "offered": true,
        "implicit": true,
        "rc": ["send", "recv", "write", "read", "atomic", "srq-recv"],
        "uc": [],
        "ud": ["send", "srq-recv"],
    });
    assert_eq!(report.ends()[0]["on_demand_paging"], expected);
    assert!(odp(&report).is_empty());
    let none = Bench::of("two", &json!({})).probe(&HOST);
    assert_eq!(none.ends()[0]["on_demand_paging"]["offered"], false);
}

#[test]
fn table_compares_both_registrations() {
    let bench = bench(&mlx5());
    let run = bench.gdr().args(SHORT).args(HOST).args(["--odp"]).run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    for text in ["latency with on-demand paging, us", "first touch", "next touch", "write, ODP"] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    let report = probe(&bench, &HOST);
    let notes = report.value["notes"].as_array().expect("notes");
    let notes: Vec<&str> = notes.iter().filter_map(Value::as_str).collect();
    let compared = notes
        .iter()
        .find(|note| note.starts_with("mlx5_0:1: on-demand paging instead of pinned pages:"))
        .unwrap_or_else(|| panic!("{notes:?}"));
    for words in [
        "latency of writes of 8 bytes ",
        "latency of sends of 8 bytes ",
        "bandwidth of reads of 65536 bytes ",
    ] {
        assert!(compared.contains(words), "{compared}");
    }
    for bytes in [8, 65536] {
        let start =
            format!("mlx5_0:1: a write of {bytes} bytes into pages that are not there takes ");
        assert!(notes.iter().any(|note| note.starts_with(&start)), "{notes:?}");
    }
}

#[test]
fn nic_without_it_is_no_failure() {
    let bench = bench(&json!({}));
    let report = probe(&bench, &HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let [only] = odp(&report)[..] else {
        panic!("{:#}", report.value);
    };
    assert_eq!(
        (&only["name"], &only["verdict"], &only["reason"]),
        (
            &json!("rdma.odp"),
            &json!("not_measured"),
            &json!("mlx5_0 offers no on-demand paging (ibv_query_device_ex)")
        )
    );
    // It was not tried.
    assert!(bench.registrations().iter().all(|access| access & ON_DEMAND == 0));
    // The ordinary results are those without the option.
    let ordinary = bench.probe(&HOST);
    assert_eq!(ordinary.results().len() + 1, report.results().len());
}

#[test]
fn missing_operations_are_named() {
    // As Soft-RoCE, but for reads and atomics.
    let bench = bench(&json!({"verbs": {"odp": {"rc": ["send", "recv", "write"]}}}));
    let report = probe(&bench, &HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let missing: Vec<&str> = odp(&report)
        .into_iter()
        .filter(|result| result["verdict"] == "not_measured")
        .map(|result| result["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        missing,
        ["rdma.read.bandwidth.odp", "validate.rc.fetch-add.odp", "validate.rc.compare-swap.odp"]
    );
    assert!(report.named("rdma.read.latency.odp").is_empty());
    assert_eq!(report.named("rdma.write.latency.odp").len(), 2);
    // Each end does its part: one sends, the other receives.
    let half = json!({"verbs": {"odp": {"rc": ["send", "write"]}}});
    let report = probe(&Bench::of("two", &half), &HOST);
    let [send] = report.named("rdma.send.bandwidth.odp")[..] else {
        panic!("{:#}", report.value);
    };
    let reason = send["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("the remote NIC offers no"), "{reason}");
}

#[test]
fn failing_registration_is_reported() {
    let mut patch = mlx5();
    patch["verbs"]["odp"]["registration"] = json!(22);
    let report = probe(&bench(&patch), &HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let [only] = odp(&report)[..] else {
        panic!("{:#}", report.value);
    };
    let reason = only["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("mlx5_0 offers on-demand paging, but the registration fails: ")
            && reason.contains("(os error 22)"),
        "{reason}"
    );
}

#[test]
fn wrong_bytes_are_found() {
    let mut patch = mlx5();
    patch["verbs"]["corrupt"] = json!({"as": "flip", "opcode": "write"});
    let report = probe(&bench(&patch), &HOST);
    assert_eq!(report.code, 1);
    for name in ["validate.rc.write.odp", "rdma.write.first-touch.odp"] {
        let found = report.named(name);
        assert!(!found.is_empty(), "{name}");
        for result in found {
            assert_eq!(result["verdict"], "wrong", "{result}");
        }
    }
}

#[test]
fn contradicting_options() {
    let bench = bench(&mlx5());
    for options in [
        &["--memory", "gpu"][..],
        &["--memory", "pinned"],
        &["--memory-path", "dma-buf"],
        &["--sim"],
    ] {
        let run = bench.gdr().args(options).args(["--odp"]).run();
        run.assert_code(2);
        assert!(run.stderr.contains("--odp is for host memory"), "{}", run.stderr);
    }
    for options in [&["--all"][..], &["--listen"]] {
        let run = bench.gdr().args(options).args(["--odp"]).run();
        run.assert_code(2);
    }
}
