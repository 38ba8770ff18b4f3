//! Reports that are cut, damaged, hostile or far larger unpacked: an error in plain words, or what they hold.

use std::fs;

use super::reports::{
    FIRST, LSPCI, SEPARATOR, VERSION, bug_report, entry, files, functions, gzip, resize, sosreport,
    supportconfig,
};
use super::{from, json, outcomes};
use crate::support::{Gdr, MEMORY, scratch};

/// Names that lead out, links in a circle and out of the root, hard links, devices: nothing is written, and nothing that
/// is not in the archive is read.
#[test]
fn archive_cannot_escape() {
    let outside = scratch();
    let secret = outside.path().join("version");
    fs::write(&secret, VERSION).expect("a file");
    let secret = secret.to_string_lossy();
    let start = "sosreport-x/";
    let named =
        |path: &str, kind: u8, link: &str| entry(&format!("{start}{path}"), kind, link, b"");
    let deep = "d/".repeat(45);
    let archive = [
        entry("../../etc/modprobe.d/evil.conf", b'0', "", b"options nvidia x=1\n"),
        entry("/etc/modprobe.d/absolute.conf", b'0', "", b"options nvidia x=1\n"),
        named(&format!("proc/{deep}x"), b'0', ""),
        named("proc/driver/nvidia/version", b'2', &secret),
        named("proc/driver/nvidia/params", b'1', &secret),
        named("proc/cmdline", b'2', "../../../../../../../etc/hostname"),
        named("proc/modules", b'2', "modules"),
        named("proc/cpuinfo", b'3', ""),
        named("sys/class/infiniband", b'2', "infiniband"),
        files(start, &[("sos_commands/pci/lspci_-nnvv", LSPCI)]),
    ]
    .concat();
    let doctor = from("archive", &archive, &["doctor", "--verbose"]);
    assert!([1, 3].contains(&doctor.code), "{}", doctor.stderr);
    let report = json(&from("archive", &archive, &["doctor", "--format", "json"]));
    for ((id, subject), outcome) in outcomes(&report) {
        let is_driver = ["gpu.min-driver", "param.stream-memops"].contains(&id.as_str());
        assert!(!is_driver || outcome == "unknown", "{id} {subject}: {outcome}");
    }
}

/// A report that is cut, damaged or no report is an error that says so, or it is read as far as it goes.
#[test]
fn reports_broken_archive() {
    let archive = sosreport();
    let packed = gzip(&archive);
    let mut damaged = archive.clone();
    damaged[3] = b'?';
    let text = [SEPARATOR, "Start of NVIDIA bug report log file.\n"].concat();
    let huge = entry("x/proc/cmdline", b'L', "", &[b'a'; 300_000]);
    let other = files("photos/", &[("holiday.txt", "sun\n")]);
    let mut endless = entry("x/y", b'0', "", b"");
    resize(&mut endless, 0o77777777777);
    for (name, bytes, words) in [
        ("cut", archive[..archive.len() - 700].to_vec(), "the file is truncated"),
        ("cut in its compression", packed[..packed.len() / 2].to_vec(), "the file is truncated"),
        ("damaged", damaged, "the archive is damaged: archive header checksum mismatch"),
        ("not gzip", [&packed[..10], &[0xff; 100]].concat(), "invalid gzip data"),
        ("a long name", huge, "headers of more than 256 KiB"),
        ("endless", endless, "the file is truncated"),
        ("of something else", other, "neither files of /sys nor output of lspci"),
        ("empty log", text.into_bytes(), "no GPU, NIC or PCI device found in it"),
        ("bzip2", b"BZh91AY&SY".to_vec(), "bzip2 compression is not supported"),
    ] {
        for command in [&["doctor"][..], &["topo"]] {
            let run = from(name, &bytes, command);
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {}", run.stderr);
            assert!(
                run.stderr.contains(words) && run.stderr.contains(name),
                "{name}: {}",
                run.stderr
            );
        }
    }
}

/// Wherever a file ends, gdr ends with one of its exit codes.
#[test]
fn every_prefix_is_handled() {
    let log = bug_report(scratch().path(), LSPCI);
    for whole in [log.as_bytes(), &gzip(log.as_bytes()), &sosreport(), &gzip(&supportconfig())] {
        for length in (0..whole.len()).step_by(whole.len() / 12 + 1) {
            let run = from("prefix", &whole[..length], &["topo"]);
            assert!([0, 2].contains(&run.code), "{length}: {}", run.stderr);
        }
    }
}

/// What unpacks to far more than the file has stays within the memory that any input may take.
#[test]
#[ignore = "slow: unpacks large files"]
fn bombs_fit_memory_limit() {
    let directory = scratch();
    let start = "sosreport-x/";
    // A file of several members is made quickly.
    let members = |byte: u8, count: usize| gzip(&[byte].repeat(1 << 20)).repeat(count);
    let mebibytes = |byte: u8| members(byte, 80);
    let sized = |name: &str, kind: u8, mebibytes: u64| {
        let mut header = entry(&format!("{start}{name}"), kind, "", b"");
        resize(&mut header, mebibytes << 20);
        gzip(&header)
    };
    let header = |name: &str| sized(name, b'0', 80);
    let file = header("proc/driver/nvidia/params");
    let zeros = [sized("var/log/zeros", b'0', 1_100), members(0, 1_100)].concat();
    let name = [sized("name", b'L', 80), mebibytes(b'n')].concat();
    let records = [sized("records", b'x', 80), mebibytes(b' ')].concat();
    let large = [file, mebibytes(b' '), gzip(&sosreport())].concat();
    let lspci = [header("sos_commands/pci/lspci_-nnvv"), mebibytes(b'0')].concat();
    let thousand = |at| files(start, &[(&format!("etc/modprobe.d/{at}.conf"), "")]);
    let many = gzip(&(0..1_000).flat_map(thousand).collect::<Vec<u8>>()).repeat(150);
    let lines = [gzip([SEPARATOR, FIRST].concat().as_bytes()), mebibytes(b'\n')].concat();
    for (name, bytes, words) in [
        ("many functions", gzip(&functions(4_000)), None),
        ("a large file", large, None),
        ("many files", many, Some("more than 64 MiB of the files that gdr reads")),
        ("a large output", lspci, Some("more than 64 MiB of the files that gdr reads")),
        ("many lines", lines, Some("more than 64 MiB of the files that gdr reads")),
        (
            "a gibibyte of zeros",
            zeros,
            Some("unpacks to more than 1 GiB and to more than 100 times its size"),
        ),
        ("a long name", name, Some("headers of more than 256 KiB")),
        ("long records", records, Some("headers of more than 256 KiB")),
        ("no report", mebibytes(b'x'), Some("larger than 64 MiB")),
    ] {
        let file = directory.path().join("bomb");
        fs::write(&file, &bytes).expect("a file");
        let run = Gdr::within(MEMORY)
            .args(["doctor".as_ref(), "--from".as_ref(), file.as_os_str()])
            .run();
        assert!(!run.stderr.contains("panicked"), "{name}: {}", run.stderr);
        match words {
            Some(words) => assert!(
                run.code == 2 && run.stderr.contains(words),
                "{name}: {} {}",
                run.code,
                run.stderr
            ),
            None => assert!([1, 3].contains(&run.code), "{name}: {}", run.stderr),
        }
    }
}
