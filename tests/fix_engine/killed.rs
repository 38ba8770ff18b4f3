//! `kill -9` at every call that changes anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gdr::fix::{Error, apply, undo};
use gdr::model::{Action, JournalState};

use crate::plans::{Draw, drawn, hands, laid_out, moment, plan, say, tree};
use crate::support::{Need, need};

/// The calls by which a repair changes anything.
const CHANGING: [&str; 9] = [
    "write",
    "pwrite64",
    "renameat",
    "unlinkat",
    "mkdirat",
    "fchmod",
    "ftruncate",
    "fsync",
    "flock",
];

/// Six steps of every kind that changes something.
fn six(root: &Path) -> Vec<Action> {
    let draws = [
        Draw::Config {
            acs: true,
            mask: 0x0c,
            value: 0x0c,
        },
        Draw::Write {
            file: 1,
            content: "new, in new directories\n".to_owned(),
        },
        Draw::Write {
            file: 2,
            content: "GRUB_TIMEOUT=6\n".to_owned(),
        },
        Draw::Attribute {
            value: "identity".to_owned(),
        },
        Draw::Config {
            acs: false,
            mask: 0x7000,
            value: 0x5000,
        },
        Draw::Remove { file: 3 },
    ];
    drawn(root, &draws)
}

/// `kill -9` at every call that changes something, first while six steps are made, then while they are taken back: an undo
/// always comes to where it began.
#[test]
fn killed_anywhere_it_can_be_taken_back() {
    if !need(Need::Strace) {
        return;
    }
    let dir = laid_out(&[0x10, 0x22]);
    let root = dir.path();
    fs::write(root.join("etc/x"), "to be taken away\n").expect("a file");
    let before = tree(root);
    for part in ["make", "take-back"] {
        let mut killed = 0;
        for call in CHANGING {
            for nth in 1.. {
                if part == "take-back" {
                    apply(&hands(root), &plan(six(root)), &moment("a")).expect("it is made");
                }
                let mut command = Command::new("strace");
                command
                    .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                    .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
                    .arg(std::env::current_exe().expect("this test"))
                    .args(["--exact", "killed::wrapped_part", "--test-threads", "1"])
                    .env("GDR_WRAPPED_PART", part)
                    .env("GDR_WRAPPED_ROOT", root);
                let output = command.output().expect("strace");
                match undo(&hands(root), None, Some("a"), false) {
                    Ok(undone) => assert!(undone.whole, "{part}, killed at {call} {nth}: {:?}", undone.steps),
                    Err(Error::NothingToUndo) => {}
                    Err(error) => panic!("{part}, killed at {call} {nth}: {error}"),
                }
                let now = tree(root);
                let differs = now
                    .keys()
                    .chain(before.keys())
                    .filter(|path| now.get(*path) != before.get(*path));
                let differs: Vec<&PathBuf> = differs.collect();
                assert!(differs.is_empty(), "{part}, killed at {call} {nth}: {differs:?}");
                if output.status.success() {
                    break;
                }
                killed += 1;
            }
        }
        // Making it is seven writes of the journal and six steps, each of several calls; taking back has one journal.
        let least = if part == "make" { 60 } else { 15 };
        assert!(
            killed >= least,
            "{part}: killed only {killed} times: is this the plan's work?"
        );
        say(&format!("{part}: killed at each of {killed} calls"));
    }
}

/// The parts of the test above that are killed; nothing on its own.
#[test]
fn wrapped_part() {
    let (Some(root), Ok(part)) = (std::env::var_os("GDR_WRAPPED_ROOT"), std::env::var("GDR_WRAPPED_PART")) else {
        return;
    };
    let root = Path::new(&root);
    match part.as_str() {
        "make" => {
            let journal = apply(&hands(root), &plan(six(root)), &moment("a")).expect("it is made");
            assert_eq!(journal.state, JournalState::Applied);
        }
        _ => assert!(
            undo(&hands(root), None, Some("a"), false)
                .expect("it is taken back")
                .whole
        ),
    }
}
