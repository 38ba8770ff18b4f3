//! `gdr probe mp`: two processes of the binary itself, over the software HCA, started by it, by hand or by a launcher, and beside MPI.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Gdr, Run};
use fakes::{Driver, cuda, verbs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SIM: [&str; 4] = ["probe", "mp", "--sim", "--quick"];
/// The figures of each size, in order.
const FIGURES: [&str; 9] = [
    "mp.cpu.latency",
    "mp.stream.latency",
    "mp.kernel.latency",
    "mp.cpu.bandwidth",
    "mp.stream.bandwidth",
    "mp.put.latency",
    "mp.put.bandwidth",
    "mp.get.latency",
    "mp.get.bandwidth",
];

fn json(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).expect("JSON")
}

fn results(report: &Value) -> &[Value] {
    report["results"].as_array().expect("results")
}

/// Checks that all figures of these sizes are there and well.
fn check(report: &Value, sizes: &[u64], backend: &str) {
    let mut found = results(report).iter();
    for bytes in sizes {
        for name in FIGURES {
            let result = found.next().expect("a result");
            assert_eq!(
                (&result["name"], &result["bytes"], &result["backend"]),
                (&name.into(), &(*bytes).into(), &backend.into())
            );
            assert_eq!(result["verdict"], "ok", "{result}");
            assert!(result["median"].as_f64() > Some(0.0), "{result}");
            // 32 messages in each of 5 batches, both ways in a ping-pong.
            let ways =
                if ["mp.cpu.latency", "mp.stream.latency", "mp.kernel.latency"].contains(&name) {
                    2
                } else {
                    1
                };
            assert_eq!(result["verified"], 32 * 5 * ways * bytes, "{result}");
        }
    }
}

#[test]
fn exchanges_by_cpu_stream_and_kernel() {
    let run = Gdr::new().args(SIM).args(["--size", "7,4096,100000", "--format", "json"]).run();
    let report = json(&run);
    check(&report, &[7, 4096, 100_000], "cuda-sim+sim-hca");
    assert_eq!(results(&report).len(), 27);
    let notes = report["notes"].to_string();
    assert!(notes.contains("The HCA is SIMULATED"), "{notes}");
    let table = Gdr::new().args(SIM).run().stdout;
    for words in ["latency, us", "kernel p99", "bandwidth, GB/s", "all bytes are correct"] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

/// CUDA's functions and kernels, by the fake libcuda. It has no CPU mapping, so messages lie in host memory.
#[test]
fn exchanges_by_cuda() {
    let library = cuda::build(Driver::Current).expect("the simulated libcuda");
    let gdr = cuda::environment(&library, &cuda::machine("two"))
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
    let run = gdr
        .args(["probe", "mp", "--quick", "--gpu", "0", "--hca", "sim"])
        .args(["--size", "4096", "--no-mpi", "--format", "json"])
        .run();
    let report = json(&run);
    check(&report, &[4096], "cuda+sim-hca");
    assert_eq!(report["simulated"], false);
    let notes = report["notes"].to_string();
    assert!(notes.contains("messages lie in pinned host memory"), "{notes}");
}

#[test]
fn says_what_it_needs() {
    let library = verbs::build().expect("the simulated libibverbs");
    let environment = verbs::environment(&library, &verbs::machine("two"));
    let gdr = |arguments: &[&str]| {
        let gdr = Gdr::new().args(SIM).args(arguments);
        let environment = environment.iter().cloned();
        environment.fold(gdr, |gdr, (name, value)| gdr.env(name, value))
    };
    let run = gdr(&["--hca", "proxy", "--device", "mlx5_7"]).run();
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("libibverbs has no device 'mlx5_7'"), "{}", run.stdout);
    // Each process has its own simulated NICs, which reach nobody else's.
    let begun = Instant::now();
    let run = gdr(&["--hca", "proxy", "--library-timeout", "1"]).run();
    assert_eq!(run.code, 1, "{}", run.stdout);
    let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("8 bytes, rank") && text.contains("failed"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let run = Gdr::new().args(SIM).args(["--device", "mlx5_0"]).run();
    assert_eq!(run.code, 2);
    run.assert_stderr("add --hca mlx5 or --hca proxy");
}

/// One process listens, and the other connects.
#[test]
fn two_runs_meet() {
    let mut listens = Gdr::new()
        .args(SIM)
        .args(["--listen", "127.0.0.1:0", "--no-secret", "--size", "4096"])
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(listens.stderr.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert!(line().starts_with("gdr: listening at 127.0.0.1:"));
    let command = line();
    let command = command.strip_prefix("gdr: gdr probe mp --no-secret ").expect("a command");
    let run = Gdr::new()
        .args(SIM)
        .args(["--no-secret", command, "--size", "4096", "--format", "json"])
        .run();
    let report = json(&run);
    check(&report, &[4096], "cuda-sim+sim-hca");
    let subject = results(&report)[0]["subject"].as_str().expect("a subject");
    assert!(subject.starts_with("GPU0 -> "), "{subject}");
    let mut text = String::new();
    let mut pipe = listens.stdout.take().expect("a pipe");
    pipe.read_to_string(&mut text).expect("text");
    assert!(listens.wait().expect("a status").success(), "{text}");
    assert!(text.contains("connections served here: 1"), "{text}");
}

/// The local children of a process.
fn children(parent: u32) -> Vec<Pid> {
    let path = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(path).expect("a process").flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let pids = text.split_whitespace();
        pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>()
    };
    tasks.flat_map(of).collect()
}

/// A long probe, and its two children.
fn two_children() -> (Child, Vec<Pid>) {
    let mut child = Gdr::new()
        .args(["probe", "mp", "--sim", "--full", "--size", "32768"])
        .args(["--format", "json"])
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let both = children(child.id());
        if both.len() == 2 {
            return (child, both);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("it runs");
    let status = child.wait().expect("it ends");
    panic!("no two children after a minute: {status}");
}

/// It waited for the two seconds that a process has to notice the end of the other one.
#[test]
fn interrupt_ends_both_at_once() {
    let (child, _) = two_children();
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.signal(), &report["complete"]), (Some(2), &false.into()), "{report}");
}

