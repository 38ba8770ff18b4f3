//! `async.pingpong` of `gdr probe async`: two processes of the binary itself, over the software HCA, and what becomes of the one where the
//! other is stopped, killed or refused.

use std::fs;
use std::io::{BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::probe_async::MESSAGES;
use crate::support::Gdr;
use fakes::{Driver, cuda, verbs};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const SIM: [&str; 7] = ["probe", "async", "--sim", "--quick", "--hca", "sim", "--format"];
/// The end of every wait here.
const TIMEOUT: Duration = Duration::from_secs(120);

fn of<'a>(report: &'a Value, part: &str) -> Vec<&'a Value> {
    let results = report["results"].as_array().expect("results").iter();
    results
        .filter(|result| result["name"].as_str().is_some_and(|name| name.starts_with(part)))
        .collect()
}

/// The children of a process that live, with their command lines. Quick: the ping-pong takes a fraction of a second.
fn children(parent: u32) -> Vec<(u32, String)> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter();
    let lists = threads.flatten().flatten().filter_map(|thread| {
        // Each thread has the children that it started.
        fs::read_to_string(thread.path().join("children")).ok()
    });
    let lines = lists.flat_map(|list| {
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(|pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            // A zombie has none.
            (!line.is_empty()).then(|| (pid, String::from_utf8_lossy(&line).into_owned()))
        })
        .collect::<Vec<_>>()
    });
    lines.collect()
}

/// The keepers that gdr started, and their children.
fn processes(gdr: u32) -> Vec<(u32, String)> {
    let keepers = children(gdr);
    let kept: Vec<_> = keepers.iter().flat_map(|(pid, _)| children(*pid)).collect();
    [keepers, kept].concat()
}

/// Starts a probe, and waits until it has this side of the ping-pong; its process.
fn begun(which: &str, more: &[&str]) -> (Child, u32) {
    let child = Gdr::new()
        .args(more)
        .args(SIM)
        // Large messages, that there is time to do something.
        .args(["json", "--size", "32768"])
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    let mark = format!("\"pingpong\":\"{which}\"");
    let pid = loop {
        let found = processes(child.id());
        let is_it = |line: &str| line.contains(&mark) && !line.contains("__keep");
        if let Some((pid, _)) = found.iter().find(|(_, line)| is_it(line)) {
            break *pid;
        }
        assert!(begun.elapsed() < TIMEOUT, "there is no {which} process");
        std::thread::sleep(Duration::from_millis(1));
    };
    (child, pid)
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().expect("a process")).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

/// Its report and its exit status, as a shell sees it; nothing of it is left.
fn ended(mut child: Child, others: &[u32]) -> (Value, Option<i32>) {
    let begun = Instant::now();
    let mut text = String::new();
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_to_string(&mut text).expect("text");
    let status = child.wait().expect("it ends");
    assert!(begun.elapsed() < TIMEOUT);
    for pid in others {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
    let by_signal = status.signal().map(|signal| 128 + signal);
    (serde_json::from_str(&text).expect("JSON"), status.code().or(by_signal))
}

#[test]
fn transforms_messages_in_another_process() {
    let run = Gdr::new().args(SIM).args(["json", "--size", "4096"]).run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let found = of(&report, "async.pingpong");
    let names: Vec<_> = found.iter().map(|result| &result["name"]).collect();
    assert_eq!(names, ["async.pingpong.stream.latency", "async.pingpong.cpu.latency"]);
    for (result, messages) in found.iter().zip([MESSAGES, MESSAGES / 4]) {
        assert_eq!(
            (&result["backend"], &result["verdict"], &result["unit"]),
            (&"cuda-sim+sim-hca".into(), &"ok".into(), &"us".into()),
            "{result}"
        );
        // Every message was compared.
        assert_eq!(
            (&result["bytes"], &result["verified"]),
            (&4096.into(), &(messages * 4096).into())
        );
        let histogram = result["histogram"].as_array().expect("a histogram");
        let counted: u64 = histogram.iter().filter_map(|bucket| bucket["samples"].as_u64()).sum();
        assert_eq!(Some(counted), result["samples"].as_u64(), "{result}");
        assert!(counted > messages / 2 && result["median"].as_f64() > Some(0.0), "{result}");
    }
    assert_eq!(report["gpus"].as_array().map(Vec::len), Some(1));
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn reports_killed_child() {
    for delay in [0, 100] {
        let (child, far) = begun("remote", &[]);
        std::thread::sleep(Duration::from_millis(delay));
        signal(far, Signal::KILL);
        let (report, code) = ended(child, &[far]);
        assert_eq!(code, Some(1), "{report}");
        let near = of(&report, "async.pingpong");
        assert_eq!(near.len(), 1, "{near:?}");
        assert_eq!(
            (&near[0]["verdict"], &near[0]["required"]),
            (&"impossible".into(), &true.into())
        );
        assert!(near[0]["reason"].to_string().contains("the other end has ended"), "{}", near[0]);
        let far = of(&report, "run");
        assert!(far[0]["reason"].to_string().contains("signal: 9"), "{far:?}");
        assert_eq!(report["complete"], false);
        // What was measured before is there.
        assert_eq!(of(&report, "async.loopback").len(), 2);
    }
}

#[test]
fn child_exits_with_killed_parent() {
    let (child, near) = begun("local", &[]);
    std::thread::sleep(Duration::from_millis(50));
    let others: Vec<u32> = processes(child.id()).iter().map(|(pid, _)| *pid).collect();
    signal(near, Signal::KILL);
    let (report, code) = ended(child, &others);
    assert_eq!(code, Some(1), "{report}");
    let run = of(&report, "run");
    assert_eq!(run.len(), 1, "{run:?}");
    assert!(run[0]["reason"].to_string().contains("signal: 9"), "{run:?}");
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn stopped_child_times_out() {
    let (child, far) = begun("remote", &["--library-timeout", "2"]);
    std::thread::sleep(Duration::from_millis(50));
    signal(far, Signal::STOP);
    let (report, code) = ended(child, &[far]);
    // A failure that the near one tells, or a hang of both.
    assert!(code == Some(1) || code == Some(3), "{report}");
    let told = of(&report, "async.pingpong");
    let hung = report["notes"].to_string().contains("gave up after waiting");
    assert!(hung || told.iter().all(|result| result["verdict"] == "impossible"), "{report}");
    assert!(hung || told.len() == 1, "{report}");
}

#[test]
fn interrupt_leaves_no_process() {
    let (child, _) = begun("remote", &[]);
    std::thread::sleep(Duration::from_millis(50));
    let others: Vec<u32> = processes(child.id()).iter().map(|(pid, _)| *pid).collect();
    assert!(!others.is_empty());
    signal(child.id(), Signal::INT);
    let (report, code) = ended(child, &others);
    assert_eq!(code, Some(130), "{report}");
    assert_eq!(report["complete"], false);
    let notes = report["notes"].to_string();
    assert_eq!(notes.matches("Interrupted").count(), 1, "{notes}");
    assert!(of(&report, "async.pingpong").is_empty(), "{report}");
}

#[test]
fn simulated_nics_cannot_connect() {
    let library = verbs::build().expect("the simulated libibverbs");
    let environment = verbs::environment(&library, &verbs::machine("two"));
    let gdr = Gdr::new()
        .args(["probe", "async", "--sim", "--quick", "--hca", "proxy", "--format", "json"]);
    let run = environment.into_iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value)).run();
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let found = of(&report, "async.pingpong");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["verdict"], &found[0]["required"]),
        (&"impossible".into(), &false.into())
    );
    let why = found[0]["reason"].to_string();
    assert!(
        why.contains("a message to another process that has the same HCA does not arrive"),
        "{why}"
    );
}

