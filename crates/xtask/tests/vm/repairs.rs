//! Repairs on a real kernel: applied, seen by other programs, undone, killed, cut off, and reapplied at boot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use xtask::vm::{Image, Job, cut_off, named, run, systemd_disk};

use crate::{DEADLINE, built, compiled, from_environment, in_machine, root};

/// Found, applied, read with setpci, undone byte for byte; two concurrent repairs; and killed at each of six steps.
#[test]
#[ignore = "needs qemu-system-x86_64, root, gcc-12 and make"]
fn repairs_and_undoes_ports() {
    let binaries = vec![
        built("gdr"),
        PathBuf::from("/usr/bin/setpriv"),
        compiled("kill-at", &root().join("tests/vm"), &["kill-at.c"], &[]),
    ];
    let files = in_machine("iommu-on", "fix", binaries);
    let user = fs::read_to_string(files.join("user.txt")).expect("output for a user");
    assert!(user.contains("sudo gdr fix-acs --platform=bare-metal --yes"), "{user}");
    let unasked = fs::read_to_string(files.join("unasked.txt")).expect("output without --yes");
    assert!(unasked.contains("--yes"), "{unasked}");
}

/// Repairs of modules, options, device nodes and IOMMU groups are visible in the kernel (`tests/vm/fixes.sh` lists what it cannot show)
/// and are undone. Applied persistently, a systemd unit clears the ports' bits in a second boot, lists and rules restore modules,
/// options and nodes; and all of it is undone there.
#[test]
#[ignore = "needs qemu-system-x86_64, root, mmdebstrap and mke2fs, gcc-12 and make"]
fn repairs_last_over_a_boot() {
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests/systemd");
    fs::create_dir_all(&files).expect("a directory");
    let disk = files.join("disk");
    systemd_disk(&image, &disk).expect("a disk");
    let job = |boot: &str| Job {
        script: root().join("tests/vm/persist.sh"),
        binaries: vec![
            built("gdr"),
            PathBuf::from("/usr/bin/rdma"),
            root().join("tests/vm/fixes.sh"),
        ],
        timeout: DEADLINE,
        files: files.join(boot),
        variables: Vec::new(),
        disk: Some(disk.clone()),
    };
    for boot in ["first", "second"] {
        let outcome =
            run(named("systemd").expect("a machine"), &image, &job(boot)).expect("it runs");
        assert!(
            outcome.passed(),
            "{boot} boot: {}",
            serde_json::to_string_pretty(&outcome).expect("JSON")
        );
    }
    fs::remove_file(disk).expect("the disk goes");
}

/// Power loss during a repair: the next boot undoes the rest, and nothing is half written.
///
/// Each cut takes a boot: one here, or `GDR_POWER_CUTS`.
#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn a_power_cut_loses_nothing() {
    let cuts = from_environment("GDR_POWER_CUTS", 1);
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests/power");
    fs::create_dir_all(&files).expect("a directory");
    let disk = files.join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status();
    assert!(made.expect("mke2fs of e2fsprogs").success());
    let job = Job {
        script: root().join("tests/vm/power.sh"),
        binaries: vec![built("gdr")],
        timeout: DEADLINE,
        files,
        variables: Vec::new(),
        disk: Some(disk),
    };
    let machine = named("iommu-on").expect("a machine");
    let mut half_way = 0;
    for cut in 0..=cuts {
        // Spread over the duration of a repair by a step coprime to it.
        let after = Duration::from_millis(cut * 37 % 200);
        let console = cut_off(machine, &image, &job, "power: begun", after).expect("it runs");
        assert!(
            console.contains("power: whole") && !console.contains("power: differs"),
            "after cut {cut}: {console}"
        );
        half_way += usize::from(
            console.contains("restored") || console.contains("already reset by a reboot"),
        );
    }
    let summary = format!("{cuts} power cuts; {half_way} boots found something to take back\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), summary.as_bytes());
}
