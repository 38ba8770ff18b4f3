//! `gdr probe rdma`: how packets are addressed and retried, and the order of writes, as the fake libibverbs gets them.

use crate::support::nics::{Bench, HOST, Report, SHORT, TWO};
use serde_json::{Value, json};

/// Access flag of relaxed ordering in verbs.h.
const RELAXED: u64 = 1 << 20;
/// `IBV_QPS_RTR` and `IBV_QPS_RTS`.
const RTR: u64 = 2;
const RTS: u64 = 3;

/// The values of a member in all queue pairs of this state, without repetitions.
fn values(bench: &Bench, state: u64, member: &str) -> Vec<u64> {
    let lines = bench.logged();
    let in_state = lines.iter().filter(|line| line["state"] == state);
    let mut values: Vec<u64> = in_state.filter_map(|line| line[member].as_u64()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Registrations whose access flags include these.
fn registrations(bench: &Bench, flags: u64) -> usize {
    let access = bench.registrations().into_iter();
    access.filter(|access| access & flags == flags).count()
}

fn names(report: &Report) -> Vec<&str> {
    let names = report.results().iter();
    names.filter_map(|result| result["name"].as_str()).collect()
}

#[test]
fn queue_pairs_have_requested_packets() {
    let bench = Bench::of("roce", &json!({})).logging();
    let options = [
        "--traffic-class",
        "106",
        "--service-level",
        "3",
        "--hop-limit",
        "7",
        "--source-port",
        "49153",
        "--mtu",
        "1024",
        "--ack-timeout",
        "14",
        "--retries",
        "3",
        "--rnr-timer",
        "9",
        "--static-rate",
        "25",
    ];
    let report = bench.probe(&[&TWO[..], &options].concat());
    assert_eq!(report.code, 0, "{:#}", report.value);
    for (member, expected) in [
        ("traffic_class", 106),
        ("service_level", 3),
        ("hop_limit", 7),
        // The lowest bits of a port that begins at 0xc000.
        ("flow_label", 1),
        ("mtu", 1024),
        // IBV_RATE_25_GBPS
        ("static_rate", 15),
        ("receiver_timer", 9),
    ] {
        // UC queue pairs have no timer, and UD ones have the address in each request.
        let found = values(&bench, RTR, member);
        assert!(found.contains(&expected), "{member}: {found:?}");
        assert!(
            found.iter().all(|value| [0, 128, expected].contains(value)),
            "{member}: {found:?}"
        );
    }
    for (member, expected) in [("timeout", 14), ("retries", 3), ("receiver_retries", 7)] {
        let found = values(&bench, RTS, member);
        assert!(found == [0, expected] || found == [expected], "{member}: {found:?}");
    }
    assert_eq!(
        report.value["packets"],
        json!({
            "traffic_class": 106, "service_level": 3, "hop_limit": 7, "flow_label": 1, "static_rate": 25.0, "mtu": 1024,
            "timeout": 14, "retries": 3, "rnr_retries": 7, "rnr_timer": 9,
        })
    );
    let table = bench.gdr().args(SHORT).args(TWO).args(options).run();
    let text: Vec<&str> = table.stdout.split_whitespace().collect();
    let line = "packets: traffic class 106 (DSCP 26), service level 3, hop limit 7, flow label 0x1, at most 25 Gb/s, ack timeout 14, 3 \
                retries, RNR timer 9";
    assert!(text.join(" ").contains(line), "{}", table.stdout);
    // The order of writes belongs to memory.
    assert!(values(&bench, RTR, "access").iter().all(|access| access & RELAXED == 0));
    // A NIC with fewer retries may fail, as the fake does at once.
    let few = Bench::of("roce", &json!({})).logging();
    few.probe(&[&TWO[..], &["--rnr-retries", "2"]].concat());
    let found = values(&few, RTS, "receiver_retries");
    assert!(found.contains(&2) && !found.contains(&7), "{found:?}");
}

#[test]
fn default_packets_are_those_of_nccl_and_perftest() {
    let bench = Bench::of("roce", &json!({})).logging();
    assert_eq!(bench.probe(&TWO).code, 0);
    for (state, member, expected) in [
        (RTR, "traffic_class", &[0][..]),
        (RTR, "service_level", &[0]),
        (RTR, "flow_label", &[0]),
        (RTS, "timeout", &[0, 20]),
        (RTS, "retries", &[0, 7]),
    ] {
        assert_eq!(values(&bench, state, member), expected, "{member}");
    }
    let table = bench.gdr().args(SHORT).args(TWO).run();
    assert!(!table.stdout.contains("packets:"), "{}", table.stdout);
}

#[test]
fn bandwidth_is_measured_with_relaxed_ordering() {
    let bench = Bench::of("two", &json!({})).logging();
    let report = bench.probe(&HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    for result in report.results() {
        let name = result["name"].as_str().expect("a name");
        let expected = if name.contains("bandwidth") { json!(true) } else { Value::Null };
        assert_eq!(result["relaxed_ordering"], expected, "{name}");
    }
    // Two ends with seven bandwidths, and a trial each.
    assert_eq!(registrations(&bench, RELAXED), 2 * (7 + 1));
    let off = Bench::of("two", &json!({})).logging();
    let report = off.probe(&[&HOST[..], &["--relaxed-ordering", "off"]].concat());
    assert_eq!(report.code, 0, "{:#}", report.value);
    // The trials alone.
    assert_eq!(registrations(&off, RELAXED), 2);
    assert!(
        report
            .named("rdma.write.bandwidth")
            .iter()
            .all(|result| result["relaxed_ordering"] == false),
        "{:#}",
        report.value
    );
}

#[test]
fn both_orders_are_compared() {
    let bench = Bench::of("two", &json!({}));
    let options = [&HOST[..], &["--relaxed-ordering", "both"]].concat();
    let report = bench.probe(&options);
    assert_eq!(report.code, 0, "{:#}", report.value);
    for name in ["rdma.write", "rdma.read", "rdma.send", "rdma.write.both"] {
        for (suffix, relaxed) in [("", true), (".strict", false)] {
            let found = report.named(&format!("{name}.bandwidth{suffix}"));
            assert!(!found.is_empty(), "{name}{suffix}: {:?}", names(&report));
            for result in found {
                assert_eq!(result["relaxed_ordering"], relaxed, "{result}");
                assert!(
                    name.ends_with("both") || result["verified"] == result["bytes"],
                    "{result}"
                );
            }
        }
    }
    assert!(!names(&report).iter().any(|name| name.contains("latency.strict")));
    let table = bench.gdr().args(SHORT).args(&options).run();
    table.assert_stdout("write, strict");
    table.assert_stdout("times the bandwidth of strict order (write, 64 KiB)");
}

/// A library without `ibv_reg_mr_iova2`, which alone has optional access flags, or a device that rejects them.
#[test]
fn missing_relaxed_ordering_is_reported() {
    let bench = Bench::of("two", &json!({"errors": {"ibv_reg_mr_iova2": 95}})).logging();
    let report = bench.probe(&HOST);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(registrations(&bench, RELAXED), 0);
    let notes = report.value["notes"].to_string();
    assert!(
        notes.contains("relaxed ordering is off: mlx5_0 cannot register")
            && notes.contains("(os error 95)"),
        "{notes}"
    );
    let off = bench.probe(&[&HOST[..], &["--relaxed-ordering", "off"]].concat());
    let notes = off.value["notes"].to_string();
    assert!(!notes.contains("relaxed ordering"), "{notes}");
}

#[test]
fn each_gid_is_used_in_turn() {
    let bench = Bench::of("roce", &json!({})).logging();
    let report = bench.probe(&[&TWO[..], &["--gid-index", "1,3"]].concat());
    assert_eq!(report.code, 0, "{:#}", report.value);
    let subjects: Vec<&Value> =
        report.named("validate.rc.write-imm").iter().map(|result| &result["subject"]).collect();
    let [one, three] = ["mlx5_0:1 GID 1 -> mlx5_1:1 GID 1", "mlx5_0:1 GID 3 -> mlx5_1:1 GID 3"];
    assert_eq!(subjects, [one, one, one, three, three, three]);
    assert_eq!(values(&bench, RTR, "gid_index"), [0, 1, 3]);
    let indices: Vec<&Value> = report.ends().iter().map(|end| &end["gid_index"]).collect();
    assert_eq!(indices, [1, 1, 3, 3]);
}

#[test]
fn partitions_must_match() {
    // The fake has one P_Key, at index 0.
    let bench = Bench::of("two", &json!({}));
    let none = bench.probe(&[&HOST[..], &["--pkey-index", "5"]].concat());
    assert_eq!(
        none.reason(),
        "port mlx5_0:1 has no P_Key at index 5: see /sys/class/infiniband/*/ports/*/pkeys"
    );
    let patch = json!({"verbs": {"devices": [
        {"name": "mlx5_0", "pkeys": [65535, 32769]},
        {"name": "mlx5_1", "pkeys": [65535, 32770]},
    ]}});
    let bench = Bench::of("two", &patch).logging();
    let apart = bench.probe(&[&TWO[..], &["--pkey-index", "1"]].concat());
    assert_eq!(
        apart.reason(),
        "the ports are not in one partition: P_Key 0x8001 here and 0x8002 there (see --pkey-index)"
    );
    let loopback = bench.probe(&[&HOST[..], &["--pkey-index", "1"]].concat());
    assert_eq!(loopback.code, 0, "{:#}", loopback.value);
    assert_eq!(loopback.ends()[0]["pkey"], 32769);
    assert_eq!(values(&bench, RTR, "pkey_index"), [1]);
}

#[test]
fn invalid_packets_are_usage_errors() {
    for (options, words) in [
        (
            &["--mtu", "1000"][..],
            "--mtu 1000 is not the payload of an InfiniBand packet: use one of 256, 512,",
        ),
        (
            &["--static-rate", "33"],
            "--static-rate 33 is not a rate of InfiniBand: use one of 2.5, 5, 10,",
        ),
        (&["--service-level", "16"], "16 is not in 0..=15"),
        (&["--flow-label", "0"], "0 is not in 1..=1048575"),
        (&["--source-port", "4791"], "4791 is not in 49152..=65535"),
        (&["--source-port", "50000", "--flow-label", "1"], "cannot be used with"),
        (&["--retries", "8"], "8 is not in 0..=7"),
        (&["--relaxed-ordering", "perhaps"], "invalid value 'perhaps'"),
    ] {
        let run = Bench::of("two", &json!({})).gdr().args(HOST).args(options).run();
        run.assert_code(2);
        run.assert_stderr(words);
    }
    let server = Bench::of("two", &json!({}))
        .gdr()
        .args(["--listen", "127.0.0.1:0", "--traffic-class", "8"])
        .run();
    server.assert_code(2);
    server.assert_stderr("the client chooses how packets are addressed");
    let large = Bench::of("two", &json!({"verbs": {"active_mtu": 1024}}))
        .probe(&[&HOST[..], &["--mtu", "4096"]].concat());
    let notes = large.value["notes"].to_string();
    assert!(
        notes.contains("an MTU of 4096 bytes is more than the ports allow: 1024 is used"),
        "{notes}"
    );
}
