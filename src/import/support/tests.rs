//! Hand-written reports: what is kept of them, and what follows from it.

use super::*;
use crate::input::Lookahead;
use crate::model::{Bar1, Fact, Failure, NvmlOutcome, Question};

fn read(bytes: &[u8]) -> Result<Option<SupportReport>, String> {
    let mut stream = bytes;
    support_report(&mut Lookahead::new(&mut stream)).map_err(|error| error.to_string())
}

fn report(bytes: &[u8]) -> SupportReport {
    read(bytes).expect("no error").expect("a report")
}

/// A log of nvidia-bug-report.sh with these sections.
fn log(sections: &[&str]) -> SupportReport {
    report(written(sections).as_bytes())
}

fn written(sections: &[&str]) -> String {
    let separator = "____________________________________________\n\n";
    let first = "Start of NVIDIA bug report log file.  Please include this file\n\nuname: Linux node17 6.8.0 #1 SMP\n";
    let mut text = format!("I ran the script:\n\n{separator}{first}\n");
    for section in sections {
        text.push_str(separator);
        text.push_str(section);
        text.push('\n');
    }
    format!("{text}{separator}End\n")
}

fn text<'a>(report: &'a SupportReport, path: &str) -> Option<&'a str> {
    report.files.get(path)?.text.as_deref()
}

fn failure<'a>(report: &'a SupportReport, path: &str) -> Option<&'a Failure> {
    report.files.get(path)?.errors.get(Question::State)
}

#[test]
fn other_content_is_left_untouched() {
    for bytes in
        [&b""[..], b"00:00.0 Host bridge: Intel", &[0; 2000], b"run nvidia-bug-report.sh\n"]
    {
        let mut stream = bytes;
        let mut content = Lookahead::new(&mut stream);
        assert!(support_report(&mut content).expect("no error").is_none());
        assert_eq!(content.taken, 0);
    }
}

#[test]
fn sections_of_a_log_are_files() {
    let report = log(&[
        "*** /proc/cmdline\n*** ls: -r--r--r-- 1 root root 0 2026-11-23 /proc/cmdline\niommu=pt\n",
        "*** /proc/driver/nvidia/./params\n*** ls: x\nRmMsg: \"\"\nEnableStreamMemOPs: 0\n",
        "*** /proc/driver/nvidia/./gpus/0000:01:00.0/information\n*** ls: x\nModel: \t H100\n",
        "*** /etc/passwd\n*** ls: x\nroot:x:0:0\n",
        "*** /proc/modules is not readable\n",
        "*** /proc/driver/nvidia/version does not exist\n",
        "/sys/module/nvidia/parameters/NVreg_A:1\n/sys/module/nvidia_peermem/parameters/peerdirect_support:0\n",
    ]);
    assert_eq!(text(&report, "/proc/cmdline"), Some("iommu=pt\n"));
    assert_eq!(
        text(&report, "/proc/driver/nvidia/params"),
        Some("RmMsg: \"\"\nEnableStreamMemOPs: 0\n")
    );
    assert_eq!(text(&report, "/proc/sys/kernel/osrelease"), Some("6.8.0"));
    assert_eq!(
        text(&report, "/sys/module/nvidia_peermem/parameters/peerdirect_support"),
        Some("0")
    );
    assert!(!report.files.contains_key("/etc/passwd"));
    assert_eq!(failure(&report, "/proc/modules"), Some(&Failure::Errno(13)));
    assert_eq!(failure(&report, "/proc/driver/nvidia/version"), Some(&Failure::Errno(2)));
    let gpus = &report.files["/proc/driver/nvidia/gpus"];
    assert_eq!(gpus.names.as_deref(), Some(&["0000:01:00.0".to_owned()][..]));
    assert!(gpus.state.is_some());
}

