//! Logs of several versions and launchers, with the tables that a person reads in them.

use proptest::prelude::*;

use super::{Around, JobReader, Shown};
use crate::model::{FailureKind, Gdrdma, Job, ReasonKind};

fn read(log: &str) -> Option<Job> {
    let mut reader = JobReader::default();
    reader.feed(log.as_bytes());
    reader.finish()
}

fn job(log: &str) -> Job {
    read(log).unwrap_or_else(|| panic!("no job in {log}"))
}

/// Each row as `transport send/receive channels pairs`.
fn rows(job: &Job) -> Vec<String> {
    let word = |gdrdma| match gdrdma {
        Some(Gdrdma::Yes) => "yes",
        Some(Gdrdma::No) => "no",
        Some(Gdrdma::Mixed) => "partly",
        None => "-",
    };
    let paths = job.communicators.iter().flat_map(|communicator| &communicator.paths);
    let row = |path: &crate::model::JobPath| {
        let pairs = path.pairs.iter().map(|pair| {
            let arrow = if pair.both_ways { "<->" } else { "->" };
            match pair.to {
                Some(to) => format!("{}{arrow}{to}", pair.from),
                None => pair.from.to_string(),
            }
        });
        let pairs: Vec<String> = pairs.collect();
        let (send, receive) = (word(path.gdrdma_send), word(path.gdrdma_receive));
        let pxn = if path.pxn { " PXN" } else { "" };
        let channels = path.channels[0];
        format!("{}{pxn} {send}/{receive} {channels} {}", path.transport, pairs.join(","))
    };
    paths.map(row).collect()
}

/// Two processes write at once: a header stands alone, and its message in a line of its own.
#[test]
fn paths_without_a_header() {
    let log = "n1:1:2 [0] NCCL INFO n1:3:4 [1] NCCL INFO Ring 00 : 1[1] -> 0[0] via P2P/IPC\nRing 00 : 0[0] -> 1[1] via P2P/IPC\n\
               [1,0]<stdout>:Channel 01/0 : 2[2] -> 3[3] via SHM/direct/direct\n";
    assert_eq!(rows(&job(log)), ["P2P/IPC -/- 1 0<->1", "SHM -/- 1 2->3"]);
    let whole = "n1:1:2 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC\nRing 00 : 0[0] -> 1[1] via P2P/IPC\n";
    assert_eq!(rows(&job(whole)), ["P2P/IPC -/- 1 0->1"]);
    for text in ["the Ring 00 : 0[0] -> 1[1] via P2P/IPC", "Channel 00 : 0[0] -> 1[1] via P2P/IP"] {
        assert!(read(text).is_none(), "{text}");
    }
}

/// A variable excludes a path, and the log shows none.
#[test]
fn variables_without_paths() {
    let log = |value: &str| {
        format!(
            "n1:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to {value}.\nn1:3:4 [1] NCCL INFO Using network Socket\n"
        )
    };
    let losses: Vec<String> = job(&log("1")).lost.iter().map(|lost| lost.why.clone()).collect();
    assert_eq!(losses, ["NCCL_P2P_DISABLE=1 is set"]);
    assert!(read(&log("0")).is_none());
    let level = |version: &str| {
        let log =
            format!("n1:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n{version}\n");
        job(&log).lost[0].why.clone()
    };
    let either = "NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC is set";
    assert_eq!(level("n1:1:2 [0] NCCL INFO NCCL version 2.22.3+cuda12.4"), either);
    assert_eq!(level("n1:1:2 [0] NCCL INFO Using network Socket"), either);
    let own = level("n1:1:2 [0] NCCL INFO NCCL version 2.23.4+cuda12.4");
    assert_eq!(own, "NCCL_P2P_LEVEL=LOC is set");
    // The version alone shows that the text is of a job.
    let of_level = |level: &str| {
        let shown = [Shown { name: "NCCL_P2P_LEVEL".to_owned(), value: level.to_owned(), line: 1 }];
        let mut reader = JobReader::default();
        reader.feed(b"NCCL version 2.28.9+cuda12.8\n");
        let job = reader.finish_in(&Around { is_explained: false, settings: &shown });
        job.map(|job| job.lost[0].what.clone())
    };
    let excluded = "A variable excludes P2P; the log shows no path of ranks.";
    assert_eq!(of_level("LOC").as_deref(), Some(excluded));
    // Which GPUs are connected by NVLink is not in the log.
    assert_eq!(of_level("NVL"), None);
}

