//! The nodes that need an action: each planted fault is in the table once, with the action that its check prescribes, and no
//! healthy node is. The expectations are written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Node, reports, scratch};

/// A fault, and what the report must say about its node.
struct Planted {
    what: &'static str,
    fault: Fault,
    problem: &'static str,
    class: &'static str,
    drain: bool,
    /// In what is wrong.
    words: &'static str,
}

enum Fault {
    /// Of the machine.
    Machine(fn(&mut Node)),
    /// Of the report of its probe.
    Probe(fn(&mut Value)),
    Missing,
    CutOff,
}

fn known(value: Value) -> Value {
    json!({ "known": value })
}

fn lose(node: &mut Node, bdf: &str) {
    node.remove(bdf);
    node.nvml["gpus"].as_array_mut().expect("GPUs").retain(|gpu| gpu["bdf"] != bdf);
}

fn scale(report: &mut Value, share: f64) {
    for result in report["results"].as_array_mut().expect("results") {
        result["median"] = json!(result["median"].as_f64().expect("a figure") * share);
    }
}

const PLANTED: &[Planted] = &[
    Planted {
        what: "a GPU that fell off the bus",
        fault: Fault::Machine(|node| lose(node, "0000:9b:00.0")),
        problem: "failed",
        class: "reboot",
        drain: true,
        words: "1 of 8 GPUs missing: 0000:9b:00.0",
    },
    Planted {
        what: "two GPUs",
        fault: Fault::Machine(|node| {
            lose(node, "0000:18:00.0");
            lose(node, "0000:cb:00.0");
        }),
        problem: "failed",
        class: "reboot",
        drain: true,
        words: "2 of 8 GPUs missing: 0000:18:00.0, 0000:cb:00.0",
    },
    Planted {
        what: "a NIC",
        fault: Fault::Machine(|node| node.remove("0000:9c:00.0")),
        problem: "failed",
        class: "reboot",
        drain: true,
        words: "1 of 8 NICs missing: mlx5_6",
    },
    Planted {
        what: "a NIC with eight lanes",
        fault: Fault::Machine(|node| {
            node.at("0000:cd:00.0").link = Some(("32GT/s".to_owned(), 8));
        }),
        problem: "failed",
        class: "reseat_nic",
        drain: true,
        words: "x8",
    },
    Planted {
        what: "a GPU with eight lanes",
        fault: Fault::Machine(|node| {
            node.at("0000:3b:00.0").link = Some(("32GT/s".to_owned(), 8));
        }),
        problem: "failed",
        class: "reseat_gpu",
        drain: true,
        words: "x8",
    },
    Planted {
        what: "a port that is down",
        fault: Fault::Machine(|node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").state =
                Some("1: DOWN".to_owned());
        }),
        problem: "failed",
        class: "reseat_cable",
        drain: true,
        words: "mlx5_4: Port DOWN",
    },
    Planted {
        what: "half the rate",
        fault: Fault::Machine(|node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").rate =
                Some("200 Gb/sec (4X HDR)".to_owned());
        }),
        problem: "failed",
        class: "reseat_cable",
        drain: true,
        words: "mlx5_4: Port at 200 Gb/s",
    },
    Planted {
        what: "Ethernet",
        fault: Fault::Machine(|node| {
            node.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").layer =
                Some("Ethernet".to_owned());
        }),
        problem: "failed",
        class: "firmware",
        drain: true,
        words: "Link layer: InfiniBand expected, Ethernet found",
    },
    Planted {
        what: "other firmware",
        fault: Fault::Machine(|node| {
            node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw =
                Some("28.39.1002".to_owned());
        }),
        problem: "failed",
        class: "firmware",
        drain: true,
        words: "NIC firmware: 28.43.2026 expected, 28.39.1002 found",
    },
    Planted {
        what: "another driver",
        fault: Fault::Machine(|node| {
            let files = &mut node.machine.extra.files;
            let text = files.get_mut("sys/module/nvidia/version").expect("the version");
            *text = serde_json::from_value(json!(["570.86.15"])).expect("lines");
            let line = [
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
            ];
            let lines = serde_json::from_value(json!(line)).expect("lines");
            files.insert("proc/driver/nvidia/version".to_owned(), lines);
        }),
        problem: "failed",
        class: "install",
        drain: true,
        words: "NVIDIA driver: 580.159.04 expected, 570.86.15 found",
    },
    Planted {
        what: "MIG",
        fault: Fault::Machine(|node| node.gpu(7)["mig"] = known(json!(true))),
        problem: "failed",
        class: "configure",
        drain: true,
        words: "MIG mode: false expected, true found",
    },
    Planted {
        what: "an NVLink that is down",
        fault: Fault::Machine(|node| {
            node.gpu(5)["active_links"]["known"].as_array_mut().expect("links").pop();
        }),
        problem: "failed",
        class: "reset_gpu",
        drain: true,
        words: "17",
    },
    Planted {
        what: "a switch that redirects",
        fault: Fault::Machine(|node| {
            node.at("0000:17:02.0").acs_ctl = serde_json::from_value(json!("001d")).ok();
        }),
        problem: "failed",
        class: "fix",
        drain: false,
        words: "0000:17:02.0",
    },
    Planted {
        what: "a GPU of another model",
        fault: Fault::Machine(|node| {
            node.gpu(6)["name"] = known(json!("NVIDIA H100 NVL"));
            node.gpu(6)["memory_total"] = known(json!(100_000_000_000_u64));
        }),
        problem: "failed",
        class: "reseat_gpu",
        drain: true,
        words: "GPU6 (0000:ca:00.0): GPU model: NVIDIA H100 80GB HBM3 expected, NVIDIA H100 NVL found",
    },
    Planted {
        what: "a fabric manager that does not complete the fabric",
        fault: Fault::Machine(|node| {
            for number in 0..8 {
                node.gpu(number)["fabric"] = known(json!("in_progress"));
            }
        }),
        problem: "failed",
        class: "restart_service",
        drain: true,
        words: "GPU0 (0000:18:00.0): No NVLink fabric yet",
    },
    Planted {
        what: "no module for peer memory",
        fault: Fault::Machine(|node| {
            let files = &mut node.machine.extra.files;
            files.retain(|path, _| !path.contains("nvidia_peermem") && !path.contains("peers"));
            let modules = [
                "nvidia_uvm 2171904 0 - Live 0x0000000000000000 (OE)",
                "nvidia 14299136 1 nvidia_uvm, Live 0x0000000000000000 (OE)",
                "mlx5_ib 536576 0 - Live 0x0000000000000000",
                "mlx5_core 2514944 1 mlx5_ib, Live 0x0000000000000000",
                "ib_uverbs 200704 1 mlx5_ib, Live 0x0000000000000000 (OE)",
                "ib_core 544768 2 mlx5_ib,ib_uverbs, Live 0x0000000000000000 (OE)",
            ];
            let lines = serde_json::from_value(json!(modules)).expect("lines");
            files.insert("proc/modules".to_owned(), lines);
        }),
        problem: "failed",
        class: "configure",
        drain: false,
        words: "Memory path peermem: open expected, closed found",
    },
    Planted {
        what: "a small BAR1",
        fault: Fault::Machine(|node| {
            node.gpu(3)["bar1"] = known(json!({ "total": 268_435_456_u64, "used": 1_703_936 }));
        }),
        problem: "warned",
        class: "firmware",
        drain: true,
        words: "GPU3 (0000:3b:00.0): BAR1 is 256 MiB",
    },
    Planted {
        what: "a small /dev/shm",
        fault: Fault::Machine(|node| {
            let mounts = [
                "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
                "25 22 0:23 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw,size=65536k",
            ];
            let lines = serde_json::from_value(json!(mounts)).expect("lines");
            node.machine.extra.files.insert("proc/self/mountinfo".to_owned(), lines);
        }),
        problem: "warned",
        class: "configure",
        drain: false,
        words: "/dev/shm holds 64 MiB",
    },
    Planted {
        what: "options that the next load changes",
        fault: Fault::Machine(|node| {
            let lines = json!(["options nvidia NVreg_EnableGpuFirmware=0"]);
            let lines = serde_json::from_value(lines).expect("lines");
            node.machine.extra.files.insert("etc/modprobe.d/tune.conf".to_owned(), lines);
        }),
        problem: "warned",
        class: "reboot",
        drain: true,
        words: "Next load has other parameters: the loaded driver has EnableGpuFirmware=18",
    },
    Planted {
        what: "a node that is a quarter slower",
        fault: Fault::Probe(|report| scale(report, 0.74)),
        problem: "slow",
        class: "examine",
        drain: true,
        words: "112 figures, 25 to 27 % below the median",
    },
    Planted {
        what: "wrong bytes",
        fault: Fault::Probe(|report| {
            report["results"][0]["verdict"] = json!("wrong");
            report["results"][0]["reason"] = json!("byte 17 is 0 and should be 9");
        }),
        problem: "failed",
        class: "examine",
        drain: true,
        words: "byte 17 is 0 and should be 9",
    },
    Planted {
        what: "no report",
        fault: Fault::Missing,
        problem: "absent",
        class: "examine",
        drain: false,
        words: "no report (missing)",
    },
    Planted {
        what: "a report that is cut off",
        fault: Fault::CutOff,
        problem: "absent",
        class: "examine",
        drain: false,
        words: "no report (ended)",
    },
];

