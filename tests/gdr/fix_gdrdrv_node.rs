//! gdrdrv-node on machines in directories with real device nodes; the real udevadm interprets the rule.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use crate::support::Bench;
use serde_json::{Value, json};

const CHECK: [&str; 2] = ["--profile", "gdrcopy"];

fn bench(patch: &Value) -> Bench {
    let bench = Bench::outside_dev("sound", patch);
    // The real programs, on the root's nodes.
    bench.tool("mknod", "exec /usr/bin/mknod \"$1\" \"$2\" \"$GDR_ROOT$3\" \"$4\" \"$5\" \"$6\"");
    bench.tool("rm", "exec /bin/rm \"$1\" \"$GDR_ROOT$2\"");
    bench.tool("chmod", "exec /bin/chmod \"$1\" \"$GDR_ROOT$2\"");
    bench.tool("udevadm", "exit 0");
    fs::create_dir_all(bench.root().join("dev")).expect("a directory");
    bench
}

fn node(bench: &Bench) -> Option<(u32, u32, u32)> {
    let meta = fs::symlink_metadata(bench.root().join("dev/gdrdrv")).ok()?;
    let device = meta.rdev();
    assert!(meta.file_type().is_char_device());
    Some((major_of(device), (device & 0xff) as u32, meta.permissions().mode() & 0o7777))
}

/// Linux's `major` for small numbers.
fn major_of(device: u64) -> u32 {
    ((device >> 8) & 0xfff) as u32
}

fn outcome(bench: &Bench) -> String {
    bench.outcomes("gdrdrv.node", &CHECK).remove("/dev/gdrdrv").expect("a finding")
}

fn make(bench: &Bench, major: u32, mode: &str) {
    bench.root_command(&format!("rm -f dev/gdrdrv && mknod -m {mode} dev/gdrdrv c {major} 0"));
}

/// The next boot: an empty /dev, another major number, and the rule's command as parsed by the real udevadm, with /dev and
/// /proc/devices of the root.
fn reboot(bench: &Bench, major: u32) {
    let devices = bench.text("proc/devices");
    let lines: Vec<String> =
        devices
            .lines()
            .map(|line| {
                if line.ends_with(" gdrdrv") { format!("{major} gdrdrv") } else { line.to_owned() }
            })
            .collect();
    fs::write(bench.root().join("proc/devices"), lines.join("\n") + "\n").expect("numbers");
    bench.root_command("rm -f dev/gdrdrv && : > sys/module/gdrdrv/uevent && : > dev/null");
    let script = r#"
        mount --bind "$1/sys" /sys && mount --bind "$1/etc/udev" /etc/udev || exit 1
        SYSTEMD_DEVICE_VERIFY_SYSFS=0 udevadm test --action=add /sys/module/gdrdrv > "$1/run" 2> "$1/said" || exit 1
        mount --bind "$1/proc/devices" /proc/devices && mount --bind "$1/dev" /dev || exit 1
        command=$(sed -n "s/^run: '\(.*\)'\$/\1/p" "$1/run")
        eval "$command"
    "#;
    let mut unshare = Command::new("unshare");
    let output =
        unshare.args(["-m", "sh", "-c", script, "sh"]).arg(bench.root()).output().expect("unshare");
    let log = fs::read_to_string(bench.root().join("said")).unwrap_or_default();
    assert!(output.status.success(), "{}{log}", String::from_utf8_lossy(&output.stderr));
    // udevadm names the line of an invalid rule.
    let of_the_rule: Vec<&str> =
        log.lines().filter(|line| line.contains("gdr-gdrdrv.rules:")).collect();
    assert!(of_the_rule.iter().all(|line| line.contains("RUN '")), "{of_the_rule:?}");
    bench.root_command("rm run said sys/module/gdrdrv/uevent dev/null");
}

#[test]
#[ignore = "needs root, udevadm, a mount namespace"]
fn makes_missing_node_now_and_at_boot() {
    let bench = bench(
        &json!({"files": {"proc/sys/kernel/random/boot_id": ["11111111-0000-0000-0000-000000000000"]}}),
    );
    let before = bench.tree();
    assert_eq!(outcome(&bench), "warn");
    let run = bench.repair(&["fix", "gdrdrv-node", "--yes", "--profile", "gdrcopy"]);
    run.assert_code(0);
    run.assert_stdout("gdrdrv.node: fixed.");
    assert_eq!(node(&bench), Some((240, 0, 0o666)));
    assert_eq!(outcome(&bench), "pass");
    bench.assert_nothing_to_change(&["fix", "gdrdrv-node", "--yes"]);
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench), "warn");

    bench.repair(&["fix", "gdrdrv-node", "--yes"]).assert_code(0);
    reboot(&bench, 241);
    assert_eq!(node(&bench), Some((241, 0, 0o666)), "made by the rule, with the new number");
    assert_eq!(outcome(&bench), "pass");
    // A later undo removes the rule but not the new boot's node.
    let boot = bench.root().join("proc/sys/kernel/random/boot_id");
    fs::write(boot, "22222222-0000-0000-0000-000000000000\n").expect("another boot");
    let undo = bench.repair(&["undo"]);
    undo.assert_code(0);
    undo.assert_stdout("already reset by a reboot");
    assert!(!bench.root().join("etc/udev").exists());
    assert_eq!(node(&bench), Some((241, 0, 0o666)));
}

