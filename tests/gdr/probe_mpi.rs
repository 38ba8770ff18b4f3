//! `gdr probe mpi` under the launchers of Debian's Open MPI and MPICH: host memory, simulated GPU memory, a GPU whose memory the library
//! cannot access, ranks that die, and two hosts that are two host names of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::gdr;
use fakes::{Driver, cuda};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const GDR: &str = env!("CARGO_BIN_EXE_gdr");

/// A launcher, its library, and what moves messages on one host.
struct Mpi {
    launcher: &'static str,
    library: &'static str,
    abi: &'static str,
    transport: &'static str,
}

const OPEN_MPI: Mpi = Mpi {
    launcher: "mpirun.openmpi",
    library: "libmpi.so.40",
    abi: "open-mpi",
    transport: "vader",
};
const MPICH: Mpi =
    Mpi { launcher: "mpirun.mpich", library: "libmpich.so.12", abi: "mpich", transport: "cma" };

impl Mpi {
    /// Runs gdr in so many processes.
    fn command(&self, ranks: u32, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["60", self.launcher, "-n", &ranks.to_string(), GDR, "probe", "mpi", "--quick"])
            .args(args);
        prepare(&mut command);
        command
    }

    fn run(&self, ranks: u32, args: &[&str]) -> Output {
        self.command(ranks, args).output().expect("a launcher")
    }
}

/// Waiting ranks use their CPUs: two jobs at once would be late.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open MPI accepts root, and more ranks than cores.
fn prepare(command: &mut Command) {
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null());
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    // MPICH's launcher may print on standard output, too, how a rank ended.
    let mut documents = serde_json::Deserializer::from_str(&text).into_iter();
    let failed = |why: String| -> Value {
        panic!("{why}: {text}{}", String::from_utf8_lossy(&output.stderr))
    };
    match documents.next() {
        Some(Ok(report)) => report,
        Some(Err(error)) => failed(error.to_string()),
        None => failed("no report".to_owned()),
    }
}

/// The results with this name.
fn named<'r>(report: &'r Value, name: &str) -> Vec<&'r Value> {
    let results = report["results"].as_array().expect("results");
    results.iter().filter(|result| result["name"] == name).collect()
}

const SIZES: [u64; 4] = [1, 4096, 123_457, 2 << 20];
const ARGUMENTS: [&str; 6] = [
    "--size",
    "1,4096,123457,2MiB",
    "--format",
    "json",
    // Ranks poll, which is slow on a busy machine.
    "--library-timeout",
    "60",
];

/// Each size is verified and measured.
fn assert_measured(report: &Value, memory: &str) {
    for (name, unit) in [
        (format!("validate.mpi.{memory}"), ""),
        (format!("mpi.{memory}.latency"), "us"),
        (format!("mpi.{memory}.bandwidth"), "GB/s"),
    ] {
        let results = named(report, &name);
        let sizes: Vec<_> = results.iter().map(|result| result["bytes"].as_u64()).collect();
        assert_eq!(sizes, SIZES.map(Some), "{name}: {report:#}");
        for result in results {
            assert_eq!((&result["verdict"], &result["unit"]), (&"ok".into(), &unit.into()));
            match unit {
                "" => assert_eq!(
                    result["verified"].as_u64(),
                    result["bytes"].as_u64().map(|bytes| 2 * bytes)
                ),
                _ => assert!(
                    result["median"].as_f64().is_some_and(|median| median > 0.0),
                    "{result}"
                ),
            }
        }
    }
}

fn measures_host_memory(mpi: &Mpi) {
    let _alone = alone();
    // Ranks that are not measured wait.
    let output = mpi.run(3, &ARGUMENTS);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!((&report["probe"], &report["simulated"]), (&"mpi".into(), &false.into()));
    assert_measured(&report, "host");
    let known = &report["mpi"];
    assert_eq!(
        (&known["abi"], &known["ranks"], &known["hosts"]),
        (&mpi.abi.into(), &3.into(), &1.into())
    );
    let file = known["file"].as_str().expect("a file");
    assert!(file.ends_with(mpi.library), "{file}");
    assert!(
        known["chosen"].as_str().expect("a reason").starts_with("of the launcher /"),
        "{known}"
    );
    assert_eq!((&known["takes_gpu"], &known["claims_gpu"]), (&Value::Null, &false.into()));
    let transport = &known["transports"][0];
    assert_eq!(transport["same_host"], true);
    let names = transport["names"].as_array().expect("names");
    assert!(names.contains(&mpi.transport.into()), "{transport}");
    // Their verbose messages are not shown.
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("UCX  INFO") && !errors.contains("mca: "), "{errors}");
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi_measures_host_memory() {
    measures_host_memory(&OPEN_MPI);
}

