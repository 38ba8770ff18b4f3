//! Programs that did part of their work before they failed, and undos that were refused, interrupted or forced: what is
//! derived from files comes back with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gdr::model::{
    Action, Capability, ConfigWrite, GrubMkconfig, ImageBuild, InitramfsBuilder, JournalState,
    Operation,
};

use crate::fix_engine::derived::{Manner, apply, laid_out, tools, undo};
use crate::fix_engine::plans::{PORT, Tree, differing, path, tree, write};

const CONF: &str = "/etc/modprobe.d/zz-gdr.conf";

/// A write of the file that this program reads, then the program.
fn change(source: Option<&str>, operation: Operation) -> Vec<Action> {
    let old: Option<&[u8]> = (source == Some("/etc/default/grub")).then_some(b"GRUB_TIMEOUT=5\n");
    let write = source.map(|path| write(path, old, "ours\n"));
    write.into_iter().chain([Action::Run(operation)]).collect()
}

/// Every program that a repair runs, with the file that it reads; those that need root to act are left out.
fn programs() -> Vec<(Option<&'static str>, Operation)> {
    let unit = || "gdr.service".try_into().expect("a unit");
    let image = "/boot/vmlinuz-6.8";
    let grub = Some("/etc/default/grub");
    let device = || PORT.parse().expect("an address");
    let all = |builder| Operation::RebuildInitramfs { builder };
    vec![
        (Some(CONF), all(InitramfsBuilder::UpdateInitramfs)),
        (Some(CONF), all(InitramfsBuilder::Dracut)),
        (Some(CONF), all(InitramfsBuilder::Mkinitcpio)),
        (grub, Operation::UpdateGrub),
        (
            grub,
            Operation::make_grub_config(GrubMkconfig::GrubMkconfig, "/boot/grub/grub.cfg")
                .expect("a path"),
        ),
        (
            grub,
            Operation::make_grub_config(GrubMkconfig::Grub2Mkconfig, "/boot/grub/grub.cfg")
                .expect("a path"),
        ),
        (Some("/etc/x"), Operation::add_kernel_entry("6.8", image).expect("a release")),
        (Some("/etc/systemd/system.conf"), Operation::ReloadUnits),
        (Some("/etc/systemd/system.conf"), Operation::RestartUnit { unit: unit() }),
        (Some("/etc/udev/rules.d/x.rules"), Operation::ReloadUdevRules),
        (None, Operation::EnableUnit { unit: unit() }),
        (None, Operation::StartUnit { unit: unit() }),
        (None, Operation::set_kernel_parameter(None, "iommu=pt").expect("a word")),
        (
            None,
            Operation::SetNonPrefetchable {
                program: gdr::model::FirmwareTool::Mlxconfig,
                device: device(),
                on: true,
            },
        ),
        (None, Operation::SetPersistenceMode { gpu: device(), on: true }),
        (None, Operation::load_module("nvidia_peermem").expect("a module")),
    ]
}

fn differs(root: &Path, before: &Tree) -> BTreeSet<PathBuf> {
    differing(&tree(root), before)
}

/// A program ends in every bad manner, during the repair and then during its undo: nothing of its work is left.
#[test]
#[ignore = "slow: waits for programs that hang"]
fn part_of_the_work_is_undone() {
    let tools = tools();
    let tools = tools.path();
    let mut acted = 0;
    for (source, operation) in programs() {
        for manner in Manner::BAD {
            // udevadm's exit status 1 means that udevd does not run.
            let about = format!("{operation:?}, {manner:?}");
            let dir = laid_out();
            let root = dir.path();
            let before = tree(root);
            let made = apply(root, tools, manner, change(source, operation.clone()));
            acted += usize::from(!differs(root, &before).is_empty());
            match made {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(differs(root, &before), BTreeSet::new(), "{about}: {error}");
                    continue;
                }
            }
            // The undo's program ends badly too; the next undo repeats it.
            let undone = undo(root, tools, manner, false).expect("an undo");
            if undone.whole {
                assert_eq!(differs(root, &before), BTreeSet::new(), "{about}: {undone:?}");
                continue;
            }
            let undone = undo(root, tools, Manner::Well, false).expect("an undo");
            assert!(undone.whole, "{about}: {undone:?}");
            assert_eq!(differs(root, &before), BTreeSet::new(), "{about}: {undone:?}");
        }
    }
    assert!(acted >= 50, "only {acted} programs left something");
}

