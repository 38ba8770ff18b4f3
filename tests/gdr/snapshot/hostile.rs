//! Malformed, lying and huge input: a clear error and little memory.

use std::fs::File;

use super::*;

/// Exit 2, empty standard output, and these words on standard error.
fn refused(file: &Path, words: &[&str]) {
    let run = limited(file);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}: {}", run.stderr);
    for word in words.iter().chain(&["--from"]) {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
    assert!(run.stderr.len() < 2000, "{}", run.stderr);
}

/// Runs with 256 MiB of address space.
fn limited(file: &Path) -> Run {
    let run = Gdr::within(MEMORY).args(["doctor", "--from", text_of(file)]).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

#[test]
fn rejects_other_formats() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = dir.path();
    refused(&at.join("nowhere"), &["No such file"]);
    refused(at, &["directory"]);
    for (bytes, words) in [
        (&b""[..], &["not a gdr snapshot"][..]),
        (b"hello\n", &["not a gdr snapshot", "gdr snapshot"]),
        (b"\x00\xff\xfe\x80", &["a binary file", "gdr snapshot"]),
        (b"{", &["JSON"]),
        (b"{}", &["has no schema"]),
        (b"{\"schema\":7}", &["JSON"]),
        (b"{\"schema\":\"gdr.snapshot/2\"}", &["gdr.snapshot/2", "gdr.snapshot/1"]),
        (b"{\"schema\":\"gdr.topo/1\"}", &["the schema is not gdr.snapshot/1"]),
        (b"{\"schema\":\"gdr.snapshot/1\",\"files\":7}", &["gdr.snapshot/1"]),
        (b"\x28\xb5\x2f\xfd", &["Zstandard"]),
        (b"\x28\xb5\x2f\xfdgarbage that is not a frame", &[]),
    ] {
        refused(&written(at, bytes), words);
    }
    for open in ["[", "{\"a\":", "{\"schema\":\"gdr.snapshot/1\",\"files\":{\"/a\":{\"x\":[["] {
        refused(&written(at, open.repeat(100_000).as_bytes()), &[]);
    }
}

#[test]
fn rejects_gigabyte_in_any_compression() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("large");
    File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
    refused(&file, &["larger than 64 MiB"]);
    refused(&written(dir.path(), &bomb(None)), &["larger than 64 MiB"]);
    // The frame claims to be empty, or larger than memory.
    refused(&written(dir.path(), &bomb(Some(1))), &[]);
    refused(&written(dir.path(), &bomb(Some(u64::MAX))), &[]);
}

/// A gigabyte of spaces as a Zstandard frame (RFC 8878): blocks of one byte repeated 128 KiB times.
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
fn rejects_truncated_snapshot() {
    let (dir, file) = recorded("h200-x1", &[]);
    let compressed = fs::read(&file).expect("the snapshot");
    let plain = run(&["--from", text_of(&file), "snapshot", "-o", "-"]).stdout.into_bytes();
    for (whole, step) in [(&compressed, compressed.len() / 20), (&plain, plain.len() / 20)] {
        for cut in (1..whole.len() - 1).step_by(step.max(1)) {
            refused(&written(dir.path(), &whole[..cut]), &[]);
        }
    }
}

/// As much as a document of its size can contain.
#[test]
fn full_snapshot_fits_memory_limit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let size = 8 << 20;
    let around = |inside: &str, end: &str| {
        let head = "{\"schema\":\"gdr.snapshot/1\",\"gdr\":\"\",\"taken\":\"\",\"masked\":false,\"host\":{\"source\":\"\"},\"libraries\":{},\"files\":{";
        format!("{head}{inside}{end}}}")
    };
    let files = |count: usize| (0..count).map(|n| format!("\"{n:x}\":{{}},")).collect::<String>();
    let names = |count: usize| (0..count).map(|n| format!("\"{n:x}\",")).collect::<String>();
    let directory =
        |names: &str| around(&format!("\"/sys/bus/pci/devices\":{{\"names\":[{names}"), "\"\"]}}");
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

/// Impossible numbers in a snapshot.
#[test]
fn wrong_sizes_do_no_harm() {
    let (dir, _) = recorded("h200-x1", &[]);
    let root = dir.path().join("root");
    let honest: Value =
        serde_json::from_str(&run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]).stdout)
            .expect("JSON");
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

/// Compares snapshots with huge lists in 256 MiB of address space.
#[test]
fn compares_hostile_snapshots_within_memory_limit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let functions = |count: u32| {
        let name = |n: u32| {
            format!("{:04x}:{:02x}:{:02x}.{:x}", n >> 16, n >> 8 & 0xff, n >> 3 & 0x1f, n & 7)
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
        let run =
            Gdr::within(MEMORY).args(["snapshot", "--diff", text_of(&file), text_of(&empty)]).run();
        assert_eq!(run.code, code, "{name}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{name}: {}", run.stderr);
    }
}
