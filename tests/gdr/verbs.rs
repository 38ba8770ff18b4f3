//! libibverbs through the built binary, against a simulated library: what the child answers where devices are served, where
//! they do not open, where the library is old, where it fails, and where there is none.

use std::path::Path;

use crate::support::Gdr;
use fakes::verbs;
use serde_json::{Value, json};

/// What the child that reads libibverbs answers about the machine `unlike`, changed by `change`.
fn answer(library: &Path, trials: bool, change: impl FnOnce(&mut Value)) -> Value {
    let text = std::fs::read_to_string(verbs::machine("unlike")).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut machine);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), machine.to_string()).expect("room");
    let gdr = verbs::environment(library, file.path())
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
    let run = gdr.args(["__read-verbs", &json!({"trials": trials}).to_string()]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// As [`answer`], where a function fails with this code.
fn failing(library: &Path, trials: bool, function: &str, code: u32) -> Value {
    answer(library, trials, |machine| {
        machine["errors"] = json!({function: code});
    })
}

#[test]
fn opens_devices_only_for_trials() {
    let library = verbs::build().expect("the simulated library");
    let passive = &answer(&library, false, |_| ())["read"];
    assert_eq!(passive["devices"], json!(["mlx5_0", "mlx4_0"]));
    assert_eq!(passive["reg_dmabuf_mr"], json!({"known": true}));
    assert_eq!(passive["trials"], Value::Null);

    let tried = &answer(&library, true, |_| ())["read"]["trials"];
    // EBADF is about the file; EOPNOTSUPP says that there is no such operation.
    assert_eq!(
        tried,
        &json!({
            "mlx5_0": {"opened": {
                "dmabuf": {"registers": 9},
                "data_direct": {"known": null},
                "ports": [{"number": 1, "active_mtu": 4096, "largest_mtu": 4096}],
            }},
            "mlx4_0": {"opened": {
                "dmabuf": {"refuses": 95},
                "data_direct": {"known": null},
                "ports": [{"number": 1, "active_mtu": 1024, "largest_mtu": 4096}],
            }},
        })
    );
}

#[test]
fn reports_failing_calls() {
    let library = verbs::build().expect("the simulated library");
    let closed = &failing(&library, true, "ibv_open_device", 13)["read"]["trials"];
    for device in ["mlx5_0", "mlx4_0"] {
        assert_eq!(closed[device]["refused"]["code"], 13, "{closed}");
    }
    let no_domain =
        &failing(&library, true, "ibv_alloc_pd", 12)["read"]["trials"]["mlx5_0"]["opened"];
    assert_eq!(no_domain["dmabuf"]["failed"]["code"], 12, "{no_domain}");

    let none = answer(&library, true, |machine| machine["verbs"]["devices"] = json!([]));
    assert_eq!(none["read"]["devices"], json!([]));
    let one = answer(&library, false, |machine| {
        machine["verbs"]["devices"] = json!([{"name": "mlx5_0"}]);
    });
    assert_eq!(one["read"]["devices"], json!(["mlx5_0"]));
    let error = &failing(&library, false, "ibv_get_device_list", 1)["failed"];
    assert_eq!(error["code"], 1, "{error}");
    assert!(
        error["reason"].as_str().is_some_and(|reason| reason.contains("cannot list RDMA devices")),
        "{error}"
    );
}

#[test]
fn old_library_lacks_functions() {
    let library = verbs::build_old().expect("the simulated library");
    let old = &answer(&library, true, |_| ())["read"];
    assert_eq!(old["reg_dmabuf_mr"], json!({"known": false}));
    assert_eq!(old["trials"]["mlx5_0"]["opened"]["dmabuf"], "not_asked", "{old}");
}

#[test]
fn invalid_library_is_not_absent() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "no library at all, and long enough to be read as one";
    std::fs::write(directory.path().join("libibverbs.so.1"), text).expect("a file");
    let failed = &answer(directory.path(), false, |_| ())["failed"];
    assert_eq!(failed["code"], Value::Null, "{failed}");
    assert!(
        failed["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("libibverbs.so.1 cannot be loaded")),
        "{failed}"
    );
}
