//! Example `devinfo` with fake libraries of different behaviour, with the machine's own, and without any.

use std::path::{Path, PathBuf};
use std::process::Command;

use fakes::verbs;
use serde_json::{Value, json};

/// The example, built beside this test.
fn devinfo() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this test");
    path.pop();
    path.pop();
    path.join("examples/devinfo")
}

/// Runs the example with the fake library in a directory and the machine `unlike`, changed by `change`.
fn on(library: &Path, change: impl FnOnce(&mut Value)) -> (bool, String) {
    let text = std::fs::read_to_string(verbs::machine("unlike")).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut machine);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), machine.to_string()).expect("room");
    run(Command::new(devinfo()).envs(verbs::environment(library, file.path())))
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("cargo test builds the examples");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the example with the libraries in a directory.
fn with(directory: &Path) -> (bool, String) {
    run(Command::new(devinfo()).env("LD_LIBRARY_PATH", directory))
}

#[test]
fn prints_devices() {
    let directory = verbs::build().expect("the fake library");
    let (well, text) = on(&directory, |_| ());
    let want = format!(
        "library: {}/libibverbs.so.1\n\
         dma-buf symbol: true\n\
         missing: \n\
         device: mlx5_0\n\
         \x20 firmware 28.39.1002, 1 ports, 131072 queue pairs\n\
         \x20 port 1: Active, Ethernet, MTU 4096 of 4096, lid 7\n\
         \x20 port 1 GID 0: RoceV1 ::ffff:192.0.2.1 interface 3\n\
         \x20 port 1 GID 2: RoceV2 ::ffff:192.0.2.1 interface 3\n\
         \x20 dma-buf: Registers(9)\n\
         device: mlx4_0\n\
         \x20 firmware 28.39.1002, 1 ports, 131072 queue pairs\n\
         \x20 port 1: Active, Ethernet, MTU 1024 of 4096, lid 7\n\
         \x20 port 1 GID 0: RoceV1 ::ffff:192.0.2.1 interface 3\n\
         \x20 port 1 GID 2: RoceV2 ::ffff:192.0.2.1 interface 3\n\
         \x20 dma-buf: Refuses(95)\n",
        directory.display()
    );
    assert_eq!((well, text), (true, want));
}

#[test]
fn failing_library() {
    let directory = verbs::build().expect("the fake library");
    let fails = |function: &str, code: u32| json!({function: code});
    for (member, value, well, says) in [
        (
            "errors",
            fails("ibv_get_device_list", 1),
            false,
            "error: libibverbs cannot list RDMA devices: Operation not permitted (os error 1)\n",
        ),
        (
            "errors",
            fails("ibv_open_device", 13),
            true,
            "device: mlx5_0\n  cannot open mlx5_0: Permission denied (os error 13)\ndevice: mlx4_0\n",
        ),
        (
            "errors",
            fails("ibv_alloc_pd", 12),
            true,
            "  mlx4_0: ibv_alloc_pd failed: Cannot allocate memory (os error 12)\n",
        ),
        ("verbs", json!({"devices": []}), true, "missing: \n"),
    ] {
        let (status, text) = on(&directory, |machine| machine[member] = value);
        assert_eq!(status, well, "{text}");
        assert!(text.contains(says), "{says}: {text}");
        assert_eq!(text.contains("device: "), member == "errors" && well, "{text}");
    }
}

#[test]
fn old_library() {
    let directory = verbs::build_old().expect("the fake library");
    let (well, text) = on(&directory, |_| ());
    assert!(well, "{text}");
    assert!(text.contains("dma-buf symbol: false\n"), "{text}");
    let missing =
        "missing: ibv_get_device_index _ibv_query_gid_ex _ibv_query_gid_table ibv_reg_dmabuf_mr\n";
    assert!(text.contains(missing), "{text}");
    assert!(
        text.contains("  the machine's rdma-core is too old: it has no _ibv_query_gid_table"),
        "{text}"
    );
    assert!(
        text.contains("  the machine's rdma-core is too old: it has no ibv_reg_dmabuf_mr"),
        "{text}"
    );
}

#[test]
fn invalid_library_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "this is not a library of any kind";
    std::fs::write(directory.path().join("libibverbs.so.1"), text).expect("a file");
    let (well, text) = with(directory.path());
    assert!(!well);
    assert!(text.starts_with("error: libibverbs.so.1 cannot be loaded: "), "{text}");
}

/// Debian's library has every function; a machine without devices lists none.
#[test]
fn installed_library() {
    let there = Command::new("/sbin/ldconfig")
        .arg("-p")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libibverbs.so.1"));
    let (well, text) = with(Path::new("/nowhere"));
    if !there {
        assert!(text.starts_with("error: no libibverbs.so.1 on this machine: "), "{text}");
    } else if well {
        assert!(text.contains("dma-buf symbol: true\nmissing: \n"), "{text}");
    } else {
        // A kernel without RDMA lists no devices.
        assert!(text.contains("error: libibverbs cannot list RDMA devices: "), "{text}");
    }
}

#[test]
#[ignore = "needs nm and readelf"]
fn starts_without_library() {
    let readelf = Command::new("readelf").arg("-d").arg(devinfo()).output();
    let needed = String::from_utf8_lossy(&readelf.expect("readelf runs").stdout).into_owned();
    assert!(needed.contains("libc.so.6"), "{needed}");
    assert!(!needed.contains("libibverbs") && !needed.contains("libnl"), "{needed}");
}