/// Remarks about lspci's output name lines of the log.
#[test]
fn output_of_lspci_keeps_its_lines() {
    let function = "01:00.0 3D controller [0302]: NVIDIA Corporation [10de:2330]";
    let section = format!("/sbin/lspci -nnDvvvxxxx\n\n{function}\n\tNUMA node: 0\n");
    let text = written(&["", &section]);
    let all = report(text.as_bytes());
    let line = |text: &str| text.lines().position(|line| line == function);
    let lspci = String::from_utf8_lossy(&all.lspci);
    assert!(line(&text).is_some());
    assert_eq!(line(&lspci), line(&text));
    assert!(all.complete);
    for (section, complete) in [
        (format!("/sbin/lspci -d \"10de:*\" -v -xxx\n\n{function}\n"), false),
        (format!("/sbin/lspci -t\n\n{function}\n"), false),
        (format!("/sbin/lspci -nn\n\n{function}\n"), true),
    ] {
        assert_eq!(log(&[&section]).complete, complete, "{section}");
    }
}

#[test]
fn the_end_of_a_cut_log_is_not_believed() {
    let start =
        "Start of NVIDIA bug report log file.\n____________________________________________\n\n";
    let cut = |section: &str| report(format!("{start}{section}").as_bytes());
    assert!(cut("*** /proc/modules\n*** ls: x\nib_core 1 2 - Live\n").files.is_empty());
    assert!(!cut("/sbin/lspci -nn\n\n01:00.0 3D controller [0302]: X [10de:2330]\n").complete);
}

#[test]
fn modules_that_are_not_listed_are_absent() {
    let report =
        log(&["*** /proc/modules\n*** ls: x\nnvidia 1 2 - Live 0x0\nib_core 1 2 - Live 0x0\n"]);
    assert!(report.files["/sys/module/nvidia"].state.is_some());
    assert_eq!(failure(&report, "/sys/module/nvidia_peermem"), Some(&Failure::Errno(2)));
    // It may be part of the kernel.
    assert!(!report.files.contains_key("/sys/module/mlx5_core"));
}

#[test]
fn numactl_tells_nodes_only_if_it_names_all() {
    let nodes = |count: &str| {
        log(&[&format!(
            "/usr/bin/numactl -H\n\navailable: {count} nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1 MB\nnode 1 cpus:\n"
        )])
    };
    let both = nodes("2");
    assert_eq!(text(&both, "/sys/devices/system/node/node0/cpulist"), Some("0,1"));
    let names = both.files["/sys/devices/system/node"].names.clone();
    assert_eq!(names, Some(vec!["node0".to_owned(), "node1".to_owned()]));
    assert!(!nodes("3").files.contains_key("/sys/devices/system/node"));
}

#[test]
fn a_long_file_is_too_large() {
    let long = format!("*** /proc/modules\n*** ls: x\n{}", "a\n".repeat(1 << 20));
    assert_eq!(failure(&log(&[&long]), "/proc/modules"), Some(&Failure::TooLarge));
}

#[test]
fn names_that_lead_nowhere_are_ignored() {
    use super::recording::normal;
    assert_eq!(normal("./a//b/.").as_deref(), Some("/a/b"));
    assert_eq!(normal("/a/../b"), None);
    assert_eq!(normal(&"a/".repeat(64)).map(|path| path.len()), Some(128));
    assert_eq!(normal(&"a/".repeat(65)), None);
    assert_eq!(normal(&"a".repeat(5000)), None);
}

/// An entry with a pax header or a long name before it, as GNU tar writes them.
#[test]
fn long_names_are_read() {
    let header = |name: &str, kind: u8, size: &[u8]| {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..124 + size.len()].copy_from_slice(size);
        block[148..156].copy_from_slice(b"        ");
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar  \0");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    };
    let filled = |text: &str| {
        let mut block = text.as_bytes().to_vec();
        block.resize(512, 0);
        block
    };
    let path = "sosreport-x/proc/cmdline";
    let record = format!(" path={path}\n");
    let record = format!("{}{record}", record.len() + 2);
    let content = filled("iommu=pt\n");
    // The size in binary, as for files of more than 8 GiB.
    let binary = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let octal = |length: usize| format!("{length:011o}");
    for (before, of_next, size) in [
        (b'L', format!("{path}\0"), octal(9).into_bytes()),
        (b'x', record, octal(9).into_bytes()),
        (b'x', format!("10 size=9\n{:02} path={path}\n", path.len() + 9), b"00000000000".to_vec()),
        (b'g', "19 path=elsewhere!\n".to_owned(), binary.to_vec()),
    ] {
        let name = if before == b'g' { path } else { "short" };
        let archive = [
            &header("././@LongLink", before, octal(of_next.len()).as_bytes())[..],
            &filled(&of_next),
            &header(name, b'0', &size),
            &content,
        ]
        .concat();
        let report = report(&archive);
        assert_eq!(text(&report, "/proc/cmdline"), Some("iommu=pt\n"), "{}", char::from(before));
    }
}

