//! NICs as programs of their drivers and of communication libraries name them: mst, mlxconfig, ethtool -i, ucx_info, fi_info.

use super::rdma_lists::is_device;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::{Bdf, Ids};

pub const MST_STATUS: Kind = Kind {
    name: "mst status",
    starts: Starts::Line,
    begins: |line| line == "MST devices:" || is_mst_head(line),
    yields: "NICs: address, chip; with -v their RDMA devices and NUMA nodes",
    example: "DEVICE_TYPE             MST                           PCI       RDMA            NET                                     NUMA
ConnectX7(rev:0)        /dev/mst/mt4129_pciconf0      1a:00.0   mlx5_0          net-ibp26s0                             0
",
    read: mst_status,
};

pub const MLXCONFIG: Kind = Kind {
    name: "mlxconfig or mstconfig query, mlxfwmanager",
    starts: Starts::Line,
    begins: |line| {
        // mlxfwmanager writes a capital.
        let of_type =
            ["Device type:", "Device Type:"].iter().find_map(|key| line.strip_prefix(key));
        let of_type = of_type.map(str::trim);
        of_type.is_some_and(|name| name.starts_with("ConnectX") || name.starts_with("BlueField"))
    },
    yields: "addresses of NICs; without one, settings that count for GPUDirect and virtual functions, as a remark",
    example: "Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Device:             0000:1a:00.0
",
    read: |text, recording| {
        let keys = ["Device:", "PCI Device Name:"];
        let of_line = |line: &str| {
            keys.iter().find_map(|key| line.trim().strip_prefix(key)).map(str::to_owned)
        };
        let mut has_address = false;
        for line in text.lines().filter_map(of_line) {
            if let Some(bdf) = line.split_ascii_whitespace().find_map(|word| word.parse().ok()) {
                recording.function(bdf, mellanox(None));
                has_address = true;
            }
        }
        let mut settings: Vec<String> =
            text.lines().filter_map(|line| setting(line.trim())).collect();
        settings.dedup();
        if !has_address && !settings.is_empty() {
            recording.note("mlxconfig", settings.join(", "));
        }
        Ok(())
    },
};

pub const FLINT: Kind = Kind {
    name: "flint query",
    starts: Starts::Line,
    begins: |line| flint(line).is_some() || line.starts_with("Image type:") && line.contains(" FS"),
    yields: "with its command line: the address of the NIC; otherwise its board and firmware, as a remark",
    example: "mstflint -d 1a:00.0 q
Image type:            FS4
FW Version:            28.39.1002
PSID:                  MT_0000000838
",
    read: |text, recording| {
        let places: Vec<Bdf> =
            text.lines().filter_map(|line| flint(line.trim())?.parse().ok()).collect();
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.split_once(key)).map(|(_, value)| value);
            value.and_then(|value| value.split_ascii_whitespace().next())
        };
        if places.is_empty()
            && let Some(board) = value("PSID:")
        {
            let firmware = value("FW Version:").unwrap_or("unknown").trim_matches('*');
            recording
                .note("flint", format!("a NIC with the board {board} and firmware {firmware}"));
        }
        places.into_iter().for_each(|bdf| recording.function(bdf, mellanox(None)));
        Ok(())
    },
};