/// Lines as NCCL of several versions writes them, and launchers before them.
#[test]
fn reads_paths_of_all_versions() {
    for (lines, expected) in [
        ("n1:1:2 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC", "P2P/IPC -/- 1 0->1"),
        (
            "n1:1:2 [0] NCCL INFO CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA",
            "CollNet/SHARP yes/- 1 3",
        ),
        (
            "n1:1:2 [0] NCCL INFO Ring 00 : 3 -> 10 [send] via NET/IB/0/GDRDMA",
            "NET/IB yes/- 1 3->10",
        ),
        (
            "n1:1:2 [0] NCCL INFO Channel 00 : 0[3d000] -> 1[40000] via direct shared memory",
            "SHM -/- 1 0->1",
        ),
        (
            "n1:1:2 [0] NCCL INFO Channel 00 : 0[3d000] -> 1[40000] via P2P/direct pointer comm 0x7f nRanks 02",
            "P2P/direct -/- 1 0->1",
        ),
        (
            "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]/read",
            "P2P/indirect -/- 1 0->1",
        ),
        (
            "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            "P2P/CUMEM -/- 1 0->1",
        ),
        ("n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL", "P2P/MNNVL -/- 1 0->1"),
        ("n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct", "SHM -/- 1 0->1"),
        ("n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/CE/direct", "SHM -/- 1 0->1"),
        (
            "[1,5]<stdout>:n1:1:2 [1] NCCL INFO Channel 00 : 4[1b0] -> 5[1c0] [receive] via NET/Socket/0",
            "NET/Socket -/- 1 4->5",
        ),
        (
            "0: n1:1:2 [0] NCCL INFO Channel 02/0 : 0[0] -> 8[0] [send] via NET/IB/2(3)/GDRDMA/Shared",
            "NET/IB PXN yes/- 1 0->8",
        ),
        (
            "n1:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA/flush=None",
            "NET/IB -/yes 1 1->0",
        ),
        (
            "(Worker pid=1, ip=192.0.2.1) n1:1:2 [0] NCCL INFO Channel 14/0 : 2[2] -> 1[1] via P2P/CUMEM [repeated 35x across cluster]",
            "P2P/CUMEM -/- 1 2->1",
        ),
        (
            "[default0]:n1:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA",
            "NET/OFI -/yes 1 1->0",
        ),
        (
            "2025-01-01T00:00:00Z n1:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IBext_v8/2",
            "NET/IBext_v8 -/no 1 1->0",
        ),
        (
            "\u{1b}[36m(Worker pid=9)\u{1b}[0m n1:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0/GDRDMA(PCI)",
            "NET/IB yes/- 1 1->0",
        ),
        (
            r#"{"log":"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n","stream":"stdout"}"#,
            "P2P/IPC -/- 1 0->1",
        ),
    ] {
        assert_eq!(rows(&job(lines)), [expected], "{lines}");
    }
}

/// What is not a path, or only the start of one, gives none.
#[test]
fn invents_no_path() {
    for line in [
        "n1:1:2 [0] NCCL INFO Channel 00/02 :    0   1",
        "n1:1:2 [0] NCCL INFO Channel 00/04 : 0 [receive] via NET/Socket/0",
        "n1:1:2 [0] NCCL INFO Channel 00 : 0[3000] -> 1[44000] via NVL/0",
        "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUM",
        "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/",
        "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDR",
        "n1:1:2 [0] NCCL INFO Channel 12/0 : 7[7] -> 6[g183:9:8 [1] NCCL INFO Connected all rings",
        "look for NCCL INFO Channel ... via P2P/IPC",
    ] {
        assert!(read(line).is_none(), "{line}");
    }
}

