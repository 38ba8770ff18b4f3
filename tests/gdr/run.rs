//! `gdr run`: the job's output, status and signals are its own, and the report is of its log.

use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Gdr, Slurm};

const GDR: &str = env!("CARGO_BIN_EXE_gdr");

/// Writes what NCCL of two ranks would.
const LOG: &str = "cat >> \"$NCCL_DEBUG_FILE\" <<'END'\n\
    vm:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n\
    vm:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
    vm:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init COMPLETE\n\
    vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n\
    END\n";

const SOON: Duration = Duration::from_secs(20);

fn job(script: &str) -> Gdr {
    Gdr::new().args(["run", "--", "sh", "-c", script])
}

fn spawned(job: Gdr) -> (Child, BufReader<ChildStdout>) {
    let mut child =
        job.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gdr starts");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, stdout)
}

fn line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

#[test]
fn reports_paths_and_keeps_output_and_status() {
    let run = job(&format!("{LOG}echo out; echo err >&2; exit 7")).run();
    assert_eq!((run.stdout.as_str(), run.code), ("out\n", 7));
    assert!(run.stderr.starts_with("err\n"), "{}", run.stderr);
    assert!(run.stderr.contains("Job: NCCL 2.28.9+cuda13.0, 2 ranks"), "{}", run.stderr);
    assert!(run.stderr.contains("P2P/CUMEM"), "{}", run.stderr);
    // Good paths say nothing about the job's end.
    assert!(run.stderr.contains("the job failed (exit status: 7)"), "{}", run.stderr);
    let sound = job(&format!("{LOG}echo out")).run();
    assert!(!sound.stderr.contains("failed"), "{}", sound.stderr);
}

#[test]
fn empty_directory_holds_no_logs() {
    let directory = tempfile::tempdir().expect("a directory");
    let logs = directory.path().to_str().expect("a path");
    let run = Gdr::new().args(["run", "--log", logs, "--", "true"]).run();
    assert!(run.stderr.contains("no process of the job has written"), "{}", run.stderr);
    assert!(!run.stderr.contains("the logs are in"), "{}", run.stderr);
}

/// `UCX_LOG_FILE` of the user names a file beside NCCL's logs.
#[test]
fn reports_logs_of_other_libraries() {
    let directory = tempfile::tempdir().expect("a directory");
    let logs = directory.path().to_str().expect("a path");
    let line = "[1795981478.252539] [node1:828  :0]  ucp_worker.c:1991 UCX  INFO    ucp_context_0 intra-node cfg#2 tag(sysv/memory cma/memory)";
    let script =
        format!("echo '{line}' >{logs}/ucx.node1.828.log; echo '{line}' >{logs}/notes.txt");
    let run = Gdr::new().args(["run", "--log", logs, "--", "sh", "-c", &script]).run();
    assert!(run.stderr.contains("sysv cma") && run.stderr.contains("on a node"), "{}", run.stderr);
    assert!(!run.stderr.contains("eth7"), "{}", run.stderr);
    assert!(run.stderr.contains("the logs are in"), "{}", run.stderr);
}

/// What the job sees, and what gdr says about it.
#[test]
fn variables_of_the_user_stay() {
    let echo = "echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS ${NCCL_DEBUG_FILE:+file}";
    for (name, value, seen, remark) in [
        ("HOME", "/", "INFO INIT,BOOTSTRAP,ENV,GRAPH,NET,P2P,SHM file", "has written a log"),
        ("NCCL_DEBUG", "WARN", "WARN", "NCCL_DEBUG=WARN is set and stays"),
        ("NCCL_DEBUG_FILE", "/dev/null", "file", "NCCL_DEBUG_FILE=/dev/null is set and stays"),
        ("NCCL_DEBUG_SUBSYS", "ALL", "INFO ALL file", "NCCL_DEBUG_SUBSYS=ALL is set and stays"),
    ] {
        let run = job(echo).env(name, value).run();
        assert_eq!((run.stdout.trim_end(), run.code), (seen, 0), "{name}");
        assert!(run.stderr.contains(remark), "{name}: {}", run.stderr);
    }
}

