//! Output of nvidia-smi: each form becomes that of `nvidia-smi -q`, which one reader reads.

use super::by_index;
use super::query;
use super::summary::{self, is_model};
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::matrix;
use crate::import::support::{Class, Recording};
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, ListedGpu};

pub const QUERY: Kind = Kind {
    name: "nvidia-smi -q",
    starts: Starts::Output,
    begins: |line| line.contains("==NVSMI LOG=="),
    yields: "GPUs with address, model, BAR1, memory, link, persistence and MIG mode, NVLink fabric; driver and CUDA version",
    example: "==============NVSMI LOG==============

Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:17:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    PCI
        Device Id                         : 0x233010DE
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 1 MiB
    Performance State                     : P0
",
    read: |text, recording| {
        if text.contains("NVSMI LOG") {
            recording.listed(query::masked(text));
            recording.smi(text)
        } else {
            recording.smi(&query::whole(text))
        }
    },
};

pub const TABLE: Kind = Kind {
    name: "nvidia-smi",
    starts: Starts::Output,
    begins: |line| {
        line.starts_with("| NVIDIA-SMI ")
            || line.starts_with("| NVITOP ")
            || line.starts_with("NVIDIA-SMI has failed because")
            || line.starts_with("Failed to initialize NVML: ")
            || line.starts_with("Unable to determine the device handle for")
            || line == "No devices were found"
    },
    yields: "GPUs with address, model, memory, persistence and MIG mode; driver and CUDA version; why NVML failed",
    example:
        "+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:17:00.0 Off |                    0 |
| N/A   31C    P0             60W /  700W |       0MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
",
    read: |text, recording| {
        let table = table(text);
        let mut listed = if has_head(text) { Vec::new() } else { query::processes(text) };
        if listed.is_empty() && !table.lines().any(|line| line.starts_with("GPU ")) {
            listed = query::cut_rows(text);
        }
        recording.listed(by_index(listed));
        recording.smi(&table)
    },
};

pub const CSV: Kind = Kind {
    name: "nvidia-smi --query-gpu=… --format=csv",
    starts: Starts::Output,
    begins: is_csv,
    yields: "the queried fields of the GPUs",
    example: "index, name, pci.bus_id, driver_version, memory.total [MiB]
0, NVIDIA H100 80GB HBM3, 00000000:17:00.0, 550.54.15, 81559 MiB
",
    read: |text, recording| csv(text, recording),
};

pub const LIST: Kind = Kind {
    name: "nvidia-smi -L, nvidia-smi nvlink",
    starts: Starts::Line,
    begins: |line| listed_gpu(line).is_some(),
    yields: "models of the GPUs; which NVLinks are active, and their other ends",
    example: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
",
    read: list,
};

pub const MATRIX: Kind = Kind {
    name: "nvidia-smi topo -m",
    starts: Starts::Output,
    begins: matrix::is_head,
    yields: "the class and the NVLinks of each pair of GPUs and NICs, their CPUs and NUMA nodes; no paths; of -p2p the GPUs, and with \
             its command line the status of each pair",
    example: "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPIX\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
",
    read: |text, recording| {
        if let Some(status) = matrix::p2p(text) {
            recording.listed(vec![ListedGpu::default(); status.gpus]);
            if let Some(capability) = status.capability {
                recording.p2p(capability, status.pairs);
            }
        }
        // A legend without its matrix names the NICs.
        if !recording.has_matrix() && matrix::listed(text).is_none() {
            let mut class = Class::default();
            for name in matrix::legends(text) {
                class.device(name);
            }
            recording.class(class)?;
        }
        recording.matrix(text)
    },
};

pub const XML: Kind = Kind {
    name: "nvidia-smi -q -x",
    starts: Starts::Output,
    begins: |line| line.starts_with("<nvidia_smi_log"),
    yields: "as nvidia-smi -q",
    example: "<nvidia_smi_log>
  <driver_version>550.54.15</driver_version>
  <attached_gpus>1</attached_gpus>
  <gpu id=\"00000000:17:00.0\">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <performance_state>P0</performance_state>
  </gpu>
</nvidia_smi_log>
",
    read: |text, recording| recording.smi(&xml(text)),
};