#[test]
fn killed_process_ends_the_other() {
    let (child, both) = two_children();
    std::thread::sleep(Duration::from_millis(500));
    kill_process(both[1], Signal::KILL).expect("it runs");
    let killed = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{report}");
    let failed = |result: &&Value| result["verdict"] == "impossible" && result["required"] == true;
    assert!(results(&report).iter().any(|result| failed(&result)), "{report}");
}

fn beside_mpi(suffix: &str, backend: &str) {
    let launcher = format!("mpirun.{suffix}");
    let run =
        Gdr::new().args(SIM).args(["--mpi", &launcher, "--size", "4096", "--format", "json"]).run();
    let of_mpi = |report: &Value| {
        let subject = &results(report)[0]["subject"];
        for (name, verified, unit) in [
            ("validate.mpi.host", 2 * 4096, ""),
            ("mp.mpi.latency", 0, "us"),
            ("mp.mpi.bandwidth", 0, "GB/s"),
        ] {
            let mut named = results(report).iter().filter(|one| one["name"] == name);
            let (Some(result), None) = (named.next(), named.next()) else {
                panic!("{name}: {report}");
            };
            assert_eq!(
                (&result["verdict"], &result["verified"], &result["unit"]),
                (&"ok".into(), &verified.into(), &unit.into())
            );
            assert_eq!(
                result["median"].as_f64().is_some_and(|median| median > 0.0),
                !unit.is_empty(),
                "{result}"
            );
            assert_eq!((&result["subject"], &result["bytes"]), (subject, &4096.into()));
            let library = result["backend"].as_str().expect("a backend");
            assert!(library.starts_with(backend), "{library}");
        }
    };
    of_mpi(&json(&run));

    // Both processes started by MPI's launcher: the first one has the results.
    let directory = tempfile::tempdir().expect("a directory");
    let gdr = Gdr::new().command();
    let output = Command::new(&launcher)
        // A file for each rank: the launcher may mix what two ranks print.
        .args(["-n", "2", "sh", "-c"])
        .arg("exec \"$0\" \"$@\" >report${OMPI_COMM_WORLD_RANK-$PMI_RANK}")
        .arg(gdr.get_program())
        .args(SIM)
        .args(["--size", "4096", "--format", "json"])
        .current_dir(directory.path())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .output()
        .expect("a launcher");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let reports = [0, 1].map(|rank| {
        let text = fs::read(directory.path().join(format!("report{rank}"))).expect("a report");
        serde_json::from_slice::<Value>(&text).expect("JSON")
    });
    let client = reports.iter().find(|report| !results(report).is_empty());
    let client = client.expect("a report with results");
    check(client, &[4096], "cuda-sim+sim-hca");
    of_mpi(client);
}

#[test]
#[ignore = "needs Open MPI"]
fn beside_open_mpi() {
    beside_mpi("openmpi", "Open MPI v");
}

#[test]
#[ignore = "needs MPICH"]
fn beside_mpich() {
    beside_mpi("mpich", "MPICH Version: ");
}

#[test]
fn missing_launcher_is_no_failure() {
    let run = Gdr::new()
        .args(SIM)
        .args(["--mpi", "/nowhere/mpirun", "--size", "64", "--format", "json"])
        .run();
    check(&json(&run), &[64], "cuda-sim+sim-hca");
    // A program that is not a launcher.
    let run =
        Gdr::new().args(SIM).args(["--mpi", "false", "--size", "64", "--format", "json"]).run();
    let report = json(&run);
    check(&report, &[64], "cuda-sim+sim-hca");
    let notes = report["notes"].to_string();
    assert!(notes.contains("MPI's own figures are missing"), "{notes}");
}
