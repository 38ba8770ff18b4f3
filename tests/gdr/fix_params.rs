//! Repairs of driver parameters: the real modprobe gives the driver what gdr wrote, and other values are kept.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::support::{Bench, Kmod};
use serde_json::{Value, json};

const IMAGE: &str = "boot/initrd.img-6.8.0-60-generic";

/// The machine `sound` with these files, seen by an unprivileged user.
fn bench(files: &Value) -> Bench {
    let mut all = json!({
        "proc/self/status": ["Uid:\t1000\t1000\t1000\t1000", "CapEff:\t0000000000000000"],
        "usr/sbin/update-initramfs": ["#!/bin/sh"],
    });
    crate::support::merge(&mut all, files);
    Bench::of("sound", &json!({ "files": all }))
}

/// The driver reloaded with these parameters, and defaults for the rest.
fn load(bench: &Bench, with: &BTreeMap<String, String>) {
    let path = bench.root().join("proc/driver/nvidia/params");
    let text = fs::read_to_string(&path).expect("parameters");
    let lines = text.lines().map(|line| {
        let (name, _) = line.split_once(": ").expect("a parameter");
        let set = with.get(&format!("NVreg_{name}")).map(String::as_str);
        match name {
            "RegistryDwords" => format!("{name}: \"{}\"\n", set.unwrap_or_default()),
            "EnableStreamMemOPs" => format!("{name}: {}\n", set.unwrap_or("0")),
            _ => format!("{line}\n"),
        }
    });
    fs::write(&path, lines.collect::<String>()).expect("parameters");
}

