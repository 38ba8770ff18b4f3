//! RDMA devices as lists name them: lstopo's text, links of sysfs, ibv_devices, rdma dev, and logs of UCX.

use std::collections::BTreeSet;

use super::by_index;
use super::nccl::GPU;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::{Bdf, Ids, ListedGpu};

pub const LSTOPO: Kind = Kind {
    name: "lstopo (text)",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("HostBridge")
            || line.starts_with("PCIBridge")
            || function(line).is_some()
            || verbose(line).is_some()
            || named(line).is_some()
    },
    yields: "GPUs that NVML or CUDA drives, RDMA devices; their addresses if hwloc is 2.0 or later",
    example: "HostBridge
  PCIBridge
    PCI 0000:1a:00.0 (InfiniBand)
      Net \"ib0\"
      OpenFabrics \"mlx5_0\"
  PCIBridge
    PCI 0000:17:00.0 (3D)
      GPU(NVML) \"nvml0\"
",
    read: lstopo,
};

pub const SYSFS: Kind = Kind {
    name: "ls -l /sys/class/infiniband",
    starts: Starts::Line,
    begins: |line| link(line).is_some(),
    yields: "RDMA devices and their PCI addresses",
    example: "lrwxrwxrwx 1 root root 0 Jan  2 10:00 mlx5_0 -> ../../devices/pci0000:15/0000:15:01.0/0000:1a:00.0/infiniband/mlx5_0
",
    read: |text, recording| {
        let mut class = Class::default();
        for (name, bdf) in text.lines().filter_map(|line| link(line.trim())) {
            if let Some(device) = class.device(name) {
                class.links.push((device, bdf));
            }
        }
        recording.class(class)
    },
};

pub const IBV_DEVICES: Kind = Kind {
    name: "ibv_devices",
    starts: Starts::Output,
    begins: |line| {
        line.starts_with("device") && line.split_ascii_whitespace().eq(["device", "node", "GUID"])
    },
    yields: "RDMA devices",
    example: "    device          \t   node GUID
    ------          \t----------------
    mlx5_0          \t0123456789abcdef
",
    read: |text, recording| {
        let mut class = Class::default();
        for line in text.lines() {
            if let [name, guid] = line.split_ascii_whitespace().collect::<Vec<_>>().as_slice()
                && guid.len() == 16
                && guid.bytes().all(|byte| byte.is_ascii_hexdigit())
            {
                class.device(name);
            }
        }
        recording.class(class)
    },
};

pub const RDMA_DEV: Kind = Kind {
    name: "rdma dev",
    starts: Starts::Line,
    begins: |line| rdma_dev(line).is_some(),
    yields: "RDMA devices and their firmware",
    example: "0: mlx5_0: node_type ca fw 28.39.1002 node_guid 0123:4567:89ab:cdef sys_image_guid 0123:4567:89ab:cdef
",
    read: |text, recording| {
        let mut class = Class::default();
        for (name, words) in text.lines().filter_map(|line| rdma_dev(line.trim())) {
            let mut words = words.split_ascii_whitespace();
            let firmware = words.find(|word| *word == "fw").and_then(|_| words.next());
            if let Some(device) = class.device(name) {
                class.add_some(&device, "fw_ver", firmware);
            }
        }
        recording.class(class)
    },
};

pub const UCX_LOG: Kind = Kind {
    name: "a log of UCX",
    starts: Starts::Line,
    begins: |line| {
        let level = line.split_once(" UCX  ").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
        level.is_some_and(|level| ["TRACE", "DEBUG", "DIAG", "INFO", "WARN", "ERROR", "REQ", "FUNC"].contains(&level))
    },
    yields: "RDMA devices that UCX opened; failures: gdr explain FILE",
    example: "[1750000000.100000] [node1:100  :0]       ib_device.c:645  UCX  DEBUG initialized device 'mlx5_0' (InfiniBand channel adapter) with 1 ports
[1750000000.200000] [node1:100  :0]      ucp_worker.c:1855 UCX  INFO  ep_cfg[0]: tag(self/memory rc_mlx5/mlx5_0:1 cuda_ipc/cuda)
",
    read: ucx_log,
};

