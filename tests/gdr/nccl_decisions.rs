//! `gdr topo --nccl`: what NCCL decides, by version and variables. The expectations follow from reading NCCL's source of each version.

use std::path::Path;

use crate::support::{Gdr, Machine, Node};
use serde_json::{Value, json};

const ENVIRON: &str = "proc/self/environ";

/// A machine whose process has these variables.
fn machine(name: &str, variables: &str, cpu: &str) -> Machine {
    Machine::load_changed(name, |machine| {
        let environ: String = variables.split(' ').map(|one| format!("{one}\0")).collect();
        machine["files"][ENVIRON] = json!(environ);
        if !cpu.is_empty() {
            machine["files"]["proc/cpuinfo"] =
                json!(["vendor_id\t: AuthenticAMD", format!("model name\t: {cpu}")]);
        }
    })
}

fn decide(root: &Path, version: &str) -> Value {
    let run = Gdr::new()
        .sysroot(root)
        .args(["topo", &format!("--nccl={version}"), "--format", "json"])
        .run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("JSON")
}

/// Path, receive, send and relay of a GPU and a NIC.
fn nic<'a>(document: &'a Value, gpu: &str, device: &str) -> [&'a Value; 4] {
    let pairs = document["nic_pairs"].as_array().expect("pairs");
    let pair = pairs.iter().find(|pair| pair["gpu"] == gpu && pair["device"] == device);
    let pair = pair.expect("the pair");
    ["path", "receive", "send", "through"].map(|key| &pair[key])
}

/// Eight GPUs on NVSwitches, two of them and two NICs below each switch.
#[test]
fn gpudirect_rdma_follows_path_level_and_direction() {
    let no = json!([false, false]);
    let yes = json!([true, true]);
    let cases = [
        ("", "GPU0", "mlx5_0", "PIX", &yes, Value::Null),
        // The NIC of another switch is reached by a GPU beside it.
        ("", "GPU0", "mlx5_4", "PXN", &yes, json!("GPU2")),
        ("", "GPU0", "mlx5_6", "PXN", &yes, json!("GPU4")),
        ("NCCL_PXN_DISABLE=1", "GPU0", "mlx5_4", "PHB", &no, Value::Null),
        ("NCCL_PXN_DISABLE=1", "GPU0", "mlx5_6", "SYS", &no, Value::Null),
        ("NCCL_PXN_DISABLE=1 NCCL_NET_GDR_LEVEL=PHB", "GPU0", "mlx5_4", "PHB", &yes, Value::Null),
        ("NCCL_PXN_DISABLE=1 NCCL_NET_GDR_LEVEL=3", "GPU0", "mlx5_6", "SYS", &no, Value::Null),
        ("NCCL_NET_GDR_LEVEL=LOC", "GPU0", "mlx5_0", "PIX", &no, Value::Null),
        ("NCCL_NET_GDR_READ=0", "GPU0", "mlx5_0", "PIX", &json!([true, false]), Value::Null),
        ("NCCL_IB_HCA=mlx5_1", "GPU0", "mlx5_0", "PIX", &no, Value::Null),
        ("NCCL_IB_HCA=^mlx5_0", "GPU0", "mlx5_1", "PIX", &yes, Value::Null),
    ];
    for version in ["2.18.3", "2.30.7"] {
        for (variables, gpu, device, path, gdr, through) in &cases {
            let machine = machine("hgx-h100-8gpu-8nic", variables, "");
            let root = Node { machine, ..Node::good() }.laid_out();
            let document = decide(root.path(), version);
            let expected = [&json!(path), &gdr[0], &gdr[1], through];
            assert_eq!(nic(&document, gpu, device), expected, "{version} {variables} {device}");
        }
    }
}

