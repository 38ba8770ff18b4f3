//! Kernel parameters through GRUB's settings.

use std::fs;

use super::{
    CMDLINE, KERNEL, PORTS, acs, assert_restored, boot, failed, flat, has_message, machine,
    running, set_acs,
};
use crate::support::Bench;
use serde_json::{Value, json};

/// Debian's GRUB with this machine's grub-mkconfig and 10_linux.
fn debian(settings: &str, scripts: &str) -> Value {
    let mkconfig = fs::read_to_string("/usr/sbin/grub-mkconfig").expect("grub-mkconfig");
    json!({"files": {
        "usr/sbin/update-grub": "#!/bin/sh\n",
        "usr/sbin/grub-mkconfig": mkconfig.replace("default/grub.d", scripts),
        "etc/default/grub": settings,
        "boot/vmlinuz-6.17.0-1": "",
        "boot/grub/grub.cfg": "",
    }, "empty_dirs": ["etc/default/grub.d"]})
}

/// A stand-in for update-grub, which runs the root's grub-mkconfig with a fixed root device.
fn add_update_grub(bench: &Bench) {
    bench.tool(
        "update-grub",
        r#"set -e
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir "$work/grub.d"
printf '#!/bin/sh\ncase "$*" in *target=device*) echo /dev/vda1 ;; *target=fs) echo ext2 ;; *) exit 1 ;; esac\n' > "$work/probe"
sed "s| /boot/vmlinuz-\* /vmlinuz-\* /boot/kernel-\*| $GDR_ROOT/boot/vmlinuz-*|" /etc/grub.d/10_linux > "$work/grub.d/10_linux"
chmod +x "$work/probe" "$work/grub.d/10_linux"
sed -e "s|^sysconfdir=.*|sysconfdir=$GDR_ROOT/etc|" -e "s|^grub_probe=.*|grub_probe=$work/probe|" \
    -e "s|^grub_mkconfig_dir=.*|grub_mkconfig_dir=$work/grub.d|" "$GDR_ROOT/usr/sbin/grub-mkconfig" > "$work/mkconfig"
sh "$work/mkconfig" 2>/dev/null | grep -v "$work" > "$work/cfg"
grub-script-check "$work/cfg"
cat "$work/cfg" > "$GDR_ROOT/boot/grub/grub.cfg""#,
    );
}

/// The command line of the first GRUB entry: quotes are removed, and an unquoted `;` ends it.
fn grub_cmdline(bench: &Bench) -> String {
    let cfg = bench.text("boot/grub/grub.cfg");
    let line = cfg.lines().find(|line| line.trim_start().starts_with("linux")).expect("an entry");
    let (mut text, mut quoted) = (String::new(), false);
    for c in line.trim().chars() {
        match c {
            '"' => quoted = !quoted,
            ';' if !quoted => break,
            '\t' => text.push(' '),
            c => text.push(c),
        }
    }
    let words: Vec<&str> = text.split_whitespace().skip(2).collect();
    format!("BOOT_IMAGE=/boot/vmlinuz-6.17.0-1 {}", words.join(" "))
}

#[test]
#[ignore = "needs GRUB's scripts, root, lspci"]
fn grub_sets_kernel_parameter() {
    // A user's own port, on the command line and in the settings.
    let theirs = "pci=realloc,config_acs=xx111x1@0000:05:00.0";
    let line = format!("{KERNEL} quiet {theirs}");
    let settings = format!(
        "# my own\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet {theirs}\"\nGRUB_CMDLINE_LINUX=\"\"\n"
    );
    let bench = machine(&[running("6.17.0-1", &line), debian(&settings, "default/grub.d")]);
    add_update_grub(&bench);
    bench.run_tool("update-grub", &[]);
    let before = bench.tree();
    let run = bench.repair(&CMDLINE);
    run.assert_code(0);
    assert_eq!(bench.calls(), ["update-grub"]);
    let drop_in = bench.text("etc/default/grub.d/zz-gdr-acs.cfg");
    let expected = r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=config_acs=\"xx100x1@0000:02:00.0;xx100x1@0000:02:01.0;xx111x1@0000:05:00.0\"""#;
    assert_eq!(drop_in.lines().last(), Some(expected));
    bench.assert_nothing_to_change(&CMDLINE);

    // GRUB's configuration was not regenerated: doctor says why the change did not last.
    boot(&bench, 1, &line);
    assert_eq!(failed(&bench), PORTS);
    assert!(has_message(
        &bench,
        "pcie.acs",
        "/etc/default/grub.d/zz-gdr-acs.cfg passes pci=config_acs="
    ));
    // It was regenerated.
    let cmdline = grub_cmdline(&bench);
    assert!(
        cmdline.ends_with(
            "pci=config_acs=xx100x1@0000:02:00.0;xx100x1@0000:02:01.0;xx111x1@0000:05:00.0"
        ),
        "{cmdline}"
    );
    boot(&bench, 2, &cmdline);
    assert_eq!(PORTS.map(|port| acs(&bench, port)), ["0011", "0011"]);
    assert!(bench.holds("pcie.acs", &[]));
    bench.assert_nothing_to_change(&CMDLINE);
    // A kernel without the parameter.
    set_acs(&bench, PORTS[0], "001d");
    assert!(has_message(
        &bench,
        "pcie.acs",
        "The kernel's command line names this port (pci=config_acs=)"
    ));
    set_acs(&bench, PORTS[0], "0011");

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["update-grub"]);
    let line_after = grub_cmdline(&bench);
    assert!(line_after.ends_with(&format!("ro quiet {theirs}")), "{line_after}");
    boot(&bench, 3, &line);
    assert_restored(&bench, &before);
    assert_eq!(failed(&bench), PORTS);
}

