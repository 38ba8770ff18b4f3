//! Tools that test GPUs and links: dcgmi diag and topo, mlxlink; and options of modules.

use std::collections::{BTreeMap, BTreeSet};

use super::by_index;
use super::smi::Log;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const DIAG: Kind = Kind {
    name: "dcgmi diag",
    starts: Starts::Output,
    begins: |line| line.starts_with("| Diagnostic ") && line.contains("| Result "),
    yields: "version of the driver, number of the GPUs; tests that failed, as remarks",
    example: "| Diagnostic                | Result                                         |
+===========================+================================================+
| Driver Version Detected   | 570.86.15                                      |
| GPU Device IDs Detected   | 2330, 2330                                     |
| PCIe                      | Fail - GPU: 1                                  |
",
    read: diag,
};

pub const TOPOLOGY: Kind = Kind {
    name: "dcgmi topo",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("| Topology Information")
            || line.starts_with("| GPU ID: ") && line.contains("| Topology Information")
    },
    yields: "number of the GPUs; the class of each pair, if the paths tell all of them apart: a CPU-level link is NODE or SYS",
    example: "| GPU ID: 0         | Topology Information                                   |
+===================+========================================================+
| CPU Core Affinity | 0 - 11                                                 |
+-------------------+--------------------------------------------------------+
| To GPU 1          | Connected via a PCIe host bridge                       |
",
    read: topology,
};

/// Paths as dcgmi words them, and nvidia-smi's classes (DCGM 4, dcgmi/Topo.cpp).
const PATHS: [(&str, &str); 4] = [
    ("Connected via an on-board PCIe switch", "PIX"),
    ("Connected via a single PCIe switch", "PIX"),
    ("Connected via multiple PCIe switches", "PXB"),
    ("Connected via a PCIe host bridge", "PHB"),
];

fn topology(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut classes: BTreeMap<(usize, usize), Option<&str>> = BTreeMap::new();
    let (mut count, mut from) = (0, None);
    for (name, path) in text.lines().filter_map(row) {
        let number = |start: &str| name.strip_prefix(start)?.parse::<usize>().ok();
        let to = number("To GPU ");
        if let Some(own) = number("GPU ID: ") {
            from = Some(own);
        } else if let Some((from, to)) = from.zip(to) {
            let class = PATHS.iter().find(|(words, _)| *words == path).map(|(_, class)| *class);
            classes.insert((from.min(to), from.max(to)), class);
        }
        let last = to.or(from).filter(|last| *last < MAX_GPUS);
        count = last.map_or(count, |last| count.max(last + 1));
    }
    recording.listed(vec![ListedGpu::default(); count]);
    let mut matrix: String = (0..count).map(|gpu| format!("\tGPU{gpu}")).collect();
    for from in 0..count {
        matrix.push_str(&format!("\nGPU{from}"));
        for to in 0..count {
            let class = classes.get(&(from.min(to), from.max(to))).copied().flatten();
            match class.or((from == to).then_some("X")) {
                Some(class) => matrix.push_str(&format!("\t{class}")),
                None => return Ok(()),
            }
        }
    }
    // It says nothing of NVLinks.
    if count > 1 { recording.matrix(&(matrix + "\n\nLegend:\n")) } else { Ok(()) }
}

pub const NVLINK: Kind = Kind {
    name: "dcgmi nvlink -s",
    starts: Starts::Output,
    begins: |line| line.starts_with('|') && line.contains(" NvLink Link Status "),
    yields: "number of the GPUs; NVLinks that are down, as remarks",
    example: "|  NvLink Link Status  |
+----------------------+
GPUs:
    gpuId 0:
        U U U U U U U U U U U U U U U U U D
    gpuId 1:
        U U U U U U U U U U U U U U U U U U
",
    read: |text, recording| {
        let mut gpus = Vec::new();
        let mut last = None;
        for line in text.lines().map(str::trim) {
            let number = line.strip_prefix("gpuId ").and_then(|rest| rest.strip_suffix(':'));
            if let Some(number) = number {
                last = number.parse::<usize>().ok();
                gpus.extend(last.map(|at| (at, ListedGpu::default())));
            } else if let Some(gpu) = last.take() {
                let states: Vec<&str> = line.split(' ').collect();
                let [up, down] =
                    ["U", "D"].map(|of| states.iter().filter(|state| **state == of).count());
                // X: disabled, _: not supported.
                if down > 0 && states.iter().all(|state| ["U", "D", "X", "_"].contains(state)) {
                    let message = format!("GPU{gpu}: {down} of {} NVLinks are down", up + down);
                    recording.note("dcgmi nvlink", message);
                }
            }
        }
        recording.listed(by_index(gpus));
        Ok(())
    },
};

pub const HEALTH: Kind = Kind {
    name: "dcgmi health -c",
    starts: Starts::Output,
    begins: |line| line.starts_with("| Overall Health"),
    yields: "number of the GPUs that it names; what it finds, as remarks",
    example: "| Overall Health            | Warning                                       |
| GPU                       |                                               |
| -> 0                      | Warning                                       |
|    -> NVLINK system       | Warning                                       |
|                           | GPU 0's NvLink link 0 is currently down       |
",
    read: |text, recording| {
        const MOST: usize = 8;
        let mut gpus = Vec::new();
        let mut messages = Vec::new();
        for (name, result) in text.lines().filter_map(row) {
            match name.strip_prefix("-> ").and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => gpus.push((number, ListedGpu::default())),
                None if name == "Overall Health" => messages.push(format!("overall: {result}")),
                None if name.is_empty() && result.len() > 3 => messages.push(result.to_owned()),
                None => {}
            }
        }
        messages.truncate(MOST);
        messages.into_iter().for_each(|message| recording.note("dcgmi health", message));
        recording.listed(by_index(gpus));
        Ok(())
    },
};

