//! Compares `gdr topo` with hand-written expectations, recorded matrices and nvidia-smi's output.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{Gdr, Machine, corpus, names, recorded};
use serde_json::Value;

fn topo(root: &Path, args: &[&str]) -> String {
    let run = Gdr::new().sysroot(root).args(["topo"]).args(args).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

fn document(root: &Path) -> Value {
    serde_json::from_str(&topo(root, &["--format", "json", "--nvme"])).expect("JSON")
}

/// Names of a row: its own, and a NIC's RDMA device.
fn rows(document: &Value) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for device in document["devices"].as_array().expect("devices") {
        let text = |key: &str| device[key].as_str().expect("text").to_owned();
        rows.insert(text("name"), text("name"));
        if text("kind") == "nic" {
            rows.insert(text("label"), text("name"));
        }
    }
    rows
}

/// Compares cell by cell; a recorded matrix's NVLink cells have no PCI class.
fn compare(
    name: &str,
    document: &Value,
    expected: &BTreeMap<String, BTreeMap<String, String>>,
) -> usize {
    let rows = rows(document);
    let mut cells = 0;
    for (a, columns) in expected {
        for (b, class) in columns.iter().filter(|(_, class)| !class.starts_with("NV")) {
            let (a, b) = (&rows[a], &rows[b]);
            assert_eq!(
                document["matrix"][a][b].as_str(),
                Some(class.as_str()),
                "{name}: {a} to {b}"
            );
            assert_eq!(
                document["matrix"][b][a].as_str(),
                Some(class.as_str()),
                "{name}: {b} to {a}"
            );
            cells += 1;
        }
    }
    cells
}

#[test]
fn machines_match_expectations() {
    let mut cells = 0;
    for name in names() {
        let machine = Machine::load(&name);
        let expect = machine.expect();
        let dir = machine.laid_out();
        let document: Value =
            serde_json::from_str(&topo(dir.path(), &["--format", "json", "--pci"])).expect("JSON");
        cells += compare(&name, &document, &expect.classes);
        cells += compare(&name, &document, &expect.classes_by_device);

        let devices = document["devices"].as_array().expect("devices");
        let of = |kind: &str, key: &str| -> BTreeMap<String, String> {
            devices
                .iter()
                .filter(|device| device["kind"] == kind)
                .map(|device| {
                    (
                        device["name"].as_str().expect("text").to_owned(),
                        device[key].as_str().expect("text").to_owned(),
                    )
                })
                .collect()
        };
        if let Some(gpus) = &expect.gpus {
            assert_eq!(&of("gpu", "bdf"), gpus, "{name}");
        }
        if let Some(nics) = &expect.nics {
            assert_eq!(&of("nic", "label"), nics, "{name}");
        }
        let pair = |gpu: &str| {
            let pairs = document["pairs"].as_array().expect("pairs");
            pairs.iter().find(|pair| pair["device"] == gpu).expect("a pair of each GPU").clone()
        };
        for (gpu, best) in &expect.best_nic {
            assert_eq!(pair(gpu)["best"], serde_json::json!(best), "{name}: {gpu}");
        }
        for (gpu, verdict) in &expect.verdict {
            assert_eq!(pair(gpu)["verdict"], verdict.replace(' ', "_"), "{name}: {gpu}");
        }
        let virtual_functions = devices.iter().filter(|device| device["virtual_function"] == true);
        let text = |device: &Value, field: &str| device[field].as_str().map(str::to_owned);
        let found: BTreeMap<String, Option<String>> = virtual_functions
            .filter_map(|device| Some((text(device, "label")?, text(device, "physical_function"))))
            .collect();
        assert_eq!(found, expect.virtual_functions, "{name}");
    }
    assert!(cells > 100, "only {cells} cells were compared");
}

#[test]
#[ignore = "needs recorded machines in ../shared"]
fn recorded_machines_match_nvidia_smi_classes() {
    let mut cells = 0;
    for path in corpus() {
        let machine = Machine::from_corpus(&path);
        let dir = machine.laid_out();
        cells += compare(&path.display().to_string(), &document(dir.path()), &machine.matrix);
    }
    assert!(cells >= 100, "only {cells} cells were compared");
}

/// The machines' files include nvidia-smi's real output and NVML's answer.
#[test]
fn output_equals_nvidia_smi() {
    for name in ["h200-x1", "h200-x2", "h200-x8"] {
        let machine = Machine::load(name);
        let dir = machine.laid_out();
        for (sample, args) in samples() {
            let expected = machine.nvidia_smi(&sample).expect("a sample");
            let run = Gdr::new().sysroot(dir.path()).args(["topo"]).args(&args).run();
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{name} {sample}");
            assert_eq!(run.stdout.as_bytes(), expected, "{name} {sample}:\n{}", run.stdout);
        }
    }
}

/// nvidia-smi's arguments, and gdr's.
fn samples() -> Vec<(String, Vec<&'static str>)> {
    let mut samples = vec![("topo-m".to_owned(), vec![]), ("topo-mp".to_owned(), vec!["--pci"])];
    for letter in ["r", "w", "n", "a", "p"] {
        samples.push((format!("topo-p2p{letter}"), vec!["--p2p", letter]));
    }
    for (_, args) in &mut samples {
        args.extend(["--format", "nvidia-smi"]);
    }
    samples
}

