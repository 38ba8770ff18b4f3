//! Whatever is wrong with the input, gdr says what and where, ends with the right code, and never panics.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Gdr, Machine, Run, gdr};
use fakes::Driver;
use serde_json::Value;

fn run(root: &Path, args: &[&str]) -> Run {
    let run = Gdr::new().sysroot(root).args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// Usage and input errors: exit 2, nothing on standard output, a message with these words on standard error.
fn refuses(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
}

#[test]
fn unknown_device() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    refuses(
        &run(dir.path(), &["topo", "--path", "GPU0", "0000:ff:00.0"]),
        &["unknown device '0000:ff:00.0'", "GPU0 GPU1"],
    );
    refuses(&run(dir.path(), &["topo", "--path", "GPU0", "NIC99"]), &["unknown device 'NIC99'"]);
    refuses(&run(dir.path(), &["topo", "--path", "GPU0", "gpu0"]), &["the same device"]);
}

#[test]
fn invalid_root() {
    let missing = Path::new("/no/such/directory");
    refuses(&run(missing, &["topo"]), &["/no/such/directory", "No such file"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    refuses(&run(file.path(), &["topo"]), &["Not a directory"]);
    let empty = tempfile::tempdir().expect("a directory");
    refuses(&run(empty.path(), &["topo"]), &["neither sys/ nor proc/"]);
    fs::create_dir(empty.path().join("sys")).expect("a directory");
    refuses(&run(empty.path(), &["topo"]), &["/sys/bus/pci/devices"]);
}

#[test]
fn invalid_profile() {
    let dir = Machine::load("h200-x1").laid_out();
    refuses(&run(dir.path(), &["doctor", "--profile", "rmda"]), &["'rmda'", "rdma, async"]);
    let file = dir.path().join("mine.toml");
    fs::write(&file, "name = \"mine\"\nabout = \"\"\ncolour = 1\n").expect("a file");
    refuses(
        &run(dir.path(), &["doctor", "--profile", &file.to_string_lossy()]),
        &["line 3, column 1: unknown key, expected one of `name`"],
    );
    let said = run(dir.path(), &["doctor", "--profile", &file.to_string_lossy()]).stderr;
    assert_eq!(said.matches("unknown key").count(), 1, "said twice: {said}");
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &["topo", "--format", "xml"][..],
        &["topo", "--path", "GPU0"],
        &["frobnicate"],
        &["topo", "--p2p", "x"],
    ] {
        assert_eq!(gdr(args).code, 2, "{args:?}");
    }
}

/// The machine `broken` has empty, short and looping configuration spaces and a link out of the root.
#[test]
fn every_command_survives_the_broken_machine() {
    let dir = Machine::load("broken").laid_out();
    let verbose = run(dir.path(), &["topo", "--verbose"]);
    assert_eq!(verbose.code, 0, "{}", verbose.stderr);
    for words in ["0000:02:00.0/config", "0000:04:00.0/config", "0000:07:00.0"] {
        assert!(verbose.stderr.contains(words), "'{words}' is not in: {}", verbose.stderr);
    }
    for args in [
        &["topo", "--format", "json"][..],
        &["topo", "--format", "svg"],
        &["topo", "--pairs"],
        &["topo", "--nvme"],
    ] {
        assert_eq!(run(dir.path(), args).code, 0, "{args:?}");
    }
    let doctor = run(dir.path(), &["doctor", "--format", "json"]);
    assert!([1, 3].contains(&doctor.code), "{}", doctor.stderr);
}

#[test]
#[ignore = "slow: hundreds of runs"]
fn survives_any_broken_file() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let mut files = Vec::new();
    for area in [
        "proc",
        "sys/bus/pci/devices/0000:17:01.0",
        "sys/bus/pci/devices/0000:18:00.0",
        "sys/devices/system",
    ] {
        let root = fs::canonicalize(dir.path().join(area)).expect("an area");
        walk(&root, &mut files);
    }
    assert!(files.len() > 40, "only {} files", files.len());
    for file in files {
        let whole = fs::read(&file).expect("a file");
        for replacement in
            [None, Some(&b""[..]), Some(&[0xff; 37][..]), whole.get(..whole.len() / 2)]
        {
            match replacement {
                None => fs::remove_file(&file).expect("removed"),
                Some(bytes) => fs::write(&file, bytes).expect("written"),
            }
            for args in [&["topo"][..], &["doctor"]] {
                let run = run(dir.path(), args);
                assert!(
                    [0, 1, 2, 3].contains(&run.code),
                    "{} {args:?}: {}",
                    file.display(),
                    run.stderr
                );
            }
        }
        fs::write(&file, &whole).expect("restored");
    }
}

