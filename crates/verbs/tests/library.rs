//! Example `devinfo` with fake libraries of different behaviour, with the machine's own, and without any.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The example, built beside this test.
fn devinfo() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this test");
    path.pop();
    path.pop();
    path.join("examples/devinfo")
}

/// A directory with a fake library.
fn fake(name: &str, flags: &[&str]) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("gdr-verbs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let output = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-w",
            "-Wl,-soname,libibverbs.so.1",
            "-o",
        ])
        .arg(directory.join("libibverbs.so.1"))
        .args(flags)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/libibverbs.c"))
        .output()
        .expect("a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    directory
}

fn run(libraries: &Path, behaviour: &str) -> (bool, String) {
    let output: Output = Command::new(devinfo())
        .env("LD_LIBRARY_PATH", libraries)
        .env("FAKE_VERBS", behaviour)
        .output()
        .expect("cargo test builds the examples");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn prints_devices() {
    let directory = fake("sound", &[]);
    let (well, text) = run(&directory, "sound");
    let want = format!(
        "library: {}/libibverbs.so.1\n\
         dma-buf symbol: true\n\
         missing: ibv_get_device_index ibv_query_gid ibv_query_pkey _ibv_query_gid_ex ibv_reg_mr_iova2 ibv_dereg_mr \
         ibv_create_comp_channel ibv_destroy_comp_channel ibv_get_cq_event ibv_ack_cq_events ibv_get_async_event \
         ibv_ack_async_event ibv_create_ah ibv_destroy_ah ibv_create_cq ibv_destroy_cq ibv_create_qp ibv_query_qp \
         ibv_modify_qp ibv_destroy_qp ibv_reg_mr\n\
         device: mlx5_0\n\
         \x20 firmware 28.39.1002, 1 ports, 131072 queue pairs, 16777216 regions\n\
         \x20 port 1: Active, Ethernet, MTU 4096 of 4096, lid 7\n\
         \x20 port 1 GID 0: RoceV1 ::ffff:192.0.2.1 interface 3\n\
         \x20 port 1 GID 2: RoceV2 ::ffff:192.0.2.1 interface 3\n\
         \x20 dma-buf: Registers(9)\n\
         device: mlx4_0\n\
         \x20 firmware 28.39.1002, 1 ports, 131072 queue pairs, 16777216 regions\n\
         \x20 port 1: Active, Ethernet, MTU 1024 of 4096, lid 7\n\
         \x20 port 1 GID 0: RoceV1 ::ffff:192.0.2.1 interface 3\n\
         \x20 port 1 GID 2: RoceV2 ::ffff:192.0.2.1 interface 3\n\
         \x20 dma-buf: Refuses(95)\n",
        directory.display()
    );
    assert_eq!((well, text), (true, want));
    std::fs::remove_dir_all(directory).expect("it was ours");
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn failing_library() {
    let directory = fake("fails", &[]);
    for (behaviour, well, says) in [
        ("none", true, "ibv_reg_mr\n"),
        ("unserved", true, "device: mlx5_0\n"),
        (
            "error",
            false,
            "error: libibverbs cannot list RDMA devices: Operation not permitted (os error 1)\n",
        ),
        (
            "closed",
            true,
            "device: mlx5_0\n  cannot open mlx5_0: Permission denied (os error 13)\n",
        ),
        (
            "no-pd",
            true,
            "  mlx5_0: ibv_alloc_pd failed: Cannot allocate memory (os error 12)\n",
        ),
    ] {
        let (status, text) = run(&directory, behaviour);
        assert_eq!(status, well, "{behaviour}: {text}");
        assert!(text.contains(says), "{behaviour}: {text}");
        assert_eq!(
            text.contains("mlx4_0"),
            matches!(behaviour, "closed" | "no-pd"),
            "{behaviour}: {text}"
        );
    }
    std::fs::remove_dir_all(directory).expect("it was ours");
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn old_library() {
    let directory = fake("old", &["-DOLD"]);
    let (well, text) = run(&directory, "sound");
    assert!(well, "{text}");
    assert!(text.contains("dma-buf symbol: false\n"), "{text}");
    assert!(
        text.contains("  the machine's rdma-core is too old: it has no _ibv_query_gid_table"),
        "{text}"
    );
    assert!(
        text.contains("  the machine's rdma-core is too old: it has no ibv_reg_dmabuf_mr"),
        "{text}"
    );
    std::fs::remove_dir_all(directory).expect("it was ours");
}

#[test]
fn invalid_library_file() {
    let directory = std::env::temp_dir().join(format!("gdr-verbs-none-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    std::fs::write(
        directory.join("libibverbs.so.1"),
        "this is no library of any kind",
    )
    .expect("a file");
    let (well, text) = run(&directory, "");
    assert!(!well);
    assert!(
        text.starts_with("error: libibverbs.so.1 cannot be loaded: "),
        "{text}"
    );
    std::fs::remove_dir_all(directory).expect("it was ours");
}

/// Debian's library has every function; a machine without devices lists none.
#[test]
fn installed_library() {
    let there = Command::new("/sbin/ldconfig")
        .arg("-p")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libibverbs.so.1"));
    let (well, text) = run(Path::new("/nowhere"), "");
    match there {
        true if well => assert!(text.contains("dma-buf symbol: true\nmissing: \n"), "{text}"),
        // A kernel without RDMA lists no devices.
        true => assert!(
            text.contains("error: libibverbs cannot list RDMA devices: "),
            "{text}"
        ),
        false => assert!(
            text.starts_with("error: no libibverbs.so.1 on this machine: "),
            "{text}"
        ),
    }
}

#[test]
#[ignore = "needs nm and readelf"]
fn starts_without_library() {
    let readelf = Command::new("readelf").arg("-d").arg(devinfo()).output();
    let needed = String::from_utf8_lossy(&readelf.expect("readelf runs").stdout).into_owned();
    assert!(needed.contains("libc.so.6"), "{needed}");
    assert!(
        !needed.contains("libibverbs") && !needed.contains("libnl"),
        "{needed}"
    );
}
