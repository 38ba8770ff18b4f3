//! `gdr snapshot` and `--from`: a record says what its machine says, byte for byte, and no record can do harm.

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use support::{Gdr, Machine, Run, names};
use tempfile::TempDir;

/// What a machine is asked in these tests: every format, and every part of the topology.
const QUESTIONS: &[&[&str]] = &[
    &["doctor", "--platform", "bare-metal"],
    &["doctor", "--profile", "rdma", "--profile", "async", "--profile", "p2p"],
    &["doctor", "--format", "json"],
    &["topo"],
    &["topo", "--pci", "--nvme"],
    &["topo", "--format", "json", "--nvme"],
    &["topo", "--format", "svg"],
    &["topo", "--format", "nvidia-smi"],
    &["topo", "--pairs"],
    &["topo", "--check"],
    &["topo", "--p2p", "r"],
    &["topo", "--p2p", "n", "--format", "nvidia-smi"],
    &["topo", "--path", "GPU0", "NIC0"],
    &["topo", "--path", "GPU0", "GPU1", "--format", "json"],
];

fn run(args: &[&str]) -> Run {
    let run = Gdr::new().args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn with(file: &Path, args: &[&str]) -> Run {
    run(&[&["--from", text_of(file)], args].concat())
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A machine laid out, and its snapshot.
fn recorded(name: &str, more: &[&str]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a directory");
    Machine::load(name).lay_out(&root);
    let file = dir.path().join("machine.json.zst");
    let taken = run(&[&["--sysroot", text_of(&root), "snapshot", "-o", text_of(&file)], more].concat());
    assert_eq!((taken.code, taken.stdout.as_str()), (0, ""), "{name}: {}", taken.stderr);
    (dir, file)
}

#[test]
fn a_snapshot_says_what_its_machine_says() {
    for name in names() {
        let (dir, file) = recorded(&name, &[]);
        let root = dir.path().join("root");
        for question in QUESTIONS {
            let machine = run(&[&["--sysroot", text_of(&root)], *question].concat());
            let snapshot = with(&file, question);
            assert_eq!(snapshot.code, machine.code, "{name} {question:?}: {}", snapshot.stderr);
            assert_eq!(snapshot.stdout, machine.stdout, "{name} {question:?}");
        }
    }
}

#[test]
fn this_machine_says_what_its_snapshot_says() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("here.json");
    assert_eq!(run(&["snapshot", "-o", text_of(&file)]).code, 0);
    for question in QUESTIONS {
        let (live, snapshot) = (run(question), with(&file, question));
        assert_eq!(snapshot.code, live.code, "{question:?}: {}", snapshot.stderr);
        assert_eq!(snapshot.stdout, live.stdout, "{question:?}");
    }
    let said = with(&file, &["doctor"]).stderr;
    assert!(said.contains("recorded") && said.contains("here.json"), "{said}");
}

#[test]
fn a_snapshot_of_a_snapshot_is_the_same() {
    let (dir, file) = recorded("h200-x2", &[]);
    let again = dir.path().join("again.json.zst");
    assert_eq!(with(&file, &["snapshot", "-o", text_of(&again)]).code, 0);
    for question in QUESTIONS {
        assert_eq!(
            with(&again, question).stdout,
            with(&file, question).stdout,
            "{question:?}"
        );
    }
}

#[test]
fn it_goes_through_a_pipe_and_holds_what_its_schema_says() {
    let taken = Gdr::new()
        .sysroot(recorded("h200-x1", &[]).0.path())
        .args(["snapshot", "-o", "-"])
        .run();
    let document: Value = serde_json::from_str(&taken.stdout).expect("JSON");
    assert_eq!(document["schema"], "gdr.snapshot/1");
    assert_eq!(document["gdr"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["masked"], false);
    let taken_at = document["taken"].as_str().expect("a time");
    assert!(
        taken_at.len() == 20 && taken_at.starts_with("20") && taken_at.ends_with('Z'),
        "{taken_at}"
    );

    let (_dir, file) = recorded("h200-x1", &[]);
    let mut command = Gdr::new().args(["topo", "--from", "-"]).command();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gdr starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&fs::read(&file).expect("the snapshot"))
        .expect("it is read");
    drop(pipe);
    let output = child.wait_with_output().expect("gdr ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), with(&file, &["topo"]).stdout);
}

/// The largest machine here, compressed.
#[test]
fn eight_gpus_and_eight_nics_fit_a_mail() {
    let (_dir, file) = recorded("hgx-h100-8gpu-8nic", &[]);
    let size = fs::metadata(&file).expect("the snapshot").len();
    assert!(size < 300_000, "{size} bytes");
}

/// Of what is large or private in a file, the record holds what gdr uses.
#[test]
fn large_and_private_sources_are_reduced() {
    let (dir, _) = recorded("hgx-h100-8gpu-8nic", &[]);
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("usr/share/misc")).expect("a directory");
    let ids = "10de  NVIDIA\n\t9999  A part that is not here\n15b3  Mellanox\n\t1021  Listed NIC\n8086  Intel\n\t0001  Another\n";
    fs::write(root.join("usr/share/misc/pci.ids"), ids).expect("a list");
    let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n\nprocessor\t: 1\nflags\t\t: secret\n";
    fs::write(root.join("proc/cpuinfo"), cpuinfo).expect("a file");
    let modules = "nvidia 14299136 2 nvidia_uvm,nvidia_modeset, Live 0xffffffffc0a01000 (O)\n";
    fs::write(root.join("proc/modules"), modules).expect("a file");
    let taken = run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]);
    let document: Value = serde_json::from_str(&taken.stdout).expect("JSON");
    let held = |path: &str| {
        document["files"][path]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}"))
            .to_owned()
    };
    let names = held("/usr/share/misc/pci.ids");
    assert!(names.contains("Listed NIC") && !names.contains("not here"), "{names}");
    assert!(!held("/proc/cpuinfo").contains("secret"));
    assert!(!held("/proc/modules").contains("ffffffff"));
    let svg = run(&["--sysroot", text_of(&root), "topo", "--format", "svg"]).stdout;
    assert!(svg.contains("Listed NIC"), "the list is used at all");
    let file = dir.path().join("reduced.json");
    fs::write(&file, taken.stdout).expect("a file");
    assert_eq!(with(&file, &["topo", "--format", "svg"]).stdout, svg);
}

