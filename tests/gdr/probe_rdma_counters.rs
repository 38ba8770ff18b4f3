//! `gdr probe rdma`: counters that rise during a connection. The NICs, their counters in sysfs and the statistics of their network
//! interfaces are fakes: ECN, CNP and PFC, which Soft-RoCE lacks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::nics::{Bench, Report, SHORT, TWO};
use crate::support::{Gdr, fake_ethtool};
use serde_json::{Value, json};

/// A NIC's port in a `/sys`, with these counters and a network interface.
fn port(sys: &Path, device: &str, interface: &str, counters: &[(&str, u64)]) {
    let port = sys.join("class/infiniband").join(device).join("ports/1");
    for directory in ["counters", "hw_counters", "gid_attrs/ndevs"] {
        fs::create_dir_all(port.join(directory)).expect("a directory");
    }
    for (name, value) in counters {
        let file = port.join(name);
        fs::write(file, format!("{value}\n")).expect("a file");
    }
    fs::write(port.join("state"), "4: ACTIVE\n").expect("a file");
    fs::write(port.join("gid_attrs/ndevs/0"), format!("{interface}\n")).expect("a file");
}

const COUNTERS: [(&str, u64); 8] = [
    ("counters/symbol_error", 4),
    ("counters/port_xmit_data", 5),
    ("hw_counters/out_of_sequence", 7),
    ("hw_counters/packet_seq_err", 2),
    ("hw_counters/np_cnp_sent", 0),
    ("hw_counters/np_ecn_marked_roce_packets", 100),
    ("hw_counters/rx_write_requests", 9),
    ("hw_counters/lifespan", 10),
];

/// Runs the probe between two NICs whose counters rise as these rules say: device, counter, rise.
fn probe(rises: &[(&str, &str, u64)], statistics: &[(&str, &str, u64)]) -> (Report, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let sys = directory.path().join("sys");
    port(&sys, "mlx5_0", "roce0", &COUNTERS);
    port(&sys, "mlx5_1", "roce1", &COUNTERS);
    let rule = |(device, name, rise): &(&str, &str, u64)| {
        let file = format!("/sys/class/infiniband/{device}/ports/1/{name}");
        json!({"nth": 40, "file": file, "add": rise})
    };
    let rules: Vec<Value> = rises.iter().map(rule).collect();
    let bench = Bench::of("two", &json!({"verbs": {"count": rules}}));
    let before: String =
        statistics.iter().map(|(of, name, _)| format!("{of} {name} 1\n")).collect();
    let file = directory.path().join("statistics");
    fs::write(&file, &before).expect("a file");
    // The statistics rise with the same request as the first counter.
    let library = fake_ethtool(directory.path());
    let run = |format: &str| {
        let gdr =
            bench.on(Gdr::with_sys(&sys)).env("LD_PRELOAD", &library).env("FAKE_ETHTOOL", &file);
        gdr.args(SHORT).args(TWO).args(["--format", format])
    };
    let rise = |file: PathBuf| {
        let after: String = statistics
            .iter()
            .map(|(of, name, rise)| format!("{of} {name} {}\n", 1 + rise))
            .collect();
        if let Some((device, name, _)) = rises.first() {
            let counter = sys.join(format!("class/infiniband/{device}/ports/1/{name}"));
            wait_for_change(&counter);
        }
        // A reader sees the old file or the new one.
        let new = file.with_extension("new");
        fs::write(&new, after).expect("a file");
        fs::rename(new, file).expect("the same directory");
    };
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| run("json").run());
        rise(file.clone());
        running.join().expect("it ends")
    });
    let report = Report::of(&report);
    (report, run("table").run().stdout)
}

