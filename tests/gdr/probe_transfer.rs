//! `gdr probe transfer` over fakes of libibverbs and libcuda: every curve, what a machine lacks, wrong bytes, and peers that lie or die.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::nics::{Bench, Report};
use crate::support::{Gdr, Side};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::probe_rdma_peers::met;

const SIZES: [u64; 3] = [4, 65536, 1 << 20];
const SHORT: [&str; 5] = ["probe", "transfer", "--quick", "--size", "4,65536,1MiB"];
const CURVES: [&str; 7] = ["host", "v3", "v3-far", "v2", "v1-pipelined", "v1", "no-gpudirect"];

fn bench(nics: &Value, gpus: &Value) -> Bench {
    Bench::of("two", nics).with_gpus(gpus)
}

/// GPU0 is measured; GPU1 is the other one of GPUDirect v2.
fn transfer(bench: &Bench, options: &[&str]) -> Report {
    let run = bench.under(Gdr::new()).args(SHORT).args(options);
    Report::of(&run.args(["--format", "json"]).run())
}

/// The sizes of the results with this name and verdict.
fn sizes(report: &Report, name: &str, verdict: &str) -> Vec<u64> {
    let found = report.named(name).into_iter();
    found
        .filter(|result| result["verdict"] == verdict)
        .filter_map(|result| result["bytes"].as_u64())
        .collect::<BTreeSet<u64>>()
        .into_iter()
        .collect()
}

/// Sizes whose bytes were compared.
fn verified(report: &Report, curve: &str) -> Vec<u64> {
    // The measurement itself compares a pipelined message.
    let name = match curve {
        "v1-pipelined" => "transfer.v1-pipelined.bandwidth".to_owned(),
        curve => format!("validate.transfer.{curve}"),
    };
    for result in report.named(&name) {
        assert!(result["verified"].as_u64() >= result["bytes"].as_u64());
    }
    sizes(report, &name, "ok")
}

#[test]
fn every_curve_is_verified_and_measured() {
    let bench = bench(&json!({}), &json!({}));
    let report = transfer(&bench, &[]);
    assert_eq!(report.code, 0, "{:#}", report.value);
    for curve in CURVES {
        assert_eq!(verified(&report, curve), SIZES, "{curve}");
        for figure in ["latency", "bandwidth"] {
            let name = format!("transfer.{curve}.{figure}");
            assert_eq!(sizes(&report, &name, "ok"), SIZES, "{name}");
            for result in report.named(&name) {
                let unit = if figure == "latency" { "us" } else { "GB/s" };
                assert_eq!(result["unit"], unit);
                assert!(result["median"].as_f64() > Some(0.0), "{result}");
            }
        }
    }
    let chunks: BTreeSet<u64> = report
        .named("transfer.v1-pipelined.search")
        .iter()
        .filter_map(|result| result["chunk"].as_u64())
        .collect();
    assert!(chunks.len() > 1, "{chunks:?}");
    let best = report.named("transfer.v1-pipelined.bandwidth")[0]["chunk"].as_u64();
    assert!(best.is_some_and(|best| chunks.contains(&best)), "{best:?}");
    assert_eq!(report.ends()[0]["memory_path"], "dma-buf");
    let subjects = |name: &str| report.named(name)[0]["subject"].clone();
    assert_eq!(subjects("transfer.v2.bandwidth"), "GPU0 -> GPU1");
    assert_ne!(subjects("transfer.v3.bandwidth"), subjects("transfer.v3-far.bandwidth"));
    let notes = report.value["notes"].to_string();
    assert!(notes.contains("ONE MACHINE: both ends are here"), "{notes}");
}

