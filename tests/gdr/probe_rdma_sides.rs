//! `gdr probe rdma` on two sides: they meet, and whatever ends one of them ends the other soon, with the reason on both. The
//! NICs are simulated, each in its own process: nothing moves between them, which is a failure that both must tell.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::support::{Invitation, Side};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

/// How long the other side may take to end.
const SOON: Duration = Duration::from_secs(5);

/// Requests vanish: both sides wait for a long time.
fn stuck() -> Value {
    json!({"verbs": {"swallow": 1}})
}

const LONG: [&str; 2] = ["--library-timeout", "600"];

/// Two sides in the middle of their work: the one that listens first.
fn at_work() -> (Side, Side) {
    let (listens, invitation) = Side::listening(&stuck(), &LONG);
    let leads = Side::invited(&invitation, &stuck(), &LONG);
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
#[ignore = "slow: waits for timeouts"]
fn interrupt_ends_both_ends() {
    for first in [true, false] {
        let (listens, leads) = at_work();
        let (pressed, other) = if first { (listens, leads) } else { (leads, listens) };
        pressed.signal(Signal::INT);
        let begun = Instant::now();
        let (pressed, other) = (pressed.end(), other.end());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(pressed.code, 130, "{} {}", pressed.out, pressed.err);
        assert!(pressed.out.contains("Interrupted"), "{}", pressed.out);
        assert_eq!(other.code, 1, "{} {}", other.out, other.err);
        assert!(other.out.contains("it was interrupted"), "{}", other.out);
    }
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn killed_end_stops_other() {
    for first in [true, false] {
        let (listens, leads) = at_work();
        let (killed, other) = if first { (listens, leads) } else { (leads, listens) };
        killed.signal(Signal::KILL);
        let begun = Instant::now();
        let other = other.end();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(other.code, 1, "{} {}", other.out, other.err);
        // What the killed one had not read makes the system reset the connection.
        let is_told = ["it closed the connection without a reason", "Connection reset"]
            .iter()
            .any(|why| other.out.contains(&format!("disconnected: {why}")));
        assert!(is_told, "{}", other.out);
    }
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn both_ends_report_crash() {
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
fn serves_after_invalid_client() {
    let (listens, invitation) = Side::listening(&json!({}), &[]);
    for stranger in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"gdr_rendezvous\":99}\n"] {
        let mut stream = TcpStream::connect(&invitation.address).expect("a listener");
        stream.write_all(stranger).expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert_eq!(answer, b"gdrn\0\0\0\x05");
    }
    let wrong = Invitation { secret: "1".repeat(64), address: invitation.address.clone() };
    let wrong = Side::invited(&wrong, &json!({}), &[]).end();
    assert_eq!(wrong.code, 1, "{} {}", wrong.out, wrong.err);
    assert!(wrong.out.contains("rejected this client: the secrets differ"), "{}", wrong.out);
    let leads = Side::invited(&invitation, &json!({}), &[]).end();
    let listens = listens.end();
    assert!(listens.err.contains("rejected 127.0.0.1"), "{}", listens.err);
    // Nothing moves between two simulated NICs of two processes.
    for side in [&leads, &listens] {
        assert_eq!(side.code, 1, "{} {}", side.out, side.err);
    }
    assert!(leads.out.contains("a request to the NIC failed: "), "{}", leads.out);
    assert!(listens.out.contains("the other end failed: "), "{}", listens.out);
}

#[test]
fn reports_foreign_listener() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("somebody");
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").expect("written");
        std::thread::sleep(Duration::from_secs(5));
    });
    let invitation = Invitation { secret: "1".repeat(64), address };
    let connects = Side::invited(&invitation, &json!({}), &[]).end();
    assert_eq!(connects.code, 1, "{} {}", connects.out, connects.err);
    assert!(connects.out.contains("is not a listening gdr"), "{}", connects.out);
}

#[test]
fn launcher_processes_connect() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let meets = |environments: [&[(&str, &str)]; 2], options: &[&str]| {
        let sides = environments
            .map(|environment| Side::start_in(directory.path(), &json!({}), environment, options));
        for ended in sides.map(Side::end) {
            // They met, and found that nothing moves.
            assert_eq!(ended.code, 1, "{} {}", ended.out, ended.err);
            let told = ended.out.contains("a request to the NIC failed: ")
                || ended.out.contains("the other end failed: ");
            assert!(told, "{} {}", ended.out, ended.err);
        }
        let left = fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(left, 0, "the file is taken away again");
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    if !resolves(host.trim()) {
        return;
    }
    let job = (std::process::id() % 9000 + 1000).to_string();
    let slurm = |rank| {
        vec![
            ("SLURM_PROCID", rank),
            ("SLURM_NTASKS", "2"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_JOB_ID", job.as_str()),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", host.trim()),
        ]
    };
    // By a file in the directory that they were started in.
    meets([&slurm("0"), &slurm("1")], &[]);
    // With a secret in the job's environment, at the job's own port.
    let secret = "5a".repeat(32);
    let given = |rank| [slurm(rank), vec![("GDR_PROBE_SECRET", secret.as_str())]].concat();
    meets([&given("0"), &given("1")], &[]);
    let file = directory.path().join("meeting");
    let file = file.to_str().expect("a name");
    let mpi = |rank| [("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", "2")];
    meets([&mpi("0"), &mpi("1")], &["--rendezvous", file]);
}