pub const NAMES: Kind = Kind {
    name: "ls /sys/class/infiniband, Open MPI's warnings",
    starts: Starts::Line,
    begins: |line| line.starts_with("Local host:") || names(line).is_some(),
    yields: "RDMA devices",
    example: "  Local host:   node1
  Local device: mlx5_0
",
    read: |text, recording| {
        let mut class = Class::default();
        let hosts = text.lines().filter_map(|line| line.trim().strip_prefix("Local host:"));
        let hosts: BTreeSet<&str> = hosts.map(str::trim).collect();
        for name in text.lines().filter_map(|line| names(line.trim())).flatten() {
            // Devices of several machines are not those of one.
            if hosts.len() > 1 {
                recording.note("Open MPI", format!("names {name} on {} machines", hosts.len()));
            } else {
                class.device(name);
            }
        }
        recording.class(class)
    },
};

pub const LSHCA: Kind = Kind {
    name: "lshca",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("Desc: Mellanox Technologies ")
            || placed(line).is_some()
            || unplaced(line).is_some()
    },
    yields: "RDMA devices and their PCI addresses; models, as remarks",
    example: "Desc: Mellanox Technologies MT2910 Family [ConnectX-7]
  PCI_addr   |    RDMA     |    Net
0000:1a:00.0 | mlx5_0      | ibp26s0
",
    read: |text, recording| {
        let mut class = Class::default();
        for line in text.lines().map(str::trim) {
            if let Some((bdf, name)) = placed(line) {
                let device = class.device(name);
                class.links.extend(device.map(|device| (device, bdf)));
            } else if let Some(name) = unplaced(line) {
                class.device(name);
            } else if let Some(model) = line.strip_prefix("Desc: ") {
                recording.note("lshca", model.to_owned());
            }
        }
        recording.class(class)
    },
};

/// The address and the device in `0000:1a:00.0 | mlx5_0 | ibp26s0`.
fn placed(line: &str) -> Option<(Bdf, &str)> {
    let mut cells = line.split('|').map(str::trim);
    let bdf = cells.next().filter(|cell| cell.len() == 12)?.parse().ok()?;
    Some((bdf, cells.next().filter(|name| is_device(name))?))
}

/// The device in `mlx5_0 |  1   | ib0 | actv`, of a view without addresses.
fn unplaced(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once('|')?;
    Some(name.trim()).filter(|name| is_device(name) && rest.contains('|'))
}

/// The devices of a line that has no other words, or only `Local device:` before.
fn names(line: &str) -> Option<Vec<&str>> {
    const KEYS: [&str; 4] = ["Local device:", "Local adapter:", "HCA:", "IB device:"];
    const MOST: usize = 64;
    let rest = KEYS.iter().find_map(|key| line.strip_prefix(key)).unwrap_or(line);
    let words = || rest.split_ascii_whitespace().take(MOST);
    (words().next().is_some() && words().all(is_device)).then(|| words().collect())
}

/// How names of RDMA devices begin, before a number.
pub const NUMBERED: [&str; 13] = [
    "mlx5_bond_",
    "mlx5_",
    "mlx4_",
    "bnxt_re_bond",
    "bnxt_re",
    "irdma",
    "efa_",
    "hfi1_",
    "qedr",
    "mana_",
    "erdma_",
    "ionic_",
    "qib",
];

/// How names begin that udev gives by place. Those of InfiniBand are names of interfaces too.
pub const PLACED: [&str; 3] = ["rocep", "rdmap", "iwp"];

/// A name that only RDMA devices have.
pub fn is_device(name: &str) -> bool {
    let number = NUMBERED.iter().find_map(|kind| name.strip_prefix(kind));
    let place = PLACED.iter().find_map(|kind| name.strip_prefix(kind));
    let is_place = |place: &str| {
        let (bus, slot) = place.split_once('s').unwrap_or_default();
        bus.parse::<u8>().is_ok()
            && slot.starts_with(|c: char| c.is_ascii_digit())
            && slot.bytes().all(|byte| byte.is_ascii_digit() || b"fdnpv".contains(&byte))
    };
    number.is_some_and(|number| number.len() <= 4 && number.parse::<u16>().is_ok())
        || place.is_some_and(is_place)
}

