//! Failures that Python, PyTorch, launchers and frameworks print, by rank; and lines that are not a failure.

use proptest::prelude::*;

use crate::job::JobReader;
use crate::job::tests::mixed;
use crate::model::Job;

fn read(log: &str) -> Option<Job> {
    let mut reader = JobReader::default();
    reader.feed(log.as_bytes());
    reader.finish()
}

/// Each failure as `kind ranks details`.
fn failures(log: &str) -> Vec<String> {
    let Some(job) = read(log) else { return Vec::new() };
    let text = |failure: &crate::model::RankFailure| {
        let details: Vec<&str> =
            failure.details.iter().map(|detail| detail.text.as_str()).collect();
        format!("{:?} {:?} {}", failure.kind, failure.ranks, details.join("; "))
    };
    job.failures.iter().map(text).collect()
}

#[test]
fn ends_that_launchers_report() {
    for (log, expected) in [
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 81) of binary: /usr/bin/python\n",
            "Signal [] signal 9 (SIGKILL): usually host memory ran out (see the kernel's log), or somebody ended it, local rank 3",
        ),
        (
            "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_00:00:00\n  host      : n1\n  rank      : 5 (local_rank: 1)\n  \
             exitcode  : -11 (pid: 7)\n  error_file: <N/A>\n======\n",
            "Signal [5] signal 11 (SIGSEGV): it crashed on node n1",
        ),
        (
            "[2026-01-01 00:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['python', 'a.py', '--local_rank=1'] exits with return code = 1\n",
            "Exited [] exit status 1, local rank 1",
        ),
        (
            "Signal: Segmentation fault (11)\nSignal code: Address not mapped (1)\n",
            "Signal [] signal 11 (SIGSEGV): it crashed",
        ),
        (
            "[rank6]:[E1 a.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 6] Received a dump signal due to a collective timeout from  rank 7 and we\n",
            "WatchdogTimeout [7] its watchdog was the first to signal a timeout",
        ),
        (
            "[rank4]:[E a.cpp:1] [PG 0 Rank 4] Heartbeat monitor timed out! Process will be terminated.\n",
            "WatchdogTimeout [4] the watchdog itself got stuck in a call of CUDA or NCCL",
        ),
        (
            "RuntimeError: Mooncake Transfer Engine Return Error.\n",
            "Library [] Mooncake's transfer engine returned an error",
        ),
        (
            "worker: *** SIGSEGV received at time=1700000000 on cpu 6 ***\nmpirun noticed that process rank 1\n",
            "Signal [] signal 11 (SIGSEGV): it crashed",
        ),
        (
            "torchrun\n!!! Segfault encountered !!!\n  File \"<unknown>\", line 0, in cuMemCreate\n",
            "Signal [] signal 11 (SIGSEGV): it crashed",
        ),
        (
            "Root Cause (first observed failure):\n[0]:\ntime\nhost\nrank2 (local_rank: 2)exitcode: -9 (pid: 7)error_file: <N/A>\n\
             traceback : Signal 9 (SIGKILL) received by PID 7\n",
            "Signal [2] signal 9 (SIGKILL): usually host memory ran out (see the kernel's log), or somebody ended it",
        ),
        (
            "mpirun noticed that process rank 6 with PID 0 on node n1 exited on signal 9 (Killed).\n",
            "Signal [6] signal 9 (SIGKILL): usually host memory ran out (see the kernel's log), or somebody ended it on node n1",
        ),
        (
            "mpiexec noticed that process rank 0 with PID 3 on node n1 exited on \nsignal 6 (Aborted).\n",
            "Exited [0] signal 6 (SIGABRT) on node n1",
        ),
        (
            "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node n1\n  Remote daemon: [[1,0],1] on node n2\n",
            "NodeLost [] node n2",
        ),
        (
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 9 RUNNING AT n3\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n\
             YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Bus error (signal 7)\n",
            "Signal [] signal 7 (SIGBUS): usually /dev/shm is full on node n3",
        ),
        (
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 9 RUNNING AT n3\n=   EXIT CODE: 134\n=   CLEANING UP REMAINING PROCESSES\n\
             YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)\n",
            "Exited [] signal 6 (SIGABRT) on node n3",
        ),
        (
            "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  \
             Process name: [[4,1],3]\n  Exit code:    2\n",
            "Exited [3] exit status 2",
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.\nsrun: error: n1: task 2: Out Of Memory\n",
            "HostMemory [2] Slurm saw the kernel's OOM killer; node n1",
        ),
        (
            "srun: error: n1: tasks 0-2,7: Exited with exit code 3\n",
            "Exited [0, 1, 2, 7] exit status 3 on node n1",
        ),
        ("srun: error: Node failure on n12\n", "NodeLost [] node n12"),
        (
            "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
            "Exited [] Slurm cancelled it: time limit",
        ),
        (
            "[n1:12:0:14] Caught signal 7 (Bus error: nonexistent physical address)\n",
            "Signal [] signal 7 (SIGBUS): usually /dev/shm is full",
        ),
        (
            "  rank      : 0 (local_rank: 0)\n  exitcode  : -11 (pid: 6)\n  traceback : Signal 11 (SIGSEGV) received by PID 6\n",
            "Signal [] signal 11 (SIGSEGV): it crashed",
        ),
        (
            "train.py FAILED\nFailures:\n[1]:\n  time      : 2026-01-01_00:00:00\n  host      : n1\n  rank      : 1 (local_rank: 1)\n  \
             exitcode  : 1 (pid: 7)\nstderr: [2]:\nstderr:   host      : n1\nstderr:   rank      : 2 (local_rank: 2)\nstderr:   exitcode  : 1 (pid: 8)\n",
            "Exited [1, 2] exit status 1 on node n1",
        ),
        (
            "subprocess.CalledProcessError: Command '['torchrun', '--nnodes', '1', 'a.py']' returned non-zero exit status 1.\n",
            "Exited [] exit status 1",
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'a.py', '--local_rank=3']' returned non-zero exit status 1.\n",
            "Exited [] exit status 1, local rank 3",
        ),
        (
            "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.\n",
            "NodeLost [] a daemon of mpirun ended before it had reported back",
        ),
        (
            "n1: Test NCCL failure common.cu:959 'internal error - please report this issue to the NCCL developers / '\n",
            "Other [] NCCL returned: internal error",
        ),
        (
            "x.DistBackendError: NCCL error in: a.cpp:3376, internal error - please report this issue to the NCCL developers, NCCL version 2.25.1\n",
            "Other [] NCCL returned: internal error",
        ),
        (
            "[rank3]: Cuda failure 802 'system not yet initialized'\n",
            "CudaFailure [3] Cuda failure 802 'system not yet initialized'",
        ),
        (
            "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (n0, 4711).\n",
            "Rendezvous [] [E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (n0, 4711).",
        ),
        (
            "subprocess.CalledProcessError: Command '['python', 'a.py', '--local_rank=7']' died with <Signals.SIGSEGV: 11>.\n",
            "Signal [] signal 11 (SIGSEGV): it crashed",
        ),
        (
            "WARNING: torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers\n",
            "Exited [] signal 15 (SIGTERM)",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n",
            "Signal [1] signal 9 (SIGKILL): usually host memory ran out (see the kernel's log), or somebody ended it",
        ),
    ] {
        assert_eq!(failures(log), [expected], "{log}");
    }
}

