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

/// A paste ends within a row: a NIC that the rest would show may be nearer.
#[test]
fn a_matrix_that_was_cut_makes_no_verdict_of_what_it_lacks() {
    let dir = TempDir::new().expect("a directory");
    let at = MATRIX.find("NODE\t32-63").expect("the row of GPU2");
    let cut = file(&dir, "cut.txt", &MATRIX.as_bytes()[..at]);
    let found = findings(&[&cut], "pcie.locality");
    let outcome = |gpu: &str| {
        let of = found.iter().find(|finding| finding["subject"] == gpu);
        of.map(|finding| finding["outcome"].as_str().unwrap_or_default())
    };
    assert_eq!(outcome("GPU0"), Some("warn"), "{found:?}");
    assert_eq!(outcome("GPU1"), Some("pass"), "{found:?}");
    assert_eq!(outcome("GPU2"), Some("unknown"), "{found:?}");
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

/// What each text makes gdr print, on stdout or stderr; a word after `!` must not be there.
#[test]
fn devices_are_read_where_a_text_names_them() {
    let dir = TempDir::new().expect("a directory");
    let nccl = "node1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n\
        node1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 17000 commId 0x2 - Init COMPLETE\n";
    let two_nodes = format!("{nccl}{}", nccl.replace("node1", "node2"));
    for (text, command, words) in [
        (
            "[Sun Feb 23 16:24:18 2025] NVRM: GPU at PCI:0000:9b:00: GPU-01234567-89ab-cdef-0123-456789abcdef\n\
             [Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=a, Timeout\n",
            "topo",
            &["0000:9b:00.0", "kernel log: Xid 119 of the GPU 0000:9b:00.0: gdr explain"][..],
        ),
        (
            "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: Xid (PCI:0000:38:00): 13, a\n\
             kern  :warn  : 2025-01-21T04:41:44,283303+00:00 NVRM: Xid (PCI:0000:38:00): 13, b\n",
            "topo",
            &["0000:38:00.0", "Xid 13 of the GPU 0000:38:00.0 in 2 lines"],
        ),
        (
            "Panic#1 Part2\n<6>[    2.608284] mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth\n",
            "topo",
            &["0000:41:00.1"],
        ),
        (
            "[    1.5] x\n[    2.123456] pci 0000:17:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint\n\
             [    3.123456] mlx5_core 0000:18:00.0 mlx5_4: Port: 1 Link ACTIVE\n",
            "topo",
            &["0000:17:00.0", "0000:18:00.0", "mlx5_4"],
        ),
        (
            "$ ibdev2netdev | column -t\nmlx5_0   port  1  ==>  ibp26s0  (Down)  # first\nmlx5_10  port  1  ==>  ibp204s0  (Down)\n",
            "topo",
            &["mlx5_0", "mlx5_10"],
        ),
        (
            "mlx5_0 port 1 ==> ibp26s0 (Down)\n",
            "doctor",
            &["!There is no NIC", "!No port of any NIC"],
        ),
        (
            "CA 'mlx5_3'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n",
            "doctor",
            &["!No port of any NIC"],
        ),
        (
            "DEVICE_TYPE             MST                           PCI       RDMA            NET           NUMA\n\
             ConnectX7(rev:0)        /dev/mst/mt4129_pciconf0      1a:00.0   mlx5_0          net-ibp26s0   1\n",
            "topo",
            &["mlx5_0", "0000:1a:00.0"],
        ),
        (
            "Roles:              worker\nLabels:             nvidia.com/gpu.count=2\n                    nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-SHARED\n",
            "topo",
            &["GPU1", "NVIDIA-H100-80GB-HBM3", "!SHARED"],
        ),
        (
            "#      Transport: tcp\n#         Device: eth0\n#      Transport: rc_mlx5\n#         Device: mlx5_2:1\n",
            "topo",
            &["mlx5_2", "!eth0"],
        ),
        (
            "provider: tcp\n    domain: lo\nprovider: efa\n    fabric: efa\n    domain: rdmap16s27-dgrm\n",
            "topo",
            &["rdmap16s27", "!dgrm"],
        ),
        (
            "GPU INFO:\n=====\nGPU index 1 NVIDIA A100-SXM4-40GB bar:1 bar size (MiB):65536 supports GDS\n",
            "topo",
            &["GPU0", "GPU1", "NVIDIA A100-SXM4-40GB"],
        ),
        (nccl, "topo", &["0000:17:00.0", "mlx5_0"]),
        (&two_nodes, "topo", &["several machines", "'node1' and 'node2'", "!0000:17:00.0"]),
        (
            "<graphs version=\"1\">\n  <graph id=\"0\">\n <channel>\n<gpu dev=\"0\"/>\n<gpu dev=\"3\"/>\n",
            "topo",
            &["GPU3"],
        ),
        (
            "GPU 6: NVIDIA A100-SXM4-80GB (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)\n",
            "topo",
            &["GPU6", "!GPU7"],
        ),
        ("GPU models and configuration: GPU 0: Tesla T4\n", "topo", &["Tesla T4"]),
        (
            "max locked memory           (kbytes, -l) unlimited\n",
            "doctor --only limits.memlock -v",
            &["Locked memory is unlimited"],
        ),
        (
            "LnkSta: Speed 5GT/s (downgraded), Width x1 (downgraded)\n",
            "doctor",
            &["lines of lspci -vv without the line that names the device"],
        ),
        ("-[0000:00]-+-00.0\n           \\-01.1-[01]----00.0\n", "doctor", &["a tree of lspci -t"]),
        (
            "GPU7    NV8     NV8      X      SYS\nNIC0    PXB     PXB     NODE     X\n",
            "doctor",
            &["rows of nvidia-smi topo -m without its first line"],
        ),
    ] {
        let path = file(&dir, "text", text.as_bytes());
        let run = from(&[&path]).args(command.split(' ')).run();
        let out = run.stdout + &run.stderr;
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            match word.strip_prefix('!') {
                Some(word) => assert!(!out.contains(word), "{word}: {text}{out}"),
                None => assert!(out.contains(word), "{word}: {text}{out}"),
            }
        }
    }
}

