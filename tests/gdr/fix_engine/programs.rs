//! Programs of a repair and its undo: only those of a closed list; stand-ins or printed commands for a directory; a clean
//! environment; the lock that they inherit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gdr::fix::{Back, Error, UndoOptions};
use gdr::model::{Action, ImageBuild, InitramfsBuilder, JournalState, Operation};
use gdr::world::Executor;

use crate::fix_engine::plans::{SECOND, apply, executor, laid_out, moment, path, plan, tree, undo};

/// A directory with a program that records its arguments and then runs this script.
fn tool(name: &str, script: &str) -> tempfile::TempDir {
    let tools = tempfile::tempdir().expect("a directory");
    let program = tools.path().join(name);
    let text = format!("#!/bin/sh\necho \"$GDR_ROOT $*\" >> \"$0.log\"\n{script}\n");
    fs::write(&program, text).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    tools
}

fn with(root: &Path, tools: &Path) -> Executor {
    Executor::directory(root, Some(tools), SECOND * 60).expect("a root")
}

#[test]
fn commands_are_printed_or_run_by_stand_ins() {
    let dir = laid_out(&[1]);
    let tools = tool("update-initramfs", "exit 0");
    let actions = || {
        plan(vec![
            Action::Run(Operation::RebuildInitramfs { builder: InitramfsBuilder::UpdateInitramfs }),
            Action::Run(Operation::UpdateGrub),
        ])
    };
    let mut reported = Vec::new();
    let mut report = |line: &str| reported.push(line.to_owned());
    let executor = with(dir.path(), tools.path());
    let journal =
        gdr::fix::apply(&executor, &actions(), &moment("a"), &mut report).expect("it is made");
    assert_eq!(journal.state, JournalState::Applied);
    assert_eq!(reported, ["runs: update-initramfs -u -k all", "runs: update-grub"]);
    let log = fs::read_to_string(tools.path().join("update-initramfs.log")).expect("it was run");
    assert_eq!(log, format!("{} -u -k all\n", dir.path().display()));
    // The rebuild fails during the undo, and is reported.
    fs::write(tools.path().join("update-initramfs"), "#!/bin/sh\nexit 5\n").expect("a program");
    let undone = gdr::fix::undo(&executor, &UndoOptions::default(), &mut |_| {}).expect("an undo");
    assert!(!undone.whole, "{undone:?}");

    let journal =
        apply(dir.path(), actions().steps().map(|(_, step)| step.action.clone()).collect());
    assert!(journal.is_ok_and(|journal| journal.state == JournalState::Applied));
}

