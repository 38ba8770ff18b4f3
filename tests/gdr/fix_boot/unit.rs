//! A systemd unit that repeats the change at every boot.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{KERNEL, PORTS, UNIT, acs, assert_restored, boot, failed, journals, machine, running};
use crate::support::{Gdr, Run};
use serde_json::{Value, json};

#[test]
#[ignore = "needs systemd, lspci, a home directory that only its owner can change"]
fn unit_repeats_change_at_every_boot() {
    let bench =
        machine(&[running("6.17.0-1", KERNEL), json!({"files": {"usr/bin/systemctl": ""}})])
            .with_safe_binary();
    let before = bench.tree();
    let run = bench.repair(&UNIT);
    run.assert_code(0);
    assert_eq!(PORTS.map(|port| acs(&bench, port)), ["0011", "0011"]);
    bench.assert_nothing_to_change(&UNIT);

    let unit = bench.root().join("etc/systemd/system/gdr-acs.service");
    let verify =
        Command::new("systemd-analyze").arg("verify").arg(&unit).output().expect("systemd-analyze");
    assert!(verify.status.success() && verify.stderr.is_empty(), "{verify:?}");
    let expected = bench.root().join("etc/systemd/system/multi-user.target.wants/gdr-acs.service");
    assert_eq!(
        fs::read_link(expected).expect("a link"),
        Path::new("/etc/systemd/system/gdr-acs.service")
    );
    let text = bench.text("etc/systemd/system/gdr-acs.service");
    assert!(text.contains("Before=slurmd.service docker.service containerd.service"), "{text}");
    let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
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
            let cut =
                fs::read_to_string(&path).expect("a journal").replace("\"applied\"", "\"open\"");
            fs::write(path, cut).expect("a journal");
        }
        bench.gdr(&argv[1..]).assert_code(0);
        assert!(bench.holds("pcie.acs", &[]));
        assert_eq!(journals(&bench), ["1.json".to_owned(), format!("{}.json", nth + 1)]);
    }

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(failed(&bench), PORTS);
    let undo = bench.repair(&["undo"]);
    undo.assert_code(0);
    undo.assert_stdout("already reset by a reboot");
    assert_restored(&bench, &before);
}

#[test]
#[ignore = "needs a home directory that only its owner can change"]
fn unit_uses_chosen_ports() {
    let files = json!({"files": {"usr/bin/systemctl": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), files.clone()]).with_safe_binary();
    for (args, end) in [
        (vec!["--pair", "GPU0", "mlx5_0"], "fix-acs --yes --pair GPU0 mlx5_0"),
        (
            vec!["--device", "0000:02:00.0", "--force"],
            "fix-acs --yes --device=0000:02:00.0 --force",
        ),
        (vec!["--all-bridges"], "fix-acs --yes --all-bridges"),
    ] {
        let plan =
            bench.gdr(&[&["fix-acs", "--persist", "unit", "--dry-run"], args.as_slice()].concat());
        plan.assert_code(0);
        let line = plan.stdout.lines().find(|line| line.contains("ExecStart=")).expect("a command");
        assert!(line.ends_with(end), "{line}");
    }
    let without = json!({"files": {"usr/bin/other": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), without]).with_safe_binary();
    let plan = bench.gdr(&["fix-acs", "--persist", "unit", "--dry-run"]);
    plan.assert_code(1);
    plan.assert_stdout("There is no systemctl:");
}

#[test]
#[ignore = "needs a home directory that only its owner can change"]
fn snapshot_gives_the_same_plan() {
    let files = json!({"files": {"usr/sbin/update-grub": "", "etc/default/grub": "GRUB_DEFAULT=0\n",
        "usr/sbin/grub-mkconfig": ". ${sysconfdir}/default/grub\n", "usr/bin/systemctl": ""}});
    let bench = machine(&[running("6.17.0-1", KERNEL), files]).with_safe_binary();
    let file = bench.tools().join("machine.json");
    let file = file.to_str().expect("a path");
    bench.gdr(&["snapshot", "--output", file]).assert_code(0);
    for how in ["unit", "cmdline"] {
        let args = ["fix-acs", "--persist", how, "--dry-run", "--format", "json"];
        let there = Gdr::of(bench.binary()).args(args).args(["--from", file]).run();
        let here = bench.gdr(&args);
        here.assert_code(0);
        there.assert_code(0);
        let repairs = |run: &Run| {
            serde_json::from_str::<Value>(&run.stdout).expect("a plan")["repairs"].clone()
        };
        assert_eq!(repairs(&here), repairs(&there));
    }
}
