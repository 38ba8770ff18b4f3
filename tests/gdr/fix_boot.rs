//! Repairs that survive a reboot, on machines in directories: a systemd unit, and kernel parameters through GRUB, grubby and
//! systemd-boot. The test simulates reboots with gdr's files and the real programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Bench, Run, ended, merge};
use serde_json::{Value, json};

const PORTS: [&str; 2] = ["0000:02:00.0", "0000:02:01.0"];

/// Standard output on one line.
fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A switch above GPU and NIC whose two ports redirect, as set by the kernel with an IOMMU: SV RR CR UF.
fn redirecting(patch: Value) -> Bench {
    let mut machine = json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "001d"}, "02:01.0": {"acs_ctl": "001d"}}}}}}}}});
    merge(&mut machine, &patch);
    Bench::of("sound", &machine)
}

/// A running kernel: release and command line.
fn running(release: &str, line: &str) -> Value {
    json!({"files": {
        "proc/sys/kernel/osrelease": [release],
        "proc/cmdline": [line],
        "proc/sys/kernel/random/boot_id": ["11111111-1111-1111-1111-111111111111"],
    }})
}

fn machine(parts: &[Value]) -> Bench {
    let mut whole = json!({});
    for part in parts {
        merge(&mut whole, part);
    }
    redirecting(whole)
}

