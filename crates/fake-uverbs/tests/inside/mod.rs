//! Runs a test in a process where Debian's libibverbs and libmlx5 find a NIC: the test executable starts itself with the fake
//! uverbs node preloaded and a sysfs tree of its own. Shared by this crate's tests and `gdsync`'s.

use std::process::Command;

/// Set in the child process.
const INSIDE: &str = "GDR_FAKE_UVERBS_CHILD";

/// Runs `body` in a child process with a NIC; `name` is the test's path in the harness's listing. `variables` configure the
/// provider, such as `MLX5_SHUT_UP_BF`, and the fake.
///
/// # Panics
///
/// If the child fails; the message includes its output.
pub fn inside(name: &str, variables: &[(&str, &str)], body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let sysfs = tempfile::tempdir().expect("a directory");
    let environment = if variables.contains(&("FAKE_UVERBS_NIC", "1")) {
        fakes::uverbs::nic(sysfs.path()).map(Vec::from)
    } else {
        fakes::uverbs::node(sysfs.path()).map(Vec::from)
    };
    let environment = environment.expect("the fake uverbs node");
    let mut reset_and_connect =
        Command::new(std::env::current_exe().expect("this test's own path"));
    // Only `variables` configure the libraries.
    for (key, _) in std::env::vars_os() {
        let key_bytes = key.as_encoded_bytes();
        if ["MLX5_", "RDMAV_", "IBV_", "FAKE_UVERBS_"]
            .iter()
            .any(|prefix| key_bytes.starts_with(prefix.as_bytes()))
        {
            reset_and_connect.env_remove(key);
        }
    }
    let output = reset_and_connect
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .envs(environment)
        .envs(variables.iter().copied())
        .output()
        .expect("this test again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{name} in a process with the provider: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
