//! How a test gets into a process where Debian's libibverbs and libmlx5 have a NIC: it starts itself again with the
//! kernel's double preloaded and a sysfs tree of its own. Two crates' tests have it: this one's, and `gdsync`'s oracle.

use std::process::Command;

/// Set in the second process.
const INSIDE: &str = "GDR_INSIDE_THE_DOUBLE";

/// Runs `body` in a second process, in which the provider finds a NIC; `name` is the test's own path, as the harness lists it.
/// `variables` are the provider's own, such as `MLX5_SHUT_UP_BF`, and the double's.
///
/// # Panics
///
/// Where the second process fails; its output is told.
pub fn inside(name: &str, variables: &[(&str, &str)], body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let sysfs = tempfile::tempdir().expect("a directory");
    let environment = if variables.contains(&("FAKE_UVERBS_CARD", "1")) {
        fake_nvml_build::uverbs::nic(sysfs.path()).map(Vec::from)
    } else {
        fake_nvml_build::uverbs::node(sysfs.path()).map(Vec::from)
    };
    let environment = environment.expect("the double of the uverbs node");
    let mut again = Command::new(std::env::current_exe().expect("this test's own path"));
    // What the libraries would hear from the environment is the test's to say.
    for (key, _) in std::env::vars_os() {
        let key_bytes = key.as_encoded_bytes();
        if ["MLX5_", "RDMAV_", "IBV_", "FAKE_UVERBS_"]
            .iter()
            .any(|prefix| key_bytes.starts_with(prefix.as_bytes()))
        {
            again.env_remove(key);
        }
    }
    let output = again
        .args([
            "--exact",
            name,
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(INSIDE, "1")
        .envs(environment)
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
