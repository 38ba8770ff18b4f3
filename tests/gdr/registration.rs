//! The trial of registering GPU memory through the built binary, against simulated libraries of CUDA and of verbs: what the child
//! answers where memory paths are open, closed, or there is nothing to try. It is laid beside a machine, and doctor judges it.

use std::ffi::OsString;
use std::fs;

use crate::support::{Gdr, Machine, merge};
use fakes::{Driver, cuda, verbs};
use serde_json::{Value, json};

/// gdr with both libraries, each answering from its machine `two` with this merge patch.
fn gdr(gpus: &Value, nics: &Value, directory: &tempfile::TempDir) -> Gdr {
    let file = |name: &str, machine: std::path::PathBuf, patch: &Value| {
        let mut machine: Value =
            serde_json::from_slice(&fs::read(machine).expect("a machine")).expect("JSON");
        merge(&mut machine, patch);
        let file = directory.path().join(name);
        fs::write(&file, machine.to_string()).expect("a file");
        file
    };
    let libraries = [
        cuda::build(Driver::Current).expect("the simulated CUDA"),
        verbs::build().expect("the simulated verbs"),
    ];
    let path: OsString = std::env::join_paths(libraries).expect("a path");
    Gdr::new()
        .env("LD_LIBRARY_PATH", path)
        .env("FAKE_CUDA", file("cuda.json", cuda::machine("two"), gpus))
        .env("FAKE_VERBS", file("verbs.json", verbs::machine("two"), nics))
}

/// What the child answers.
fn answer(gdr: Gdr) -> Value {
    let run = gdr.args(["__try-registration", "null"]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

fn tried(gpus: &Value, nics: &Value) -> Value {
    answer(gdr(gpus, nics, &tempfile::tempdir().expect("a directory")))
}

/// The finding on the sound machine, whose GPU and NIC the first of the simulated ones are.
fn judged(answer: &Value) -> Value {
    let root = Machine::load("sound").laid_out();
    fs::write(root.path().join("gdr/registration.json"), answer.to_string()).expect("a file");
    let run = Gdr::new()
        .sysroot(root.path())
        .args(["doctor", "--live", "--only", "rdma.register", "--format", "json"])
        .run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report:#}");
    report["findings"][0].clone()
}

#[test]
fn superchip_tries_pcie_mapping_and_data_direct() {
    let directory = tempfile::tempdir().expect("a directory");
    let gpus = json!({"gpu": {"attributes": {"100": 1}}, "dmabuf_pcie": null});
    let nics = json!({"verbs": {
        "data_direct": "/devices/pci0002:00/0002:00:01.0",
        "attach": {"pcie": 524}, "registration": {"data_direct": 22},
    }});
    let libraries = [
        cuda::build(Driver::Current).expect("the simulated CUDA"),
        verbs::build_with_providers().expect("the simulated verbs"),
    ];
    let path: OsString = std::env::join_paths(libraries).expect("a path");
    let gdr = gdr(&gpus, &nics, &directory).env("LD_LIBRARY_PATH", path);
    let answer = answer(gdr);
    let paths = &answer["tried"][0]["trial"]["tried"]["mlx5_0"]["opened"];
    let refused = |name: &str| {
        let refused = &paths[name]["refused"];
        (refused["code"].as_i64(), refused["reason"].to_string())
    };
    let (code, reason) = refused("data_direct");
    assert!(
        code == Some(22) && reason.contains("(mlx5dv_reg_dmabuf_mr): Invalid argument"),
        "{answer:#}"
    );
    let (code, reason) = refused("dmabuf_pcie");
    assert!(
        code == Some(524) && reason.contains("(ibv_reg_dmabuf_mr): Operation not supported by"),
        "{answer:#}"
    );
    assert_eq!((&paths["dmabuf"], &paths["peermem"]), (&json!("registered"), &json!("registered")));
    let found = judged(&answer);
    assert_eq!(found["outcome"], "pass", "{found:#}");
}

#[test]
fn registers_each_gpu_with_each_nic() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let nics = json!({"log": log, "verbs": {"dmabuf": 95}});
    let answer = answer(gdr(&json!({}), &nics, &directory));
    let calls = fs::read_to_string(&log).expect("calls");
    let count = |name: &str| calls.lines().filter(|call| *call == name).count();
    for (call, times) in
        [("ibv_open_device", 2), ("ibv_close_device", 2), ("ibv_reg_mr", 4), ("ibv_dereg_mr", 4)]
    {
        assert_eq!(count(call), times, "{call}: {calls}");
    }
    let gpus = answer["tried"].as_array().expect("GPUs");
    assert_eq!(gpus.len(), 2);
    for (ordinal, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu["ordinal"], json!(ordinal));
        let nics = gpu["trial"]["tried"].as_object().expect("cards");
        assert_eq!(nics.keys().collect::<Vec<_>>(), ["mlx5_0", "mlx5_1"]);
        for (name, nic) in nics {
            let memory_paths = &nic["opened"];
            assert_eq!(memory_paths["peermem"], "registered");
            assert_eq!(memory_paths["dmabuf"]["refused"]["code"], 95);
            let reason = memory_paths["dmabuf"]["refused"]["reason"].as_str().unwrap_or_default();
            assert!(
                reason.starts_with(&format!(
                    "{name} cannot register 2097152 bytes (ibv_reg_dmabuf_mr): "
                )),
                "{reason}"
            );
        }
        // Simulated verbs have no libmlx5, and rdma-core's own does not load beside them: whether these are mlx5 devices nobody knows.
        for name in ["mlx5_0", "mlx5_1"] {
            let trial = &gpu["doorbells"]["tried"][name];
            let reason = trial["no_library"]["reason"].as_str().unwrap_or_default();
            assert!(reason.contains("libmlx5.so.1"), "{answer:#}");
        }
    }
    let found = judged(&answer);
    assert_eq!(
        (&found["outcome"], &found["subject"]),
        (&json!("pass"), &json!("GPU0 (0000:03:00.0)")),
        "{found:#}"
    );
    assert!(found.to_string().contains("only by nvidia-peermem"), "{found:#}");
}