const WORLD: &str = "\
n1:10:11 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.1<0>
n1:10:11 [0] NCCL INFO Using network IB
n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 60 commId 0xab - Init START
n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
n1:10:11 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC
n1:10:11 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/1/GDRDMA
n1:20:21 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.1<0>
n1:20:21 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 70 commId 0xab - Init START
n1:20:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1
n2:10:11 [0] NCCL INFO NCCL_NET_GDR_READ set by environment to 0.
n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 60 commId 0xab - Init START
n2:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/10/GDRDMA
n2:10:11 [0] NCCL INFO Channel 00 : 2[0] -> 3[1] via SHM/direct/direct
n2:10:11 [0] NCCL INFO Could not enable P2P between dev 0(=60) and dev 1(=70)
n2:20:21 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 70 commId 0xab - Init START
n2:20:21 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/1
[2026-01-01 00:00:00] n2:20:22 [1] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer
";

#[test]
fn joins_ranks_of_two_nodes() {
    let job = job(WORLD);
    assert_eq!(rows(&job), ["P2P/IPC -/- 2 0->1", "SHM -/- 1 2->3", "NET/IB no/yes 1 1->2,3->0",]);
    assert_eq!((job.ranks, job.ranks_seen, job.gpus), (Some(4), 4, 4));
    assert_eq!(job.nodes, ["n1", "n2"]);
    assert_eq!(job.nccl, ["2.21.5+cuda12.4"]);
    let lost: Vec<(ReasonKind, &str)> =
        job.lost.iter().map(|loss| (loss.kind, loss.why.as_str())).collect();
    assert_eq!(
        lost,
        [
            (ReasonKind::Topology, "the driver offers no peer access between GPUs"),
            (ReasonKind::Variable, "NCCL_NET_GDR_READ=0 is set"),
        ]
    );
    let failure = &job.failures[0];
    assert_eq!(failure.kind, FailureKind::ConnectionClosed);
    assert_eq!((failure.ranks.as_slice(), failure.silent.as_slice()), (&[3][..], &[0, 1, 2][..]));
}

/// Where the log lacks the reason, gdr names the setting that would show it.
#[test]
fn names_missing_setting() {
    let job = job("n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct");
    assert_eq!(job.lost[0].kind, ReasonKind::Unknown);
    assert!(job.lost[0].why.contains("NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,P2P,SHM"));
}

/// Two communicators of one process: NCCL up to 2.17 names a communicator after its paths.
#[test]
fn tells_communicators_apart() {
    let log = "\
n1:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
n1:1:2 [0] NCCL INFO Channel 00 : 0[60] -> 1[70] via P2P/IPC
n1:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 8 cudaDev 0 busId 60 - Init COMPLETE
n1:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
n1:1:2 [0] NCCL INFO Channel 00 : 0[60] -> 1[80] [send] via NET/IB/0
n1:1:2 [0] NCCL INFO comm 0xb rank 0 nranks 2 cudaDev 0 busId 60 - Init COMPLETE
";
    let job = job(log);
    let found: Vec<(Option<u32>, &str)> = (job.communicators.iter())
        .map(|communicator| (communicator.ranks, communicator.paths[0].transport.as_str()))
        .collect();
    assert_eq!(found, [(Some(8), "P2P/IPC"), (Some(2), "NET/IB")]);
}