/// XML of NCCL that stands in a quoted text gives the same as the file.
#[test]
fn xml_within_a_text_is_read() {
    let dir = TempDir::new().expect("a directory");
    let xml = "<system version=\"1\">
  <cpu numaid=\"0\" affinity=\"0000ffff\" arch=\"x86_64\" vendor=\"GenuineIntel\">
    <pci busid=\"0000:15:00.0\" class=\"0x060400\">
      <pci busid=\"0000:17:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\"/>
      <pci busid=\"0000:18:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\"/>
    </pci>
  </cpu>
</system>
";
    let alone = file(&dir, "topo.xml", xml.as_bytes());
    let quoted: String = xml.lines().map(|line| format!("> {line}\n")).collect();
    let smi = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)\n";
    let issue = file(
        &dir,
        "issue.txt",
        format!("It is slow.\n$ cat topo.xml\n{quoted}> and\n{smi}").as_bytes(),
    );
    let matrix = |file: &Path| {
        let run = from(&[file]).args(["topo", "--format", "json"]).run();
        let topology: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        topology["matrix"].clone()
    };
    assert_eq!(matrix(&alone)["GPU0"]["NIC0"], "PIX");
    assert_eq!(matrix(&issue), matrix(&alone));
    // A paste may end within an element; what stands before it counts. The words above need say nothing.
    let cut = file(&dir, "cut.txt", format!("It is slow.\n{}", &xml[..300]).as_bytes());
    let run = from(&[&cut]).args(["topo"]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("0000:17:00.0") && !run.stdout.contains("NIC0"), "{}", run.stdout);
}

