//! Interrupted and tampered repairs and undos through the built binary: forged journals, kills, large files, and a gdr that
//! others may replace.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::support::{Bench, copy_gdr};
use serde_json::{Value, json};

/// A machine whose driver needs two options, written by two fixes into one file.
fn two_options() -> Bench {
    let bench = Bench::of(
        "sound",
        &json!({"files": {
            "proc/driver/nvidia/version": ["NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024"],
            "sys/module/nvidia/version": ["470.256.02"],
        }}),
    );
    for library in ["nvml", "cuda"] {
        fs::remove_file(bench.root().join(format!("gdr/{library}.json")))
            .expect("a library's answers");
    }
    bench
}

/// Runs gdr and kills it at its `nth` rename; returns whether it ended before that.
fn killed_at_rename(bench: &Bench, nth: usize, args: &[&str]) -> bool {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat,renameat2"])
        .args(["-e", &format!("inject=renameat,renameat2:signal=KILL:when={nth}")])
        .arg(env!("CARGO_BIN_EXE_gdr"))
        .args(args)
        .arg("--sysroot")
        .arg(bench.root());
    command.output().expect("strace").status.success()
}

#[test]
#[ignore = "needs strace"]
fn undo_survives_kill_at_any_rename() {
    let bench = two_options();
    let before = bench.tree();
    let make = ["fix", "peer-mapping", "stream-memops", "--yes"];
    for nth in 1.. {
        bench.gdr(&make).assert_code(0);
        assert!(bench.text("etc/modprobe.d/zz-gdr.conf").contains("PeerMappingOverride=1"));
        let whole = killed_at_rename(&bench, nth, &["undo"]);
        let again = bench.gdr(&["undo"]);
        // Or everything was done before the kill.
        let is_done = again.code == 0 || again.stderr.contains("there is no repair to");
        assert!(is_done, "killed at rename {nth}: {again:?}");
        assert_eq!(bench.tree(), before, "killed at rename {nth}");
        if whole {
            // An intermediate state, and the records of both steps and of the whole.
            assert!(nth > 3, "there were only {} renames", nth - 1);
            break;
        }
    }
}

#[test]
fn repairs_and_restores_large_modprobe_file() {
    let comment = "# what somebody wrote down about this machine\n".repeat(9600);
    let bench = Bench::of(
        "sound",
        &json!({"files": {"etc/modprobe.d/site.conf": format!("{comment}install nvidia /bin/true\n")}}),
    );
    assert!(bench.text("etc/modprobe.d/site.conf").len() > 441_000);
    let before = bench.tree();
    bench.gdr(&["fix", "modprobe", "--yes"]).assert_code(0);
    assert!(bench.text("etc/modprobe.d/site.conf").ends_with("# gdr: install nvidia /bin/true\n"));
    bench.gdr(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
}

/// Writes a journal of one step.
fn plant(root: &Path, step: &Value) {
    let journals = root.join("var/lib/gdr/journal");
    fs::create_dir_all(&journals).expect("directories");
    fs::create_dir_all(root.join("var/lib/gdr/saved")).expect("a directory");
    let mut entry = json!({"fix": "x", "about": "x", "progress": "done", "step": {"about": "x"}});
    for (name, value) in step.as_object().expect("an object") {
        entry[name] = value.clone();
        // An old format, whose command lines were run unchecked.
        entry["step"][name] = value.clone();
    }
    let journal = json!({
        "schema": "gdr.journal/1", "number": 1, "gdr": "0", "taken": "2026-01-01T00:00:00Z", "boot": null,
        "state": "applied", "steps": 1, "entries": [entry],
    });
    fs::write(journals.join("1.json"), journal.to_string()).expect("a journal");
    for path in
        ["var/lib/gdr/journal/1.json", "var/lib/gdr/journal", "var/lib/gdr/saved", "var/lib/gdr"]
    {
        let mode = if path.ends_with("json") { 0o600 } else { 0o700 };
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode))
            .expect("permissions");
    }
}

#[test]
fn journal_cannot_choose_programs() {
    let mark = tempfile::tempdir().expect("a directory");
    let touch = format!("touch {}", mark.path().join("was-run").display());
    let argv = |words: &[&str]| json!({"action": "run_command", "argv": ["true"], "expected": [0], "undo": {"command": words}});
    for step in [
        argv(&["/bin/sh", "-c", &touch]),
        argv(&["../../../../../../../bin/sh", "-c", &touch]),
        argv(&["sh", "-c", &touch]),
        argv(&["systemctl", "disable", "--root=/other", "sshd.service"]),
        json!({"action": "run", "operation": "disable_unit", "unit": "--root=/other"}),
    ] {
        let bench = Bench::of("sound", &json!({}));
        plant(&bench.root(), &step);
        let run = bench.repair(&["undo"]);
        assert_eq!(run.code, 2, "{step}: {run:?}");
        assert!(run.stderr.contains("invalid journal /var/lib/gdr/journal/1.json"), "{run:?}");
        assert!(!mark.path().join("was-run").exists(), "{step}");
    }
}

#[test]
#[ignore = "needs root"]
fn rejects_journal_of_another_user() {
    let bench = Bench::of("sound", &json!({"files": {"etc/x": ["theirs"]}}));
    let root = bench.root();
    let step = json!({"action": "replace_file", "path": "/etc/x", "after": {
        "sha256": "ed9c86a61e05623abeb71f9eeda8780dab0e28a2f69bb54813f99a2ec4b3602f", "mode": 0o644, "uid": 0, "gid": 0}});
    plant(&root, &step);
    chown(root.join("var/lib/gdr/journal/1.json"), Some(65534), Some(65534)).expect("an owner");
    let before = bench.tree();
    let run = bench.gdr(&["undo"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("owned by user 65534"), "{run:?}");
    assert_eq!(bench.tree(), before);
    // The same journal of this user is trusted: its file is removed.
    chown(root.join("var/lib/gdr/journal/1.json"), Some(0), Some(0)).expect("an owner");
    bench.gdr(&["undo"]).assert_code(0);
    assert!(!root.join("etc/x").exists());
}

/// A unit runs gdr as root at every boot, so others must not be able to replace it.
#[test]
fn unit_rejects_replaceable_program() {
    let bench = Bench::of(
        "sound",
        &json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
            "02:00.0": {"acs_ctl": "001d"}, "02:01.0": {"acs_ctl": "001d"}}}}}}}}}),
    );
    let before = bench.tree();
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    let program = dir.path().join("gdr");
    copy_gdr(&program);
    let output = Command::new(&program)
        .args(["fix-acs", "--persist", "unit", "--yes", "--sysroot"])
        .arg(bench.root())
        .output()
        .expect("a copy of gdr");
    let stdout =
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout.contains("other users can write to /tmp (mode 1777)"), "{stdout}");
    assert!(stdout.contains("sudo install -o root -g root -m 755"), "{stdout}");
    assert_eq!(bench.tree(), before);
}