#[test]
fn failures_of_pytorch_and_frameworks() {
    for (log, expected) in [
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, code: -98, name: EADDRINUSE\n",
            "PortInUse []",
        ),
        (
            "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to n1:1234\n",
            "Rendezvous []",
        ),
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: a (world_size=8, worker_count=6, timeout=0:30:00)\n",
            "Rendezvous [2] 6 processes arrived, of 8 ranks",
        ),
        (
            "x [stderr] [rank14]:[E909 ProcessGroupNCCL.cpp:607] [Rank 14] Watchdog caught collective operation timeout: \nWorkNCCL(SeqNum=20, OpType=REDUCE, NumelIn=1)\n",
            "WatchdogTimeout [14] REDUCE, sequence number 20",
        ),
        (
            "[rank0]:[E907 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 0] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n",
            "CudaFailure [0] CUDA error: an illegal memory access",
        ),
        ("[PG ID 2 PG GUID 3 Rank 3] ProcessGroupNCCL Timeout at NCCL work: 32\n", ""),
        (
            "[E227 ProcessGroupNCCL.cpp:1834] [PG ID 2 PG GUID 3 Rank 3] Timeout at NCCL work: 32, last enqueued NCCL work: 32\n",
            "WatchdogTimeout [3] work 32",
        ),
        (
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits. There are some potential root causes. (1) SIGKILL by OOM killer\n",
            "Exited [] Ray's worker: Worker unexpectedly exits.",
        ),
        ("Worker exit type: INTENDED_USER_EXIT Worker exit detail: exit_actor() is called.\n", ""),
        (
            "Owner Ip address: 192.0.2.9 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.\n",
            "NodeLost [] node 192.0.2.9: Owner's node has crashed.",
        ),
        (
            "[1,0]<stderr>:[W horovod/common/operations.cc:588] HorovodBroadcast_x [missing ranks: 1, 3]\n",
            "Timeout [0] ranks 1, 3 did not submit",
        ),
        (
            "[0] Missing ranks:\n[0] 0: [a, b]\n[0] 2: [a]\n[0] [2026: W x\n",
            "Timeout [] ranks 0, 2 did not submit",
        ),
        (
            "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Timed out task names:\n/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:6\n\nx\n",
            "Timeout [] ranks 1, 6 did not reach the barrier",
        ),
        (
            "[W228 socket.cpp:487] [c10d] waitForInput: socket SocketImpl(fd=11, addr=[n1]:38674, remote=[n0]:23456) timed out after 900000ms\n",
            "Rendezvous [] the store at [n0]:23456 did not answer within 900000ms",
        ),
        (
            "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.\n",
            "Timeout [] Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:10895\n",
            "ConnectionClosed []",
        ),
        (
            "m=78, OpType=BROADCAST, NumelIn=80, Timeout(ms)=600000) ran for 600087 milliseconds before timing out.\n",
            "WatchdogTimeout [] BROADCAST",
        ),
        (
            "UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout.\n",
            "Timeout [] task 3 sent no heartbeat",
        ),
        (
            "INTERNAL: nccl_utils.cc:305: NCCL operation ncclCommInitRank(&comm, n, id, rank) failed: internal error. Last NCCL warning(error) log entry (may be unrelated) 'Attribute busid of node nic not found'.\n",
            "Other [] Attribute busid of node nic not found",
        ),
        (
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n",
            "Other [] NCCL returned: unhandled system error",
        ),
        (
            "ncclInternalError: Internal check failed.\nLast error:\nFailed to find reverse path from remNode 0/5f000 nlinks 4\n",
            "Other [] Failed to find reverse path",
        ),
    ] {
        let found = failures(log);
        let is_found = match found.as_slice() {
            [] => expected.is_empty(),
            [one] => one.starts_with(expected) && !expected.is_empty(),
            _ => false,
        };
        assert!(is_found, "{found:?} {log}");
    }
}

