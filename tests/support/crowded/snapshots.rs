//! Snapshots with more devices, or longer answers, than a machine has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Map, Value, json};

use super::{Input, LARGEST};

const PCI: &str = "/sys/bus/pci/devices";
const INFINIBAND: &str = "/sys/class/infiniband";
const GPU: (u16, u16, u32) = (0x10de, 0x2330, 0x03_0200);
const NIC: (u16, u16, u32) = (0x15b3, 0x1021, 0x02_0700);
const SWITCH: (u16, u16, u32) = (0x1000, 0xc030, 0x06_0400);
/// Types of PCI Express functions (PCI Express Base Specification, PCI Express Capabilities Register).
const ENDPOINT: u16 = 0;
const ROOT_PORT: u16 = 4;
const UPSTREAM: u16 = 5;
const DOWNSTREAM: u16 = 6;

/// A recorded machine whose PCI functions are made up. It says that it is no guest.
pub(super) struct Made {
    document: Value,
    pub(super) files: Map<String, Value>,
    functions: Vec<String>,
    gpus: Vec<String>,
    nics: Vec<String>,
}

impl Made {
    pub(super) fn new() -> Self {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/h200-x4/snapshot.json");
        let mut document: Value =
            serde_json::from_str(&fs::read_to_string(recorded).expect("a snapshot")).expect("JSON");
        document["libraries"] = json!({});
        let Value::Object(mut files) = document["files"].take() else {
            panic!("a snapshot has files");
        };
        files.retain(|path, _| !path.starts_with(PCI) && !path.starts_with("/proc/driver/nvidia/gpus"));
        files.insert(
            "/proc/cpuinfo".to_owned(),
            json!({"text": "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n"}),
        );
        Self {
            document,
            files,
            functions: Vec::new(),
            gpus: Vec::new(),
            nics: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, path: impl Into<String>, recorded: Value) {
        self.files.insert(path.into(), recorded);
    }

    fn function(&mut self, bdf: &str, above: &[String], (vendor, device, class): (u16, u16, u32), kind: u16) {
        let root = above.first().map_or(bdf, String::as_str);
        let way = [&[format!("pci{}", &root[..root.len() - 5])], above, &[bdf.to_owned()]].concat();
        self.put(
            format!("{PCI}/{bdf}"),
            json!({"link": format!("../../../devices/{}", way.join("/"))}),
        );
        let mut space = [0_u8; 128];
        space[..4].copy_from_slice(&[vendor.to_le_bytes(), device.to_le_bytes()].concat());
        space[6] = 0x10;
        space[9..12].copy_from_slice(&class.to_le_bytes()[..3]);
        space[0x0e] = u8::from(kind != ENDPOINT);
        space[0x34] = 0x40;
        space[0x40] = 0x10;
        space[0x42..0x44].copy_from_slice(&(2 | kind << 4).to_le_bytes());
        // 32 GT/s, 16 lanes, and payloads of 256 bytes.
        space[0x48] = 0x20;
        space[0x4c..0x50].copy_from_slice(&(5_u32 | 16 << 4).to_le_bytes());
        space[0x52..0x54].copy_from_slice(&(5_u16 | 16 << 4).to_le_bytes());
        let mut parts = vec![json!({"at": 0, "bytes": hex(&space)})];
        if kind != ENDPOINT {
            // Access control services that redirect requests, completions and what goes upstream.
            parts.push(json!({"at": 256, "bytes": hex(&[0x0d, 0, 1, 0, 0x5f, 0, 0x1d, 0])}));
        }
        self.put(format!("{PCI}/{bdf}/config"), json!({"parts": parts, "end": 4096}));
        self.put(format!("{PCI}/{bdf}/numa_node"), json!({"text": "0\n"}));
        self.functions.push(bdf.to_owned());
    }

    fn port(&mut self, bdf: &str, above: &[String], kind: u16) {
        self.function(bdf, above, SWITCH, kind);
    }

    pub(super) fn gpu(&mut self, bdf: &str, above: &[String]) {
        self.function(bdf, above, GPU, ENDPOINT);
        self.put(
            format!("{PCI}/{bdf}/driver"),
            json!({"link": "../../../bus/pci/drivers/nvidia"}),
        );
        self.gpus.push(bdf.to_owned());
    }

    pub(super) fn nic(&mut self, bdf: &str, above: &[String], name: String) {
        self.function(bdf, above, NIC, ENDPOINT);
        let class = format!("{INFINIBAND}/{name}");
        self.put(
            &class,
            json!({"link": format!("../../devices/pci0000:00/{bdf}/infiniband/{name}")}),
        );
        self.put(format!("{class}/ports"), json!({"names": ["1"]}));
        self.put(format!("{class}/ports/1/state"), json!({"text": "4: ACTIVE\n"}));
        self.put(format!("{class}/ports/1/link_layer"), json!({"text": "Ethernet\n"}));
        self.nics.push(name);
    }

    pub(super) fn library(&mut self, name: &str, answer: Value) {
        self.document["libraries"][name] = json!({ "answered": answer });
    }

    pub(super) fn input(mut self, name: &str) -> Input {
        self.put(PCI, json!({"names": self.functions}));
        self.put("/proc/driver/nvidia/gpus", json!({"names": self.gpus}));
        self.put(INFINIBAND, json!({"names": self.nics}));
        self.document["files"] = Value::Object(self.files);
        Input::new(name, self.document.to_string())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits"))
        .collect()
}

/// An address in the order of numbers: 256 buses of a domain, one device on each.
pub(super) fn address(number: usize, device: usize) -> String {
    format!("{:04x}:{:02x}:{device:02x}.0", number >> 8, number & 255)
}

/// So many GPUs, each on a root bus of its own.
pub fn gpus(count: usize) -> Input {
    let mut made = Made::new();
    (0..count).for_each(|at| made.gpu(&address(at, 1), &[]));
    made.input(&format!("{count} GPUs"))
}

/// The same GPUs laid out as files below a root.
pub fn lay_out_gpus(root: &Path, count: usize) {
    let mut made = Made::new();
    (0..count).for_each(|at| made.gpu(&address(at, 1), &[]));
    for directory in [PCI, "/sys/bus/pci/drivers/nvidia", "/proc/driver/nvidia/gpus"] {
        fs::create_dir_all(root.join(&directory[1..])).expect("a directory");
    }
    for bdf in &made.functions {
        let at = |path: &str| made.files[path].clone();
        let way = at(&format!("{PCI}/{bdf}"));
        let way = way["link"].as_str().expect("a link");
        let here = root.join("sys").join(way.trim_start_matches("../"));
        fs::create_dir_all(&here).expect("a directory");
        symlink(way, root.join(&PCI[1..]).join(bdf)).expect("a link");
        symlink("../../../bus/pci/drivers/nvidia", here.join("driver")).expect("a link");
        fs::write(here.join("numa_node"), "0\n").expect("a file");
        let bytes = at(&format!("{PCI}/{bdf}/config"))["parts"][0]["bytes"]
            .as_str()
            .map(unhex)
            .expect("bytes");
        fs::write(here.join("config"), bytes).expect("a file");
        fs::create_dir(root.join("proc/driver/nvidia/gpus").join(bdf)).expect("a directory");
    }
}

/// The same input, compressed.
pub fn compressed(input: &Input) -> Input {
    let bytes = compress_to_vec(input.bytes.as_slice(), CompressionLevel::Fastest);
    Input::new(&format!("{} zst", input.name), bytes)
}

/// GPUs and NICs, each on a root bus of its own; with names of this length, where it is not 0.
fn flat(name: &str, gpus: usize, nics: usize, length: usize) -> Input {
    let mut made = Made::new();
    (0..gpus).for_each(|at| made.gpu(&address(at, 1), &[]));
    for at in gpus..gpus + nics {
        made.nic(&address(at, 1), &[], format!("mlx5_{at:0>length$}"));
    }
    made.input(name)
}

/// GPUs and NICs at the end of a chain of so many switch ports, each below a downstream port of its own.
fn chain(name: &str, gpus: usize, nics: usize, depth: usize) -> Input {
    let mut made = Made::new();
    let mut above: Vec<String> = Vec::new();
    for at in 0..depth {
        let bdf = address(at, 0);
        let kind = if at == 0 {
            ROOT_PORT
        } else if at % 2 == 1 {
            UPSTREAM
        } else {
            DOWNSTREAM
        };
        made.port(&bdf, &above, kind);
        above.push(bdf);
    }
    for at in 0..gpus + nics {
        let port = address(0x100 + at, 1);
        made.port(&port, &above, DOWNSTREAM);
        let above = [above.as_slice(), &[port]].concat();
        let bdf = address(0x1000 + at, 0);
        if at < gpus {
            made.gpu(&bdf, &above);
        } else {
            made.nic(&bdf, &above, format!("mlx5_{at}"));
        }
    }
    made.input(name)
}

fn numbered(count: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(item).collect()
}

fn nvml(gpus: usize, pairs: usize) -> Value {
    let unknown = json!({"unknown": "broken"});
    let gpu = |at: usize| {
        let mut gpu = json!({"index": at, "bdf": address(at, 1)});
        for key in [
            "name",
            "uuid",
            "minor",
            "active_links",
            "memory_node",
            "cpu_affinity",
            "bar1",
            "memory_total",
            "persistence",
            "mig",
            "fabric",
            "performance_state",
            "virtualization",
            "architecture",
        ] {
            gpu[key] = unknown.clone();
        }
        gpu["active_links"] = json!({"known": numbered(18, |link| json!({"index": link, "remote": {"known": "switch"}, "remote_bdf": unknown}))});
        gpu
    };
    let pair = |at: usize| {
        json!({"from": at / gpus, "to": at % gpus, "ancestor": unknown,
            "p2p": {"read": {"known": "ok"}, "write": {"known": "ok"}}})
    };
    json!({"read": {"library": null, "driver_version": unknown, "cuda_version": unknown, "confidential_compute": unknown,
        "gpus": numbered(gpus, gpu), "unreachable": [], "pairs": numbered(pairs, pair)}})
}

/// Snapshots whose devices are many, or far from each other, or have long names.
pub fn many_devices() -> Vec<Input> {
    vec![
        flat("1024 rows", 512, 512, 0),
        flat("long names", 100, 900, 240),
        flat("9500 NICs", 8, 9_500, 0),
        chain("switch", 255, 0, 2),
        chain("wide switch", 32, 990, 2),
        chain("deep", 200, 60, 31),
        chain("deep and wide", 32, 900, 20),
    ]
}

/// Snapshots of few devices: what files and libraries answered is long.
pub fn long_answers() -> Vec<Input> {
    let text = |name: &str, path: &str, text: String| {
        let mut made = Made::new();
        (0..8).for_each(|at| made.gpu(&address(at, 1), &[]));
        made.put(path, json!({ "text": text }));
        made.input(name)
    };
    let answers = |name: &str, gpus: usize, library: &str, answer: Value| {
        let mut made = Made::new();
        (0..gpus).for_each(|at| made.gpu(&address(at, 1), &[]));
        made.library(library, answer);
        made.input(name)
    };
    let mut files = Made::new();
    (0..190_000).for_each(|at| files.put(format!("/{at:x}"), json!({})));
    let mut drop_ins = Made::new();
    let names: Vec<String> = (0..30_000).map(|at| format!("{at:05}.conf")).collect();
    for name in &names {
        let line = "# gdr: line 1\noptions nvidia NVreg_EnableStreamMemOPs=1\n";
        let state = json!({"kind": "regular", "mode": 420, "device": [0, 0]});
        drop_ins.put(format!("/etc/modprobe.d/{name}"), json!({"state": state, "text": line}));
    }
    drop_ins.put("/etc/modprobe.d", json!({ "names": names }));
    let mut ports = Made::new();
    for at in 0..1_000 {
        ports.nic(&address(at, 1), &[], format!("mlx5_{at}"));
        let names: Vec<String> = (1..60).map(|port| port.to_string()).collect();
        ports.put(format!("{INFINIBAND}/mlx5_{at}/ports"), json!({ "names": names }));
    }
    let half = LARGEST - (1 << 20);
    vec![
        answers("NVML pairs", 128, "nvml", nvml(128, 16_384)),
        answers("NVML GPUs", 1_000, "nvml", nvml(1_000, 0)),
        answers("too many NVML pairs", 128, "nvml", nvml(128, 30_000)),
        answers(
            "CUDA pairs",
            128,
            "cuda",
            json!({"read": {"gpus": numbered(128, |at| json!({"bdf": address(at, 1)})),
                "pairs": numbered(16_384, |at| json!({"from": at / 128, "to": at % 128}))}}),
        ),
        answers(
            "a long reason",
            8,
            "nvml",
            json!({"failed": {"code": 1, "reason": "r".repeat(half)}}),
        ),
        files.input("190000 files"),
        drop_ins.input("30000 drop-ins"),
        ports.input("59000 ports"),
        text("command line", "/proc/cmdline", "iommu=pt ".repeat(half / 9)),
        text("modules", "/proc/modules", "nvidia 1 - a,b, Live\n".repeat(half / 22)),
        text("parameters", "/proc/driver/nvidia/params", "a: 1\n".repeat(half / 6)),
        text(
            "registry",
            "/proc/driver/nvidia/params",
            format!("RegistryDwords: \"{}\"\n", "PeerMappingOverride=1;".repeat(half / 22)),
        ),
        text(
            "limits",
            "/etc/security/limits.conf",
            "* - memlock 1\n".repeat(half / 15),
        ),
        text(
            "CPU list",
            "/sys/devices/system/node/node0/cpulist",
            (0..900_000).map(|cpu| format!("{},", 2 * cpu)).collect(),
        ),
    ]
}