/// A stand-in for update-initramfs that packs modprobe.d and the driver reproducibly.
fn packer(bench: &Bench) {
    bench.tool(
        "update-initramfs",
        "set -e\n\
         work=$(mktemp -d)\n\
         mkdir -p \"$work/etc/modprobe.d\" \"$work/usr/lib/modules/6.8.0-60-generic/updates\"\n\
         cp \"$GDR_ROOT\"/etc/modprobe.d/*.conf \"$work/etc/modprobe.d/\"\n\
         : > \"$work/usr/lib/modules/6.8.0-60-generic/updates/nvidia.ko\"\n\
         find \"$work\" -exec touch -h -d @0 {} +\n\
         image=\"$GDR_ROOT/boot/initrd.img-6.8.0-60-generic\"\n\
         (cd \"$work\" && find . | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible -R 0:0 | gzip -n) > \"$image.new\"\n\
         mv \"$image.new\" \"$image\"\n\
         rm -rf \"$work\"",
    );
    fs::create_dir_all(bench.root().join("boot")).expect("a directory");
    let packed =
        Command::new(bench.tools().join("update-initramfs")).env("GDR_ROOT", bench.root()).status();
    assert!(packed.expect("the packer runs").success());
    bench.calls();
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn peer_mapping_keeps_other_keys_and_comes_last() {
    let bench = bench(&json!({
        "etc/modprobe.d/nvidia.conf": ["# ours", "options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1;\" NVreg_EnableMSI=1"],
        "etc/modprobe.d/zzz-site.conf": ["options nvidia NVreg_EnableResizableBar=1"],
    }));
    let kmod = Kmod::new(&bench.root(), &["nvidia"]);
    let loaded = || kmod.named("nvidia").expect("a module").1;
    load(&bench, &loaded());
    let before = bench.tree();
    let fails = |bench: &Bench| {
        assert_eq!(bench.outcomes("param.peer-mapping", &["--profile", "async"])["driver"], "fail");
    };
    fails(&bench);

    let plan = bench.gdr(&["fix", "peer-mapping", "--dry-run", "--format", "json"]);
    plan.assert_code(0);
    let plan: Value = serde_json::from_str(&plan.stdout).expect("a plan");
    let repair = &plan["repairs"][0];
    assert!(repair["warnings"][0].as_str().expect("a text").contains("CVE-2015-5053"));
    // The machine's modules: nvidia_peermem and nvidia_uvm use nvidia.
    let then = repair["afterwards"][0].as_str().expect("a text");
    assert!(then.contains("'rmmod nvidia_peermem nvidia_uvm nvidia'"), "{then}");
    assert!(then.contains("'modprobe -a nvidia nvidia_uvm nvidia_peermem'"), "{then}");
    assert_eq!(bench.tree(), before);

    let run = bench.repair(&["fix", "peer-mapping", "--yes"]);
    run.assert_code(0);
    assert!(bench.calls().is_empty(), "there is no initramfs to make anew");
    let text = bench.text("etc/modprobe.d/zzzz-gdr.conf");
    assert_eq!(
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        ["options nvidia NVreg_RegistryDwords=\"RMForceP2PType=1;PeerMappingOverride=1;\""]
    );
    let expected = [
        ("NVreg_EnableMSI", "1"),
        ("NVreg_EnableResizableBar", "1"),
        ("NVreg_RegistryDwords", "RMForceP2PType=1;PeerMappingOverride=1;"),
    ];
    let expected: BTreeMap<String, String> =
        expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(loaded(), expected);

    // Before and after the reload nothing is left to write.
    for _ in 0..2 {
        bench.assert_nothing_to_change(&["fix", "peer-mapping", "--yes"]);
        load(&bench, &loaded());
    }
    assert!(bench.holds("param.peer-mapping", &["--profile", "async"]));
    assert!(bench.holds("param.conflict", &[]));

    bench.repair(&["undo"]).assert_code(0);
    load(&bench, &loaded());
    assert_eq!(bench.tree(), before);
    fails(&bench);
}

#[test]
#[ignore = "needs kmod, a C compiler, cpio, gzip, xz, zstd and lz4"]
fn both_fixes_share_lines_and_one_initramfs_rebuild() {
    let bench = bench(&json!({
        "proc/driver/nvidia/version": ["NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024"],
        "sys/module/nvidia/version": ["470.256.02"],
        "etc/modprobe.d/nvidia.conf": [
            "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS",
            "options nvidia NVreg_RegistryDwords=\"EnableStreamMemOPs=0;RMForceP2PType=1\"",
        ],
    }));
    for library in ["nvml", "cuda"] {
        fs::remove_file(bench.root().join(format!("gdr/{library}.json")))
            .expect("a library's answers");
    }
    packer(&bench);
    let kmod = Kmod::new(&bench.root(), &["nvidia-current"]);
    let loaded = || kmod.named("nvidia").expect("a module");
    load(&bench, &loaded().1);
    let before = bench.tree();
    let failing = |bench: &Bench| {
        let args = ["--profile", "async"];
        ["param.peer-mapping", "param.stream-memops"]
            .map(|check| bench.outcomes(check, &args)["driver"] == "fail")
    };
    assert_eq!(failing(&bench), [true, true]);

    let run = bench.repair(&["fix", "peer-mapping", "stream-memops", "--yes"]);
    run.assert_code(0);
    assert_eq!(bench.calls(), ["update-initramfs -u -k all"]);
    let keys = "RMForceP2PType=1;PeerMappingOverride=1;EnableStreamMemOPs=1;";
    let text = bench.text("etc/modprobe.d/zz-gdr.conf");
    assert_eq!(
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        [
            format!("options nvidia NVreg_RegistryDwords=\"{keys}\" NVreg_EnableStreamMemOPs=1"),
            format!(
                "options nvidia-current NVreg_RegistryDwords=\"{keys}\" NVreg_EnableStreamMemOPs=1"
            ),
        ]
    );
    let expected = [("NVreg_EnableStreamMemOPs", "1"), ("NVreg_RegistryDwords", keys)];
    let expected: BTreeMap<String, String> =
        expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(loaded(), ("nvidia-current".to_owned(), expected.clone()));
    assert_eq!(kmod.by_device(), Some(("nvidia-current".to_owned(), expected)));
    load(&bench, &loaded().1);
    assert_eq!(failing(&bench), [false, false]);
    // The loaded driver, the disk and the image agree.
    let drift = bench.outcomes("param.drift", &[]);
    assert_eq!((drift["driver"].as_str(), drift["initramfs"].as_str()), ("pass", "pass"));

    let again = bench.repair(&["fix", "peer-mapping", "stream-memops", "--yes"]);
    again.assert_code(0);
    assert_eq!(bench.calls(), Vec::<String>::new());
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["update-initramfs -u -k all"]);
    load(&bench, &loaded().1);
    assert_eq!(bench.tree(), before);
    assert_eq!(failing(&bench), [true, true]);
}

