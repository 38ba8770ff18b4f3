//! Failures without a log around them, warnings that gdr has no kind for, and messages that share a line.

use super::{Around, JobReader, Shown};
use crate::model::{Job, ReasonKind};

fn read(log: &str, around: &Around<'_>) -> Option<Job> {
    let mut reader = JobReader::default();
    reader.feed(log.as_bytes());
    reader.finish_in(around)
}

fn job(log: &str) -> Job {
    read(log, &Around::default()).unwrap_or_else(|| panic!("no job in {log}"))
}

/// Each failure as `kind ranks processes`.
fn failures(job: &Job) -> Vec<String> {
    let text = |failure: &crate::model::RankFailure| {
        format!("{:?} {:?} {:?}", failure.kind, failure.ranks, failure.processes)
    };
    job.failures.iter().map(text).collect()
}

/// An exception of a program, PyTorch's watchdog, or one warning is enough to name the failure.
#[test]
fn failure_needs_no_log_around_it() {
    for (log, expected) in [
        (
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 3 and rank 0 both on CUDA device f000\n",
            "DuplicateGpu [3] []",
        ),
        (
            "Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 34000\n Last error:\n",
            "DuplicateGpu [9] []",
        ),
        (
            "[trainer0|0]:Last error:\n[trainer0|0]:Bootstrap : no socket interface found\n",
            "NoSocketInterface [] []",
        ),
        (
            "Last error:\nncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)\n",
            "NoSocketInterface [] []",
        ),
        (
            "[rank1]:[E626] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE) ran\n",
            "WatchdogTimeout [1] []",
        ),
        (
            "[0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 192.0.2.1<36138>\n",
            "ConnectionClosed [] []",
        ),
        (
            "n1:1:2 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n",
            "Bootstrap [] [\"n1:1\"]",
        ),
        (
            "n1:1:2 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 192.0.2.9<17943> failed : Software caused connection abort\n",
            "ConnectionFailed [] [\"n1:1\"]",
        ),
        (
            "n1:1:2 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-YrFC5V to 33030532 bytes, error: No space left on device (28)\n",
            "SharedMemory [] [\"n1:1\"]",
        ),
        (
            "n1:1:2 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer 192.0.2.6<58683> collective mismatch error, local size 496640 remote size 65536\n",
            "CollectiveMismatch [] [\"n1:1\"]",
        ),
        (
            "n1:1:2 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n",
            "CudaFailure [] [\"n1:1\"]",
        ),
    ] {
        assert_eq!(failures(&job(log)), [expected], "{log}");
        // A symptom that explains the quotation is the answer.
        let explained = Around { is_explained: true, ..Around::default() };
        assert!(read(log, &explained).is_none(), "{log}");
    }
}

/// Across pieces of any size, too.
#[test]
fn last_error_is_read_across_pieces() {
    let log = "x\nLast error:\nBootstrap : no socket interface found\n";
    for cut in 1..log.len() {
        let mut reader = JobReader::default();
        reader.feed(&log.as_bytes()[..cut]);
        reader.feed(&log.as_bytes()[cut..]);
        let job = reader.finish().unwrap_or_else(|| panic!("no job, cut at {cut}"));
        assert_eq!(failures(&job), ["NoSocketInterface [] []"], "{cut}");
        assert_eq!(job.failures[0].line.number, 3, "{cut}");
    }
}

const START: &str = "n1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0xab - Init START\n";
const COMPLETE: &str = "n1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0xab - Init COMPLETE\n";
const WARNING: &str = "n1:1:2 [0] net.cc:1 NCCL WARN A text that nobody has seen\n";
const TRACE: &str = "n1:1:2 [0] NCCL INFO transport/net.cc:288 -> 3\n";