#[test]
fn kept_logs_of_ranks_are_one_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let logs = directory.path().join("a%b");
    let logs = logs.to_str().expect("a path");
    for rank in ["0", "1"] {
        let run = Gdr::new()
            .args(["run", "--log", logs, "--", "sh", "-c"])
            .args([LOG.replace("\"$NCCL_DEBUG_FILE\"", &format!("\"{logs}/nccl.{rank}.log\""))])
            .env("SLURM_PROCID", rank)
            .env("SLURM_NTASKS", "2")
            .run();
        run.assert_code(0);
        assert_eq!(run.stderr.contains("P2P/CUMEM"), rank == "0", "{}", run.stderr);
    }
    let run = crate::support::gdr(&["explain", "--no-run", "--job", logs]);
    run.assert_code(0);
    assert!(run.stdout.starts_with("Job: NCCL 2.28.9+cuda13.0, 2 ranks"), "{}", run.stdout);
}

#[test]
fn status_of_a_command_that_cannot_start() {
    for (command, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let run = Gdr::new().args(["run", "--", command]).run();
        run.assert_code(code);
        assert!(run.stderr.contains(command), "{}", run.stderr);
        // It is the only thing to say.
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    Gdr::new().args(["run"]).run().assert_code(2);
}

#[test]
fn signal_ends_gdr_as_its_job() {
    let status = job("kill -TERM $$").command().stderr(Stdio::null()).status().expect("it runs");
    assert_eq!(status.signal(), Some(15));
    let status = job("exit 143").command().stderr(Stdio::null()).status().expect("it runs");
    assert_eq!(status.code(), Some(143));
}

#[test]
fn signals_reach_the_job() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::USR2, "USR2")] {
        let script =
            format!("trap 'echo {name}; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let (mut child, mut stdout) = spawned(job(&script));
        assert_eq!(line(&mut stdout), "ready");
        send(&child, signal);
        assert_eq!(line(&mut stdout), name);
        assert_eq!(child.wait().expect("a status").code(), Some(5), "{name}");
    }
}

/// Stopped and continued by a shell's job control, gdr still reports and ends with the job's status.
#[test]
fn stopped_gdr_goes_on() {
    let mut command = job(&format!("{LOG}echo ready; read line; exit 5")).command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("gdr starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    assert_eq!(line(&mut stdout), "ready");
    send(&child, Signal::STOP);
    send(&child, Signal::CONT);
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("a status");
    let report = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{report}");
    assert!(report.contains("P2P/CUMEM"), "{report}");
}

/// The reader of a job's output is gone: the job ends as without gdr, which still reports.
#[test]
fn closed_pipe_ends_the_job() {
    let script = format!("{LOG}while echo line; do :; done");
    let (child, mut stdout) = spawned(job(&script));
    assert_eq!(line(&mut stdout), "line");
    drop(stdout);
    let output = child.wait_with_output().expect("a status");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("P2P/CUMEM"), "{report}");
    assert_ne!(output.status.code(), Some(0), "{report}");
}

