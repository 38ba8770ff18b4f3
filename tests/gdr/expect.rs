//! Expectations: a profile that `gdr expect` derives from a good node finds each planted difference, and nothing on the node
//! itself.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Node, Run, gdr, scratch};

/// Derives a profile from these sources and returns its path.
fn derive(dir: &Path, sources: &[&Path]) -> (String, Run) {
    let file = dir.join("site.toml").to_string_lossy().into_owned();
    let run = Gdr::new().args(["expect", "--force", "--write", &file]).args(sources).run();
    (file, run)
}

/// The profile of the good node.
fn profile(dir: &Path) -> String {
    let root = Node::good().laid_out();
    let file = dir.join("site.toml").to_string_lossy().into_owned();
    let run = Gdr::new().sysroot(root.path()).args(["expect", "-w", &file]).run();
    run.assert_code(0);
    file
}

/// The findings of the family `expect` that are neither a pass nor a skip.
fn differences(node: &Node, profile: &str) -> Vec<Value> {
    let root = node.laid_out();
    let run = Gdr::new()
        .sysroot(root.path())
        .args(["doctor", "--profile", profile, "--format", "json"])
        .run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let findings = report["findings"].as_array().expect("findings").iter();
    let findings = findings
        .filter(|finding| finding["id"].as_str().is_some_and(|id| id.starts_with("expect.")));
    let wrong =
        findings.filter(|finding| finding["outcome"] != "pass" && finding["outcome"] != "skip");
    wrong.cloned().collect()
}

#[test]
fn good_node_is_as_expected() {
    let dir = scratch();
    let profile = profile(dir.path());
    let text = fs::read_to_string(&profile).expect("a profile");
    // Written by hand from machine.json.
    for line in [
        "includes = [\"rdma\"]",
        "driver = \"580.159.04\"",
        "count = 8",
        "addresses = [\"0000:18:00.0\", \"0000:19:00.0\", \"0000:3a:00.0\", \"0000:3b:00.0\", \"0000:9a:00.0\", \"0000:9b:00.0\", \
         \"0000:ca:00.0\", \"0000:cb:00.0\"]",
        "model = \"NVIDIA H100 80GB HBM3\"",
        "id = \"10de:2330\"",
        "memory = 81559",
        "bar1 = 131072",
        "mig = false",
        "link = \"32GT/s x16\"",
        "dma-buf = \"open\"",
        "peermem = \"open\"",
        "names = [\"mlx5_0\", \"mlx5_1\", \"mlx5_4\", \"mlx5_5\", \"mlx5_6\", \"mlx5_7\", \"mlx5_8\", \"mlx5_9\"]",
        "chip = \"MT4129\"",
        "firmware = \"28.43.2026\"",
        "gpu-gpu = { \"NODE\" = 8, \"PIX\" = 4, \"SYS\" = 16 }",
        "gpu-nic = { \"NODE\" = 16, \"PIX\" = 16, \"SYS\" = 32 }",
        "nvlinks = { \"18\" = 28 }",
        "active = 1",
        "rate = 400",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
    }
    let found = differences(&Node::good(), &profile);
    assert!(found.is_empty(), "{found:#?}");
}

struct Planted {
    what: &'static str,
    plant: fn(&mut Node),
    check: &'static str,
    /// In the message of a finding.
    words: &'static str,
    /// The finding's subject.
    subject: &'static str,
}