fn wait_for_change(counter: &Path) {
    let read = || fs::read_to_string(counter).expect("a counter");
    let (before, begun) = (read(), Instant::now());
    while read() == before && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The counters of a report: remote, of, name, rise, kind.
fn summary(report: &Report) -> Vec<Value> {
    let changes = report.value["counters"].as_array();
    let changes = changes.map_or(&[][..], Vec::as_slice).iter();
    changes
        .map(|change| {
            json!([change["remote"], change["of"], change["name"], change["rise"], change["kind"]])
        })
        .collect()
}

#[test]
#[ignore = "needs root, a C compiler"]
fn rising_counters_are_reported_with_meaning_and_cause() {
    let (report, table) = probe(
        &[
            ("mlx5_0", "hw_counters/packet_seq_err", 3),
            ("mlx5_1", "hw_counters/out_of_sequence", 3),
            ("mlx5_1", "hw_counters/np_ecn_marked_roce_packets", 50),
            ("mlx5_1", "hw_counters/np_cnp_sent", 6),
            // Traffic.
            ("mlx5_1", "hw_counters/rx_write_requests", 1000),
            ("mlx5_1", "counters/port_xmit_data", 1000),
        ],
        &[
            ("roce0", "rx_prio3_pause", 12),
            ("roce1", "tx_prio3_pause", 12),
            ("roce1", "rx_packets", 99),
        ],
    );
    // A hidden loss does not make the bytes wrong, nor the figures slow.
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(
        summary(&report),
        [
            json!([false, "mlx5_0:1", "packet_seq_err", 3, "loss"]),
            json!([false, "roce0", "rx_prio3_pause", 12, "congestion"]),
            json!([true, "mlx5_1:1", "np_cnp_sent", 6, "congestion"]),
            json!([true, "mlx5_1:1", "np_ecn_marked_roce_packets", 50, "congestion"]),
            json!([true, "mlx5_1:1", "out_of_sequence", 3, "loss"]),
            json!([true, "roce1", "tx_prio3_pause", 12, "congestion"]),
        ]
    );
    for change in report.value["counters"].as_array().expect("counters") {
        assert_eq!(change["subject"], "mlx5_0:1 -> mlx5_1:1");
        assert!(change["meaning"].as_str().is_some_and(|text| text.ends_with('.')), "{change}");
    }
    let words: Vec<&str> = table.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains(
            "hidden loss packet_seq_err +3 (local mlx5_0:1): The responder reported missing packets"
        ) && words.contains("congestion: np_cnp_sent +6 (remote mlx5_1:1)"),
        "{table}"
    );
}

#[test]
#[ignore = "needs root, a C compiler"]
fn lossless_port_raises_nothing() {
    let (report, table) = probe(
        &[("mlx5_1", "hw_counters/rx_write_requests", 1000)],
        &[("roce0", "rx_prio3_pause", 0), ("roce0", "rx_bytes", 77)],
    );
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(summary(&report), [Value::Null; 0]);
    assert!(!report.value["notes"].to_string().contains("counters"), "{}", report.value["notes"]);
    assert!(!table.contains("hidden loss") && !table.contains("congestion"), "{table}");
}

/// A request that fails is explained by the counters that rose before.
#[test]
#[ignore = "needs root, a C compiler"]
fn counters_of_failed_connection_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let sys = directory.path().join("sys");
    for device in ["mlx5_0", "mlx5_1"] {
        port(&sys, device, "roce0", &COUNTERS);
    }
    let file = "/sys/class/infiniband/mlx5_1/ports/1/hw_counters/out_of_sequence";
    let patch = json!({"verbs": {
        "count": {"nth": 20, "file": file, "add": 9},
        "fail": [{"nth": 30, "status": 12}],
    }});
    let bench = Bench::of("two", &patch);
    let run = bench.on(Gdr::with_sys(&sys)).args(SHORT).args(TWO).args(["--format", "json"]).run();
    let report = Report::of(&run);
    assert!(report.reason().contains("no answer from the remote end"), "{}", report.reason());
    assert_eq!(summary(&report), [json!([true, "mlx5_1:1", "out_of_sequence", 9, "loss"])]);
}

#[test]
fn missing_counters_are_reported() {
    let report = Bench::of("two", &json!({})).probe(&TWO);
    let notes = report.value["notes"].to_string();
    for port in ["mlx5_0:1", "mlx5_1:1"] {
        let note = format!(
            "the counters of {port} cannot be read here, so a loss that the transport hides would not show"
        );
        assert!(notes.contains(&note), "{notes}");
    }
}