/// Masked snapshots of real machines, with nvidia-smi's output.
#[test]
fn snapshots_equal_nvidia_smi() {
    let around = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut compared = 0;
    for name in recorded() {
        for (sample, args) in samples() {
            let Ok(expected) = std::fs::read(around.join(&name).join("nvidia-smi").join(&sample))
            else {
                continue;
            };
            let snapshot = around.join(&name).join("snapshot.json");
            let from = [std::ffi::OsStr::new("--from"), snapshot.as_os_str()];
            let run = Gdr::new().args(["topo"]).args(from).args(&args).run();
            assert_eq!(run.code, 0, "{name} {sample}: {}", run.stderr);
            assert_eq!(run.stdout.as_bytes(), expected, "{name} {sample}:\n{}", run.stdout);
            compared += 1;
        }
    }
    assert!(compared >= 18, "only {compared} outputs of nvidia-smi were compared");
}

#[test]
fn reports_unknown_driver_branch() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    std::fs::write(dir.path().join("sys/module/nvidia/version"), "470.82.01\n")
        .expect("the version");
    let run = Gdr::new().sysroot(dir.path()).args(["topo", "--format", "nvidia-smi"]).run();
    assert_eq!(run.code, 0);
    run.assert_stderr("no sample of nvidia-smi 470");
    // Before 515 NICs have their own names and no legend; before 545 nothing is underlined.
    assert!(run.stdout.starts_with("\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\t"), "{}", run.stdout);
    assert!(!run.stdout.contains("NIC Legend"));
}

#[test]
fn nic_rows_and_legend_match_nvidia_smi() {
    let dir = Machine::load("numa-minus-one").laid_out();
    let text = topo(dir.path(), &["--format", "nvidia-smi"]);
    let nic = text.lines().find(|line| line.starts_with("NIC0\t")).expect("a NIC's row");
    assert!(nic.ends_with("\t\t\t\t"), "{nic:?}");
    assert!(text.ends_with("\n\n"), "{text:?}");
    assert!(text.contains("\nNIC Legend:\n\n  NIC0: mlx5_0\n"), "{text}");
}

#[test]
fn path_has_every_hop() {
    let dir = Machine::load("cascade-asymmetric").laid_out();
    let document = document(dir.path());
    let long = document["paths"]
        .as_array()
        .expect("paths")
        .iter()
        .find(|path| path["class"]["known"] == "PXB")
        .expect("a PXB path");
    let (from, to) = (long["from"].as_str().expect("text"), long["to"].as_str().expect("text"));
    let text = topo(dir.path(), &["--path", from, to]);
    for hop in long["hops"].as_array().expect("hops") {
        assert!(text.contains(hop["bdf"].as_str().expect("text")), "{text}");
    }
    assert!(text.contains("where they meet") && text.contains("bottleneck: "), "{text}");
}

#[test]
fn path_to_nvme_needs_no_option() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let path = topo(dir.path(), &["--path", "GPU0", "nvme0"]);
    assert!(path.starts_with("GPU0 (NVIDIA H100 80GB HBM3) to NVME0"), "{path}");
}

#[test]
fn pairs_print_settings() {
    let dir = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    let text = topo(dir.path(), &["--pairs"]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("env ")).collect();
    assert_eq!(lines.len(), 8, "{text}");
    for (gpu, line) in lines.iter().enumerate() {
        assert!(
            line.contains("NCCL_IB_HCA==mlx5_") && line.contains("UCX_NET_DEVICES=mlx5_"),
            "{line}"
        );
        let node = gpu / 4;
        assert!(
            line.contains(&format!("numactl --cpunodebind={node} --membind={node} COMMAND")),
            "{line}"
        );
    }
    // Eight GPUs share eight NICs; none is picked twice.
    let mut nics: Vec<&str> =
        lines.iter().filter_map(|line| line.split("UCX_NET_DEVICES=").nth(1)).collect();
    nics.sort_unstable();
    nics.dedup();
    assert_eq!(nics.len(), 8, "{text}");
}

#[test]
fn nvme_controllers_are_rows_on_request() {
    let dir = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    // A matrix wider than the output continues below: each row is there once in each part.
    let controllers = |args: &[&str]| {
        let text = topo(dir.path(), args);
        let rows = text.lines().filter_map(|line| line.split_whitespace().next());
        let names: BTreeSet<&str> = rows.filter(|name| name.starts_with("NVME")).collect();
        names.len()
    };
    assert_eq!((controllers(&[]), controllers(&["--nvme"])), (0, 2));
}

#[test]
fn colour_only_on_request() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    assert!(!topo(dir.path(), &[]).contains('\u{1b}'));
    let painted = topo(dir.path(), &["--color", "always"]);
    // Green PIX, red SYS.
    assert!(
        painted.contains("\u{1b}[32mPIX\u{1b}[0m") && painted.contains("\u{1b}[31mSYS\u{1b}[0m"),
        "{painted:?}"
    );
}

#[test]
fn check_fails_for_bad_best_nic() {
    let code = |name: &str| {
        let dir = Machine::load(name).laid_out();
        Gdr::new().sysroot(dir.path()).args(["topo", "--check"]).run().code
    };
    assert_eq!(code("hgx-h100-8gpu-8nic"), 0);
    assert_eq!(code("numa-minus-one"), 1);
    assert_eq!(code("h200-x1"), 3);
}
