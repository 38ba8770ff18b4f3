//! Plans made and taken back on directories: whatever the plan, what was there is there again; and a hostile root is neither
//! left nor half changed.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gdr::fix::{Back, Error, Moment, apply, undo};
use gdr::model::{Action, Capability, ConfigWrite, FileWrite, Host, JournalState, Plan, Repair, Reversal, Step};
use gdr::world::Hands;
use proptest::prelude::*;
use support::{Need, need};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

fn plan(actions: Vec<Action>) -> Plan {
    let step = |action| Step {
        about: "A step.".to_owned(),
        action,
    };
    let repair = Repair {
        fix: "test".to_owned(),
        steps: actions.into_iter().map(step).collect(),
        ..Repair::default()
    };
    Plan::new(Host::default(), vec![repair])
}

fn moment(boot: &str) -> Moment {
    Moment {
        taken: "2026-01-01T00:00:00Z".to_owned(),
        boot: Some(boot.to_owned()),
    }
}

/// The hash as another program tells it.
fn sha256sum(content: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), content).expect("its content");
    let output = Command::new("sha256sum")
        .arg(file.path())
        .output()
        .expect("sha256sum of coreutils");
    String::from_utf8_lossy(&output.stdout)
        .split(' ')
        .next()
        .expect("a hash")
        .to_owned()
}

fn write(path: &str, old: Option<&[u8]>, content: &str) -> Action {
    Action::WriteFile(FileWrite {
        path: path.to_owned(),
        old: old.map(sha256sum),
        content: content.to_owned(),
        mode: 0o644,
    })
}

/// Everything below a directory but the journals: kind and permissions, and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("what it is");
            let inner = path.strip_prefix(root).expect("below the root").to_owned();
            if inner.starts_with("var") {
                continue;
            }
            let content = match (meta.is_symlink(), meta.is_file()) {
                (true, _) => fs::read_link(&path)
                    .expect("a link")
                    .into_os_string()
                    .into_encoded_bytes(),
                (_, true) => fs::read(&path).expect("a file"),
                _ => Vec::new(),
            };
            if meta.is_dir() {
                walk(root, &path, found);
            }
            found.insert(inner, (meta.mode(), content));
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// A line for whoever reads the test's output.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn hands(root: &Path) -> Hands {
    Hands::directory(root, None, SECOND).expect("a root")
}

/// A configuration space with the capabilities of an Express port: Express at 0x40, ACS at 0x100, AER after it.
fn space(noise: &[u8]) -> Vec<u8> {
    let mut space: Vec<u8> = noise.iter().copied().cycle().take(4096).collect();
    space[0..4].copy_from_slice(&[0xb5, 0x10, 0x64, 0x87]);
    space[0x06] |= 0x10;
    space[0x0e] = 0x01;
    space[0x34] = 0x40;
    space[0x40..0x42].copy_from_slice(&[0x10, 0x00]);
    space[0x100..0x104].copy_from_slice(&0x1201_000d_u32.to_le_bytes());
    space[0x120..0x124].copy_from_slice(&0x0001_0001_u32.to_le_bytes());
    // Registers that are all ones are those of a device that is gone.
    for register in [0x48, 0x106] {
        space[register] &= 0x7f;
    }
    space
}

const PORT: &str = "0000:02:00.0";

/// One change out of a few kinds, by numbers that the test draws.
#[derive(Debug, Clone)]
enum Draw {
    Config { acs: bool, mask: u16, value: u16 },
    Write { file: usize, content: String },
    Remove { file: usize },
    Attribute { value: String },
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![
        (any::<bool>(), any::<u16>(), any::<u16>()).prop_map(|(acs, mask, value)| Draw::Config {
            acs,
            // The top bit stays: all ones are no value of a register that answers.
            mask: mask & 0x7f7f,
            value
        }),
        (0..FILES.len(), "[a-z =;\n]{0,40}").prop_map(|(file, content)| Draw::Write { file, content }),
        (0..FILES.len()).prop_map(|file| Draw::Remove { file }),
        "[a-zA-Z]{1,8}".prop_map(|value| Draw::Attribute { value }),
    ]
}

const FILES: [&str; 4] = [
    "/etc/modprobe.d/zz-gdr.conf",
    "/etc/a/b/c.conf",
    "/etc/default/grub",
    "/etc/x",
];
const ATTRIBUTE: &str = "/sys/kernel/iommu_groups/1/type";

