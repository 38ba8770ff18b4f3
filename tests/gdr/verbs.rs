//! libibverbs through the built binary, against a simulated library: what the child answers where devices are served, where
//! they do not open, where the library is old, where it fails, and where there is none.

use std::path::Path;
use std::process::Command;

use crate::support::Gdr;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The directory of the simulated library, which `tests/fake/libibverbs.c` of crate verbs describes; none where it cannot be
/// compiled.
fn library(flags: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-w",
            "-Wl,-soname,libibverbs.so.1",
            "-o",
        ])
        .arg(directory.path().join("libibverbs.so.1"))
        .args(flags)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/verbs/tests/fake/libibverbs.c"))
        .output()
        .expect("cc starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    directory
}

/// What the child that reads libibverbs answers.
fn answer(library: &Path, behaviour: &str, trials: bool) -> Value {
    let run = Gdr::new()
        .env("LD_LIBRARY_PATH", library)
        .env("FAKE_VERBS", behaviour)
        .args(["__read-verbs", &json!({"trials": trials}).to_string()])
        .run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn opens_devices_only_for_trials() {
    let directory = library(&[]);
    let passive = &answer(directory.path(), "sound", false)["read"];
    assert_eq!(passive["devices"], json!(["mlx5_0", "mlx4_0"]));
    assert_eq!(passive["reg_dmabuf_mr"], json!({"known": true}));
    assert_eq!(passive["trials"], Value::Null);

    let tried = &answer(directory.path(), "sound", true)["read"]["trials"];
    // EBADF is about the file; EOPNOTSUPP says that there is no such operation.
    assert_eq!(
        tried,
        &json!({
            "mlx5_0": {"opened": {
                "dmabuf": {"registers": 9},
                "data_direct": {"known": null},
                "regions": {"known": 16_777_216},
                "ports": [{"number": 1, "active_mtu": 4096, "largest_mtu": 4096}],
            }},
            "mlx4_0": {"opened": {
                "dmabuf": {"refuses": 95},
                "data_direct": {"known": null},
                "regions": {"known": 16_777_216},
                "ports": [{"number": 1, "active_mtu": 1024, "largest_mtu": 4096}],
            }},
        })
    );
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn reports_failing_calls() {
    let directory = library(&[]);
    let closed = &answer(directory.path(), "closed", true)["read"]["trials"];
    for device in ["mlx5_0", "mlx4_0"] {
        assert_eq!(closed[device]["refused"]["code"], 13, "{closed}");
    }
    let no_domain = &answer(directory.path(), "no-pd", true)["read"]["trials"]["mlx5_0"]["opened"];
    assert_eq!(no_domain["dmabuf"]["failed"]["code"], 12, "{no_domain}");
    assert_eq!(no_domain["regions"], json!({"known": 16_777_216}));

    assert_eq!(
        answer(directory.path(), "none", true)["read"]["devices"],
        json!([])
    );
    assert_eq!(
        answer(directory.path(), "unserved", false)["read"]["devices"],
        json!(["mlx5_0"])
    );
    let error = &answer(directory.path(), "error", false)["failed"];
    assert_eq!(error["code"], 1, "{error}");
    assert!(
        error["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("cannot list RDMA devices")),
        "{error}"
    );
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn old_library_lacks_functions() {
    let directory = library(&["-DOLD"]);
    let old = &answer(directory.path(), "sound", true)["read"];
    assert_eq!(old["reg_dmabuf_mr"], json!({"known": false}));
    assert_eq!(
        old["trials"]["mlx5_0"]["opened"]["dmabuf"], "not_asked",
        "{old}"
    );
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn invalid_library_is_not_absent() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "no library at all, and long enough to be read as one";
    std::fs::write(directory.path().join("libibverbs.so.1"), text).expect("a file");
    let failed = &answer(directory.path(), "", false)["failed"];
    assert_eq!(failed["code"], Value::Null, "{failed}");
    assert!(
        failed["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("libibverbs.so.1 cannot be loaded")),
        "{failed}"
    );
}
