//! The fake uverbs node (crate `fake-uverbs`) for the machine's own libibverbs and libmlx5: the library, the sysfs tree with a NIC, and the
//! environment of programs that use them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Driver, library};

/// An environment variable.
pub type Variable = (&'static str, OsString);

/// The sysfs attributes that libibverbs reads below `class` (rdma-core, `libibverbs/init.c` and `cmd_device.c`), for NIC `mlx5_0`: port 1
/// InfiniBand, port 2 Ethernet.
const TREE: [(&str, &str); 9] = [
    ("infiniband_verbs/abi_version", "6"),
    ("infiniband_verbs/uverbs0/ibdev", "mlx5_0"),
    ("infiniband_verbs/uverbs0/dev", "231:192"),
    ("infiniband_verbs/uverbs0/abi_version", "1"),
    ("infiniband/mlx5_0/node_type", "1: CA"),
    ("infiniband/mlx5_0/fw_ver", "28.39.1002"),
    ("infiniband/mlx5_0/device/modalias", "pci:v000015B3d00001021sv000015B3sd00000001bc02sc07i00"),
    ("infiniband/mlx5_0/ports/1/pkeys/0", "0xffff"),
    ("infiniband/mlx5_0/ports/2/pkeys/0", "0xffff"),
];

/// GID table entries per port, as in the fake.
const ROOM: u32 = 4;

/// The GIDs by port and index; of port 2, GID 0 is RoCE v1 and GID 1 RoCE v2.
const GIDS: [(u32, u32, &str, &str); 3] = [
    (1, 0, "fe80:0000:0000:0000:0a00:00ff:fe00:0002", "IB/RoCE v1"),
    (2, 0, "fe80:0000:0000:0000:0a00:00ff:fe00:0001", "IB/RoCE v1"),
    (2, 1, "0000:0000:0000:0000:0000:ffff:c0a8:0001", "RoCE v2"),
];

/// An empty entry. On Linux reading its type fails with `EINVAL`, which a plain file cannot do; libibverbs then assumes the first type.
const UNSET: (&str, &str) = ("0000:0000:0000:0000:0000:0000:0000:0000", "IB/RoCE v1");

/// Builds the library; returns its path, for `LD_PRELOAD`.
///
/// # Errors
///
/// Text of cargo's or the file system's error, for a failing test.
pub fn build() -> Result<PathBuf, String> {
    let name = "libfake_uverbs.so";
    Ok(library(Driver::Current, "uverbs-", "fake-uverbs", name)?.join(name))
}

/// Creates the sysfs tree in a directory, for `SYSFS_PATH`.
///
/// # Errors
///
/// Text of the file system's error, for a failing test.
pub fn lay_out(root: &Path) -> Result<(), String> {
    for (path, text) in TREE {
        file(root, path, text)?;
    }
    for port in [1, 2] {
        for index in 0..ROOM {
            let set = GIDS.iter().find(|known| (known.0, known.1) == (port, index));
            let (gid, kind) = set.map_or(UNSET, |set| (set.2, set.3));
            let ports = format!("infiniband/mlx5_0/ports/{port}");
            file(root, &format!("{ports}/gids/{index}"), gid)?;
            file(root, &format!("{ports}/gid_attrs/types/{index}"), kind)?;
        }
    }
    Ok(())
}

/// An attribute file of one line.
fn file(root: &Path, path: &str, text: &str) -> Result<(), String> {
    let path = root.join("class").join(path);
    let directory = path.parent().unwrap_or(root);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, format!("{text}\n")))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Environment of a program whose libibverbs and libmlx5 find a NIC that executes commands but no requests: the test reads its queues.
/// Builds the library, and creates the sysfs tree in `root`, which must outlive the program.
///
/// # Errors
///
/// Text of cargo's or the file system's error, for a failing test.
pub fn node(root: &Path) -> Result<[Variable; 3], String> {
    lay_out(root)?;
    Ok([
        ("LD_PRELOAD", build()?.into()),
        ("SYSFS_PATH", root.into()),
        // The provider prints every error completion.
        ("MLX5_DEBUG_FILE", "/dev/null".into()),
    ])
}

/// The same with a NIC that executes requests: `mlx5_0`, port 1 InfiniBand and port 2 Ethernet, both active.
///
/// Requires Debian's `ibverbs-providers`, or another libmlx5. The documentation of crate `fake-uverbs` lists the NIC's other variables.
///
/// # Errors
///
/// Text of cargo's or the file system's error, for a failing test.
pub fn nic(root: &Path) -> Result<[Variable; 4], String> {
    let [library, tree, quiet] = node(root)?;
    Ok([library, tree, quiet, ("FAKE_UVERBS_NIC", "1".into())])
}