/// Builds text as `nvidia-smi -q` prints it.
#[derive(Default)]
pub struct Log {
    head: String,
    gpus: String,
    count: usize,
}

impl Log {
    pub fn head(&mut self, name: &str, value: &str) {
        self.head.push_str(&format!("{name} : {value}\n"));
    }

    pub fn gpu(&mut self, bdf: Bdf) {
        self.count += 1;
        self.gpus.push_str(&format!("GPU {bdf}\n"));
    }

    /// A field of the last GPU, by its path of headings.
    pub fn field(&mut self, path: &str, value: &str) {
        if self.count == 0 || value.is_empty() {
            return;
        }
        let mut indent = 4;
        let (headings, name) = path.rsplit_once('/').unwrap_or(("", path));
        for heading in headings.split('/').filter(|heading| !heading.is_empty()) {
            self.gpus.push_str(&format!("{:indent$}{heading}\n", ""));
            indent += 4;
        }
        self.gpus.push_str(&format!("{:indent$}{name} : {value}\n", ""));
    }

    /// The text; `count` is the number of GPUs if that is certain.
    pub fn finish(self, count: Option<usize>) -> String {
        let attached = count.map_or_else(String::new, |count| format!("Attached GPUs : {count}\n"));
        format!("NVSMI LOG\n\n{}{attached}\n{}\n", self.head, self.gpus)
    }
}

/// The GPUs that a part of this kind lists, with their models where they are whole.
pub fn gpus(kind: &str, text: &str) -> Vec<(Bdf, String)> {
    let text = match kind {
        "nvidia-smi" => table(text),
        "nvidia-smi -q -x" => xml(text),
        _ if !text.contains("NVSMI LOG") => query::whole(text),
        _ => text.to_owned(),
    };
    let mut gpus: Vec<(Bdf, String)> = Vec::new();
    for line in text.lines() {
        if let Some(bdf) = line.strip_prefix("GPU ").and_then(|bdf| bdf.trim().parse().ok()) {
            if gpus.len() == MAX_GPUS {
                break;
            }
            gpus.push((bdf, String::new()));
        } else if let Some((key, value)) = line.split_once(" : ")
            && key.trim() == "Product Name"
            && let Some((_, name)) = gpus.last_mut()
        {
            *name = value.trim().to_owned();
        }
    }
    gpus
}

/// True for a table with its first line; rows alone need not show all GPUs.
pub fn has_head(text: &str) -> bool {
    text.contains("| NVIDIA-SMI ")
}

fn table(text: &str) -> String {
    if !text.lines().any(|line| line.trim_start().starts_with('|')) {
        return text.to_owned();
    }
    let mut log = Log::default();
    // Rows of the current GPU. Borders stand between the GPUs too; the list of processes stands below all of them.
    let (mut row, mut ended) = (0, false);
    for line in text.lines() {
        let Some(line) = line.trim().strip_prefix('|') else {
            row = 3;
            continue;
        };
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells[0].starts_with("Processes:") {
            ended = true;
            break;
        }
        if let Some(head) =
            cells[0].strip_prefix("NVIDIA-SMI ").or(cells[0].strip_prefix("NVITOP "))
        {
            let after = |name: &str| {
                let (_, rest) = head.split_once(name)?;
                rest.split_ascii_whitespace().next()
            };
            if let Some(version) = after("Driver Version:").or(after("KMD Version:")) {
                log.head("Driver Version", version);
            }
            if let Some(version) = after("CUDA Version:")
                .or(after("CUDA UMD Version:"))
                .or(after("CUDA Driver Version:"))
            {
                log.head("CUDA Version", version);
            }
            continue;
        }
        let first = |at: usize| cells.get(at).and_then(|cell| cell.split_ascii_whitespace().next());
        let begins = first(1).and_then(|bdf| bdf.parse::<Bdf>().ok());
        if let Some(bdf) = begins.filter(|_| first(0).is_some_and(|n| n.parse::<u32>().is_ok())) {
            log.gpu(bdf);
            row = 1;
            name(&mut log, cells[0]);
            continue;
        }
        row += 1;
        match row {
            2 => second_row(&mut log, &cells),
            3 => {
                let mig = cells.get(2).copied().unwrap_or_default();
                if matches!(mig, "Enabled" | "Disabled" | "N/A") {
                    log.field("MIG Mode/Current", mig);
                }
            }
            _ => {}
        }
    }
    // `nvidia-smi -i 0` prints such a table of one GPU.
    let count = Some(log.count).filter(|count| ended && *count > 1 && has_head(text));
    log.finish(count)
}