#[test]
fn gpus_use_the_nics_that_the_variables_leave() {
    for (variables, nics) in [
        ("", json!(["mlx5_0"])),
        ("NCCL_IB_HCA==mlx5_1,mlx5_4", json!(["mlx5_1"])),
        ("NCCL_IB_DISABLE=1", json!([])),
    ] {
        let machine = machine("hgx-h100-8gpu-8nic", variables, "");
        let root = Node { machine, ..Node::good() }.laid_out();
        let document = decide(root.path(), "2.27.7");
        assert_eq!(document["uses"][0], json!({ "gpu": "GPU0", "nics": nics }), "{variables}");
    }
}

/// GH200: C2C has had a path of its own since 2.26, P2C since 2.27.
#[test]
fn nvlink_c2c_counts_by_version() {
    let cases = [
        ("2.25.1", "", "PHB", Some(false)),
        ("2.26.2", "", "PHB", Some(false)),
        ("2.26.2", "NCCL_NET_GDR_C2C=1", "PHB", Some(true)),
        ("2.27.7", "", "P2C", Some(true)),
        ("2.27.7", "NCCL_NET_GDR_C2C=0", "P2C", Some(false)),
        ("2.29.7", "", "P2C", Some(true)),
        ("2.29.7", "NCCL_NET_GDR_LEVEL=PXB", "P2C", Some(false)),
        // Until 2.28 the level compares with C2C.
        ("2.28.9", "NCCL_NET_GDR_LEVEL=PXB", "P2C", Some(true)),
    ];
    for (version, variables, path, gdr) in cases {
        let root = machine("grace-gh200", variables, "").laid_out();
        let document = decide(root.path(), version);
        let [found, receive, send, _] = nic(&document, "GPU0", "mlx5_0");
        assert_eq!(
            [found, receive, send],
            [&json!(path), &json!(gdr), &json!(gdr)],
            "{version} {variables}"
        );
    }
    // With NVLinks unknown, whether the other GPU relays is too.
    let root = machine("grace-gh200", "", "").laid_out();
    let document = decide(root.path(), "2.28.9");
    assert_eq!(nic(&document, "GPU0", "mlx5_1"), [&Value::Null; 4]);
    assert_eq!(nic(&decide(root.path(), "2.27.7"), "GPU0", "mlx5_1")[0], "SYS");
}

#[test]
fn peer_to_peer_follows_level_cpu_and_version() {
    let intel = "Intel(R) Xeon(R)";
    let amd = "AMD EPYC";
    let cases = [
        ("2.27.7", "", intel, json!("PXB")),
        ("2.18.3", "", intel, json!("PXB")),
        ("2.18.3", "", amd, json!("SYS")),
        // Eight GPUs.
        ("2.23.4", "", amd, json!("PXB")),
        ("2.27.7", "NCCL_P2P_LEVEL=NVL", amd, json!("NVL")),
        ("2.27.7", "NCCL_P2P_LEVEL=nvl", amd, json!("PXB")),
        ("2.27.7", "NCCL_P2P_DISABLE=1 NCCL_P2P_LEVEL=SYS", amd, json!("LOC")),
        ("2.27.7", "", "", Value::Null),
    ];
    for (version, variables, cpu, level) in cases {
        let machine = machine("hgx-h100-8gpu-8nic", variables, cpu);
        let root = Node { machine, ..Node::good() }.laid_out();
        let document = decide(root.path(), version);
        assert_eq!(document["p2p_level"]["level"], level, "{version} {variables} {cpu}");
        let pair = &document["gpu_pairs"][0];
        assert_eq!(pair["path"], "NVL", "{version}");
        assert_eq!(pair["p2p"], json!(level != "LOC"), "{version} {variables}");
    }
}

