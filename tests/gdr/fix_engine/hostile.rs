//! Roots with links out, blocking files, or unwritable file systems.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use gdr::fix::Error;
use gdr::model::JournalState;

use crate::fix_engine::plans::{apply, laid_out, say, tree, undo, write};

/// Nothing is written inside or outside of a hostile root.
#[test]
fn hostile_root_is_not_changed() {
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
                symlink(outside.join("victim.conf"), etc.join("modprobe.d/victim.conf"))
                    .expect("a link");
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
        let error = match apply(dir.path(), vec![write(path, old, "ours\n")]) {
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

/// A directory link is resolved inside the root.
#[test]
fn directory_link_stays_in_root() {
    let outside = tempfile::tempdir().expect("a directory");
    let dir = laid_out(&[3]);
    symlink(outside.path(), dir.path().join("etc/modprobe.d")).expect("a link");
    let inside = dir.path().join(outside.path().strip_prefix("/").expect("an absolute path"));
    let action = write("/etc/modprobe.d/zz-gdr.conf", None, "ours\n");
    // A dangling link inside the root.
    let error = apply(dir.path(), vec![action.clone()]).expect_err("it dangles");
    assert!(error.to_string().contains("/etc/modprobe.d"), "{error}");
    fs::create_dir_all(&inside).expect("directories");
    let before = tree(dir.path());
    let journal = apply(dir.path(), vec![action]).expect("it is made");
    assert_eq!(journal.state, JournalState::Applied);
    assert_eq!(fs::read_to_string(inside.join("zz-gdr.conf")).expect("inside"), "ours\n");
    assert_eq!(fs::read_dir(outside.path()).expect("a directory").count(), 0, "nothing is outside");
    assert!(undo(dir.path()).expect("an undo").whole);
    assert_eq!(tree(dir.path()), before);
}

/// A full file system, a read-only one, and an immutable file, mounted in a mount namespace.
#[test]
#[ignore = "needs root, a mount namespace"]
fn write_errors_change_nothing() {
    for (about, prepare) in [
        ("full", "mount -t tmpfs -o size=16k none etc && head -c 12k /dev/zero > etc/filler"),
        ("read-only", "mount -t tmpfs none etc && mount -o remount,ro etc"),
        ("immutable", "mkdir -p etc/modprobe.d && chattr +i etc/modprobe.d"),
    ] {
        let dir = laid_out(&[3]);
        let script = format!(
            "cd '{root}' && {prepare} && ls -lR etc > before; '{test}' --exact fix_engine::hostile::wrapped --nocapture; code=$?; ls -lR etc > after; \
             chattr -i etc/modprobe.d 2>/dev/null; cmp before after || exit 9; exit $code",
            root = dir.path().display(),
            test = std::env::current_exe().expect("this test").display(),
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).env("GDR_WRAPPED_ROOT", dir.path());
        let output = command.output().expect("unshare of util-linux");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{about}: {text}");
        assert!(text.contains("WRAPPED"), "{about}: {text}");
    }
}

/// The part of the test above in the namespace; does nothing by itself.
#[test]
fn wrapped() {
    let Some(root) = std::env::var_os("GDR_WRAPPED_ROOT") else {
        return;
    };
    let root = Path::new(&root);
    let long = "x".repeat(9000);
    let error = apply(root, vec![write("/etc/modprobe.d/zz-gdr.conf", None, &long)])
        .expect_err("it cannot be written");
    say(&format!("WRAPPED {error}"));
    assert!(error.to_string().contains("/etc/modprobe.d"), "{error}");
    assert!(matches!(undo(root), Err(Error::NothingToUndo)));
}