#[test]
#[ignore = "needs root"]
fn replaces_node_with_wrong_number_and_undoes_it() {
    let bench = bench(&json!({}));
    make(&bench, 239, "0640");
    let before = bench.tree();
    assert_eq!(outcome(&bench), "warn");
    bench.repair(&["fix", "gdrdrv-node", "--yes"]).assert_code(0);
    assert_eq!(
        bench.calls(),
        ["udevadm control --reload", "rm -f /dev/gdrdrv", "mknod -m 0666 /dev/gdrdrv c 240 0"]
    );
    assert_eq!(node(&bench), Some((240, 0, 0o666)));
    assert_eq!(outcome(&bench), "pass");
    bench.assert_nothing_to_change(&["fix", "gdrdrv-node", "--yes"]);

    // Repeats an interrupted undo from the earlier journal.
    let journal = bench.root().join("var/lib/gdr/journal/1.json");
    let kept = fs::read(&journal).expect("the journal");
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(node(&bench), Some((239, 0, 0o640)));
    fs::write(&journal, kept).expect("the journal of before");
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(node(&bench), Some((239, 0, 0o640)));
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench), "warn");
}

#[test]
#[ignore = "needs root"]
fn opens_closed_node() {
    let bench = bench(&json!({}));
    make(&bench, 240, "0600");
    let before = bench.tree();
    bench.repair(&["fix", "gdrdrv-node", "--yes"]).assert_code(0);
    assert_eq!(bench.calls(), ["udevadm control --reload", "chmod 0666 /dev/gdrdrv"]);
    assert_eq!(outcome(&bench), "pass");
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["chmod 0600 /dev/gdrdrv", "udevadm control --reload"]);
    assert_eq!(bench.tree(), before);
}

#[test]
#[ignore = "needs root"]
fn reloads_udev_rules() {
    let bench = bench(&json!({}));
    make(&bench, 240, "0666");
    let before = bench.tree();
    // The rule exists after the repair, and is gone after the undo.
    let log = "if [ -e \"$GDR_ROOT/etc/udev/rules.d/71-gdr-gdrdrv.rules\" ]; then echo rule; else echo none; fi \
               >> \"$(dirname \"$0\")/calls\"";
    // Without udevd, udevadm of systemd 252 exits with 1, older ones with 2.
    for code in [0, 1, 2] {
        bench.tool("udevadm", &format!("{log}\nexit {code}"));
        bench.repair(&["fix", "gdrdrv-node", "--yes"]).assert_code(0);
        assert_eq!(bench.calls(), ["udevadm control --reload", "rule"]);
        bench.repair(&["fix", "gdrdrv-node", "--yes"]).assert_code(0);
        assert!(bench.calls().is_empty(), "told of nothing new");
        bench.repair(&["undo"]).assert_code(0);
        assert_eq!(bench.calls(), ["udevadm control --reload", "none"]);
        assert_eq!(bench.tree(), before);
    }
    // Any other status is an error, and the rule is restored.
    bench.tool("udevadm", "exit 3");
    let run = bench.repair(&["fix", "gdrdrv-node", "--yes"]);
    run.assert_code(1);
    assert!(
        run.stdout.contains("udevadm control --reload' failed with exit status 3")
            || run.stderr.contains("failed with exit status 3"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

#[test]
fn refuses_non_node_and_missing_module() {
    let bench = bench(&json!({}));
    fs::write(bench.root().join("dev/gdrdrv"), "somebody's notes\n").expect("a file");
    let before = bench.tree();
    let run = bench.repair(&["fix", "gdrdrv-node", "--yes"]);
    run.assert_code(1);
    run.assert_stdout("is not a device node");
    assert_eq!(bench.tree(), before);

    let bench = self::bench(&json!({"files": {"proc/devices": ["Character devices:", "  1 mem"]}}));
    let run = bench.repair(&["fix", "gdrdrv-node", "--yes"]);
    run.assert_code(1);
    run.assert_stdout("gdrdrv is not loaded");
}
