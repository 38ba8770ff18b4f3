//! Which NIC `gdr topo` gives each GPU, and what it says of it: guests, several NICs for a GPU, NICs that cannot move, the first screen.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Gdr, Machine, scratch};

/// What a command prints on a machine, and its exit status.
fn run(machine: &Machine, args: &[&str]) -> (String, i32) {
    let dir = machine.laid_out();
    let run = Gdr::new().sysroot(dir.path()).args(args).run();
    assert_eq!(run.stderr, "", "{args:?}");
    (run.stdout, run.code)
}

/// The text without line breaks.
fn unwrapped(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "#").collect();
    words.join(" ")
}

fn assert_text(machine: &Machine, args: &[&str], says: &[&str], never: &[&str]) {
    let (text, _) = run(machine, args);
    let words = unwrapped(&text);
    for wanted in says {
        assert!(words.contains(wanted), "{args:?}: no '{wanted}': {text}");
    }
    for unwanted in never {
        assert!(!words.contains(unwanted), "{args:?}: '{unwanted}': {text}");
    }
}

fn in_a_guest(machine: &mut Value) {
    let cpu = ["processor\t: 0", "vendor_id\t: GenuineIntel", "flags\t\t: fpu hypervisor"];
    machine["files"]["proc/cpuinfo"] = json!(cpu);
}

fn corpus(name: &str) -> Machine {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    Machine::from_corpus(&corpus.join(name))
}