/// An unknown warning is a failure where a failing call follows it, and not where the process got over it.
#[test]
fn unknown_warning_fails_with_its_call() {
    let other = "n1:9:9 [0] NCCL INFO transport/net.cc:288 -> 3\n";
    let in_progress = "n1:1:2 [0] NCCL INFO misc/socket.cc:504 -> 7\n";
    let plugin = "n1:1:2 [0] rdma:1 NCCL WARN NET/OFI Creating an endpoint failed\n";
    for (lines, expected) in [
        (vec![COMPLETE, WARNING, TRACE], vec!["Other [0] []"]),
        (vec![COMPLETE, plugin, TRACE], vec!["NetworkPlugin [0] []"]),
        (vec![START, WARNING], vec!["Other [0] []"]),
        (vec![COMPLETE, WARNING], vec![]),
        (vec![COMPLETE, WARNING, other], vec![]),
        (vec![COMPLETE, WARNING, in_progress], vec![]),
        (vec![START, WARNING, TRACE, COMPLETE], vec![]),
        (vec![COMPLETE, TRACE], vec![]),
    ] {
        assert_eq!(failures(&job(&lines.concat())), expected, "{lines:?}");
    }
}

/// Each message of a line counts where a blank shows that the one before it is whole.
#[test]
fn messages_share_a_line() {
    let pairs = |log: &str| {
        let job = job(log);
        let paths = job.communicators.iter().flat_map(|communicator| &communicator.paths);
        let mut pairs: Vec<(u32, Option<u32>)> =
            paths.flat_map(|path| &path.pairs).map(|pair| (pair.from, pair.to)).collect();
        pairs.sort_unstable();
        pairs
    };
    let line = "NCCL INFO Channel 12/0 : 13[5] -> 5[5] [receive] via NET/IBext/5/GDRDMA       \
                vm-1:11980:12549 [2] NCCL INFO Channel 03/0 : 2[2] -> 10[2] [send] via NET/IBext/2/GDRDMA   \
                vm-1:11978:12548 [0] NCCL INFO Channel 12/0 : 8[0] -> 0[0] [receive] via NET/IBext/0/GDRDMA\n";
    assert_eq!(pairs(line), [(2, Some(10)), (8, Some(0)), (13, Some(5))]);
    // Two processes wrote at once: the first message may lack its end.
    let cut = "vm-1:11980:12549 [2] NCCL INFO Channel 03/0 : 2[2] -> 10[2] [send] via NET/IBext/1\
               vm-1:11978:12548 [0] NCCL INFO Channel 12/0 : 8[0] -> 0[0] [receive] via NET/IBext/0/GDRDMA\n";
    assert_eq!(pairs(cut), [(8, Some(0))]);
}

const SHM: &str = "n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n";
const SOCKET: &str = "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";

/// Why a path was lost: variables first, then what did not load.
#[test]
fn reasons_have_an_order() {
    let none = "n1:1:2 [0] NCCL INFO NET/IB : No device found.\n";
    let verbs = "n1:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n";
    let hca = "n1:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_9\n";
    let absent = "n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.\n";
    let broken = "n1:1:2 [0] NCCL INFO NET/Plugin: libnccl-net.so: /lib/libc.so.6: version `GLIBC_2.38' not found\n";
    let named = "n1:1:2 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to aws-ofi\n";
    for (lines, kind, why) in [
        (vec![SOCKET, hca, none], ReasonKind::Variable, "NCCL_IB_HCA=mlx5_9 is set"),
        (vec![SOCKET, hca, verbs], ReasonKind::NotLoaded, "libibverbs did not load"),
        (vec![SOCKET, absent, none], ReasonKind::NotLoaded, "NCCL found no RDMA device"),
        (
            vec![SOCKET, absent, named, none],
            ReasonKind::NotLoaded,
            "the network plugin was not found (NCCL_NET_PLUGIN=aws-ofi)",
        ),
        (
            vec![SOCKET, broken, none],
            ReasonKind::NotLoaded,
            "a network plugin did not load or start",
        ),
    ] {
        let job = job(&lines.concat());
        assert_eq!((job.lost[0].kind, job.lost[0].why.as_str()), (kind, why), "{lines:?}");
    }
}

/// A variable of the command above the log counts, too.
#[test]
fn command_shows_a_variable() {
    let shown = [Shown { name: "NCCL_P2P_DISABLE".to_owned(), value: "1".to_owned(), line: 1 }];
    let around = Around { is_explained: false, settings: &shown };
    let job = read(SHM, &around).expect("a job");
    assert_eq!(job.lost[0].kind, ReasonKind::Variable);
    assert_eq!(job.lost[0].line.as_ref().map(|line| line.number), Some(1));
}