/// Whether the machine finds itself by its name, which a small container does not.
fn resolves(host: &str) -> bool {
    use std::net::ToSocketAddrs as _;
    (host, 1).to_socket_addrs().is_ok()
}

/// What a process was started with.
fn of_process(id: u32, what: &str) -> String {
    let bytes = fs::read(format!("/proc/{id}/{what}")).expect("a process");
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[test]
fn secret_stays_in_parent() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("secret");
    let secret = "5a".repeat(32);
    fs::write(&file, format!("{secret}\n")).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    let by_file = ["--secret-file", file.to_str().expect("a name")];
    let by_variable = [("GDR_PROBE_SECRET", secret.as_str())];
    let options = [&LONG[..], &["--listen", "127.0.0.1:0"]].concat();
    let mut listens = Side::start(&stuck(), &[], &[&options[..], &by_file].concat());
    let line = listens.line();
    assert!(line.contains("with the same secret in GDR_PROBE_SECRET or --secret-file"), "{line}");
    let line = listens.line();
    let address = line.strip_prefix("gdr: gdr probe rdma ").expect("a command");
    // The variable counts where no file is named.
    let leads = Side::start(&stuck(), &by_variable, &[&LONG[..], &[address]].concat());
    let until = Instant::now() + Duration::from_secs(60);
    for side in [&listens, &leads] {
        // Until it executes its program, a child has its parent's memory, arguments and environment included.
        let inner = loop {
            let child = side.inner().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
            if let Some(child) = child
                && of_process(child, "cmdline") != of_process(side.id(), "cmdline")
            {
                break child;
            }
            assert!(Instant::now() < until, "no child");
            std::thread::sleep(Duration::from_millis(20));
        };
        for id in [side.id(), inner] {
            assert!(!of_process(id, "cmdline").contains(&secret));
        }
        assert!(!of_process(inner, "environ").contains("GDR_PROBE_SECRET"));
    }
}

#[test]
fn opens_nic_after_connection() {
    let (listens, invitation) = Side::listening(&json!({}), &[]);
    let mut strangers = Vec::new();
    for number in 0..50 {
        assert_eq!(listens.inner(), None);
        let mut stream = TcpStream::connect(&invitation.address).expect("a listener");
        stream.write_all(&b"gdrc\0\0\0\x03garbage"[..number % 15]).expect("written");
        strangers.push(stream);
    }
    assert_eq!(listens.inner(), None);
    let begun = Instant::now();
    let leads = Side::invited(&invitation, &json!({}), &[]).end();
    assert_eq!(leads.code, 1, "{} {}", leads.out, leads.err);
    assert!(leads.out.contains("a request to the NIC failed: "), "{}", leads.out);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    drop(strangers);
}

#[test]
fn default_secret_is_per_machine() {
    let mut listens = Side::start(&json!({}), &[], &["--no-secret", "--listen", "127.0.0.1:0"]);
    let line = listens.line();
    assert!(line.contains("any user of this machine can connect"), "{line}");
    let line = listens.line();
    let address = line.strip_prefix("gdr: gdr probe rdma --no-secret ").expect("a command");
    let leads = Side::start(&json!({}), &[], &["--no-secret", address]).end();
    assert!(leads.out.contains("a request to the NIC failed: "), "{} {}", leads.out, leads.err);
    assert!(listens.end().out.contains("the other end failed: "));

    for options in [
        &["--no-secret", "--listen", "0.0.0.0"][..],
        &["--no-secret", "--listen", "[::]:1"],
        &["--no-secret", "--listen", "192.0.2.1"],
    ] {
        let refused = Side::start(&json!({}), &[], options).end();
        assert_eq!(refused.code, 2, "{} {}", refused.out, refused.err);
        assert!(refused.err.contains("--no-secret needs a loopback address"), "{}", refused.err);
    }
    let refused = Side::start(&json!({}), &[], &["--no-secret", "192.0.2.1"]).end();
    assert_eq!(refused.code, 1, "{} {}", refused.out, refused.err);
    assert!(refused.out.contains("192.0.2.1:18516 is not one"), "{}", refused.out);
}

#[test]
fn reports_invalid_and_missing_secret() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("secret");
    fs::write(&file, "5a".repeat(32)).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let path = file.to_str().expect("a name");
    let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
    for (environment, options, expected) in [
        (&[][..], &["127.0.0.1"][..], "run the command that --listen printed there"),
        (
            &[("GDR_PROBE_SECRET", "")],
            &["127.0.0.1"],
            "run the command that --listen printed there",
        ),
        (
            &[("GDR_PROBE_SECRET", "swordfish")],
            &["127.0.0.1"],
            "the environment variable GDR_PROBE_SECRET has no valid secret: a secret is 64 hexadecimal digits",
        ),
        (
            &[],
            &["--listen", "--secret-file", path],
            "its mode is 0644, and group or others have rights",
        ),
        (&[], &["127.0.0.1", "--secret-file", "/nowhere/secret"], "/nowhere/secret is not used"),
        (&[], &["--secret-file", path], "add HOST, --listen or --rendezvous"),
        (&[], &["--no-secret"], "add HOST, --listen or --rendezvous"),
        (&mpi, &["--no-secret"], "the processes of a launcher need a secret"),
    ] {
        let ended = Side::start(&json!({}), environment, options).end();
        assert_eq!(ended.code, 2, "{options:?}: {} {}", ended.out, ended.err);
        let err = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(err.contains(expected), "{options:?}: {err}");
        assert!(!err.contains("swordfish"), "{err}");
    }
}
