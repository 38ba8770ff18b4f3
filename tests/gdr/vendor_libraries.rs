//! Vendor libraries that hang, crash, print, kill and fork: gdr ends in time, says what the library did, and leaves no process.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Gdr, Run, fake_cuda, gdr};

/// A cuInit that does what a variable names. The forked processes have sessions of their own.
const BODY: &str = r#"
    unsafe extern "C" {
        fn fork() -> i32;
        fn setsid() -> i32;
        fn kill(pid: i32, signal: i32) -> i32;
        fn getppid() -> i32;
        fn exit(code: i32) -> !;
        fn write(file: i32, bytes: *const u8, count: usize) -> isize;
    }
    let sleep = || loop { std::thread::sleep(std::time::Duration::from_secs(600)) };
    let print = |file, count| {
        let bytes = vec![b'x'; 1 << 20];
        for _ in 0..count {
            unsafe { write(file, bytes.as_ptr(), bytes.len()) };
        }
    };
    let forks = || {
        for _ in 0..12 {
            if unsafe { fork() } == 0 {
                unsafe { setsid() };
                sleep();
            }
        }
    };
    // Their parent ends before them.
    let forks_twice = || {
        if unsafe { fork() } == 0 {
            forks();
            unsafe { exit(0) };
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    match std::env::var("GDR_TEST_DOES").unwrap_or_default().as_str() {
        "hangs" => sleep(),
        "forks" => forks(),
        "forks and hangs" => {
            forks();
            sleep();
        }
        "crashes" => std::process::abort(),
        "exits" => unsafe { exit(7) },
        "kills its parent" => {
            unsafe { kill(getppid(), 9) };
            sleep();
        }
        "forks and kills its parent" => {
            forks_twice();
            unsafe { kill(getppid(), 9) };
            sleep();
        }
        "forks and aborts its parent" => {
            forks_twice();
            unsafe { kill(getppid(), 6) };
            sleep();
        }
        "forks and stops its parent" => {
            forks_twice();
            unsafe { kill(getppid(), 19) };
            sleep();
        }
        "kills its group" => {
            unsafe { kill(0, 9) };
        }
        "stops its group" => {
            unsafe { kill(0, 19) };
        }
        "prints" => print(1, 1024),
        "writes everywhere" => (3..12).for_each(|file| print(file, 17)),
        _ => {}
    }
    100
"#;

/// What the process IDs of a run have in their environment.
const MARK: &str = "GDR_TEST_MARK";

/// The processes of a run that live.
fn left(mark: &str) -> Vec<String> {
    let marked = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lives = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == marked.as_bytes()) && !stat.contains(") Z ")
    };
    processes
        .map(|process| process.path())
        .filter(|path| lives(path))
        .map(|path| path.display().to_string())
        .collect()
}

/// Runs gdr with a library that does this; fails if a process is left.
fn with(directory: &Path, does: &str, args: &[&str]) -> Run {
    let mark = format!("{}-{}", std::process::id(), does.replace(' ', "-"));
    let begun = Instant::now();
    let run = Gdr::new()
        .args(["--library-timeout", "1"])
        .args(args)
        .env("LD_LIBRARY_PATH", directory)
        .env("GDR_TEST_DOES", does)
        .env(MARK, &mark)
        .run();
    assert!(begun.elapsed() < Duration::from_secs(20), "{does}");
    // What was killed ends when the machine has time for it.
    let ended = Instant::now();
    let mut living = left(&mark);
    while !living.is_empty() && ended.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
        living = left(&mark);
    }
    assert!(living.is_empty(), "{does}: {living:?}");
    run
}

fn library() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fake_cuda(directory.path(), BODY);
    directory
}

