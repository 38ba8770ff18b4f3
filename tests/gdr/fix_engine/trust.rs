//! Which journals are trusted and readable.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use gdr::fix::Error;
use gdr::model::Action;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fix_engine::plans::{apply, laid_out, tree, undo, write};

const JOURNAL: &str = "var/lib/gdr/journal/1.json";

fn made() -> tempfile::TempDir {
    let dir = laid_out(&[3]);
    apply(dir.path(), vec![write("/etc/default/grub", Some(b"GRUB_TIMEOUT=5\n"), "ours\n")])
        .expect("it is made");
    dir
}

/// Undo and repair both fail with these words and change nothing.
fn refuses(root: &Path, words: &str) {
    let before = tree(root);
    for error in [
        undo(root).expect_err("an undo is refused"),
        apply(root, vec![write("/etc/x", None, "x")]).expect_err("a repair is refused"),
    ] {
        assert!(error.to_string().contains(words), "'{words}' is not in: {error}");
    }
    assert_eq!(tree(root), before);
}

#[test]
fn rejects_writable_journal_directories() {
    for (path, mode) in [
        ("var/lib/gdr", 0o777),
        ("var/lib/gdr", 0o770),
        ("var/lib/gdr/journal", 0o1777),
        ("var/lib/gdr/saved", 0o702),
        ("var/lib/gdr/lock", 0o666),
        (JOURNAL, 0o620),
    ] {
        let dir = made();
        let path = dir.path().join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
        refuses(dir.path(), "writable by others");
    }
}

#[test]
#[ignore = "needs root"]
fn rejects_journals_of_another_user() {
    for path in
        ["var/lib/gdr", "var/lib/gdr/journal", "var/lib/gdr/saved", "var/lib/gdr/lock", JOURNAL]
    {
        let dir = made();
        chown(dir.path().join(path), Some(65534), None).expect("another owner");
        refuses(dir.path(), "owned by user 65534, but gdr runs as user 0");
    }
}

#[test]
fn rejects_journal_behind_link() {
    for path in ["var/lib/gdr/journal", JOURNAL] {
        let dir = made();
        let path = dir.path().join(path);
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("it is moved");
        symlink("/elsewhere", &path).expect("a link");
        assert!(undo(dir.path()).is_err());
        assert_eq!(
            fs::read_to_string(dir.path().join("etc/default/grub")).expect("a file"),
            "ours\n"
        );
    }
}