#[test]
fn program_gets_clean_environment() {
    let dir = laid_out(&[1]);
    let tools =
        tool("update-grub", "env | cut -d= -f1 | sort > \"$GDR_ROOT/etc/environment-names\"");
    let script = format!(
        "exec '{}' --exact fix_engine::programs::wrapped_environment --nocapture",
        std::env::current_exe().expect("this test").display()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .envs([
            ("BASH_ENV", "/etc/x"),
            ("MODPROBE_OPTIONS", "-n"),
            ("LD_PRELOAD_NOT", "x"),
            ("IFS_X", "x"),
        ])
        .envs([("GDR_WRAPPED_ROOT", dir.path()), ("GDR_WRAPPED_TOOLS", tools.path())])
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = fs::read_to_string(dir.path().join("etc/environment-names")).expect("it was run");
    // The shell adds PWD; some add SHLVL and _.
    let names: Vec<&str> =
        names.lines().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(names, ["GDR_ROOT", "LC_ALL", "PATH"]);
}

/// The child process of the test above; does nothing by itself.
#[test]
fn wrapped_environment() {
    let (Some(root), Some(tools)) =
        (std::env::var_os("GDR_WRAPPED_ROOT"), std::env::var_os("GDR_WRAPPED_TOOLS"))
    else {
        return;
    };
    let executor = with(Path::new(&root), Path::new(&tools));
    let plan = plan(vec![Action::Run(Operation::UpdateGrub)]);
    gdr::fix::apply(&executor, &plan, &moment("a"), &mut |_| {}).expect("it is made");
}

/// gdr is killed while its program runs: the program holds the lock until it ends, and others are told its name.
#[test]
#[ignore = "slow: waits for timeouts"]
fn surviving_program_holds_lock() {
    let dir = laid_out(&[1]);
    let tools = tool("update-grub", "sleep 5; echo done > \"$GDR_ROOT/etc/grub-was-updated\"");
    let mut gdr = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "fix_engine::programs::wrapped_environment", "--nocapture"])
        .envs([("GDR_WRAPPED_ROOT", dir.path()), ("GDR_WRAPPED_TOOLS", tools.path())])
        .stdout(Stdio::null())
        .spawn()
        .expect("this test");
    let log = tools.path().join("update-grub.log");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !log.exists() {
        assert!(Instant::now() < deadline, "the program did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    gdr.kill().expect("it is killed");
    gdr.wait().expect("its end");
    let error = undo(dir.path()).expect_err("the program works on");
    assert!(matches!(&error, Error::Busy { .. }), "{error}");
    assert!(error.to_string().contains("update-grub (pid"), "{error}");
    assert!(!dir.path().join("etc/grub-was-updated").exists(), "the program had ended already");
    let undone = loop {
        match undo(dir.path()) {
            Err(Error::Busy { .. }) => std::thread::sleep(Duration::from_millis(50)),
            undone => break undone.expect("an undo"),
        }
        assert!(Instant::now() < deadline, "the lock is never free");
    };
    assert!(
        dir.path().join("etc/grub-was-updated").exists(),
        "the lock was free before the program ended"
    );
    assert!(undone.whole, "{:?}", undone.steps);
}

/// The old initramfs is kept, restored by an undo, and left alone if it was rebuilt since.
#[test]
fn restores_image_unless_rebuilt_since() {
    let image = "/boot/initrd.img-6.8.0-60-generic";
    let dir = laid_out(&[1]);
    let root = dir.path();
    fs::create_dir(root.join("boot")).expect("a directory");
    let file = root.join(&image[1..]);
    let old: Vec<u8> = (0..=255_u8).cycle().take(3 << 20).collect();
    fs::write(&file, &old).expect("an image");
    let before = tree(root);
    let build = Action::RebuildImage(ImageBuild {
        path: path(image),
        builder: InitramfsBuilder::UpdateInitramfs,
        release: Some("6.8.0-60-generic".try_into().expect("a release")),
    });
    let tools = tool("update-initramfs", &format!("echo new > \"$GDR_ROOT{image}\""));
    let executor = with(root, tools.path());
    let make = || {
        gdr::fix::apply(&executor, &plan(vec![build.clone()]), &moment("a"), &mut |_| {})
            .expect("it is made")
    };
    let take_back =
        || gdr::fix::undo(&executor, &UndoOptions::default(), &mut |_| {}).expect("an undo");
    make();
    assert_eq!(fs::read_to_string(&file).expect("an image"), "new\n");
    assert_eq!(
        fs::read(root.join("boot/initrd.img-6.8.0-60-generic.gdr-old")).expect("the old one"),
        old
    );
    assert!(take_back().whole);
    assert_eq!(tree(root), before);

    make();
    fs::write(&file, "somebody's\n").expect("a change");
    let undone = take_back();
    assert!(
        !undone.whole && format!("{:?}", undone.steps).contains("was rebuilt since"),
        "{undone:?}"
    );
    let forced = UndoOptions { force: true, ..UndoOptions::default() };
    assert!(gdr::fix::undo(&executor, &forced, &mut |_| {}).expect("an undo").whole);
    assert_eq!(tree(root), before);

    // The program fails: the image is restored at once.
    fs::write(
        tools.path().join("update-initramfs"),
        format!("#!/bin/sh\necho half > \"$GDR_ROOT{image}\"; exit 1\n"),
    )
    .expect("a program");
    let failed = gdr::fix::apply(&executor, &plan(vec![build.clone()]), &moment("a"), &mut |_| {});
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(tree(root), before);

    // Without a program the user has to run it, and nothing is kept.
    let printed = apply(root, vec![build]).expect("it is made");
    assert_eq!(printed.state, JournalState::Applied);
    assert_eq!(tree(root), before);
    let undone = undo(root).expect("an undo");
    assert!(undone.whole && undone.steps == [(0, Back::Nothing)], "{undone:?}");
}

/// For a machine in a directory, only programs of the closed list are run, whatever the directory contains.
#[test]
fn does_not_run_programs_of_the_root() {
    let dir = laid_out(&[1]);
    let program: PathBuf = dir.path().join("usr/sbin/update-grub");
    fs::create_dir_all(program.parent().expect("a directory")).expect("directories");
    fs::write(&program, "#!/bin/sh\ntouch \"$(dirname \"$0\")/was-run\"\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let journal = apply(dir.path(), vec![Action::Run(Operation::UpdateGrub)]).expect("it is made");
    assert_eq!(journal.entries[0].progress, gdr::model::Progress::Printed);
    assert!(!dir.path().join("usr/sbin/was-run").exists());
    drop(executor(dir.path()));
}