/// Reports of doctor by fault; the last is the healthy node's.
struct Templates {
    planted: Vec<String>,
    good: String,
}

const NAME: &str = "NAME-OF-NODE";

fn templates() -> Templates {
    let dir = scratch();
    let root = Node::good().laid_out();
    let profile = dir.path().join("site.toml").to_string_lossy().into_owned();
    let run = Gdr::new().sysroot(root.path()).args(["expect", "-w", &profile]).run();
    run.assert_code(0);
    let doctor =
        |node: &Node| reports::doctor(node, NAME, &["--profile", profile.as_str()]).to_string();
    let planted = |planted: &Planted| match planted.fault {
        Fault::Machine(plant) => {
            let mut node = Node::good();
            plant(&mut node);
            doctor(&node)
        }
        _ => doctor(&Node::good()),
    };
    Templates { planted: PLANTED.iter().map(planted).collect(), good: doctor(&Node::good()) }
}

/// Writes a fleet, and returns the planted faults by node.
fn write(
    dir: &Path,
    templates: &Templates,
    nodes: usize,
    faults: &[usize],
) -> BTreeMap<String, usize> {
    let step = nodes / faults.len();
    let mut expected = BTreeMap::new();
    for number in 1..=nodes {
        let name = format!("gpu{number:04}");
        let fault = (number % step == 3).then(|| faults.get(number / step)).flatten().copied();
        let template = fault.map_or(&templates.good, |fault| &templates.planted[fault]);
        let mut doctor = template.replace(NAME, &name);
        let mut probe = reports::p2p(&name, number, None);
        match fault.map(|fault| &PLANTED[fault].fault) {
            Some(Fault::Missing) => {
                expected.extend(fault.map(|fault| (name, fault)));
                continue;
            }
            Some(Fault::CutOff) => {
                doctor.truncate(doctor.len() / 2);
                expected.extend(fault.map(|fault| (name.clone(), fault)));
                fs::write(dir.join(format!("{name}.json")), doctor).expect("a file");
                continue;
            }
            Some(Fault::Probe(plant)) => plant(&mut probe),
            Some(Fault::Machine(_)) | None => {}
        }
        fs::write(dir.join(format!("{name}.json")), doctor).expect("a file");
        fs::write(dir.join(format!("{name}-p2p.json")), probe.to_string()).expect("a file");
        expected.extend(fault.map(|fault| (name, fault)));
    }
    assert_eq!(expected.len(), faults.len());
    expected
}