#[test]
fn kernel_command_line_overrides_files() {
    let bench = bench(&json!({
        "proc/cmdline": ["ro nvidia.NVreg_RegistryDwords=\"A=1\" quiet"],
    }));
    let before = bench.tree();
    let run = bench.repair(&["fix", "peer-mapping", "--yes"]);
    run.assert_code(1);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        output.contains("change it to nvidia.NVreg_RegistryDwords=\"A=1;PeerMappingOverride=1;\""),
        "{output}"
    );
    assert_eq!(bench.tree(), before);
}

#[test]
fn plans_for_recorded_machine() {
    let bench =
        bench(&json!({ "etc/modprobe.d/a.conf": ["options nvidia NVreg_RegistryDwords=A=1"] }));
    let record = tempfile::NamedTempFile::new().expect("a file");
    let path = record.path().to_str().expect("a path");
    bench.gdr(&["snapshot", "-o", path]).assert_code(0);
    // A machine without modprobe.d.
    let bare = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/h200-x1/snapshot.json");
    for (record, keys) in [(path, "A=1;PeerMappingOverride=1;"), (bare, "PeerMappingOverride=1;")] {
        let plan = crate::support::gdr(&["fix", "peer-mapping", "--dry-run", "--from", record]);
        plan.assert_code(0);
        let line = format!("| options nvidia NVreg_RegistryDwords=\"{keys}\"");
        assert!(plan.stdout.contains(&line), "{}", plan.stdout);
    }
}

#[test]
fn rebuilds_unknown_image_with_installed_tool() {
    for (program, command) in
        [("usr/bin/dracut", "dracut -f --regenerate-all"), ("usr/bin/mkinitcpio", "mkinitcpio -P")]
    {
        // An unreadable image may contain anything.
        let bench = bench(&json!({
            "usr/sbin/update-initramfs": null, program: ["#!/bin/sh"], IMAGE: ["BZh91AY"],
        }));
        let plan = bench.gdr(&["fix", "peer-mapping", "--dry-run", "--format", "script"]);
        plan.assert_code(0);
        assert!(plan.stdout.contains(command), "{}", plan.stdout);
    }
}

#[test]
#[ignore = "needs cpio, gzip, xz, zstd and lz4"]
fn rebuilds_stale_initramfs_and_restores_it() {
    let bench = bench(
        &json!({ "etc/modprobe.d/nvidia.conf": ["options nvidia NVreg_EnableStreamMemOPs=0"] }),
    );
    packer(&bench);
    let options = bench.root().join("etc/modprobe.d/nvidia.conf");
    fs::write(options, "options nvidia NVreg_EnableStreamMemOPs=1\n").expect("a file");
    let before = bench.tree();
    assert_eq!(bench.outcomes("param.drift", &[])["initramfs"], "warn");

    bench.repair(&["fix", "initramfs", "--yes"]).assert_code(0);
    assert!(bench.calls().contains(&"update-initramfs -u -k 6.8.0-60-generic".to_owned()));
    assert_eq!(bench.outcomes("param.drift", &[])["initramfs"], "pass");
    let kept = fs::read(bench.root().join(format!("{IMAGE}.gdr-old"))).expect("the old image");
    assert_eq!(kept, before[std::path::Path::new(IMAGE)].content);
    let again = bench.repair(&["fix", "initramfs", "--yes"]);
    again.assert_code(0);
    assert!(bench.calls().is_empty());

    // An image rebuilt since is not replaced by the old one.
    let image = bench.root().join(IMAGE);
    let made = fs::read(&image).expect("the image");
    fs::write(&image, "another").expect("an image");
    let undo = bench.repair(&["undo"]);
    undo.assert_code(1);
    let words: Vec<_> = undo.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("was rebuilt since"), "{}", undo.stdout);
    assert_eq!(fs::read(&image).expect("the image"), b"another");

    fs::write(&image, made).expect("an image");
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(bench.outcomes("param.drift", &[])["initramfs"], "warn");
}
