//! Plans made and taken back on directories: whatever the plan, what was there is there again, and nobody's later change is
//! lost. What a hostile root does is in [`hostile`], what kill -9 does in [`killed`].

#[path = "../support/mod.rs"]
mod support;

mod hostile;
mod killed;
mod plans;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use gdr::fix::{Back, Error, apply, undo};
use gdr::model::{Action, Capability, ConfigWrite, JournalState, Reversal};
use gdr::world::Hands;
use plans::{FILES, PORT, SECOND, draw, drawn, hands, laid_out, moment, plan, tree, write};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_made_and_taken_back_was_never_there(noise in prop::collection::vec(any::<u8>(), 16..64), draws in prop::collection::vec(draw(), 1..9)) {
        let dir = laid_out(&noise);
        let root = dir.path();
        let before = tree(root);
        let actions = drawn(root, &draws);
        let count = actions.len();
        let journal = apply(&hands(root), &plan(actions.clone()), &moment("a")).expect("it is made");
        prop_assert_eq!(&journal.state, &JournalState::Applied);
        prop_assert_eq!(journal.entries.len(), count);
        // What the plan says came true.
        for path in FILES {
            let last = actions.iter().rev().find_map(|action| match action {
                Action::WriteFile(write) if write.path == path => Some(Some(write.content.clone())),
                Action::RemoveFile { path: gone, .. } if gone == path => Some(None),
                _ => None,
            });
            if let Some(wanted) = last {
                prop_assert_eq!(fs::read_to_string(root.join(&path[1..])).ok(), wanted);
            }
        }
        let undone = undo(&hands(root), None, Some("a"), false).expect("it is taken back");
        prop_assert!(undone.whole, "{:?}", undone.steps);
        prop_assert_eq!(tree(root), before);
    }
}

#[test]
fn nobodys_later_change_is_lost() {
    let dir = laid_out(&[7]);
    let root = dir.path();
    let path = "/etc/modprobe.d/zz-gdr.conf";
    let made = [write(path, None, "ours\n"), write("/etc/x", None, "ours too\n")];
    apply(&hands(root), &plan(made.to_vec()), &moment("a")).expect("it is made");
    fs::write(root.join(&path[1..]), "ours, and somebody's\n").expect("a change");

    let undone = undo(&hands(root), None, Some("a"), false).expect("an undo");
    assert!(!undone.whole);
    assert!(
        matches!(&undone.steps[..], [(1, Back::Restored), (0, Back::Refused(why))] if why.contains("somebody")),
        "{undone:?}"
    );
    assert_eq!(
        fs::read_to_string(root.join(&path[1..])).expect("still there"),
        "ours, and somebody's\n"
    );
    let forced = undo(&hands(root), None, Some("a"), true).expect("an undo");
    assert!(forced.whole && !root.join("etc/modprobe.d").exists(), "{forced:?}");
}

#[test]
fn what_a_reboot_reset_is_left_as_it_is() {
    let dir = laid_out(&[0]);
    let root = dir.path();
    let config = root.join("sys/bus/pci/devices").join(PORT).join("config");
    let set = Action::WriteConfig(ConfigWrite {
        bdf: PORT.parse().expect("an address"),
        capability: Capability::ACS,
        offset: 6,
        width: 2,
        mask: 0x1d,
        old: 0,
        new: 0x1d,
    });
    apply(&hands(root), &plan(vec![set]), &moment("a")).expect("it is made");
    // The machine boots: the firmware sets another value, which is not ours to judge.
    let mut space = fs::read(&config).expect("a space");
    space[0x106] = 0x05;
    fs::write(&config, &space).expect("a space");
    let undone = undo(&hands(root), None, Some("b"), false).expect("an undo");
    assert!(undone.whole && undone.steps == [(0, Back::Reset)], "{undone:?}");
    assert_eq!(fs::read(&config).expect("a space"), space);
}