fn check(dir: &Path, nodes: usize, expected: &BTreeMap<String, usize>) {
    let run = |more: &[&str]| {
        let all = format!("gpu[0001-{nodes:04}]");
        Gdr::new().args(["fleet", "report", "--nodes", &all]).args([dir]).args(more).run()
    };
    let json = run(&["--format", "json"]);
    json.assert_code(1);
    let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let actions = report["actions"].as_array().expect("actions");
    let mut found: Vec<&str> =
        actions.iter().map(|action| action["node"].as_str().expect("a node")).collect();
    found.sort_unstable();
    let names: Vec<&str> = expected.keys().map(String::as_str).collect();
    assert_eq!(found, names);
    for action in actions {
        let planted = &PLANTED[expected[action["node"].as_str().expect("a node")]];
        let about = format!("{}: {action:#}", planted.what);
        assert_eq!(action["problem"], planted.problem, "{about}");
        assert_eq!(action["action"]["class"], planted.class, "{about}");
        assert_eq!(action["action"]["drain"], planted.drain, "{about}");
        assert_ne!(action["action"]["source"], "", "{about}");
        assert!(
            action["words"].as_str().is_some_and(|words| words.contains(planted.words)),
            "{about}"
        );
    }
}

#[test]
fn each_faulty_node_has_one_action() {
    let templates = templates();
    let kinds: Vec<usize> = (0..PLANTED.len()).collect();
    for faults in kinds.chunks(5) {
        let dir = scratch();
        let expected = write(dir.path(), &templates, 200, faults);
        check(dir.path(), 200, &expected);
        // The table has each node in one line.
        let run = Gdr::new()
            .args(["fleet", "report", "--nodes", "gpu[0001-0200]"])
            .args([dir.path()])
            .run();
        let table = run.stdout.split("\n\n").nth(1).expect("a table");
        assert!(table.starts_with("STATE"), "{}", run.stdout);
        for name in expected.keys() {
            assert_eq!(table.matches(name.as_str()).count(), 1, "{name}: {table}");
        }
        assert_eq!(table.matches("gpu0").count(), expected.len(), "{table}");
    }
}