/// The status of each pair, where the command line names the capability and another part lists the GPUs.
#[test]
fn a_peer_to_peer_matrix_joins_the_gpus() {
    let dir = TempDir::new().expect("a directory");
    let gpus =
        "index, name, pci.bus_id\n0, NVIDIA L4, 00000000:17:00.0\n1, NVIDIA L4, 00000000:18:00.0\n";
    let p2p = "$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n";
    let both =
        file(&dir, "text", format!("{gpus}{p2p}{}", p2p.replace("-p2p r", "-p2p w")).as_bytes());
    let run =
        from(&[&both]).args(["doctor", "--only", "gpu.p2p-grant", "--profile", "p2p", "-v"]).run();
    assert!(run.stdout.contains("CNS"), "{}{}", run.stdout, run.stderr);
    let alone = file(&dir, "alone", p2p.as_bytes());
    let run = from(&[&alone]).args(["topo"]).run();
    assert!(run.stdout.contains("GPU1"), "{}{}", run.stdout, run.stderr);
}

/// The classes of a matrix decide which NIC a GPU uses, for doctor as for topo.
#[test]
fn doctor_judges_the_pairs_of_a_matrix() {
    let dir = TempDir::new().expect("a directory");
    let matrix = file(&dir, "topo.txt", MATRIX.as_bytes());
    let found = findings(&[&matrix], "pcie.locality");
    let outcomes: Vec<_> = found.iter().filter_map(|finding| finding["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["warn", "pass", "warn", "pass"], "{found:#?}");
}

/// Where parts differ, the report says which counts and why.
#[test]
fn contradictions_name_the_rule() {
    let dir = TempDir::new().expect("a directory");
    let smi = |version: &str, gpu: &str| {
        format!("index, pci.bus_id, driver_version\n0, 00000000:{gpu}:00.0, {version}\n$ echo\n")
    };
    let link = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0, Latency L0s unlimited, L1 <64us
\t\t\tExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+ SlotPowerLimit 75W
\t\tDevCtl:\tCorrErr- NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\t\tClockPM+ Surprise- LLActRep- BwNot- ASPMOptComp+
\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+
\t\t\tExtSynch- ClockPM- AutWidDis- BWInt- AutBWInt-
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
";
    let awake = "index, pci.bus_id, pcie.link.gen.max, pcie.link.gen.current, pcie.link.width.max, pcie.link.width.current
0, 00000000:17:00.0, 5, 5, 16, 16
";
    for (text, words) in [
        (
            format!("{}{}", smi("550.54.15", "17"), smi("570.86.15", "18")),
            "driver 550.54.15 counts, not 570.86.15",
        ),
        (
            format!("{IBSTAT}$ rdma link\nlink mlx5_1/1 state ACTIVE physical_state LINK_UP netdev a\n"),
            "'1: DOWN' counts, not '4: ACTIVE'",
        ),
        (
            "Linux node1 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n$ dmesg\n[    0.000000] Linux version 5.15.0-1 (a)\n".to_owned(),
            "'6.8.0-45-generic' counts, not '5.15.0-1'",
        ),
        (format!("{link}$ nvidia-smi\n{awake}"), "lspci shows 2.5GT/s x16 and nvidia-smi 32GT/s x16"),
    ] {
        let path = file(&dir, "text", text.as_bytes());
        let run = from(&[&path]).args(["doctor"]).run();
        assert!(run.stderr.contains(words), "{words}: {text}{}", run.stderr);
    }
    // At the maximum of both readings nothing is slow.
    let path = file(&dir, "text", format!("{link}$ nvidia-smi\n{awake}").as_bytes());
    let run = from(&[&path]).args(["doctor", "--only", "pcie.link"]).run();
    assert!(!run.stdout.contains("2.5GT/s"), "{}", run.stdout);
}

/// A listing is of a machine, perhaps of another: explain judges that one.
#[test]
fn explain_inspects_the_machine_of_a_listing() {
    let dir = TempDir::new().expect("a directory");
    let down = IBSTAT.replace("State: Active", "State: Down").replace("LinkUp", "Disabled");
    let ibstat = file(&dir, "ibstat.txt", down.as_bytes());
    let run = Gdr::new().args(["explain".as_ref(), ibstat.as_os_str()]).run();
    assert!(run.stdout.contains("mlx5_1/1"), "{}", run.stdout);
    assert!(run.stdout.contains("checked: the recorded machine"), "{}", run.stdout);
    assert!(!run.stdout.contains("perhaps of another machine"), "{}", run.stdout);
}