#[test]
fn a_plan_that_is_no_longer_true_is_not_made() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    let stale = write("/etc/default/grub", Some(b"GRUB_TIMEOUT=6\n"), "x");
    let before = tree(root);
    let error = apply(&hands(root), &plan(vec![stale.clone()]), &moment("a")).expect_err("it is stale");
    assert!(
        error.to_string().contains("/etc/default/grub was changed by somebody"),
        "{error}"
    );
    assert_eq!(tree(root), before);
    assert!(matches!(
        undo(&hands(root), None, Some("a"), false),
        Err(Error::NothingToUndo)
    ));

    // Half way: what was done stands until it is taken back, and nothing else is begun before that.
    let first = write("/etc/x", None, "one");
    let journal = apply(&hands(root), &plan(vec![first, stale.clone()]), &moment("a")).expect("a journal");
    assert!(matches!(&journal.state, JournalState::Stopped(_)), "{journal:?}");
    assert!(matches!(
        apply(&hands(root), &plan(vec![stale]), &moment("a")),
        Err(Error::Unfinished(1))
    ));
    assert!(undo(&hands(root), None, Some("a"), false).expect("an undo").whole);
    assert_eq!(tree(root), before);
}

#[test]
fn commands_of_a_laid_out_machine_are_printed_or_run_by_stand_ins() {
    let dir = laid_out(&[1]);
    let tools = tempfile::tempdir().expect("a directory");
    let program = tools.path().join("update-thing");
    fs::write(&program, "#!/bin/sh\necho \"$GDR_ROOT $*\" >> $0.log; exit 4\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let run = |expected: i32| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        plan(vec![
            Action::RunCommand {
                argv: words(&["update-thing", "-u"]),
                expected: vec![expected],
                undo: Reversal::Again,
            },
            Action::RunCommand {
                argv: words(&["other", "x"]),
                expected: vec![0],
                undo: Reversal::Nothing,
            },
        ])
    };
    let with = Hands::directory(dir.path(), Some(tools.path()), SECOND * 10).expect("a root");
    let journal = apply(&with, &run(4), &moment("a")).expect("it is made");
    assert_eq!(journal.state, JournalState::Applied);
    let log = fs::read_to_string(tools.path().join("update-thing.log")).expect("it was run");
    assert_eq!(log, format!("{} -u\n", dir.path().display()));
    // The rebuild ends otherwise than it may when it is made again, and that is said.
    fs::write(&program, "#!/bin/sh\nexit 5\n").expect("a program");
    let undone = undo(&with, None, Some("a"), false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");

    let journal = apply(&hands(dir.path()), &run(0), &moment("a"));
    assert!(journal.is_ok_and(|journal| journal.state == JournalState::Applied));
}

#[test]
fn one_at_a_time() {
    let dir = laid_out(&[3]);
    let first = hands(dir.path());
    let journals = gdr::fix::Journals::of(&first);
    let lock = journals.lock().expect("free");
    let action = write("/etc/x", None, "x");
    let refused = apply(&hands(dir.path()), &plan(vec![action.clone()]), &moment("a"));
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert!(matches!(
        undo(&hands(dir.path()), None, None, false),
        Err(Error::Busy(_))
    ));
    drop(lock);
    assert!(apply(&hands(dir.path()), &plan(vec![action]), &moment("a")).is_ok());
}

#[test]
fn a_broken_journal_is_named_and_kept() {
    let dir = laid_out(&[3]);
    apply(
        &hands(dir.path()),
        &plan(vec![write("/etc/x", None, "x")]),
        &moment("a"),
    )
    .expect("it is made");
    let journal = dir.path().join("var/lib/gdr/journal/1.json");
    assert_eq!(
        fs::metadata(&journal).expect("a journal").permissions().mode() & 0o777,
        0o600
    );
    let whole = fs::read(&journal).expect("a journal");
    for cut in [0, 1, whole.len() / 2, whole.len() - 3] {
        fs::write(&journal, &whole[..cut]).expect("a cut journal");
        let error = undo(&hands(dir.path()), None, Some("a"), false).expect_err("it is cut");
        assert!(error.to_string().contains("/var/lib/gdr/journal/1.json"), "{error}");
        let error = apply(
            &hands(dir.path()),
            &plan(vec![write("/etc/y", None, "y")]),
            &moment("a"),
        )
        .expect_err("unknown");
        assert!(error.to_string().contains("/var/lib/gdr/journal/1.json"), "{error}");
        assert!(!dir.path().join("etc/y").exists());
    }
    fs::write(&journal, whole).expect("the journal");
    assert!(undo(&hands(dir.path()), None, Some("a"), false).expect("an undo").whole);
}