/// The address of a line `PCI 0000:1a:00.0 (InfiniBand)`; none in it of hwloc 1, which prints the numbers `PCI 15b3:1021`.
fn function(line: &str) -> Option<Option<Bdf>> {
    let rest = line.strip_prefix("PCI ")?;
    let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_numbers = word.len() == 9
        && word.bytes().enumerate().all(|(at, byte)| match at {
            4 => byte == b':',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_numbers && (rest.is_empty() || rest.starts_with('(')) {
        return Some(None);
    }
    let bdf = word.parse().ok().filter(|_| rest.starts_with('(') || rest.starts_with("L#"))?;
    Some(Some(bdf))
}

/// The function of `PCI L#10 (busid=0000:17:00.0 id=10de:2330 class=0302(3D) link=63.02GB/s)`, as `lstopo -v` prints it.
fn verbose(line: &str) -> Option<(Bdf, Ids)> {
    let (_, rest) = line.strip_prefix("PCI ")?.split_once("(busid=")?;
    let value = |name: &str| {
        let (_, value) = rest.split_once(name)?;
        value.split([' ', '(', ')']).next()
    };
    let bdf = rest.split(' ').next()?.parse().ok()?;
    let (vendor, device) = value(" id=")?.split_once(':')?;
    let number = |text: &str| u16::from_str_radix(text, 16).ok();
    let class = u32::from(number(value(" class=")?)?) << 8;
    Some((bdf, Ids { vendor: number(vendor)?, device: number(device), class }))
}

/// The kind and the name in `OpenFabrics L#3 "mlx5_0"`, `OpenFabrics L#3 (Port1State=4) "mlx5_0"` and `GPU(NVML) "nvml0"`.
fn named(line: &str) -> Option<(&str, &str)> {
    const KINDS: [&str; 5] = ["OpenFabrics", "GPU(NVML)", "GPU", "CoProc(CUDA)", "CoProc"];
    let (kind, rest) = line.split_once(' ').filter(|(kind, _)| KINDS.contains(kind))?;
    let rest = match rest.split_once(' ') {
        Some((number, rest)) if number.starts_with("L#") => rest,
        _ => rest,
    };
    let name = match rest.strip_prefix('(') {
        Some(attributes) => attributes.rsplit_once(") \"")?.1,
        None => rest.strip_prefix('"')?,
    };
    Some((kind, name.split('"').next()?))
}

fn lstopo(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    let mut gpus = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(bdf) = function(line) {
            last = bdf;
            continue;
        }
        if let Some((bdf, ids)) = verbose(line) {
            last = Some(bdf);
            if matches!(ids.base_class(), 0x02 | 0x03) {
                recording.function(bdf, ids);
            }
            continue;
        }
        match named(line) {
            Some(("OpenFabrics", name)) => {
                if let Some(device) = class.device(name) {
                    class.links.extend(last.map(|bdf| (device, bdf)));
                }
            }
            Some((_, name)) => {
                let number = ["nvml", "cuda"]
                    .iter()
                    .find_map(|driver| name.strip_prefix(driver)?.parse().ok());
                match (number, last) {
                    (Some(_), Some(bdf)) => recording.function(bdf, GPU),
                    (Some(number), None) => gpus.push((number, ListedGpu::default())),
                    (None, _) => {}
                }
            }
            None if line.starts_with("PCIBridge") || line.starts_with("HostBridge") => last = None,
            None => {}
        }
    }
    recording.listed(by_index(gpus));
    recording.class(class)
}

/// The device and its address in a link to its directory in sysfs.
fn link(line: &str) -> Option<(&str, Bdf)> {
    let (_, target) = line.split_once(" -> ")?;
    let (place, name) = target.trim().split_once("/infiniband/")?;
    let bdf = place.rsplit('/').next()?.parse().ok()?;
    (!name.contains('/')).then_some((name, bdf))
}

/// The device and the rest of `0: mlx5_0: node_type ca fw …`.
fn rdma_dev(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    rest.split_once(": ").filter(|(_, rest)| rest.starts_with("node_type "))
}

fn ucx_log(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    for line in text.lines() {
        let opened =
            line.split_once("initialized device '").and_then(|(_, rest)| rest.split('\'').next());
        if let Some(name) = opened {
            class.device(name);
        }
        for word in line.split([' ', '(', ')', '"', '\'', ',']) {
            let Some((transport, port)) = word.split_once('/') else { continue };
            if !["rc_", "ud_", "dc_"].iter().any(|start| transport.starts_with(start)) {
                continue;
            }
            let Some((name, number)) = port.split_once(':') else { continue };
            if number.parse::<u8>().is_ok()
                && let Some(device) = class.device(name)
            {
                class.port(&device, number);
            }
        }
    }
    recording.class(class)
}
