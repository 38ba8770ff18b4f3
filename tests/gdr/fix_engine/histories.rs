//! Random histories of repairs and undos that are killed at random: they end in the first state or in the last.
//!
//! `GDR_HISTORIES=10000` runs more of them, `GDR_SEED` changes the seed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gdr::fix::Error;
use gdr::model::{Action, JournalState};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fix_engine::plans::{Draw, apply, draw, drawn, laid_out_in_memory, say, tree, undo};

/// One event of a history.
#[derive(Debug, Clone)]
enum Event {
    /// A repair, killed after this many microseconds.
    KilledFix(u64),
    /// An undo, killed after this many microseconds.
    KilledUndo(u64),
    /// A complete repair.
    Fix,
    /// A complete undo.
    Undo,
}

fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

fn event(longest: u64) -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..longest).prop_map(Event::KilledFix),
        3 => (0..longest).prop_map(Event::KilledUndo),
        1 => Just(Event::Fix),
        1 => Just(Event::Undo),
    ]
}

/// One to eight steps on one to four files, an attribute and two registers.
fn steps() -> impl Strategy<Value = Vec<Draw>> {
    (1_usize..=4, prop::collection::vec(draw(), 1..=8)).prop_map(|(files, draws)| {
        let within = |file: usize| file % files;
        let reduce = |draw| match draw {
            Draw::Write { file, content } => Draw::Write {
                file: within(file),
                content,
            },
            Draw::Remove { file } => Draw::Remove { file: within(file) },
            other => other,
        };
        draws.into_iter().map(reduce).collect()
    })
}

/// Starts a repair or an undo in a child process.
fn start(root: &Path, part: &str, actions: &[Action]) -> Child {
    fs::create_dir_all(root.join("var")).expect("a directory");
    fs::write(
        root.join("var/plan.json"),
        serde_json::to_vec(actions).expect("JSON"),
    )
    .expect("the plan");
    Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "fix_engine::histories::wrapped_event",
            "--test-threads",
            "1",
        ])
        .env("GDR_HISTORY_PART", part)
        .env("GDR_HISTORY_ROOT", root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test")
}

/// Kills it after some microseconds; returns whether it ended before that.
fn killed(root: &Path, part: &str, actions: &[Action], after: u64) -> bool {
    let mut child = start(root, part, actions);
    std::thread::sleep(Duration::from_micros(after));
    let _ = child.kill();
    child.wait().expect("its end").success()
}

/// Duration of a repair with eight steps on this machine, in microseconds.
fn duration() -> u64 {
    let dir = laid_out_in_memory(&[1]);
    let write = |file| Draw::Write {
        file,
        content: "x".to_owned(),
    };
    let actions = drawn(dir.path(), &[0, 1, 2, 3, 0, 1, 2, 3].map(write));
    let begin = Instant::now();
    assert!(
        start(dir.path(), "fix", &actions)
            .wait()
            .expect("its end")
            .success()
    );
    u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[test]
#[ignore = "slow: hundreds of histories"]
fn history_ends_in_first_or_last_state() {
    let histories = number("GDR_HISTORIES", 200);
    let seed = number("GDR_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    let longest = duration();
    let (mut cut, mut ended, mut finished) = (0, 0, 0);
    for history in 0..histories {
        let drawn_history =
            (steps(), prop::collection::vec(event(longest), 1..=6)).new_tree(&mut runner);
        let (draws, events) = drawn_history.expect("a history").current();
        let dir = laid_out_in_memory(&[0x10, 0x22]);
        let root = dir.path();
        let first = tree(root);
        let about = format!("seed {seed}, history {history}: {draws:?} {events:?}");
        let actions = drawn(root, &draws);
        let last = {
            let other = laid_out_in_memory(&[0x10, 0x22]);
            apply(other.path(), actions.clone()).expect("it is made");
            tree(other.path())
        };
        for event in &events {
            match event {
                Event::KilledFix(after) | Event::KilledUndo(after) => {
                    let part = if matches!(event, Event::KilledFix(_)) {
                        "fix"
                    } else {
                        "undo"
                    };
                    match killed(root, part, &actions, *after) {
                        true => ended += 1,
                        false => cut += 1,
                    }
                }
                Event::Fix => match apply(root, actions.clone()) {
                    Ok(journal) if journal.state == JournalState::Applied => {
                        assert_eq!(tree(root), last, "{about}");
                        finished += 1;
                    }
                    // The plan was made for the first state; the machine may be in another.
                    Ok(_) | Err(Error::Unexpected(_) | Error::Unfinished(_)) => {}
                    Err(error) => panic!("{about}: {error}"),
                },
                Event::Undo => match undo(root) {
                    Ok(undone) => assert!(undone.whole, "{about}: {:?}", undone.steps),
                    Err(Error::NothingToUndo) => {}
                    Err(error) => panic!("{about}: {error}"),
                },
            }
        }
        loop {
            match undo(root) {
                Ok(undone) => assert!(undone.whole, "{about}: {:?}", undone.steps),
                Err(Error::NothingToUndo) => break,
                Err(error) => panic!("{about}: {error}"),
            }
        }
        assert_eq!(tree(root), first, "{about}");
    }
    assert!(
        cut > histories / 4,
        "only {cut} processes were killed in time"
    );
    say(&format!(
        "{histories} histories: {cut} processes killed, {ended} ended before that, {finished} repairs finished"
    ));
}

/// The child process of the test above; does nothing by itself.
#[test]
fn wrapped_event() {
    let (Some(root), Ok(part)) = (
        std::env::var_os("GDR_HISTORY_ROOT"),
        std::env::var("GDR_HISTORY_PART"),
    ) else {
        return;
    };
    let root = Path::new(&root);
    match part.as_str() {
        "fix" => {
            let text = fs::read(root.join("var/plan.json")).expect("the plan");
            let actions: Vec<Action> = serde_json::from_slice(&text).expect("JSON");
            let _ = apply(root, actions);
        }
        _ => {
            let _ = undo(root);
        }
    }
}
