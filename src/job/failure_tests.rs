//! Failures without a log around them, warnings that gdr has no kind for, and messages that share a line.

use super::{Around, JobReader, Shown};
use crate::model::{FasterPath, Job, ReasonKind};

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
        (
            "g0010: Test CUDA failure common.cu:941 'invalid device ordinal'\n .. g0010 pid 8: Test failure common.cu:891\n",
            "CudaFailure [] []",
        ),
        (
            "[rank0]:[E416] [PG ID 2 PG GUID 3 Rank 0] ProcessGroupNCCL's watchdog got stuck for 300 seconds without making progress\n",
            "WatchdogTimeout [0] []",
        ),
        (
            "[5] misc/socket.cc:46 NCCL WARN socketProgressOpt: Call to send to 192.0.2.9<5> failed : Connection reset by peer\n",
            "ConnectionClosed [] []",
        ),
        (
            "[misc/socket.cc:586] [n1:pid=39] NCCL WARN socketPollConnect poll() returned 1, no POLLOUT events\n",
            "ConnectionFailed [] []",
        ),
        (
            "Last error:\nNET/OFI Request 0x7f1 completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0\n",
            "Completion [] []",
        ),
        (
            "register_mr_buffers:544 NCCL WARN NET/OFI Unable to register memory (type = 2) for device 0. RC: -22, Error: Invalid argument\n",
            "MemoryRegistration [] []",
        ),
    ] {
        assert_eq!(failures(&job(log)), [expected], "{log}");
        // A symptom that explains the quotation is the answer.
        let explained = Around { is_explained: true, ..Around::default() };
        assert!(read(log, &explained).is_none(), "{log}");
    }
}

