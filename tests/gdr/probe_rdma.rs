//! `gdr probe rdma`: the binary itself, against a simulated libibverbs.so.1 whose requests fail, vanish or arrive wrong, with a
//! simulated libcuda.so.1 beside it and without, and on machines that have neither.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use crate::support::Gdr;
use crate::support::nics::{Bench, HOST, Report, SHORT, TWO};
use serde_json::{Value, json};

#[test]
fn loopback_and_two_nics_verify() {
    for (machine, options, subject) in [
        ("two", HOST.as_slice(), "mlx5_0:1"),
        ("two", TWO.as_slice(), "mlx5_0:1 -> mlx5_1:1"),
        ("roce", TWO.as_slice(), "mlx5_0:1 -> mlx5_1:1"),
    ] {
        let report = Bench::of(machine, &json!({})).probe(options);
        assert_eq!(report.code, 0, "{:#}", report.value);
        for result in report.results() {
            assert_eq!(
                (&result["verdict"], &result["subject"]),
                (&json!("ok"), &json!(subject)),
                "{result}"
            );
            let compared = result["name"]
                .as_str()
                .is_some_and(|name| !name.ends_with("latency") && !name.contains("both"));
            assert!(!compared || result["verified"] == result["bytes"], "{result}");
        }
        // RC: three sizes of five ways, and two atomic ones; UC: three of three; UD: two sizes below the MTU of two. Latencies and
        // bandwidths of two sizes of three ways, and both ways at once.
        let verified = (3 * 5 + 2) + 3 * 3 + 2 * 2;
        assert_eq!(report.results().len(), verified + 2 * 3 * 2 + 1, "{:#}", report.value);
        let kind = if machine == "roce" { "RoCE v2" } else { "InfiniBand" };
        assert_eq!(report.ends()[0]["gid_kind"], kind);
    }
}

#[test]
fn a_nic_with_few_inline_bytes() {
    // irdma's first generation, a NIC below that, and one without.
    for most in [48, 20, 0] {
        let patch = json!({"verbs": {"limits": {"max_inline_data": most}}});
        let report = Bench::of("two", &patch).probe(&HOST);
        assert_eq!(report.code, 0, "{most}: {:#}", report.value);
    }
}

#[test]
fn nics_without_atomics_are_named() {
    // Both, and the remote one alone.
    let both = json!({"verbs": {"limits": {"atomic_cap": 0}}});
    let remote = json!({"verbs": {"devices": [
        {"name": "mlx5_0"},
        {"name": "mlx5_1", "limits": {"atomic_cap": 0}},
    ]}});
    for (patch, whose) in [(both, "local"), (remote, "remote")] {
        let report = Bench::of("two", &patch).probe(&TWO);
        assert_eq!(report.code, 0, "{:#}", report.value);
        assert!(report.named("validate.rc.fetch-add").is_empty());
        assert!(report.named("validate.rc.compare-swap").is_empty());
        assert!(!report.named("validate.rc.write").is_empty());
        let notes = report.value["notes"].to_string();
        let expected = format!(
            "atomic operations are not verified: the {whose} NIC reports none (ibv_query_device)"
        );
        assert!(notes.contains(&expected), "{notes}");
    }
    let sound = Bench::of("two", &json!({})).probe(&TWO);
    assert!(!sound.value["notes"].to_string().contains("atomic"));
}

#[test]
fn iwarp_is_named() {
    let report = Bench::of("two", &json!({"verbs": {"iwarp": true}})).probe(&HOST);
    let reason = report.reason();
    assert!(
        reason.starts_with("mlx5_0 speaks iWARP") && reason.contains("enable_roce"),
        "{reason}"
    );
}

