//! Options of `gdr probe copy` on simulated memory: each test by name, allocators, memory types, offsets, exact numbers of runs.

use std::collections::BTreeSet;

use gdr::model::figure::copy::CALLS;
use serde_json::Value;

use crate::support::{Gdr, Run, gdr};

fn sim(more: &[&str]) -> Run {
    let run = Gdr::new()
        .args(["probe", "copy", "--sim", "--quick", "--size", "100,4KiB"])
        .args(more)
        .run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// The report of a run that ends with 0, in which no byte is wrong.
fn report(more: &[&str]) -> Value {
    let run = sim(&[more, &["--format", "json"]].concat());
    assert_eq!(run.code, 0, "{more:?}: {} {}", run.stdout, run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["simulated"], true);
    for result in results(&report) {
        assert_ne!(result["verdict"], "wrong", "{more:?}: {result}");
    }
    report
}

fn results(report: &Value) -> &Vec<Value> {
    report["results"].as_array().expect("results")
}

/// The names of the results, up to the second dot.
fn families(report: &Value) -> BTreeSet<String> {
    let names = results(report).iter();
    names
        .map(|result| {
            let name = result["name"].as_str().expect("a name");
            let parts: Vec<&str> = name.splitn(3, '.').collect();
            parts[..parts.len().min(2)].join(".")
        })
        .collect()
}

/// Each test, and the results that it alone brings.
const TESTS: [(&str, &[&str]); 14] = [
    ("malloc", &["validate.malloc"]),
    ("create", &["validate.create", "validate.create-exportable"]),
    ("pool", &["validate.pool", "validate.pool-exportable"]),
    ("neighbours", &["validate.malloc"]),
    ("unaligned", &["validate.unaligned"]),
    ("mixed-mappings", &["validate.mixed-mappings"]),
    ("two-mappings", &["validate.two-mappings"]),
    ("thread", &["validate.thread"]),
    ("attributes", &["validate.attributes"]),
    ("kernels", &["validate.kernel"]),
    ("api", &["api.info", "api.map", "api.pin", "api.unmap", "api.unpin"]),
    ("ping-pong", &["ping-pong"]),
    ("bandwidth", &["copy.read", "copy.write"]),
    (
        "latency",
        &[
            "copy.read",
            "copy.write",
            "crossover.read",
            "crossover.write",
            "cuda.pageable",
            "cuda.pinned",
        ],
    ),
];

/// The results of a test: those that stay, and for `api` each call that was declared since.
fn with_declared(test: &str, names: &[&str]) -> BTreeSet<String> {
    let declared = CALLS.iter().map(|call| call.name).filter(|_| test == "api");
    names.iter().copied().chain(declared).map(str::to_owned).collect()
}

#[test]
fn single_tests() {
    for (test, expected) in TESTS {
        let found = families(&report(&["--test", test]));
        assert_eq!(found, with_declared(test, expected), "{test}");
    }
    assert_eq!(
        families(&report(&["--test", "other-gpu"])),
        BTreeSet::from(["validate.other-gpu".to_owned()])
    );
    let both = families(&report(&["--test", "api", "--test", "thread,attributes"]));
    assert_eq!(both.len(), CALLS.len() + 2, "{both:?}");
    // `latency` measures what `bandwidth` does.
    let once = report(&["--test", "bandwidth,latency"]);
    let writes = results(&once).iter().filter(|result| result["name"] == "copy.write.latency");
    assert_eq!(writes.count(), 2, "two sizes");
}

#[test]
fn all_default_tests_run_without_names() {
    let run = Gdr::new()
        .args(["probe", "copy", "--sim", "--quick", "--size", "100", "--format", "json"])
        .run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let found = families(&report);
    for (test, expected) in TESTS {
        assert!(expected.iter().all(|name| found.contains(*name)), "{test}: {found:?}");
    }
    assert!(!found.contains("validate.force-pcie"), "{found:?}");
}

#[test]
fn lists_tests_with_names_of_gdrcopy() {
    let run = gdr(&["probe", "copy", "--list-tests"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let named: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    for (test, _) in TESTS {
        assert!(named.contains(&test), "{test}: {named:?}");
    }
    for program in ["sanity: ", "copybw", "copylat", "apiperf", "pplat"] {
        assert!(run.stdout.contains(program), "{program}: {}", run.stdout);
    }
}

#[test]
#[ignore = "slow: many probes"]
fn options_change_the_measurement() {
    for allocator in ["cuMemAlloc", "cuMemCreate", "pool"] {
        let report = report(&["--allocator", allocator, "--test", "latency,api,ping-pong"]);
        let says = |word: &str| report["notes"].to_string().contains(word);
        match allocator {
            "cuMemAlloc" => assert_eq!(report["notes"], serde_json::json!([])),
            "cuMemCreate" => assert!(says("cuMemCreate"), "{}", report["notes"]),
            _ => assert!(says("exportable pool"), "{}", report["notes"]),
        }
    }
    for (mapping, kind) in [
        ("default", "write_combined"),
        ("wc", "write_combined"),
        ("cache", "cached"),
        ("device", "uncached"),
    ] {
        let report = report(&["--mapping", mapping]);
        assert_eq!(report["gpus"][0]["mapping"], kind);
        assert!(!families(&report).is_empty());
    }
    for offset in ["0", "1", "4099", "2MiB"] {
        report(&["--offset", offset, "--test", "latency"]);
        report(&["--offset", offset, "--test", "latency", "--mapping", "cache", "--cold"]);
    }
}

#[test]
fn iterations_are_exact() {
    let report = report(&["--iterations", "33", "--test", "latency,api,ping-pong"]);
    let samples = |name: &str| -> Vec<u64> {
        let of_name = results(&report).iter().filter(|result| result["name"] == name);
        of_name.map(|result| result["samples"].as_u64().expect("a number")).collect()
    };
    // A read, a call and a round trip is a sample; short writes share samples.
    assert_eq!(samples("copy.read.latency"), [33, 33]);
    assert_eq!(samples("api.pin"), [33, 33]);
    assert_eq!(samples("ping-pong"), [33]);
    assert!(samples("copy.write.latency").iter().all(|count| (1..=33).contains(count)));
}

#[test]
fn round_trips_with_data() {
    for (blocks, data) in [("1", "4"), ("3", "4KiB"), ("4", "100")] {
        let report = report(&[
            "--test",
            "ping-pong",
            "--data",
            data,
            "--blocks",
            blocks,
            "--iterations",
            "40",
        ]);
        let found = results(&report)
            .iter()
            .find(|result| result["name"] == "ping-pong.data")
            .expect("a result");
        assert_eq!((&found["verdict"], &found["samples"]), (&"ok".into(), &40.into()));
        let bytes = found["bytes"].as_u64().expect("a size");
        assert_eq!(found["verified"].as_u64(), Some(40 * bytes), "{found}");
    }
    let table = sim(&["--test", "ping-pong", "--data", "4KiB", "--threads", "32"]);
    assert!(table.stdout.contains("round trip with 4 KiB"), "{}", table.stdout);
    // More blocks than run at once would never answer.
    let run = sim(&["--test", "ping-pong", "--data", "4KiB", "--blocks", "5"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("--blocks 5: this GPU runs 4 blocks"), "{}", run.stdout);
}

#[test]
#[ignore = "slow: many probes"]
fn round_trips_that_either_side_begins_in_each_memory() {
    for (producer, names) in [
        ("cpu", ["ping-pong", "ping-pong.data"]),
        ("gpu", ["ping-pong.gpu-first", "ping-pong.gpu-first.data"]),
    ] {
        for places in 0..8 {
            let place = |bit: u32| ["gpu", "host"][usize::from(places & bit != 0)];
            let report = report(&[
                "--test",
                "ping-pong",
                "--producer",
                producer,
                "--flag",
                place(1),
                "--reply",
                place(2),
                "--data",
                "256",
                "--data-in",
                place(4),
                "--iterations",
                "30",
            ]);
            let found: Vec<_> = results(&report)
                .iter()
                .map(|result| (&result["name"], &result["verdict"], &result["samples"]))
                .collect();
            let expected = names.map(Value::from);
            let (ok, count) = (Value::from("ok"), Value::from(30));
            assert_eq!(found, [(&expected[0], &ok, &count), (&expected[1], &ok, &count)]);
            assert_eq!(results(&report)[1]["verified"], 30 * 256);
            let notes = report["notes"].to_string();
            for (is_noted, words) in [
                (places & 1 != 0, "the CPU's word is in host memory"),
                (places & 2 == 0, "the kernel's word is in GPU memory"),
                (places & 4 != 0, "the data is in host memory"),
            ] {
                assert_eq!(notes.contains(words), is_noted, "{notes}");
            }
        }
    }
    let table = sim(&["--test", "ping-pong", "--producer", "gpu", "--data", "4KiB"]);
    for row in ["round trip with a kernel, GPU first", "round trip with 4 KiB, GPU first"] {
        assert!(table.stdout.contains(row), "{}", table.stdout);
    }
}

#[test]
fn impossible_values_are_explained() {
    for (args, words) in [
        (&["--test", "fastest"][..], &["unknown test 'fastest'", "ping-pong", "--list-tests"][..]),
        (&["--test", "api", "--list-tests"], &["cannot be used with"]),
        (&["--allocator", "malloc"], &["cuMemAlloc", "cuMemCreate", "pool"]),
        (&["--mapping", "uc"], &["default", "wc", "cache", "device"]),
        (&["--offset", "x"], &["--offset", "KiB, MiB"]),
        (&["--offset", "3GiB"], &["1 GiB"]),
        (&["--iterations", "0"], &["1..=10000000"]),
        (&["--data", "5"], &["--data 5", "a multiple of 4"]),
        (&["--data", "4", "--test", "api"], &["add --test ping-pong"]),
        (&["--blocks", "4"], &["--data"]),
        (&["--data", "4", "--blocks", "0"], &["1..=1024"]),
        (&["--data", "4", "--threads", "1025"], &["1..=1024"]),
    ] {
        let run = gdr(&[&["probe", "copy", "--sim"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{args:?}: {}", run.stderr);
        }
    }
    for (args, words) in [
        (
            &["--cold"][..],
            "--cold needs a cached mapping, and backend sim maps this memory as write-combined",
        ),
        (&["--test", "force-pcie"], "backend sim does not map with GDR_PIN_FLAG_FORCE_PCIE"),
    ] {
        let run = sim(&[args, &["--format", "json"]].concat());
        assert_eq!(run.code, 1, "{args:?}: {}", run.stderr);
        assert!(run.stdout.contains(words), "{args:?}: {}", run.stdout);
    }
}