/// Fixed differences of one node, each with the finding that must name it.
const PLANTED: &[Planted] = &[
    Planted {
        what: "a GPU that fell off the bus",
        plant: |node| {
            node.remove("0000:9b:00.0");
            node.nvml["gpus"].as_array_mut().expect("GPUs").remove(5);
        },
        check: "expect.gpus",
        words: "1 of 8 GPUs missing: 0000:9b:00.0.",
        subject: "machine",
    },
    Planted {
        what: "seven GPUs",
        plant: |node| {
            node.remove("0000:18:00.0");
            node.nvml["gpus"].as_array_mut().expect("GPUs").remove(0);
        },
        check: "expect.gpus",
        words: "1 of 8 GPUs missing: 0000:18:00.0.",
        subject: "machine",
    },
    Planted {
        what: "another model",
        plant: |node| {
            node.at("0000:19:00.0").device = serde_json::from_value(json!("2335")).expect("an id")
        },
        check: "expect.gpu-model",
        words: "PCI ID: 10de:2330 expected, 10de:2335 found.",
        subject: "GPU1 (0000:19:00.0)",
    },
    Planted {
        what: "another product name",
        plant: |node| node.gpu(2)["name"] = json!({ "known": "NVIDIA H100 NVL" }),
        check: "expect.gpu-model",
        words: "GPU model: NVIDIA H100 80GB HBM3 expected, NVIDIA H100 NVL found.",
        subject: "GPU2 (0000:3a:00.0)",
    },
    Planted {
        what: "less memory",
        plant: |node| node.gpu(3)["memory_total"] = json!({ "known": 68_719_476_736_u64 }),
        check: "expect.gpu-model",
        words: "GPU memory: 81559 MiB expected, 65536 MiB found.",
        subject: "GPU3 (0000:3b:00.0)",
    },
    Planted {
        what: "a small BAR1",
        plant: |node| {
            node.at("0000:9a:00.0").bars =
                serde_json::from_value(json!([[0, "16M", "64p"], [2, "256M", "64p"]]))
                    .expect("BARs")
        },
        check: "expect.gpu-model",
        words: "BAR1: 131072 MiB expected, 256 MiB found.",
        subject: "GPU4 (0000:9a:00.0)",
    },
    Planted {
        what: "MIG",
        plant: |node| node.gpu(7)["mig"] = json!({ "known": true }),
        check: "expect.gpu-model",
        words: "MIG mode: false expected, true found.",
        subject: "GPU7 (0000:cb:00.0)",
    },
    Planted {
        what: "a GPU of another NUMA node",
        plant: |node| node.at("0000:ca:00.0").numa = Some(0),
        check: "expect.gpu-model",
        words: "NUMA node: 1 expected, 0 found.",
        subject: "GPU6 (0000:ca:00.0)",
    },
    Planted {
        what: "a GPU with eight lanes",
        plant: |node| node.at("0000:3b:00.0").link = Some(("32GT/s".to_owned(), 8)),
        check: "expect.gpu-link",
        words: "PCIe link: 32GT/s x16 expected, 32GT/s x8 found.",
        subject: "GPU3 (0000:3b:00.0)",
    },
    Planted {
        what: "a GPU that supports less speed",
        plant: |node| {
            let gpu = node.at("0000:3b:00.0");
            gpu.max_link = Some(("16GT/s".to_owned(), 16));
            gpu.link = gpu.max_link.clone();
        },
        check: "expect.gpu-link",
        words: "PCIe link: 32GT/s x16 expected, 16GT/s x16 found.",
        subject: "GPU3 (0000:3b:00.0)",
    },
    Planted {
        what: "another driver",
        plant: |node| {
            let files = &mut node.machine.extra.files;
            let text = files.get_mut("sys/module/nvidia/version").expect("the version");
            *text = serde_json::from_value(json!(["570.86.15"])).expect("lines");
            let line = [
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
            ];
            files.insert(
                "proc/driver/nvidia/version".to_owned(),
                serde_json::from_value(json!(line)).expect("lines"),
            );
        },
        check: "expect.driver",
        words: "NVIDIA driver: 580.159.04 expected, 570.86.15 found.",
        subject: "driver",
    },
    Planted {
        what: "the proprietary modules",
        plant: |node| {
            let line =
                ["NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build"];
            node.machine.extra.files.insert(
                "proc/driver/nvidia/version".to_owned(),
                serde_json::from_value(json!(line)).expect("lines"),
            );
        },
        check: "expect.memory-path",
        words: "Memory path dma-buf: open expected, closed found.",
        subject: "mlx5_0",
    },
    Planted {
        what: "no nvidia-peermem",
        plant: |node| {
            node.machine
                .extra
                .files
                .retain(|name, _| !name.contains("peermem") && !name.contains("memory_peers"));
            node.machine.extra.empty_dirs.push("sys/module".to_owned());
        },
        check: "expect.memory-path",
        words: "Memory path peermem: open expected, closed found.",
        subject: "mlx5_0",
    },
    Planted {
        what: "an absent NIC",
        plant: |node| node.remove("0000:9c:00.0"),
        check: "expect.nics",
        words: "1 of 8 NICs missing: mlx5_6.",
        subject: "machine",
    },
    Planted {
        what: "one NIC too many",
        plant: |node| node.at("0000:27:00.0").vpd.clear(),
        check: "expect.nics",
        words: "NICs not expected: mlx5_2.",
        subject: "machine",
    },
    Planted {
        what: "other firmware",
        plant: |node| {
            node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned())
        },
        check: "expect.nic-firmware",
        words: "NIC firmware: 28.43.2026 expected, 28.39.1002 found.",
        subject: "mlx5_1",
    },
    Planted {
        what: "another board",
        plant: |node| {
            node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").board =
                Some("MT_0000000834".to_owned())
        },
        check: "expect.nic-model",
        words: "NIC board: MT_0000000838 expected, MT_0000000834 found.",
        subject: "mlx5_1",
    },
    Planted {
        what: "another chip",
        plant: |node| {
            node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").hca = Some("MT4127".to_owned())
        },
        check: "expect.nic-model",
        words: "NIC chip: MT4129 expected, MT4127 found.",
        subject: "mlx5_1",
    },
    Planted {
        what: "a NIC with eight lanes",
        plant: |node| node.at("0000:cd:00.0").link = Some(("32GT/s".to_owned(), 8)),
        check: "expect.nic-link",
        words: "PCIe link: 32GT/s x16 expected, 32GT/s x8 found.",
        subject: "mlx5_9",
    },
    Planted {
        what: "a NIC that trained low",
        plant: |node| node.at("0000:cd:00.0").link = Some(("16GT/s".to_owned(), 16)),
        check: "expect.nic-link",
        words: "PCIe link: 32GT/s x16 expected, 16GT/s x16 found.",
        subject: "mlx5_9",
    },
    Planted {
        what: "a port that is down",
        plant: |node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").state = Some("1: DOWN".to_owned())
        },
        check: "expect.port",
        words: "Active ports: 1 expected, 0 found.",
        subject: "mlx5_4",
    },
    Planted {
        what: "half the rate",
        plant: |node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").rate =
                Some("200 Gb/sec (4X HDR)".to_owned())
        },
        check: "expect.port",
        words: "Port rate: 400 Gb/s expected, 200 Gb/s found.",
        subject: "mlx5_4",
    },
    Planted {
        what: "Ethernet",
        plant: |node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").layer =
                Some("Ethernet".to_owned())
        },
        check: "expect.port",
        words: "Link layer: InfiniBand expected, Ethernet found.",
        subject: "mlx5_4",
    },
    Planted {
        what: "a NIC in another slot",
        plant: |node| {
            node.remove("0000:4a:00.0");
            let nic = node.at("0000:cd:00.0");
            nic.bdf = "0000:4a:00.0".to_owned();
            nic.parent = Some("0000:48:03.0".to_owned());
            nic.root = "0000:48".to_owned();
            node.machine.devices.sort_by(|a, b| a.bdf.cmp(&b.bdf));
        },
        check: "expect.pairs",
        words: "PIX pairs of a GPU and a NIC: 16 expected, 14 found.",
        subject: "machine",
    },
    Planted {
        what: "an NVLink that is down",
        plant: |node| {
            let links = node.gpu(5)["active_links"]["known"].as_array_mut().expect("links");
            links.pop();
        },
        check: "expect.pairs",
        words: "NV18 pairs: 28 expected, 21 found.",
        subject: "machine",
    },
];

