//! Programs that manage GPUs and nodes: dcgmi, kubectl, gdscheck.

use std::collections::BTreeSet;

use super::by_index;
use super::smi::Log;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::Recording;
use crate::model::ListedGpu;

pub const DCGMI: Kind = Kind {
    name: "dcgmi discovery -l",
    starts: Starts::Output,
    begins: |line| line.starts_with("| GPU ID | Device Information"),
    yields: "GPUs: address, model, UUID",
    example: "| GPU ID | Device Information                                        |
+--------+-----------------------------------------------------------+
| 0      | Name: NVIDIA H100 80GB HBM3                               |
|        | PCI Bus ID: 00000000:17:00.0                              |
|        | Device UUID: GPU-01234567-89ab-cdef-0123-456789abcdef     |
+--------+-----------------------------------------------------------+
",
    read: |text, recording| {
        let mut log = Log::default();
        let mut name = "";
        for cell in text.lines().filter_map(|line| line.trim().split('|').nth(2)) {
            match cell.trim().split_once(": ") {
                Some(("Name", value)) => name = value,
                Some(("PCI Bus ID", value)) => {
                    if let Ok(bdf) = value.trim().parse() {
                        log.gpu(bdf);
                        log.field("Product Name", name);
                    }
                }
                Some(("Device UUID", value)) => log.field("GPU UUID", value.trim()),
                _ => {}
            }
        }
        recording.smi(&log.finish(None))
    },
};

pub const KUBECTL: Kind = Kind {
    name: "kubectl describe node",
    starts: Starts::Output,
    begins: |line| line.strip_prefix("Roles:").is_some_and(|rest| rest.starts_with(' ')),
    yields: "name and kernel of the node; number and model of its GPUs and the driver, as the labels of GPU Feature Discovery \
             name them",
    example: "Roles:              worker
Labels:             kubernetes.io/hostname=node1
                    nvidia.com/cuda.driver-version.full=570.86.15
                    nvidia.com/gpu.count=2
                    nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
System Info:
  Kernel Version:             6.8.0-45-generic
",
    read: kubectl,
};

pub const GDSCHECK: Kind = Kind {
    name: "gdscheck -p",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("GDS release version:")
            || line == "DRIVER CONFIGURATION:"
            || line == "GPU INFO:"
    },
    yields: "number and models of the GPUs",
    example: "GDS release version: 1.11.1.6
GPU INFO:
=========
GPU index 0 NVIDIA H100 80GB HBM3 bar:1 bar size (MiB):131072 supports GDS, IOMMU State: Disabled
",
    read: |text, recording| {
        let mut gpus = Vec::new();
        for line in text.lines() {
            let gpu = line.trim().strip_prefix("GPU index ").and_then(|gpu| gpu.split_once(' '));
            let Some((index, rest)) = gpu else { continue };
            let model = rest.split_once(" bar:").map(|(model, _)| model.to_owned());
            if let Ok(index) = index.parse() {
                gpus.push((index, ListedGpu { model, ..ListedGpu::default() }));
            }
        }
        recording.listed(by_index(gpus));
        Ok(())
    },
};

fn kubectl(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let lines = || text.lines().map(|line| line.trim().trim_start_matches("Labels:").trim_start());
    let label = |name: &str| {
        let value = lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(['=', ':']));
        value.map(|value| value.trim().trim_matches(['"', '\'']))
    };
    let names = lines()
        .filter_map(|line| line.strip_prefix("kubernetes.io/hostname")?.strip_prefix(['=', ':']));
    let names: BTreeSet<&str> = names.map(str::trim).collect();
    if names.len() > 1 {
        // GPUs of several nodes are not those of one.
        recording.note("Kubernetes", format!("labels of {} nodes: give those of one", names.len()));
        return Ok(());
    }
    let value = |key: &str| lines().find_map(|line| Some(line.strip_prefix(key)?.trim()));
    let files = [
        ("/proc/sys/kernel/hostname", label("kubernetes.io/hostname")),
        ("/proc/sys/kernel/osrelease", value("Kernel Version:")),
    ];
    for (path, text) in files {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            recording.pasted_file(path, text.to_owned())?;
        }
    }
    let parts = ["major", "minor", "rev"];
    let parts = parts.map(|part| label(&format!("nvidia.com/cuda.driver.{part}")));
    let joined = match parts {
        [Some(major), Some(minor), Some(rev)] => Some(format!("{major}.{minor}.{rev}")),
        _ => None,
    };
    let version = label("nvidia.com/cuda.driver-version.full").map(str::to_owned).or(joined);
    if let Some(version) =
        version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    {
        let mut log = Log::default();
        log.head("Driver Version", &version);
        recording.smi(&log.finish(None))?;
    }
    // Without the label the capacity may count shares of GPUs.
    let count = label("nvidia.com/gpu.count").and_then(|count| count.parse::<usize>().ok());
    let product = label("nvidia.com/gpu.product");
    // Sharing and MIG stand behind the model.
    let model = product.map(|name| name.split("-SHARED").next().unwrap_or(name));
    let model = model.map(|name| name.split("-MIG-").next().unwrap_or(name).to_owned());
    let gpus = (0..count.unwrap_or(0))
        .map(|index| (index, ListedGpu { model: model.clone(), ..ListedGpu::default() }));
    recording.listed(by_index(gpus.take(64).collect()));
    let mut counts: Vec<&str> = lines().filter(|line| is_count(line)).collect();
    counts.sort_unstable();
    counts.dedup();
    if count.is_none() && !counts.is_empty() {
        let message =
            format!("{}: may count shares of GPUs, or what a pod asks for", counts.join(", "));
        recording.note("Kubernetes", message);
    }
    Ok(())
}

/// True for a line of a node that the text shows without its head: a count of GPUs or a label of GPU Feature Discovery.
pub fn is_part(line: &str) -> bool {
    const LABELS: [&str; 2] = ["nvidia.com/gpu.product", "nvidia.com/gpu.count"];
    let is_label =
        |name: &&str| line.strip_prefix(*name).is_some_and(|rest| rest.starts_with(['=', ':']));
    is_count(line) || LABELS.iter().any(is_label)
}

/// `nvidia.com/gpu:  8` of a node or a pod.
fn is_count(line: &str) -> bool {
    // JSON has marks around the key too.
    let rest = line.strip_prefix('"').unwrap_or(line).strip_prefix("nvidia.com/gpu");
    let count = rest.and_then(|rest| rest.strip_prefix('"').unwrap_or(rest).strip_prefix(':'));
    let count = count.map(|count| count.trim().trim_matches(['"', '\'', ',']));
    count.is_some_and(|count| count.parse::<u16>().is_ok_and(|count| count > 0))
}