/// The failure of one rank comes before what it brings about at the others.
#[test]
fn root_comes_first() {
    let log = "\
n1:1:2 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer n2<1>
[rank0]:[E1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)
[rank3]: Traceback (most recent call last):
[rank3]:   File \"train.py\", line 8, in <module>
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
E1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 3 (pid: 9) of binary: python
";
    let found = failures(log);
    assert!(found[0].starts_with("GpuMemory [3] torch.OutOfMemoryError: CUDA out"), "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");
}

/// An exception alone is of any program; with a launcher or a rank before it, it is of a job.
#[test]
fn exceptions_of_a_job() {
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x\nNameError: name 'x' is not defined\n";
    assert!(failures(trace).is_empty());
    let launched =
        format!("[2026-01-01 00:00:00] [INFO] [launch.py:78:main] WORLD INFO DICT\n{trace}");
    assert_eq!(failures(&launched), ["Exception [] NameError: name 'x' is not defined"]);
    assert_eq!(
        failures("[rank1]: ValueError: no such layer\n"),
        ["Exception [1] ValueError: no such layer"]
    );
    assert!(failures("CUDA out of memory\n").is_empty());
}

/// What a sound job prints, too.
#[test]
fn no_failure_of_a_sound_job() {
    for log in [
        "W0328 torch/distributed/elastic/multiprocessing/api.py:851] Sending process 3274844 closing signal SIGTERM\n",
        "[2026-01-01 00:00:00,000] [INFO] [launch.py:350:main] Process 4711 exits successfully.\n",
        "Error: 0.0012, epoch 3\n",
        "[rank0]: validation Error: 0.2\n",
        "srun: error: Unable to create step for job 7: Job/step already completing or completed\n",
        "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n",
        "Options: --oom-kill-disable\n",
        "0 tests failed: Exception: none\n",
    ] {
        assert!(failures(log).is_empty(), "{:?} {log}", failures(log));
    }
}