/// `0  NVIDIA H100 80GB HBM3  On`; long names are cut.
fn name(log: &mut Log, cell: &str) {
    let words: Vec<&str> = cell.split_ascii_whitespace().collect();
    let [_, name @ .., mode] = words.as_slice() else {
        return;
    };
    let name = name.join(" ");
    if !name.ends_with("...") {
        log.field("Product Name", &name);
    }
    match *mode {
        "On" => log.field("Persistence Mode", "Enabled"),
        "Off" => log.field("Persistence Mode", "Disabled"),
        _ => {}
    }
}

/// `N/A 31C P0 60W / 700W`, then `0MiB / 81559MiB`.
fn second_row(log: &mut Log, cells: &[&str]) {
    let is_state =
        |word: &&str| word.strip_prefix('P').is_some_and(|state| state.parse::<u8>().is_ok());
    if let Some(state) = cells[0].split_ascii_whitespace().find(is_state) {
        log.field("Performance State", state);
    }
    let total = cells.get(1).and_then(|cell| cell.split_once('/'));
    if let Some(number) = total.and_then(|(_, total)| total.trim().strip_suffix("MiB")) {
        log.field("FB Memory Usage/Total", &format!("{} MiB", number.trim()));
    }
}

/// Names of fields in a query, and the paths in `nvidia-smi -q`.
const FIELDS: [(&str, &str); 16] = [
    ("name", "Product Name"),
    ("gpu_name", "Product Name"),
    ("uuid", "GPU UUID"),
    ("gpu_uuid", "GPU UUID"),
    ("persistence_mode", "Persistence Mode"),
    ("mig.mode.current", "MIG Mode/Current"),
    ("pstate", "Performance State"),
    ("memory.total", "FB Memory Usage/Total"),
    ("pci.device_id", "PCI/Device Id"),
    ("pcie.link.gen.max", "PCI/GPU Link Info/PCIe Generation/Max"),
    ("pcie.link.gen.current", "PCI/GPU Link Info/PCIe Generation/Current"),
    ("pcie.link.gen.gpucurrent", "PCI/GPU Link Info/PCIe Generation/Device Current"),
    ("pcie.link.gen.gpumax", "PCI/GPU Link Info/PCIe Generation/Device Max"),
    ("pcie.link.width.max", "PCI/GPU Link Info/Link Width/Max"),
    ("pcie.link.width.current", "PCI/GPU Link Info/Link Width/Current"),
    ("addressing_mode", "Addressing Mode"),
];

/// The first line of a query: names of fields, one of which only nvidia-smi has.
fn is_csv(line: &str) -> bool {
    const ONLY: [&str; 9] = [
        "pci.bus_id",
        "gpu_bus_id",
        "gpu_uuid",
        "gpu_name",
        "driver_version",
        "pcie.link.gen.max",
        "pcie.link.gen.current",
        "pcie.link.width.current",
        "pstate",
    ];
    let names: Vec<&str> = line.split(',').take(64).map(csv_name).collect();
    let is_name = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b))
    };
    let has = |name: &str| names.contains(&name);
    names.iter().all(is_name)
        && (names.iter().any(|name| ONLY.contains(name)) && names.len() > 1
            || has("index") && (has("name") || has("uuid"))
            || has("name") && has("memory.total"))
}

/// A name without its unit: `memory.total [MiB]`.
fn csv_name(column: &str) -> &str {
    column.split('[').next().unwrap_or_default().trim()
}

