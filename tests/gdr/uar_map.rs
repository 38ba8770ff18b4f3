//! The trial of doorbells through the built binary: the machine's own libibverbs and libmlx5 have a NIC, since the kernel's
//! uverbs node is a double (crate `fake-uverbs`), and CUDA is simulated. What the child answers is laid beside a machine, and doctor
//! judges it.

use std::fs;
use std::path::Path;

use crate::support::{Gdr, Machine, Run, merge};
use fakes::{Driver, cuda, uverbs};
use serde_json::{Value, json};

/// gdr with a NIC that executes and simulated GPUs; `gpus` is a merge patch onto the simulated machine `two`.
fn gdr(gpus: &Value, directory: &Path) -> Gdr {
    let sysfs = directory.join("sys");
    let mut machine: Value =
        serde_json::from_slice(&fs::read(cuda::machine("two")).expect("a machine")).expect("JSON");
    merge(&mut machine, &json!({"log": directory.join("log")}));
    merge(&mut machine, gpus);
    let file = directory.join("cuda.json");
    fs::write(&file, machine.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated CUDA");
    let nic = uverbs::nic(&sysfs).expect("a NIC");
    let environment = nic.into_iter().chain(cuda::environment(&library, &file));
    environment.fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value))
}

/// What the child answers, and which of CUDA's functions it called.
fn tried(gpus: &Value) -> (Value, Vec<String>) {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let run = gdr(gpus, directory.path()).args(["__try-registration", "null"]).run();
    let calls = fs::read_to_string(log).expect("calls");
    (answer(&run), calls.lines().map(str::to_owned).collect())
}