/// NCCL up to 2.2 writes its lines without its name.
#[test]
fn lines_of_old_nccl() {
    let log = "\
n1:5:6 [0] INFO Using internal Network Socket
n1:5:6 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out
";
    assert_eq!(
        failures(log),
        ["ConnectionFailed [] Call to connect failed : Connection timed out"]
    );
}

/// A program that goes on for long has handled its exception; one that ends has not.
#[test]
fn handled_exceptions() {
    let exception = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/opt/a.py\", line 4, in read\n[rank1]: ValueError: bad image\n";
    let training = "step 7 loss 2.1\n".repeat(100);
    let rank_exited = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 81) of binary: /usr/bin/python\n";
    let failed = vec!["Exception [1] ValueError: bad image".to_owned()];
    assert_eq!(failures(&[exception, &training].concat()), Vec::<String>::new());
    assert_eq!(failures(&[&training, exception].concat()), failed);
    assert_eq!(failures(&[exception, &training, exception].concat()), failed);
    assert_eq!(failures(&[exception, &training, rank_exited].concat()).len(), 2);
    // The second log is of another rank.
    let mut reader = JobReader::default();
    reader.feed(exception.as_bytes());
    reader.next_log();
    reader.feed(training.as_bytes());
    assert_eq!(reader.finish().map(|job| job.failures.len()), Some(1));
}

/// Advice, settings, figures and lines of information in the log of a job.
#[test]
fn words_of_failures_without_one() {
    let job = "torch/distributed/run.py:779] Setting OMP_NUM_THREADS\n";
    for line in [
        "worker.py:88] To avoid CUDA out of memory errors, decrease the share of memory\n",
        "If CUDA out of memory appears, use smaller batches\n",
        "INFO 01-01 10:00:01 [worker.py:88] CUDA out of memory, next size\n",
        "heartbeat timeout: 600, monitoredBarrier is on for rank 0\n",
        "[rank1]: Error: 0.31 (mean absolute)\n",
    ] {
        assert_eq!(failures(&[job, line].concat()), Vec::<String>::new(), "{line}");
    }
    let memory =
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Try to set an option to avoid it\n";
    assert_eq!(failures(&[job, memory].concat()).len(), 1);
    // Horovod warns of ranks that are late; the job may go on.
    let stalled =
        "[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [Allreduce/x]\n[1,0]<stdout>:epoch 1\n";
    assert_eq!(failures(stalled).len(), 1);
    let went_on = [stalled, &"[1,0]<stdout>:epoch\n".repeat(100)].concat();
    assert_eq!(failures(&went_on), Vec::<String>::new());
}