#[test]
fn names_rank_of_watchdog() {
    let log = format!(
        "{WORLD}[rank2]:[E1128 05:59:18 ProcessGroupNCCL.cpp:612] [Rank 2] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum=2, OpType=ALLREDUCE)\n"
    );
    let job = job(&log);
    let failure = job.failures.iter().find(|failure| failure.kind == FailureKind::WatchdogTimeout);
    assert_eq!(failure.expect("a timeout").ranks, [2]);
}

/// The lines of a log, in any order that keeps that of each process, then copies of lines, cut and whole.
pub(super) fn mixed(
    log: &str,
    process: impl Fn(&str) -> Option<String>,
    picks: &[prop::sample::Index],
    cuts: &[(prop::sample::Index, prop::sample::Index)],
) -> String {
    let mut queues: Vec<Vec<&str>> = Vec::new();
    for line in log.lines() {
        match queues.iter_mut().find(|queue| process(queue[0]) == process(line)) {
            Some(queue) => queue.push(line),
            None => queues.push(vec![line]),
        }
    }
    let mut mixed: Vec<String> = Vec::new();
    let mut picks = picks.iter().cycle();
    while !queues.is_empty() {
        let at = picks.next().expect("endless").index(queues.len());
        mixed.push(queues[at].remove(0).to_owned());
        queues.retain(|queue| !queue.is_empty());
    }
    let whole = mixed.clone();
    for (line, length) in cuts {
        let line = line.get(&whole);
        mixed.push(line[..length.index(line.len() + 1)].to_owned());
        mixed.push(line.clone());
    }
    mixed.join("\n") + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Ranks interleaved in any order, lines repeated, copies cut at any place, the stream in pieces of any size: one table.
    #[test]
    fn order_repetition_and_cuts_change_nothing(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 64),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        piece in 1_usize..200,
    ) {
        let process = |line: &str| line.split(' ').find(|word| word.starts_with('n')).map(|word| word[..5].to_owned());
        let text = mixed(WORLD, process, &picks, &cuts);
        let mut reader = JobReader::default();
        for part in text.as_bytes().chunks(piece) {
            reader.feed(part);
        }
        let found = reader.finish().expect("a job");
        prop_assert_eq!(&found.communicators, &job(WORLD).communicators);
    }
}

fn several(logs: &[&str]) -> Job {
    let mut reader = JobReader::default();
    for log in logs {
        reader.feed(log.as_bytes());
        reader.next_log();
    }
    reader.finish().expect("a job")
}

/// One log of each rank, in any order, or a log given twice: the table of the whole log.
#[test]
fn logs_of_ranks_are_one_job() {
    let whole = job(WORLD);
    let own = |process: &str| {
        let lines = WORLD.lines().filter(|line| line.contains(process));
        lines.fold(String::new(), |all, line| all + line + "\n")
    };
    let ranks = ["n2:20:", "n1:10:", "n1:20:", "n2:10:"].map(own);
    let ranks: Vec<&str> = ranks.iter().map(|log| log.trim_end()).collect();
    for (name, found) in [
        ("one of each rank", several(&ranks)),
        ("twice", several(&[WORLD, WORLD])),
        ("one rank twice", several(&[&ranks[..], &ranks[..1]].concat())),
    ] {
        assert_eq!(found.communicators, whole.communicators, "{name}");
        assert_eq!((found.ranks_seen, &found.nodes), (4, &whole.nodes), "{name}");
    }
}

/// NCCL up to 2.17 has no ids, and a pointer is used again after its communicator is destroyed.
#[test]
fn pointer_that_is_used_again() {
    let first = "\
n1:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
n1:1:2 [0] NCCL INFO Channel 00 : 0[60] -> 1[70] via P2P/IPC
n1:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 8 cudaDev 0 busId 60 - Init COMPLETE
";
    let second = "\
n1:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
n1:1:2 [0] NCCL INFO Channel 00 : 0[60] -> 1[80] [send] via NET/IB/0
n1:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 60 - Init COMPLETE
";
    let both = format!("{first}{second}");
    let expected = ["P2P/IPC -/- 1 0->1", "NET/IB no/- 1 0->1"];
    assert_eq!(rows(&job(&both)), expected);
    assert_eq!(rows(&several(&[&both, &both])), expected);
    assert_eq!(rows(&several(&[first, second, first])), expected);
}

