//! The test double of the kernel's uverbs node (crate `fake-uverbs`), for the machine's own libibverbs and libmlx5: the library,
//! the sysfs tree in which libibverbs finds a NIC, and what a program is started with so that it has one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Driver, library};

/// A variable of the environment and its value.
pub type Variable = (&'static str, OsString);

/// What libibverbs reads of sysfs (rdma-core, `libibverbs/init.c` and `cmd_device.c`), for a NIC `mlx5_0` of two ports: port 1 is
/// InfiniBand, port 2 Ethernet. Below `class`.
const TREE: [(&str, &str); 9] = [
    ("infiniband_verbs/abi_version", "6"),
    ("infiniband_verbs/uverbs0/ibdev", "mlx5_0"),
    ("infiniband_verbs/uverbs0/dev", "231:192"),
    ("infiniband_verbs/uverbs0/abi_version", "1"),
    ("infiniband/mlx5_0/node_type", "1: CA"),
    ("infiniband/mlx5_0/fw_ver", "28.39.1002"),
    (
        "infiniband/mlx5_0/device/modalias",
        "pci:v000015B3d00001021sv000015B3sd00000001bc02sc07i00",
    ),
    ("infiniband/mlx5_0/ports/1/pkeys/0", "0xffff"),
    ("infiniband/mlx5_0/ports/2/pkeys/0", "0xffff"),
];

/// How many GIDs each port has room for, as the double says.
const ROOM: u32 = 4;

/// The GIDs that are set, by port and index: of port 2, GID 0 is of RoCE v1 and GID 1 of RoCE v2.
const GIDS: [(u32, u32, &str, &str); 3] = [
    (
        1,
        0,
        "fe80:0000:0000:0000:0a00:00ff:fe00:0002",
        "IB/RoCE v1",
    ),
    (
        2,
        0,
        "fe80:0000:0000:0000:0a00:00ff:fe00:0001",
        "IB/RoCE v1",
    ),
    (2, 1, "0000:0000:0000:0000:0000:ffff:c0a8:0001", "RoCE v2"),
];

/// One that is not set. With Linux its type cannot be read, with an error (`EINVAL`) that no plain file has; libibverbs then takes it
/// for the first one.
const UNSET: (&str, &str) = ("0000:0000:0000:0000:0000:0000:0000:0000", "IB/RoCE v1");

/// Builds the library and gives its path, for `LD_PRELOAD`.
///
/// # Errors
///
/// What cargo or the file system says, in words for a failing test.
pub fn build() -> Result<PathBuf, String> {
    let name = "libfake_uverbs.so";
    Ok(library(Driver::Current, "uverbs-", "fake-uverbs", name)?.join(name))
}

/// Lays the sysfs tree out below a directory, for `SYSFS_PATH`.
///
/// # Errors
///
/// What the file system says, in words for a failing test.
pub fn lay_out(root: &Path) -> Result<(), String> {
    for (path, text) in TREE {
        file(root, path, text)?;
    }
    for port in [1, 2] {
        for index in 0..ROOM {
            let set = GIDS
                .iter()
                .find(|known| (known.0, known.1) == (port, index));
            let (gid, kind) = set.map_or(UNSET, |set| (set.2, set.3));
            let ports = format!("infiniband/mlx5_0/ports/{port}");
            file(root, &format!("{ports}/gids/{index}"), gid)?;
            file(root, &format!("{ports}/gid_attrs/types/{index}"), kind)?;
        }
    }
    Ok(())
}

/// A file of the tree, of one line.
fn file(root: &Path, path: &str, text: &str) -> Result<(), String> {
    let path = root.join("class").join(path);
    let directory = path.parent().unwrap_or(root);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, format!("{text}\n")))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// What to start a program with, so that its libibverbs and libmlx5 find a NIC that answers commands and leaves queues alone: the
/// test looks at them. The library is built, and the tree laid out in the directory `root`, which must stay as long as the program
/// runs.
///
/// # Errors
///
/// What cargo or the file system says, in words for a failing test.
pub fn node(root: &Path) -> Result<[Variable; 3], String> {
    lay_out(root)?;
    Ok([
        ("LD_PRELOAD", build()?.into()),
        ("SYSFS_PATH", root.into()),
        // The provider tells of each completion with an error.
        ("MLX5_DEBUG_FILE", "/dev/null".into()),
    ])
}

/// The same with a NIC that executes: `mlx5_0`, port 1 InfiniBand and port 2 Ethernet, both active.
///
/// The machine must have Debian's `ibverbs-providers`, or another libmlx5. The NIC's other switches are variables, too: the
/// documentation of crate `fake-uverbs` lists them.
///
/// # Errors
///
/// What cargo or the file system says, in words for a failing test.
pub fn nic(root: &Path) -> Result<[Variable; 4], String> {
    let [library, tree, quiet] = node(root)?;
    Ok([library, tree, quiet, ("FAKE_UVERBS_NIC", "1".into())])
}
