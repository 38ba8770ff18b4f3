//! A good node with eight GPUs and eight NICs: the authored machine hgx-h100-8gpu-8nic, with answers of NVML made from those
//! that were captured with eight H200.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::device::Device;
use super::machine::Machine;
use super::scratch::scratch;

/// GPUs in NVML's order.
pub const GPUS: [&str; 8] = [
    "0000:18:00.0",
    "0000:19:00.0",
    "0000:3a:00.0",
    "0000:3b:00.0",
    "0000:9a:00.0",
    "0000:9b:00.0",
    "0000:ca:00.0",
    "0000:cb:00.0",
];

pub struct Node {
    pub machine: Machine,
    /// What NVML answered, without the outer `read`.
    pub nvml: Value,
}

impl Node {
    pub fn good() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-x8/nvml.json");
        let text = fs::read_to_string(file).expect("answers of NVML");
        let mut nvml: Value = serde_json::from_str(&text).expect("JSON");
        let mut nvml = nvml["read"].take();
        let gpus = nvml["gpus"].as_array_mut().expect("GPUs");
        for (gpu, bdf) in gpus.iter_mut().zip(GPUS) {
            gpu["bdf"] = json!(bdf);
            gpu["name"] = json!({ "known": "NVIDIA H100 80GB HBM3" });
            gpu["memory_total"] = json!({ "known": 85_520_809_984_u64 });
            gpu["bar1"] = json!({ "known": { "total": 137_438_953_472_u64, "used": 1_703_936 } });
        }
        Self { machine: Machine::load("hgx-h100-8gpu-8nic"), nvml }
    }

    /// The PCI function at an address.
    pub fn at(&mut self, bdf: &str) -> &mut Device {
        let found = self.machine.devices.iter_mut().find(|device| device.bdf == bdf);
        found.unwrap_or_else(|| panic!("no device {bdf}"))
    }

    /// NVML's answer about a GPU.
    pub fn gpu(&mut self, number: usize) -> &mut Value {
        &mut self.nvml["gpus"][number]
    }

    pub fn remove(&mut self, bdf: &str) {
        self.machine.devices.retain(|device| device.bdf != bdf);
    }

    /// The root directory of the node.
    pub fn laid_out(&self) -> TempDir {
        let dir = scratch();
        self.lay_out(dir.path());
        dir
    }

    pub fn lay_out(&self, dir: &Path) {
        self.machine.lay_out(dir);
        fs::create_dir_all(dir.join("gdr")).expect("a directory");
        let answer = json!({ "read": self.nvml });
        fs::write(dir.join("gdr/nvml.json"), answer.to_string()).expect("a file");
    }
}