/// Source code, scripts and settings that hold a message are not a log.
#[test]
fn code_is_no_failure() {
    for line in [
        "error = \"NCCL WARN Bootstrap : no socket interface found\"",
        "printf(\"n1:1:2 [0] NCCL WARN Bootstrap : no socket interface found\\n\");",
        "    \"NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device f000\",",
        "+    WARN(\"NCCL WARN NET/IB : Got completion from peer with error 12\");",
        "// NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device f000",
        "echo \"n1:1:2 [0] NCCL WARN Bootstrap : no socket interface found\"",
        "raise DistBackendError(\"[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE) ran\")",
    ] {
        assert!(read(&format!("{line}\n"), &Around::default()).is_none(), "{line}");
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
    let on = "n1:1:2 [0] NCCL INFO Using network IB\n";
    let elsewhere = "n1:1:3 [0] NCCL INFO Using network IB\n";
    let ending = "n1:1:3 [0] NCCL INFO [Service thread] Connection closed by localRank 0\n";
    let slower = "n1:1:2 [0] search.cc:765 NCCL WARN Could not find a path for pattern 4, falling back to simple order\n";
    let outermost = "n1:1:2 [0] NCCL INFO init.cc:1358 -> 3\n";
    for (lines, expected) in [
        // What its process writes next shows that it went on.
        (vec![START, WARNING, on], vec![]),
        (vec![START, WARNING, on, TRACE], vec![]),
        (vec![START, WARNING, elsewhere], vec![]),
        (vec![START, WARNING, elsewhere, TRACE], vec!["Other [0] []"]),
        (vec![START, WARNING, ending], vec!["Other [0] []"]),
        (vec![START, slower], vec![]),
        // A call that failed without a warning.
        (vec![START, TRACE, outermost], vec!["Other [0] []"]),
        (vec![START, TRACE, on, outermost, on], vec![]),
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

/// The variable that chose the interface is named with the failure.
#[test]
fn failure_names_its_variable() {
    let set = "n1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to nosuch0\n";
    let failed = "n1:1:2 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n";
    let details = |log: &str| {
        let job = job(log);
        let details = job.failures[0].details.iter().map(|detail| detail.text.clone());
        details.collect::<Vec<_>>()
    };
    assert_eq!(details(&[set, failed].concat()), ["NCCL_SOCKET_IFNAME=nosuch0 is set (line 1)"]);
    assert_eq!(details(failed), [""; 0]);
}

/// The plugin for libfabric: its provider, and why GPUDirect RDMA is off.
#[test]
fn provider_of_libfabric() {
    let path = "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0\n";
    let efa = "n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\n";
    let tcp = "n1:1:2 [0] NCCL INFO NET/OFI Selected provider is tcp;ofi_rxm, fabric is x (found 1 nics)\n";
    let off =
        "n1:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n";
    for (lines, faster, kind, line) in [
        (vec![efa, path], FasterPath::GpuDirect, ReasonKind::Unknown, None),
        (vec![efa, off, path], FasterPath::GpuDirect, ReasonKind::NotLoaded, Some(2)),
        (vec![tcp, path], FasterPath::Rdma, ReasonKind::NotLoaded, Some(1)),
    ] {
        let job = job(&lines.concat());
        let [loss] = job.lost.as_slice() else { panic!("{:?}", job.lost) };
        let number = loss.line.as_ref().map(|line| line.number);
        assert_eq!((loss.faster, loss.kind, number), (faster, kind, line), "{lines:?}");
        assert_eq!(job.networks.join(","), if lines[0] == efa { "efa" } else { "" });
    }
}

const RAS: &str = "\
NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

Errors
======

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 192.0.2.13 managing GPU 5

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 640
  2 ranks have launched up to operation 641
  Rank 12 -- GPU 4 managed by process 323032 on node 192.0.2.24
  Rank 13 -- GPU 5 managed by process 323033 on node 192.0.2.24
";

/// What NCCL's RAS prints, however it arrives; without an error it is not a job.
#[test]
fn ras_names_ranks_that_differ() {
    for piece in [1, 7, 64, RAS.len()] {
        let mut reader = JobReader::default();
        RAS.as_bytes().chunks(piece).for_each(|bytes| reader.feed(bytes));
        let job = reader.finish().expect("a job");
        assert_eq!(failures(&job), ["RasIncomplete [] []", "RasMismatch [12, 13] []"], "{piece}");
        assert_eq!(job.nccl, ["2.26.2+cuda12.6"]);
        let details = |at: usize| job.failures[at].details[0].text.as_str();
        assert!(details(0).contains("Process 3487984 on node 192.0.2.13"), "{}", details(0));
        assert!(details(1).starts_with("Communicator ranks have different AllGather"));
        assert_eq!(job.failures[1].line.number, 17);
    }
    let (healthy, _) = RAS.split_once("Errors").expect("a part");
    assert!(read(healthy, &Around::default()).is_none());
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

/// Why a connection failed: an address that other nodes do not reach, or interfaces of two networks.
#[test]
fn addresses_explain_a_failed_connection() {
    let connect = |address: &str, error: &str| {
        format!(
            "n2:7:9 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to {address}<4711> failed : {error}\n"
        )
    };
    let using = |name: &str| format!("n2:7:7 [0] NCCL INFO Bootstrap : Using {name}<0>\n");
    for (log, expected) in [
        (
            using("docker0:172.17.0.1") + &connect("172.17.0.1", "Connection refused"),
            "172.17.0.1 (interface docker0, line 1) is of an interface inside one machine, which no other node reaches; NCCL_SOCKET_IFNAME \
             chooses it",
        ),
        (
            using("lo:127.0.0.1") + &connect("10.1.0.1", "Connection timed out"),
            "its own address 127.0.0.1 (interface lo, line 1) is a loopback address, which no other node reaches; NCCL_SOCKET_IFNAME chooses it",
        ),
        (
            using("ib0:fe80::1:2%ib0")
                + &connect("fe80::3:4%ib0", "Software caused connection abort"),
            "fe80::3:4 is a link-local address, which is valid on one link alone; NCCL_SOCKET_IFNAME chooses it",
        ),
        (
            using("enp5s0:192.168.77.12") + &connect("10.1.0.11", "No route to host"),
            "perhaps two networks: its own address is 192.168.77.12 (interface enp5s0, line 1), the other one 10.1.0.11; NCCL_SOCKET_IFNAME \
             chooses the interface",
        ),
        (
            using("eno1:10.1.0.12") + &connect("10.1.0.11", "No route to host"),
            "socketStartConnect: Connect to 10.1.0.11<4711> failed : No route to host",
        ),
    ] {
        let job = job(&log);
        assert_eq!(failures(&job), ["ConnectionFailed [] [\"n2:7\"]"], "{log}");
        assert_eq!(job.failures[0].details[0].text, expected, "{log}");
    }
}

/// On one node the loopback interface serves.
#[test]
fn loopback_of_one_node_is_no_reason() {
    let rank = |rank: u32| {
        format!(
            "n1:{rank}:{rank} [{rank}] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\nn1:{rank}:{rank} [{rank}] NCCL INFO ncclCommInitRank comm \
             0x5{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}0 commId 0x1 - Init START\n"
        )
    };
    let warning = "n1:1:1 [1] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 127.0.0.1<4711> failed : Connection refused\n";
    let job = job(&(rank(0) + &rank(1) + warning));
    let details: Vec<&str> = job.failures[0].details.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        details,
        ["socketStartConnect: Connect to 127.0.0.1<4711> failed : Connection refused"]
    );
}

/// What NCCL's last error says counts beside a symptom that its result alone explains.
#[test]
fn last_error_is_no_quotation() {
    let around = Around { is_explained: true, settings: &[] };
    for error in [
        "socketStartConnect: Connect to 192.0.2.7<4711> failed : No route to host",
        // The other rank's address was never set.
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
    ] {
        let log = format!(
            "RuntimeError: NCCL error in: a.cpp:1, unhandled system error, NCCL version 2.20.5\nLast error:\n{error}\n"
        );
        let job = read(&log, &around).expect("a job");
        assert_eq!(failures(&job)[0], "ConnectionFailed [] []");
    }
}

/// File descriptors, names of hosts, shared memory, peers.
#[test]
fn limits_and_names() {
    for (log, expected) in [
        (
            "n1:1:2 [0] include/socket.h:421 NCCL WARN Net : Socket creation failed : Too many open files\n",
            "OpenFiles",
        ),
        (
            "n1:1:2 [0] bootstrap.cc:106 NCCL WARN Call to accept failed : Too many open files\n",
            "OpenFiles",
        ),
        (
            "n1:1:2 [0] misc/socket.cc:300 NCCL WARN Net : error encountered when getting address info : Name or service not known\n",
            "HostName",
        ),
        (
            "n1:1:2 [0] misc/shmutils.cc:80 NCCL WARN Call to shm_open failed : Permission denied\n",
            "SharedMemory",
        ),
        (
            "n1:1:2 [0] transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two \
             devices\n",
            "CudaFailure",
        ),
        (
            "n1:1:2 [0] misc/socket.cc:300 NCCL WARN Call to bind failed : Address already in use\n",
            "PortInUse",
        ),
    ] {
        let found: Vec<String> =
            job(log).failures.iter().map(|one| format!("{:?}", one.kind)).collect();
        assert_eq!(found, [expected], "{log}");
    }
}

/// How the process ended is not a name for the warning before.
#[test]
fn crash_after_a_warning_hides_it_not() {
    let log = "n1:1:2 [0] init.cc:99 NCCL WARN Frobnication of the widget impossible\n\
               srun: error: node1: task 0: Segmentation fault (core dumped)\n";
    let failures = failures(&job(log));
    assert_eq!(failures, ["Signal [0] []", "Other [] [\"n1:1\"]"]);
}

/// As copied into a chat, or as a string of JSON: the code in the frames makes it no source code.
#[test]
fn traceback_in_one_line() {
    const FRAMES: &str = "File \"/app/train.py\", line 12, in main raise RuntimeError(\"no\") \
                          File \"/lib/torch/distributed/distributed_c10d.py\", line 3, in f work = group.allreduce(\"x\")";
    for (end, expected) in [
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "GpuMemory [] []",
        ),
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
            "Rendezvous [] []",
        ),
        ("ValueError: logging.error(\"x\")", "Exception [] []"),
    ] {
        let plain = format!("Traceback (most recent call last): {FRAMES} {end}\n");
        let escaped = plain.trim_end().replace(" File", "\\n  File");
        let escaped = escaped.replace(&format!(" {end}"), &format!("\\n{end}\\n"));
        let json = format!("{{\"log\":\"{}\"}}\n", escaped.replace('"', "\\\""));
        for flat in [plain, escaped, json] {
            let log = format!("[c10d] init\n[rank0]: step 1\n{flat}");
            let job = read(&log, &Around::default()).unwrap_or_else(|| panic!("no job in {log}"));
            assert_eq!(failures(&job), [expected], "{log}");
        }
    }
    let code =
        format!("expected = \"Traceback (most recent call last): {FRAMES} KeyError: 'x'\"\n");
    assert!(read(&code, &Around::default()).is_none());
}

/// A warning whose process is not in the line counts if nothing but a place in the sources stands before it.
#[test]
fn warning_without_a_process() {
    for (log, expected) in [
        ("graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)\n", vec!["Other [] []"]),
        ("NCCL WARN Error : too many XML nodes (max 256)\n", vec!["Other [] []"]),
        ("[3] do_it(int):42 NCCL WARN it broke\n", vec!["Other [] []"]),
        ("[3] NCCL WARN it broke\n", vec!["Other [] []"]),
        ("I see this: NCCL WARN it broke\n", vec![]),
        ("x.cc:1 NCCL WARN it broke, falling back to y\n", vec![]),
        ("x.cc:1 NCCL WARN NET/IB : Got async event : client reregistration\n", vec![]),
        ("x.cc:1 NCCL WARN 0x1:0x2, nic 0, eth1 rx rx ctrl timeout cnt 7, nanos 8\n", vec![]),
        ("x.cc:1 NCCL WARN it broke\nNCCL INFO Channel 00/02 : 0 1\n", vec![]),
    ] {
        let failures = read(log, &Around::default()).map_or(vec![], |job| failures(&job));
        assert_eq!(failures, expected, "{log}");
    }
}

/// What a launcher ended after the first failure is not the failure.
#[test]
fn ended_by_the_launcher() {
    const AGENT: &str = "E0101 00:00:00.0 1 torch/distributed/elastic/multiprocessing/api.py:874]";
    let ended = |code: i32, local: u32| {
        format!(
            "{AGENT} failed (exitcode: {code}) local_rank: {local} (pid: 7) of binary: python\n"
        )
    };
    let details = |log: &str| {
        let job = job(log);
        let details = job.failures.into_iter().flat_map(|failure| failure.details);
        details.map(|detail| detail.text).collect::<Vec<String>>()
    };
    let [asked, failed] = [ended(-15, 0), ended(1, 3)];
    for log in [[asked.as_str(), &failed].concat(), [failed.as_str(), &asked].concat()] {
        assert_eq!(details(&log), ["exit status 1, local rank 3"], "{log}");
    }
    assert_eq!(details(&asked), ["signal 15 (SIGTERM), local rank 0"]);
    let [exited, killed] = [
        "srun: error: n1: task 3: Exited with exit code 1\n",
        "srun: error: n1: tasks 0-1: Killed\n",
    ];
    assert_eq!(details(&[exited, killed].concat()), ["exit status 1 on node n1"]);
    assert_eq!(details(&[killed, exited].concat()).len(), 2);
    // A rank that lost another one says nothing of why.
    let closed = "n1:1:2 [0] NCCL WARN socketProgress: Connection closed by remote peer n2<5>\n";
    let rank = "srun: error: n2: task 1: Terminated\n";
    assert_eq!(job(&[closed, rank].concat()).failures.len(), 2);
}

/// RCCL's errors name the call.
#[test]
fn error_of_a_call() {
    let log = "n1:1:2 [0] p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n";
    let text = "hipIpcGetMemHandle failed : invalid argument";
    assert_eq!(job(log).failures[0].details[0].text, text);
}

/// A log that ends while a rank tries to connect.
#[test]
fn connection_that_is_tried_again() {
    let retry = "n1:1:2 [0] NCCL INFO socketPollConnect: connect to 192.0.2.9<5> returned Connection refused, retrying (1/34) after sleep for 100 msec\n";
    let old = "n1:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying\n";
    let other = "n1:1:2 [0] NCCL WARN it broke\n";
    let trace = "n1:1:2 [0] NCCL INFO init.cc:85 -> 3\n";
    for (lines, expected) in [
        (vec![retry, retry], vec!["ConnectionFailed [] [\"n1:1\"]"]),
        (vec![old], vec!["ConnectionFailed [] [\"n1:1\"]"]),
        (vec![old, "n1:1:2 [0] NCCL INFO Channel 00/02 : 0 1\n"], vec![]),
        (vec![retry, COMPLETE], vec![]),
        (vec![retry, other, trace], vec!["Other [] [\"n1:1\"]"]),
    ] {
        let failures =
            read(&lines.concat(), &Around::default()).map_or(vec![], |job| failures(&job));
        assert_eq!(failures, expected, "{lines:?}");
    }
}