#[test]
#[ignore = "slow: 2,000 reports"]
fn each_of_fifty_among_thousand_has_one_action() {
    let templates = templates();
    let dir = scratch();
    let faults: Vec<usize> = (0..PLANTED.len()).cycle().take(50).collect();
    let expected = write(dir.path(), &templates, 1000, &faults);
    check(dir.path(), 1000, &expected);
}

/// What follows from lost GPUs is one line, not one for each pair and list that named them.
#[test]
fn consequences_of_lost_devices_are_folded() {
    let dir = scratch();
    reports::write_equal(dir.path(), 8);
    let mut node = Node::good();
    lose(&mut node, "0000:9b:00.0");
    lose(&mut node, "0000:cb:00.0");
    let report = reports::doctor(&node, "n5", &[]).to_string();
    fs::write(dir.path().join("n5.json"), report).expect("a file");
    let run = Gdr::new().args(["fleet", "report", "--format", "json"]).args([dir.path()]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let groups = report["groups"].as_array().expect("groups").iter();
    let group = groups.clone().find(|group| group["nodes"] == "n5").expect("a group of n5");
    let differences = group["differences"].as_array().expect("differences");
    let first = &differences[0];
    assert_eq!(first["fact"], "missing devices", "{group:#}");
    let value = first["value"].as_str().expect("a value");
    assert!(value.starts_with("0000:9b:00.0, 0000:cb:00.0 ("), "{value}");
    for difference in &differences[1..] {
        let fact = difference["fact"].as_str().expect("a fact");
        let names_devices = fact.contains("0000:") || fact.contains("GPU0");
        assert!(!difference["value"].is_null() || !names_devices, "{difference:#}");
    }
    assert!(differences.len() < 20, "{}: {group:#}", differences.len());
}

/// One warning that all nodes share is not a node's own fault, and one small loss in many figures is chance.
#[test]
fn healthy_fleets_need_no_action() {
    let dir = scratch();
    reports::write_equal(dir.path(), 12);
    let mut probe = reports::p2p("n4", 4, None);
    let figure = &mut probe["results"][9]["median"];
    *figure = json!(figure.as_f64().expect("a figure") * 0.85);
    fs::write(dir.path().join("n4-p2p.json"), probe.to_string()).expect("a file");
    let run = Gdr::new().args(["fleet", "report", "--format", "json"]).args([dir.path()]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let actions = report["actions"].as_array().expect("actions");
    assert!(actions.iter().all(|action| action["problem"] == "failed"), "{actions:#?}");
    assert_eq!(report["summary"]["slow"], 0);
    assert_eq!(report["figures"].as_array().map(Vec::len), Some(1));
}

#[test]
fn slow_nodes_fail_the_report_in_one_line() {
    let dir = scratch();
    for number in 1..=8 {
        let name = format!("n{number}");
        let mut probe = reports::p2p(&name, number, None);
        if number == 7 {
            scale(&mut probe, 0.74);
        }
        fs::write(dir.path().join(format!("{name}.json")), probe.to_string()).expect("a file");
    }
    let run = Gdr::new().args(["fleet", "report"]).args([dir.path()]).run();
    run.assert_code(1);
    run.assert_stdout("slow: 8 nodes: 7 ok, 1 slow");
    run.assert_stdout("n7    112 figures, 25 to 27 % below the median");
    run.assert_stdout("7 nodes are alike");
}

/// What sinfo -R shows of a drained node begins with the message.
#[test]
fn drain_reasons_begin_with_the_message() {
    let dir = scratch();
    let root = Node::good().laid_out();
    let profile = dir.path().join("site.toml").to_string_lossy().into_owned();
    Gdr::new().sysroot(root.path()).args(["expect", "-w", &profile]).run().assert_code(0);
    let line = |plant: fn(&mut Node)| {
        let mut node = Node::good();
        plant(&mut node);
        let root = node.laid_out();
        let arguments = ["doctor", "--profile", &profile, "--format", "line"];
        Gdr::new().sysroot(root.path()).args(arguments).run().stdout
    };
    let two = |node: &mut Node| {
        lose(node, "0000:18:00.0");
        lose(node, "0000:cb:00.0");
    };
    let nic = |node: &mut Node| node.remove("0000:9c:00.0");
    let firmware = |node: &mut Node| {
        node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned());
    };
    for (line, first, then) in [
        (line(two), "gdr: 2 of 8 GPUs missing", "; drain, reboot; if that does not help: reseat"),
        (line(nic), "gdr: 1 of 8 NICs missing", "; drain, reboot; if that does not help: reseat"),
        (line(firmware), "gdr: mlx5_1: NIC firmware", "; drain, change firmware or BIOS settings"),
    ] {
        assert!(line.starts_with(first) && line.contains(then), "{line}");
        let part = line.split("; ").next().expect("a part");
        assert!(part.chars().count() <= 60, "{line}");
        assert!(!line.contains("(machine)"), "{line}");
        for id in ["expect.gpus", "expect.pairs", "expect.nics", "expect.nic-firmware"] {
            assert!(line.split([' ', ',', '\n']).filter(|word| *word == id).count() <= 1, "{line}");
        }
    }
}

/// A ticket has the verdict, the counts, what to do, and the next step.
#[test]
fn markdown_is_a_ticket() {
    let mut node = Node::good();
    node.at("0000:17:02.0").acs_ctl = serde_json::from_value(json!("001d")).ok();
    let root = node.laid_out();
    let run = Gdr::new().sysroot(root.path()).args(["doctor", "--format", "markdown"]).run();
    for words in ["8 × NVIDIA H100", " pass, ", "**Action**: gdr fix acs (http", "**Next step"] {
        run.assert_stdout(words);
    }
}

/// The topology that all nodes share is shown once.
#[test]
fn topologies_are_shown_once() {
    let dir = scratch();
    for name in ["n1", "n2", "n3", "n4"] {
        let mut node = Node::good();
        if name == "n4" {
            lose(&mut node, "0000:cb:00.0");
        }
        let root = node.laid_out();
        let run = Gdr::new().sysroot(root.path()).args(["topo", "--format", "json"]).run();
        let mut report: Value = serde_json::from_str(&run.stdout).expect("JSON");
        report["host"]["name"] = json!(name);
        fs::write(dir.path().join(format!("{name}.json")), report.to_string()).expect("a file");
    }
    let run = Gdr::new().args(["fleet", "report"]).args([dir.path()]).run();
    run.assert_stdout("the topology of most nodes");
    run.assert_stdout("3 nodes are alike: n[1-3]");
    run.assert_stdout("1 node differs: n4");
    run.assert_stdout("missing devices: ");
    assert_eq!(run.stdout.matches("GPU6  ").count(), 2, "{}", run.stdout);
}