/// The plan that the draws are, told from what a plan maker would see at each step.
fn drawn(root: &Path, draws: &[Draw]) -> Vec<Action> {
    let mut files: BTreeMap<&str, Option<Vec<u8>>> = FILES
        .iter()
        .map(|path| (*path, fs::read(root.join(&path[1..])).ok()))
        .collect();
    let mut config = fs::read(root.join("sys/bus/pci/devices").join(PORT).join("config")).expect("a space");
    let mut attribute = fs::read_to_string(root.join(&ATTRIBUTE[1..]))
        .expect("an attribute")
        .trim()
        .to_owned();
    let mut actions = Vec::new();
    for draw in draws {
        match draw {
            Draw::Config { acs, mask, value } => {
                let (capability, offset, at) = match acs {
                    true => (Capability::ACS, 6, 0x106),
                    false => (Capability::EXPRESS, 8, 0x48),
                };
                let old = u16::from_le_bytes([config[at], config[at + 1]]);
                let new = old & !mask | value & mask;
                config[at..at + 2].copy_from_slice(&new.to_le_bytes());
                actions.push(Action::WriteConfig(ConfigWrite {
                    bdf: PORT.parse().expect("an address"),
                    capability,
                    offset,
                    width: 2,
                    mask: (*mask).into(),
                    old: old.into(),
                    new: new.into(),
                }));
            }
            Draw::Write { file, content } => {
                let path = FILES[*file];
                actions.push(write(path, files[path].as_deref(), content));
                files.insert(path, Some(content.clone().into_bytes()));
            }
            Draw::Remove { file } => {
                let path = FILES[*file];
                if let Some(old) = files.insert(path, None).flatten() {
                    actions.push(Action::RemoveFile {
                        path: path.to_owned(),
                        old: sha256sum(&old),
                    });
                }
            }
            Draw::Attribute { value } => {
                actions.push(Action::WriteAttribute {
                    path: ATTRIBUTE.to_owned(),
                    old: attribute.clone(),
                    new: value.clone(),
                });
                attribute.clone_from(value);
            }
        }
    }
    actions
}

fn laid_out(noise: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path();
    let device = root.join("sys/bus/pci/devices").join(PORT);
    fs::create_dir_all(&device).expect("directories");
    fs::write(device.join("config"), space(noise)).expect("a space");
    fs::create_dir_all(root.join("sys/kernel/iommu_groups/1")).expect("directories");
    fs::write(root.join(&ATTRIBUTE[1..]), "DMA-FQ\n").expect("an attribute");
    fs::create_dir_all(root.join("etc/default")).expect("directories");
    fs::write(root.join("etc/default/grub"), "GRUB_TIMEOUT=5\n").expect("a file");
    fs::set_permissions(root.join("etc/default/grub"), fs::Permissions::from_mode(0o600)).expect("permissions");
    dir
}

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
    // The rebuild ends otherwise than well when it is made again, and that is said.
    let undone = undo(&with, None, Some("a"), false).expect("an undo");
    assert!(!undone.whole, "{undone:?}");

    let journal = apply(&hands(dir.path()), &run(0), &moment("a"));
    assert!(journal.is_ok_and(|journal| journal.state == JournalState::Applied));
}

/// Roots that want to be left, or to hold us: nothing is written, inside or out.
#[test]
fn a_hostile_root_is_neither_left_nor_half_changed() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("victim.conf"), "theirs\n").expect("a file");
    let path = "/etc/modprobe.d/victim.conf";
    let theirs: &[u8] = b"theirs\n";
    type Make = fn(&Path, &Path);
    let cases: [(&str, Option<&[u8]>, Make, &str); 5] = [
        (
            "the file is a link out of the root",
            Some(theirs),
            |etc, outside| {
                fs::create_dir(etc.join("modprobe.d")).expect("a directory");
                symlink(outside.join("victim.conf"), etc.join("modprobe.d/victim.conf")).expect("a link");
            },
            "symbolic link",
        ),
        (
            "the file is a link that leads nowhere",
            None,
            |etc, _| {
                fs::create_dir(etc.join("modprobe.d")).expect("a directory");
                symlink("nowhere", etc.join("modprobe.d/victim.conf")).expect("a link");
            },
            "symbolic link",
        ),
        (
            "the file is a pipe",
            None,
            |etc, _| {
                fs::create_dir(etc.join("modprobe.d")).expect("a directory");
                let pipe = etc.join("modprobe.d/victim.conf");
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &pipe,
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::RUSR,
                    0,
                )
                .expect("a pipe");
            },
            "not a regular file",
        ),
        (
            "the file is a directory",
            None,
            |etc, _| {
                fs::create_dir_all(etc.join("modprobe.d/victim.conf")).expect("a directory");
            },
            "not a regular file",
        ),
        (
            "the directory is a file",
            None,
            |etc, _| {
                fs::write(etc.join("modprobe.d"), "").expect("a file");
            },
            "modprobe.d",
        ),
    ];
    for (about, old, make, says) in cases {
        let dir = laid_out(&[3]);
        make(&dir.path().join("etc"), outside.path());
        let before = tree(dir.path());
        let error = match apply(
            &hands(dir.path()),
            &plan(vec![write(path, old, "ours\n")]),
            &moment("a"),
        ) {
            Err(error) => error.to_string(),
            Ok(journal) => panic!("{about}: {journal:?}"),
        };
        assert!(error.contains(says), "{about}: {error}");
        assert_eq!(tree(dir.path()), before, "{about}");
        assert_eq!(
            fs::read(outside.path().join("victim.conf")).expect("a file"),
            theirs,
            "{about}"
        );
    }
}

