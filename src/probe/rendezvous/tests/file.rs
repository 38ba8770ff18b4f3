//! Tests of rendezvous files and stale files.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::super::{LaunchedProcess, Launcher, RendezvousFile, connect_by_file};
use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn meet(
    path: &Path,
    rank: u32,
    job: Option<&str>,
    within: Duration,
) -> (Result<Text, Error>, Vec<String>) {
    let mut notes = Vec::new();
    let link = connect_by_file(path, (rank, job), HERE, None, &conditions(within), &mut |note| {
        notes.push(note)
    });
    (link, notes)
}

/// Connects both ranks, rank 1 earlier by this time. Returns the notes of rank 1.
fn both(path: &Path, job: Option<&'static str>, first_by: Duration) -> Vec<String> {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| meet(path, 1, job, GENEROUS));
        std::thread::sleep(first_by);
        let (first, _) = meet(path, 0, job, GENEROUS);
        let (second, notes) = second.join().expect("a thread");
        let (first, second) = (first.expect("rank 0"), second.expect("rank 1"));
        first.send(&word("met")).expect("sent");
        assert_eq!(second.receive(soon()), Ok(word("met")));
        assert!(!path.exists(), "the file is taken away");
        notes
    })
}

#[test]
fn connects_in_any_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meet");
    let notes = both(&path, None, Duration::from_millis(300));
    assert!(notes.is_empty(), "a short wait is not reported: {notes:?}");
    both(&path, Some("prterun-a 17@1"), Duration::ZERO);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
}

#[test]
fn file_is_private_and_removed_without_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meet");
    let (error, (mode, text)) = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            meet(&path, 0, Some("job"), Duration::from_secs(1)).0.err().expect("no link")
        });
        while !path.exists() && !first.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        let content = (mode & 0o777, fs::read_to_string(&path).expect("text"));
        (first.join().expect("a thread"), content)
    });
    assert_eq!(mode, 0o600);
    let meeting = RendezvousFile::parse(&text).expect("a meeting");
    assert_eq!((meeting.host.as_str(), meeting.job.as_deref()), ("127.0.0.1", Some("job")));
    assert!(meeting.secret.is_some_and(|secret| !secret.is_none()));
    assert_eq!(text.split(' ').nth(2).map(str::len), Some(64));
    assert!(error.to_string().contains("rank 1 did not connect to 127.0.0.1:"), "{error}");
    assert!(
        error.to_string().contains("use a directory of this user that both machines see"),
        "{error}"
    );
    assert!(!path.exists());
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn ignores_stale_file() {
    let (held, free) = listener();
    drop(held);
    let line = |port: u16, job: &str| format!("127.0.0.1 {port} {} {job}\n", "08".repeat(32));
    // The port now belongs to a gdr of another run, or to another program.
    let (other_gdr, other_address) = listener();
    let other = std::thread::spawn(move || {
        other_gdr.accept::<TestMessage>(&conditions(Duration::from_secs(4)), &mut |_| {}).err()
    });
    let web = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let web_port = web.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = web.accept() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n");
        }
    });
    let cases = [
        (line(free.port(), "-"), "refused"),
        (line(free.port(), "another"), "it belongs to another run (another, not job)"),
        (line(other_address.port(), "-"), "the secrets differ"),
        (line(web_port, "job"), "web server"),
        ("half a li".to_owned(), "not written by this version of gdr"),
        (String::new(), "not written by this version of gdr"),
        ("127.0.0.1 1 - -\n".to_owned(), "rank 0 has a secret, and this process has none"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (text, expected) in cases {
        let path = folder.path().join("meet");
        fs::write(&path, &text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        let notes = both(&path, Some("job"), Duration::from_millis(500));
        assert!(notes.iter().any(|note| note.contains(expected)), "{text}: {notes:?}");
    }
    let error = other.join().expect("a thread").expect("no link");
    assert!(error.to_string().contains("its secret differs"), "{error}");
}

#[test]
fn reports_unusable_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |path: &Path, rank| {
        meet(path, rank, None, Duration::from_millis(400)).0.err().expect("no link").to_string()
    };
    let missing = folder.path().join("no/such/folder");
    assert!(error(&missing, 0).contains("it cannot be written"), "{}", error(&missing, 0));
    assert!(error(&missing, 1).contains("rank 0 has not written it"), "{}", error(&missing, 1));
    assert!(error(&missing, 2).contains("invalid rank 2"), "{}", error(&missing, 2));
    // A pipe does not block, and a directory is rejected.
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
    assert!(error(&pipe, 1).contains("not a regular file"), "{}", error(&pipe, 1));
    assert!(error(folder.path(), 1).contains("not a regular file"), "{}", error(folder.path(), 1));
    // The file replaces a symbolic link and does not write through it.
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "kept").expect("written");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    error(&link, 0);
    assert_eq!(fs::read_to_string(&target).expect("text"), "kept");
}

#[test]
fn parses_rendezvous_file() {
    let digits = "07".repeat(32);
    let good = &format!("node-1.example 40123 {digits} -\n");
    let meeting = RendezvousFile::parse(good).expect("a meeting");
    assert_eq!(
        (meeting.port, meeting.secret.clone(), meeting.job.clone(), meeting.text().as_str()),
        (40_123, Some(secret()), None, good.as_str())
    );
    let bad = [
        "node 1 abc -\n",
        "node 1 SECRET -",
        "node 0 SECRET -\n",
        "node 65536 SECRET -\n",
        "node 1 SECRET\n",
        "node  1 SECRET -\n",
        "node 1 SECRET - x\n",
        "no\u{1b}de 1 SECRET -\n",
        " 1 SECRET -\n",
        "\n",
        "node 1 SECRET -\nmore\n",
    ];
    for text in bad {
        assert_eq!(RendezvousFile::parse(&text.replace("SECRET", &digits)), None, "{text:?}");
    }
}

#[test]
fn launched_processes_connect_by_port_or_file() {
    let (held, free) = listener();
    drop(held);
    let place = |rank, host: Option<&str>| LaunchedProcess {
        launcher: Launcher::Slurm,
        rank,
        size: Some(2),
        host: host.map(str::to_owned),
        port: Some(free.port()),
        job: Some("slurm-7.0".to_owned()),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meet");
    let file = Some(path.as_path());
    // With a shared secret at the job's port or through a file; without one through a file only.
    let given = secret();
    for (host, file, given) in [
        (Some("localhost"), None, Some(&given)),
        (Some("localhost"), file, Some(&given)),
        (None, file, None),
    ] {
        std::thread::scope(|scope| {
            let second = scope.spawn(|| meet_place(&place(1, host), file, given));
            let first = meet_place(&place(0, host), file, given).expect("rank 0");
            let second = second.join().expect("a thread").expect("rank 1");
            assert_eq!(first.local().port() == free.port(), file.is_none());
            second.bye().expect("well");
            first.bye().expect("well");
        });
    }
    let four = LaunchedProcess { size: Some(4), ..place(0, None) };
    assert_eq!(meet_place(&four, None, None).err(), Some(Error::Size { size: 4 }));
}

fn meet_place(
    place: &LaunchedProcess,
    file: Option<&Path>,
    given: Option<&Secret>,
) -> Result<Text, Error> {
    super::super::meet(place, file, HERE, given, &conditions(GENEROUS), &mut |_| {})
}
