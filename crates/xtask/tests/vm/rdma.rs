//! Soft-RoCE: perftest as the peer, and libibverbs compared with rdma-core's programs.

use std::fs;

use serde_json::Value;

use crate::gdsync::has_exchanged;
use crate::{built, in_machine, json};

/// Messages that a stream sends: a debug build of gdr measures a tenth as long.
const MESSAGES: u64 = 200;

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn soft_rdma_follows_its_network_device() {
    let files = in_machine("rxe", "soft-rdma", vec![built("gdr")]);
    let netdev = fs::read_to_string(files.join("netdev.txt")).expect("the netdev's place");
    let topo = json(&files.join("topo.json"));
    let nic = &topo["devices"][0];
    let bdf = nic["bdf"].as_str().expect("an address");
    assert!(netdev.contains(&format!("/{bdf}/")), "{bdf} is not in {netdev}");
    assert_eq!(
        (&nic["label"], &nic["software"], &nic["active"]),
        (&"rxe0".into(), &true.into(), &true.into())
    );
    let report = json(&files.join("doctor.json"));
    let all = report["findings"].as_array().expect("findings");
    let finding =
        all.iter().find(|f| f["id"] == "rdma.device" && f["subject"] == "rxe0").expect("a finding");
    assert_eq!(finding["outcome"], "info", "{finding}");
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn rdma_works_in_one_guest_and_between_two() {
    in_machine("rxe", "rxe", Vec::new());
    in_machine("two-guests", "two-guests", Vec::new());
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn verbs_loopback() {
    let files = in_machine("rxe", "loopback", vec![built("examples/loopback")]);
    let text = fs::read_to_string(files.join("loopback.txt")).expect("what it printed");
    let done: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ok: ")).collect();
    assert_eq!(
        done,
        [
            "Rc send",
            "Rc write",
            "Rc immediate data",
            "Rc SGEs",
            "Rc inline",
            "Rc read",
            "Rc atomic operations",
            "Rc events",
            "Uc send",
            "Uc write",
            "Uc immediate data",
            "Uc SGEs",
            "Uc inline",
            "Ud send",
        ],
        "{text}"
    );
    for refusal in [
        "an invalid key: the remote memory is not registered with this access",
        "a message too long: the remote end could not execute the request (IBV_WC_REM_OP_ERR, 11)",
        "no receive buffer: the remote end had no receive posted",
        "is full: cannot post a request to a queue pair of rxe0 (ibv_post_recv)",
    ] {
        assert!(text.contains(refusal), "{refusal}: {text}");
    }
    assert!(text.ends_with("passed\n"), "{text}");
}

/// The results with this name in a report.
fn of<'r>(report: &'r Value, name: &str) -> Vec<&'r Value> {
    let all = report["results"].as_array().expect("results");
    all.iter().filter(|result| result["name"] == name).collect()
}

