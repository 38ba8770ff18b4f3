//! `gdr snapshot --with-reports`: what the archive holds, and that nothing in it names the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use serde_json::Value;

use crate::support::{Gdr, Node, scratch};

#[test]
fn archive_holds_what_its_readme_says_and_names_nobody() {
    let mut node = Node::good();
    node.at("0000:1b:00.0").serial = Some("a088c20300deca11".to_owned());
    let root = node.laid_out();
    fs::create_dir_all(root.path().join("proc/sys/kernel")).expect("a directory");
    fs::write(root.path().join("proc/sys/kernel/hostname"), "zebrahost17\n").expect("a file");
    let log = "[1.0] usb 1-1: new device\n[2.0] NVRM: Xid (PCI:0000:1b:00.0): 79, zebrahost17\n[3.0] mlx5_core: up\n";
    fs::create_dir_all(root.path().join("gdr")).expect("a directory");
    fs::create_dir_all(root.path().join("usr/bin")).expect("a directory");
    fs::write(root.path().join("usr/bin/dmesg"), "").expect("a file");
    let tools = serde_json::json!({"dmesg": {"answered": {"code": 0, "text": log}}});
    fs::write(root.path().join("gdr/tools.json"), tools.to_string()).expect("a file");
    let dir = scratch();
    let run = |file: &str| {
        let file = dir.path().join(file);
        Gdr::new()
            .sysroot(root.path())
            .args(["snapshot", "--with-reports", "-o"])
            .args([file])
            .run()
    };
    run("report.tar").assert_code(0);
    let mut archive =
        tar::Archive::new(fs::File::open(dir.path().join("report.tar")).expect("a file"));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name.strip_prefix("gdr-report/").expect("one directory").to_owned(), text);
    }
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "README.txt",
            "counters.txt",
            "doctor.json",
            "doctor.txt",
            "kernel-log.txt",
            "snapshot.json",
            "topo.json",
            "topo.txt"
        ]
    );
    for name in names.iter().filter(|name| **name != "README.txt") {
        assert!(
            files["README.txt"].contains(&format!("\n{name} ")),
            "{name}: {}",
            files["README.txt"]
        );
    }
    for (name, text) in &files {
        for private in ["zebrahost17", "a088c2", "deca11", &*root.path().to_string_lossy()] {
            assert!(!text.contains(private), "{private} is in {name}");
        }
    }
    let log = &files["kernel-log.txt"];
    assert!(log.contains("Xid (PCI:0000:1b:00.0): 79") && log.contains("mlx5_core"), "{log}");
    assert!(!log.contains("usb"), "{log}");
    let doctor: Value = serde_json::from_str(&files["doctor.json"]).expect("JSON");
    assert_eq!(doctor["host"]["source"], "snapshot.json");
    assert_eq!(doctor["readings"]["gpus"].as_array().map(Vec::len), Some(8));
    // The snapshot in it gives the same answers.
    fs::write(dir.path().join("snapshot.json"), &files["snapshot.json"]).expect("a file");
    let file = dir.path().join("snapshot.json");
    let topo = Gdr::new().args(["--from"]).args([&file]).args(["topo"]).run();
    assert_eq!(topo.stdout, files["topo.txt"]);
    // Without the tool the archive says what it lacks.
    fs::remove_file(root.path().join("usr/bin/dmesg")).expect("a file");
    let without = run("without.tar");
    without.assert_code(0);
    assert!(!without.stderr.contains("kernel log"), "{}", without.stderr);
    let archive = fs::read(dir.path().join("without.tar")).expect("a file");
    let missing = b"Missing: the kernel log: dmesg is not installed.";
    assert!(archive.windows(missing.len()).any(|window| window == missing));
    let wrong = run("report.json");
    wrong.assert_code(2);
    assert!(wrong.stderr.contains("ends in .tar or .tar.zst"), "{}", wrong.stderr);
}
