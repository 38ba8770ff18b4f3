//! Applies and undoes plans on directories: an undo restores the initial state, and later changes are kept.
//!
//! [`chain`]: several steps on one file. [`hostile`]: roots with links out or unwritable. [`trust`]: which journals are
//! trusted. [`keep`]: what a replacement keeps of a file. [`programs`]: which programs run, where, and the lock. [`killed`]:
//! kill -9 and failing system calls. [`partial`]: programs that did part of their work, forced undos. [`histories`]: random
//! repairs and undos, killed at random, on a machine of [`derived`].

mod chain;
mod derived;
mod histories;
mod hostile;
mod keep;
mod killed;
mod partial;
mod plans;
mod programs;
mod trust;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use gdr::fix::{Back, Error, Journals};
use gdr::model::{Action, Capability, ConfigWrite, JournalState};
use plans::{FILES, PORT, apply, draw, drawn, executor, laid_out, tree, undo, undo_in, write};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "slow: 200 repairs, each synced"]
    fn undo_restores_initial_state(noise in prop::collection::vec(any::<u8>(), 16..64), draws in prop::collection::vec(draw(), 1..9)) {
        let dir = laid_out(&noise);
        let root = dir.path();
        let before = tree(root);
        let actions = drawn(root, &draws);
        let count = actions.len();
        let journal = apply(root, actions.clone()).expect("it is made");
        prop_assert_eq!(&journal.state, &JournalState::Applied);
        prop_assert_eq!(journal.entries.len(), count);
        // The plan was applied.
        for path in FILES {
            let last = actions.iter().rev().find_map(|action| match action {
                Action::WriteFile(write) if write.path.as_str() == path => Some(Some(write.content.clone())),
                Action::RemoveFile { path: gone, .. } if gone.as_str() == path => Some(None),
                _ => None,
            });
            if let Some(expected) = last {
                prop_assert_eq!(fs::read_to_string(root.join(&path[1..])).ok(), expected);
            }
        }
        let undone = undo(root).expect("it is taken back");
        prop_assert!(undone.whole, "{:?}", undone.steps);
        prop_assert_eq!(tree(root), before);
    }
}

#[test]
fn keeps_later_change() {
    let dir = laid_out(&[7]);
    let root = dir.path();
    let path = "/etc/modprobe.d/zz-gdr.conf";
    let made = [write(path, None, "ours\n"), write("/etc/x", None, "ours too\n")];
    apply(root, made.to_vec()).expect("it is made");
    fs::write(root.join(&path[1..]), "ours, and somebody's\n").expect("a change");

    let undone = undo(root).expect("an undo");
    assert!(!undone.whole);
    assert!(
        matches!(&undone.steps[..], [(1, Back::Restored), (0, Back::Refused(why))] if why.contains("was changed since")),
        "{undone:?}"
    );
    assert_eq!(
        fs::read_to_string(root.join(&path[1..])).expect("still there"),
        "ours, and somebody's\n"
    );
    let forced = undo_in(root, "a", true).expect("an undo");
    assert!(forced.whole && !root.join("etc/modprobe.d").exists(), "{forced:?}");
}

#[test]
fn leaves_values_reset_by_reboot() {
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
    apply(root, vec![set]).expect("it is made");
    // A reboot: the firmware sets another value.
    let mut space = fs::read(&config).expect("a space");
    space[0x106] = 0x05;
    fs::write(&config, &space).expect("a space");
    let undone = undo_in(root, "b", false).expect("an undo");
    assert!(undone.whole && undone.steps == [(0, Back::Reset)], "{undone:?}");
    assert_eq!(fs::read(&config).expect("a space"), space);
}

#[test]
fn refuses_outdated_plan() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    let stale = write("/etc/default/grub", Some(b"GRUB_TIMEOUT=6\n"), "x");
    let before = tree(root);
    let error = apply(root, vec![stale.clone()]).expect_err("it is stale");
    assert!(
        error.to_string().contains("/etc/default/grub was changed after the plan was made"),
        "{error}"
    );
    assert_eq!(tree(root), before);
    assert!(matches!(undo(root), Err(Error::NothingToUndo)));

    // Stopped half way: the steps done stay until they are undone, and block other repairs.
    let first = write("/etc/x", None, "one");
    let journal = apply(root, vec![first, stale.clone()]).expect("a journal");
    assert!(matches!(&journal.state, JournalState::Stopped(_)), "{journal:?}");
    assert!(matches!(apply(root, vec![stale]), Err(Error::Unfinished(1))));
    assert!(undo(root).expect("an undo").whole);
    assert_eq!(tree(root), before);
}

#[test]
fn one_repair_at_a_time() {
    let dir = laid_out(&[3]);
    let journals = Journals::create(&executor(dir.path())).expect("a directory");
    let lock = journals.lock().expect("free");
    let action = write("/etc/x", None, "x");
    let refused = apply(dir.path(), vec![action.clone()]);
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert!(matches!(undo(dir.path()), Err(Error::Busy { .. })));
    drop(lock);
    assert!(apply(dir.path(), vec![action]).is_ok());
}

#[test]
fn names_and_keeps_broken_journal() {
    let dir = laid_out(&[3]);
    apply(dir.path(), vec![write("/etc/x", None, "x")]).expect("it is made");
    let journal = dir.path().join("var/lib/gdr/journal/1.json");
    assert_eq!(fs::metadata(&journal).expect("a journal").permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&journal).expect("a journal");
    for cut in [0, 1, whole.len() / 2, whole.len() - 3] {
        fs::write(&journal, &whole[..cut]).expect("a cut journal");
        let error = undo(dir.path()).expect_err("it is cut");
        assert!(error.to_string().contains("/var/lib/gdr/journal/1.json"), "{error}");
        let error = apply(dir.path(), vec![write("/etc/y", None, "y")]).expect_err("unknown");
        assert!(error.to_string().contains("/var/lib/gdr/journal/1.json"), "{error}");
        assert!(!dir.path().join("etc/y").exists());
    }
    fs::write(&journal, whole).expect("the journal");
    assert!(undo(dir.path()).expect("an undo").whole);
}