#[test]
fn default_sizes_measure_message_rate() {
    let bench = Bench::of("two", &json!({}));
    let run = bench.gdr().args(["--quick", "--qps", "3", "--format", "json"]).args(HOST).run();
    let report = Report::of(&run);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let rate = report.named("rdma.write.rate");
    assert_eq!((rate.len(), &rate[0]["unit"]), (1, &json!("M/s")));
    assert!(rate[0]["median"].as_f64().is_some_and(|rate| rate > 0.0));
    let latency = report.named("rdma.write.latency");
    for result in latency {
        let (median, p99, p999) =
            (result["median"].as_f64(), result["p99"].as_f64(), result["p999"].as_f64());
        let samples = result["samples"].as_u64().expect("a number");
        assert_eq!((p99.is_some(), p999.is_some()), (samples >= 100, samples >= 1000), "{result}");
        assert!(p99.is_none() || (p99 >= median && (p999.is_none() || p999 >= p99)), "{result}");
    }
}

#[test]
fn table_names_ends_and_perftest_commands() {
    let bench = Bench::of("roce", &json!({}));
    let run = bench.gdr().args(SHORT).args(TWO).args(["--show-perftest"]).run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    for line in [
        "local: mlx5_0:1, Ethernet, GID 3 (RoCE v2), MTU 4096, host memory",
        "remote: mlx5_1:1, Ethernet, GID 3 (RoCE v2), MTU 4096, host memory",
        "ib_write_bw -d mlx5_0 -i 1 -x 3 -s 65536 -F --report_gbits localhost",
        "ib_write_bw -d mlx5_1 -i 1 -x 3 -s 65536 -F --report_gbits",
        "ib_send_lat -d mlx5_0 -i 1 -x 3 -s 8 -F localhost",
        "all bytes are correct",
        "passed:",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn detects_corruption_despite_success() {
    for (how, opcode, names) in [
        ("zero", "write", ["validate.rc.write", "rdma.write.bandwidth"]),
        ("drop", "send", ["validate.rc.send", "validate.uc.send"]),
        ("flip", "read", ["validate.rc.read", "rdma.read.bandwidth"]),
    ] {
        let patch = json!({"verbs": {"corrupt": {"as": how, "opcode": opcode}}});
        // A write that does not arrive is waited for in vain where its last byte tells that it is there.
        let sort = if opcode == "write" { "pinned" } else { "host" };
        let bench = Bench::of("two", &patch).with_gpus(&json!({}));
        let options =
            ["--library-timeout", "5", "--memory", sort, "--gpu", "0", "--device", "mlx5_0"];
        let report = bench.probe(&options);
        assert_eq!(report.code, 1);
        for name in names {
            let found = report.named(name);
            if opcode == "write" && name.starts_with("rdma") {
                continue;
            }
            assert!(!found.is_empty(), "{name}: {:#}", report.value);
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
            report.named("validate.rc.fetch-add").iter().all(|result| result["verdict"] == "ok")
        );
    }
}

#[test]
fn detects_lost_atomic() {
    for (opcode, name) in [("fetch_add", "fetch-add"), ("compare_swap", "compare-swap")] {
        let patch = json!({"verbs": {"corrupt": {"as": "drop", "opcode": opcode}}});
        let report = Bench::of("two", &patch).probe(&HOST);
        let found = report.named(&format!("validate.rc.{name}"));
        assert_eq!((found.len(), report.code), (1, 1));
        assert_eq!(found[0]["verdict"], "wrong", "{}", found[0]);
    }
}

#[test]
fn explains_completion_errors() {
    for (status, words) in [
        (1, "the message is longer than the posted buffer"),
        (2, "the queue pair is inconsistent"),
        (4, "local memory is not registered"),
        (8, "cannot be written to local memory"),
        (9, "the remote end rejected the request"),
        (10, "the remote memory is not registered with this access"),
        (11, "the remote end could not execute the request"),
        (12, "no answer from the remote end"),
        (13, "the remote end had no receive posted"),
        (19, "the NIC has failed"),
        (20, "the response of the remote end came too late"),
        (21, "the NIC reports no reason"),
    ] {
        let patch = json!({"verbs": {"fail": [{"nth": 3, "status": status, "vendor_err": 0x88, "opcode": "write"}]}});
        let begun = Instant::now();
        let report = Bench::of("two", &patch).probe(&TWO);
        assert!(begun.elapsed() < Duration::from_secs(8), "it did not wait for what does not come");
        let reason = report.reason();
        assert!(
            reason.contains("a request to the NIC failed: ")
                && reason.contains(words)
                && reason.contains(&format!(", {status}, vendor syndrome 0x88)")),
            "{status}: {reason}"
        );
        // Shorter ones had arrived.
        assert_eq!(reason.contains("packets of their MTU"), status == 12, "{reason}");
    }
}

#[test]
fn reports_missing_arrival() {
    let patch = json!({"verbs": {"fail": [{"nth": 1, "status": 12, "opcode": "write"}]}});
    let report = Bench::of("roce", &patch).probe(&TWO);
    let reason = report.reason();
    assert!(
        reason.starts_with("validate.rc.write of 1 bytes: ")
            && reason.contains("no earlier step succeeded: see the GIDs"),
        "{reason}"
    );
}

#[test]
fn lost_completion_times_out() {
    let patch = json!({"verbs": {"swallow": 5}});
    let begun = Instant::now();
    let report = Bench::of("two", &patch).probe(&[&TWO[..], &["--library-timeout", "2"]].concat());
    assert!(report.reason().ends_with("did not come within 2 s"), "{}", report.reason());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn hanging_call_times_out() {
    let bench = Bench::of("two", &json!({"hang_in": "ibv_reg_mr"}));
    let begun = Instant::now();
    let run = bench
        .gdr()
        .args(["--quick", "--format", "json", "--library-timeout", "1"])
        .args(HOST)
        .run();
    assert_eq!(run.code, 3, "{} {}", run.stdout, run.stderr);
    let report = Report::of(&run);
    let note = report.value["notes"][0].as_str().expect("a note");
    assert!(note.contains("gave up after waiting 1 s for mlx5_0:1 to open"), "{note}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn reports_inactive_ports() {
    let refused = |patch: Value, options: &[&str]| {
        Bench::of("two", &patch).probe(options).reason().to_owned()
    };
    assert_eq!(
        refused(json!({"verbs": {"state": "down"}}), &HOST),
        "port mlx5_0:1 is not active but Down: see its cable, and gdr doctor --only rdma.port"
    );
    let gone = refused(json!({"verbs": {"port_down_after": 6}}), &TWO);
    assert!(gone.starts_with("port mlx5_0:1 went down meanwhile"), "{gone}");
    assert_eq!(
        refused(json!({}), &["--memory", "host", "--device", "mlx5_7"]),
        "libibverbs has no device 'mlx5_7'; available: mlx5_0, mlx5_1"
    );
    let port = refused(json!({}), &["--memory", "host", "--device", "mlx5_0:9"]);
    assert!(port.contains("ibv_query_port"), "{port}");
    assert_eq!(
        refused(json!({}), &["--memory", "host", "--device", "mlx5_0", "--gid-index", "77"]),
        "port mlx5_0:1 has no GID at index 77: ibv_devinfo -v shows those it has"
    );
    assert_eq!(
        refused(
            json!({"verbs": {"devices": [{"name": "mlx5_0"}, {"name": "mlx5_1", "link_layer": "ethernet"}]}}),
            &TWO
        ),
        "one port is InfiniBand and the other Ethernet: they cannot be connected"
    );
}

#[test]
fn uses_smaller_mtu() {
    let devices = json!([{"name": "mlx5_0"}, {"name": "mlx5_1", "active_mtu": 1024}]);
    let report = Bench::of("two", &json!({"verbs": {"devices": devices}})).probe(&TWO);
    assert_eq!(report.code, 0, "{:#}", report.value);
    let notes = report.value["notes"].to_string();
    assert!(notes.contains("are 4096 and 1024 bytes: 1024 is used"), "{notes}");
}

#[test]
fn reports_registration_failure() {
    let report = Bench::of("two", &json!({"verbs": {"memlock": 4096}})).probe(&HOST);
    let reason = report.reason();
    assert!(
        reason.starts_with("mlx5_0 cannot register ")
            && reason.contains("Cannot allocate memory")
            && reason.contains("gdr doctor --only limits.memlock"),
        "{reason}"
    );
}

#[test]
fn gpu_detects_corruption() {
    let patch = json!({"verbs": {"corrupt": {"as": "flip", "opcode": "write", "memory": "device", "over": 4096}}});
    let report = Bench::of("two", &patch).with_gpus(&json!({})).probe(&["--gpu", "0"]);
    assert_eq!(report.code, 1);
    let verdict = |bytes: u64| {
        let found =
            report.named("validate.rc.write").into_iter().find(|result| result["bytes"] == bytes);
        found.expect("a result")["verdict"].clone()
    };
    assert_eq!((verdict(4096), verdict(65536)), (json!("ok"), json!("wrong")));
}

#[test]
fn simulated_gpu_uses_staged_path() {
    let bench = Bench::of("two", &json!({}));
    let report = bench.probe(&["--sim", "--device", "mlx5_0"]);
    assert_eq!((report.code, &report.value["simulated"]), (0, &json!(true)), "{:#}", report.value);
    assert_eq!(
        (&report.ends()[0]["memory"], &report.ends()[0]["memory_path"]),
        (&json!("sim"), &json!("staged"))
    );
    for result in report.results() {
        assert!(
            result["backend"].as_str().is_some_and(|backend| backend.ends_with("-sim")),
            "{result}"
        );
        assert_eq!(result["verdict"], "ok", "{result}");
    }
    let table = bench.gdr().args(SHORT).args(["--sim", "--device", "mlx5_0"]).run();
    table.assert_stdout("SIMULATED");
}

#[test]
fn matrix_has_every_pair() {
    let bench = Bench::of("two", &json!({})).with_gpus(&json!({}));
    let run = bench.gdr().args(["--all", "--size", "65536"]).run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let head = run
        .stdout
        .lines()
        .position(|line| line.contains("mlx5_0:1  ") && line.contains("mlx5_1:1"));
    let head = head.unwrap_or_else(|| panic!("no matrix: {}", run.stdout));
    let rows: Vec<&str> = run.stdout.lines().skip(head + 1).take(2).collect();
    for (row, gpu) in rows.iter().zip(["GPU0", "GPU1"]) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells.len(), cells[0]), (3, gpu), "{row}");
        assert!(
            cells[1..].iter().all(|cell| cell.parse::<f64>().is_ok_and(|rate| rate > 0.0)),
            "{row}"
        );
    }
}

#[test]
fn reports_unloadable_library() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    fs::write(empty.path().join("libibverbs.so.1"), "no library").expect("a file");
    let run = Gdr::new()
        .env("LD_LIBRARY_PATH", OsString::from(empty.path()))
        .args(["probe", "rdma", "--quick"])
        .run();
    assert_eq!(
        run.code, 1,
        "one that is broken is not one that is absent, which a guest of the VM tests tries: {} {}",
        run.stdout, run.stderr
    );
    run.assert_stdout("libibverbs.so.1 cannot be loaded: ");
}

/// Whether libibverbs is installed or not: the kernel has no device. CI's machines have none.
#[test]
fn a_machine_without_rdma_devices_has_one_answer() {
    if std::path::Path::new("/sys/class/infiniband").exists() {
        return;
    }
    let run = Gdr::new().args(["probe", "rdma", "--quick"]).run();
    run.assert_code(1);
    let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("this machine has no RDMA device: the kernel's RDMA modules"), "{text}");
    assert!(!text.contains("os error") && text.ends_with("Next step: sudo gdr doctor"), "{text}");
}