#[test]
fn planted_differences_are_found() {
    let dir = scratch();
    let profile = profile(dir.path());
    assert!(PLANTED.len() >= 20);
    for planted in PLANTED {
        let mut node = Node::good();
        (planted.plant)(&mut node);
        let found = differences(&node, &profile);
        let names = found.iter().any(|finding| {
            finding["id"] == planted.check
                && finding["outcome"] == "fail"
                && finding["subject"] == planted.subject
                && finding["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(planted.words))
                && finding["evidence"][0]["source"]
                    .as_str()
                    .is_some_and(|source| source.starts_with("expected by profile site: "))
        });
        assert!(names, "{}: {found:#?}", planted.what);
    }
}

#[test]
fn differences_fail_doctor() {
    let dir = scratch();
    let profile = profile(dir.path());
    let mut node = Node::good();
    node.remove("0000:9b:00.0");
    let root = node.laid_out();
    let run = Gdr::new()
        .sysroot(root.path())
        .args(["doctor", "--only", "expect", "--profile", &profile])
        .run();
    run.assert_code(1);
    run.assert_stdout("1 of 8 GPUs missing: 0000:9b:00.0.");
    // Without an expectation the checks are not in the report.
    let plain = Gdr::new().sysroot(root.path()).args(["doctor", "--format", "json"]).run();
    assert!(!plain.stdout.contains("expect."), "{}", plain.stdout);
    let named = Gdr::new()
        .sysroot(root.path())
        .args(["doctor", "--only", "expect", "--format", "json"])
        .run();
    named.assert_stdout("No profile expects anything of it");
}

/// Recorded machines judge themselves as good, and a fact that they lack is left out and named.
#[test]
fn recorded_machines_are_as_they_are() {
    let dir = scratch();
    let around = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    for name in crate::support::recorded() {
        let snapshot = around.join(&name).join("snapshot.json");
        let (profile, run) = derive(dir.path(), &[&snapshot]);
        run.assert_code(0);
        let snapshot = snapshot.to_string_lossy();
        let run = gdr(&["--from", &snapshot, "doctor", "--only", "expect", "--profile", &profile]);
        run.assert_code(0);
    }
}

/// A profile is not replaced, and a broken machine is not a model, unless --force says so.
#[test]
fn refuses_an_existing_file_and_a_broken_machine() {
    let dir = scratch();
    let file = dir.path().join("kept.toml");
    let name = file.to_string_lossy().into_owned();
    fs::write(&file, "kept").expect("a file");
    let good = Node::good().laid_out();
    let mut broken = Node::good();
    broken.machine.devices.retain(|device| device.rdma.is_none());
    let broken = broken.laid_out();
    let expect = |root: &Path, options: &[&str]| {
        let run = Gdr::new().sysroot(root).args(["expect"]).args(options).run();
        (run, fs::read_to_string(&file).unwrap_or_default())
    };
    let (run, text) = expect(good.path(), &["--write", &name]);
    run.assert_code(2);
    run.assert_stderr("kept.toml exists: --force replaces it");
    assert_eq!(text, "kept");
    let (run, text) = expect(good.path(), &["--force", "--write", &name]);
    run.assert_code(0);
    assert!(text.contains("count = 8"), "{text}");

    fs::remove_file(&file).expect("a removed file");
    for options in [&["--write", &name][..], &[]] {
        let (run, text) = expect(broken.path(), options);
        run.assert_code(2);
        run.assert_stderr(
            "nothing is written, because checks fail on this machine, and every other machine would be compared with it: rdma.device of",
        );
        run.assert_stderr("--force writes it as it is");
        assert_eq!((run.stdout.as_str(), text.as_str()), ("", ""));
    }
    let (run, text) = expect(broken.path(), &["--force", "--write", &name]);
    run.assert_code(0);
    assert!(text.contains("[expect.nics]\ncount = 0"), "{text}");
}

/// A fact that this user may not read can be had by another one: it is not left out silently.
#[test]
fn refuses_facts_that_are_denied() {
    let snapshot = "tests/recorded/h200-x2/snapshot.json";
    let text = fs::read_to_string(snapshot).expect("a snapshot");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    // EACCES
    let denied = json!({ "errors": { "open": { "errno": 13 } } });
    for file in ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"] {
        value["files"][file] = denied.clone();
    }
    let dir = scratch();
    let file = dir.path().join("denied.json");
    fs::write(&file, value.to_string()).expect("a file");
    let name = file.to_string_lossy().into_owned();
    let run = gdr(&["expect", "--include", "p2p", &name]);
    run.assert_code(2);
    run.assert_stderr("driver is unknown: ");
    run.assert_stderr("run gdr expect as root");
    let run = gdr(&["expect", "--include", "p2p", "--force", &name]);
    run.assert_code(0);
    run.assert_stderr("driver is left out");
}