fn write(bench: &Bench, path: &str, text: &str) {
    let path = bench.root().join(path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
    fs::write(path, text).expect("a file");
}

/// Reads or writes a port's ACS control with the real setpci.
fn acs(bench: &Bench, port: &str, value: Option<&str>) -> String {
    let register = match value {
        Some(value) => format!("ECAP_ACS+6.w={value}"),
        None => "ECAP_ACS+6.w".to_owned(),
    };
    let setpci = Command::new("setpci")
        .args(["-A", "linux-sysfs", "-O"])
        .arg(format!(
            "sysfs.path={}",
            bench.root().join("sys/bus/pci").display()
        ))
        .args(["-s", port, &register])
        .output()
        .expect("setpci");
    assert!(setpci.status.success(), "{setpci:?}");
    String::from_utf8(setpci.stdout)
        .expect("a number")
        .trim()
        .to_owned()
}

/// A boot: the firmware leaves control registers 0; the kernel sets SV RR CR UF of every port, except those in `config_acs`
/// (a mask over the firmware's value) or `disable_acs_redir` (before 6.11: then clears RR CR EC).
fn boot(bench: &Bench, nth: u32, line: &str) {
    write(bench, "proc/cmdline", &format!("{line}\n"));
    write(
        bench,
        "proc/sys/kernel/random/boot_id",
        &format!("{nth:08}-2222-2222-2222-222222222222\n"),
    );
    let options: Vec<&str> = line
        .split(' ')
        .filter_map(|word| word.strip_prefix("pci="))
        .flat_map(|list| list.split(','))
        .collect();
    let last = |name: &str| {
        options
            .iter()
            .rev()
            .find_map(|option| option.strip_prefix(name))
            .unwrap_or("")
    };
    for port in PORTS {
        let mut control = 0x1d;
        if last("disable_acs_redir=")
            .split(';')
            .any(|device| device == port)
        {
            control &= !0x2c;
        }
        let entry = last("config_acs=")
            .split(';')
            .find_map(|entry| entry.strip_suffix(&format!("@{port}")));
        if let Some(mask) = entry {
            control = mask
                .chars()
                .fold(0, |bits, digit| bits << 1 | u32::from(digit == '1'));
        }
        acs(bench, port, Some(&format!("{control:04x}")));
    }
}

fn failed(bench: &Bench) -> Vec<String> {
    let found = bench.outcomes("pcie.acs", &[]);
    found
        .into_iter()
        .filter(|(_, o)| o == "fail")
        .map(|(subject, _)| subject)
        .collect()
}

fn says(bench: &Bench, check: &str, words: &str) -> bool {
    let run = bench.gdr(&["doctor", "--format", "json", "--only", check]);
    let report: Value = serde_json::from_str(&run.stdout).expect("a report");
    report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .any(|finding| {
            finding["message"]
                .as_str()
                .is_some_and(|message| message.contains(words))
        })
}

fn nothing_more(bench: &Bench, args: &[&str]) {
    let again = bench.repair(args);
    ended(&again, 0);
    assert!(
        again.stdout.contains("Nothing to change"),
        "{}",
        again.stdout
    );
}

fn journals(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.root().join("var/lib/gdr/journal")).expect("journals");
    let mut names: Vec<String> = names
        .map(|name| {
            name.expect("a name")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

const KERNEL: &str = "BOOT_IMAGE=/boot/vmlinuz-6.17.0-1 root=/dev/sda1 ro";

#[test]
#[ignore = "needs systemd, lspci, a home directory that only its owner can change"]
fn unit_repeats_change_at_every_boot() {
    let bench = machine(&[
        running("6.17.0-1", KERNEL),
        json!({"files": {"usr/bin/systemctl": ""}}),
    ])
    .with_safe_binary();
    let before = bench.tree();
    let persist = ["fix-acs", "--persist", "unit", "--yes"];
    let run = bench.repair(&persist);
    ended(&run, 0);
    assert_eq!(PORTS.map(|port| acs(&bench, port, None)), ["0011", "0011"]);
    nothing_more(&bench, &persist);

    let unit = bench.root().join("etc/systemd/system/gdr-acs.service");
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output()
        .expect("systemd-analyze");
    assert!(
        verify.status.success() && verify.stderr.is_empty(),
        "{verify:?}"
    );
    let expected = bench
        .root()
        .join("etc/systemd/system/multi-user.target.wants/gdr-acs.service");
    assert_eq!(
        fs::read_link(expected).expect("a link"),
        Path::new("/etc/systemd/system/gdr-acs.service")
    );
    let text = bench.text("etc/systemd/system/gdr-acs.service");
    assert!(
        text.contains("Before=slurmd.service docker.service containerd.service"),
        "{text}"
    );
    let command = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let argv: Vec<&str> = command.split(' ').collect();
    assert_eq!(argv[0], bench.binary().to_str().expect("a path"));
    assert_eq!(argv[1..], ["fix-acs", "--yes"]);

    // Each boot sets the bits and the unit clears them. Only one journal of it remains, and one interrupted by the end of a
    // boot does not block the next.
    for nth in 1..=3 {
        boot(&bench, nth, KERNEL);
        assert_eq!(failed(&bench), PORTS);
        if nth == 3 {
            let path = bench.root().join("var/lib/gdr/journal/3.json");
            let cut = fs::read_to_string(&path)
                .expect("a journal")
                .replace("\"applied\"", "\"open\"");
            fs::write(path, cut).expect("a journal");
        }
        ended(&bench.gdr(&argv[1..]), 0);
        assert!(bench.holds("pcie.acs", &[]));
        assert_eq!(
            journals(&bench),
            ["1.json".to_owned(), format!("{}.json", nth + 1)]
        );
    }

    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(failed(&bench), PORTS);
    let undo = bench.repair(&["undo"]);
    ended(&undo, 0);
    assert!(
        undo.stdout.contains("already reset by a reboot"),
        "{}",
        undo.stdout
    );
    write(
        &bench,
        "proc/sys/kernel/random/boot_id",
        "11111111-1111-1111-1111-111111111111\n",
    );
    assert_eq!(bench.tree(), before);
}

#[test]
#[ignore = "needs a home directory that only its owner can change"]
fn unit_uses_chosen_ports() {
    let files = json!({"files": {"usr/bin/systemctl": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), files.clone()]).with_safe_binary();
    for (args, end) in [
        (
            vec!["--pair", "GPU0", "mlx5_0"],
            "fix-acs --yes --pair GPU0 mlx5_0",
        ),
        (
            vec!["--device", "0000:02:00.0", "--force"],
            "fix-acs --yes --device=0000:02:00.0 --force",
        ),
        (vec!["--all-bridges"], "fix-acs --yes --all-bridges"),
    ] {
        let plan = bench.gdr(
            &[
                &["fix-acs", "--persist", "unit", "--dry-run"],
                args.as_slice(),
            ]
            .concat(),
        );
        ended(&plan, 0);
        let line = plan
            .stdout
            .lines()
            .find(|line| line.contains("ExecStart="))
            .expect("a command");
        assert!(line.ends_with(end), "{line}");
    }
    let without = json!({"files": {"usr/bin/other": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), without]).with_safe_binary();
    let plan = bench.gdr(&["fix-acs", "--persist", "unit", "--dry-run"]);
    ended(&plan, 1);
    assert!(
        plan.stdout.contains("There is no systemctl:"),
        "{}",
        plan.stdout
    );
}

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
fn update_grub(bench: &Bench, name: &str) {
    bench.tool(
        name,
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
fn grubs_line(bench: &Bench) -> String {
    let cfg = bench.text("boot/grub/grub.cfg");
    let line = cfg
        .lines()
        .find(|line| line.trim_start().starts_with("linux"))
        .expect("an entry");
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
    let bench = machine(&[
        running("6.17.0-1", &line),
        debian(&settings, "default/grub.d"),
    ]);
    update_grub(&bench, "update-grub");
    let built = Command::new(bench.tools().join("update-grub"))
        .env("GDR_ROOT", bench.root())
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    bench.calls();
    let before = bench.tree();
    let persist = ["fix-acs", "--persist", "cmdline", "--yes"];
    let run = bench.repair(&persist);
    ended(&run, 0);
    assert_eq!(bench.calls(), ["update-grub"]);
    let drop_in = bench.text("etc/default/grub.d/zz-gdr-acs.cfg");
    let expected = r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=config_acs=\"xx100x1@0000:02:00.0;xx100x1@0000:02:01.0;xx111x1@0000:05:00.0\"""#;
    assert_eq!(drop_in.lines().last(), Some(expected));
    nothing_more(&bench, &persist);

    // GRUB's configuration was not regenerated: doctor says why the change did not last.
    boot(&bench, 1, &line);
    assert_eq!(failed(&bench), PORTS);
    assert!(says(
        &bench,
        "pcie.acs",
        "/etc/default/grub.d/zz-gdr-acs.cfg passes pci=config_acs="
    ));
    // It was regenerated.
    let cmdline = grubs_line(&bench);
    assert!(
        cmdline.ends_with(
            "pci=config_acs=xx100x1@0000:02:00.0;xx100x1@0000:02:01.0;xx111x1@0000:05:00.0"
        ),
        "{cmdline}"
    );
    boot(&bench, 2, &cmdline);
    assert_eq!(PORTS.map(|port| acs(&bench, port, None)), ["0011", "0011"]);
    assert!(bench.holds("pcie.acs", &[]));
    nothing_more(&bench, &persist);
    // A kernel without the parameter.
    acs(&bench, PORTS[0], Some("001d"));
    assert!(says(
        &bench,
        "pcie.acs",
        "The kernel's command line names this port (pci=config_acs=)"
    ));
    acs(&bench, PORTS[0], Some("0011"));

    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(bench.calls(), ["update-grub"]);
    let line_after = grubs_line(&bench);
    assert!(
        line_after.ends_with(&format!("ro quiet {theirs}")),
        "{line_after}"
    );
    boot(&bench, 3, &line);
    write(
        &bench,
        "proc/sys/kernel/random/boot_id",
        "11111111-1111-1111-1111-111111111111\n",
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(failed(&bench), PORTS);
}

#[test]
#[ignore = "needs GRUB's scripts, root, lspci"]
fn edits_settings_without_drop_ins() {
    let settings = "# my own\nGRUB_CMDLINE_LINUX_DEFAULT='quiet'\n\nGRUB_CMDLINE_LINUX=\"net.ifnames=0\"   # odd";
    let bench = machine(&[
        running("6.8.0-60-generic", KERNEL),
        debian(settings, "elsewhere"),
    ]);
    update_grub(&bench, "update-grub");
    let built = Command::new(bench.tools().join("update-grub"))
        .env("GDR_ROOT", bench.root())
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let before = bench.tree();
    let persist = ["fix-acs", "--persist", "cmdline", "--yes"];
    ended(&bench.repair(&persist), 0);
    let text = bench.text("etc/default/grub");
    let added = text
        .strip_prefix(settings)
        .expect("all that was there, byte for byte");
    let expected = r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=disable_acs_redir=\"0000:02:00.0;0000:02:01.0\"" # gdr: acs"#;
    assert_eq!(added, format!("\n{expected}\n"));
    nothing_more(&bench, &persist);
    let cmdline = grubs_line(&bench);
    assert!(
        cmdline.ends_with("ro net.ifnames=0 quiet pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"),
        "{cmdline}"
    );
    boot(&bench, 1, &cmdline);
    assert_eq!(PORTS.map(|port| acs(&bench, port, None)), ["0011", "0011"]);
    assert!(bench.holds("pcie.acs", &[]));
    ended(&bench.repair(&["undo"]), 0);
    boot(&bench, 2, KERNEL);
    write(
        &bench,
        "proc/sys/kernel/random/boot_id",
        "11111111-1111-1111-1111-111111111111\n",
    );
    assert_eq!(bench.tree(), before);
}

#[test]
fn refuses_kernels_without_parameter() {
    for (release, words) in [
        (
            "6.12.41-generic",
            "neither pci=config_acs= nor pci=disable_acs_redir=",
        ),
        ("6.14.0-1", "fixed in 6.15"),
        ("4.18.0-553.el8", "needs 4.19"),
        ("custom", "not a kernel release"),
    ] {
        let bench = machine(&[
            running(release, KERNEL),
            json!({"files": {"usr/sbin/update-grub": ""}}),
        ]);
        let before = bench.tree();
        let run = bench.repair(&["fix-acs", "--persist", "cmdline", "--yes"]);
        ended(&run, 1);
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
    ended(&run, 1);
    assert!(
        flat(&run).contains("No supported boot loader found"),
        "{}",
        run.stdout
    );
}

#[test]
fn lockdown_allows_kernel_parameter() {
    let locked = json!({"files": {"sys/kernel/security/lockdown": ["none [integrity] confidentiality"], "usr/sbin/update-grub": "",
        "usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n"}, "empty_dirs": ["etc/default/grub.d"]});
    let bench = machine(&[running("6.17.0-1", KERNEL), locked]);
    let plan = bench.gdr(&["fix-acs", "--persist", "cmdline", "--dry-run"]);
    ended(&plan, 0);
    assert!(
        plan.stdout.contains("zz-gdr-acs.cfg") && !plan.stdout.contains("setpci"),
        "{}",
        plan.stdout
    );
    ended(
        &bench.gdr(&["fix-acs", "--persist", "unit", "--dry-run"]),
        1,
    );
}

#[test]
#[ignore = "needs a home directory that only its owner can change"]
fn snapshot_gives_the_same_plan() {
    let files = json!({"files": {"usr/sbin/update-grub": "", "etc/default/grub": "GRUB_DEFAULT=0\n",
        "usr/sbin/grub-mkconfig": ". ${sysconfdir}/default/grub\n", "usr/bin/systemctl": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), files]).with_safe_binary();
    let file = bench.tools().join("machine.json");
    let file = file.to_str().expect("a path");
    ended(&bench.gdr(&["snapshot", "--output", file]), 0);
    for how in ["unit", "cmdline"] {
        let args = ["fix-acs", "--persist", how, "--dry-run", "--format", "json"];
        let there = crate::support::Gdr::of(bench.binary())
            .args(args)
            .args(["--from", file])
            .run();
        let here = bench.gdr(&args);
        ended(&here, 0);
        ended(&there, 0);
        let repairs = |run: &Run| {
            serde_json::from_str::<Value>(&run.stdout).expect("a plan")["repairs"].clone()
        };
        assert_eq!(repairs(&here), repairs(&there));
    }
}

/// Fedora's boot loader entries, which grubby edits.
fn fedora(options: &str) -> Value {
    json!({"files": {"usr/sbin/grubby": "", "boot/loader/entries/a.conf": format!("title Linux\noptions root=/dev/sda1 ro{options}\n")}})
}

/// A stand-in after grubby's manual: removes and adds arguments in every entry.
fn grubby(bench: &Bench) {
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
    grubby(&bench);
    let before = bench.tree();
    let persist = [
        "fix-acs",
        "--device",
        "0000:02:00.0",
        "--persist",
        "cmdline",
        "--yes",
    ];
    ended(&bench.repair(&persist), 0);
    // A port given by address also loses egress control.
    let word = "pci=realloc,config_acs=x0100x1@0000:02:00.0";
    assert_eq!(
        bench.calls(),
        [format!(
            "grubby --update-kernel=ALL --remove-args=pci=realloc --args={word}"
        )]
    );
    nothing_more(&bench, &persist);
    let entry = bench.text("boot/loader/entries/a.conf");
    assert!(entry.ends_with(&format!(" {word}\n")), "{entry}");
    boot(&bench, 1, &format!("{KERNEL} {word}"));
    assert_eq!(failed(&bench), [PORTS[1]]);
    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(
        bench.calls(),
        [format!(
            "grubby --update-kernel=ALL --remove-args={word} --args=pci=realloc"
        )]
    );
    boot(&bench, 2, &line);
    write(
        &bench,
        "proc/sys/kernel/random/boot_id",
        "11111111-1111-1111-1111-111111111111\n",
    );
    assert_eq!(bench.tree(), before);

    // No quoting of ';' suits boot loader entries, /etc/default/grub and /etc/kernel/cmdline alike.
    let run = bench.repair(&["fix-acs", "--persist", "cmdline", "--yes"]);
    ended(&run, 1);
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
    let bench = machine(&[
        running("6.17.0-1", &format!("initrd=\\x\\initrd {KERNEL}")),
        files,
    ]);
    // Like 90-loaderentry.install: the file's words, else the running kernel's except two.
    bench.tool(
        "kernel-install",
        r#"if [ -f "$GDR_ROOT/etc/kernel/cmdline" ]; then options=$(tr -s '\n\t ' ' ' < "$GDR_ROOT/etc/kernel/cmdline")
else options="BOOT_IMAGE=/boot/vmlinuz-6.17.0-1 root=/dev/sda1 ro"; fi
echo "options ${options% }" > "$GDR_ROOT/boot/loader/entries/x-$2.conf""#,
    );
    let before = bench.tree();
    let persist = ["fix-acs", "--persist", "cmdline", "--yes"];
    ended(&bench.repair(&persist), 0);
    assert_eq!(
        bench.calls(),
        [
            "kernel-install add 6.1.0-9 /boot/vmlinuz-6.1.0-9",
            "kernel-install add 6.17.0-1 /lib/modules/6.17.0-1/vmlinuz"
        ]
    );
    let cmdline = "root=/dev/sda1 ro pci=config_acs=xx100x1@0000:02:00.0;xx100x1@0000:02:01.0";
    assert_eq!(bench.text("etc/kernel/cmdline"), format!("{cmdline}\n"));
    nothing_more(&bench, &persist);
    let entry = bench.text("boot/loader/entries/x-6.17.0-1.conf");
    assert_eq!(entry, format!("options {cmdline}\n"));
    boot(&bench, 1, cmdline);
    assert!(bench.holds("pcie.acs", &[]));
    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(bench.calls().len(), 2);
    boot(&bench, 2, &format!("initrd=\\x\\initrd {KERNEL}"));
    write(
        &bench,
        "proc/sys/kernel/random/boot_id",
        "11111111-1111-1111-1111-111111111111\n",
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(failed(&bench), PORTS);
}