/// The NICs that NCCL uses, by GPU.
fn nccl(machine: &Machine) -> Vec<Vec<String>> {
    let (text, _) = run(machine, &["topo", "--format", "json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let devices = document["devices"].as_array().expect("devices");
    let label = |name: &Value| {
        let device = devices.iter().find(|device| device["name"] == *name);
        device.expect("a device")["label"].as_str().expect("text").to_owned()
    };
    let pairs = document["pairs"].as_array().expect("pairs").iter();
    let gpus =
        pairs.filter(|pair| pair["device"].as_str().is_some_and(|name| name.starts_with("GPU")));
    gpus.map(|pair| pair["nccl"].as_array().expect("NICs").iter().map(label).collect()).collect()
}

#[test]
fn a_guest_s_tree_is_no_proof() {
    let guest = Machine::load_changed("sound", in_a_guest);
    let says = ["PIX in the guest's tree; the host's path is unknown; gdr probe rdma proves it"];
    let never = ["good", "GB/s", "Move", "ACS"];
    assert_text(&guest, &["topo"], &says, &never);
    assert_text(&guest, &["topo", "--pairs"], &says, &["good", "Move"]);
    assert_eq!(run(&guest, &["topo", "--check"]).1, 3);
    let far = Machine::load_changed("numa-minus-one", in_a_guest);
    assert_text(&far, &["topo"], &["NODE in the guest's tree"], &["bad", "Move", "ACS"]);
    assert_text(
        &far,
        &["doctor", "--only", "pcie.locality", "--verbose"],
        &["NODE in the guest's tree"],
        &["Move", "warn"],
    );
    // The option decides, as it does for doctor.
    let option = ["topo", "--platform", "bare-metal"];
    assert_text(&guest, &option, &["good: PIX, below one switch"], &["guest"]);
}

#[test]
fn drawing_marks_only_what_a_finding_names() {
    let redirects = |machine: &mut Value| {
        let switch = &mut machine["roots"]["0000:00"]["below"]["00:01.0"]["below"]["01:00.0"];
        switch["below"]["02:00.0"]["acs_ctl"] = json!("001d");
    };
    let mark = "ACS redirects";
    let drawing = ["topo", "--format", "svg"];
    let bare = Machine::load_changed("sound", redirects);
    assert_text(&bare, &drawing, &[mark], &[]);
    assert_text(&bare, &["topo"], &["ACS at 0000:02:00.0 redirects it"], &[]);
    let guest = Machine::load_changed("sound", |machine| {
        redirects(machine);
        in_a_guest(machine);
    });
    assert_text(&guest, &drawing, &[], &[mark]);
    // The GPU belongs to a virtual machine, whose isolation the bits are.
    let host = Machine::load_changed("sound", |machine| {
        redirects(machine);
        let switch = &mut machine["roots"]["0000:00"]["below"]["00:01.0"]["below"]["01:00.0"];
        let gpu = json!({ "is": "h200", "driver": "vfio-pci", "gpu": null });
        switch["below"]["02:00.0"]["below"]["03:00.0"] = gpu;
    });
    assert_text(&host, &drawing, &[], &[mark]);
    assert_text(&Machine::load("grace-gh200"), &["topo"], &[], &["ACS"]);
}

#[test]
fn the_first_screen_has_the_nic_of_each_gpu() {
    let machine = Machine::load("hgx-h100-8gpu-8nic");
    let (text, _) = run(&machine, &["topo"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("GPU0 -> NIC"), "{text}");
    let last = lines.iter().position(|line| line.starts_with("GPU7 -> NIC"));
    assert!(last.is_some_and(|line| line < 24), "{text}");
    let rows = |text: &str, name: &str| {
        let cells = |line: &&str| line.starts_with(name) && line.contains("PIX");
        text.lines().filter(cells).count()
    };
    assert_eq!(rows(&text, "NIC3 "), 0, "{text}");
    let (all, _) = run(&machine, &["topo", "--all"]);
    assert!(rows(&all, "NIC3 ") > 0, "{all}");
    assert_text(
        &machine,
        &["topo"],
        &[
            "mlx5_0 port 1: ACTIVE, 400 Gb/s InfiniBand; 63.0 GB/s, limited by the link of GPU0: PCIe 5.0 x16",
        ],
        &[],
    );
    let slow = Machine::load_changed("sound", |machine| {
        let port = &mut machine["roots"]["0000:00"]["below"]["00:01.0"]["below"]["01:00.0"]["below"]
            ["02:01.0"];
        port["below"]["04:00.0"]["link"] = json!(["32GT/s", 8]);
    });
    assert_text(&slow, &["topo"], &["31.5 GB/s, limited by the link of NIC0: PCIe 5.0 x8"], &[]);
}

/// The NIC is on another root port, so the path leaves the GPU's switch over its narrower link.
#[test]
fn a_bridge_that_limits_is_named() {
    let change = |machine: &mut Value| {
        let root = &mut machine["roots"]["0000:00"]["below"];
        root["00:01.0"]["below"]["01:00.0"]["link"] = json!(["32GT/s", 8]);
        let switch = root["00:01.0"]["below"]["01:00.0"]["below"].as_object_mut();
        switch.expect("ports").remove("02:01.0");
        root["00:02.0"] = json!({ "is": "root-port", "below": {
            "05:00.0": { "is": "cx7-ib", "rdma": "mlx5_0" }
        } });
    };
    let says = "31.5 GB/s, limited by the link of the bridge 0000:01:00.0: PCIe 5.0 x8";
    let alone = Machine::load_changed("sound", change);
    assert_text(&alone, &["topo"], &[says], &["shared with"]);
    let shared = Machine::load_changed("sound", |machine| {
        change(machine);
        let root = &mut machine["roots"]["0000:00"]["below"];
        let ports = &mut root["00:01.0"]["below"]["01:00.0"]["below"];
        for (port, gpu) in [("02:02.0", "06:00.0"), ("02:03.0", "07:00.0")] {
            ports[port] = json!({ "is": "pex-down", "below": { gpu: "h200" } });
        }
    });
    let says = format!("{says}, shared with GPU1 GPU2");
    assert_text(&shared, &["topo"], &[&says], &[]);
}

#[test]
fn nvlinks_that_are_unknown_leave_far_gpus_uncoloured() {
    let machine = Machine::load("numa-minus-one");
    let (text, _) = run(&machine, &["topo", "--color", "always"]);
    let row = text.lines().find(|line| line.contains("GPU0") && line.contains(" X"));
    let row = row.or(text.lines().find(|line| line.contains("GPU0\u{1b}[0m  X")));
    let row = row.expect("GPU0's row");
    assert_eq!(row.matches("\u{1b}[31mNODE").count(), 1, "{row:?}");
    assert_eq!(row.matches("NODE").count(), 2, "{row:?}");
}

#[test]
fn a_matrix_beside_lspci_knows_nvlinks() {
    let gpu = |bus: &str, port: &str| {
        format!(
            "{port} PCI bridge: Intel Corporation Device 352a (rev 30) (prog-if 00 [Normal decode])\n\tNUMA node: 0\n\
             \tBus: primary={}, secondary={bus}, subordinate={bus}, sec-latency=0\n\
             \tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00\n\n\
             {bus}:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n\tNUMA node: 0\n\
             \tCapabilities: [40] Express (v2) Endpoint, MSI 00\n\tKernel driver in use: nvidia\n\n",
            &port[..2]
        )
    };
    let matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV18\t0-55\t0\t\tN/A\nGPU1\tNV18\t X \t0-55\t0\t\tN/A\n";
    let dir = scratch();
    let file = dir.path().join("ticket.txt");
    let text = gpu("19", "15:01.0") + &gpu("3b", "37:01.0") + matrix;
    std::fs::write(&file, text).expect("a file");
    let found = Gdr::new().args(["topo", "--from"]).args([&file]).run();
    assert!(found.stdout.contains("NV18"), "{}", found.stdout);
    assert!(!found.stdout.contains("NVLinks are unknown"), "{}", found.stdout);
}

#[test]
fn a_card_moves_once_and_only_where_it_can() {
    let epyc = corpus("epyc-genoa-4xada-2xcx7.json");
    let (text, _) = run(&epyc, &["topo"]);
    assert_eq!(text.matches("  Move ").count(), 2, "{text}");
    assert_text(
        &epyc,
        &["topo"],
        &[
            "Move mlx5_0 and mlx5_1 (one card, 0000:21:00.0) from pci0000:20, or put another NIC, to a slot on the host bridge of GPU0",
            "Put another NIC into a slot on the host bridge of GPU1",
        ],
        &["Move mlx5_1"],
    );
    // Both GPUs of one host bridge need one slot.
    assert_text(
        &corpus("wrx90-2xada-cx7.json"),
        &["topo"],
        &["to a slot on the host bridge of GPU0 (0000:c1:00.0) and GPU1 (0000:c2:00.0)"],
        &["Put another"],
    );
    let ac922 = corpus("ac922-4xv100-2xcx5.json");
    assert_text(&ac922, &["topo"], &["bad: NODE", "0-15 0 0004:04:00.0"], &["Move", "Put another"]);
    assert_text(
        &ac922,
        &["topo", "--pairs"],
        &["numactl --cpunodebind=8 --membind=8 COMMAND"],
        &[],
    );
    // A NIC that another GPU uses well stays.
    let shared = Machine::load_changed("sound", |machine| {
        let below =
            &mut machine["roots"]["0000:00"]["below"]["00:01.0"]["below"]["01:00.0"]["below"];
        below["02:00.0"]["below"] = json!({ "03:00.0": "l40s" });
        machine["roots"]["0000:80"] = json!({ "numa": 0, "below": {
            "80:01.0": { "is": "root-port", "below": { "81:00.0": "l40s" } }
        } });
    });
    assert_text(
        &shared,
        &["topo"],
        &["Put another NIC into a slot on the host bridge of GPU1"],
        &["Move"],
    );
}

/// DGX Spark: a port is two functions in two PCI domains, and the GPU is a part of the CPU's package.
fn spark() -> Machine {
    let nic = |name: &str| {
        let layer = json!({ "name": name, "layer": "Ethernet", "rate": "200 Gb/sec (4X HDR)" });
        json!({ "is": "cx7-eth", "link": ["32GT/s", 4], "rdma": layer })
    };
    let root = |first: &str, second: &str| {
        json!({ "numa": 0, "below": { "00:00.0": { "is": "grace-root-port", "below": {
            "01:00.0": nic(first), "01:00.1": nic(second)
        } } } })
    };
    Machine::load_changed("grace-gh200", |machine| {
        machine["nodes"] = json!({ "0": "0-19" });
        machine["roots"] = json!({
            "0000:00": root("rocep1s0f0", "rocep1s0f1"),
            "0002:00": root("roceP2p1s0f0", "roceP2p1s0f1"),
            "000f:00": { "numa": 0, "below": { "00:00.0": { "is": "grace-root-port", "below": {
                "01:00.0": { "is": "h100", "device": "2e12", "gpu": "NVIDIA GB10" }
            } } } }
        });
    })
}

#[test]
fn nics_are_shared_as_nccl_does() {
    let names = |lists: &[&[&str]]| -> Vec<Vec<String>> {
        let list = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        lists.iter().map(list).collect()
    };
    // NCCL on a DGX Spark: "Made virtual device [4] name=rocep1s0f0+rocep1s0f1", "[5] name=roceP2p1s0f0+roceP2p1s0f1".
    let all = ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"];
    assert_eq!(nccl(&spark()), names(&[&all]));
    assert_text(
        &spark(),
        &["topo"],
        &["NCCL also uses: ", "integrated GPU"],
        &["bad", "Move", "Put another"],
    );
    assert_text(
        &spark(),
        &["topo", "--pairs"],
        &["NCCL_IB_HCA==rocep1s0f0:1,rocep1s0f1:1,roceP2p1s0f0:1,roceP2p1s0f1:1"],
        &[],
    );
    // Two functions of one card below the GPU's switch are one NIC to NCCL.
    let dual = Machine::load_changed("sound", |machine| {
        let port = &mut machine["roots"]["0000:00"]["below"]["00:01.0"]["below"]["01:00.0"]["below"]
            ["02:01.0"];
        port["below"]["04:00.1"] = json!({ "is": "cx7-ib", "rdma": "mlx5_1" });
    });
    assert_eq!(nccl(&dual), names(&[&["mlx5_0", "mlx5_1"]]));
    // Two GPUs and two NICs of a socket: one for each GPU.
    let gb200 = Machine::load_changed("grace-gh200", |machine| {
        for root in ["0012:00", "0019:00"] {
            machine["roots"][root]["numa"] = json!(0);
        }
        machine["nodes"]["0"] = json!("0-143");
        machine["nodes"].as_object_mut().expect("nodes").remove("1");
    });
    assert_eq!(nccl(&gb200), names(&[&["mlx5_0"], &["mlx5_1"]]));
    // Eight GPUs and eight NICs: one each.
    let lists = nccl(&Machine::load("hgx-h100-8gpu-8nic"));
    assert!(lists.iter().all(|list| list.len() == 1), "{lists:?}");
}

#[test]
fn a_nic_of_the_gpu_s_switch_is_nearer_than_one_over_c2c() {
    let machine = Machine::load_changed("grace-gh200", |machine| {
        machine["roots"]["0009:00"]["below"]["00:00.0"] = json!({ "is": "grace-root-port", "below": {
            "01:00.0": { "is": "pex-up", "below": {
                "02:00.0": { "is": "pex-down", "below": { "03:00.0": "gh200" } },
                "02:01.0": { "is": "pex-down", "below": { "04:00.0": { "is": "cx7-ib", "rdma": "mlx5_7" } } }
            } }
        } });
        // Else driver 580 denies the mapping that NCCL asks for there.
        machine["files"]["proc/driver/nvidia/params"] = json!(["GrdmaPciTopoCheckOverride: 1"]);
    });
    assert_text(
        &machine,
        &["topo"],
        &["GPU0 -> NIC2: good: PIX, below one switch"],
        &["GPU0 -> NIC0"],
    );
}

#[test]
fn unknown_numa_nodes_leave_host_bridges_apart() {
    let machine = Machine::load_changed("numa-minus-one", |machine| {
        machine["nodes"] = json!({});
        for root in machine["roots"].as_object_mut().expect("roots").values_mut() {
            root["numa"] = Value::Null;
        }
    });
    assert_text(&machine, &["topo"], &["bad: NODE or SYS, between host bridges"], &["no partner"]);
    assert_eq!(run(&machine, &["topo", "--check"]).1, 1);
}

/// The script chooses by the local rank; a stand-in for numactl drops its options.
#[test]
fn pairs_end_with_a_script_for_slurm() {
    let (text, _) = run(&Machine::load("hgx-h100-8gpu-8nic"), &["topo", "--pairs"]);
    assert!(unwrapped(&text).contains("Without it mlx5_1 also selects mlx5_10"), "{text}");
    let whole = text.lines().find(|line| line.contains("NCCL_SOCKET_IFNAME="));
    let whole = whole.expect("a line for the whole machine");
    assert_eq!(whole.matches("mlx5_").count(), 16, "{whole}");
    let script = text.split_once("case ").expect("a script").1;
    let dir = scratch();
    let script_file = dir.path().join("gpu-rank.sh");
    std::fs::write(&script_file, format!("case {script}")).expect("a file");
    let numactl = dir.path().join("numactl");
    std::fs::write(&numactl, "#!/bin/sh\nshift 2\nexec \"$@\"\n").expect("a file");
    std::fs::set_permissions(&numactl, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let rank = |rank: &str| {
        let run = Command::new("/bin/sh")
            .arg(&script_file)
            .args(["printenv", "UCX_NET_DEVICES"])
            .env("PATH", &path)
            .env("SLURM_LOCALID", rank)
            .output()
            .expect("a shell");
        (String::from_utf8_lossy(&run.stdout).trim().to_owned(), run.status.code())
    };
    assert_eq!(rank("0"), ("mlx5_0:1".to_owned(), Some(0)));
    assert_eq!(rank("7"), ("mlx5_9:1".to_owned(), Some(0)));
    assert_eq!(rank("8").1, Some(1));
}