/// Failures of ranks 0 to 7 on two nodes, each line with its rank, and what the ranks print beside.
const WORLD: &str = "\
[rank0]: step 1 loss 2.5
[rank0]:[E1129 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1) ran for 600001 milliseconds before timing out.
[rank1]: step 1 loss 2.5
[rank1]:[E1129 10:00:00.2 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1) ran for 600002 milliseconds before timing out.
[rank2]: Traceback (most recent call last):
[rank2]:   File \"train.py\", line 3, in <module>
[rank2]:     step()
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank3]: Traceback (most recent call last):
[rank3]:   File \"train.py\", line 9, in <module>
[rank3]: ValueError: the batch is empty
[rank6]: RuntimeError: Timed out initializing process group in store based barrier on rank: 6, for key: a (world_size=8, worker_count=6, timeout=0:30:00)
srun: error: n1: tasks 4-5: Killed
srun: error: n1: task 7: Exited with exit code 3
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Ranks interleaved in any order, lines repeated, copies cut at any place, the stream in pieces of any size: one answer.
    #[test]
    fn order_repetition_and_cuts_change_no_failure(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 32),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        piece in 1_usize..200,
    ) {
        let rank = |line: &str| line.split_once(']').map(|(rank, _)| rank.to_owned());
        let text = mixed(WORLD, rank, &picks, &cuts);
        let mut reader = JobReader::default();
        text.as_bytes().chunks(piece).for_each(|part| reader.feed(part));
        let sorted = |job: Job| {
            let mut all: Vec<_> = job.failures.into_iter().map(|of| (of.kind, of.ranks, of.details)).collect();
            all.sort_by_key(|(kind, ..)| *kind);
            all
        };
        let expected = sorted(read(WORLD).expect("a job"));
        prop_assert_eq!(expected.len(), 6);
        prop_assert_eq!(sorted(reader.finish().expect("a job")), expected);
    }
}

/// What a program may have handled is a question while little follows, and nothing after much more.
#[test]
fn exceptions_that_lines_follow() {
    let log = |lines: usize, end: &str| {
        let start = "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init COMPLETE\n\
             Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: no cache\n";
        format!("{start}{}{end}", "step 1 loss 0.5\n".repeat(lines))
    };
    let kinds = |lines, end| {
        let job = read(&log(lines, end)).expect("a job");
        job.failures.iter().map(|failure| format!("{:?}", failure.kind)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(2, ""), ["Exception"]);
    assert_eq!(kinds(30, ""), ["PerhapsHandled"]);
    assert_eq!(kinds(80, ""), [""; 0]);
    let exit = "srun: error: n1: task 0: Exited with exit code 1\n";
    assert_eq!(kinds(30, exit), ["Exception", "Exited"]);
    assert_eq!(kinds(80, exit), ["Exception", "Exited"]);
}

/// Names of hosts, addresses and limits that Python's and PyTorch's messages name.
#[test]
fn names_addresses_and_limits() {
    for (log, expected) in [
        (
            "[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:59463: Connection refused\n",
            "ConnectionFailed [1] 127.0.1.1 is a loopback address, which no other node reaches; GLOO_SOCKET_IFNAME chooses it; \
             gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:59463: Connection refused",
        ),
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to find address for: n1.ai\n",
            "HostName [] gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to find address for: n1.ai",
        ),
        (
            "[W socket.cpp:663] [c10d] The IPv4 network addresses of (n0.svc, 29500) cannot be retrieved (gai error: -2 - Name or service not \
             known).\n",
            "HostName [] [W socket.cpp:663] [c10d] The IPv4 network addresses of (n0.svc, 29500) cannot be retrieved (gai error: -2 - Name or \
             service not known).",
        ),
        (
            "[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n",
            "Rendezvous [0] 1/2 clients joined.",
        ),
        (
            "Memory on the node was 12.49GB / 13.15GB (0.950003), which exceeds the memory usage threshold of 0.95. Ray killed this worker\n",
            "HostMemory [] Memory on the node was 12.49GB / 13.15GB (0.950003), which exceeds the memory usage threshold of 0.95. Ray killed this worker",
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n",
            "HostMemory [] ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        ),
        (
            "[rank2]: OSError: [Errno 24] Too many open files\n",
            "OpenFiles [2] OSError: [Errno 24] Too many open files",
        ),
    ] {
        assert_eq!(failures(log), [expected], "{log}");
    }
    // The IPv6 name is tried first, and a client's own name does not count.
    for log in [
        "[W socket.cpp:663] [c10d] The IPv6 network addresses of (n0.svc, 29500) cannot be retrieved (gai error: -2 - Name or service not known).\n",
        "[rank1]:[W122 20:05:19.749124012 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n",
        "accept failed: Too many open files\n",
    ] {
        assert_eq!(failures(log), [""; 0], "{log}");
    }
}