#[test]
fn figure_has_latency_bandwidth_and_distance() {
    let bench = bench(&json!({}), &json!({}));
    let run = bench.under(Gdr::new()).args(SHORT);
    let run = run.args(["--gpu", "0", "--format", "svg"]).run();
    run.assert_code(0);
    for words in [
        ": half of the round trip",
        ": bandwidth",
        "GPUDirect RDMA by the distance of GPU and NIC",
        "v1, copy and send in chunks",
        "host to host, the ceiling",
        "unknown distance",
        "ONE MACHINE",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
}

#[test]
fn options_of_rdma_alone_are_rejected() {
    for option in ["--all", "--together", "--memory=gpu", "--odp", "--show-perftest"] {
        let run = Gdr::new().args(["probe", "transfer", option]).run();
        run.assert_code(2);
        let name = option.split('=').next().unwrap_or_default();
        let words = format!("unexpected argument '{name}' found");
        assert!(run.stderr.contains(&words), "{}", run.stderr);
    }
}

#[test]
fn missing_ways_are_reported() {
    let nothing = json!({"verbs": {"dmabuf": 95, "peermem": false}});
    let alone = json!({"pair": {"can_access": false}});
    let report = transfer(&bench(&nothing, &alone), &["--device", "mlx5_0"]);
    assert_eq!(report.code, 0, "{:#}", report.value);
    for (curve, words) in [("v3", "gdr doctor --live"), ("v2", "does not allow peer access")] {
        let results = report.named(&format!("transfer.{curve}.bandwidth"));
        assert!(!results.is_empty(), "{curve}");
        for result in results {
            let reason = result["reason"].as_str().expect("a reason");
            assert_eq!(result["verdict"], "not_measured");
            assert!(reason.contains(words), "{reason}");
        }
    }
    assert!(report.memory_path("peermem").1.contains("peermem.loaded"));
    for curve in ["host", "v1", "v1-pipelined", "no-gpudirect"] {
        assert_eq!(verified(&report, curve), SIZES, "{curve}");
    }
    // One GPU has no peer.
    let report = transfer(&bench(&json!({}), &json!({})), &["--gpu", "0"]);
    let [only] = report.named("transfer.v2.bandwidth")[..] else {
        panic!("{:#}", report.value);
    };
    assert_eq!(only["reason"], "GPUDirect v2 needs two GPUs in one machine");
}

#[test]
fn wrong_bytes_are_found_in_every_curve() {
    let flip = json!({"verbs": {"corrupt": {"as": "flip", "opcode": "send", "over": 4096}}});
    let report =
        transfer(&bench(&flip, &json!({"pair": {"copies": "zero"}})), &["--device", "mlx5_0"]);
    assert_eq!(report.code, 1, "{:#}", report.value);
    for curve in ["host", "v3", "v1", "no-gpudirect"] {
        let name = format!("validate.transfer.{curve}");
        assert_eq!(sizes(&report, &name, "ok"), [4], "{name}");
        assert_eq!(sizes(&report, &name, "wrong"), [65536, 1 << 20], "{name}");
    }
    let pipelined = "transfer.v1-pipelined.bandwidth";
    assert_eq!(sizes(&report, pipelined, "wrong"), [65536, 1 << 20]);
    assert_eq!(sizes(&report, "validate.transfer.v2", "wrong"), SIZES);
}

/// A NIC of this machine moves the host memory that stands for a simulated GPU's.
#[test]
fn simulated_gpu_has_every_curve() {
    let bench = Bench::of("two", &json!({}));
    let report = transfer(&bench, &["--sim", "--device", "mlx5_0"]);
    assert_eq!((report.code, &report.value["simulated"]), (0, &json!(true)), "{:#}", report.value);
    for curve in CURVES.into_iter().filter(|curve| *curve != "v3-far") {
        assert_eq!(verified(&report, curve), SIZES, "{curve}");
    }
    assert_eq!(report.ends()[0]["memory_path"], "simulated");
    for result in report.results() {
        let (name, backend) = (result["name"].as_str(), result["backend"].as_str());
        let is_host = name.is_some_and(|name| name.split('.').any(|part| part == "host"));
        if is_host {
            // No part of it is simulated.
            assert_eq!(backend, Some("verbs"), "{result}");
        } else {
            assert!(backend.is_some_and(|backend| backend.contains("sim")), "{result}");
        }
    }
}

/// How long a side may take whose peer lies or dies.
const SOON: Duration = Duration::from_secs(5);

/// A client that asks for chunks of such a size; the server's last message to it, and the server.
fn asked_for_chunks(chunk: u64) -> (Side, Vec<Value>) {
    let (server, invitation) = Side::listening_for_transfers(&json!({}), &[]);
    let link = met(&invitation);
    let say = |message: Value| json!({"say": [0, message]});
    let flow = json!({
        "kind": "send", "bytes": 4096, "count": 1, "depth": 1, "chunk": chunk, "seeds": null,
        "time": {"secs": 1, "nanos": 0},
    });
    let purpose = json!({
        "transport": "rc", "pairs": 1, "kind": "send", "bytes": 4096, "ways": "staged", "relaxed_ordering": false,
        "on_demand": false, "settings": {
            "traffic_class": 0, "service_level": 0, "hop_limit": 64, "flow_label": 0, "static_rate": 0, "mtu": null,
            "timeout": 14, "retries": 7, "receiver_retries": 7, "receiver_timer": 12,
        },
    });
    for message in [
        json!({"has": {"host": "liar", "ends": [{"subject": "x", "limit": null, "curve": "pipelined"}]}}),
        // The third end: GPUDirect v1 in chunks.
        json!({"begin": {"number": 0, "subject": "x", "end": 2, "room": 4096}}),
        say(json!({"offer": {
            "lid": 7, "gid": null, "mtu": 4096, "reads": 16, "ethernet": false, "half": 4096,
            "staged": true, "pinned": true, "seen": false, "simulated": true, "relaxed_ordering": false,
            "atomics": true, "pkey": 0xffff,
        }})),
        say(json!({"step": {"connect": purpose}})),
        say(json!({"pairs": [[{"queue_pair": 1, "psn": 1, "qkey": 1}], null]})),
        say(json!({"step": {"staged": flow}})),
    ] {
        link.send(&message).expect("sent");
    }
    let until = Instant::now() + Duration::from_secs(30);
    let mut received = Vec::new();
    while let Ok(message) = link.receive(until) {
        let is_last = message == json!({"say": [0, "ready"]}) || message.get("over").is_some();
        received.push(message);
        if is_last {
            break;
        }
    }
    (server, received)
}

#[test]
fn chunks_that_do_not_fit_end_the_server() {
    let (server, received) = asked_for_chunks(65536);
    assert_eq!(received.last(), Some(&json!({"say": [0, "ready"]})), "{received:?}");
    drop(server);
    // Half of the buffer is 2 MiB.
    for chunk in [0, (2 << 20) + 1, u64::MAX] {
        let (server, received) = asked_for_chunks(chunk);
        assert!(!received.contains(&json!({"say": [0, "ready"]})), "{chunk}: {received:?}");
        let begun = Instant::now();
        let ended = server.end();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(ended.code, 1, "{} {}", ended.out, ended.err);
        assert!(ended.out.contains("the other end is out of step"), "{}", ended.out);
    }
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn dead_end_stops_the_other() {
    // Requests vanish: both ends wait for a long time.
    let stuck = json!({"verbs": {"swallow": 1}});
    let long = ["--library-timeout", "600"];
    for dies_first in [true, false] {
        let (server, invitation) = Side::listening_for_transfers(&stuck, &long);
        let client = Side::invited_to_transfers(&invitation, &stuck, &long);
        let until = Instant::now() + Duration::from_secs(60);
        while client.inner().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(3));
        let (dead, other) = if dies_first { (server, client) } else { (client, server) };
        dead.signal(Signal::KILL);
        let begun = Instant::now();
        let other = other.end();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(other.code, 1, "{} {}", other.out, other.err);
        assert!(other.out.contains("disconnected: "), "{}", other.out);
    }
}

#[test]
fn ends_must_run_the_same_probe() {
    let (server, invitation) = Side::listening(&json!({}), &[]);
    let client = Side::invited_to_transfers(&invitation, &json!({}), &[]);
    let begun = Instant::now();
    let (client, server) = (client.end(), server.end());
    assert!(begun.elapsed() < SOON + Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(client.out.contains("the two ends run different probes"), "{}", client.out);
    assert_eq!((client.code, server.code), (1, 1));
}
