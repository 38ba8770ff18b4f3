//! `gdr explain --format html|junit`: the job, its matrix of ranks, and the causes.

use std::fmt::Write as _;
use std::fs;

use crate::support::Gdr;

const JOB: &str = "\
    vm:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n\
    vm:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n\
    vm:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
    vm:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init COMPLETE\n\
    vm:1:1 [0] NCCL INFO Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1\n\
    vm:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n";

fn explained(format: &str, log: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), log).expect("a log");
    let run = Gdr::new()
        .args(["explain", "--no-run", "--format", format])
        .args([file.path().to_str().expect("a path")])
        .run();
    assert!(run.code != 2, "{}", run.stderr);
    run.stdout
}

/// A case for each path, lost path, failure and cause.
#[test]
fn junit_has_a_case_for_each_answer() {
    let died =
        "vm:2:2 [1] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer\n";
    let memory = "ibv_reg_mr_iova2 failed with error Cannot allocate memory\n";
    for (log, counts, words) in [
        (
            JOB.to_owned(),
            "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\"",
            vec![
                "classname=\"gdr.job.path.1\" name=\"SHM: 0-&gt;1\"/>",
                "why: NCCL_P2P_DISABLE=1 is set",
                "classname=\"gdr.job\" name=\"complete\"/>",
            ],
        ),
        (
            format!("{JOB}{died}"),
            "failures=\"3\"",
            vec!["rank 1 lost the connection to a rank that ended", "gdr.explain.uncovered"],
        ),
        (memory.to_owned(), "failures=\"0\"", vec!["classname=\"gdr.explain.limits.memlock\""]),
        ("all is well\n".to_owned(), "skipped=\"1\"", vec!["no known symptom"]),
    ] {
        let junit = explained("junit", &log);
        for word in [&[counts][..], &words].concat() {
            assert!(junit.contains(word), "{word}: {junit}");
        }
    }
}

/// The page is whole, safe, and small also for 2,000 ranks, whose nodes are alike but one.
#[test]
fn page_has_the_matrix_of_ranks() {
    let page = explained("html", JOB);
    for word in
        ["Ranks of one node did not use P2P.", "rank 0 to rank 1: SHM", "NCCL_P2P_DISABLE=1"]
    {
        assert!(page.contains(word), "{word}: {page}");
    }
    let mut log = String::new();
    for rank in 0..2_000 {
        let (node, gpu) = (rank / 8, rank % 8);
        let head = format!("n{node:03}:{}:1 [{gpu}] NCCL INFO ", 1_000 + rank);
        let _ = writeln!(
            log,
            "{head}ncclCommInitRank comm 0x{rank:x} rank {rank} nranks 2000 cudaDev {gpu} busId {gpu}0 commId 0x9 - Init COMPLETE"
        );
        let path = match (gpu, node) {
            (7, 100) => format!("{} -> {}[0] [send] via NET/Socket/0", "807[7]", 808),
            (7, _) => format!("{rank}[7] -> {}[0] [send] via NET/IB/0/GDRDMA", (rank + 1) % 2_000),
            _ => format!("{rank}[{gpu}] -> {}[{}] via P2P/CUMEM", rank + 1, gpu + 1),
        };
        let _ = writeln!(log, "{head}Channel 00/0 : {path}");
    }
    let page = explained("html", &log);
    assert!(page.len() < 60_000, "{} bytes", page.len());
    for word in ["248 nodes: n000, n001", "n100 to n101: NET/Socket"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    let hostile = explained(
        "html",
        "<b>:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n",
    );
    assert!(!hostile.contains("<b>"), "{hostile}");
}

/// A failure that the job names is an answer.
#[test]
fn failure_of_a_job_is_an_answer() {
    for (text, words) in [
        (
            "Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10\n",
            "failed: rank 1 shares its GPU with another rank.",
        ),
        (
            "Last error:\nBootstrap : no socket interface found\n",
            "failed: a rank found no network interface.",
        ),
        // A possible cause explains no crash.
        (
            "mpirun noticed that process rank 1 with PID 0 on node a exited on signal 11 (Segmentation fault).\n",
            "failed: rank 1 was ended by a signal.",
        ),
    ] {
        let run = Gdr::new().args(["explain", "--no-run", text]).run();
        run.assert_code(1);
        assert!(run.stdout.contains(words), "{}", run.stdout);
        assert!(!run.stdout.contains("No known symptom"), "{}", run.stdout);
    }
}

/// The ranks of a sound job differ for a moment, too, so one report of RAS about them is not a failure; a rank without data is one.
#[test]
fn ranks_that_differ_in_one_report_of_ras_are_a_question() {
    let head = "NCCL version 2.27.3 compiled with CUDA 12.9\n\nErrors\n======\n";
    let differ = "\nWarnings\n========\n\n#0-0 (5d1e77aa20c0f3b1) MISMATCH\n  Communicator ranks have different collective operation counts\n  \
                  14 ranks have launched up to operation 410\n  2 ranks have launched up to operation 409\n  \
                  Rank 3 -- GPU 3 managed by process 77 on node 192.0.2.4\n";
    let silent =
        "\n#0-0 (5d1e77aa20c0f3b1) INCOMPLETE\n  Missing communicator data from 1 job process\n";
    for (log, code, words) in [
        (format!("{head}{differ}"), 3, "Those of a sound job do too"),
        (format!("{head}{silent}{differ}"), 1, "failed: a rank does not answer NCCL's RAS"),
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), &log).expect("a log");
        let explain = |format: &str| {
            let path = file.path().to_str().expect("a path");
            Gdr::new().args(["explain", "--no-run", "--format", format]).args([path]).run()
        };
        let table = explain("table");
        assert_eq!(table.code, code, "{}", table.stdout);
        assert!(table.stdout.replace("\n    ", " ").contains(words), "{}", table.stdout);
        let failures = format!("failures=\"{}\"", u8::from(code == 1));
        explain("junit").assert_stdout(failures);
    }
}
