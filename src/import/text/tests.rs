//! The table of kinds: each is recognized by its example and yields facts, whatever stands before and after it.

mod counts;

use proptest::prelude::*;

use super::*;
use crate::model::{Fact, Facts, Ids, NvmlOutcome};
use crate::pci::PciNames;

fn names() -> PciNames {
    PciNames::new(None, include_str!("../../../profiles/devices.toml")).expect("names")
}

fn read(text: &str) -> SupportReport {
    crate::import::text(text.as_bytes(), SupportReport::default()).expect("a machine")
}

/// All that a text yields, without remarks, which name lines.
fn yielded(text: &str, names: &PciNames) -> (String, Facts) {
    let mut report = read(text);
    let printed = report.printed(names).expect("facts").unwrap_or_default();
    // What the facts are made of; a part may stand there twice.
    report.lspci.clear();
    report.smi.clear();
    report.matrices.clear();
    (format!("{report:?}"), Facts { notes: Vec::new(), ..printed })
}

#[test]
fn each_kind_is_recognized_by_its_example() {
    for (at, kind) in KINDS.iter().enumerate() {
        let first = |line: &&str| KINDS.iter().any(|kind| (kind.begins)(line.trim()));
        let line = kind.example.lines().find(first).expect(kind.name).trim();
        let found = KINDS.iter().position(|kind| (kind.begins)(line));
        assert_eq!(found, Some(at), "{}: {line}", kind.name);
        let report = read(kind.example);
        assert!(at == 0 || !report.says_nothing(), "{} yields nothing", kind.name);
        assert!(!kind.yields.is_empty());
    }
}

/// Texts of one machine give the same facts in both orders, with commands between them or with nothing.
#[test]
fn the_order_of_parts_does_not_count() {
    let names = names();
    for a in KINDS {
        for b in KINDS {
            let (a, b) = (a.example, b.example);
            let facts = yielded(&format!("{a}\n{b}"), &names);
            for other in [
                format!("{b}\n{a}"),
                format!("admin@node1:~$ one\n{b}admin@node1:~$ two\n{a}admin@node1:~$ \n"),
                format!("# Report\n```\n{a}```\nand\n```\n{b}```\n"),
            ] {
                assert_eq!(yielded(&other, &names), facts, "{other}");
            }
        }
    }
}

/// `lstopo -v` writes attributes between the kind of a device and its name.
#[test]
fn attributes_stand_before_names() {
    let report = read(
        "HostBridge L#1 (buses=0000:[17-1c])\n  PCI L#3 (busid=0000:1c:00.0 id=15b3:1021 class=0207(InfiniBand) link=31.5GB/s)\n    \
         Network L#4 (Address=00:00:10:29 Port=1) \"ib0\"\n    OpenFabrics L#5 (NodeGUID=0002:c903:0000:0001 Port1State=4 Port1LID=0x1) \"mlx5_0\"\n",
    );
    let (_, link) = report
        .files
        .iter()
        .find(|(path, _)| path.ends_with("/mlx5_0/device"))
        .expect("a link to its function");
    assert!(format!("{link:?}").contains("/0000:1c:00.0"), "{link:?}");
}

/// As in mails, issues and chats.
#[test]
fn pasted_texts_are_cleaned() {
    let names = names();
    for kind in KINDS {
        let plain = yielded(kind.example, &names);
        let lines = || kind.example.lines();
        let quoted: String = lines().map(|line| format!("> {line}\r\n")).collect();
        let twice: String = lines().map(|line| format!("> > {line}\n")).collect();
        let indented: String = lines().map(|line| format!("    {line}\n")).collect();
        let coloured: String = lines().map(|line| format!("{line}\u{1b}[0m\n")).collect();
        for text in [quoted, twice, indented, coloured] {
            assert_eq!(yielded(&text, &names), plain, "{}:\n{text}", kind.name);
        }
    }
}

/// A command line names the file below it, and ends what stood above.
#[test]
fn prompts_name_files() {
    for prompt in
        ["$ cat", "# cat", "+ cat", "root@node1:~# sudo cat", "[root@node1 ~]# cat", "==>"]
    {
        let end = if prompt == "==>" { " <==" } else { "" };
        let path = "/etc/modprobe.d/nvidia.conf";
        let text = format!(
            "{prompt} {path}{end}\noptions nvidia NVreg_EnableStreamMemOPs=1\n$ cat /proc/cmdline\nroot=/dev/sda1\n"
        );
        let report = read(&text);
        let text = |path: &str| report.files.get(path).and_then(|file| file.text.clone());
        assert_eq!(
            text(path).as_deref(),
            Some("options nvidia NVreg_EnableStreamMemOPs=1\n"),
            "{prompt}"
        );
        assert_eq!(text("/proc/cmdline").as_deref(), Some("root=/dev/sda1\n"));
    }
}