#[test]
fn what_a_snapshot_does_not_hold_is_unknown_and_said() {
    let (dir, _) = recorded("h200-x1", &[]);
    let root = dir.path().join("root");
    let mut document: Value =
        serde_json::from_str(&run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]).stdout).expect("JSON");
    let files = document["files"].as_object_mut().expect("files");
    assert!(files.remove("/proc/driver/nvidia/params").is_some());
    let file = dir.path().join("older.json");
    fs::write(&file, document.to_string()).expect("a file");
    let run = with(
        &file,
        &["--verbose", "doctor", "--profile", "async", "--format", "json"],
    );
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let found = findings
        .iter()
        .find(|finding| finding["id"] == "param.stream-memops" || finding["id"] == "param.peer-mapping");
    assert_eq!(
        found.expect("a finding about parameters")["outcome"],
        "unknown",
        "{}",
        run.stdout
    );
    assert!(
        run.stderr.contains("/proc/driver/nvidia/params") && run.stderr.contains("does not hold it"),
        "{}",
        run.stderr
    );
}

/// Exit 2, nothing on standard output, and these words on standard error.
fn refused(file: &Path, words: &[&str]) {
    let run = limited(file);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}: {}", run.stderr);
    for word in words.iter().chain(&["--from"]) {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
    assert!(run.stderr.len() < 2000, "{}", run.stderr);
}

