//! The environment variables of libgdsync: the memory operations that they change, as `GDS_ENABLE_DUMP_MEMOPS` logs them, and messages.

use crate::clib::succeed;
use crate::programs::{compiled, compiled_for_mlx5, flushing, hopper, run_on_mlx5};
use crate::support::run;

/// The library's messages and the output of a program.
fn logged(name: &str, variables: &[(&str, &str)]) -> (String, String) {
    let output = run(&compiled(name).path, &[], &hopper(), variables);
    succeed(name, &output);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stderr), text(output.stdout))
}

const DUMP: (&str, &str) = ("GDS_ENABLE_DUMP_MEMOPS", "1");

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn membar_removes_barriers() {
    let (with, _) = logged("order", &[DUMP]);
    let (without, _) = logged("order", &[DUMP, ("GDS_DISABLE_MEMBAR", "1")]);
    // The list of twelve descriptors, which has three barriers.
    assert!(with.contains(" nops=30\n") && with.contains(": barrier\n"));
    assert!(without.contains(" nops=27\n") && !without.contains(": barrier\n"));
}

/// Each line of the steps, in order, for both words.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn wait_checker_logs_each_step() {
    let (log, words) = logged("checker", &[DUMP, ("GDS_ENABLE_WAIT_CHECKER", "1")]);
    let words: Vec<&str> = words.split_whitespace().collect();
    let [host, gpu] = words[..] else { panic!("{words:?}") };
    // Three descriptors, a barrier, and two marks around each wait by NOR.
    assert!(log.contains(" nops=9\n"), "{log}");
    let mut lines = log.lines();
    for (number, at, text) in [
        (2, gpu, "not yet reached; the word is 0xffffffff"),
        (2, gpu, "the stream waits; the word is 0xffffffff"),
        (2, gpu, "passed; the word is 0xffffffdf"),
    ] {
        let line = format!("wait_checker() {number}: NOR {at} value 0xffffffdf: {text}");
        assert!(lines.any(|found| found.ends_with(&line)), "{line}\n{log}");
    }
    let mut lines = log.lines();
    for text in ["the stream waits; the word is 0xffffffff", "passed; the word is 0xffffffdf"] {
        let line = format!("wait_checker() 1: NOR {host} value 0xffffffdf: {text}");
        assert!(lines.any(|found| found.ends_with(&line)), "{line}\n{log}");
    }
    assert_eq!(log.matches(": passed; ").count(), 2, "{log}");

    let (off, _) = logged("checker", &[DUMP, ("GDS_ENABLE_WAIT_CHECKER", "0")]);
    assert!(off.contains(" nops=5\n") && !off.contains("wait_checker"));
}

/// A warning for each variable that asks for something, once.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn names_variables_that_no_longer_apply() {
    let set = [
        ("GDS_ENABLE_FLUSHER", "1", "0"),
        ("GDS_DISABLE_WRITEMEMORY", "1", "0"),
        // libgdsync's default is 1.
        ("GDS_DISABLE_WEAK_CONSISTENCY", "0", "1"),
    ];
    let asked: Vec<_> = set.iter().map(|(name, on, _)| (*name, *on)).collect();
    let (log, _) = logged("checker", &asked);
    for (name, ..) in set {
        let line = format!("GDS WARN  capabilities() {name} no longer applies, because ");
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }
    let quiet: Vec<_> = set.iter().map(|(name, _, off)| (*name, *off)).collect();
    assert!(!logged("checker", &quiet).0.contains("no longer applies"));
}

/// The doorbells of an mlx5 NIC: one write of 64 bits, or two of 32.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev, libmlx5"]
fn write64_changes_doorbells() {
    let program = compiled_for_mlx5("pairs");
    let doorbells = |machine: &serde_json::Value, variables: &[(&str, &str)]| {
        let output = run_on_mlx5(&program, machine, &[&[DUMP], variables].concat());
        succeed("pairs", &output);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let count = |what| log.matches(what).count();
        (count(": write64 "), count(": write32 "))
    };
    let (whole, halves) = doorbells(&hopper(), &[]);
    assert!(whole > 30);
    let expected = (0, halves + 2 * whole);
    for name in ["GDS_DISABLE_WRITE64", "GDS_SIMULATE_WRITE64"] {
        assert_eq!(doorbells(&hopper(), &[(name, "1")]), expected, "{name}");
    }
    assert_eq!(doorbells(&flushing(), &[]), expected);
}