/// The layout of driver 535; each GPU has the lines that are read.
const SMI: &str = "/usr/bin/nvidia-smi --query


==============NVSMI LOG==============

Timestamp                                 : Wed Nov 15 21:55:10 2023
Driver Version                            : 535.113.01
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:2E:00.0
    Product Name                          : NVIDIA RTX A6000
    Product Architecture                  : Ampere
    Persistence Mode                      : Disabled
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    GPU UUID                              : GPU-a662c2a9
    Minor Number                          : 1
    GPU Virtualization Mode
        Virtualization Mode               : Pass-Through
    PCI
        Bus Id                            : 00000000:2E:00.0
    Performance State                     : P2
    FB Memory Usage
        Total                             : 49140 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 9 MiB
    Conf Compute Protected Memory Usage
        Total                             : 0 MiB
    Fabric
        State                             : N/A
        Status                            : N/A
GPU 00000000:41:00.0
    GPU UUID                              : GPU-3bf57054
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Enabled
    Performance State                     : P8
    Fabric
        State                             : Completed
        Status                            : Insufficient Resources
        CliqueId                          : 7
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
        Health
            Summary                       : Limited Capacity


/usr/bin/nvidia-smi --query --unit

==============NVSMI LOG==============

Driver Version                            : 1.2
Attached Units                            : 0

/usr/bin/nvidia-smi nvlink --remotelinkinfo

GPU 0: NVIDIA RTX A6000 (UUID: GPU-a662c2a9)
\t Link 0: Remote Device 00000000:41:00.0: Link 3
\t Link 1: Remote Device 00000000:07:00.0: Link 9

/usr/bin/nvidia-smi nvlink --status

GPU 0: NVIDIA RTX A6000 (UUID: GPU-a662c2a9)
\t Link 0: 14.062 GB/s
\t Link 1: 14.062 GB/s
\t Link 2: <inactive>
";

fn outcome(section: &str) -> Option<NvmlOutcome> {
    log(&[section]).nvml
}

#[test]
fn nvidia_smi_answers_for_nvml() {
    let Some(NvmlOutcome::Read(nvml)) = outcome(SMI) else {
        panic!("no answers");
    };
    assert_eq!(nvml.driver_version, Fact::Known("535.113.01".to_owned()));
    assert_eq!(nvml.cuda_version, Fact::Known(12020));
    assert_eq!(nvml.confidential_compute, Fact::Known(false));
    let [first, second] = &nvml.gpus[..] else {
        panic!("not two GPUs");
    };
    assert_eq!((first.index, second.index), (0, 1));
    assert_eq!(first.bdf.to_string(), "0000:2e:00.0");
    assert_eq!(first.name, Fact::Known("NVIDIA RTX A6000".to_owned()));
    assert_eq!(first.architecture, Fact::Known("ampere".to_owned()));
    assert_eq!(first.minor, Fact::Known(1));
    assert_eq!(first.persistence, Fact::Known(false));
    assert_eq!(first.mig, Fact::Known(false));
    assert_eq!(first.virtualization, Fact::Known("passthrough".to_owned()));
    assert_eq!(first.memory_total, Fact::Known(49140 << 20));
    let bar1 = Bar1 { total: 256 << 20, used: 9 << 20 };
    assert_eq!(first.bar1, Fact::Known(bar1));
    assert_eq!(first.performance_state, Fact::Known(2));
    assert_eq!(first.fabric, Fact::Known("not_supported".to_owned()));
    assert!(first.fabric_registration.known().is_none());
    let links: Vec<(u32, Option<&str>, Option<String>)> = first
        .active_links
        .known()
        .expect("links")
        .iter()
        .map(|link| {
            let remote = link.remote.known().map(String::as_str);
            (link.index, remote, link.remote_bdf.known().map(ToString::to_string))
        })
        .collect();
    assert_eq!(
        links,
        [
            (0, Some("gpu"), Some("0000:41:00.0".to_owned())),
            (1, None, Some("0000:07:00.0".to_owned())),
        ]
    );
    assert_eq!((&second.persistence, &second.mig), (&Fact::Known(true), &Fact::Known(true)));
    assert_eq!(second.fabric, Fact::Known("completed".to_owned()));
    let registration = second.fabric_registration.known().expect("a registration");
    assert_eq!((registration.status, registration.clique), (23, 7));
    assert!(!registration.cluster);
    assert_eq!(registration.health.as_deref(), Some("limited_capacity"));
    assert!(second.active_links.known().is_none() && second.bar1.known().is_none());
}

