//! What moves memory by cards: the child itself, against a simulated libibverbs.so.1 whose requests fail, vanish or arrive wrong,
//! and without any.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use fake_nvml_build::verbs;
use serde_json::{Value, json};
use support::{Gdr, merge};

/// Two ends on these ports, and a patience of so many seconds.
fn task(near: &Value, far: &Value, patience: u64) -> String {
    let terms = json!({
        "depth": "quick", "sizes": [8, 65536], "shares": {}, "patience": {"secs": patience, "nanos": 0},
    });
    json!({"rdma": {"near": near, "far": far, "sort": "host", "terms": terms}}).to_string()
}

fn port(device: &str) -> Value {
    json!({"device": device, "number": 1, "gid": null})
}

/// The results that a child tells on a machine of this name with a merge patch.
fn probe(machine: &str, patch: &Value, task: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("verbs.json");
    let text = fs::read_to_string(verbs::machine(machine)).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    merge(&mut machine, patch);
    fs::write(&file, machine.to_string()).expect("a file");
    let library = verbs::build().expect("the simulated library");
    let gdr = verbs::environment(&library, &file)
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
    results(gdr, task)
}

fn results(gdr: Gdr, task: &str) -> Vec<Value> {
    let run = gdr.args(["__probe", task]).run();
    assert!(
        run.code == 0 && !run.stderr.contains("panicked"),
        "{} {}",
        run.code,
        run.stderr
    );
    let events = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let events: Vec<Value> = events.collect();
    assert_eq!(events.last(), Some(&json!("end")));
    events.iter().filter_map(|event| event.get("result").cloned()).collect()
}

fn named<'r>(results: &'r [Value], name: &str) -> Vec<&'r Value> {
    results.iter().filter(|result| result["name"] == name).collect()
}

#[test]
fn between_one_port_and_itself_and_between_two_cards_every_byte_is_right() {
    for (machine, near, far, subject) in [
        ("two", "mlx5_0", "mlx5_0", "mlx5_0:1"),
        ("two", "mlx5_0", "mlx5_1", "mlx5_0:1 -> mlx5_1:1"),
        ("roce", "mlx5_0", "mlx5_1", "mlx5_0:1 -> mlx5_1:1"),
    ] {
        let results = probe(machine, &json!({}), &task(&port(near), &port(far), 10));
        assert!(
            results
                .iter()
                .all(|result| result["verdict"] == "ok" && result["subject"] == subject),
            "{results:#?}"
        );
        // Three sizes of eight ways, two atomic operations; two figures of two sizes of three ways.
        assert_eq!(results.len(), 3 * 8 + 2 + 2 * 2 * 3, "{results:#?}");
    }
}

#[test]
fn what_arrives_wrong_is_wrong_though_the_card_says_that_all_is_well() {
    for (how, opcode, names) in [
        ("zero", "write", ["validate.rc.write", "validate.rc.write-imm"]),
        ("drop", "send", ["validate.rc.send", "validate.uc.send"]),
        ("flip", "read", ["validate.rc.read", "validate.rc.read"]),
    ] {
        let patch = json!({"verbs": {"corrupt": {"as": how, "opcode": opcode}}});
        let results = probe("two", &patch, &task(&port("mlx5_0"), &port("mlx5_1"), 10));
        for name in names {
            let found = named(&results, name);
            assert!(!found.is_empty());
            for result in found {
                assert_eq!(result["verdict"], "wrong", "{how} {result}");
                let reason = result["reason"].as_str().expect("a reason");
                assert!(
                    reason.contains("was expected and") && reason.contains("pcie.iommu"),
                    "{reason}"
                );
            }
        }
        // The other ways are right.
        assert!(
            named(&results, "validate.rc.fetch-add")
                .iter()
                .all(|result| result["verdict"] == "ok")
        );
    }
}