#[test]
fn several_good_nodes_are_merged() {
    let dir = scratch();
    let record = |name: &str, node: &Node| {
        let root = node.laid_out();
        let file = dir.path().join(name);
        let run = Gdr::new().sysroot(root.path()).args(["snapshot", "-o"]).args([&file]).run();
        run.assert_code(0);
        file
    };
    let mut other = Node::good();
    other.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned());
    let (one, two) = (record("one.json", &Node::good()), record("two.json", &other));
    let (profile, run) = derive(dir.path(), &[&one, &two]);
    run.assert_code(0);
    run.assert_stderr("nics.firmware: 28.43.2026, and mlx5_0 28.43.2026, mlx5_1 28.39.1002");
    assert_eq!(differences(&other, &profile), [json!(null); 0]);
    assert_eq!(differences(&Node::good(), &profile), [json!(null); 0]);
    // What only a third node has is still found.
    other.at("0000:1a:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned());
    assert_eq!(differences(&other, &profile).len(), 1);
}

#[test]
fn probes_are_judged_by_minimum_bandwidths() {
    let dir = scratch();
    let file = dir.path().join("host.json");
    let run = gdr(&["probe", "host", "--sim", "--quick", "--size", "64KiB", "--format", "json"]);
    run.assert_code(0);
    fs::write(&file, &run.stdout).expect("a file");
    let (profile, run) = derive(dir.path(), &[&file]);
    run.assert_code(0);
    let text = fs::read_to_string(&profile).expect("a profile");
    assert!(text.contains("[expect.bandwidth]\n\"host."), "{text}");
    // A figure that no memory reaches.
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("\"host.")?.split('"').next())
        .expect("a name");
    let site = format!("name = 'fast'\nabout = ''\n[expect.bandwidth]\n'host.{name}' = 90000\n");
    fs::write(&profile, site).expect("a profile");
    let probe = |format| {
        gdr(&[
            "probe",
            "host",
            "--sim",
            "--quick",
            "--size",
            "64KiB",
            "--profile",
            &profile,
            "--format",
            format,
        ])
    };
    let run = probe("json");
    run.assert_code(1);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["findings"][0]["id"], "expect.bandwidth");
    assert_eq!(report["findings"][0]["outcome"], "fail");
    let run = probe("table");
    run.assert_code(1);
    run.assert_stdout("at least 90000 GB/s");
}