#[test]
#[ignore = "needs GRUB's scripts, root, lspci"]
fn edits_settings_without_drop_ins() {
    let settings = "# my own\nGRUB_CMDLINE_LINUX_DEFAULT='quiet'\n\nGRUB_CMDLINE_LINUX=\"net.ifnames=0\"   # odd";
    let bench = machine(&[running("6.8.0-60-generic", KERNEL), debian(settings, "elsewhere")]);
    add_update_grub(&bench);
    bench.run_tool("update-grub", &[]);
    let before = bench.tree();
    bench.repair(&CMDLINE).assert_code(0);
    let text = bench.text("etc/default/grub");
    let added = text.strip_prefix(settings).expect("all that was there, byte for byte");
    let expected = r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=disable_acs_redir=\"0000:02:00.0;0000:02:01.0\"" # gdr: acs"#;
    assert_eq!(added, format!("\n{expected}\n"));
    bench.assert_nothing_to_change(&CMDLINE);
    let cmdline = grub_cmdline(&bench);
    assert!(
        cmdline.ends_with("ro net.ifnames=0 quiet pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"),
        "{cmdline}"
    );
    boot(&bench, 1, &cmdline);
    assert_eq!(PORTS.map(|port| acs(&bench, port)), ["0011", "0011"]);
    assert!(bench.holds("pcie.acs", &[]));
    bench.repair(&["undo"]).assert_code(0);
    boot(&bench, 2, KERNEL);
    assert_restored(&bench, &before);
}

#[test]
fn refuses_kernels_without_parameter() {
    for (release, words) in [
        ("6.12.41-generic", "neither pci=config_acs= nor pci=disable_acs_redir="),
        ("6.14.0-1", "fixed in 6.15"),
        ("4.18.0-553.el8", "needs 4.19"),
        ("custom", "not a kernel release"),
    ] {
        let bench =
            machine(&[running(release, KERNEL), json!({"files": {"usr/sbin/update-grub": ""}})]);
        let before = bench.tree();
        let run = bench.repair(&CMDLINE);
        run.assert_code(1);
        let output = flat(&run);
        assert!(
            output.contains(words) && output.contains("gdr fix-acs --persist unit"),
            "{output}"
        );
        assert_eq!(bench.tree(), before);
    }
    let run = machine(&[running("6.17.0-1", KERNEL)]).repair(&[
        "fix-acs",
        "--persist",
        "cmdline",
        "--yes",
    ]);
    run.assert_code(1);
    assert!(flat(&run).contains("No supported boot loader found"), "{}", run.stdout);
}

#[test]
fn lockdown_allows_kernel_parameter() {
    let locked = json!({"files": {"sys/kernel/security/lockdown": ["none [integrity] confidentiality"], "usr/sbin/update-grub": "",
        "usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n"}, "empty_dirs": ["etc/default/grub.d"]});
    let bench = machine(&[running("6.17.0-1", KERNEL), locked]);
    let plan = bench.gdr(&["fix-acs", "--persist", "cmdline", "--dry-run"]);
    plan.assert_code(0);
    assert!(
        plan.stdout.contains("zz-gdr-acs.cfg") && !plan.stdout.contains("setpci"),
        "{}",
        plan.stdout
    );
    bench.gdr(&["fix-acs", "--persist", "unit", "--dry-run"]).assert_code(1);
}