#[test]
fn doctor_says_what_a_library_did_and_leaves_no_process() {
    let directory = library();
    let nothing = ("skip", "No vendor library that is installed hangs");
    let cases = [
        ("hangs", ("unknown", "did not answer within 1 s and was stopped")),
        ("forks and hangs", ("unknown", "did not answer within 1 s and was stopped")),
        ("stops its group", ("unknown", "did not answer within 1 s and was stopped")),
        (
            "crashes",
            ("warn", "libcuda.so.1 crashed the process that reads it (signal: 6 (SIGABRT)"),
        ),
        ("exits", ("warn", "ended the process that reads it, without an answer (exit status: 7)")),
        ("kills its parent", ("warn", "killed the process that reads it (signal: 9 (SIGKILL))")),
        (
            "forks and kills its parent",
            ("warn", "libcuda.so.1, or a lack of memory, killed the process that reads it"),
        ),
        ("forks and aborts its parent", ("warn", "crashed the process that reads it (signal: 6")),
        ("forks and stops its parent", ("unknown", "did not answer within 1 s and was stopped")),
        ("kills its group", ("warn", "killed the process that reads it (signal: 9 (SIGKILL))")),
        ("writes everywhere", ("warn", "wrote more than 16 MiB into the answer")),
        // CUDA_ERROR_NO_DEVICE is an answer.
        ("prints", nothing),
        ("forks", nothing),
    ];
    for (does, (outcome, words)) in cases {
        let run = with(directory.path(), does, &["doctor", "--format", "json"]);
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{does}: {error}: {} {}", run.code, run.stderr));
        let findings = report["findings"].as_array().expect("findings");
        let of = |id: &str| findings.iter().find(|finding| finding["id"] == id);
        let found = of("sw.libraries").expect("the check");
        assert_eq!(found["outcome"], outcome, "{does}: {found}");
        let message = found["message"].as_str().expect("text");
        assert!(message.contains(words), "{does}: {message}");
        let toolkit = of("sw.toolkit").expect("the check").to_string();
        assert!(!toolkit.contains("finds no libcuda"), "{does}: {toolkit}");
    }
    let table = with(directory.path(), "crashes", &["doctor"]);
    table.assert_stdout("sw.libraries");
}

#[test]
fn a_probe_survives_a_library_that_kills_its_parent() {
    let directory = library();
    for does in ["forks and hangs", "kills its parent", "forks and kills its parent"] {
        let run = with(directory.path(), does, &["probe", "copy", "--format", "json"]);
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{does}: {error}: {} {}", run.code, run.stderr));
        let what = report.to_string();
        assert!(what.contains("libcuda.so.1 to start (cuInit)"), "{what}");
        assert_ne!(run.code, 0, "{what}");
        // Although what it forked holds the pipe.
        assert_eq!(what.contains("appears to hang"), does == "forks and hangs", "{what}");
    }
}

/// The limit of a shell, its number, and a command that it fails.
#[test]
fn names_the_limit_that_is_too_small() {
    for (option, limit, args, code, words) in [
        (
            "-n",
            "8",
            "probe copy --sim --quick",
            2,
            "the number of open files is limited to 8 (ulimit -n)",
        ),
        ("-s", "64", "doctor", 2, "the stack is limited to 64 KiB (ulimit -s)"),
        ("-s", "64", "--version", 2, "raise it with ulimit -s 1024"),
        (
            "-v",
            "100000",
            "probe copy --sim --quick",
            1,
            "the address space is limited to 100000 KiB",
        ),
    ] {
        let script = format!("ulimit {option} {limit}; exec {} {args}", env!("CARGO_BIN_EXE_gdr"));
        let script = match std::env::var("GDR_TEST_PROGRAM") {
            Ok(program) => format!("ulimit {option} {limit}; exec {program} {args}"),
            Err(_) => script,
        };
        let mut shell = std::process::Command::new("/bin/sh");
        let run = shell.args(["-c", &script]).env("RUST_BACKTRACE", "1").output().expect("sh runs");
        let text = [run.stdout, run.stderr].concat();
        let text = String::from_utf8_lossy(&text).replace("\n", " ");
        assert_eq!(run.status.code(), Some(code), "{args}: {text}");
        assert!(text.contains(words), "{args}: {text}");
        assert!(!text.contains("stack backtrace"), "{args}: {text}");
    }
    // Not where it has nothing to do with the failure.
    assert!(!gdr(&["probe", "copy"]).stdout.contains("ulimit"));
}

#[test]
fn probe_names_the_variable_that_hides_all_gpus() {
    let directory = library();
    for (value, words) in [
        ("", "CUDA_VISIBLE_DEVICES is empty, which hides every GPU: unset it"),
        ("7", "CUDA_VISIBLE_DEVICES=7 hides every GPU if its first one does not exist"),
    ] {
        let run = Gdr::new()
            .args(["probe", "copy", "--format", "json"])
            .env("LD_LIBRARY_PATH", directory.path())
            .env("CUDA_VISIBLE_DEVICES", value)
            .run();
        run.assert_code(1);
        run.assert_stdout(words);
    }
}
