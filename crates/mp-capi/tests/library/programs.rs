//! Runs the programs of tests/c.

use std::process::Output;

use crate::clib::succeed;
use crate::support::{MPICH, MpiLibrary, OPEN_MPI, Program};

/// Compiles and runs a program. Returns what it wrote to standard error.
fn check(mpi: MpiLibrary, file: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    passed(file, &Program::compile(mpi, file).run(arguments, variables))
}

/// The standard error of two ranks that passed.
fn passed(file: &str, output: &Output) -> String {
    succeed(file, output);
    let (name, _) = file.split_once('.').expect("an extension");
    let text = String::from_utf8_lossy(&output.stdout);
    // The launcher may put the line of one rank into that of the other.
    let (ok, ends) = (format!("{name}: ok"), text.matches('\n').count());
    assert_eq!((text.replace('\n', ""), ends), (ok.repeat(2), 2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn all(mpi: MpiLibrary) {
    check(mpi, "messages.c", &[], &[]);
    check(mpi, "windows.c", &[], &[]);
    let kernels = [("COMM_USE_COMM", "1"), ("COMM_USE_ASYNC_SA", "0"), ("COMM_USE_ASYNC_KI", "2x")];
    check(mpi, "comm.cc", &[], &kernels);
    let errors = check(mpi, "misuse.c", &[], &[]);
    for expected in [
        "mp_irecv() no connection to rank 2: it is not among the peers",
        "mp_finalize() 3 requests were neither waited for nor freed",
    ] {
        assert!(errors.contains(expected), "{expected:?} is not in:\n{errors}");
    }
}

#[test]
#[ignore = "needs Open MPI, a C compiler, libibverbs-dev"]
fn programs_under_open_mpi() {
    all(OPEN_MPI);
}

#[test]
#[ignore = "needs MPICH, a C compiler, libibverbs-dev"]
fn programs_under_mpich() {
    all(MPICH);
}

#[test]
#[ignore = "needs MPICH, a C compiler, libibverbs-dev"]
fn example_of_the_documents() {
    let text = include_str!("../c/two_ranks.c");
    let page = include_str!("../../../../docs/tasks/libmp.md");
    assert!(page.contains(text), "docs/tasks/libmp.md has other text");
    let output = Program::compile(MPICH, "two_ranks.c").run(&[], &[]);
    succeed("two_ranks.c", &output);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = ["rank 0: hello from rank 1", "rank 1: hello from rank 0"];
    assert_eq!(lines, expected);
}

#[test]
#[ignore = "needs MPICH, a C compiler, libibverbs-dev, libmlx5"]
fn programs_over_libmlx5() {
    for file in ["messages.c", "windows.c"] {
        passed(file, &Program::compile(MPICH, file).run_on_mlx5());
    }
}

#[test]
#[ignore = "needs MPICH, a C compiler, libibverbs-dev"]
fn waits_end_in_time() {
    let short = [("MP_TIMEOUT_MS", "1500")];
    let errors = check(MPICH, "failures.c", &["missing"], &short);
    for expected in ["rank 1", "1234 bytes", "request"] {
        assert!(errors.contains(expected), "{expected:?} is not in:\n{errors}");
    }
    let errors = check(MPICH, "failures.c", &["stopped"], &short);
    assert!(errors.contains("99 bytes"), "{errors}");
}

#[test]
#[ignore = "needs MPICH, a C compiler, libibverbs-dev"]
fn reads_variables() {
    let set = [
        ("MP_ENABLE_DEBUG", "1"),
        ("MP_IB_CQ_DEPTH", "64"),
        ("MP_IB_MAX_SGL", "31"),
        ("MP_ENABLE_UD", "1"),
        ("MP_ENABLE_IPC", "1"),
        ("MP_CQ_POLL_COUNT", "16"),
        ("MP_EVENT_ASYNC", "1"),
        ("USE_IB_HCA", "mlx5_9"),
        ("MP_DBREC_ON_GPU", "0"),
        ("MP_RX_CQ_ON_GPU", "0"),
        ("MP_TX_CQ_ON_GPU", "0"),
    ];
    let errors = check(MPICH, "messages.c", &[], &set);
    for expected in [
        "MP WARN mp_init() USE_IB_HCA is deprecated: use MP_USE_IB_HCA",
        "MP WARN mp_init() MP_ENABLE_UD no longer applies",
        "MP WARN mp_init() MP_ENABLE_IPC no longer applies",
        "MP WARN mp_init() MP_CQ_POLL_COUNT no longer applies",
        "MP WARN mp_init() HCA: software HCA (SIMULATED)",
        "MP DBG  mp_init() Environment { debug: true, warn: true, device: Some(\"mlx5_9\")",
        "depth: 64, most_blocks: 30",
    ] {
        assert!(errors.contains(expected), "{expected:?} is not in:\n{errors}");
    }
    let program = Program::compile(MPICH, "messages.c");
    // The simulated CUDA has no CPU mappings.
    let on_gpu = "mp_init() queues in GPU memory need a CPU mapping: ";
    for (name, value, expected) in [
        ("MP_IB_MAX_SGL", "29", "mp_isendv() invalid number of blocks: 30 (22)"),
        ("MP_HCA", "proxy", "mp_init() no RDMA device can be used"),
        ("MP_DBREC_ON_GPU", "1", on_gpu),
        ("MP_RX_CQ_ON_GPU", "1", on_gpu),
        ("MP_TX_CQ_ON_GPU", "1", on_gpu),
        ("MP_HCA", "", "mp_init() no RDMA device can be used"),
    ] {
        let output = program.run(&[], &[(name, value), ("MP_ENABLE_WARN", "0")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(errors.contains(expected), "{name}: {expected:?} is not in:\n{errors}");
        assert!(!errors.contains("MP WARN"), "{errors}");
    }
}
