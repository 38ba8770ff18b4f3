//! Inputs with two counts whose product the work must not be.

use serde_json::{Value, json};

use super::made::{Made, address};

/// Two counts of an input, and the files that it is made of.
pub struct Product {
    pub name: &'static str,
    /// The arguments before the files.
    pub args: &'static [&'static str],
    /// The counts to reach in a second or two, were it a product.
    pub counts: [usize; 2],
    /// Larger ones, up to what is read of such an input.
    pub larger: [usize; 2],
    pub files: fn([usize; 2]) -> Vec<Vec<u8>>,
}

const TOPO: &[&str] = &["topo", "--from"];
const DIFF: &[&str] = &["snapshot", "--diff"];
const FLEET: &[&str] = &["fleet", "report"];
const EXPLAIN: &[&str] = &["explain", "--no-run"];

pub(super) const SEPARATOR: &str = "____________________________________________\n\n";
pub(super) const FIRST: &str =
    "Start of NVIDIA bug report log file.  Please include this file, along\n\n";

pub fn products() -> Vec<Product> {
    let product = |name, args, counts, larger, files| Product { name, args, counts, larger, files };
    vec![
        product("names and entries of a directory", TOPO, [3_000, 1_000], [8_000, 8_000], entries),
        product(
            "files and outputs of ibv_devinfo",
            TOPO,
            [3_000, 1_000],
            [20_000, 20_000],
            devinfo,
        ),
        product("functions and runs of lspci", TOPO, [16_000, 16_000], [16_000, 90_000], runs),
        product("functions and NUMA nodes of hwloc", TOPO, [4_000, 1_000], [16_000, 1_000], near),
        product("GPUs and CPUs of NUMA nodes", TOPO, [800, 400], [4_000, 900], nodes),
        product("results of both sides", DIFF, [10_000, 10_000], [20_000, 20_000], sides),
        product("nodes and facts", FLEET, [1_000, 20_000], [3_000, 50_000], facts),
        product(
            "the length of a subject and its evidence",
            FLEET,
            [40_000, 4_000],
            [3_000_000, 16_000],
            evidence,
        ),
        product(
            "the length of a heading and its fields",
            TOPO,
            [100_000, 4_000],
            [500_000, 40_000],
            headings,
        ),
        product(
            "NICs of NCCL's topology and their ports",
            TOPO,
            [8_000, 8_000],
            [8_000, 8_000],
            nets,
        ),
        product(
            "communicators and paths of a job",
            EXPLAIN,
            [1_000, 4_000],
            [60_000, 80_000],
            communicators,
        ),
        product(
            "communicators of one process and of others",
            EXPLAIN,
            [2_000, 2_000],
            [40_000, 40_000],
            unnamed,
        ),
        product(
            "members and failures of a job",
            EXPLAIN,
            [10_000, 2_000],
            [60_000, 4_000],
            failures,
        ),
        product("devices of one pair", EXPLAIN, [2_000, 2_000], [30_000, 30_000], devices),
    ]
}

/// An entry of a tar archive.
pub(super) fn entry(name: &str, kind: u8) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(b"00000000000\0");
    block[148..156].copy_from_slice(b"        ");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn entries([names, entries]: [usize; 2]) -> Vec<Vec<u8>> {
    let files = (0..names).flat_map(|at| entry(&format!("s/sys/class/infiniband/a/{at}"), b'0'));
    let directory = entry("s/sys/class/infiniband/", b'5');
    vec![files.chain(directory.repeat(entries)).collect()]
}

fn devinfo([files, outputs]: [usize; 2]) -> Vec<Vec<u8>> {
    let files =
        (0..files).map(|at| format!("{SEPARATOR}*** /sys/class/infiniband/m{at}/fw_ver\n1\n"));
    let output = format!("{SEPARATOR}/usr/bin/ibv_devinfo -v\n\nhca_id: mlx5_0\n");
    let text = format!("{FIRST}{}{}{SEPARATOR}", files.collect::<String>(), output.repeat(outputs));
    vec![text.into_bytes()]
}

fn function(at: usize, device: &str) -> String {
    format!("{} 3D controller [0302]: NVIDIA Corporation A [10de:{device}]\n", address(at, 0))
}