pub const NHC: Kind = Kind {
    name: "nhc (Node Health Check)",
    starts: Starts::Line,
    begins: |line| failed_check(line).is_some(),
    yields: "checks of GPUs and RDMA devices that failed, as remarks",
    example: "ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_0:1 is ACTIVE (LinkUp 400 Gb/sec).
",
    read: |text, recording| {
        const MOST: usize = 8;
        let failed: BTreeSet<&str> = text.lines().filter_map(failed_check).collect();
        failed.into_iter().take(MOST).for_each(|words| recording.note("nhc", words.to_owned()));
        Ok(())
    },
};

/// What a check of devices says that failed. Other checks are not about GPUs and NICs.
fn failed_check(line: &str) -> Option<&str> {
    const WORDS: [&str; 8] = ["gpu", "GPU", "nvsmi", "nvidia", "_ib", "nccl", "dcgm", "rdma"];
    let (before, failed) = line.split_once("ealth check failed:")?;
    let failed = failed.trim();
    let check = failed.split(':').next()?;
    let is_check = check.starts_with("check_") && WORDS.iter().any(|word| check.contains(word));
    (is_check && before.contains("nhc")).then_some(failed)
}

pub const MLXLINK: Kind = Kind {
    name: "mlxlink",
    starts: Starts::Output,
    begins: |line| line == "Operational Info",
    yields: "with its command line: state and rate of the port; errors that it counted, as remarks",
    example: "$ mlxlink -d mlx5_0
Operational Info
----------------
State                           : Active
Physical state                  : LinkUp
Speed                           : IB-NDR
Width                           : 4x
FEC                             : Interleaved_Standard_RS_FEC_PLR - (544,514)
",
    read: mlxlink,
};

pub const OPTIONS: Kind = Kind {
    name: "modprobe.d",
    starts: Starts::Line,
    begins: |line| {
        let module = line.strip_prefix("options ").and_then(|rest| rest.split(' ').next());
        module.is_some_and(|module| module.starts_with("nvidia") || module == "mlx5_core")
            && line.contains('=')
    },
    yields: "the file, as one of several in /etc/modprobe.d",
    example:
        "options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\"
",
    read: |text, recording| {
        let lines: Vec<&str> =
            text.lines().map(str::trim).take_while(|line| line.starts_with("options ")).collect();
        recording.pasted_file("/etc/modprobe.d/nvidia.conf", lines.join("\n") + "\n")
    },
};

/// The two cells of a row.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
    Some((cells.next()?, cells.next()?))
}

fn diag(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut log = Log::default();
    let mut count = 0;
    for (name, result) in text.lines().filter_map(row) {
        match name {
            "Driver Version Detected" => log.head("Driver Version", result),
            "GPU Device IDs Detected" => count = result.split(',').count(),
            _ if result.starts_with("Fail") && !name.is_empty() => {
                recording.note("dcgmi diag", format!("{name}: {result}"));
            }
            _ => {}
        }
    }
    recording.listed(by_index((0..count).map(|at| (at, ListedGpu::default())).collect()));
    recording.smi(&log.finish(None))
}

/// Counters of mlxlink that are zero on a link without faults.
const COUNTERS: [&str; 4] = [
    "Effective Physical Errors",
    "Symbol Errors",
    "Link Down Counter",
    "Link Error Recovery Counter",
];

fn mlxlink(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let command = text.lines().find_map(|line| line.strip_prefix("mlxlink -d "));
    let device = command.and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let field = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    for name in COUNTERS {
        if let Some(count) = field(name).filter(|count| count.parse::<u64>().is_ok_and(|n| n > 0)) {
            recording.note(&format!("mlxlink {device}"), format!("{name}: {count}"));
        }
    }
    let mut class = Class::default();
    let is_name = device.starts_with("mlx5_");
    let Some(directory) = is_name.then(|| class.device(device)).flatten() else {
        return Ok(());
    };
    let Some(port) = class.port(&directory, "1") else { return Ok(()) };
    let physical = match field("Physical state").unwrap_or_default() {
        "LinkUp" => Some("5: LinkUp"),
        "Disabled" | "Disable" => Some("3: Disabled"),
        "Polling" => Some("2: Polling"),
        _ => None,
    };
    class.add_some(&port, "phys_state", physical.filter(|_| field("State").is_some()));
    let state = match field("State").unwrap_or_default() {
        "Active" => Some("4: ACTIVE"),
        "Polling" | "Disable" | "Disabled" => Some("1: DOWN"),
        _ => None,
    };
    class.add_some(&port, "state", state);
    let lanes = field("Width").and_then(|width| width.trim_end_matches('x').parse::<u32>().ok());
    let speed = field("Speed").unwrap_or_default();
    let of_lane = SPEEDS.iter().find(|(name, _)| Some(*name) == speed.strip_prefix("IB-"));
    if let Some((lanes, (name, gigabits))) = lanes.zip(of_lane) {
        class.add(&port, "rate", &format!("{} Gb/sec ({lanes}X {name})", gigabits * lanes));
        class.add(&port, "link_layer", "InfiniBand");
    } else if let Some(gigabits) =
        speed.strip_suffix('G').filter(|text| text.parse::<u32>().is_ok())
    {
        class.add(&port, "rate", &format!("{gigabits} Gb/sec"));
        class.add(&port, "link_layer", "Ethernet");
    }
    recording.class(class)
}

/// Gigabits of a lane of InfiniBand.
const SPEEDS: [(&str, u32); 5] =
    [("FDR", 14), ("EDR", 25), ("HDR", 50), ("NDR", 100), ("XDR", 200)];