fn answer(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// The finding on the sound machine, whose GPU and NIC the first of those are.
fn judged(answer: &Value) -> Value {
    let root = Machine::load("sound").laid_out();
    fs::write(root.path().join("gdr/registration.json"), answer.to_string()).expect("a file");
    let run = Gdr::new()
        .sysroot(root.path())
        .args(["doctor", "--live", "--only", "rdma.uar-map", "--profile", "async"])
        .args(["--format", "json"])
        .run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report:#}");
    report["findings"][0].clone()
}

fn doorbell(answer: &Value, gpu: usize) -> &Value {
    &answer["tried"][gpu]["doorbells"]["tried"]["mlx5_0"]
}

#[test]
#[ignore = "needs libmlx5"]
fn maps_doorbell_on_each_gpu() {
    let (answer, calls) = tried(&json!({}));
    assert_eq!(answer["tried"].as_array().map(Vec::len), Some(2), "{answer:#}");
    for gpu in 0..2 {
        assert_eq!(*doorbell(&answer, gpu), json!("registered"), "{answer:#}");
    }
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    assert_eq!((count("cuMemHostRegister_v2"), count("cuMemHostUnregister")), (2, 2), "{calls:?}");
    let found = judged(&answer);
    assert_eq!(
        (&found["outcome"], &found["subject"]),
        (&json!("pass"), &json!("mlx5_0")),
        "{found:#}"
    );
}

#[test]
#[ignore = "needs libmlx5"]
fn cuda_error_skips_one_gpu() {
    for (code, name, words) in [
        (800, "CUDA_ERROR_NOT_PERMITTED", "peer mappings"),
        (304, "CUDA_ERROR_OPERATING_SYSTEM", "follow_pfnmap_start"),
        (801, "CUDA_ERROR_NOT_SUPPORTED", "the kernel is too old for it"),
    ] {
        let gpus =
            json!({"gpus": [{"bdf": "0000:03:00.0", "io_memory": code}, {"bdf": "0000:05:00.0"}]});
        let (answer, _) = tried(&gpus);
        let refused = &doorbell(&answer, 0)["refused"];
        assert_eq!(refused["code"], code, "{answer:#}");
        let reason = refused["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(&format!("cuMemHostRegister: {name} ({code})")), "{reason}");
        assert_eq!(*doorbell(&answer, 1), json!("registered"), "{answer:#}");
        // Memory of the GPU is another matter.
        assert!(answer["tried"][0]["trial"]["tried"]["mlx5_0"]["opened"].is_object(), "{answer:#}");
        let found = judged(&answer);
        assert_eq!(found["outcome"], "fail", "{found:#}");
        for words in [words, &format!("CUDA error {code}"), "--hca proxy"] {
            assert!(found.to_string().contains(words), "{words}: {found:#}");
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn skips_unusable_gpu() {
    let gpus = json!({"gpus": [
        {"bdf": "0000:03:00.0", "errors": {"cuDevicePrimaryCtxRetain": 46}}, {"bdf": "0000:05:00.0"},
    ]});
    let (answer, _) = tried(&gpus);
    let reason = answer["tried"][0]["doorbells"]["not_tried"]["reason"].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains("CUDA_ERROR_DEVICE_UNAVAILABLE (46)")),
        "{answer:#}"
    );
    assert_eq!(*doorbell(&answer, 1), json!("registered"), "{answer:#}");
    assert_eq!(judged(&answer)["outcome"], "unknown");

    // A GPU without room for memory has a doorbell all the same.
    let full = json!({"errors": {"cuMemAlloc_v2": 2}});
    let (answer, _) = tried(&full);
    assert!(answer["tried"][0]["trial"]["not_tried"].is_object(), "{answer:#}");
    assert_eq!(*doorbell(&answer, 0), json!("registered"), "{answer:#}");
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_failed_and_shared_pages() {
    let denied = |pages: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let gdr = gdr(&json!({}), directory.path()).env("FAKE_UVERBS_DENY", pages);
        answer(&gdr.args(["__try-registration", "null"]).run())
    };
    let shared = denied("dynamic");
    assert_eq!(*doorbell(&shared, 0), json!("registered"), "{shared:#}");
    // The provider maps pages when it opens the device.
    let none = denied("all");
    let reason = doorbell(&none, 0)["closed"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("cannot open mlx5_0"), "{none:#}");
    let found = judged(&none);
    assert_eq!(found["outcome"], "unknown", "{found:#}");
    assert!(found.to_string().contains("rdma.device"), "{found:#}");
}

#[test]
#[ignore = "needs libmlx5"]
fn probe_reports_unmappable_doorbell_first() {
    let probed = |gpus: &Value| {
        let directory = tempfile::tempdir().expect("a directory");
        let run = gdr(gpus, directory.path())
            // A port that is down ends what needs it at once, and rings as well as any.
            .env("FAKE_UVERBS_PORT_DOWN", "1")
            .args([
                "probe", "async", "--quick", "--gpu", "0", "--hca", "mlx5", "--device", "mlx5_0:1",
            ])
            .args(["--format", "json"])
            .run();
        assert_eq!(run.code, 1, "{}", run.stderr);
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
        let notes = report["notes"].to_string();
        (report["results"].as_array().expect("results").clone(), notes)
    };
    let named = |results: &[Value], beginning: &str| {
        let is_it = |result: &&Value| {
            result["name"].as_str().is_some_and(|name| name.starts_with(beginning))
        };
        results.iter().filter(is_it).count()
    };
    let (results, notes) = probed(&json!({}));
    assert!(notes.contains("The HCA is mlx5_0:1 itself"), "{notes}");
    let first = &results[0];
    assert_eq!(
        (&first["name"], &first["verdict"], &first["backend"]),
        (&json!("async.register"), &json!("ok"), &json!("cuda+mlx5")),
        "{first:#}"
    );
    assert_eq!(
        (named(&results, "async.doorbell"), named(&results, "async.loopback")),
        (1, 1),
        "{results:#?}"
    );

    let (results, notes) = probed(&json!({"gpu": {"io_memory": 800}}));
    let first = &results[0];
    assert_eq!(first["verdict"], "impossible", "{results:#?}");
    let why = first["reason"].as_str().unwrap_or_default();
    for words in ["mlx5_0", "CUDA_ERROR_NOT_PERMITTED (800)", "gdr fix peer-mapping", "--hca proxy"]
    {
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(
        (named(&results, "async.doorbell"), named(&results, "async.loopback")),
        (0, 0),
        "{results:#?}"
    );
    // Two processes would meet the same, and nothing was the HCA.
    assert_eq!(named(&results, "async.pingpong"), 0, "{results:#?}");
    assert!(!notes.contains("The HCA is"), "{notes}");
    // What needs no NIC is there all the same.
    assert_eq!(named(&results, "async.poll.host.latency"), 1, "{results:#?}");
}
