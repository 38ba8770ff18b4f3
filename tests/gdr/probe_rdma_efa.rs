//! `gdr probe rdma` over EFA: SRD queue pairs of a fake libibverbs that is libefa too.

use crate::support::nics::{Bench, Report};
use serde_json::{Value, json};

/// From one EFA device to another.
const TWO: [&str; 6] = ["--memory", "host", "--device", "efa_0", "--remote-device", "efa_1"];

fn bench(patch: &Value) -> Bench {
    Bench::of("efa", patch).with_providers()
}

fn probe(patch: &Value) -> Report {
    bench(patch).probe(&TWO)
}

fn notes(report: &Report) -> String {
    let notes = report.value["notes"].as_array().expect("notes");
    let notes = notes.iter().map(|note| note.as_str().expect("text"));
    notes.collect::<Vec<_>>().join("\n")
}

/// The sizes of a result.
fn sizes(report: &Report, name: &str) -> Vec<u64> {
    let named = report.named(name).into_iter();
    named.map(|result| result["bytes"].as_u64().expect("bytes")).collect()
}

#[test]
fn measures_and_verifies_what_srd_has() {
    let report = probe(&json!({}));
    assert_eq!(report.code, 0, "{:#}", report.value);
    for result in report.results() {
        assert_eq!(result["verdict"], "ok", "{result}");
        let name = result["name"].as_str().expect("a name");
        let compares =
            name.starts_with("validate") || name.ends_with("bandwidth") && !name.contains("both");
        assert!(!compares || result["verified"] == result["bytes"], "{result}");
    }
    // Messages are not longer than a packet; reads and writes are.
    for (name, expected) in [
        ("validate.srd.send", &[1, 4096, 8928][..]),
        ("validate.srd.send-imm", &[1, 4096, 8928]),
        ("validate.srd.write", &[1, 4096, 65536]),
        ("validate.srd.write-imm", &[1, 4096, 65536]),
        ("validate.srd.read", &[1, 4096, 65536]),
        ("rdma.write-imm.latency", &[8, 65536]),
        ("rdma.read.latency", &[8, 65536]),
        ("rdma.send.latency", &[8, 8928]),
        ("rdma.write.bandwidth", &[8, 65536]),
        ("rdma.read.bandwidth", &[8, 65536]),
        ("rdma.send.bandwidth", &[8, 8928]),
        ("rdma.write.both.bandwidth", &[65536]),
        // Bytes arrive in no order: no byte is polled.
        ("rdma.write.latency", &[]),
        ("validate.srd.fetch-add", &[]),
        ("validate.rc.write", &[]),
        ("validate.ud.send", &[]),
    ] {
        assert_eq!(sizes(&report, name), expected, "{name}");
    }
    let end = &report.ends()[0];
    assert_eq!(
        (&end["link_layer"], &end["gid_kind"], &end["srd"]),
        (
            &json!("EFA"),
            &json!("EFA"),
            &json!({"rdma_read": true, "rdma_write": true, "largest_transfer": 1 << 30, "largest_message": 8928})
        )
    );
    let notes = notes(&report);
    for words in ["no atomic operations", "bytes arrive in no order", "at most 8928 bytes"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn one_device_reaches_itself_with_several_queue_pairs() {
    let options = ["--memory", "host", "--device", "efa_0", "--qps", "3"];
    let report = bench(&json!({})).probe(&options);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert!(!report.named("rdma.write.bandwidth").is_empty());
}

#[test]
fn every_request_has_a_completion_and_no_flag_that_libefa_refuses() {
    // The whole probe at its default sizes, with fewer places in queues than requests of one measurement.
    let bench = bench(&json!({"verbs": {"efa": {"inline_buf_size": 16}}}));
    let run = bench.gdr().args(["--quick"]).args(TWO).args(["--format", "json"]).run();
    let report = Report::of(&run);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(report.named("rdma.write.rate").len(), 1);
}

#[test]
fn a_device_without_reads_or_writes() {
    let without = |caps: Value| probe(&json!({"verbs": {"efa": {"caps": caps}}}));
    for (caps, lacking) in [
        (json!(["write", "rnr_retry"]), &["read"][..]),
        (json!(["read", "rnr_retry"]), &["write"]),
        (json!(["rnr_retry"]), &["read", "write"]),
    ] {
        let report = without(caps);
        assert_eq!(report.code, 0, "{:#}", report.value);
        let notes = notes(&report);
        for kind in ["read", "write"] {
            let lacks = lacking.contains(&kind);
            let named = report.named(&format!("rdma.{kind}.bandwidth"));
            assert_eq!(named.is_empty(), lacks, "{kind}: {:#}", report.value);
            let words = format!("RDMA {kind}s are not measured: efadv_query_device reports none");
            assert_eq!(notes.contains(&words), lacks, "{kind}: {notes}");
        }
        assert_eq!(sizes(&report, "rdma.send.bandwidth"), [8, 8928]);
    }
}

#[test]
fn one_end_without_writes_is_enough() {
    let report = probe(&json!({"verbs": {"devices": [
        {"name": "efa_0"},
        {"name": "efa_1", "guid": "e1", "efa": {"caps": ["read", "rnr_retry"]}},
    ]}}));
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert!(report.named("rdma.write.bandwidth").is_empty());
    assert!(!report.named("rdma.read.bandwidth").is_empty());
}

#[test]
fn a_library_before_capabilities_has_messages_alone() {
    let report = probe(&json!({"verbs": {"efa": {"old_library": true}}}));
    assert_eq!(report.code, 0, "{:#}", report.value);
    let notes = notes(&report);
    for words in ["older than rdma-core 28", "older than rdma-core 47"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert_eq!(report.ends()[0]["srd"]["largest_transfer"], 0);
}

#[test]
fn a_small_largest_transfer_limits_reads_and_writes() {
    let report = probe(&json!({"verbs": {"efa": {"max_rdma_size": 10000}}}));
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(sizes(&report, "rdma.read.bandwidth"), [8, 10000]);
    assert!(notes(&report).contains("reads and writes have at most 10000 bytes"));
}

#[test]
fn failures_have_a_cause() {
    for (patch, words) in [
        (json!({"errors": {"ibv_create_ah": 12}}), "ibv_create_ah failed: Cannot allocate memory"),
        (
            json!({"errors": {"efadv_create_qp_ex": 95}}),
            "efadv_create_qp_ex failed: Operation not supported",
        ),
        (
            json!({"errors": {"efadv_query_device": 22}}),
            "efadv_query_device failed: Invalid argument",
        ),
        (
            json!({"verbs": {"fail": [{"nth": 3, "status": 10, "vendor_err": 7, "opcode": "write"}]}}),
            "the remote memory is not registered with this access",
        ),
        (
            json!({"verbs": {"devices": [{"name": "efa_0"}, {"name": "efa_1", "guid": "e1", "efa": false}]}}),
            "one port is of EFA and the other is not",
        ),
    ] {
        let report = probe(&patch);
        assert!(report.reason().contains(words), "{}", report.reason());
    }
}

#[test]
fn without_libefa_the_loader_says_so() {
    // The plain library: there is no libefa.so.1 beside it, and the machine's own, if it has one, cannot be loaded with it.
    let report = Bench::of("efa", &json!({})).probe(&TWO);
    assert_eq!(report.code, 1, "{:#}", report.value);
    let reason = report.reason();
    assert!(reason.contains("libefa.so.1"), "{reason}");
}

#[test]
fn detects_corruption() {
    let report = probe(&json!({"verbs": {"corrupt": {"as": "flip"}}}));
    assert_eq!(report.code, 1);
    for kind in ["read", "send", "send-imm", "write", "write-imm"] {
        let named = report.named(&format!("validate.srd.{kind}"));
        assert_eq!(named.len(), 3, "{kind}: {:#}", report.value);
        assert!(named.iter().all(|result| result["verdict"] == "wrong"));
    }
}

#[test]
fn table_and_perftest_commands() {
    let run = bench(&json!({"verbs": {"efa": {"caps": ["read", "rnr_retry"]}}}))
        .gdr()
        .args(["--quick", "--size", "8,65536", "--show-perftest"])
        .args(TWO)
        .run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    for line in [
        "local: efa_0:1, EFA, GID 0, SRD, messages of 8928 bytes, RDMA read, no RDMA write, host memory",
        "ib_read_bw -d efa_0 -i 1 -x 0 -c SRD -s 65536 -F --report_gbits localhost",
        "ib_send_lat -d efa_1 -i 1 -x 0 -c SRD -s 8 -F",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("ib_write_bw"), "{}", run.stdout);
}
