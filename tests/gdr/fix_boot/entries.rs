//! Kernel parameters through boot loader entries: grubby and systemd-boot.

use super::{CMDLINE, KERNEL, PORTS, assert_restored, boot, failed, flat, machine, running};
use crate::support::Bench;
use serde_json::{Value, json};

/// Fedora's boot loader entries, which grubby edits.
fn fedora(options: &str) -> Value {
    json!({"files": {"usr/sbin/grubby": "", "boot/loader/entries/a.conf": format!("title Linux\noptions root=/dev/sda1 ro{options}\n")}})
}

/// A stand-in after grubby's manual: removes and adds arguments in every entry.
fn add_grubby(bench: &Bench) {
    bench.tool(
        "grubby",
        r#"for word; do case "$word" in
  --remove-args=*) off=${word#--remove-args=}; sed -i "s|^\(options.*\) $off\( .*\)\{0,1\}$|\1\2|" "$GDR_ROOT/boot/loader/entries/a.conf" ;;
  --args=*) on=${word#--args=}; sed -i "s|^options.*|& $on|" "$GDR_ROOT/boot/loader/entries/a.conf" ;;
esac; done"#,
    );
}

#[test]
#[ignore = "needs lspci"]
fn grubby_sets_single_port_only() {
    let line = format!("{KERNEL} pci=realloc");
    let bench = machine(&[running("6.17.0-1", &line), fedora(" pci=realloc")]);
    add_grubby(&bench);
    let before = bench.tree();
    let persist = ["fix-acs", "--device", "0000:02:00.0", "--persist", "cmdline", "--yes"];
    bench.repair(&persist).assert_code(0);
    // A port given by address also loses egress control.
    let word = "pci=realloc,config_acs=x0100x1@0000:02:00.0";
    assert_eq!(
        bench.calls(),
        [format!("grubby --update-kernel=ALL --remove-args=pci=realloc --args={word}")]
    );
    bench.assert_nothing_to_change(&persist);
    let entry = bench.text("boot/loader/entries/a.conf");
    assert!(entry.ends_with(&format!(" {word}\n")), "{entry}");
    boot(&bench, 1, &format!("{KERNEL} {word}"));
    assert_eq!(failed(&bench), [PORTS[1]]);
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(
        bench.calls(),
        [format!("grubby --update-kernel=ALL --remove-args={word} --args=pci=realloc")]
    );
    boot(&bench, 2, &line);
    assert_restored(&bench, &before);

    // No quoting of ';' suits boot loader entries, /etc/default/grub and /etc/kernel/cmdline alike.
    let run = bench.repair(&CMDLINE);
    run.assert_code(1);
    assert!(
        flat(&run).contains("contains one:") && flat(&run).contains("--persist unit"),
        "{}",
        run.stdout
    );
    assert_eq!(bench.tree(), before);
}

#[test]
#[ignore = "needs lspci"]
fn systemd_boot_entries_have_no_quotes() {
    // Four bytes of attributes, and "systemd-boot 255" in UTF-16.
    let info: String = "systemd-boot 255\0"
        .encode_utf16()
        .map(|unit| format!("{:02x}{:02x}", unit & 0xff, unit >> 8))
        .collect();
    let files = json!({"files": {
        "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": {"hex": format!("06000000{info}")},
        "usr/bin/kernel-install": "", "usr/sbin/update-grub": "",
        "lib/modules/6.17.0-1/vmlinuz": "", "boot/vmlinuz-6.1.0-9": "", "lib/modules/6.1.0-9/modules.dep": "",
        "boot/loader/entries/x-6.17.0-1.conf": format!("options {KERNEL}\n"),
        "boot/loader/entries/x-6.1.0-9.conf": format!("options {KERNEL}\n"),
    }, "empty_dirs": ["etc/kernel"]});
    let bench = machine(&[running("6.17.0-1", &format!("initrd=\\x\\initrd {KERNEL}")), files]);
    // Like 90-loaderentry.install: the file's words, else the running kernel's except two.
    bench.tool(
        "kernel-install",
        r#"if [ -f "$GDR_ROOT/etc/kernel/cmdline" ]; then options=$(tr -s '\n\t ' ' ' < "$GDR_ROOT/etc/kernel/cmdline")
else options="BOOT_IMAGE=/boot/vmlinuz-6.17.0-1 root=/dev/sda1 ro"; fi
echo "options ${options% }" > "$GDR_ROOT/boot/loader/entries/x-$2.conf""#,
    );
    let before = bench.tree();
    bench.repair(&CMDLINE).assert_code(0);
    assert_eq!(
        bench.calls(),
        [
            "kernel-install add 6.1.0-9 /boot/vmlinuz-6.1.0-9",
            "kernel-install add 6.17.0-1 /lib/modules/6.17.0-1/vmlinuz"
        ]
    );
    let cmdline = "root=/dev/sda1 ro pci=config_acs=xx100x1@0000:02:00.0;xx100x1@0000:02:01.0";
    assert_eq!(bench.text("etc/kernel/cmdline"), format!("{cmdline}\n"));
    bench.assert_nothing_to_change(&CMDLINE);
    let entry = bench.text("boot/loader/entries/x-6.17.0-1.conf");
    assert_eq!(entry, format!("options {cmdline}\n"));
    boot(&bench, 1, cmdline);
    assert!(bench.holds("pcie.acs", &[]));
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls().len(), 2);
    boot(&bench, 2, &format!("initrd=\\x\\initrd {KERNEL}"));
    assert_restored(&bench, &before);
    assert_eq!(failed(&bench), PORTS);
}