#[test]
#[ignore = "needs MPICH"]
fn mpich_measures_host_memory() {
    measures_host_memory(&MPICH);
}

/// Two H200 of the fake libcuda; `cpu_access`: its GPU memory is host memory, and the CPU can access it.
fn with_gpus(command: &mut Command, directory: &Path, cpu_access: bool) {
    let text = fs::read_to_string(cuda::machine("two")).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    machine["gpu"]["cpu_access"] = cpu_access.into();
    let file = directory.join("cuda.json");
    fs::write(&file, machine.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated library");
    command.envs(cuda::environment(&library, &file));
}

/// Every library takes this GPU memory, and all of the GPU's steps run.
fn sends_gpu_memory(mpi: &Mpi) {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = mpi.command(2, &ARGUMENTS);
    with_gpus(&mut command, directory.path(), true);
    let output = command.output().expect("a launcher");
    let report = report(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_measured(&report, "host");
    assert_measured(&report, "gpu");
    assert_eq!(report["mpi"]["takes_gpu"], true);
    let [found] = named(&report, "mpi.cuda-aware")[..] else {
        panic!("{report:#}");
    };
    assert_eq!(
        (&found["verdict"], &found["verified"]),
        (&"ok".into(), &(64 + (64 << 10) + (4 << 20)).into())
    );
    for result in named(&report, "mpi.gpu.latency") {
        assert_eq!(result["backend"], mpi.abi);
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi_sends_gpu_memory() {
    sends_gpu_memory(&OPEN_MPI);
}

#[test]
#[ignore = "needs MPICH"]
fn mpich_sends_gpu_memory() {
    sends_gpu_memory(&MPICH);
}

/// The CPU faults at GPU addresses, as at a real GPU's.
fn finds_that_gpu_pointers_are_not_taken(mpi: &Mpi) {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = mpi.command(2, &ARGUMENTS);
    with_gpus(&mut command, directory.path(), false);
    let output = command.output().expect("a launcher");
    let report = report(&output);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let [found] = named(&report, "mpi.cuda-aware")[..] else {
        panic!("{report:#}");
    };
    assert_eq!(found["verdict"], "impossible");
    let reason = found["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("not CUDA-aware")
            && reason.contains(mpi.library)
            && reason.contains("signal: 11"),
        "{reason}"
    );
    assert_eq!(report["mpi"]["takes_gpu"], false);
    // The crash is not a failure of the ranks.
    assert_eq!(report["complete"], true, "{report:#}");
    assert_measured(&report, "host");
    assert!(named(&report, "mpi.gpu.latency").is_empty());
    // --memory host asks nothing of the GPU.
    let mut command = mpi.command(2, &["--memory", "host"]);
    with_gpus(&mut command, directory.path(), false);
    let output = command.output().expect("a launcher");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi_does_not_take_gpu_pointers() {
    finds_that_gpu_pointers_are_not_taken(&OPEN_MPI);
}

#[test]
#[ignore = "needs MPICH"]
fn mpich_does_not_take_gpu_pointers() {
    finds_that_gpu_pointers_are_not_taken(&MPICH);
}

/// Resident memory of a process that has messages of 32 MiB in hand: it has filled a buffer.
const BUSY: u64 = 64 << 10;

/// The child that is rank 1, once it exchanges messages.
fn rank_1(launcher: u32) -> Option<Pid> {
    let is_below = |process: u32| {
        let parent = |process: u32| -> Option<u32> {
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            line.trim().parse().ok().filter(|parent| *parent > 1)
        };
        std::iter::successors(Some(process), |process| parent(*process))
            .any(|above| above == launcher)
    };
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_rank = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        line.contains("__probe")
            && line.contains("\"rank\":1,")
            && kilobytes.is_some_and(|kilobytes| kilobytes > BUSY)
            && is_below(*process)
    };
    let found = numbers.filter(|process| is_rank(process)).min()?;
    Pid::from_raw(i32::try_from(found).ok()?)
}

/// Rank 1 dies or stops in the middle: rank 0 says so within 5 s.
fn reports_rank_that(signal: Signal, mpi: &Mpi) {
    let _alone = alone();
    let mut command = mpi.command(2, &["--size", "32MiB", "--format", "json"]);
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut full = Command::new("timeout");
    full.args(arguments.iter().map(|argument| {
        if argument == "--quick" { "--full".as_ref() } else { argument.as_os_str() }
    }));
    prepare(&mut full);
    command = full;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a launcher");
    let begun = Instant::now();
    let rank = loop {
        assert!(begun.elapsed() < Duration::from_secs(50), "rank 1 does not begin");
        if let Some(rank) = rank_1(child.id()) {
            break rank;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    kill_process(rank, signal).expect("a signal");
    let killed = Instant::now();
    let output = child.wait_with_output().expect("an end");
    // Rank 0 waits for 4 s and the time of its messages, and the launcher ends the others.
    assert!(killed.elapsed() < Duration::from_secs(12), "{:?}", killed.elapsed());
    let report = report(&output);
    let [found] = named(&report, "mpi")[..] else {
        panic!("{report:#}");
    };
    let reason = found["reason"].as_str().expect("a reason");
    assert!(reason.contains("rank 1"), "{reason}");
    assert_ne!(output.status.code(), Some(0));
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi_reports_rank_that_dies() {
    reports_rank_that(Signal::KILL, &OPEN_MPI);
}

#[test]
#[ignore = "needs MPICH"]
fn mpich_reports_rank_that_dies() {
    reports_rank_that(Signal::KILL, &MPICH);
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi_reports_rank_that_stops() {
    reports_rank_that(Signal::STOP, &OPEN_MPI);
}

/// A launcher "on another host" is a program that runs the command there under another host name.
fn measures_between_hosts(mpi: &Mpi, options: &[&str]) {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let shell = directory.path().join("shell");
    let script = "#!/bin/bash\n[ \"$1\" = -x ] && shift\nhost=$1\nshift\nexec unshare --uts bash -c \"hostname $host; $*\"\n";
    fs::write(&shell, script).expect("a script");
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("its mode");
    let options: Vec<String> =
        options.iter().map(|option| option.replace("SHELL", path(&shell))).collect();
    let line = format!(
        "hostname host-a; exec timeout 60 {} {} -n 3 {GDR} probe mpi --quick {}",
        mpi.launcher,
        options.join(" "),
        ARGUMENTS.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["--uts", "bash", "-c", &line]);
    prepare(&mut command);
    let output = command.output().expect("unshare");
    let report = report(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["mpi"]["hosts"], 2, "{report:#}");
    let latencies = named(&report, "mpi.host.latency");
    let subjects: Vec<_> =
        latencies.iter().filter_map(|result| result["subject"].as_str()).collect();
    let count = |place: &str| subjects.iter().filter(|subject| subject.ends_with(place)).count();
    assert_eq!((count("(same host)"), count("(host-a to host-b)")), (4, 4), "{subjects:?}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
#[ignore = "needs Open MPI and root"]
fn open_mpi_measures_between_hosts() {
    measures_between_hosts(
        &OPEN_MPI,
        &[
            "--mca plm_rsh_agent SHELL --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo",
            "--host host-a:2,host-b:1",
        ],
    );
}

/// Simulated GPU memory is not for an MPI library.
#[test]
#[ignore = "needs MPICH"]
fn simulation_needs_no_launcher() {
    let output = MPICH.run(2, &["--sim"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("start it without a launcher"), "{text}");
    assert_ne!(output.status.code(), Some(0));
}

/// A library of another launcher starts each process alone.
#[test]
#[ignore = "needs Open MPI and MPICH"]
fn library_of_another_launcher_is_an_error() {
    let _alone = alone();
    let output = MPICH.run(2, &["--mpi", "libmpi.so.40"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("belongs to another launcher"), "{text}");
    assert_ne!(output.status.code(), Some(0));
}

/// Without a launcher only the library is judged.
#[test]
#[ignore = "needs MPICH"]
fn one_process_judges_the_library() {
    let run = gdr(&["probe", "mpi", "--mpi", "libmpich.so.12", "--format", "json"]);
    run.assert_code(0);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["mpi"]["abi"], "mpich");
    assert!(run.stdout.contains("One process: "), "{}", run.stdout);
    assert_eq!(named(&report, "validate.mpi.self").len(), 1);
}

#[test]
fn missing_library_is_an_error() {
    let run = gdr(&["probe", "mpi", "--mpi", "/nowhere/libmpi.so"]);
    run.assert_code(1);
    run.assert_stdout("/nowhere/libmpi.so");
}