/// A large machine, and functions of another one.
fn runs([functions, runs]: [usize; 2]) -> Vec<Vec<u8>> {
    let machine: String = (0..functions).map(|at| function(at, "2330")).collect();
    let text = machine + &function(functions / 2, "2331").repeat(runs);
    vec![text.into_bytes()]
}

/// A bitmap of so many bits.
fn bitmap(bits: usize, word: &str) -> String {
    vec![word; bits.div_ceil(32)].join(",")
}

fn near([functions, nodes]: [usize; 2]) -> Vec<Vec<u8>> {
    let all = bitmap(nodes, "0xffffffff");
    let mut text = format!(
        "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x1\" nodeset=\"{all}\" complete_nodeset=\"{all}\">"
    );
    for at in 0..nodes {
        let cpus = if at % 2 == 0 { "0x1" } else { "0x0" };
        text.push_str(&format!(
            "<object type=\"NUMANode\" os_index=\"{at}\" cpuset=\"{cpus}\" nodeset=\"0x1\"/>"
        ));
    }
    text.push_str(&format!(
        "<object type=\"Package\" cpuset=\"0x1\" nodeset=\"{all}\" complete_nodeset=\"{all}\">"
    ));
    for at in 0..functions {
        text.push_str(&format!(
            "<object type=\"PCIDev\" pci_busid=\"{}\" pci_type=\"0302 [10de:2330] [0:0] a1\"/>",
            address(at, 0)
        ));
    }
    vec![(text + "</object></object></topology>").into_bytes()]
}

/// GPUs near CPUs that are after those of all nodes; each node has every second CPU.
fn nodes([gpus, nodes]: [usize; 2]) -> Vec<Vec<u8>> {
    const NODES: &str = "/sys/devices/system/node";
    let mut made = Made::new();
    for at in 0..gpus {
        let bdf = address(at, 1);
        made.gpu(&bdf, &[]);
        made.put(format!("/sys/bus/pci/devices/{bdf}/local_cpulist"), json!({"text": "4000000\n"}));
    }
    let names: Vec<String> = (0..nodes).map(|at| format!("node{at}")).collect();
    let cpus: Vec<String> = (0..1_000).map(|cpu| (2 * cpu).to_string()).collect();
    for name in &names {
        made.put(format!("{NODES}/{name}/cpulist"), json!({"text": cpus.join(",")}));
    }
    made.put(NODES, json!({ "names": names }));
    vec![made.input("nodes").bytes]
}

fn results(backends: impl Iterator<Item = usize>) -> Vec<u8> {
    let result = |backend: usize| {
        json!({"name": "x", "subject": "s", "backend": format!("{backend:0>8}"), "bytes": null, "verified": 0, "unit": "GB/s", "median": 1.0,
            "samples": 1, "verdict": "ok", "required": false})
    };
    let results: Vec<Value> = backends.map(result).collect();
    let report = json!({"schema": "gdr.probe/1", "gdr": "1", "probe": "p2p", "simulated": false, "complete": true, "gpus": [], "notes": [],
        "host": {"source": "live", "name": "n", "os": null, "kernel": null, "cpu": null, "cpus": null, "memory": null}, "results": results});
    report.to_string().into_bytes()
}

/// One figure by many backends, which the two sides list in different orders.
fn sides([old, new]: [usize; 2]) -> Vec<Vec<u8>> {
    vec![results(0..old), results((0..new).map(|at| 2 * new - at))]
}

fn doctor(host: &str, findings: &[Value]) -> Vec<u8> {
    let report =
        json!({"schema": "gdr.doctor/1", "gdr": "1", "host": {"name": host}, "findings": findings});
    report.to_string().into_bytes()
}

fn finding(subject: &str, evidence: &[Value]) -> Value {
    json!({"id": "a.b", "outcome": "pass", "severity": "error", "subject": subject, "message": "m", "evidence": evidence})
}

