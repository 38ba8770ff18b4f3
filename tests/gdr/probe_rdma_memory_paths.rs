//! `gdr probe rdma`: the path by which a NIC reaches GPU memory, and what is said where one fails.

use crate::support::merge;
use crate::support::nics::{Bench, SHORT};
use serde_json::{Value, json};

#[test]
fn uses_first_working_memory_path() {
    let probe = |patch: Value, options: &[&str]| {
        let bench = Bench::of("two", &patch).with_gpus(&json!({}));
        bench.probe(&[&["--gpu", "0"], options].concat())
    };
    let no_dmabuf = |code: i32| json!({"verbs": {"dmabuf": code}});
    let nothing = json!({"verbs": {"dmabuf": 95, "peermem": false}});

    let both = probe(json!({}), &[]);
    assert_eq!(
        (both.code, &both.ends()[0]["memory_path"]),
        (0, &json!("dma-buf")),
        "{:#}",
        both.value
    );
    assert_eq!(both.memory_path("peermem").0, "usable");
    assert_eq!(both.ends()[0]["memory"], "gpu");
    assert!(
        both.results().iter().any(
            |result| result["backend"] == "dma-buf" && result["name"] == "rdma.write.bandwidth"
        )
    );
    // The yardstick of what GPUDirect saves.
    assert!(!both.named("rdma.staged.bandwidth").is_empty());

    for (code, words) in [
        (95, "the NIC's provider or driver does not support dma-buf registration"),
        (93, "the kernel does not support dma-buf registration"),
    ] {
        let report = probe(no_dmabuf(code), &[]);
        assert_eq!((report.code, &report.ends()[0]["memory_path"]), (0, &json!("peermem")));
        let (outcome, why) = report.memory_path("dma-buf");
        assert!(outcome == "refused" && why.contains(words) && why.contains("rdma.core"), "{why}");
    }

    // The probe is there to prove GPUDirect RDMA.
    let staged = probe(nothing.clone(), &[]);
    assert_eq!((staged.code, &staged.ends()[0]["memory_path"]), (1, &json!("staged")));
    let lost = staged.named("rdma.gpudirect");
    assert!(
        lost.len() == 1
            && lost[0]["verdict"] == "impossible"
            && lost[0]["reason"].as_str().is_some_and(|why| why.contains("dma-buf or peermem")),
        "{lost:?}"
    );
    let (outcome, why) = staged.memory_path("peermem");
    assert!(
        outcome == "refused" && why.contains("Bad address") && why.contains("peermem.loaded"),
        "{why}"
    );
    assert!(
        staged.named("rdma.write.bandwidth").is_empty(),
        "the NIC alone is not what was asked for"
    );
    assert!(staged.named("rdma.staged.bandwidth").iter().all(|result| result["verdict"] == "ok"));

    let bench = Bench::of("two", &nothing).with_gpus(&json!({}));
    let table = bench.gdr().args(SHORT).args(["--gpu", "0"]).run();
    let last = "FAILED: the data is right, but without GPUDirect RDMA (staged)\nNext step: sudo gdr doctor\n";
    assert!(table.stdout.ends_with(last), "{}", table.stdout);

    let forced = probe(json!({}), &["--memory-path", "peermem"]);
    assert_eq!(forced.ends()[0]["memory_path"], "peermem");
    let forced = probe(json!({}), &["--memory-path", "staged"]);
    assert_eq!(
        (forced.code, &forced.ends()[0]["memory_path"]),
        (0, &json!("staged")),
        "it is what the user chose"
    );
    let refused = probe(nothing, &["--memory-path", "dma-buf"]);
    assert!(
        refused.reason().starts_with("GPU memory cannot be registered by dma-buf: "),
        "{}",
        refused.reason()
    );
}

/// A GPU with NVLink-C2C, and a NIC with a Data Direct function.
fn superchip(nics: &Value) -> Bench {
    let mut patch = json!({"verbs": {"data_direct":
        "/devices/pci0002:00/0002:00:00.0/0002:01:00.0/0002:03:00.0"}});
    merge(&mut patch, nics);
    let gpus = json!({"gpu": {"attributes": {"100": 1}}, "dmabuf_pcie": null});
    Bench::of("two", &patch).with_gpus(&gpus).with_providers()
}

