//! gdr never prints the content of files that only root may read.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Gdr, Machine, Run};

/// Must not be printed.
const SECRETS: [&str; 3] = ["hunter2", "s3cr3t", "swordfish"];

/// Files of other formats, with secrets where a parser's message would quote them.
const FILES: [(&str, &str); 17] = [
    ("shadow", "root:$6$hunter2$s3cr3t:19000:0:99999:7:::\nswordfish:*:19000::::::\n"),
    ("words", "swordfish\nhunter2 s3cr3t\n"),
    ("ini", "[hunter2]\nswordfish = s3cr3t\n"),
    ("toml", "swordfish = \"hunter2\"\n[s3cr3t]\nhunter2 = 1\n"),
    ("profile", "name = \"hunter2\"\nswordfish = \"s3cr3t\"\n"),
    ("about", "name = \"hunter2\"\nabout = [\"swordfish\"]\n[checks]\ns3cr3t = 1\n"),
    (
        "severity",
        "name = \"hunter2\"\nabout = \"\"\n[checks]\n\"gpu.present\" = { severity = \"swordfish\" }\n",
    ),
    ("cut", "swordfish = \"hunter2\ns3cr3t"),
    ("json", "{\"swordfish\": \"hunter2\", \"s3cr3t\": [1, 2"),
    ("schema", "{\"schema\": \"hunter2\", \"swordfish\": \"s3cr3t\"}"),
    ("version", "{\"schema\": \"gdr.snapshot/hunter2\", \"swordfish\": \"s3cr3t\"}"),
    ("number", "{\"schema\": {\"hunter2\": 1}, \"swordfish\": \"s3cr3t\"}"),
    ("list", "[{\"hunter2\": \"swordfish\", \"realpath\": \"/s3cr3t\"}]"),
    ("xml", "<?xml version=\"1.0\"?><topology version=\"hunter2\"><swordfish></s3cr3t></topology>"),
    (
        "entity",
        "<topology version=\"2.0\"><object type=\"Machine\"><info name=\"HostName\" value=\"&hunter2;\"/></swordfish>",
    ),
    ("key", "-----BEGIN PRIVATE KEY-----\nhunter2swordfish+s3cr3t==\n-----END PRIVATE KEY-----\n"),
    (
        "lspci",
        "00:00.0 hunter2: swordfish\n\tCapabilities: [s3cr3t] hunter2\n\tswordfish: s3cr3t\n",
    ),
];

fn holds_no_secret(what: &str, run: &Run) {
    let output = format!("{}{}", run.stdout, run.stderr);
    for secret in SECRETS {
        assert!(!output.contains(secret), "{what} prints {secret}: {output}");
    }
    assert!([0, 1, 2, 3].contains(&run.code), "{what}: {output}");
}

#[test]
fn errors_quote_no_file() {
    let machine = Machine::load("h200-x1").laid_out();
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in FILES {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a file");
        let path = path.to_str().expect("a path");
        let run = |args: &[&str]| Gdr::new().args(args).run();
        let root = machine.path().to_str().expect("a path");
        // A valid profile may be named in messages.
        let profiles = [
            run(&["doctor", "--sysroot", root, "--profile", path]),
            run(&["fix", "--sysroot", root, "--dry-run", "--profile", path]),
            run(&["explain", "--no-run", "--profile", path, "pcie.acs"]),
        ];
        for profile in profiles {
            assert_eq!(profile.code, 2, "{name}: {}", profile.stderr);
            holds_no_secret(&format!("--profile {name}"), &profile);
        }
        holds_no_secret(
            &format!("doctor --from {name}"),
            &run(&["doctor", "--from", path, "--verbose"]),
        );
        if name != "lspci" {
            holds_no_secret(
                &format!("topo --from {name}"),
                &run(&["topo", "--from", path, "--verbose"]),
            );
            holds_no_secret(
                &format!("--diff {name}"),
                &run(&["snapshot", "--diff", path, path, "--all"]),
            );
            holds_no_secret(&format!("explain {name}"), &run(&["explain", "--no-run", path]));
        }
    }
}

/// A library's answer in a directory laid out like a machine.
#[test]
fn errors_quote_no_invalid_answer() {
    let machine = Machine::load("h200-x1").laid_out();
    for (name, text) in FILES {
        for library in ["nvml", "cuda", "verbs", "mapping", "registration", "tools"] {
            fs::create_dir_all(machine.path().join("gdr")).expect("a directory");
            fs::write(machine.path().join(format!("gdr/{library}.json")), text).expect("an answer");
        }
        let run = Gdr::new().args(["doctor", "--verbose"]).sysroot(machine.path()).run();
        holds_no_secret(&format!("gdr/*.json as {name}"), &run);
    }
}

/// Neither waits for a pipe nor reads a device.
#[test]
fn rejects_non_files_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let begun = Instant::now();
    for path in
        [Path::new("/dev/zero"), Path::new("/dev/full"), Path::new("/dev/random"), directory.path()]
    {
        let path = path.to_str().expect("a path");
        for args in [
            &["doctor", "--from", path][..],
            &["doctor", "--profile", path],
            &["explain", "--no-run", path],
            &["snapshot", "--diff", path, path],
        ] {
            let run = Gdr::new().args(args).run();
            assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
            assert!(
                run.stderr.contains("it is a d") || run.stderr.contains("is a directory"),
                "{args:?}: {}",
                run.stderr
            );
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// A shell's `<(command)` and standard input are pipes.
#[test]
fn reads_pipe() {
    let machine = Machine::load("h200-x1").laid_out();
    let snapshot = Gdr::new().args(["snapshot", "-o", "-"]).sysroot(machine.path()).run().stdout;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("snapshot.json");
    fs::write(&file, snapshot).expect("a file");
    let script = format!("cat {} | \"$GDR\" topo --from /dev/stdin", file.display());
    let gdr = env!("CARGO_BIN_EXE_gdr");
    let output =
        Command::new("/bin/sh").args(["-c", &script]).env("GDR", gdr).stdin(Stdio::null()).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("GPU0"));
}
