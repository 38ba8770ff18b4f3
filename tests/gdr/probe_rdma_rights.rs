//! What `gdr probe rdma` opens of its memory to the other end, for how long, and what is in it: as simulated libraries note it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::support::Gdr;
use fakes::{Driver, cuda, verbs};
use serde_json::{Value, json};

/// A short probe of host memory from one NIC to another.
const PROBE: [&str; 11] = [
    "probe",
    "rdma",
    "--quick",
    "--size",
    "8,65536",
    "--memory",
    "host",
    "--device",
    "mlx5_0",
    "--remote-device",
    "mlx5_1",
];

/// What the NIC noted of keys and queue pairs, in order.
fn notes() -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, machine) = (directory.path().join("keys"), directory.path().join("verbs.json"));
    let text = fs::read_to_string(verbs::machine("two")).expect("a machine");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["keys"] = json!(file);
    fs::write(&machine, value.to_string()).expect("a file");
    let library = verbs::build().expect("the simulated library");
    let gdr = verbs::environment(&library, &machine)
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
    gdr.args(PROBE).run().assert_code(0);
    let text = fs::read_to_string(&file).expect("notes");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// verbs.h's rights: the local side's writes, and what the remote side may do.
const LOCAL_WRITE: u64 = 1;
const REMOTE_WRITE: u64 = 2;
const REMOTE_READ: u64 = 4;
const REMOTE_ATOMIC: u64 = 8;
/// The order of writes, which is not a right.
const RELAXED_ORDERING: u64 = 1 << 20;

#[test]
fn access_rights_last_one_test_case() {
    let notes = notes();
    let mut open = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut pairs = 0_usize;
    for note in &notes {
        if let Some(key) = note["registered"].as_u64() {
            let access = note["access"].as_u64().expect("rights") & !RELAXED_ORDERING;
            open.insert(key, access);
            seen.insert(access);
            // One case of both ends.
            assert!(open.len() <= 2, "{open:?}");
            let remote = open.values().fold(0, |all, access| all | access) & !LOCAL_WRITE;
            assert!(remote.count_ones() <= 1, "{open:?}");
        } else if let Some(key) = note["deregistered"].as_u64() {
            assert!(open.remove(&key).is_some(), "{note}");
        } else if note["state"] == 0 || note["state"] == 1 {
            pairs += 1;
            // Of connections: datagrams know no rights.
            let rights = note["access"].as_u64().expect("rights");
            let allowed = open.values().fold(0, |all, access| all | access);
            assert_eq!(rights & !allowed, 0, "{note} of {open:?}");
        } else if note["destroyed"].is_u64() {
            pairs -= 1;
        }
    }
    assert!(open.is_empty() && pairs == 0, "{open:?}, {pairs} queue pairs");
    let expected = [
        // What a message comes from.
        0,
        // Where one arrives, and what is tried first.
        LOCAL_WRITE,
        LOCAL_WRITE | REMOTE_WRITE,
        REMOTE_READ,
        LOCAL_WRITE | REMOTE_ATOMIC,
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn psns_and_qkeys_vary() {
    let runs = [notes(), notes()];
    let of = |key: &str, kind: Option<u64>| -> Vec<u64> {
        // Ready to send.
        let ready = runs.iter().flatten().filter(|note| note["state"] == 3);
        let of_kind = ready.filter(|note| kind.is_none_or(|kind| note["kind"] == kind));
        of_kind.map(|note| note[key].as_u64().expect("a number")).collect()
    };
    // IBV_QPT_UD is 4.
    for (key, kind, bits) in [("sq_psn", None, 24), ("qkey", Some(4), 31)] {
        let mut all = of(key, kind);
        assert!(all.iter().all(|number| number >> bits == 0), "{key}: {all:x?}");
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        // Two of a few dozen random numbers may be equal.
        assert!(count >= 4 && all.len() + 1 >= count, "{key}: {all:x?}");
    }
}

/// The names of the functions of both libraries that a probe of GPU memory calls, in order.
fn calls() -> Vec<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("log");
    let machine = |name: &str, of: &std::path::Path| {
        let text = fs::read_to_string(of).expect("a machine");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        value["log"] = json!(log);
        let file = directory.path().join(name);
        fs::write(&file, value.to_string()).expect("a file");
        file
    };
    let libraries = [
        verbs::build().expect("the simulated libibverbs"),
        cuda::build(Driver::Current).expect("the simulated libcuda"),
    ];
    let gdr = Gdr::new()
        .env("LD_LIBRARY_PATH", std::env::join_paths(libraries).expect("no colon in a path"))
        .env("FAKE_VERBS", machine("verbs.json", &verbs::machine("two")))
        .env("FAKE_CUDA", machine("cuda.json", &cuda::machine("two")));
    gdr.args(["probe", "rdma", "--quick", "--size", "8", "--gpu", "0"]).run().assert_code(0);
    let text = fs::read_to_string(&log).expect("a log");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn clears_gpu_memory_before_registration() {
    let calls = calls();
    let first = |name: &str| calls.iter().position(|call| call.starts_with(name));
    let registered = first("ibv_reg_").expect("memory is registered");
    assert!(first("cuMemAlloc_v2").is_some_and(|at| at < registered), "{calls:?}");
    assert!(first("cuMemsetD8").is_some_and(|at| at < registered), "{calls:?}");
}
