//! How a test gets into a process where Debian's libibverbs and libmlx5 have a card: it starts itself again with the
//! kernel's double preloaded and a sysfs tree of its own.

use std::error::Error as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Set in the second process.
const INSIDE: &str = "GDSYNC_ORACLE_INSIDE";

/// Runs `body` in a second process, in which the provider finds a card; `name` is the test's own path, as the harness lists it.
/// `variables` are the provider's own, such as `MLX5_SHUT_UP_BF`.
///
/// Without libmlx5 it says so and does nothing; in continuous integration that fails.
///
/// # Panics
///
/// Where the second process fails; its output is told.
pub fn inside(name: &str, variables: &[(&str, &str)], body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if let Err(missing) = provider_is_there() {
        let reason = format!("libmlx5.so.1 cannot be opened (Debian's ibverbs-providers): {missing}");
        assert!(
            !std::env::var("CI").is_ok_and(|ci| ci == "true"),
            "CI must not skip this: {reason}"
        );
        // Past the test harness, which keeps what a passing test prints to itself.
        let _ = writeln!(std::io::stderr(), "SKIP: {reason}");
        return;
    }
    let double = fake_nvml_build::uverbs::build().expect("the double of the uverbs node");
    let sysfs = tempfile::tempdir().expect("a directory");
    lay_out(sysfs.path());
    let mut again = Command::new(std::env::current_exe().expect("this test's own path"));
    // What the libraries would hear from the environment is the test's to say.
    for (key, _) in std::env::vars_os() {
        let key_bytes = key.as_encoded_bytes();
        if ["MLX5_", "RDMAV_", "IBV_"]
            .iter()
            .any(|prefix| key_bytes.starts_with(prefix.as_bytes()))
        {
            again.env_remove(key);
        }
    }
    let output = again
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env("LD_PRELOAD", double)
        .env("SYSFS_PATH", sysfs.path())
        // The provider tells of each completion with an error.
        .env("MLX5_DEBUG_FILE", "/dev/null")
        .envs(variables.iter().copied())
        .output()
        .expect("this test again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name} in a process with the provider: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Both libraries can be opened; else the loader's words.
fn provider_is_there() -> Result<(), String> {
    for library in ["libibverbs.so.1", "libmlx5.so.1"] {
        // SAFETY: libraries of the system whose constructors do no more than register themselves.
        let opened = unsafe { libloading::Library::new(library) };
        opened.map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))?;
    }
    Ok(())
}

/// What libibverbs reads of sysfs (rdma-core, `libibverbs/init.c` and `cmd_device.c`), for a card of two ports. The second is
/// Ethernet: its GIDs 0 and 1 are of RoCE v1 and v2.
fn lay_out(root: &Path) {
    let files = [
        ("class/infiniband_verbs/abi_version", "6\n"),
        ("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n"),
        ("class/infiniband_verbs/uverbs0/dev", "231:192\n"),
        ("class/infiniband_verbs/uverbs0/abi_version", "1\n"),
        ("class/infiniband/mlx5_0/node_type", "1: CA\n"),
        (
            "class/infiniband/mlx5_0/device/modalias",
            "pci:v000015B3d00001021sv000015B3sd00000001bc02sc07i00\n",
        ),
        (
            "class/infiniband/mlx5_0/ports/2/gids/0",
            "fe80:0000:0000:0000:0a00:00ff:fe00:0001\n",
        ),
        (
            "class/infiniband/mlx5_0/ports/2/gids/1",
            "0000:0000:0000:0000:0000:ffff:c0a8:0001\n",
        ),
        ("class/infiniband/mlx5_0/ports/2/gid_attrs/types/0", "IB/RoCE v1\n"),
        ("class/infiniband/mlx5_0/ports/2/gid_attrs/types/1", "RoCE v2\n"),
    ];
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory of the tree");
        fs::write(&path, text).expect("a file of the tree");
    }
}