#[test]
fn nvidia_smi_says_why_it_fails() {
    let failed = |text: &str| outcome(&format!("/usr/bin/nvidia-smi --query\n\n{text}\n"));
    let code = |text: &str| match failed(text) {
        Some(NvmlOutcome::Failed { code, .. }) => code,
        _ => None,
    };
    assert_eq!(code("Failed to initialize NVML: Driver/library version mismatch"), Some(18));
    let old = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that";
    assert_eq!(code(old), Some(9));
    let missing = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.";
    assert!(matches!(failed(missing), Some(NvmlOutcome::Absent { .. })));
    let lost = "Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost.";
    let Some(NvmlOutcome::Read(nvml)) = failed(lost) else {
        panic!("no answers");
    };
    assert_eq!((nvml.unreachable, nvml.gpus.len()), (vec![lost.to_owned()], 0));
    assert_eq!(failed("Failed to initialize NVML: something new"), None);
    assert_eq!(failed("I ran nvidia-smi and it hung"), None);
}

/// Without its end a list would have GPUs that NVML does not list.
#[test]
fn a_cut_list_of_gpus_is_ignored() {
    let cut = SMI.split("GPU 00000000:41").next().expect("a part");
    assert_eq!(outcome(cut), None);
    assert_eq!(outcome(&SMI.replace("Attached GPUs", "Attached things")), None);
}

/// Whatever is changed in a report, it is read or an error.
#[test]
fn changed_reports_do_not_panic() {
    let separator = "____________________________________________\n\n";
    let log = format!(
        "{separator}Start of NVIDIA bug report log file.\nuname: Linux a b\n{separator}{SMI}{separator}/sbin/lspci -nn\n\n01:00.0 A: B\n\
         {separator}*** /proc/modules\n*** ls: x\nnvidia 1 2 -\n{separator}/usr/bin/numactl -H\n\navailable: 1 nodes\n\
         node 0 cpus: 0\n{separator}*** /proc/cmdline does not exist\n\n"
    );
    let entries = [
        entry("x/proc/driver/", b'5', ""),
        entry("PaxHeader", b'x', "24 path=x/proc/devices\n\n"),
        entry("x/proc/cmdline", b'0', "iommu=pt\n"),
        entry("x/etc/os-release", b'2', ""),
        entry(
            "x/hardware.txt",
            b'0',
            "#==[ Command ]=#\n# /sbin/lspci -nn\n01:00.0 A: B\n#==[ C ]=#\n# /proc/modules\na 1\n",
        ),
        entry("x/sos_commands/pci/lspci_-nnvv", b'0', "01:00.0 A: B\n"),
        entry("x/proc/hole", b'S', "0"),
    ];
    let archive = entries.concat();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..6_000 {
        let whole = if round % 2 == 0 { log.as_bytes() } else { &archive };
        let mut bytes = whole.to_vec();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b"\0\n_ #*/7\xff"[next(9)],
                2 => bytes.insert(at, b'\n'),
                _ => bytes[at] = next(256) as u8,
            }
        }
        // Without its sum no header would be read.
        for block in bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
            sign(block);
        }
        let _ = read(&bytes);
    }
}

#[test]
fn nvidia_smi_topo_adds_nvlinks() {
    let functions = ["01", "02"]
        .map(|bus| format!("{bus}:00.0 3D controller [0302]: NVIDIA Corporation [10de:2330]\n"));
    let log = log(&[
        &format!("/sbin/lspci -nn\n\n{}", functions.concat()),
        "/usr/bin/nvidia-smi topo -m\n\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n\
         GPU0\t X \tNV18\t0-31\t0\nGPU1\tNV18\t X \t32-63\t1\n",
    ]);
    let names = PciNames::new(None, include_str!("../../../profiles/devices.toml")).expect("names");
    let printed = log.printed(&names).expect("no error").expect("functions");
    let facts = add_printed(Facts::default(), printed);
    let nvlinks = facts.linked_pairs.known().map(|pairs| pairs[0].nvlinks);
    assert_eq!(nvlinks, Some(18));
    assert_eq!(facts.devices()[1].numa_node, Fact::Known(Some(1)));
}