fn walk(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            // The devices below a port have an area of their own.
            if !entry.file_name().to_string_lossy().contains(':') {
                walk(&entry.path(), files);
            }
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

#[test]
fn unreadable_files_are_unknown() {
    // Root reads everything: only an ordinary user's run shows this.
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let config = dir.path().join("sys/bus/pci/devices/0000:17:02.0/config");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o000)).expect("permissions");
    let run = run(dir.path(), &["topo", "--verbose"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    if fs::read(&config).is_err() {
        assert!(
            run.stderr.contains("0000:17:02.0/config") && run.stderr.contains("ermission denied"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn short_configuration_space_is_unknown() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let devices = dir.path().join("sys/bus/pci/devices");
    for entry in fs::read_dir(&devices).expect("devices") {
        // An ordinary user reads the first 64 bytes.
        let config = entry.expect("an entry").path().join("config");
        let bytes = fs::read(&config).expect("config");
        fs::write(&config, &bytes[..64]).expect("written");
    }
    let report = run(dir.path(), &["doctor", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let acs: Vec<&Value> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["id"] == "pcie.acs")
        .collect();
    assert!(!acs.is_empty());
    for finding in acs {
        assert_eq!(finding["outcome"], "unknown", "{finding}");
        assert_eq!(finding["needs"], "root", "{finding}");
    }
}

/// A copy that follows links leaves directories: where the device sits is lost, and that is not the same as nowhere.
#[test]
fn device_without_link_is_unknown() {
    let dir = Machine::load("numa-minus-one").laid_out();
    let device = dir.path().join("sys/class/infiniband/mlx5_0");
    fs::remove_file(&device).expect("removed");
    fs::create_dir(&device).expect("a directory");
    let report = run(dir.path(), &["doctor", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let found: Vec<(&Value, &Value)> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["id"] == "rdma.device")
        .map(|finding| (&finding["subject"], &finding["outcome"]))
        .collect();
    assert_eq!(found, [(&"mlx5_0".into(), &"unknown".into())]);
}

#[test]
fn links_stay_in_root() {
    let dir = Machine::load("h200-x1").laid_out();
    let outside = tempfile::NamedTempFile::new().expect("a file");
    fs::write(outside.path(), "0x10de\n").expect("written");
    let device = dir.path().join("sys/bus/pci/devices/0000:00:01.0/numa_node");
    fs::remove_file(&device).expect("removed");
    symlink(outside.path(), &device).expect("a link");
    let run = run(dir.path(), &["topo", "--verbose"]);
    assert_eq!(run.code, 0);
    assert!(!run.stderr.contains("0x10de"), "it read the file outside: {}", run.stderr);
}

/// Links that name each of two functions as the bridge above the other, and one as its own.
#[test]
fn circular_tree_ends() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let devices = dir.path().join("sys/bus/pci/devices");
    for (name, above) in [
        ("0000:18:00.0", "0000:17:01.0"),
        ("0000:17:01.0", "0000:18:00.0"),
        ("0000:19:00.0", "0000:19:00.0"),
    ] {
        let link = devices.join(name);
        let old = fs::canonicalize(&link).expect("a device");
        let inside = format!("sys/devices/pci0000:15/{above}/{name}");
        fs::create_dir_all(dir.path().join(&inside)).expect("a directory");
        for file in ["config", "numa_node"] {
            fs::copy(old.join(file), dir.path().join(&inside).join(file)).expect("copied");
        }
        fs::remove_file(&link).expect("removed");
        symlink(format!("../../../../{inside}"), &link).expect("a link");
    }
    for args in [
        &["topo"][..],
        &["topo", "--format", "json"],
        &["topo", "--format", "svg"],
        &["topo", "--pairs"],
        &["doctor"],
    ] {
        let run = run(dir.path(), args);
        assert!([0, 1, 3].contains(&run.code), "{args:?}: {} {}", run.code, run.stderr);
    }
}

/// Names and values come from files that anybody may have written: none of them reaches the terminal as a command.
#[test]
fn output_has_no_escape_sequences() {
    let dir = Machine::load("dual-epyc").laid_out();
    let evil = "ev\u{1b}[2Jil\u{7}\n";
    let sys = dir.path().join("sys");
    let class = sys.join("class/infiniband");
    fs::rename(class.join("mlx5_10"), class.join(evil)).expect("renamed");
    fs::write(sys.join("bus/pci/devices/0000:01:00.0/numa_node"), evil).expect("written");
    fs::remove_dir_all(dir.path().join("proc/driver/nvidia/gpus/0000:41:00.0")).expect("removed");
    let driver = sys.join("bus/pci/devices/0000:41:00.0/driver");
    fs::remove_file(&driver).expect("removed");
    symlink(format!("../../bus/pci/drivers/{evil}"), &driver).expect("a link");
    for args in [
        &["topo", "--verbose"][..],
        &["topo", "--pairs"],
        &["topo", "--path", "GPU0", "NIC0"],
        &["topo", "--format", "nvidia-smi"],
        &["topo", "--format", "svg"],
        &["topo", "--format", "json"],
        &["doctor", "--verbose"],
        &["doctor", "--format", "json"],
    ] {
        let run = run(dir.path(), args);
        for text in [&run.stdout, &run.stderr] {
            assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{7}'), "{args:?}: {text:?}");
        }
    }
}

#[test]
fn closed_pipe_is_no_error() {
    let dir = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gdr"))
        .args(["--sysroot", &dir.path().to_string_lossy(), "topo", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gdr starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut first = [0; 1];
    stdout.read_exact(&mut first).expect("a byte");
    drop(stdout);
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// `gdr doctor | head -1` in a script with pipefail: no reader makes a broken machine well.
#[test]
fn closed_pipe_keeps_exit_code() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let doctor = Command::new(env!("CARGO_BIN_EXE_gdr"))
        .args(["--sysroot", &dir.path().to_string_lossy(), "doctor"])
        .stdout(writer)
        .output()
        .expect("gdr starts");
    assert_eq!(doctor.status.code(), Some(1), "{}", String::from_utf8_lossy(&doctor.stderr));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let topo = Command::new(env!("CARGO_BIN_EXE_gdr"))
        .args(["--sysroot", &dir.path().to_string_lossy(), "topo", "--verbose"])
        .stderr(writer)
        .output()
        .expect("gdr starts");
    assert!(!topo.stdout.is_empty(), "nobody heard the notes, and the matrix is gone too");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let topo = Command::new(env!("CARGO_BIN_EXE_gdr"))
        .args(["--sysroot", &dir.path().to_string_lossy(), "topo"])
        .stdout(full)
        .output()
        .expect("gdr starts");
    let said = String::from_utf8_lossy(&topo.stderr);
    assert_eq!(topo.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write the output"), "{said}");
}

#[test]
fn hanging_nvml_times_out() {
    let fake = fakes::nvml::build(Driver::Current).expect("the simulated library");
    let dir = tempfile::tempdir().expect("a directory");
    let machine = dir.path().join("hangs.json");
    let text = fs::read_to_string(fakes::nvml::machine("h200-x2")).expect("a machine");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["hang_in"] = "nvmlInit_v2".into();
    fs::write(&machine, value.to_string()).expect("written");

    let start = Instant::now();
    let with = |args: &[&str]| {
        let mut gdr = Gdr::new().args(args);
        for (name, value) in fakes::nvml::environment(&fake, &machine) {
            gdr = gdr.env(name, value);
        }
        gdr.run()
    };
    let (run, doctor) = std::thread::scope(|scope| {
        let doctor = scope.spawn(|| with(&["doctor", "--library-timeout", "1", "--verbose"]));
        let topo = with(&["topo", "--p2p", "r", "--library-timeout", "1"]);
        (topo, doctor.join().expect("doctor ends"))
    });
    refuses(&run, &["did not answer within 1 s", "--library-timeout"]);
    assert!([1, 3].contains(&doctor.code), "{}", doctor.stderr);
    doctor.assert_stderr("did not answer within 1 s");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn reports_nvml_error() {
    let fake = fakes::nvml::build(Driver::Current).expect("the simulated library");
    let dir = tempfile::tempdir().expect("a directory");
    let machine = dir.path().join("mismatch.json");
    let text = fs::read_to_string(fakes::nvml::machine("h200-x2")).expect("a machine");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["init_error"] = 18.into();
    fs::write(&machine, value.to_string()).expect("written");
    let mut gdr = Gdr::new().args(["topo", "--p2p", "r"]);
    for (name, value) in fakes::nvml::environment(&fake, &machine) {
        gdr = gdr.env(name, value);
    }
    refuses(&gdr.run(), &["NVML", "18"]);
}