fn csv(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    if !text.lines().next().is_some_and(|line| is_csv(line.trim())) {
        return values(text, recording);
    }
    let mut log = Log::default();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').map(csv_name).collect();
    let mut listed = Vec::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != head.len() {
            continue;
        }
        let value = |names: &[&str]| {
            let at = head.iter().position(|name| names.contains(name))?;
            values.get(at).copied()
        };
        if let Some(version) = value(&["driver_version"]).filter(|_| log.head.is_empty()) {
            log.head("Driver Version", version);
        }
        let text =
            |names: &[&str]| value(names).filter(|text| !text.starts_with('[')).map(str::to_owned);
        let Some(bdf) = value(&["pci.bus_id", "gpu_bus_id"]).and_then(|bdf| bdf.parse().ok())
        else {
            let index = value(&["index"]).and_then(|index| index.parse::<usize>().ok());
            if index.is_none_or(|index| index == listed.len()) {
                listed.push(ListedGpu {
                    model: text(&["name", "gpu_name"]),
                    uuid: text(&["uuid", "gpu_uuid"]),
                    ..ListedGpu::default()
                });
            }
            continue;
        };
        log.gpu(bdf);
        for (name, path) in FIELDS {
            let Some(value) = value(&[name]) else { continue };
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            match name {
                "memory.total" if is_number => log.field(path, &format!("{value} MiB")),
                _ => log.field(path, value),
            }
        }
    }
    recording.listed(listed);
    // A query may name some GPUs, so their number is unknown.
    if log.count > 0 || !log.head.is_empty() { recording.smi(&log.finish(None)) } else { Ok(()) }
}

/// Records rows without the line that names their columns.
fn values(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut log = Log::default();
    let mut listed = Vec::new();
    let (mut has_gpu, mut has_version) = (false, false);
    for cells in text.lines().filter_map(|line| query::cells(line.trim())) {
        let own = |is: fn(&str) -> bool| cells.iter().copied().find(|cell| is(cell));
        if let Some(version) = own(query::is_version).filter(|_| !has_version) {
            log.head("Driver Version", version);
            has_version = true;
        }
        let model = own(|cell| summary::whole(cell).is_some());
        let uuid = own(|cell| cell.starts_with("GPU-"));
        if let Some(bdf) = cells.iter().find_map(|cell| cell.parse().ok()) {
            log.gpu(bdf);
            log.field("Product Name", model.unwrap_or_default());
            log.field("GPU UUID", uuid.unwrap_or_default());
            has_gpu = true;
        } else {
            let index = cells[0].parse().ok().filter(|index| *index == listed.len());
            let gpu = ListedGpu {
                model: model.map(str::to_owned),
                uuid: uuid.map(str::to_owned),
                ..ListedGpu::default()
            };
            listed.push((index.unwrap_or(listed.len()), gpu));
        }
    }
    recording.listed(by_index(listed));
    if has_gpu || has_version { recording.smi(&log.finish(None)) } else { Ok(()) }
}

fn list(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut gpus = Vec::new();
    let text = &unwrapped(text);
    for (number, rest) in text.lines().filter_map(|line| listed_gpu(line.trim())) {
        let (model, uuid) = match rest.split_once(" (UUID: ") {
            Some((model, uuid)) => (model, Some(uuid.trim_end_matches(')').to_owned())),
            // Programs write further properties behind a comma, and the UUID may be cut.
            None => {
                let is_cut =
                    |tail: &str| "UUID: GPU-".starts_with(tail) || tail.starts_with("UUID:");
                let cut = rest.rsplit_once(" (").filter(|(_, tail)| is_cut(tail));
                let rest = cut.map_or(rest, |(model, _)| model);
                (rest.split(", ").next().unwrap_or_default(), None)
            }
        };
        let model = Some(model.trim().to_owned());
        gpus.push((number, ListedGpu { model, uuid, ..ListedGpu::default() }));
    }
    recording.listed(by_index(gpus));
    recording.smi(text)
}

