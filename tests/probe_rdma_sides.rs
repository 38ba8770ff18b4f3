//! `gdr probe rdma` on two sides: they meet, and whatever ends one of them ends the other soon, with the reason on both. The
//! cards are simulated, each in its own process: nothing moves between them, which is a failure that both must tell.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fake_nvml_build::verbs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Gdr, merge};
use tempfile::TempDir;

/// How long the other side may take to end.
const SOON: Duration = Duration::from_secs(5);
const OPTIONS: [&str; 7] = ["--memory", "host", "--device", "mlx5_0", "--quick", "--size", "4096"];

/// One side, which ends with the test.
struct Side {
    child: Child,
    err: BufReader<std::process::ChildStderr>,
    _directory: TempDir,
}

/// What a side printed, and its exit code.
struct Ended {
    out: String,
    err: String,
    code: i32,
}

impl Side {
    fn start(patch: &Value, environment: &[(&str, &str)], options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("verbs.json");
        let text = fs::read_to_string(verbs::machine("two")).expect("a machine");
        let mut machine: Value = serde_json::from_str(&text).expect("JSON");
        merge(&mut machine, patch);
        fs::write(&file, machine.to_string()).expect("a file");
        let library = verbs::build().expect("the simulated library");
        let gdr = verbs::environment(&library, &file)
            .into_iter()
            .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
        let gdr = environment.iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value));
        let mut command = gdr.args(["probe", "rdma"]).args(OPTIONS).args(options).command();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        Self {
            child,
            err,
            _directory: directory,
        }
    }

    /// One that listens, and where.
    fn listening(patch: &Value, options: &[&str]) -> (Self, String) {
        let mut side = Self::start(patch, &[], &[&["--listen", "127.0.0.1:0"], options].concat());
        let mut line = String::new();
        side.err.read_line(&mut line).expect("text");
        let address = line
            .strip_prefix("gdr: listening at ")
            .and_then(|rest| rest.split(": ").next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        (side, address)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// The child that touches the card.
    fn inner(&self) -> Option<Pid> {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(path).expect("a process");
        children
            .split_whitespace()
            .next()
            .and_then(|pid| Pid::from_raw(pid.parse().ok()?))
    }

    fn end(mut self) -> Ended {
        let (mut out, mut err) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .expect("a pipe")
            .read_to_string(&mut out)
            .expect("text");
        self.err.read_to_string(&mut err).expect("text");
        let status = self.child.wait().expect("a status");
        assert!(!err.contains("panicked"), "{err}");
        Ended {
            out: out.split_whitespace().collect::<Vec<_>>().join(" "),
            err,
            code: status.code().unwrap_or(-1),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests vanish: both sides wait for a long time.
fn stuck() -> Value {
    json!({"verbs": {"swallow": 1}})
}

const LONG: [&str; 2] = ["--library-timeout", "600"];

/// Two sides in the middle of their work: the one that listens first.
fn at_work() -> (Side, Side) {
    let (listens, address) = Side::listening(&stuck(), &LONG);
    let leads = Side::start(&stuck(), &[], &[&LONG[..], &[address.as_str()]].concat());
    let until = Instant::now() + Duration::from_secs(60);
    for side in [&listens, &leads] {
        while side.inner().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // Their ends open, and join.
    std::thread::sleep(Duration::from_secs(3));
    (listens, leads)
}

#[test]
fn ctrl_c_at_either_side_ends_both_soon_and_both_say_why() {
    for first in [true, false] {
        let (listens, leads) = at_work();
        let (pressed, other) = if first { (listens, leads) } else { (leads, listens) };
        pressed.signal(Signal::INT);
        let begun = Instant::now();
        let (pressed, other) = (pressed.end(), other.end());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(pressed.code, 3, "{} {}", pressed.out, pressed.err);
        assert!(pressed.out.contains("Interrupted"), "{}", pressed.out);
        assert_eq!(other.code, 1, "{} {}", other.out, other.err);
        assert!(other.out.contains("it was interrupted"), "{}", other.out);
    }
}

#[test]
fn a_side_that_is_killed_ends_the_other_soon() {
    for first in [true, false] {
        let (listens, leads) = at_work();
        let (killed, other) = if first { (listens, leads) } else { (leads, listens) };
        killed.signal(Signal::KILL);
        let begun = Instant::now();
        let other = other.end();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(other.code, 1, "{} {}", other.out, other.err);
        assert!(
            other.out.contains("is gone: it closed the connection without a word"),
            "{}",
            other.out
        );
    }
}

#[test]
fn a_child_that_crashes_at_one_side_is_told_at_both() {
    for first in [true, false] {
        let (listens, leads) = at_work();
        let inner = if first { listens.inner() } else { leads.inner() };
        kill_process(inner.expect("a child"), Signal::KILL).expect("it runs");
        let begun = Instant::now();
        let (listens, leads) = (listens.end(), leads.end());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        for side in [&listens, &leads] {
            assert_eq!(side.code, 1, "{} {}", side.out, side.err);
            assert!(side.out.contains("ended (signal: 9 (SIGKILL)"), "{}", side.out);
        }
    }
}

#[test]
fn who_is_no_gdr_is_turned_away_and_the_one_that_comes_next_is_served() {
    let (listens, address) = Side::listening(&json!({}), &[]);
    let mut stranger = TcpStream::connect(&address).expect("a listener");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("it is no gdr"), "{answer}");
    let leads = Side::start(&json!({}), &[], &[address.as_str()]).end();
    let listens = listens.end();
    assert!(listens.err.contains("turned away 127.0.0.1"), "{}", listens.err);
    // Nothing moves between two simulated cards of two processes.
    for side in [&leads, &listens] {
        assert_eq!(side.code, 1, "{} {}", side.out, side.err);
    }
    assert!(leads.out.contains("a request to the card failed: "), "{}", leads.out);
    assert!(listens.out.contains("the other end failed: "), "{}", listens.out);
}

#[test]
fn another_protocol_and_a_listener_that_is_none_are_told() {
    let (listens, address) = Side::listening(&json!({}), &[]);
    let mut stranger = TcpStream::connect(&address).expect("a listener");
    stranger
        .write_all(b"{\"gdr_rendezvous\":99,\"version\":\"9.9\",\"capabilities\":[]}\n")
        .expect("written");
    let listens = listens.end();
    assert_eq!(listens.code, 1, "{} {}", listens.out, listens.err);
    assert!(
        listens.out.contains("gdr 9.9") && listens.out.contains("use the same version of gdr on both sides"),
        "{}",
        listens.out
    );

    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("somebody");
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").expect("written");
        std::thread::sleep(Duration::from_secs(5));
    });
    let connects = Side::start(&json!({}), &[], &[address.as_str()]).end();
    assert_eq!(connects.code, 1, "{} {}", connects.out, connects.err);
    assert!(
        connects.out.contains("is no gdr that waits for a peer"),
        "{}",
        connects.out
    );
}

#[test]
fn two_processes_of_a_launcher_meet_without_being_told_where() {
    let meets = |environments: [&[(&str, &str)]; 2], options: &[&str]| {
        let sides = environments.map(|environment| Side::start(&json!({}), environment, options));
        for ended in sides.map(Side::end) {
            // They met, and found that nothing moves.
            assert_eq!(ended.code, 1, "{} {}", ended.out, ended.err);
            let told =
                ended.out.contains("a request to the card failed: ") || ended.out.contains("the other end failed: ");
            assert!(told, "{} {}", ended.out, ended.err);
        }
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let job = (std::process::id() % 9000 + 1000).to_string();
    let slurm = |rank| {
        [
            ("SLURM_PROCID", rank),
            ("SLURM_NTASKS", "2"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_JOB_ID", job.as_str()),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", host.trim()),
        ]
    };
    if resolves(host.trim()) {
        meets([&slurm("0"), &slurm("1")], &[]);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("meeting");
    let file = file.to_str().expect("a name");
    if resolves(host.trim()) {
        let mpi = |rank| [("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", "2")];
        meets([&mpi("0"), &mpi("1")], &["--rendezvous", file]);
        assert!(!Path::new(file).exists(), "the file is taken away again");
    }
}

/// Whether the machine finds itself by its name, which a small container does not.
fn resolves(host: &str) -> bool {
    use std::net::ToSocketAddrs as _;
    (host, 1).to_socket_addrs().is_ok()
}