/// Asserts that all operations were verified and measured at these sizes; datagrams up to the MTU.
fn is_whole(report: &Value, verified: &[u64], datagrams: &[u64], measured: &[u64]) {
    let sizes = |name: &str, key: &str| -> Vec<u64> {
        let found = of(report, name);
        assert!(found.iter().all(|result| result["verdict"] == "ok"), "{name}: {found:#?}");
        found.iter().map(|result| result[key].as_u64().expect("a number")).collect()
    };
    for name in [
        "uc.write-imm",
        "uc.send",
        "uc.send-imm",
        "rc.write",
        "rc.write-imm",
        "rc.read",
        "rc.send",
        "rc.send-imm",
    ] {
        assert_eq!(sizes(&format!("validate.{name}"), "verified"), verified, "{name}");
    }
    for name in ["ud.send", "ud.send-imm"] {
        assert_eq!(sizes(&format!("validate.{name}"), "verified"), datagrams, "{name}");
    }
    for name in ["rc.fetch-add", "rc.compare-swap"] {
        assert_eq!(sizes(&format!("validate.{name}"), "verified"), [8], "{name}");
    }
    for kind in ["write", "read", "send"] {
        assert_eq!(sizes(&format!("rdma.{kind}.latency"), "bytes"), measured, "{kind}");
        // The transferred data is verified too.
        assert_eq!(sizes(&format!("rdma.{kind}.bandwidth"), "verified"), measured, "{kind}");
        for result in of(report, &format!("rdma.{kind}.bandwidth")) {
            assert!(result["median"].as_f64().is_some_and(|median| median > 0.0), "{result}");
        }
    }
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn probe_rdma_beside_perftest() {
    let files = in_machine("rxe", "probe-rdma", vec![built("gdr")]);
    let report = json(&files.join("verified.json"));
    is_whole(&report, &[1, 4096, 65536], &[1], &[8, 65536]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("ib_write_bw -d rxe0 -i 1 -x "), "{notes}");
    let sim = json(&files.join("sim.json"));
    assert_eq!(
        (&sim["simulated"], &sim["ends"][0]["memory_path"]),
        (&true.into(), &"staged".into())
    );
    let staged = of(&sim, "rdma.staged.bandwidth");
    let sizes: Vec<_> =
        staged.iter().map(|result| (result["verified"].as_u64(), &result["verdict"])).collect();
    assert_eq!(sizes, [(Some(8), &"ok".into()), (Some(65536), &"ok".into())], "{staged:#?}");
    // Streams drive the NIC through the proxy: a kernel compared every message of the loop.
    let stream = json(&files.join("async.json"));
    let round = of(&stream, "async.loopback.stream.latency");
    let verified: Vec<_> = round
        .iter()
        .map(|result| (result["backend"].as_str(), result["verified"].as_u64()))
        .collect();
    assert_eq!(verified, [(Some("cuda-sim+proxy"), Some(MESSAGES * 1024))], "{round:#?}");
    // Two processes: there and back, changed on each way.
    for (name, messages) in
        [("async.pingpong.stream.latency", MESSAGES), ("async.pingpong.cpu.latency", MESSAGES / 4)]
    {
        let between = of(&stream, name);
        let verified: Vec<_> = between
            .iter()
            .map(|result| (result["backend"].as_str(), result["verified"].as_u64()))
            .collect();
        assert_eq!(verified, [(Some("cuda-sim+proxy"), Some(messages * 1024))], "{between:#?}");
        assert!(between[0]["median"].as_f64().is_some_and(|median| median > 0.0), "{between:#?}");
    }
    has_exchanged(&json(&files.join("mp.json")), &[8]);
    let refused = &json(&files.join("no-gid.json"))["results"];
    assert_eq!(
        (refused.as_array().map(Vec::len), &refused[0]["reason"]),
        (Some(1), &"port rxe0:1 has no GID at index 77: ibv_devinfo -v shows those it has".into())
    );
    let text = fs::read_to_string(files.join("no-library.txt")).expect("what it said");
    let message = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("libibverbs1 and ibverbs-providers"), "{message}");
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn probe_rdma_between_two_machines() {
    let files = in_machine("two-guests", "probe-rdma-pair", vec![built("gdr")]);
    let report = |guest: u8, name: &str| {
        json(&files.join(format!("guest{guest}")).join(format!("{name}.json")))
    };
    let leads = |name: &str| report(2, name);
    let host = leads("host");
    is_whole(&host, &[1, 4096, 65536], &[1], &[1, 4096, 65536]);
    let subject = &of(&host, "validate.rc.write")[0]["subject"];
    assert_eq!(subject, "rxe0:1 -> two-guests-1 rxe0:1");
    let served = &report(1, "host")["notes"];
    assert_eq!(
        served[0],
        "two-guests-2 was the client and has the results; connections served here: 1."
    );
    let sim = leads("sim");
    for name in
        ["validate.rc.write", "validate.rc.read", "validate.rc.send", "rdma.staged.bandwidth"]
    {
        let found = of(&sim, name);
        let right =
            |result: &&Value| result["verdict"] == "ok" && result["verified"] == result["bytes"];
        assert!(!found.is_empty() && found.iter().all(right), "{found:#?}");
    }
    // GPU to GPU; if one end has no GPU, both ends report it.
    let mixed = leads("mixed");
    assert!(of(&mixed, "rdma.staged.bandwidth").is_empty());
    for name in ["validate.rc.write", "validate.rc.read", "rdma.send.latency"] {
        let found = of(&mixed, name);
        let right =
            |result: &&Value| result["verdict"] == "ok" && result["backend"] == "staged-sim";
        assert!(!found.is_empty() && found.iter().all(right), "{found:#?}");
    }
    for (guest, which) in [(2, "local"), (1, "remote")] {
        let notes = report(guest, "mixed")["notes"].to_string();
        assert!(notes.contains(&format!("the {which} GPU is SIMULATED")), "{notes}");
    }
    // One end fails, and the other reports its failure.
    let reason = |guest: u8, name: &str| -> String {
        let report = report(guest, name);
        let last = report["results"].as_array().and_then(|all| all.last().cloned());
        last.and_then(|last| last["reason"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    assert_eq!(
        reason(2, "no-gid"),
        "port rxe0:1 has no GID at index 77: ibv_devinfo -v shows those it has"
    );
    assert_eq!(
        reason(1, "no-gid"),
        "the other end failed: port rxe0:1 has no GID at index 77: ibv_devinfo -v shows those it has"
    );
    let wrong = reason(2, "wrong");
    assert!(wrong.contains("rejected this client: the secrets differ"), "{wrong}");
    is_figure(&leads("curves"));
    let other = reason(2, "other-probe");
    assert!(other.contains("different probes"), "{other}");
    let mtu = leads("mtu");
    is_whole(&mtu, &[1, 4096, 65536], &[1], &[8, 65536]);
    assert!(
        mtu["notes"].to_string().contains("are 1024 and 512 bytes: 512 is used"),
        "{}",
        mtu["notes"]
    );
    assert!(report(2, "interrupted")["notes"].to_string().contains("Interrupted"));
    assert!(
        reason(1, "interrupted").contains("it was interrupted"),
        "{}",
        reason(1, "interrupted")
    );
}

/// Each curve of `gdr probe transfer`, verified at each size: Soft-RoCE registers the host memory that stands for a simulated GPU's.
fn is_figure(report: &Value) {
    assert_eq!((&report["probe"], &report["simulated"]), (&"transfer".into(), &true.into()));
    let sizes = |name: &str| -> Vec<u64> {
        let found = of(report, name).into_iter();
        found
            .filter(|result| result["verdict"] == "ok")
            .filter_map(|result| result["bytes"].as_u64())
            .collect()
    };
    for curve in ["host", "v3", "v2", "v1", "v1-pipelined", "no-gpudirect"] {
        for what in ["latency", "bandwidth"] {
            let name = format!("transfer.{curve}.{what}");
            assert_eq!(sizes(&name), [4, 65536], "{name}");
        }
    }
    for curve in ["host", "v3", "v2", "v1", "no-gpudirect"] {
        assert_eq!(sizes(&format!("validate.transfer.{curve}")), [4, 65536]);
    }
    // Verified by the measurement itself.
    for result in of(report, "transfer.v1-pipelined.bandwidth") {
        assert_eq!(result["verified"], result["bytes"]);
        assert_eq!(result["chunk"], 65536);
    }
    for curve in ["host", "v3"] {
        assert_eq!(
            of(report, &format!("transfer.{curve}.latency"))[0]["subject"],
            "GPU0 rxe0:1 -> two-guests-1 GPU0 rxe0:1"
        );
    }
    assert_eq!(report["ends"][0]["memory_path"], "simulated");
}

/// The first word of a value that ibv_devinfo prints, as in `active_mtu:  1024 (3)`.
fn value_of<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.unwrap_or_else(|| panic!("ibv_devinfo tells no {key}: {text}"))
}

/// The only finding of a check.
fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let all = report["findings"].as_array().expect("findings");
    let mut of_id = all.iter().filter(|finding| finding["id"] == id);
    let first = of_id.next().unwrap_or_else(|| panic!("no {id}"));
    assert!(of_id.next().is_none(), "several {id}");
    first
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn verbs_agree_with_rdma_core() {
    let files = in_machine("rxe", "verbs", vec![built("gdr"), built("examples/devinfo")]);
    let text = |name: &str| {
        fs::read_to_string(files.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let (ours, theirs) = (text("devinfo.txt"), text("ibv_devinfo.txt"));
    assert!(ours.contains("dma-buf symbol: true\nmissing: \n"), "{ours}");
    assert!(
        ours.contains(&format!("device: {}\n", value_of(&theirs, "hca_id"))),
        "{ours}\n{theirs}"
    );
    // rxe has no firmware version: the field is empty in both.
    let limits = format!(
        "{} ports, {} queue pairs",
        value_of(&theirs, "phys_port_cnt"),
        value_of(&theirs, "max_qp")
    );
    assert!(ours.contains(&limits), "{limits}: {ours}");
    let port = format!(
        "port {}: Active, {}, MTU {} of {}, lid {}",
        value_of(&theirs, "port"),
        value_of(&theirs, "link_layer"),
        value_of(&theirs, "active_mtu"),
        value_of(&theirs, "max_mtu"),
        value_of(&theirs, "port_lid")
    );
    assert_eq!(value_of(&theirs, "state"), "PORT_ACTIVE");
    assert!(ours.contains(&port), "{port}: {ours}");
    // `GID[  0]:  fe80::5054:ff:fe12:3456, RoCE v2`
    let gids: Vec<(&str, &str)> = theirs
        .lines()
        .filter_map(|line| line.trim().strip_prefix("GID["))
        .map(|line| line.split_once("]:").expect("an index and a GID"))
        .collect();
    assert!(gids.len() >= 2, "{theirs}");
    for (index, gid) in gids {
        let (address, kind) = gid.trim().split_once(", ").expect("an address and a kind");
        let line = format!(
            "GID {}: {} {address} ",
            index.trim(),
            kind.replace(' ', "").replace("RoCEv", "RoceV")
        );
        assert!(ours.contains(&line), "{line}: {ours}");
    }
    // rdma_rxe does not support dma-bufs.
    assert!(ours.contains("dma-buf: Refuses(95)"), "{ours}");
    let verbs = &json(&files.join("verbs.json"))["read"];
    assert_eq!(verbs["devices"], serde_json::json!(["rxe0"]));
    assert_eq!(verbs["trials"]["rxe0"]["opened"]["dmabuf"], serde_json::json!({"refuses": 95}));

    assert!(text("rdma-shared.txt").contains("netns shared"), "{}", text("rdma-shared.txt"));
    let shared = json(&files.join("doctor-shared.json"));
    assert_eq!(finding(&shared, "rdma.netns")["outcome"], "pass");
    assert!(text("rdma-exclusive.txt").contains("netns exclusive"));
    let exclusive = json(&files.join("doctor-exclusive.json"));
    assert_eq!(finding(&exclusive, "rdma.netns")["outcome"], "info");
    assert_eq!(text("pod-devices.txt"), "");
    let pod = json(&files.join("doctor-pod.json"));
    let subjects: Vec<_> = pod["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["subject"] == "rxe0")
        .collect();
    assert!(subjects.is_empty(), "{subjects:#?}");

    // A snapshot has no addresses of the guest, and lists the GIDs that exist.
    let snapshot = text("snapshot.json");
    assert!(
        !snapshot.contains("0a00:0001") && !snapshot.contains("ffff:0a00"),
        "an address is in the snapshot"
    );
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn strangers_get_no_queue_pair_and_nothing_stays() {
    in_machine("rxe", "strangers", vec![built("gdr")]);
}