/// A path of a thread that connected no communicator is of one that has its ranks.
#[test]
fn path_of_communicator_with_its_ranks() {
    let log = "\
n1:1:2 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 60 commId 0x1 - Init COMPLETE
n1:1:2 [0] NCCL INFO ncclCommInitRank comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x2 - Init COMPLETE
n1:1:9 [0] NCCL INFO Channel 00/1 : 0[0] -> 5[5] via P2P/CUMEM
";
    let job = job(log);
    let found: Vec<(Option<u32>, usize)> =
        job.communicators.iter().map(|of| (of.ranks, of.paths.len())).collect();
    assert_eq!(found, [(Some(8), 1), (Some(2), 0)]);
}

/// What launchers write before a line.
#[test]
fn prefixes_of_launchers() {
    const LINES: [&str; 2] = [
        "n1:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 60 commId 0x1 - Init COMPLETE",
        "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    ];
    for prefix in [
        "",
        "[default0]:",
        "[rank0]:",
        "[rank0]: ",
        "0: ",
        "12: ",
        "[1,0]<stdout>:",
        "[1,0]<stderr>: ",
        "[job-1,0]<stdout>: ",
        "(RayTrainWorker pid=4711, ip=192.0.2.1) ",
        "(TrainTrainable pid=4711) \u{1b}[36m(RayTrainWorker pid=12)\u{1b}[0m ",
        "[pod/worker-0/pytorch] ",
        "[worker-0] ",
        "[worker-0 pytorch] ",
        "worker-0 pytorch ",
        "worker-0  | ",
        "\u{1b}[36mworker-0 | \u{1b}[0m",
        "2026-01-01T00:00:00.123456789Z stdout F ",
        "Jan 01 00:00:00 n1 train[77]: ",
        "{\"log\":\"",
        "[2026-01-01 00:00:00] ",
    ] {
        let log: String = LINES.iter().map(|line| format!("{prefix}{line}\n")).collect();
        let job = job(&log);
        assert_eq!(rows(&job), ["P2P/IPC -/- 1 0->1"], "{prefix}");
        assert_eq!((job.nodes.as_slice(), job.gpus), (&["n1".to_owned()][..], 1), "{prefix}");
    }
}

const HOPPER: &str = "\
n1:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init START
n1:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init START
n1:1:1 [0] NCCL INFO GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL) NVS/0-0 (1/370.8/NVL) CPU/0-0 (1/48.0/PHB) NET/0-0 (3/1.2/PHB)
";

/// What each path lost: faster path, reason, machine, factor.
#[test]
fn losses_with_machine_and_factor() {
    let disabled = "n1:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n";
    let shm = "n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n";
    let socket = "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n";
    let level = "n1:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n";
    let denied =
        "n1:1:1 [0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 0\n";
    let remote =
        WORLD.replace("NET/IB/1/GDRDMA", "NET/Socket/0").replace("NET/IB/1\n", "NET/Socket/0\n");
    for (name, log, expected) in [
        ("variable", format!("{HOPPER}{disabled}{shm}"), "PeerAccess Variable Yes 7.7 1"),
        ("no reason", format!("{HOPPER}{shm}"), "PeerAccess Unknown Yes 7.7 1"),
        (
            "sockets on one node",
            format!("{HOPPER}{disabled}{socket}"),
            "PeerAccess Variable Yes 309.0 1, SharedMemory Unknown Unknown 40.0 1",
        ),
        (
            "a level that excludes nothing",
            format!("{level}{shm}"),
            "PeerAccess Unknown Unknown - 1",
        ),
        ("no peer access", format!("{denied}{shm}"), "PeerAccess Topology No - 1"),
        (
            "sockets between nodes with RDMA devices",
            remote,
            "PeerAccess Topology No - 1, Rdma Unknown Yes - 2",
        ),
    ] {
        let job = job(&log);
        let losses = job.lost.iter().map(|loss| {
            let factor = loss.bandwidth.map_or("-".to_owned(), |of| format!("{:.1}", of.factor));
            format!(
                "{:?} {:?} {:?} {factor} {}",
                loss.faster, loss.kind, loss.allowed, loss.pair_count
            )
        });
        assert_eq!(losses.collect::<Vec<_>>().join(", "), expected, "{name}");
    }
}