#[test]
fn wrong_input_is_an_error() {
    let dir = scratch();
    let file = dir.path().join("x.toml");
    let name = file.to_string_lossy().into_owned();
    for (text, words) in [
        ("name = 'x'\nabout = ''\n[expect]\ngpus = 8\n", "unknown key"),
        ("name = 'x'\nabout = ''\n[expect.gpus]\ncuont = 8\n", "unknown key"),
        ("name = 'x'\nabout = ''\nexpect = 1\n", "wrong type"),
    ] {
        fs::write(&file, text).expect("a file");
        let run = gdr(&["doctor", "--profile", &name]);
        run.assert_code(2);
        run.assert_stderr(words);
    }
    fs::write(&file, "{}").expect("a file");
    gdr(&["expect", &name]).assert_code(2);
    gdr(&["expect", "/nowhere/node.json"]).assert_code(2);
    fs::write(&file, "{\"schema\":\"gdr.probe/1\"}").expect("a file");
    let run = gdr(&["expect", &name]);
    run.assert_code(2);
    run.assert_stderr("gdr.probe/1");
    let run =
        gdr(&["--from", "tests/recorded/h200-x1/snapshot.json", "expect", "--include", "rdmaa"]);
    run.assert_code(2);
    run.assert_stderr("did you mean 'rdma'");
}

/// Most of several nodes decide; broken ones are left out, and a broken majority is not an example.
#[test]
fn most_nodes_decide() {
    let dir = scratch();
    let snapshot = |name: &str, node: &Node| {
        let root = node.laid_out();
        let file = dir.path().join(format!("{name}.json.zst"));
        let run = Gdr::new().sysroot(root.path()).args(["snapshot", "-o"]).args([&file]).run();
        run.assert_code(0);
    };
    let mut other = Node::good();
    other.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned());
    let mut broken = Node::good();
    broken.at("0000:17:02.0").acs_ctl =
        Some(serde_json::from_value("001d".into()).expect("a number"));
    snapshot("a", &Node::good());
    snapshot("b", &Node::good());
    snapshot("c", &other);
    snapshot("d", &broken);
    let expect = || Gdr::new().args(["expect", "--majority"]).args([dir.path()]).run();
    let run = expect();
    run.assert_code(0);
    assert!(run.stdout.contains("firmware = \"28.43.2026\""), "{}", run.stdout);
    assert!(!run.stdout.contains("28.39.1002"), "{}", run.stdout);
    for words in
        ["c.json.zst: nics.firmware: ", "d.json.zst is left out: ", "pcie.acs of 0000:17:02.0"]
    {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    snapshot("a", &broken);
    snapshot("b", &broken);
    let run = expect();
    run.assert_code(2);
    assert!(
        run.stdout.is_empty() && run.stderr.contains("nothing is written: 3 of 4 machines"),
        "{}",
        run.stderr
    );
}