/// One child alone, whose other side is this test.
struct Alone {
    child: Child,
    lines: BufReader<UnixStream>,
}

impl Alone {
    fn new(task: &Value, environment: &[(&str, std::ffi::OsString)]) -> Self {
        let (ours, its) = UnixStream::pair().expect("a pair");
        let (messages, _) = UnixStream::pair().expect("a pair");
        let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [messages.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&ours, &[IoSlice::new(b"+")], &mut control, SendFlags::empty()).expect("sent");
        ours.set_read_timeout(Some(TIMEOUT)).expect("a limit");
        let gdr = Gdr::new().args(["__probe".to_owned(), json!({ "async": task }).to_string()]);
        let child = environment
            .iter()
            .fold(gdr, |gdr, (name, value)| gdr.env(name, value))
            .command()
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(ours);
        Self { child, lines }
    }

    fn says(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// What it told the parent.
    fn told(mut self) -> String {
        let mut text = String::new();
        let mut pipe = self.child.stdout.take().expect("a pipe");
        pipe.read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        text
    }
}

fn task(which: &str, ordinal: Option<u32>) -> Value {
    json!({
        "target": {"subject": "GPU0", "ordinal": ordinal, "bdf": null, "home": null, "link": null},
        "card": "sim",
        "terms": {"depth": "quick", "sizes": [], "shares": {}, "timeout": {"secs": 1, "nanos": 0}},
        "pingpong": which,
    })
}

#[test]
fn reports_exclusive_gpu() {
    let directory = tempfile::tempdir().expect("a directory");
    let machine = directory.path().join("exclusive.json");
    // CUDA_ERROR_DEVICE_UNAVAILABLE of cuda.h: what exclusive mode answers the second.
    let exclusive = json!({
        "gpu": {"name": "NVIDIA H200", "memory": 1 << 30},
        "gpus": [{"errors": {"cuDevicePrimaryCtxRetain": 46}}],
    });
    fs::write(&machine, exclusive.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated libcuda");
    let environment = cuda::environment(&library, &machine);
    // The far one leaves it to the near one.
    let mut far = Alone::new(&task("remote", Some(0)), &environment);
    let said = far.says()["failed"].to_string();
    assert!(said.contains("nvidia-smi --query-gpu=compute_mode"), "{said}");
    assert!(!far.told().contains("impossible"));
    // Which tells what either of them met.
    let near = Alone::new(&task("local", Some(0)), &environment);
    let told = near.told();
    assert!(told.contains("async.pingpong") && told.contains("exclusive compute mode"), "{told}");
    let mut near = Alone::new(&task("local", None), &[]);
    assert_eq!(near.says(), "ready");
    let line = json!({ "failed": said });
    near.lines.get_mut().write_all(format!("{line}\n").as_bytes()).expect("written");
    let told = near.told();
    assert!(
        told.contains("the other end failed") && told.contains("exclusive compute mode"),
        "{told}"
    );
}

#[test]
fn child_without_peer_exits() {
    for which in ["local", "remote"] {
        let mut alone = Alone::new(&task(which, None), &[]);
        assert_eq!(alone.says(), "ready");
        // It hears the end.
        alone.lines.get_ref().shutdown(std::net::Shutdown::Both).expect("shut");
        let told = alone.told();
        assert_eq!(told.contains("the other end has ended"), which == "local", "{told}");
        assert!(told.trim_end().ends_with("\"end\""), "{told}");
    }
}