#[test]
fn memory_paths_of_superchip_side_by_side() {
    let report = superchip(&json!({})).probe(&["--gpu", "0", "--show-perftest"]);
    assert_eq!(
        (report.code, &report.ends()[0]["memory_path"]),
        (0, &json!("data-direct")),
        "{:#}",
        report.value
    );
    assert_eq!(report.memory_path("dma-buf").0, "usable");
    let figures = report.named("rdma.write.bandwidth");
    let largest: Vec<(&str, &str)> = figures
        .iter()
        .filter(|result| result["bytes"] == 65536 && result["verdict"] == "ok")
        .map(|result| {
            let text = |key: &str| result[key].as_str().expect("text");
            (text("subject"), text("backend"))
        })
        .collect();
    assert_eq!(
        largest,
        [("GPU0 mlx5_0:1", "data-direct"), ("GPU0 mlx5_0:1 by dma-buf", "dma-buf")]
    );
    let notes = report.value["notes"].to_string();
    for words in [
        "A GPU with NVLink-C2C has several memory paths",
        "--use_cuda=0 --use_cuda_dmabuf --use_cuda_pcie_mapping --use_data_direct",
        "--use_cuda=0 --use_cuda_dmabuf localhost",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    // The function that moved the bytes, at the end that was measured by it.
    let function = json!({"bdf": "0002:03:00.0", "bridges": ["0002:00:00.0", "0002:01:00.0"]});
    let functions: Vec<(&Value, &Value)> = report
        .ends()
        .iter()
        .filter(|end| end["remote"] == false)
        .map(|end| (&end["memory_path"], &end["data_direct"]))
        .collect();
    assert_eq!(functions, [(&json!("data-direct"), &function), (&json!("dma-buf"), &Value::Null)]);
    // With Data Direct or the PCIe mapping on request, and with nothing beside a requested path.
    let bench = superchip(&json!({}));
    let asked = bench.probe(&["--gpu", "0", "--memory-path", "data-direct"]);
    assert_eq!((asked.code, &asked.ends()[0]["data_direct"]), (0, &function), "{:#}", asked.value);
    assert_eq!(asked.ends().len(), 2, "{:#}", asked.value);
    for result in asked.named("validate.rc.write") {
        assert_eq!(
            (&result["backend"], &result["verified"]),
            (&json!("data-direct"), &result["bytes"]),
            "{result}"
        );
    }
    let table = bench.gdr().args(SHORT).args(["--gpu", "0", "--memory-path", "data-direct"]).run();
    table.assert_stdout(
        "GPUDirect RDMA with data-direct by 0002:00:00.0 > 0002:01:00.0 > 0002:03:00.0",
    );
    let pcie = superchip(&json!({})).probe(&["--gpu", "0", "--memory-path", "dma-buf-pcie"]);
    assert_eq!((pcie.code, &pcie.ends()[0]["memory_path"]), (0, &json!("dma-buf-pcie")));
    assert_eq!(pcie.ends().len(), 2, "{:#}", pcie.value);
}

#[test]
fn refused_data_direct_leads_to_next_path() {
    let refused = json!({"verbs": {"attach": {"data_direct": 524}}});
    let report = superchip(&refused).probe(&["--gpu", "0"]);
    assert_eq!((report.code, &report.ends()[0]["memory_path"]), (0, &json!("dma-buf")));
    let (outcome, why) = report.memory_path("data-direct");
    assert!(
        outcome == "refused"
            && why.contains("ENOTSUPP (os error 524)")
            && why.contains("in one IOMMU group: gdr doctor --only rdma.data-direct"),
        "{why}"
    );
    assert_eq!(report.ends().len(), 2, "nothing beside it");
    let asked = superchip(&refused).probe(&["--gpu", "0", "--memory-path", "data-direct"]);
    assert!(
        asked
            .reason()
            .starts_with("GPU memory cannot be registered by data-direct: mlx5_0 cannot register"),
        "{}",
        asked.reason()
    );
}