/// The program rebuilds one image of two, and fails: the undo rebuilds both.
#[test]
fn failed_rebuild_is_repeated_by_undo() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let operation = Operation::RebuildInitramfs { builder: InitramfsBuilder::UpdateInitramfs };
    let journal = apply(root, tools, Manner::Fail, change(Some(CONF), operation)).expect("begun");
    assert!(
        matches!(&journal.state, JournalState::Stopped(why) if why.contains("exit status 1")),
        "{journal:?}"
    );
    let image = fs::read_to_string(root.join("boot/initrd.img-6.1")).expect("an image");
    assert!(image.contains("ours"), "{image}");
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new());
}

/// An undo is refused because a file was changed since, and then forced: the image is built of the restored file.
#[test]
fn forced_undo_rebuilds() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let operation = Operation::RebuildInitramfs { builder: InitramfsBuilder::UpdateInitramfs };
    let mut actions = change(Some("/etc/x"), operation);
    actions.insert(0, write(CONF, None, "option\n"));
    apply(root, tools, Manner::Well, actions).expect("it is made");
    fs::write(root.join(&CONF[1..]), "option\ntheirs\n").expect("a change");

    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");
    // The other file is restored, and the image is made of both as they are now.
    let image = fs::read_to_string(root.join("boot/initrd.img-6.1")).expect("an image");
    assert_eq!(image, "image of 6.1\noption\ntheirs\nGRUB_TIMEOUT=5\n");

    let undone = undo(root, tools, Manner::Well, true).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new());
}

/// The same with an image that the repair kept: it is put back by force, and then rebuilt.
#[test]
fn image_put_back_by_force_is_rebuilt() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let operation = Operation::RebuildInitramfs { builder: InitramfsBuilder::UpdateInitramfs };
    let mut actions = change(Some(CONF), operation);
    actions.push(Action::RebuildImage(ImageBuild {
        path: path("/boot/initrd.img-6.8"),
        builder: InitramfsBuilder::UpdateInitramfs,
        release: Some("6.8".try_into().expect("a release")),
    }));
    apply(root, tools, Manner::Well, actions).expect("it is made");
    fs::write(root.join("boot/initrd.img-6.8"), "theirs\n").expect("a change");
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");
    let undone = undo(root, tools, Manner::Well, true).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new());
}

/// A later repair reads the same files: an undo of the earlier one is refused, changes nothing, and is not recorded.
#[test]
fn chain_of_repairs_with_common_sources() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let all = || Operation::RebuildInitramfs { builder: InitramfsBuilder::Dracut };
    apply(root, tools, Manner::Well, change(Some(CONF), all())).expect("it is made");
    let second = vec![write(CONF, Some(b"ours\n"), "ours, twice\n"), Action::Run(all())];
    apply(root, tools, Manner::Well, second).expect("it is made");
    let made = tree(root);
    let executor =
        gdr::world::Executor::directory(root, Some(tools), std::time::Duration::from_secs(60));
    let executor = executor.expect("a root");
    let options =
        gdr::fix::UndoOptions { number: Some(1), boot: Some("a".to_owned()), force: false };
    let undone = gdr::fix::undo(&executor, &options, &mut |_| {}).expect("an undo");
    assert!(!undone.whole, "{undone:?}");
    assert_eq!(differs(root, &made), BTreeSet::new());
    for _ in 0..2 {
        let undone = undo(root, tools, Manner::Well, false).expect("an undo");
        assert!(undone.whole, "{undone:?}");
    }
    assert_eq!(differs(root, &before), BTreeSet::new());
}

fn acs(offset: u16, width: u8, mask: u32, old: u32, new: u32) -> Action {
    Action::WriteConfig(ConfigWrite {
        bdf: PORT.parse().expect("an address"),
        capability: Capability::ACS,
        offset,
        width,
        mask,
        old,
        new,
    })
}

/// Bytes of the ACS capability, from its control register on.
fn bytes(root: &Path) -> [u8; 2] {
    let config = root.join("sys/bus/pci/devices").join(PORT).join("config");
    let space = fs::read(config).expect("a space");
    [space[0x106], space[0x107]]
}