/// The lines, where a narrow window wrapped them before or within the UUID.
fn unwrapped(text: &str) -> String {
    const LENGTH: usize = 40;
    let mut out = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.lines() {
        let bare = line.trim();
        let fits = bare.ends_with(')') && bare.len() <= LENGTH + 1 && !bare.contains(' ');
        if is_open && fits {
            out.pop();
            out.extend(bare.starts_with("GPU-").then_some(' '));
            out.push_str(bare);
        } else {
            out.push_str(line);
        }
        out.push('\n');
        is_open = bare
            .rsplit_once("(UUID:")
            .is_some_and(|(_, uuid)| !uuid.contains(')') && bare.starts_with("GPU "));
    }
    out
}

/// `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)`: the number and the rest. PyTorch's collect_env leaves out the UUID.
fn listed_gpu(line: &str) -> Option<(usize, &str)> {
    let line = match line.split_once(':') {
        Some((key, rest)) if key.trim_end() == "GPU models and configuration" => rest.trim_start(),
        _ => line,
    };
    let (number, rest) = line.strip_prefix("GPU ")?.split_once(": ")?;
    // fastfetch numbers from 1.
    let is_listed = rest.contains("(UUID: GPU-") || is_model(rest) && !rest.ends_with("[Discrete]");
    Some((number.parse().ok().filter(|_| is_listed)?, rest))
}

/// Elements of the XML, and their paths in `nvidia-smi -q`.
const ELEMENTS: [(&str, &str); 20] = [
    ("product_name", "Product Name"),
    ("product_architecture", "Product Architecture"),
    ("persistence_mode", "Persistence Mode"),
    ("mig_mode/current_mig", "MIG Mode/Current"),
    ("uuid", "GPU UUID"),
    ("minor_number", "Minor Number"),
    ("gpu_virtualization_mode/virtualization_mode", "GPU Virtualization Mode/Virtualization Mode"),
    ("pci/pci_device_id", "PCI/Device Id"),
    ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "PCI/GPU Link Info/PCIe Generation/Max"),
    (
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
        "PCI/GPU Link Info/PCIe Generation/Current",
    ),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", "PCI/GPU Link Info/Link Width/Max"),
    (
        "pci/pci_gpu_link_info/link_widths/current_link_width",
        "PCI/GPU Link Info/Link Width/Current",
    ),
    ("performance_state", "Performance State"),
    ("fb_memory_usage/total", "FB Memory Usage/Total"),
    ("bar1_memory_usage/total", "BAR1 Memory Usage/Total"),
    ("bar1_memory_usage/used", "BAR1 Memory Usage/Used"),
    ("cc_protected_memory_usage/total", "Conf Compute Protected Memory Usage/Total"),
    ("fabric/state", "Fabric/State"),
    ("fabric/status", "Fabric/Status"),
    ("fabric/cliqueId", "Fabric/CliqueId"),
];

/// nvidia-smi writes an element per line.
fn xml(text: &str) -> String {
    let mut log = Log::default();
    let mut count = None;
    let mut path: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(rest) = line.strip_prefix('<') else { continue };
        if let Some(bdf) = rest.strip_prefix("gpu id=\"").and_then(|rest| rest.split('"').next()) {
            if let Ok(bdf) = bdf.parse() {
                log.gpu(bdf);
            }
            path.clear();
        } else if let Some((name, content)) = rest.split_once('>') {
            if name.starts_with('/') {
                path.pop();
            } else if let Some((value, _)) = content.split_once("</") {
                let value = value.trim();
                match name {
                    "driver_version" => log.head("Driver Version", value),
                    "cuda_version" => log.head("CUDA Version", value),
                    "attached_gpus" => count = value.parse().ok(),
                    _ => {
                        let own =
                            path.iter().map(|part| format!("{part}/")).collect::<String>() + name;
                        let known = ELEMENTS.iter().find(|(element, _)| *element == own);
                        if let Some((_, path)) = known {
                            log.field(path, value);
                        }
                    }
                }
            } else if !name.ends_with('/') && !name.starts_with("nvidia_smi_log") && path.len() < 8
            {
                path.push(name);
            }
        }
    }
    log.finish(count)
}