#[test]
fn an_atomic_operation_that_did_nothing_is_wrong() {
    for (opcode, name) in [("fetch_add", "fetch-add"), ("compare_swap", "compare-swap")] {
        let patch = json!({"verbs": {"corrupt": {"as": "drop", "opcode": opcode}}});
        let results = probe("two", &patch, &task(&port("mlx5_0"), &port("mlx5_0"), 10));
        let found = named(&results, &format!("validate.rc.{name}"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["verdict"], "wrong", "{}", found[0]);
    }
}

#[test]
fn every_status_of_a_request_that_fails_is_told_in_words() {
    for (status, words) in [
        (1, "a message is longer than the buffer posted for it"),
        (2, "its queue pair is not consistent"),
        (4, "local memory of the request is not registered"),
        (8, "may not be written where it was to go"),
        (9, "the far side refused the request"),
        (10, "the far side's memory is not registered for this"),
        (11, "the far side could not do it"),
        (12, "the far side does not answer"),
        (13, "the far side had no buffer posted"),
        (19, "the card has failed"),
        (20, "the far side answered too late"),
        (21, "the card gives no reason"),
    ] {
        let patch = json!({"verbs": {"fail": [{"nth": 3, "status": status, "vendor_err": 0x88, "opcode": "write"}]}});
        let begun = Instant::now();
        let results = probe("two", &patch, &task(&port("mlx5_0"), &port("mlx5_1"), 10));
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "it did not wait for what does not come"
        );
        let last = results.last().expect("a result");
        let reason = last["reason"].as_str().unwrap_or_default();
        assert_eq!(
            (&last["verdict"], &last["required"]),
            (&json!("impossible"), &json!(true))
        );
        assert!(
            reason.starts_with("a request to the card failed: ")
                && reason.contains(words)
                && reason.contains(&format!(", {status}, vendor syndrome 0x88)")),
            "{status}: {reason}"
        );
    }
}

#[test]
fn what_never_completes_is_given_up() {
    let patch = json!({"verbs": {"swallow": 5}});
    let begun = Instant::now();
    let results = probe("two", &patch, &task(&port("mlx5_0"), &port("mlx5_1"), 2));
    let reason = results.last().expect("a result")["reason"].as_str().unwrap_or_default();
    assert!(reason.ends_with("did not come within 2 s"), "{reason}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_port_that_is_down_or_goes_down_is_told() {
    let refused = |patch: Value, far: &str| {
        let results = probe("two", &patch, &task(&port("mlx5_0"), &port(far), 5));
        let reason = &results.last().expect("a result")["reason"];
        reason.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(
        refused(json!({"verbs": {"state": "down"}}), "mlx5_1"),
        "port mlx5_0:1 is not active but Down: see its cable, and gdr doctor --only rdma.port"
    );
    let gone = refused(json!({"verbs": {"port_down_after": 6}}), "mlx5_1");
    assert!(gone.starts_with("port mlx5_0:1 went down meanwhile"), "{gone}");
    assert_eq!(refused(json!({}), "mlx5_7"), "libibverbs serves no device mlx5_7");
}

#[test]
fn memory_that_is_not_registered_is_told() {
    let patch = json!({"verbs": {"memlock": 4096}});
    let results = probe("two", &patch, &task(&port("mlx5_0"), &port("mlx5_0"), 5));
    let reason = results.last().expect("a result")["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("mlx5_0 does not register ") && reason.contains("Cannot allocate memory"),
        "{reason}"
    );
}

#[test]
fn without_a_library_it_says_so() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let broken = empty.path().join("libibverbs.so.1");
    fs::write(&broken, "no library").expect("a file");
    let results = results(
        Gdr::new().env("LD_LIBRARY_PATH", empty.path()),
        &task(&port("mlx5_0"), &port("mlx5_0"), 5),
    );
    assert_eq!(results.len(), 1);
    let reason = results[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("libibverbs.so.1 cannot be loaded: "), "{reason}");
}