/// With no more than 256 MiB of address space.
fn limited(file: &Path) -> Run {
    let command = "ulimit -v 262144; exec \"$0\" doctor --from \"$1\"";
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_gdr"), text_of(file)])
        .output()
        .expect("a shell");
    let run = Run {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn written(dir: &Path, bytes: &[u8]) -> PathBuf {
    let file = dir.join("input");
    fs::write(&file, bytes).expect("a file");
    file
}

#[test]
fn input_that_is_no_record_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = dir.path();
    refused(&at.join("nowhere"), &["No such file"]);
    refused(at, &["directory"]);
    for (bytes, words) in [
        (&b""[..], &["no snapshot"][..]),
        (b"hello\n", &["no snapshot", "gdr snapshot"]),
        (b"\x00\xff\xfe\x80", &["no snapshot"]),
        (b"{", &["JSON"]),
        (b"{}", &["names no schema"]),
        (b"{\"schema\":7}", &["JSON"]),
        (
            b"{\"schema\":\"gdr.snapshot/2\"}",
            &["gdr.snapshot/2", "gdr.snapshot/1"],
        ),
        (b"{\"schema\":\"gdr.topo/1\"}", &["gdr.topo/1", "no record"]),
        (b"{\"schema\":\"gdr.snapshot/1\",\"files\":7}", &["gdr.snapshot/1"]),
        (b"\x28\xb5\x2f\xfd", &["Zstandard"]),
        (b"\x28\xb5\x2f\xfdgarbage that is no frame", &[]),
    ] {
        refused(&written(at, bytes), words);
    }
    for open in [
        "[",
        "{\"a\":",
        "{\"schema\":\"gdr.snapshot/1\",\"files\":{\"/a\":{\"x\":[[",
    ] {
        refused(&written(at, open.repeat(100_000).as_bytes()), &[]);
    }
}

#[test]
fn a_gigabyte_is_refused_however_it_is_dressed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("large");
    File::create(&file)
        .and_then(|file| file.set_len(1 << 30))
        .expect("a sparse file");
    refused(&file, &["larger than 64 MiB"]);
    refused(&written(dir.path(), &bomb(None)), &["larger than 64 MiB"]);
    // The frame says that it holds nothing, or more than there is memory.
    refused(&written(dir.path(), &bomb(Some(1))), &[]);
    refused(&written(dir.path(), &bomb(Some(u64::MAX))), &[]);
}

/// A gigabyte of spaces as Zstandard frames it (RFC 8878): blocks of one byte, repeated 128 KiB times.
fn bomb(lie: Option<u64>) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    match lie {
        // Window of 128 KiB: exponent 7, mantissa 0.
        None => frame.extend([0x00, 7 << 3]),
        // A content size of eight bytes, and a window.
        Some(size) => {
            frame.extend([0b1100_0000, 7 << 3]);
            frame.extend(size.to_le_bytes());
        }
    }
    for block in 0..8192u32 {
        let last = u32::from(block == 8191);
        let header = last | 1 << 1 | (128 << 10) << 3;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

#[test]
fn a_record_cut_anywhere_is_refused() {
    let (dir, file) = recorded("h200-x1", &[]);
    let compressed = fs::read(&file).expect("the snapshot");
    let plain = run(&["--from", text_of(&file), "snapshot", "-o", "-"])
        .stdout
        .into_bytes();
    for (whole, step) in [(&compressed, compressed.len() / 20), (&plain, plain.len() / 20)] {
        for cut in (1..whole.len() - 1).step_by(step.max(1)) {
            refused(&written(dir.path(), &whole[..cut]), &[]);
        }
    }
}

/// The most that a document of its size can hold.
#[test]
fn a_full_record_fits_into_its_memory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let size = 8 << 20;
    let around = |inside: &str, end: &str| {
        let head = "{\"schema\":\"gdr.snapshot/1\",\"gdr\":\"\",\"taken\":\"\",\"masked\":false,\"host\":{\"source\":\"\"},\"libraries\":{},\"files\":{";
        format!("{head}{inside}{end}}}")
    };
    let files = |count: usize| (0..count).map(|n| format!("\"{n:x}\":{{}},")).collect::<String>();
    let names = |count: usize| (0..count).map(|n| format!("\"{n:x}\",")).collect::<String>();
    let directory = |names: &str| around(&format!("\"/sys/bus/pci/devices\":{{\"names\":[{names}"), "\"\"]}}");
    let parts = "{\"at\":9,\"bytes\":\"\"},".repeat((size - 250) / 22);
    for document in [
        around(&files(199_999), "\"z\":{}}"),
        directory(&names(65_535)),
        around(&format!("\"/x\":{{\"parts\":[{parts}"), "{\"at\":9,\"bytes\":\"\"}]}}"),
    ] {
        assert!(document.len() <= size, "{}", document.len());
        let run = limited(&written(dir.path(), document.as_bytes()));
        assert!((0..=3).contains(&run.code), "{}: {}", &document[..200], run.stderr);
    }
    for (crowded, words) in [
        (around(&files(500_000), "\"z\":{}}"), "more than 200000 paths"),
        (directory(&names(900_000)), "more than 65536 names"),
        (" ".repeat(size) + "{}", "8 MiB"),
    ] {
        refused(&written(dir.path(), crowded.as_bytes()), &[words]);
    }
}