fn set_bytes(root: &Path, bytes: [u8; 2]) {
    let config = root.join("sys/bus/pci/devices").join(PORT).join("config");
    let mut space = fs::read(&config).expect("a space");
    space[0x106..0x108].copy_from_slice(&bytes);
    fs::write(config, space).expect("a space");
}

/// Somebody changes bits that two steps wrote: neither step is undone without force, and with force both are.
#[test]
fn overlapping_bits_are_undone_together() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    set_bytes(root, [0x00, 0x00]);
    let before = tree(root);
    let steps = vec![acs(6, 2, 0x01, 0x00, 0x01), acs(6, 2, 0x03, 0x01, 0x02)];
    apply(root, tools, Manner::Well, steps).expect("it is made");
    set_bytes(root, [0x03, 0x00]);
    let theirs = tree(root);
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");
    assert_eq!(differs(root, &theirs), BTreeSet::new(), "{undone:?}");
    let undone = undo(root, tools, Manner::Well, true).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new(), "{:02x?}", bytes(root));
}

/// A word and its bytes are one chain: an undo whose records are lost finds that all is undone.
#[test]
fn overlapping_registers_form_one_chain() {
    for second in [
        acs(6, 1, 0xff, 0x34, 0x56),
        acs(7, 1, 0x7f, 0x12, 0x5a),
        acs(4, 4, 0x0ff0_0000, 0x1234_0000, 0x1560_0000),
    ] {
        let (dir, tools) = (laid_out(), tools());
        let (root, tools) = (dir.path(), tools.path());
        let config = root.join("sys/bus/pci/devices").join(PORT).join("config");
        let mut space = fs::read(&config).expect("a space");
        space[0x104..0x108].copy_from_slice(&[0, 0, 0, 0]);
        fs::write(&config, space).expect("a space");
        let before = tree(root);
        let steps = vec![acs(6, 2, 0xffff, 0x0000, 0x1234), second.clone()];
        let journal = apply(root, tools, Manner::Well, steps).expect("it is made");
        assert_eq!(journal.state, JournalState::Applied, "{second:?}");
        let file = root.join("var/lib/gdr/journal/1.json");
        let record = fs::read(&file).expect("a journal");
        assert!(undo(root, tools, Manner::Well, false).expect("an undo").whole);
        fs::write(&file, record).expect("a journal");
        let undone = undo(root, tools, Manner::Well, false).expect("an undo");
        assert!(undone.whole, "{second:?}: {undone:?}");
        assert_eq!(differs(root, &before), BTreeSet::new(), "{second:?}");
    }
}

/// The undo of a step fails, and the one before it finds its own state: the next undo does not bring back what lies between.
#[test]
fn repeated_state_survives_a_failed_step() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let (first, second): (&[u8], &[u8]) = (b"GRUB_TIMEOUT=5\n", b"GRUB_TIMEOUT=6\n");
    let grub = "/etc/default/grub";
    let steps = vec![
        write(grub, Some(first), "GRUB_TIMEOUT=6\n"),
        write(grub, Some(second), "GRUB_TIMEOUT=5\n"),
    ];
    apply(root, tools, Manner::Well, steps).expect("it is made");
    let name = format!("1-{}", crate::fix_engine::plans::sha256sum(second));
    let saved = root.join("var/lib/gdr/saved").join(name);
    let away = root.join("var/away");
    fs::rename(&saved, &away).expect("the saved file");
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");
    fs::rename(&away, &saved).expect("the saved file");
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new(), "{undone:?}");
}

/// A full disk kept the undo from restoring a removed file and from recording that it removed the file's new directory: the next
/// undo leaves it removed.
#[test]
fn directory_of_an_undone_step_stays_away() {
    let (dir, tools) = (laid_out(), tools());
    let (root, tools) = (dir.path(), tools.path());
    let before = tree(root);
    let steps = vec![
        write(CONF, None, "ours\n"),
        Action::RemoveFile {
            path: path(CONF),
            old: crate::fix_engine::plans::sha256sum(b"ours\n"),
        },
    ];
    apply(root, tools, Manner::Well, steps).expect("it is made");
    let directory = root.join("etc/modprobe.d");
    fs::remove_dir(&directory).expect("the directory that the repair created");
    let undone = undo(root, tools, Manner::Well, false).expect("an undo");
    assert!(undone.whole, "{undone:?}");
    assert_eq!(differs(root, &before), BTreeSet::new(), "{undone:?}");
}