/// The layout is that of libibverbs/examples/devinfo.c of rdma-core.
#[test]
fn ibv_devinfo_lists_rdma_devices() {
    let devinfo = "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4129\n\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tlink_layer:\t\tEthernet\n\t\t\tphys_state:\t\tDISABLED (3)\n\nhca_id:\tmlx5_1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\t\tInfiniBand\n";
    let section = format!("/usr/bin/ibv_devinfo -v\n\n{devinfo}\n");
    let log = log(&[&section]);
    for (file, content) in [
        ("mlx5_0/fw_ver", "28.39.1002\n"),
        ("mlx5_0/board_id", "MT_0000000838\n"),
        ("mlx5_0/ports/1/state", "1: DOWN\n"),
        ("mlx5_0/ports/1/phys_state", "3: Disabled\n"),
        ("mlx5_0/ports/1/link_layer", "Ethernet\n"),
        ("mlx5_1/ports/1/state", "4: ACTIVE\n"),
    ] {
        let path = format!("/sys/class/infiniband/{file}");
        assert_eq!(text(&log, &path), Some(content), "{file}");
    }
    let names = |report: &SupportReport| {
        let class = report.files.get("/sys/class/infiniband")?;
        class.names.clone()
    };
    assert_eq!(names(&log), Some(vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()]));
    // Devices that it cannot open are not in the list; a name is not a path.
    let partial = format!("Failed to open device\n{devinfo}");
    let hostile = devinfo.replace("mlx5_0", "../../etc");
    let archive = |output: &str| {
        report(
            &[entry("sos/sos_commands/infiniband/ibv_devinfo_-v", b'0', output), vec![0; 1024]]
                .concat(),
        )
    };
    assert_eq!(names(&archive(&partial)), None);
    let hostile = archive(&hostile);
    assert!(hostile.files.keys().all(|path| !path.contains("etc")));
    assert_eq!(names(&hostile), Some(vec!["mlx5_1".to_owned()]));
}

fn sign(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

fn entry(name: &str, kind: u8, content: &str) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    let size = format!("{:011o}", content.len());
    block[124..135].copy_from_slice(size.as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sign(&mut block);
    block.extend_from_slice(content.as_bytes());
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

/// In a log of nvidia-bug-report.sh the kernel's log is a section of its own; a log of two boots that differ says nothing.
#[test]
fn groups_have_the_default_domain_of_the_kernel_log() {
    let names = PciNames::new(None, include_str!("../../../profiles/devices.toml")).expect("names");
    let lspci = "/sbin/lspci -nnDvvvxxxx\n\n0000:01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)\n\
        \tSubsystem: NVIDIA Corporation Device [10de:16c1]\n\
        \tFlags: bus master, fast devsel, latency 0, IRQ 102, IOMMU group 10\n";
    let groups = |dmesg: &str| {
        let report = log(&[lspci, &format!("/sbin/dmesg\n\n{dmesg}\n")]);
        let mut facts = report.printed(&names).expect("facts").expect("functions");
        report.add_listed(&mut facts);
        facts.kernel.iommu_groups.get(&10).cloned()
    };
    let known =
        |kind: &str| Some(Fact::Known(format!("{kind} (the default, says the kernel log)")));
    let translated = "[    0.322671] iommu: Default domain type: Translated ";
    let passthrough =
        "[    0.3] iommu: Default domain type: Passthrough (set via kernel command line)";
    let both = format!("{translated}\n{passthrough}");
    assert_eq!(groups(translated), known("DMA"));
    assert_eq!(groups(passthrough), known("identity"));
    assert_eq!(groups(&format!("{translated}\n{translated}")), known("DMA"));
    for unknown in ["", "[    0.3] iommu: Default domain type: Blocked", &both] {
        assert_eq!(groups(unknown), None, "{unknown}");
    }
}