/// As many as the ranks of a large node, each with its own status and report, and nothing left in a directory that they share.
#[test]
fn many_at_once_do_not_mix() {
    let directory = tempfile::tempdir().expect("a directory");
    let jobs: Vec<(i32, Child)> = (0..64)
        .map(|rank| {
            let script = format!("{LOG}echo {rank}; exit {}", rank % 3);
            let mut command = job(&script).env("TMPDIR", directory.path()).command();
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            (rank, child.expect("gdr starts"))
        })
        .collect();
    for (rank, child) in jobs {
        let output = child.wait_with_output().expect("a status");
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(rank % 3), "{report}");
        assert_eq!(output.stdout, format!("{rank}\n").as_bytes());
        assert!(report.contains("Job: NCCL 2.28.9+cuda13.0, 2 ranks"), "{report}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A job that ignores SIGTERM goes on, and so does gdr; SIGUSR1 reports while it runs.
#[test]
fn report_while_the_job_runs() {
    let script = format!("trap '' TERM; {LOG}echo ready; read line < \"$FIFO\"; exit 3");
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut child = job(&script)
        .env("FIFO", &fifo)
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gdr starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    assert_eq!(line(&mut stdout), "ready");
    send(&child, Signal::TERM);
    send(&child, Signal::USR1);
    let mut report = String::new();
    while !report.contains("P2P/CUMEM") {
        assert_ne!(stderr.read_line(&mut report).expect("a line"), 0, "{report}");
    }
    std::fs::write(&fifo, "go on\n").expect("a reader");
    stderr.read_to_string(&mut report).expect("text");
    assert_eq!(child.wait().expect("a status").code(), Some(3), "{report}");
}

/// A killed gdr cannot remove its logs: the next one does, and leaves those of a gdr that runs.
#[test]
fn job_ends_with_a_killed_gdr() {
    let directory = tempfile::tempdir().expect("a directory");
    let left = || std::fs::read_dir(directory.path()).expect("a directory").count();
    let of_directory = |script: &str| job(script).env("TMPDIR", directory.path());
    let (mut running, mut running_stdout) =
        spawned(of_directory("echo; read line < /dev/null; exec sleep 60"));
    line(&mut running_stdout);
    let (mut child, mut stdout) = spawned(of_directory("echo $$; exec sleep 60"));
    let process = Path::new("/proc").join(line(&mut stdout));
    assert!(process.exists());
    send(&child, Signal::KILL);
    child.wait().expect("a status");
    let begun = Instant::now();
    let is_gone = || {
        let state = std::fs::read_to_string(process.join("stat"));
        state.map_or(true, |state| state.contains(") Z "))
    };
    while !is_gone() {
        assert!(begun.elapsed() < SOON, "the job goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(left(), 2);
    of_directory("true").run().assert_code(0);
    assert_eq!(left(), 1);
    send(&running, Signal::KILL);
    running.wait().expect("a status");
}

/// What NCCL of one of eight ranks would write, each on a node of its own.
const RANK: &str = "echo rank $SLURM_PROCID\n\
    file=$(echo \"$NCCL_DEBUG_FILE\" | sed \"s/%h/$SLURMD_NODENAME/; s/%p/$$/\")\n\
    start=\"$SLURMD_NODENAME:$$:$$ [0] NCCL INFO\"\n\
    cat > \"$file\" <<END\n\
    $start NCCL version 2.28.9+cuda13.0\n\
    $start ncclCommInitRank comm 0x1 rank $SLURM_PROCID nranks 8 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
    $start Channel 00/0 : ${SLURM_PROCID}[0] -> $(( (SLURM_PROCID + 1) % 8 ))[0] [send] via NET/IB/0/GDRDMA\n\
    END\n";

/// Each rank of srun has its own gdr: their output is their own, the first reports, and their logs are one job.
#[test]
#[ignore = "needs root and slurm (Debian: slurmctld, slurmd, slurm-client, munge)"]
fn ranks_of_srun_are_one_job() {
    let slurm = Slurm::start("");
    let work = slurm.dir.path().join("work");
    std::fs::write(work.join("rank.sh"), RANK).expect("a script");
    let run = slurm.on_all_nodes(&format!("exec {GDR} run --log logs -- sh rank.sh\n"), &["-n8"]);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..8).map(|rank| format!("rank {rank}")).collect();
    assert_eq!(lines, expected, "{stderr}");
    assert_eq!(stderr.matches("Job: NCCL 2.28.9+cuda13.0, 8 ranks").count(), 1, "{stderr}");
    assert_eq!(slurm.left_behind(), [""; 0]);
    let logs = work.join("logs");
    let logs = logs.to_str().expect("a path");
    let run = crate::support::gdr(&["explain", "--no-run", "--format", "json", "--job", logs]);
    run.assert_code(0);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let job = &report["job"];
    assert_eq!((&job["ranks"], &job["ranks_seen"]), (&8.into(), &8.into()), "{job:#}");
    assert_eq!(job["nodes"].as_array().map(Vec::len), Some(8), "{job:#}");
    let path = &job["communicators"][0]["paths"][0];
    assert_eq!((&path["transport"], &path["pair_count"]), (&"NET/IB".into(), &8.into()), "{job:#}");
}
