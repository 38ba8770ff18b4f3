//! Several steps on one file, attribute or register: an interrupted undo can be repeated, and `--force` restores the first
//! state.

use std::fs;
use std::path::Path;

use gdr::fix::{Back, Error};
use gdr::model::{
    Action, AttributeWrite, Capability, ConfigWrite, Journal, JournalState, Progress,
};

use crate::fix_engine::plans::{
    ATTRIBUTE, PORT, apply, executor, laid_out, path, sha256sum, tree, undo, undo_in, write,
};

const CONF: &str = "/etc/modprobe.d/zz-gdr.conf";

/// Two writes of one new file, as in `gdr fix peer-mapping stream-memops`.
fn twice() -> Vec<Action> {
    vec![
        write(CONF, None, "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1\"\n"),
        write(
            CONF,
            Some(b"options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1\"\n"),
            "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1\" NVreg_EnableStreamMemOPs=1\n",
        ),
    ]
}

fn journal(root: &Path) -> Journal {
    let text = fs::read(root.join("var/lib/gdr/journal/1.json")).expect("a journal");
    serde_json::from_slice(&text).expect("a journal")
}

/// An undo can be repeated from the journal of any moment.
#[test]
fn undo_repeats_after_losing_records() {
    for force in [false, true] {
        let dir = laid_out(&[1]);
        let root = dir.path();
        let before = tree(root);
        apply(root, twice()).expect("it is made");
        let [made, saved] = ["journal", "saved"].map(|name| root.join("var/lib/gdr").join(name));
        let first = fs::read(made.join("1.json")).expect("a journal");
        let kept: Vec<(std::path::PathBuf, Vec<u8>)> = fs::read_dir(&saved)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), fs::read(&path).expect("a file")))
            .collect();
        assert!(undo(root).expect("an undo").whole);
        // The journal as if no record of the undo had reached the disk.
        fs::write(made.join("1.json"), first).expect("a journal");
        for (path, content) in kept {
            fs::write(path, content).expect("a file");
        }
        let again = undo_in(root, "a", force).expect("an undo");
        assert!(again.whole, "{:?}", again.steps);
        assert!(again.steps.iter().all(|(_, back)| *back == Back::Already), "{:?}", again.steps);
        assert_eq!(tree(root), before);
        assert!(apply(root, twice()).is_ok(), "the next repair is made");
    }
}

#[test]
fn records_each_undone_step_before_the_next() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    apply(root, twice()).expect("it is made");
    // The first step's directory is read-only, so its undo fails.
    let saved = root.join("var/lib/gdr/saved");
    let [blob] = &fs::read_dir(&saved).expect("a directory").collect::<Vec<_>>()[..] else {
        panic!("one file was replaced");
    };
    let blob = blob.as_ref().expect("an entry").path();
    let content = fs::read(&blob).expect("its content");
    fs::remove_file(&blob).expect("it is removed");
    let undone = undo(root).expect("an undo");
    assert!(!undone.whole);
    assert!(
        matches!(&undone.steps[..], [(1, Back::Failed(why)), (0, Back::Restored)] if why.contains("is gone")),
        "{:?}",
        undone.steps
    );
    let _ = content;
    let now = journal(root);
    assert_eq!(now.entries[0].progress, Progress::Undone);
    assert_ne!(now.state, JournalState::Undone);
}

#[test]
fn keeps_change_between_two_undos() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    let before = tree(root);
    apply(root, twice()).expect("it is made");
    fs::write(root.join(&CONF[1..]), "somebody's\n").expect("a change");
    let undone = undo(root).expect("an undo");
    assert!(!undone.whole);
    assert!(
        undone.steps.iter().all(|(_, back)| matches!(back, Back::Refused(_))),
        "{:?}",
        undone.steps
    );
    assert_eq!(fs::read_to_string(root.join(&CONF[1..])).expect("the file"), "somebody's\n");
    let forced = undo_in(root, "a", true).expect("an undo");
    assert!(forced.whole, "{:?}", forced.steps);
    assert_eq!(tree(root), before, "the first state, not the one between");
}

#[test]
fn repeated_state_is_undone_to_the_first() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    let before = tree(root);
    let grub = "/etc/default/grub";
    let (first, second) = ("GRUB_TIMEOUT=5\n", "GRUB_TIMEOUT=6\n");
    let actions = vec![
        write(grub, Some(first.as_bytes()), second),
        write(grub, Some(second.as_bytes()), first),
        write(grub, Some(first.as_bytes()), second),
        Action::RemoveFile { path: path(grub), old: sha256sum(second.as_bytes()) },
        write(grub, None, first),
    ];
    apply(root, actions).expect("it is made");
    let undone = undo(root).expect("an undo");
    assert!(undone.whole, "{:?}", undone.steps);
    assert_eq!(tree(root), before);
}

#[test]
fn attributes_and_registers_form_chains() {
    let dir = laid_out(&[0]);
    let root = dir.path();
    let before = tree(root);
    let attribute = |old: &str, new: &str| {
        Action::WriteAttribute(AttributeWrite {
            path: path(ATTRIBUTE),
            old: old.to_owned(),
            new: new.to_owned(),
        })
    };
    let register = |mask, old, new| {
        Action::WriteConfig(ConfigWrite {
            bdf: PORT.parse().expect("an address"),
            capability: Capability::ACS,
            offset: 6,
            width: 2,
            mask,
            old,
            new,
        })
    };
    let actions = vec![
        attribute("DMA-FQ", "identity"),
        register(0x03, 0x00, 0x03),
        attribute("identity", "DMA"),
        register(0x1c, 0x03, 0x1f),
        register(0x03, 0x1f, 0x1c),
    ];
    apply(root, actions).expect("it is made");
    // An undo with three steps done but not recorded.
    let config = root.join("sys/bus/pci/devices").join(PORT).join("config");
    let mut space = fs::read(&config).expect("a space");
    space[0x106] = 0x03;
    fs::write(&config, &space).expect("a space");
    fs::write(root.join(&ATTRIBUTE[1..]), "identity\n").expect("an attribute");
    let undone = undo(root).expect("an undo");
    assert!(undone.whole, "{:?}", undone.steps);
    assert_eq!(tree(root), before);
}

#[test]
fn keeps_foreign_files_in_new_directory() {
    let dir = laid_out(&[1]);
    let root = dir.path();
    apply(root, vec![write("/etc/a/b/c.conf", None, "ours\n")]).expect("it is made");
    fs::write(root.join("etc/a/theirs"), "theirs\n").expect("a file");
    assert!(undo(root).expect("an undo").whole);
    assert!(!root.join("etc/a/b").exists() && root.join("etc/a/theirs").exists());
    assert!(matches!(undo(root), Err(Error::NothingToUndo)));
    drop(executor(root));
}