/// A setting of mlxconfig that counts for GPUDirect or virtual functions, and its last value: `SRIOV_EN   False(0)   True(1)`.
fn setting(line: &str) -> Option<String> {
    const SETTINGS: [&str; 8] = [
        "SRIOV_EN",
        "NUM_OF_VFS",
        "ATS_ENABLED",
        "LINK_TYPE_P1",
        "LINK_TYPE_P2",
        "PCI_WR_ORDERING",
        "P2P_ORDERING_MODE",
        "MAX_ACC_OUT_READ",
    ];
    let line = line.trim_start_matches(['*', ' ']);
    if !SETTINGS.iter().any(|name| line.starts_with(name)) {
        return None;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [name, .., value] = words.as_slice() else { return None };
    let is_value = value.ends_with(')') && value.contains('(') || value.parse::<u32>().is_ok();
    (SETTINGS.contains(name) && is_value && words.len() <= 4).then(|| format!("{name} {value}"))
}

pub fn is_setting(line: &str) -> bool {
    setting(line).is_some()
}

/// The device in `mstflint -d 1a:00.0 q`.
fn flint(line: &str) -> Option<&str> {
    let (program, rest) = line.strip_prefix("sudo ").unwrap_or(line).split_once(" -d ")?;
    let program = program.trim_end_matches(" query");
    program.ends_with("flint").then(|| rest.split(' ').next()).flatten()
}

pub const ETHTOOL: Kind = Kind {
    name: "ethtool -i",
    starts: Starts::Output,
    begins: |line| vendor_of_driver(line).is_some(),
    yields: "addresses of network controllers",
    example: "driver: mlx5_core
version: 6.8.0-45-generic
firmware-version: 28.39.1002 (MT_0000000838)
bus-info: 0000:1a:00.0
",
    read: |text, recording| {
        let vendor = text.lines().find_map(|line| vendor_of_driver(line.trim()));
        let addresses = text.lines().filter_map(|line| line.trim().strip_prefix("bus-info:"));
        for bdf in addresses.filter_map(|address| address.trim().parse().ok()) {
            let vendor = vendor.unwrap_or(Ids::MELLANOX);
            recording.function(bdf, Ids { vendor, ..mellanox(None) });
        }
        Ok(())
    },
};

/// Drivers of network controllers and the vendors of all devices that they drive.
const DRIVERS: [(&str, u16); 16] = [
    ("mlx5_core", Ids::MELLANOX),
    ("mlx5e_rep", Ids::MELLANOX),
    ("mlx4_core", Ids::MELLANOX),
    ("mlx4_en", Ids::MELLANOX),
    ("bnxt_en", 0x14e4),
    ("tg3", 0x14e4),
    ("ice", 0x8086),
    ("i40e", 0x8086),
    ("ixgbe", 0x8086),
    ("igb", 0x8086),
    ("igc", 0x8086),
    ("e1000e", 0x8086),
    ("ena", 0x1d0f),
    ("cxgb4", 0x1425),
    ("r8169", 0x10ec),
    ("ionic", 0x1dd8),
];

/// The vendor by a line `driver: mlx5_core`; an interface of InfiniBand has `mlx5_core[ib_ipoib]`.
fn vendor_of_driver(line: &str) -> Option<u16> {
    let driver = line.strip_prefix("driver: ")?;
    vendor_of(driver.strip_suffix("[ib_ipoib]").unwrap_or(driver))
}

/// The vendor of the network controllers that a driver drives.
pub fn vendor_of(driver: &str) -> Option<u16> {
    DRIVERS.iter().find(|(name, _)| *name == driver).map(|(_, vendor)| *vendor)
}

pub const UCX_INFO: Kind = Kind {
    name: "ucx_info -d",
    starts: Starts::Line,
    begins: |line| {
        let rest = line.strip_prefix('#').map(str::trim_start);
        rest.is_some_and(|rest| {
            rest.starts_with("Memory domain: ") || rest.starts_with("Transport: ")
        })
    },
    yields: "RDMA devices",
    example: "# Memory domain: mlx5_0
#      Transport: rc_mlx5
#         Device: mlx5_0:1
#           Type: network
",
    read: |text, recording| recording.class(ucx_info(text)),
};

pub const FI_INFO: Kind = Kind {
    name: "fi_info",
    starts: Starts::Line,
    begins: |line| matches!(line, "provider: efa" | "provider: verbs" | "provider: verbs;ofi_rxm"),
    yields: "RDMA devices of the providers efa and verbs",
    example: "provider: efa
    fabric: efa-direct
    domain: rdmap16s27-rdm
    version: 201.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
",
    read: |text, recording| recording.class(fi_info(text)),
};

/// A NIC of Mellanox. Which class of network controller it has is not in these texts.
pub fn mellanox(device: Option<u16>) -> Ids {
    Ids { vendor: Ids::MELLANOX, device, class: 0x02_0000 }
}

fn is_mst_head(line: &str) -> bool {
    line.starts_with("DEVICE_TYPE") && line.contains(" MST ")
}

/// The chip in `/dev/mst/mt4129_pciconf0`: its PCI device id, in decimal.
fn chip(path: &str) -> Option<u16> {
    let number = path.strip_prefix("/dev/mst/mt")?.split('_').next()?;
    number.parse().ok()
}

fn mst_status(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    let mut last = None;
    let lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    for words in lines {
        let path = words.iter().find(|word| word.starts_with("/dev/mst/"));
        last = path.and_then(|path| chip(path)).or(last);
        let address = |word: &&str| word.rsplit('=').next()?.parse::<Bdf>().ok();
        let Some((at, bdf)) =
            words.iter().enumerate().find_map(|(at, word)| Some((at, address(word)?)))
        else {
            // The address is masked.
            if let Some(name) = words.iter().find(|word| is_device(word)) {
                class.device(name);
            }
            continue;
        };
        recording.function(bdf, mellanox(last));
        if path.is_none() {
            continue;
        }
        // RDMA device, interface and NUMA node; each may be missing.
        let rest = &words[at + 1..];
        let is_name = |word: &&&str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.starts_with("net-")
        };
        if let Some(device) = rest.first().filter(is_name).and_then(|name| class.device(name)) {
            class.links.push((device, bdf));
        }
        if let Some(node) = rest.last().and_then(|word| word.parse().ok()) {
            recording.function_node(bdf, node);
        }
    }
    recording.class(class)
}

fn ucx_info(text: &str) -> Class {
    let mut class = Class::default();
    let mut is_rdma = false;
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some(transport) = line.strip_prefix("Transport: ") {
            let starts = ["rc_", "ud_", "dc_", "gga_", "srd"];
            is_rdma = starts.iter().any(|start| transport.starts_with(start));
        } else if let Some(port) = line.strip_prefix("Device: ").filter(|_| is_rdma) {
            let (name, number) = port.trim().split_once(':').unwrap_or((port.trim(), ""));
            if let Some(device) = class.device(name) {
                class.port(&device, number);
            }
        }
    }
    class
}

fn fi_info(text: &str) -> Class {
    let mut class = Class::default();
    let mut is_rdma = false;
    for line in text.lines().map(str::trim) {
        if let Some(provider) = line.strip_prefix("provider: ") {
            is_rdma = provider == "efa" || provider.starts_with("verbs");
        } else if let Some(domain) = line.strip_prefix("domain: ").filter(|_| is_rdma) {
            // libfabric names a domain by the device and the kind of endpoint.
            let ends = ["-rdm", "-dgrm", "-dgram", "-xrc"];
            let name = ends.iter().find_map(|end| domain.strip_suffix(end)).unwrap_or(domain);
            class.device(name);
        }
    }
    class
}