/// Nodes, and one node with facts that no other has.
fn facts([nodes, facts]: [usize; 2]) -> Vec<Vec<u8>> {
    let node = |at: usize| doctor(&format!("n{at}"), &[finding("s", &[])]);
    let own: Vec<Value> = (0..facts).map(|at| finding(&at.to_string(), &[])).collect();
    let mut files: Vec<Vec<u8>> = (0..nodes).map(node).collect();
    files.push(doctor("one", &own));
    files
}

/// Two nodes whose evidence differs.
fn evidence([length, count]: [usize; 2]) -> Vec<Vec<u8>> {
    let node = |name: &str| {
        let evidence: Vec<Value> =
            (0..count).map(|at| json!({"source": at.to_string(), "value": name})).collect();
        doctor(name, &[finding(&"s".repeat(length), &evidence)])
    };
    vec![node("n1"), node("n2")]
}

fn headings([length, fields]: [usize; 2]) -> Vec<Vec<u8>> {
    let fields: String = (0..fields).map(|at| format!("   k{at} : v\n")).collect();
    let text = format!(
        "{FIRST}{SEPARATOR}/usr/bin/nvidia-smi -q\n\n==NVSMI LOG==\nAttached GPUs : 1\nGPU 00000000:01:00.0\n  {}\n{fields}{SEPARATOR}",
        "h".repeat(length)
    );
    vec![text.into_bytes()]
}

/// NICs, and ports of the last one. NCCL joins names.
fn nets([nics, ports]: [usize; 2]) -> Vec<Vec<u8>> {
    let names: Vec<String> = (0..nics).map(|at| format!("m{at:05}")).collect();
    let last = vec![names.last().map_or("", String::as_str); ports];
    let all: Vec<&str> = names.iter().map(String::as_str).chain(last).collect();
    let nets =
        all.chunks(32).map(|names| format!("<net name=\"{}\" port=\"1\"/>", names.join("+")));
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x020700\" vendor=\"0x15b3\"><nic>{}</nic></pci></cpu></system>",
        nets.collect::<String>()
    );
    vec![text.into_bytes()]
}

fn log(lines: impl Iterator<Item = String>) -> Vec<Vec<u8>> {
    vec![lines.collect::<Vec<_>>().join("\n").into_bytes()]
}

/// A line of NCCL from a process and one of its threads.
fn nccl(process: usize, thread: usize, message: &str) -> String {
    format!("n:{process}:{thread} [0] NCCL INFO {message}")
}

fn communicators([communicators, paths]: [usize; 2]) -> Vec<Vec<u8>> {
    let begin = |at: usize| {
        nccl(
            1,
            1,
            &format!("comm 0x{at} rank 0 nranks 2 cudaDev 0 busId 60 commId 0x{at} - Init START"),
        )
    };
    let path =
        |at: usize| nccl(1, 1, &format!("Channel 00/0 : 0[0] -> {at}[0] via SHM/direct/direct"));
    log((0..communicators).map(begin).chain((1..=paths).map(path)))
}

/// Communicators without an id, all with rank 0.
fn unnamed([of_one, others]: [usize; 2]) -> Vec<Vec<u8>> {
    let begin = |process: usize, at: usize| {
        nccl(
            process,
            at,
            &format!("comm 0x{at} rank 0 nranks 2 cudaDev 0 busId 60 - Init COMPLETE"),
        )
    };
    log((0..of_one).map(|at| begin(1, at)).chain((0..others).map(|at| begin(at + 2, 1))))
}

fn failures([members, failures]: [usize; 2]) -> Vec<Vec<u8>> {
    let begin = |at: usize| {
        nccl(
            at,
            1,
            &format!("comm 0x1 rank {at} nranks 99999 cudaDev 0 busId 60 commId 0x1 - Init START"),
        )
    };
    let fail = |at: usize| {
        format!("n:{at}:1 [0] a.cc:1 NCCL WARN socketProgress: Connection closed by remote peer")
    };
    log((0..members).map(begin).chain((0..failures).map(fail)))
}

fn devices([short, long]: [usize; 2]) -> Vec<Vec<u8>> {
    let path = |device: usize, end: &str| {
        nccl(1, 1, &format!("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/{device}{end}"))
    };
    log((0..short).map(|at| path(at, "")).chain((0..long).map(|at| path(at, "/GDRDMA"))))
}
