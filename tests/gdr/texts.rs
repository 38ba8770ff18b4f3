//! `--from` with what people paste: hand-written texts in the formats of the programs.

use std::path::Path;

use crate::support::{Gdr, Machine, file};
use serde_json::Value;
use tempfile::TempDir;

/// Two sockets; each has two GPUs and a NIC, which is on the switch of the second of them.
const MATRIX: &str =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tSYS\tSYS\tNODE\tSYS\t0-31\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tSYS\tPIX\tSYS\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV4\tSYS\tNODE\t32-63\t1\t\tN/A
GPU3\tSYS\tSYS\tNV4\t X \tSYS\tPIX\t32-63\t1\t\tN/A
NIC0\tNODE\tPIX\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tNODE\tPIX\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
";

const IBSTAT: &str = "CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 40
\t\tLink layer: Ethernet
";

fn from(files: &[&Path]) -> Gdr {
    files.iter().fold(Gdr::new(), |gdr, file| gdr.args(["--from".as_ref(), file.as_os_str()]))
}

fn findings(files: &[&Path], checks: &str) -> Vec<Value> {
    let run = from(files).args(["doctor", "--format", "json", "--only", checks]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
    report["findings"].as_array().expect("findings").clone()
}

#[test]
fn a_matrix_alone_is_the_topology() {
    let dir = TempDir::new().expect("a directory");
    let matrix = file(&dir, "topo.txt", MATRIX.as_bytes());
    let run = from(&[&matrix]).args(["topo", "--check"]).run();
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    for words in [
        "GPU0 -> NIC0: bad: NODE",
        "GPU1 -> NIC0: good: PIX",
        "GPU2 -> NIC1: bad: NODE",
        "GPU3 -> NIC1: good: PIX",
        "mlx5_1",
        "NV4",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    // Whether a card can move is unknown, like the model.
    for words in ["NVLinks are unknown", "Put another NIC"] {
        assert!(!run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    // The matrix has the classes, not the paths.
    let path = from(&[&matrix]).args(["topo", "--path", "GPU1", "NIC0"]).run();
    assert_eq!(path.code, 2, "{}", path.stdout);
}

/// The matrix may not show all NICs, and shows nothing of their ports.
#[test]
fn a_matrix_without_nics_leaves_them_unknown() {
    let dir = TempDir::new().expect("a directory");
    let text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n";
    let matrix = file(&dir, "topo.txt", text.as_bytes());
    let run = from(&[&matrix]).args(["topo", "--check"]).run();
    assert_eq!(run.code, 3, "{}", run.stdout);
    assert!(run.stdout.contains("does not show RDMA devices"), "{}", run.stdout);
    let run = from(&[&matrix]).args(["doctor"]).run();
    assert!(!run.stdout.contains("no NIC"), "{}", run.stdout);
    assert!(run.stdout.contains("0 passed"), "{}", run.stdout);
    assert!(run.stdout.contains("lspci -vvv"), "{}", run.stdout);
}

/// A NIC that the matrix lacks may be nearer than those that it has.
#[test]
fn a_nic_outside_the_matrix_leaves_the_nearest_open() {
    let dir = TempDir::new().expect("a directory");
    let matrix = file(&dir, "topo.txt", MATRIX.as_bytes());
    let more = IBSTAT.replace("mlx5_1", "mlx5_7");
    let ibstat = file(&dir, "ibstat.txt", more.as_bytes());
    let run = from(&[&matrix, &ibstat]).args(["topo"]).run();
    assert!(run.stdout.contains("GPU1 -> NIC0: good: PIX"), "{}", run.stdout);
    assert!(!run.stdout.contains("GPU0 -> NIC0: bad"), "{}", run.stdout);
}

/// In both orders, in one text and in two files.
#[test]
fn parts_of_a_machine_go_together() {
    let dir = TempDir::new().expect("a directory");
    let matrix = file(&dir, "topo.txt", MATRIX.as_bytes());
    let ibstat = file(&dir, "ibstat.txt", IBSTAT.as_bytes());
    let one = file(&dir, "one.txt", format!("{IBSTAT}\n{MATRIX}").as_bytes());
    let other = file(&dir, "other.txt", format!("{MATRIX}\n$ ibstat\n{IBSTAT}").as_bytes());
    let sources = [
        vec![matrix.as_path(), ibstat.as_path()],
        vec![ibstat.as_path(), matrix.as_path()],
        vec![one.as_path()],
        vec![other.as_path()],
    ];
    let topologies: Vec<String> =
        sources.iter().map(|files| from(files).args(["topo"]).run().stdout).collect();
    assert!(topologies[0].contains("GPU3"), "{}", topologies[0]);
    // The port of the nearest NIC is down.
    assert!(topologies[0].contains("none of its ports is up"), "{}", topologies[0]);
    for topology in &topologies {
        assert_eq!(topology, &topologies[0]);
    }
}

#[test]
fn ports_are_those_of_the_text() {
    let dir = TempDir::new().expect("a directory");
    let ibstat = file(&dir, "ibstat.txt", IBSTAT.as_bytes());
    let ports: Vec<(String, String)> = findings(&[&ibstat], "rdma.port")
        .iter()
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
            (text("subject"), text("outcome"))
        })
        .collect();
    let port = |name: &str, outcome: &str| (name.to_owned(), outcome.to_owned());
    assert!(ports.contains(&port("mlx5_0", "pass")), "{ports:?}");
    assert!(ports.iter().any(|(name, outcome)| name == "mlx5_1" && outcome != "pass"), "{ports:?}");
}

/// Fewer lanes than the GPU's: the port above is not in the text.
#[test]
fn a_link_whose_other_end_is_not_shown_is_no_fault() {
    let smi = "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n    Product Name : NVIDIA A10\n    PCI\n        Device Id : 0x223610DE\n        GPU Link Info\n            PCIe Generation\n                Max : 4\n                Current : 1\n            Link Width\n                Max : 16x\n                Current : 8x\n    Performance State : P8\n";
    let dir = TempDir::new().expect("a directory");
    for text in
        [smi.to_owned(), smi.replace("8x", "16x"), smi.replace("Current : 1", "Current : 4")]
    {
        let text = file(&dir, "smi.txt", text.as_bytes());
        for finding in findings(&[&text], "pcie.link,gpu.present,gpu.driver,rdma.device") {
            let outcome = finding["outcome"].as_str().unwrap_or_default();
            assert!(!["fail", "warn"].contains(&outcome), "{finding}");
        }
    }
}

#[test]
fn other_texts_are_named() {
    let dir = TempDir::new().expect("a directory");
    for (text, words) in [
        (
            "              total        used        free\nMem:   1 2 3\n",
            "looks like the output of free",
        ),
        ("[    1.000000] usb 1-1: new device\n", "gdr explain FILE"),
    ] {
        let text = file(&dir, "text", text.as_bytes());
        let run = from(&[&text]).args(["doctor"]).run();
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(words), "{}", run.stderr);
        assert!(run.stderr.contains("nvidia-smi topo -m"), "{}", run.stderr);
    }
}

/// A document of gdr stands alone.
#[test]
fn a_snapshot_is_not_mixed() {
    let dir = TempDir::new().expect("a directory");
    let snapshot = dir.path().join("node.json");
    let machine = Machine::load("sound").laid_out();
    let run = Gdr::new()
        .args(["--sysroot".as_ref(), machine.path().as_os_str()])
        .args(["snapshot".as_ref(), "-o".as_ref(), snapshot.as_os_str()])
        .run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let matrix = file(&dir, "topo.txt", MATRIX.as_bytes());
    let run = from(&[&snapshot, &matrix]).args(["topo"]).run();
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("stands alone"), "{}", run.stderr);
}

/// A hint names a command only if its output has the source that is missing.
#[test]
fn hints_name_commands_that_show_the_source() {
    let dir = TempDir::new().expect("a directory");
    let list = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n\
        \tSubsystem: NVIDIA Corporation Device [10de:16c1]\n\
        \tFlags: bus master, fast devsel, latency 0, IRQ 102, IOMMU group 10\n";
    let list = file(&dir, "lspci.txt", list.as_bytes());
    for (check, hint) in [
        ("pcie.iommu", Some("; 'sudo dmesg' shows more")),
        ("rdma.device", Some("; 'ibstat' shows more")),
        ("gpu.nvlink", Some("; 'nvidia-smi -q' shows more")),
        ("limits.memlock", None),
    ] {
        let run = from(&[&list]).args(["doctor", "--only", check]).run();
        let line = run.stdout.split_once("UNKNOWN not in this dump").map_or("", |(_, line)| line);
        let line = line.split("\n\n").next().unwrap_or_default();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match hint {
            Some(hint) => assert!(line.ends_with(hint), "{check}: {}", run.stdout),
            None => assert!(!line.contains("shows more"), "{check}: {}", run.stdout),
        }
    }
}
