//! `kill -9` at every call that changes something, and every such call failing, during repair and undo.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gdr::fix::Error;
use gdr::model::{Action, JournalState};

use crate::fix_engine::plans::{
    Draw, Tree, apply, differing, drawn, laid_out_in_memory, say, tree, undo,
};

/// Calls that change something.
const CHANGING: [&str; 10] = [
    "write",
    "pwrite64",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
    "fchmod",
    "ftruncate",
    "fsync",
    "flock",
];

/// Calls that a file system may refuse, with the error.
const FAILING: [(&str, &str); 10] = [
    ("openat", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("unlinkat", "EROFS"),
    ("mkdirat", "ENOSPC"),
    ("fchmod", "EPERM"),
    ("fsync", "EIO"),
    ("flock", "ENOLCK"),
    ("pread64", "EIO"),
    ("flistxattr", "EIO"),
];

/// Six steps, one of every kind.
fn every_kind(root: &Path) -> Vec<Action> {
    let draws = [
        Draw::Config { register: 1, mask: 0x0c, value: 0x0c },
        Draw::Write { file: 1, content: "new, in new directories\n".to_owned() },
        Draw::Write { file: 2, content: "GRUB_TIMEOUT=6\n".to_owned() },
        Draw::Attribute { value: "identity".to_owned() },
        Draw::Config { register: 0, mask: 0x7000, value: 0x5000 },
        Draw::Remove { file: 3 },
    ];
    drawn(root, &draws)
}

/// Seven steps on two files, one attribute and one register.
fn repeated(root: &Path) -> Vec<Action> {
    let write = |file, content: &str| Draw::Write { file, content: content.to_owned() };
    let draws = [
        write(0, "one\n"),
        write(2, "GRUB_TIMEOUT=6\n"),
        write(0, "two\n"),
        Draw::Attribute { value: "identity".to_owned() },
        Draw::Remove { file: 2 },
        write(0, "one\n"),
        Draw::Attribute { value: "DMA".to_owned() },
        write(2, "GRUB_TIMEOUT=7\n"),
    ];
    drawn(root, &draws)
}

type Plan = fn(&Path) -> Vec<Action>;
const PLANS: [(&str, Plan); 2] = [("every kind", every_kind), ("repeated", repeated)];

/// Runs a part of a test in a child process, with a fault in its `nth` call of one name.
fn with_fault(root: &Path, part: &str, plan: &str, call: &str, fault: &str, nth: usize) -> Output {
    let mut command = Command::new("strace");
    // Stops at this call alone, not at all; strace 6.1 then injects no signals.
    if fault.starts_with("error=") {
        command.arg("--seccomp-bpf");
    }
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:{fault}:when={nth}")])
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "fix_engine::killed::wrapped_part", "--test-threads", "1"])
        .env("GDR_WRAPPED_PART", part)
        .env("GDR_WRAPPED_PLAN", plan)
        .env("GDR_WRAPPED_ROOT", root);
    command.output().expect("strace")
}

/// Undoes, and compares with the initial state.
fn comes_back(root: &Path, before: &Tree, when: &str) {
    match undo(root) {
        Ok(undone) => assert!(undone.whole, "{when}: {:?}", undone.steps),
        Err(Error::NothingToUndo) => {}
        Err(error) => panic!("{when}: {error}"),
    }
    let differs = differing(&tree(root), before);
    assert!(differs.is_empty(), "{when}: {differs:?}");
}

/// `kill -9` at every changing call, during the repair and then during the undo: the next undo restores the initial state.
#[test]
#[ignore = "needs strace"]
fn undo_works_after_kill_at_any_call() {
    for (name, plan) in PLANS {
        let dir = laid_out_in_memory(&[0x10, 0x22]);
        let root = dir.path();
        fs::write(root.join("etc/x"), "to be removed\n").expect("a file");
        let before = tree(root);
        for part in ["make", "undo"] {
            let mut killed = 0;
            for call in CHANGING {
                for nth in 1.. {
                    if part == "undo" {
                        apply(root, plan(root)).expect("it is made");
                    }
                    let output = with_fault(root, part, name, call, "signal=KILL", nth);
                    comes_back(root, &before, &format!("{name}: {part}, killed at {call} {nth}"));
                    if output.status.success() {
                        break;
                    }
                    killed += 1;
                }
            }
            // Each step writes a journal and a change, several calls each.
            assert!(
                killed >= 60,
                "{name}: {part}: killed only {killed} times: is this the plan's work?"
            );
            say(&format!("{name}: {part}: killed at each of {killed} calls"));
        }
    }
}

/// Every call fails once, during repair and undo: the error is returned, and the next undo restores the initial state.
#[test]
#[ignore = "needs strace"]
fn undo_works_after_failure_of_any_call() {
    let (name, plan) = PLANS[1];
    let dir = laid_out_in_memory(&[0x10, 0x22]);
    let root = dir.path();
    let before = tree(root);
    for part in ["make-or-fail", "undo-or-fail"] {
        let mut failed = 0;
        for (call, errno) in FAILING {
            // The process's last calls come after this many of a name.
            for nth in 1..400 {
                if part == "undo-or-fail" {
                    apply(root, plan(root)).expect("it is made");
                }
                let output = with_fault(root, part, name, call, &format!("error={errno}"), nth);
                let printed = String::from_utf8_lossy(&output.stdout).into_owned()
                    + &String::from_utf8_lossy(&output.stderr);
                assert!(!printed.contains("panicked at src/"), "{part}, {call} {nth}: {printed}");
                comes_back(root, &before, &format!("{part}, {call} {nth} fails with {errno}"));
                if printed.contains("WRAPPED whole") {
                    // This call came after the work, or does not exist.
                    break;
                }
                failed += 1;
            }
        }
        assert!(failed >= 40, "{part}: only {failed} calls failed: is this the plan's work?");
        say(&format!("{part}: each of {failed} calls failed once"));
    }
}

/// The child processes of the tests above; does nothing by itself.
#[test]
fn wrapped_part() {
    let (Some(root), Ok(part), Ok(name)) = (
        std::env::var_os("GDR_WRAPPED_ROOT"),
        std::env::var("GDR_WRAPPED_PART"),
        std::env::var("GDR_WRAPPED_PLAN"),
    ) else {
        return;
    };
    let root = Path::new(&root);
    let (_, plan) = PLANS.into_iter().find(|(of, _)| *of == name).expect("a plan");
    let make = || apply(root, plan(root)).map(|journal| journal.state == JournalState::Applied);
    let whole = match part.as_str() {
        "make" => make().expect("it is made"),
        "undo" => undo(root).expect("it is undone").whole,
        "make-or-fail" => make().unwrap_or(false),
        _ => undo(root).is_ok_and(|undone| undone.whole),
    };
    if part.ends_with("or-fail") {
        say(if whole { "WRAPPED whole" } else { "WRAPPED in part" });
    } else {
        assert!(whole);
    }
}