/// A directory that is a link is followed inside the root, as the machine itself would: never out of it.
#[test]
fn a_directory_that_leads_out_leads_into_the_root() {
    let outside = tempfile::tempdir().expect("a directory");
    let dir = laid_out(&[3]);
    symlink(outside.path(), dir.path().join("etc/modprobe.d")).expect("a link");
    let inside = dir
        .path()
        .join(outside.path().strip_prefix("/").expect("an absolute path"));
    let action = write("/etc/modprobe.d/zz-gdr.conf", None, "ours\n");
    // Where the link leads there is nothing inside the root: a link that dangles.
    let error = apply(&hands(dir.path()), &plan(vec![action.clone()]), &moment("a")).expect_err("it dangles");
    assert!(error.to_string().contains("/etc/modprobe.d"), "{error}");
    fs::create_dir_all(&inside).expect("directories");
    let before = tree(dir.path());
    let journal = apply(&hands(dir.path()), &plan(vec![action]), &moment("a")).expect("it is made");
    assert_eq!(journal.state, JournalState::Applied);
    assert_eq!(
        fs::read_to_string(inside.join("zz-gdr.conf")).expect("inside"),
        "ours\n"
    );
    assert_eq!(
        fs::read_dir(outside.path()).expect("a directory").count(),
        0,
        "nothing is outside"
    );
    assert!(undo(&hands(dir.path()), None, Some("a"), false).expect("an undo").whole);
    assert_eq!(tree(dir.path()), before);
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

/// A file system that is full, one that is read-only, and a file that is immutable. They are mounted in a name space of our own.
#[test]
fn what_cannot_be_written_changes_nothing() {
    if !(need(Need::Root) && need(Need::Namespace)) {
        return;
    }
    for (about, prepare) in [
        (
            "full",
            "mount -t tmpfs -o size=16k none etc && head -c 12k /dev/zero > etc/filler",
        ),
        ("read-only", "mount -t tmpfs none etc && mount -o remount,ro etc"),
        ("immutable", "mkdir -p etc/modprobe.d && chattr +i etc/modprobe.d"),
    ] {
        let dir = laid_out(&[3]);
        let script = format!(
            "cd '{root}' && {prepare} && ls -lR etc > before; '{test}' --exact wrapped --nocapture; code=$?; ls -lR etc > after; \
             chattr -i etc/modprobe.d 2>/dev/null; cmp before after || exit 9; exit $code",
            root = dir.path().display(),
            test = std::env::current_exe().expect("this test").display(),
        );
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", &script])
            .env("GDR_WRAPPED_ROOT", dir.path());
        let output = command.output().expect("unshare of util-linux");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{about}: {said}");
        assert!(said.contains("WRAPPED"), "{about}: {said}");
    }
}

/// The part of the test above that runs in the name space; nothing on its own.
#[test]
fn wrapped() {
    let Some(root) = std::env::var_os("GDR_WRAPPED_ROOT") else {
        return;
    };
    let root = Path::new(&root);
    let long = "x".repeat(9000);
    let error = apply(
        &hands(root),
        &plan(vec![write("/etc/modprobe.d/zz-gdr.conf", None, &long)]),
        &moment("a"),
    )
    .expect_err("it cannot be written");
    say(&format!("WRAPPED {error}"));
    assert!(error.to_string().contains("/etc/modprobe.d"), "{error}");
    assert!(matches!(
        undo(&hands(root), None, Some("a"), false),
        Err(Error::NothingToUndo)
    ));
}

/// The calls by which a repair changes anything; the old kernel's names among them are those of other architectures.
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
                    .args(["--exact", "wrapped_part", "--test-threads", "1"])
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