#[test]
fn permissions_ignore_umask() {
    let dir = laid_out(&[3]);
    let script = format!(
        "umask 077; exec '{}' --exact fix_engine::trust::wrapped_umask --nocapture",
        std::env::current_exe().expect("this test").display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("GDR_WRAPPED_UMASK", dir.path())
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mode =
        |path: &str| fs::metadata(dir.path().join(path)).expect("it is there").mode() & 0o7777;
    assert_eq!(mode("etc/a"), 0o755);
    assert_eq!(mode("etc/a/b"), 0o755);
    assert_eq!(mode("etc/a/b/c.conf"), 0o644);
    assert_eq!(mode("var/lib"), 0o755);
    assert_eq!(mode("var/lib/gdr"), 0o700);
    assert_eq!(mode(JOURNAL), 0o600);
}

/// The child process of the test above, with another umask; does nothing by itself.
#[test]
fn wrapped_umask() {
    if let Some(root) = std::env::var_os("GDR_WRAPPED_UMASK") {
        apply(Path::new(&root), vec![write("/etc/a/b/c.conf", None, "ours\n")])
            .expect("it is made");
    }
}

#[test]
fn undo_without_repair_creates_nothing() {
    let dir = laid_out(&[3]);
    assert!(matches!(undo(dir.path()), Err(Error::NothingToUndo)));
    assert!(!dir.path().join("var").exists());
}

#[test]
fn does_not_overwrite_highest_number() {
    let dir = made();
    let last = dir.path().join("var/lib/gdr/journal/4294967295.json");
    let mut journal: Value =
        serde_json::from_slice(&fs::read(dir.path().join(JOURNAL)).expect("a journal"))
            .expect("JSON");
    journal["number"] = json!(u32::MAX);
    fs::write(&last, journal.to_string()).expect("a journal");
    fs::set_permissions(&last, fs::Permissions::from_mode(0o600)).expect("permissions");
    let kept = fs::read(&last).expect("a journal");
    let error = apply(dir.path(), vec![write("/etc/x", None, "x")]).expect_err("no number is left");
    assert!(
        error.to_string().contains("4294967295.json has the highest possible number"),
        "{error}"
    );
    assert_eq!(fs::read(&last).expect("a journal"), kept);
}

/// Only exact numbers are names of journals.
#[test]
fn only_plain_numbers_are_journals() {
    let dir = made();
    for name in ["01.json", "+1.json", "1.json.bak", "x.json", " 2.json"] {
        fs::write(dir.path().join("var/lib/gdr/journal").join(name), "{}").expect("a file");
    }
    assert!(undo(dir.path()).expect("an undo").whole);
}

#[test]
fn saves_and_restores_large_file() {
    let dir = laid_out(&[3]);
    let root = dir.path();
    // All byte values, which JSON would have to escape.
    let large: Vec<u8> = (0..=255_u8).cycle().take(700_000).collect();
    fs::write(root.join("etc/x"), &large).expect("a file");
    let before = tree(root);
    let text = "# a line of an administrator\n".repeat(24_000);
    let actions: Vec<Action> = vec![
        write("/etc/x", Some(&large), &text),
        write("/etc/x", Some(text.as_bytes()), &text.to_uppercase()),
        write("/etc/x", Some(text.to_uppercase().as_bytes()), &text),
    ];
    apply(root, actions).expect("it is made");
    let journal = fs::metadata(root.join(JOURNAL)).expect("a journal").len();
    assert!(journal < 8192, "{journal} bytes");
    assert!(undo(root).expect("an undo").whole);
    assert_eq!(tree(root), before);
    assert_eq!(
        fs::read_dir(root.join("var/lib/gdr/saved")).expect("a directory").count(),
        0,
        "nothing is kept of a repair that is undone"
    );
}

#[test]
fn refuses_too_large_file_first() {
    let dir = laid_out(&[3]);
    let root = dir.path();
    let large = vec![b'x'; (1 << 20) + 1];
    fs::write(root.join("etc/x"), &large).expect("a file");
    let before = tree(root);
    let actions =
        vec![write("/etc/a/b/c.conf", None, "first\n"), write("/etc/x", Some(&large), "y")];
    let error = apply(root, actions).expect_err("it is too large");
    assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
    assert_eq!(tree(root), before);
}

/// A forged journal, field by field, is rejected without panic, write or program.
#[test]
fn rejects_forged_journal() {
    let record = json!({"sha256": "0".repeat(64), "mode": 420, "uid": 0, "gid": 0});
    let entry = |action: Value| {
        let mut entry = json!({"fix": "x", "about": "x", "progress": "done"});
        for (name, value) in action.as_object().expect("an object") {
            entry[name] = value.clone();
        }
        entry
    };
    for action in [
        json!({"action": "run_command", "argv": ["/bin/sh", "-c", "touch /etc/x"], "expected": [0], "undo": "again"}),
        json!({"action": "run", "operation": "command", "argv": ["sh"]}),
        json!({"action": "run", "operation": "enable_unit", "unit": "--root=/other sshd.service"}),
        json!({"action": "run", "operation": "disable_unit", "unit": "-H.service"}),
        json!({"action": "run", "operation": "load_module", "module": "../x"}),
        json!({"action": "run", "operation": "make_grub_config", "program": "sh", "path": "/x"}),
        json!({"action": "run", "operation": "make_grub_config", "program": "grub_mkconfig", "path": "x"}),
        json!({"action": "replace_file", "path": "/etc/../../x", "after": record}),
        json!({"action": "replace_file", "path": "etc/x", "after": record}),
        json!({"action": "replace_file", "path": "/etc/x", "before": {"sha256": "../../../x", "mode": 420, "uid": 0, "gid": 0}}),
    ] {
        let dir = made();
        let journal = dir.path().join(JOURNAL);
        let mut text: Value =
            serde_json::from_slice(&fs::read(&journal).expect("a journal")).expect("JSON");
        text["entries"] = json!([entry(action.clone())]);
        fs::write(&journal, text.to_string()).expect("a journal");
        let before = tree(dir.path());
        let error = undo(dir.path()).expect_err("it is refused");
        assert!(matches!(error, Error::Journal { .. }), "{action}: {error}");
        assert_eq!(tree(dir.path()), before, "{action}");
    }
}

/// A modified copy is not restored.
#[test]
fn verifies_saved_copy() {
    let dir = made();
    let saved = dir.path().join("var/lib/gdr/saved");
    let kept =
        fs::read_dir(saved).expect("a directory").next().expect("a file").expect("a file").path();
    fs::write(&kept, "GRUB_TIMEOUT=7\n").expect("a change");
    let undone = undo(dir.path()).expect("an undo");
    assert!(!undone.whole);
    assert!(format!("{:?}", undone.steps).contains("it was changed"), "{:?}", undone.steps);
    assert_eq!(fs::read_to_string(dir.path().join("etc/default/grub")).expect("a file"), "ours\n");
}

/// Invalid values for paths, units and hashes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/etc/default/grub".to_owned()),
        Just("/etc/x".to_owned()),
        Just("/sys/kernel/iommu_groups/1/type".to_owned()),
        Just("/out/victim".to_owned()),
        Just("/etc/../../victim".to_owned()),
        Just("../victim".to_owned()),
        Just("gdr-acs.service".to_owned()),
        Just("--root=/.service".to_owned()),
        Just("nvidia".to_owned()),
        Just("; touch victim".to_owned()),
        Just(crate::fix_engine::plans::sha256sum(b"ours\n").to_string()),
        "\\PC{0,12}",
        "(/[a-z.]{1,4}){1,5}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        2 => any::<u32>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field(), inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

/// The fields of a step, and an unknown one.
fn field() -> impl Strategy<Value = String> {
    let fields = "action operation path before after created sha256 mode uid gid attributes old new unit module release image \
        program device gpu on major minor builder bdf capability offset width mask progress fix about other argv undo expected";
    prop::sample::select(fields.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn entry() -> impl Strategy<Value = Value> {
    let actions = [
        "write_config",
        "replace_file",
        "write_attribute",
        "rebuild_image",
        "run",
        "run_command",
        "x",
    ];
    let operations = [
        "reload_units",
        "enable_unit",
        "disable_unit",
        "start_unit",
        "restart_unit",
        "reload_udev_rules",
        "load_module",
        "rebuild_initramfs",
        "update_grub",
        "make_grub_config",
        "add_kernel_entry",
        "set_kernel_parameter",
        "set_non_prefetchable",
        "set_persistence_mode",
        "make_node",
        "remove_node",
        "set_node_mode",
        "x",
    ];
    let progress = ["begun", "done", "printed", "undone"];
    let record = || {
        (text(), any::<u16>()).prop_map(
            |(sha256, mode)| json!({"sha256": sha256, "mode": mode & 0o777, "uid": 0, "gid": 0}),
        )
    };
    let fields = prop::collection::btree_map(field(), value(), 0..6);
    (
        prop::sample::select(actions.to_vec()),
        prop::sample::select(operations.to_vec()),
        prop::sample::select(progress.to_vec()),
        (text(), text(), text(), text()),
        (record(), record(), any::<[bool; 2]>()),
        fields,
    )
        .prop_map(|(action, operation, progress, (path, unit, old, new), (before, after, has), fields)| {
            let mut entry = json!({
                "fix": "x", "about": "x", "progress": progress, "action": action, "operation": operation, "path": path,
                "unit": unit.clone(), "module": unit, "old": old, "new": new, "program": "grub_mkconfig", "builder": "dracut",
                "major": 1, "minor": 3, "mode": 438, "on": true, "release": "6.8", "image": path, "created": [path],
            });
            if has[0] {
                entry["before"] = before;
            }
            if has[1] {
                entry["after"] = after;
            }
            for (name, value) in fields {
                entry[name] = value;
            }
            entry
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a journal contains, nothing outside the root changes, and only the tools are run.
    #[test]
    fn forged_journal_stays_in_root(entries in prop::collection::vec(entry(), 1..5), force in any::<bool>()) {
        let outer = crate::support::scratch();
        let root = outer.path().join("root");
        fs::create_dir(&root).expect("a directory");
        let inner = crate::fix_engine::plans::laid_out_in_memory(&[3]);
        let copied = std::process::Command::new("cp").args(["-a"]).arg(inner.path().join(".")).arg(&root).status();
        assert!(copied.expect("cp").success());
        fs::write(outer.path().join("victim"), "theirs\n").expect("a file");
        symlink("../..", root.join("out")).expect("a link");
        let journals = root.join("var/lib/gdr/journal");
        fs::create_dir_all(&journals).expect("directories");
        let journal = json!({"schema": "gdr.journal/1", "number": 1, "gdr": "0", "taken": "", "boot": "a", "state": "applied",
            "steps": 1, "entries": entries});
        fs::write(journals.join("1.json"), journal.to_string()).expect("a journal");
        let names = |directory: &Path| {
            let mut names: Vec<_> = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect();
            names.sort();
            names
        };
        let outside = names(outer.path());
        let _ = crate::fix_engine::plans::undo_in(&root, "a", force);
        prop_assert_eq!(names(outer.path()), outside);
        prop_assert_eq!(fs::read_to_string(outer.path().join("victim")).expect("a file"), "theirs\n");
        // A second undo terminates too.
        let _ = crate::fix_engine::plans::undo_in(&root, "b", force);
    }
}