#[test]
fn the_version_and_the_line_are_stated() {
    let root = Machine::load("sound").laid_out();
    let run = Gdr::new().sysroot(root.path()).args(["topo", "--nccl"]).run();
    run.assert_stdout("NCCL 2.30.7 (the newest that gdr knows");
    run.assert_stdout("src/graph/paths.cc:528");
    run.assert_stdout("GPU0 uses mlx5_0");
    for (version, words) in [("2.17.1", "gdr knows 2.18 to 2.30"), ("x", "gdr knows")] {
        let version = format!("--nccl={version}");
        let run = Gdr::new().sysroot(root.path()).args(["topo", &version]).run();
        run.assert_code(2);
        run.assert_stderr(words);
    }
}

/// NCCL's file of switches with GPUs and NICs below each.
fn switches(shapes: &[[usize; 2]]) -> String {
    let mut xml = String::from("<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\">\n");
    let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let (mut gpu, mut nic) = (0, 0);
    for (number, [gpus, nics]) in (1..).zip(shapes) {
        xml += &format!("<pci busid=\"0000:{number}0:00.0\" class=\"0x060400\" {link}>\n");
        for at in 0..*gpus {
            xml += &format!(
                "<pci busid=\"0000:{number}1:{at:02x}.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" {link}>\n\
                 <gpu dev=\"{gpu}\" sm=\"90\" rank=\"{gpu}\" gdr=\"1\"/>\n</pci>\n"
            );
            gpu += 1;
        }
        for at in 0..*nics {
            xml += &format!(
                "<pci busid=\"0000:{number}2:{at:02x}.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\" {link}>\n\
                 <nic>\n<net name=\"mlx5_{nic}\" dev=\"{nic}\" speed=\"400000\" port=\"1\" gdr=\"1\"/>\n</nic>\n</pci>\n"
            );
            nic += 1;
        }
        xml += "</pci>\n";
    }
    xml + "</cpu>\n</system>\n"
}

/// Expected from `ncclTopoGetLocalNet` and `mirrorBits` of v2.18.6-1, v2.27.7-1 and v2.30.7-1, worked out on paper.
#[test]
fn gpus_share_nics_by_channel_as_nccl_does() {
    type Case<'a> = (&'a [[usize; 2]], &'a str, &'a [&'a [u32]]);
    let cases: [Case<'_>; 10] = [
        (&[[1, 3]], "2.27.7", &[&[0, 1, 2]]),
        (&[[2, 3]], "2.27.7", &[&[0, 1], &[1, 2]]),
        (&[[2, 4]], "2.18.6", &[&[0, 1], &[2, 3]]),
        (&[[2, 4]], "2.30.7", &[&[0, 1], &[2, 3]]),
        (&[[4, 2]], "2.27.7", &[&[0], &[1], &[0], &[1]]),
        (&[[4, 4]], "2.18.6", &[&[0], &[2], &[1], &[3]]),
        (&[[4, 4]], "2.30.7", &[&[0], &[2], &[1], &[3]]),
        (&[[3, 5]], "2.27.7", &[&[0, 1], &[1, 2], &[2, 3]]),
        (&[[2, 3], [2, 3]], "2.27.7", &[&[0, 1], &[1, 2], &[5, 3], &[3, 4]]),
        (&[[2, 3], [2, 3]], "2.30.7", &[&[0, 1], &[1, 2], &[3, 4], &[4, 5]]),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("topology.xml");
    for (shapes, version, expected) in cases {
        std::fs::write(&file, switches(shapes)).expect("a file");
        let run = Gdr::new()
            .args(["topo", &format!("--nccl={version}"), "--format", "json", "--from"])
            .args([file.as_os_str()])
            .run();
        assert_eq!(run.code, 0, "{}", run.stderr);
        let document: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let names = |nics: &&[u32]| nics.iter().map(|nic| format!("mlx5_{nic}")).collect();
        let expected: Vec<Vec<String>> = expected.iter().map(names).collect();
        let uses = document["uses"].as_array().expect("uses");
        let found: Vec<&Value> = uses.iter().map(|found| &found["nics"]).collect();
        assert_eq!(json!(found), json!(expected), "{shapes:?} {version}");
    }
}