/// One GPU of a machine, or a list that was cut, is not all of its GPUs.
#[test]
fn partial_lists_of_gpus_are_partial() {
    let partial = |text: &str| match read(text).nvml {
        Some(NvmlOutcome::Read(nvml)) => (nvml.partial, nvml.gpus.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(partial(smi::QUERY.example), (false, 1));
    assert_eq!(partial(&smi::QUERY.example.replace(": 1\n", ": 8\n")), (true, 1));
    let cut = smi::QUERY.example.split("    BAR1").next().expect("a part");
    assert_eq!(partial(cut), (true, 1));
    // `nvidia-smi -i 0` and a query print so.
    assert_eq!(partial(smi::TABLE.example), (true, 1));
    assert_eq!(partial(smi::CSV.example), (true, 1));
}

/// Borders stand between the GPUs; the list of processes says that no GPU follows.
#[test]
fn a_table_lists_all_gpus() {
    let row = |number: u32, bus: &str| {
        format!(
            "|   {number}  NVIDIA H100 80GB HBM3          On  |   00000000:{bus}:00.0 Off |                    0 |
| N/A   31C    P0             60W /  700W |       0MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"
        )
    };
    let head = smi::TABLE.example.split("|   0").next().expect("a head");
    let table = format!("{head}{}{}", row(0, "17"), row(1, "2a"));
    let gpus = |text: &str| match read(text).nvml {
        Some(NvmlOutcome::Read(nvml)) => {
            let all: Vec<String> = nvml.gpus.iter().map(|gpu| gpu.bdf.to_string()).collect();
            (nvml.partial, all)
        }
        other => panic!("{other:?}"),
    };
    let both = vec!["0000:17:00.0".to_owned(), "0000:2a:00.0".to_owned()];
    assert_eq!(gpus(&table), (true, both.clone()));
    let whole = format!("{table}\n+---------+\n| Processes:                     |\n+---------+\n");
    assert_eq!(gpus(&whole), (false, both));
}

/// A second output of one program is another run: its fields are not those of the first one.
#[test]
fn a_second_output_ends_the_first() {
    let head = "Linux node1 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n";
    let text = format!(
        "{head}{}NUMA node(s):            1\nNUMA node0 CPU(s):       0-7\n{}{}",
        "Architecture:            x86_64\n",
        other::LSCPU.example,
        other::NUMACTL.example.repeat(2)
    );
    let cut = cut::cut(text.as_bytes(), &[], None);
    let kinds: Vec<&str> = cut.sections.iter().map(|section| KINDS[section.kind].name).collect();
    assert_eq!(kinds, ["uname -a", "lscpu", "lscpu", "numactl -H", "numactl -H"]);
    assert_eq!(cut.sections[2].line, 5);
    let matrices = smi::MATRIX.example.repeat(2);
    let listed = crate::import::matrix::listed(&read(&matrices).matrices).expect("a matrix");
    assert_eq!((listed.gpus.len(), listed.nics.len()), (2, 1));
}

#[test]
fn several_machines_are_named_and_not_mixed() {
    let (smi, ibstat) = (smi::TABLE.example, adapters::IBSTAT.example);
    let other_gpu = smi.replace(":17:00.0", ":2a:00.0");
    let prefixed =
        |name: &str| smi.lines().map(|line| format!("{name}: {line}\n")).collect::<String>();
    let matrix = smi::MATRIX.example;
    let four = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tSYS\t0-31\t0\n";
    let (uname, ranks) = (other::UNAME.example, job::TESTS.example);
    const RULE: &str = "----------------";
    let fabric =
        |name: &str| smi.lines().map(|line| format!("[{name}] out: {line}\n")).collect::<String>();
    let row = |bus: &str| {
        let rows = smi
            .lines()
            .filter(|line| line.contains(":17:00.0"))
            .map(|line| line.replace("17:", &format!("{bus}:")));
        rows.collect::<String>() + "\n"
    };
    let log = |name: &str| {
        format!("Jan  2 10:00:00 {name} kernel: nvidia 0000:3b:00.0: enabling device\n")
    };
    for (text, words) in [
        (
            format!("root@node1:~# nvidia-smi\n{smi}root@node2:~# ibstat\n{ibstat}"),
            "several machines: 'node1' from line 3 and 'node2' from line",
        ),
        (
            format!("[me@gpu-7 ~]$ ibstat\n{ibstat}[me@gpu-8.cluster ~]$ ibstat\n{ibstat}"),
            "'gpu-7' from line 2 and 'gpu-8'",
        ),
        (format!("Node 1:\n```\n{smi}```\nNode 2:\n```\n{smi}```\n"), "'node 1'"),
        (format!("#### node1\n{ibstat}\n#### node2\n{ibstat}"), "'node2'"),
        (format!("gpu1 | CHANGED | rc=0 >>\n{ibstat}gpu2 | CHANGED | rc=0 >>\n{ibstat}"), "'gpu1'"),
        (prefixed("node1") + &prefixed("node2"), "grep ^node1: FILE"),
        (
            format!("{smi}\nand the other one\n{other_gpu}"),
            "other GPUs from line 13 than from line 2",
        ),
        (format!("{matrix}\n{four}"), "2 GPUs from line 1 and 3 from line"),
        (uname.to_owned() + &uname.replace("node1", "node2"), "'node1' from line 1 and 'node2'"),
        (ranks.to_owned() + &ranks.replace("node1", "node2"), "on 2: 'node1' and 'node2'"),
        (format!("{ranks}node2:1:2 [0] NCCL INFO x\n"), "on 2: 'node1' and 'node2'"),
        (
            "INFO: run ib_write_bw server on a: x\nINFO: run ib_write_bw client on b: y\n"
                .to_owned(),
            "on 2: 'a' and 'b'",
        ),
        (log("node1") + &log("node2") + &log("node1"), "on 2: 'node1' and 'node2'"),
        (format!("On machine A:\n\n{smi}\nOn machine B:\n\n{smi}"), "'machine a' from line"),
        (format!("Server:\n```\n{ibstat}```\nClient:\n```\n{ibstat}```\n"), "'server' from line"),
        (format!("$ ssh node1 nvidia-smi\n{smi}$ ssh node2 nvidia-smi\n{smi}"), "'node2' from line"),
        (format!("$ hostname\ngpu7\n$ ibstat\n{ibstat}$ hostname\ngpu8\n$ ibstat\n{ibstat}"), "'gpu8'"),
        (format!("{RULE}\nn1\n{RULE}\n{ibstat}{RULE}\nn[2-4]\n{RULE}\n{ibstat}"), "'n[2-4]'"),
        ("n1: GPU 0: NVIDIA L4\nn2: GPU 0: NVIDIA L4\n".to_owned(), "grep ^n1: FILE"),
        (fabric("node1") + &fabric("node2"), "grep -F \"[node1]\" FILE"),
        (
            "17:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n\n17:00.0 3D controller: NVIDIA \
             Corporation GH100 [H100 PCIe] (rev a1)\n"
                .to_owned(),
            "another GPU at 0000:17:00.0 on line 3 than on line 1",
        ),
        (format!("{matrix}\n{}", matrix.replace("mlx5_0", "mlx5_2")), "other NICs from line"),
        (
            format!("{smi}| Processes: |\n\n{}{}| Processes: |\n", smi.replace("550.54.15", "535.54.03"), row("2a")),
            "other GPUs from line",
        ),
        (
            "Node 1:\nCUDA device: 0 NVIDIA L4 (0000:17:00.0)\nNode 2:\nCUDA device: 0 NVIDIA L4 (0000:2a:00.0)\n".to_owned(),
            "'node 2' from line 4",
        ),
    ] {
        let error = crate::import::text(text.as_bytes(), SupportReport::default());
        let error = error.expect_err(&text).to_string();
        assert!(error.contains(words), "{error}\n{text}");
    }
    // One machine: a container on it, one prefix, the same GPUs twice, a login node that shows nothing.
    for text in [
        format!("root@node1:~# nvidia-smi\n{smi}root@f51fec68bf55:/# ibstat\n{ibstat}"),
        format!("root@gpu1:~# nvidia-smi\n{smi}root@app-7d9c8b6f5-x2k4q:/# ibstat\n{ibstat}"),
        prefixed("node1"),
        format!("{smi}\nlater\n{}", smi.replace("31C", "45C")),
        format!(
            "(env) me@gpu1:~$ ls\ngit clone git@github.com:a/b.git # tests\nroot@gpu1:~# nvidia-smi\n{smi}"
        ),
        format!("me@login:~$ ssh gpu1\nme@gpu1:~$ nvidia-smi\n{smi}"),
        format!("Before the update:\n{smi}\nAfter:\n{}", smi.replace("550.54.15", "570.86.15")),
        format!("### Server\nA machine\n\n{smi}\n### Step 2\n{smi}"),
        format!("{RULE}\nnvidia-smi\n{RULE}\n{smi}{RULE}\nGPU0\n{RULE}\n{smi}"),
        format!(
            "{smi}\n{}a:1:2 [0] NCCL INFO x\nb:1:2 [0] NCCL INFO x\n",
            log("localhost") + &log("node1")
        ),
    ] {
        let report = crate::import::text(text.as_bytes(), SupportReport::default());
        let Some(NvmlOutcome::Read(nvml)) = report.expect(&text).nvml else { panic!("{text}") };
        assert_eq!(nvml.gpus.len(), 1, "{text}");
    }
}

/// A variable is one of the job; the limit of a container is that of its processes; counters that rose are remarks.
#[test]
fn settings_of_a_job_are_read() {
    let facts = |text: &str| {
        let mut facts = Facts::default();
        read(text).add_listed(&mut facts);
        facts
    };
    let text = "NCCL_IB_HCA=\"mlx5_0\"\n  export UCX_TLS=rc,cuda\nmpirun -np 2 -x NCCL_IB_DISABLE=1 -x PATH ./a NCCL_X=1\nNCCL_P2P_DISABLE=1 helps\n- NCCL_SHM_DISABLE=1 does not\n";
    let Fact::Known(variables) = facts(text).environment else { panic!("no environment") };
    let all: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(all, ["NCCL_IB_DISABLE=1", "NCCL_IB_HCA=mlx5_0", "UCX_TLS=rc,cuda"]);
    let log = "node1:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n";
    let Fact::Known(variables) = facts(log).environment else { panic!("no environment") };
    assert_eq!(variables["NCCL_P2P_DISABLE"], "1");
    let container = read(job::CONTAINER.example);
    let limits = container.files["/proc/self/limits"].text.clone();
    assert_eq!(limits.as_deref(), Some("Max locked memory         unlimited unlimited bytes\n"));
    let container = facts(job::CONTAINER.example);
    assert!(container.notes.iter().any(|note| note.message.contains("64 MiB")));
    let gpus = container.listed.expect("a list").gpus;
    assert_eq!(gpus[0].uuid.as_deref(), Some("GPU-01234567-89ab-cdef-0123-456789abcdef"));
    let failed = facts(diagnoses::DIAG.example);
    assert!(failed.notes.iter().any(|note| note.message == "PCIe: Fail - GPU: 1"));
    assert_eq!(failed.listed.expect("a list").gpus.len(), 2);
    let port = |text: &str, name: &str| {
        let report = read(text);
        let path = format!("/sys/class/infiniband/mlx5_0/ports/1/{name}");
        report.files.get(&path).and_then(|file| file.text.clone())
    };
    let link = diagnoses::MLXLINK.example;
    assert_eq!(port(link, "state").as_deref(), Some("4: ACTIVE\n"));
    assert_eq!(port(link, "rate").as_deref(), Some("400 Gb/sec (4X NDR)\n"));
    let down = link.replace(": Active", ": Polling").replace("LinkUp", "Polling");
    assert_eq!(port(&down, "state").as_deref(), Some("1: DOWN\n"));
    let ranks = read(job::TESTS.example);
    let places: Vec<String> = ranks.functions.keys().map(ToString::to_string).collect();
    assert_eq!(places, ["0000:17:00.0", "0000:2a:00.0"]);
    let tests = facts(job::TESTS.example).listed.expect("a list").gpus;
    assert_eq!(tests[1].model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    let two = job::TESTS.example.replacen("node1", "node2", 1);
    let error = crate::import::text(two.as_bytes(), SupportReport::default());
    assert!(error.is_err(), "GPUs of two machines");
}

/// Processes print to one stream, and a line may begin with the numbers of another.
#[test]
fn the_host_of_a_line_of_nccl() {
    for (head, host) in [
        ("node1:100:120 [0]", Some("node1")),
        ("[2026-01-02 10:00:00] node1:100:120 [0]", Some("node1")),
        ("[1,0]<stdout>:node1:100:120 [0]", Some("node1")),
        ("   1    2778.4  193.23      0node1:100:120 [0]", None),
        ("words", None),
    ] {
        assert_eq!(nccl::host(head), host, "{head}");
    }
}

/// A topology of NCCL that ends within an element, below words.
#[test]
fn a_cut_topology_is_closed() {
    let text = "Here it is:\n```\n<system version=\"1\">\n  <cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\">
    <pci busid=\"0000:18:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\">
      <gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"0\"/>
    </pci>\n    <pci busid=\"0000:3b:00.0\" class=\"0x06";
    for text in [text.to_owned(), format!("{text}\n```\nthanks\n")] {
        let (xml, rest) = crate::import::embedded(text.as_bytes()).expect("a topology");
        let facts = crate::import::facts(&xml, &names()).expect("facts");
        assert_eq!(facts.gpus().count(), 1);
        assert!(facts.partial && String::from_utf8_lossy(&rest).starts_with("Here it is"));
    }
    // A GPU that is cut may have more NVLinks.
    let gpu = |bus: &str, rank: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x030200\">\n<gpu dev=\"{rank}\" sm=\"70\">\n"
        )
    };
    let link = "<nvlink target=\"0000:67:00.0\" count=\"1\" tclass=\"0x068000\"/>\n";
    let [first, second] = [gpu("18", "0"), gpu("3b", "1")];
    let text = format!(
        "<system version=\"1\">\n<cpu numaid=\"0\">\n{first}{link}{link}</gpu>\n</pci>\n{second}{link}"
    );
    for (text, expected) in [
        (format!("{text}<nvlink target=\"0000:62:00.0\" cou"), None),
        (format!("{text}</gpu>\n</pci>\n<pci bus"), Some(1)),
    ] {
        let (xml, _) = crate::import::embedded(text.as_bytes()).expect("a topology");
        let facts = crate::import::facts(&xml, &names()).expect("facts");
        assert_eq!(facts.gpus().count(), 2, "{text}");
        let pairs = facts.linked_pairs.known();
        assert_eq!(pairs.map(|pairs| pairs[0].nvlinks), expected, "{text}");
    }
}

#[test]
fn forms_of_nvidia_smi_say_the_same() {
    for kind in [&smi::QUERY, &smi::XML, &smi::TABLE, &smi::CSV] {
        let Some(NvmlOutcome::Read(nvml)) = read(kind.example).nvml else {
            panic!("{}", kind.name);
        };
        assert_eq!(nvml.driver_version, Fact::Known("550.54.15".to_owned()), "{}", kind.name);
        assert_eq!(nvml.gpus[0].bdf.to_string(), "0000:17:00.0");
        assert_eq!(nvml.gpus[0].name, Fact::Known("NVIDIA H100 80GB HBM3".to_owned()));
    }
}

/// Drivers name the functions that they drive.
#[test]
fn kernel_logs_name_gpus_and_nics() {
    let functions = |text: &str| {
        let report = read(text);
        report.functions.iter().map(|(bdf, ids)| (bdf.to_string(), ids.vendor)).collect::<Vec<_>>()
    };
    for text in [
        "[    4.100000] nvidia 0000:3b:00.0: enabling device (0000 -> 0002)\n",
        "Jan 02 10:00:00 node1 kernel: nvidia 0000:3b:00.0: vgaarb: changed VGA decodes\n",
        "[    4.1] x\nkernel: [drm] [nvidia-drm] [GPU ID 0x00003b00] Loading driver\n",
        "kernel: nvidia-modeset: Allocated GPU:0 (GPU-01234567-89ab-cdef-0123-456789abcdef) @ PCI:0000:3b:00.0\n",
        "[    4.100000] [drm] Initialized nvidia-drm 0.0.0 20160202 for 0000:3b:00.0 on minor 1\n",
        "[    4.100000] nvidia: probe of 0000:3b:00.0 failed with error -1\n",
        "[Fri Jan  2 10:00:00 2026] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n\
         \x20                          NVRM: BAR1 is 0M @ 0x0 (PCI:0000:3b:00.0)\n",
        "nouveau 0000:3b:00.0: NVIDIA GV100\n",
    ] {
        assert_eq!(functions(text), [("0000:3b:00.0".to_owned(), Ids::NVIDIA)], "{text}");
    }
    let text = "[    2.500000] ice 0000:5e:00.1 ens2f1: NIC Link is up 100 Gbps Full Duplex\n";
    assert_eq!(functions(text), [("0000:5e:00.1".to_owned(), 0x8086)]);
    // The GPU of a system on a chip has no address; another function is not a GPU.
    for text in [
        "[    4.100000] [drm] [nvidia-drm] [GPU ID 0x00020000] Loading driver\n",
        "[    4.100000] nvidia-gpu 0000:3b:00.3: enabling device (0000 -> 0002)\n",
    ] {
        assert!(crate::import::text(text.as_bytes(), SupportReport::default()).is_err(), "{text}");
    }
    let modeset = "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  570.86.15  Thu Jan 1\n";
    let version = |text: &str| read(text).files["/sys/module/nvidia/version"].text.clone();
    assert_eq!(version(&format!("[    4.200000] {modeset}")), Some("570.86.15\n".to_owned()));
}

/// Two versions say what is installed, not which of them will be used.
#[test]
fn a_mismatch_of_versions_is_a_remark() {
    for text in [
        "NVRM: API mismatch: the client has the version 570.86.15, but\nNVRM: this kernel module has the version 390.12.  Please\n",
        "[    9.424670] NVRM: API mismatch: the client 'x' (pid 1)\n               NVRM: has the version 570.86.15, but this kernel module has\n               NVRM: the version 390.12.  Please make sure that this\n",
    ] {
        let mut facts = Facts::default();
        read(text).add_listed(&mut facts);
        let messages: Vec<&str> = facts.notes.iter().map(|note| note.message.as_str()).collect();
        assert!(
            matches!(messages[..], [message] if message.contains("390.12 of the kernel module")),
            "{messages:?}"
        );
        assert_eq!(facts.driver, Facts::default().driver);
    }
    let minors = "[87669.7] x\nNVRM: rm_init_adapter failed for device bearing minor number 0\nNVRM: rm_init_adapter failed, device minor number 3\n";
    assert_eq!(read(minors).listed.len(), 2);
}

/// What a text shows of a device before its end.
#[test]
fn cut_outputs_show_their_devices() {
    let node = "     *-display UNCLAIMED\n          description: 3D controller\n          product: GP107M [GeForce GTX 1050 Ti Mobile";
    assert_eq!(read(node).listed[0].model.as_deref(), Some("GeForce GTX 1050 Ti Mobile"));
    let cloud = "-  <cpu numaid=\"0\">\n <pci busid=\"0101:00:00.0\" class=\"0x020700\" link_width=\"16\"/>\n";
    let mut facts = Facts::default();
    read(cloud).add_listed(&mut facts);
    assert_eq!(facts.unnamed_nics.len(), 1);
    let view = "Desc: Mellanox Technologies MT42822 BlueField-2\n RDMA  | Port | Net\nmlx5_2 |  1   | en3f0 \n";
    assert!(read(view).files.contains_key("/sys/class/infiniband/mlx5_2/ports"));
    let described = "System Info:\n  Architecture:               amd64\n";
    let error = crate::import::text(described.as_bytes(), SupportReport::default());
    assert!(!error.expect_err("no device").to_string().contains("lscpu"));
}

/// Settings and counts without a device are remarks.
#[test]
fn what_names_no_device_is_a_remark() {
    for (text, words) in [
        (
            "        SRIOV_EN                            False(0)   True(1)\n        NUM_OF_VFS    8\n",
            "SRIOV_EN True(1), NUM_OF_VFS 8",
        ),
        ("  allocatable:\n    nvidia.com/gpu: \"2\"\n", "nvidia.com/gpu: \"2\": may count shares"),
        (
            "3: ib0: <BROADCAST,MULTICAST,UP> mtu 2044 qdisc mq state DOWN\n    link/infiniband 80:00\n",
            "ib0: an interface of InfiniBand, state DOWN",
        ),
        (
            "Image type:            FS4\nFW Version:            28.39.1002\nPSID:                  MT_0000000838\n",
            "MT_0000000838 and firmware 28.39.1002",
        ),
        (
            "  Local host:   a\n  Local device: mlx5_0\n  Local host:   b\n  Local device: mlx5_0\n",
            "mlx5_0 on 2 machines",
        ),
        (
            "time=x level=DEBUG msg=\"discovered GPU libraries\" paths=[/usr/lib/libcuda.so.570.86.15]\n",
            "570.86.15",
        ),
    ] {
        let mut facts = Facts::default();
        let report = read(text);
        assert!(report.listed.is_empty() && report.functions.is_empty(), "{text}");
        report.add_listed(&mut facts);
        assert!(
            facts.notes.iter().any(|note| note.message.contains(words)),
            "{:?}\n{text}",
            facts.notes
        );
    }
}

/// A legend names the NICs, with or without its matrix.
#[test]
fn a_legend_alone_names_the_nics() {
    let devices = |text: &str| {
        let report = read(text);
        let devices = report
            .files
            .keys()
            .filter_map(|path| path.strip_prefix("/sys/class/infiniband/")?.split('/').next());
        let mut names: Vec<String> = devices.map(str::to_owned).collect();
        names.dedup();
        (names, crate::import::matrix::listed(&report.matrices).map(|listed| listed.nics))
    };
    let legend = "NIC Legend:\n\n  NIC0: mlx5_4\n  NIC1: mlx5_bond_0\n";
    let names = vec!["mlx5_4".to_owned(), "mlx5_bond_0".to_owned()];
    assert_eq!(devices(legend), (names.clone(), None));
    let matrix =
        "\tGPU0\tNIC0\tNIC1\nGPU0\t X \tPIX\tSYS\nNIC0\tPIX\t X \tSYS\nNIC1\tSYS\tSYS\t X \n";
    let both = format!("```\n{matrix}```\n\nand\n\n```\n{legend}```\n");
    assert_eq!(devices(&both), (Vec::new(), Some(names)));
}

#[test]
fn a_container_that_was_given_a_number_of_gpus() {
    let text =
        "[\n  {\n    \"Driver\": \"nvidia\",\n    \"Count\": 2,\n    \"DeviceIDs\": null\n  }\n]\n";
    assert_eq!(read(text).listed.len(), 2);
}

#[test]
fn metrics_of_several_machines_are_not_those_of_one() {
    let example = exporters::DCGM.example;
    let Some(NvmlOutcome::Read(nvml)) = read(example).nvml else { panic!("no GPU") };
    assert_eq!(nvml.gpus[0].name, Fact::Known("NVIDIA H100 80GB HBM3".to_owned()));
    let two = format!("{example}{}", example.replace("node1", "node2"));
    assert!(crate::import::text(two.as_bytes(), SupportReport::default()).is_err());
}

#[test]
fn what_says_nothing_is_named() {
    for (text, words) in [
        ("              total        used        free\nMem: 1 2 3\n", "the output of free"),
        ("[    1.000000] usb 1-1: new device\n", "a kernel log"),
        (
            "a:1:2 [0] NCCL INFO x\nb:1:2 [0] NCCL INFO x\n",
            "several machines, by lines that programs print on 2: 'a' and 'b'",
        ),
        ("   port: 1\n\t\tactive_mtu: 4096 (5)\n", "a part of ibv_devinfo"),
        ("Filesystem 1K-blocks Used\n/dev/sda1 1 2\n", "the output of df"),
        ("Hello, my training is slow.\n", "no GPU, NIC or PCI device found"),
    ] {
        let error = crate::import::text(text.as_bytes(), SupportReport::default());
        let error = error.expect_err("no machine").to_string();
        assert!(error.contains(words), "{error}");
    }
}

proptest! {
    /// Whatever is changed in a text, it is read or an error.
    #[test]
    fn changed_texts_do_not_panic(
        kinds in proptest::collection::vec(0..KINDS.len(), 1..4),
        at: Vec<(proptest::sample::Index, u8)>,
        cut: proptest::sample::Index,
    ) {
        let text: String = kinds.iter().map(|kind| KINDS[*kind].example).collect();
        let mut bytes = text.into_bytes();
        for (at, byte) in at {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(report) = crate::import::text(&bytes, SupportReport::default()) {
            let mut facts = Facts::default();
            report.add_listed(&mut facts);
            let listed = facts.listed.unwrap_or_default();
            prop_assert!(listed.cells.is_empty() || listed.cells.len() == listed.gpus.len() + listed.nics.len());
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = crate::import::text(&bytes, SupportReport::default());
    }
}
