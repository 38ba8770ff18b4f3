//! A recorded machine whose PCI functions are made up, as a snapshot or laid out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Input;

const PCI: &str = "/sys/bus/pci/devices";
pub(super) const INFINIBAND: &str = "/sys/class/infiniband";
const GPU: (u16, u16, u32) = (0x10de, 0x2330, 0x03_0200);
const NIC: (u16, u16, u32) = (0x15b3, 0x1021, 0x02_0700);
const SWITCH: (u16, u16, u32) = (0x1000, 0xc030, 0x06_0400);
/// Types of PCI Express functions (PCI Express Base Specification, PCI Express Capabilities Register).
const ENDPOINT: u16 = 0;
pub(super) const ROOT_PORT: u16 = 4;
pub(super) const UPSTREAM: u16 = 5;
pub(super) const DOWNSTREAM: u16 = 6;

/// A recorded machine whose PCI functions are made up. It says that it is not a guest.
pub(super) struct Made {
    document: Value,
    pub(super) files: Map<String, Value>,
    functions: Vec<String>,
    gpus: Vec<String>,
    nics: Vec<String>,
}

impl Made {
    pub(super) fn new() -> Self {
        let recorded =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/h200-x4/snapshot.json");
        let mut document: Value =
            serde_json::from_str(&fs::read_to_string(recorded).expect("a snapshot")).expect("JSON");
        document["libraries"] = json!({});
        let Value::Object(mut files) = document["files"].take() else {
            panic!("a snapshot has files");
        };
        files.retain(|path, _| {
            !path.starts_with(PCI) && !path.starts_with("/proc/driver/nvidia/gpus")
        });
        files.insert(
            "/proc/cpuinfo".to_owned(),
            json!({"text": "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n"}),
        );
        Self { document, files, functions: Vec::new(), gpus: Vec::new(), nics: Vec::new() }
    }

    pub(super) fn put(&mut self, path: impl Into<String>, recorded: Value) {
        self.files.insert(path.into(), recorded);
    }

    fn function(
        &mut self,
        bdf: &str,
        above: &[String],
        (vendor, device, class): (u16, u16, u32),
        kind: u16,
    ) {
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

    pub(super) fn port(&mut self, bdf: &str, above: &[String], kind: u16) {
        self.function(bdf, above, SWITCH, kind);
    }

    pub(super) fn gpu(&mut self, bdf: &str, above: &[String]) {
        self.function(bdf, above, GPU, ENDPOINT);
        self.put(format!("{PCI}/{bdf}/driver"), json!({"link": "../../../bus/pci/drivers/nvidia"}));
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
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits")).collect()
}

/// An address in the order of numbers: 256 buses of a domain, one device on each.
pub(super) fn address(number: usize, device: usize) -> String {
    format!("{:04x}:{:02x}:{device:02x}.0", number >> 8, number & 255)
}

/// So many GPUs, each on a root bus of its own, laid out as files below a root.
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