#[test]
fn doctor_names_errors_of_both_paths() {
    let answer = tried(&json!({}), &json!({"verbs": {"dmabuf": 93, "peermem": false}}));
    let memory_paths = &answer["tried"][0]["trial"]["tried"]["mlx5_0"]["opened"];
    assert_eq!(
        (&memory_paths["dmabuf"]["refused"]["code"], &memory_paths["peermem"]["refused"]["code"]),
        (&json!(93), &json!(14)),
        "{answer:#}"
    );
    let found = judged(&answer);
    assert_eq!(found["outcome"], "fail", "{found:#}");
    for words in ["errno 93", "errno 14", "rdma.core"] {
        assert!(found.to_string().contains(words), "{found:#}");
    }
}

#[test]
fn memory_without_dma_buf_export() {
    let gpus = json!({"errors": {"cuMemGetHandleForAddressRange": 801}});
    let answer = tried(&gpus, &json!({}));
    let memory_paths = &answer["tried"][0]["trial"]["tried"]["mlx5_0"]["opened"];
    let reason = memory_paths["dmabuf"]["withheld"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("CUDA_ERROR_NOT_SUPPORTED (801)"), "{answer:#}");
    assert_eq!(memory_paths["peermem"], "registered");
}

#[test]
fn busy_gpu_and_unopenable_nic() {
    let gpus = json!({"gpus": [
        {"bdf": "0000:03:00.0", "errors": {"cuDevicePrimaryCtxRetain": 46}}, {"bdf": "0000:05:00.0"},
    ]});
    let answer = tried(&gpus, &json!({"verbs": {"dmabuf": 95}}));
    let reason = answer["tried"][0]["trial"]["not_tried"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("CUDA_ERROR_DEVICE_UNAVAILABLE (46)"), "{answer:#}");
    let other = &answer["tried"][1]["trial"]["tried"]["mlx5_1"]["opened"];
    assert_eq!(other["peermem"], "registered");
    let found = judged(&answer);
    assert_eq!(found["outcome"], "unknown", "{found:#}");

    let answer = tried(&json!({}), &json!({"errors": {"ibv_open_device": 13}}));
    let closed = &answer["tried"][0]["trial"]["tried"]["mlx5_0"]["refused"];
    assert_eq!(closed["code"], 13, "{answer:#}");
    let doorbell = &answer["tried"][0]["doorbells"]["tried"]["mlx5_0"]["closed"];
    assert_eq!(doorbell, closed, "{answer:#}");
    let found = judged(&answer);
    assert_eq!(found["outcome"], "unknown", "{found:#}");
    assert!(found.to_string().contains("cannot open mlx5_0"), "{found:#}");
}

#[test]
fn reports_missing_library() {
    for (gpus, nics, kind, words) in [
        (json!({}), json!({"verbs": {"devices": []}}), "failed", "serves no RDMA device"),
        (json!({"gpus": []}), json!({}), "failed", "CUDA counts no GPU"),
        (json!({"errors": {"cuInit": 999}}), json!({}), "failed", "CUDA_ERROR_UNKNOWN (999)"),
    ] {
        let answer = tried(&gpus, &nics);
        let reason = answer[kind]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{answer}");
        assert_eq!(judged(&answer)["outcome"], "unknown");
    }
    // No library is none, or what bears its name.
    let empty = tempfile::tempdir().expect("a directory");
    fs::write(empty.path().join("libibverbs.so.1"), "no library at all, long enough to be read")
        .expect("a file");
    let answer = answer(Gdr::new().env("LD_LIBRARY_PATH", empty.path()));
    let reason = answer["failed"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("libibverbs.so.1 cannot be loaded"), "{answer}");
}