/// Numbers in a record that no machine could have answered.
#[test]
fn a_record_that_lies_about_sizes_does_no_harm() {
    let (dir, _) = recorded("h200-x1", &[]);
    let root = dir.path().join("root");
    let honest: Value =
        serde_json::from_str(&run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]).stdout).expect("JSON");
    let config = honest["files"]
        .as_object()
        .expect("files")
        .keys()
        .find(|path| path.ends_with("/config"))
        .expect("a config file")
        .clone();
    let most = u64::MAX;
    for parts in [
        serde_json::json!([{ "at": most, "bytes": "ffff" }]),
        serde_json::json!([{ "at": 0, "bytes": "" }]),
        serde_json::json!([{ "at": 0, "bytes": "de10" }, { "at": 1, "bytes": "ffffffff" }, { "at": 1, "bytes": "00" }]),
    ] {
        for end in [0, 1, 64, most] {
            let mut lying = honest.clone();
            lying["files"][&config]["parts"] = parts.clone();
            lying["files"][&config]["end"] = end.into();
            let run = limited(&written(dir.path(), lying.to_string().as_bytes()));
            assert!((0..=3).contains(&run.code), "{parts} {end}: {}", run.stderr);
        }
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = dir.path().join("no/such/place.json");
    let failed = run(&["snapshot", "-o", text_of(&missing)]);
    assert_eq!(failed.code, 2);
    assert!(failed.stderr.contains("place.json"), "{}", failed.stderr);
    let failed = run(&["snapshot", "-o", "/dev/full"]);
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert_eq!(run(&["snapshot"]).code, 2, "it wants to know where");
    let there = dir.path().join("there.json");
    fs::write(&there, "old").expect("a file");
    assert_eq!(run(&["snapshot", "-o", text_of(&there)]).code, 0);
    let left: Vec<_> = fs::read_dir(dir.path()).expect("the directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(fs::read_to_string(&there).expect("the file").contains("gdr.snapshot/1"));
}

/// Each kind of name and number that tells a machine apart, as it stands in the files of this one.
const NAMES: &[(&str, &str)] = &[
    ("host", "hopper-node17"),
    ("domain", "cluster.example.org"),
    ("user", "jdoe"),
    ("UUID of a GPU", "GPU-6f1c2a3b-4d5e-6f70-8192-a3b4c5d6e7f8"),
    ("UUID of a disk", "9c1e4f6a-0b2d-4c3e-8f5a-7b6c8d9e0f1a"),
    ("GUID of a node", "9803:9b03:0067:ab12"),
    ("MAC", "b8:3f:d2:9a:4c:01"),
    ("IPv4", "10.31.7.212"),
    ("IPv6", "2a01:4f8:c0c:1234::77"),
    // Bytes of the capability, and how lspci writes them.
    ("serial number", "5634120000a1b2c3"),
];

#[test]
fn a_masked_snapshot_names_nothing_and_concludes_the_same() {
    let (dir, _) = recorded("h200-x2", &[]);
    let root = dir.path().join("root");
    let [host, domain, user, gpu, disk, guid, mac, v4, v6, _serial] =
        std::array::from_fn(|at| NAMES.get(at).map_or("", |(_, name)| name));
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    put("proc/sys/kernel/hostname", &format!("{host}\n"));
    let boot = format!(
        "BOOT_IMAGE=/vmlinuz root=UUID={disk} ip={v4}::10.31.7.1:255.255.255.0:{host}.{domain}:eth0 BOOTIF=01-{} \
         nfsroot=[{v6}]:/home/{user}/root intel_iommu=on iommu=pt node={guid} mac={mac}\n",
        mac.replace(':', "-")
    );
    put("proc/cmdline", &boot);
    let information = fs::read_dir(root.join("proc/driver/nvidia/gpus"))
        .expect("GPUs")
        .map(|entry| entry.expect("an entry").path().join("information"))
        .next()
        .expect("a GPU");
    let text = fs::read_to_string(&information).expect("its information");
    let text = text
        .lines()
        .map(|line| match line.starts_with("GPU UUID") {
            true => format!("GPU UUID: \t {gpu}\n"),
            false => format!("{line}\n"),
        })
        .collect::<String>();
    fs::write(&information, text).expect("a file");
    // Extended capability 0003 in the place of the first one there is.
    let bdf = information
        .parent()
        .and_then(Path::file_name)
        .expect("an address")
        .to_owned();
    let config = root.join("sys/bus/pci/devices").join(&bdf).join("config");
    let mut bytes = fs::read(&config).expect("configuration space");
    bytes.resize(4096, 0);
    let next = u32::from_le_bytes(bytes[0x100..0x104].try_into().expect("four bytes"));
    bytes.copy_within(0x100..0x110, 0xf00);
    bytes[0x100..0x104].copy_from_slice(&(3u32 | 1 << 16 | 0xf00 << 20).to_le_bytes());
    bytes[0x104..0x10c].copy_from_slice(&[0x56, 0x34, 0x12, 0, 0, 0xa1, 0xb2, 0xc3]);
    assert_ne!(next, 0, "there was a list");
    fs::write(&config, &bytes).expect("a file");

    let take = |more: &[&str]| {
        let taken = run(&[&["--sysroot", text_of(&root), "snapshot", "-o", "-"], more].concat());
        assert_eq!(taken.code, 0, "{}", taken.stderr);
        taken.stdout
    };
    let (plain, masked) = (take(&[]), take(&["--mask"]));
    let letters = |text: &str| text.to_lowercase().replace([':', '-', '.', '_'], "");
    for (kind, name) in NAMES {
        assert!(
            letters(&plain).contains(&letters(name)),
            "{kind} is not in the snapshot at all"
        );
        assert!(!letters(&masked).contains(&letters(name)), "{kind} {name} is left");
    }
    for part in ["node17", "jdoe", "cluster", "31.7", "6f1c2a3b", "4f8:c0c"] {
        assert!(!masked.contains(part), "{part} is left");
    }
    // The same findings of the same functions.
    let conclusions = |document: &str| {
        let file = written(dir.path(), document.as_bytes());
        let report: Value = serde_json::from_str(&with(&file, &["doctor", "--format", "json"]).stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings").clone();
        findings
            .into_iter()
            .map(|finding| {
                (
                    finding["id"].clone(),
                    finding["outcome"].clone(),
                    finding["subject"].clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(conclusions(&masked), conclusions(&plain));
    assert_eq!(
        with(
            &written(dir.path(), masked.as_bytes()),
            &["topo", "--format", "nvidia-smi"]
        )
        .stdout,
        with(
            &written(dir.path(), plain.as_bytes()),
            &["topo", "--format", "nvidia-smi"]
        )
        .stdout
    );
}

#[test]
fn two_machines_are_compared_by_fact() {
    let (dir, one) = recorded("vm-iommu-on", &[]);
    let (_other, two) = recorded("vm-iommu-off", &[]);
    let same = run(&["snapshot", "--diff", text_of(&one), text_of(&one)]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let differ = run(&["snapshot", "--diff", text_of(&one), text_of(&two)]);
    assert_eq!(differ.code, 1, "{}", differ.stderr);
    assert!(differ.stdout.contains("PCI 0000:42:00.0"), "{}", differ.stdout);
    let line = differ
        .stdout
        .lines()
        .find(|line| line.contains("ACS"))
        .expect("a line about ACS");
    assert!(line.contains("ReqRedir+") || line.contains("ReqRedir-"), "{line}");
    let report = run(&["snapshot", "--diff", text_of(&one), text_of(&two), "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["schema"], "gdr.diff/1");
    let missing = run(&["snapshot", "--diff", text_of(&one), text_of(&dir.path().join("none"))]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("none"), "{}", missing.stderr);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file").permissions().mode() & 0o777
}

#[test]
fn what_names_the_machine_is_its_owners() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name);
    assert_eq!(run(&["snapshot", "-o", text_of(&at("new.json"))]).code, 0);
    assert_eq!(mode(&at("new.json")), 0o600);
    fs::set_permissions(at("new.json"), fs::Permissions::from_mode(0o640)).expect("a mode");
    assert_eq!(run(&["snapshot", "-o", text_of(&at("new.json"))]).code, 0);
    assert_eq!(mode(&at("new.json")), 0o640, "a file keeps its mode");
    assert_eq!(run(&["snapshot", "--mask", "-o", text_of(&at("masked.json"))]).code, 0);
    assert_eq!(mode(&at("masked.json")), 0o644);
    symlink("new.json", at("link.json")).expect("a link");
    assert_eq!(run(&["snapshot", "-o", text_of(&at("link.json"))]).code, 0);
    let link = fs::symlink_metadata(at("link.json")).expect("the link");
    assert!(link.is_symlink(), "a link stays one");
    let mut left: Vec<_> = fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["link.json", "masked.json", "new.json"]);
}

#[test]
fn what_needs_the_machine_itself_says_so() {
    let (_dir, file) = recorded("h200-x1", &[]);
    for (args, words) in [
        (&["doctor", "--live"][..], "gdr snapshot --live"),
        (&["probe", "copy"], "--from"),
        (&["snapshot", "--mask", "--all", "-o", "-"], "cannot be used with"),
    ] {
        let run = with(&file, args);
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    assert_eq!(run(&["--from", text_of(&file), "--sysroot", "/", "topo"]).code, 2);
    assert_eq!(with(&file, &["snapshot", "--live", "-o", "-"]).code, 2);
}

/// Lists that no machine has, compared with no more than 256 MiB of address space.
#[test]
fn hostile_records_are_compared_within_their_memory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let functions = |count: u32| {
        let name = |n: u32| {
            format!(
                "{:04x}:{:02x}:{:02x}.{:x}",
                n >> 16,
                n >> 8 & 0xff,
                n >> 3 & 0x1f,
                n & 7
            )
        };
        let names: Vec<String> = (0..count).map(name).collect();
        serde_json::json!({"/sys/bus/pci/devices": {"names": names}})
    };
    let text = |path: &str, text: String| serde_json::json!({path: {"text": text}});
    let file = |name: &str, files: Value| {
        let document = serde_json::json!({"schema": "gdr.snapshot/1", "gdr": "", "taken": "", "masked": false,
            "host": {"source": ""}, "libraries": {}, "files": files});
        let file = dir.path().join(name);
        fs::write(&file, document.to_string()).expect("a file");
        file
    };
    let empty = file("empty", serde_json::json!({"/sys/bus/pci/devices": {"names": []}}));
    for (name, files, code) in [
        ("most", functions(16_384), 1),
        ("more", functions(16_385), 1),
        ("modules", text("/proc/modules", "a b\n".repeat(1_500_000)), 0),
        (
            "parameters",
            text(
                "/proc/driver/nvidia/params",
                (0..500_000).map(|n| format!("P{n}: 1\n")).collect(),
            ),
            0,
        ),
    ] {
        let file = file(name, files);
        let command = "ulimit -v 262144; exec \"$0\" snapshot --diff \"$1\" \"$2\"";
        let output = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                command,
                env!("CARGO_BIN_EXE_gdr"),
                text_of(&file),
                text_of(&empty),
            ])
            .output()
            .expect("a shell");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {stderr}");
        assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    }
}