/// Each failure: kind, ranks that report it, details with their ranks, silent ranks.
#[test]
fn failures_by_rank() {
    for (lines, expected) in [
        (
            "[rank2]:[E1128 ProcessGroupNCCL.cpp:612] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1)\n\
             [rank0]:[E1128 ProcessGroupNCCL.cpp:612] [PG ID 0 PG GUID 0(default_pg) Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=BROADCAST, NumelIn=1)\n",
            "WatchdogTimeout [0, 2] BROADCAST, sequence number 8 [0]; ALLREDUCE, sequence number 7 [2] silent [1, 3]",
        ),
        (
            "n1:20:21 [1] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 21805\n",
            "VersionMismatch [1] NCCL 2.18.5, while rank 0 has 2.21.5 [1] silent []",
        ),
        (
            "n2:10:99 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 192.0.2.1<33092> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_1\n",
            "Completion [2] peer 192.0.2.1 (node n1): no answer after all retries, NIC mlx5_1 [2] silent []",
        ),
        (
            "n2:10:99 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 198.51.100.7<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n",
            "Completion [2] peer 198.51.100.7: no answer after all retries [2] silent []",
        ),
        (
            "n2:10:99 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.0.2.1, remote GID ::ffff:192.0.2.9\n",
            "QueuePair [2] 110 Connection timed out, NIC mlx5_0:1, local GID index 3, local GID ::ffff:192.0.2.1, remote GID ::ffff:192.0.2.9 [2] silent []",
        ),
        (
            "n1:20:21 [1] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n",
            "QueuePair [1] Invalid argument [1] silent []",
        ),
        (
            "n1:20:21 [1] net_socket.cc:1 NCCL WARN NET/Socket : no interface found\n",
            "NoSocketInterface [1]  silent []",
        ),
    ] {
        let whole: String = WORLD
            .lines()
            .filter(|line| !line.contains(" WARN "))
            .map(|line| format!("{line}\n"))
            .collect();
        let job = job(&format!("{whole}{lines}"));
        let failures = job.failures.iter().map(|failure| {
            let details =
                failure.details.iter().map(|detail| format!("{} {:?}", detail.text, detail.ranks));
            let details = details.collect::<Vec<_>>().join("; ");
            format!("{:?} {:?} {details} silent {:?}", failure.kind, failure.ranks, failure.silent)
        });
        assert_eq!(failures.collect::<Vec<_>>(), [expected], "{lines}");
    }
}

/// A log that stops says so only where a sound end would have a line.
#[test]
fn end_of_the_log_of_a_job() {
    let log = |version: &str, end: &str| {
        format!(
            "n1:1:2 [0] NCCL INFO NCCL version {version}+cuda12.4\n\
             n1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n{end}"
        )
    };
    let end =
        "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE\n";
    let abort =
        "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 - Abort COMPLETE\n";
    let died =
        "n1:1:2 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer\n";
    for (log, expected) in [
        (log("2.28.9", ""), true),
        (log("2.28.9", end), false),
        (log("2.18.3", abort), false),
        (log("2.28.9", died), false),
        (log("2.10.3", ""), false),
        (log("2.30.7", ""), false),
    ] {
        assert_eq!(job(&log).end_missing, expected, "{log}");
    }
}
