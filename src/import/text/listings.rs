//! GPUs and NICs as the system lists them: device nodes, /proc/bus/pci/devices, pciconf, packages, Slurm.

use std::collections::BTreeSet;

use super::kernel_log;
use super::nccl::GPU;
use super::nic_tools::vendor_of;
use super::{Kind, Starts, by_index};
use crate::import::ImportError;
use crate::import::support::Recording;
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const NODES: Kind = Kind {
    name: "ls -l /dev/nvidia*",
    starts: Starts::Line,
    begins: |line| node(line).is_some(),
    yields: "number of the GPUs that have a device node",
    example: "crw-rw-rw- 1 root root 195,   0 Jan  2 10:00 /dev/nvidia0
crw-rw-rw- 1 root root 195, 255 Jan  2 10:00 /dev/nvidiactl
",
    read: |text, recording| {
        let numbers = text.lines().filter_map(|line| node(line.trim()));
        let gpus: Vec<_> = numbers.map(|number| (number, ListedGpu::default())).collect();
        recording.listed(by_index(gpus));
        Ok(())
    },
};

/// The number of the GPU in a line of a character device.
fn node(line: &str) -> Option<usize> {
    let name = line.strip_prefix("crw")?.rsplit_once(' ')?.1;
    let name = name.strip_prefix("/dev/").unwrap_or(name);
    line.contains(" 195,").then(|| name.strip_prefix("nvidia")?.parse().ok()).flatten()
}

pub const PROC_PCI: Kind = Kind {
    name: "/proc/bus/pci/devices",
    starts: Starts::Line,
    begins: |line| function(line).is_some(),
    yields: "functions that a driver of GPUs or NICs drives: address and numbers",
    example: "1700\t10de2330\t1b\t              90000000\t          20000000c\t                 0\t          30000000c\t                 0\t                 0\t                 0\t               1000000\t         100000000000\t                 0\t               2000000\t                 0\t                 0\t                 0\tnvidia
",
    read: |text, recording| {
        for (bdf, ids) in text.lines().filter_map(|line| function(line.trim())) {
            recording.function(bdf, ids);
        }
        Ok(())
    },
};

/// Bus and slot in four digits, vendor and device in eight, fifteen numbers, the driver.
fn function(line: &str) -> Option<(Bdf, Ids)> {
    if !line.get(4..5).is_some_and(|after| after.trim().is_empty()) {
        return None;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [place, numbers, rest @ .., driver] = words.as_slice() else { return None };
    if place.len() != 4 || numbers.len() != 8 || rest.len() != 15 {
        return None;
    }
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (place, numbers) = (hex(place)?, hex(numbers)?);
    let (bus, slot) = (place >> 8, place & 0xff);
    let bdf = format!("0000:{bus:02x}:{:02x}.{:x}", slot >> 3, slot & 7);
    let (bdf, known) = kernel_log::bound(driver, &bdf)?;
    let [vendor, device] = [numbers >> 16, numbers & 0xffff].map(|part| part as u16);
    (vendor == known.vendor).then_some((bdf, Ids { device: Some(device), ..known }))
}

pub const PCICONF: Kind = Kind {
    name: "pciconf -l",
    starts: Starts::Line,
    begins: |line| selected(line).is_some(),
    yields: "GPUs and network controllers: address and numbers",
    example: "vgapci0@pci0:23:0:0:\tclass=0x030200 rev=0xa1 hdr=0x00 vendor=0x10de device=0x2330 subvendor=0x10de subdevice=0x16c1
",
    read: |text, recording| {
        for (bdf, ids) in text.lines().filter_map(|line| selected(line.trim())) {
            if matches!(ids.base_class(), 0x02 | 0x03) {
                recording.function(bdf, ids);
            }
        }
        Ok(())
    },
};

/// `vgapci0@pci0:1:0:0: class=0x030000 … vendor=0x10de device=0x13c2`; formerly `chip=0x13c210de`.
fn selected(line: &str) -> Option<(Bdf, Ids)> {
    let (name, rest) = line.split_once("@pci")?;
    let (place, fields) = rest.split_once([' ', '\t'])?;
    let numbers: Option<Vec<u32>> =
        place.trim_end_matches(':').split(':').map(|number| number.parse().ok()).collect();
    let [domain, bus, device, function] = numbers?[..] else { return None };
    let bdf = format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}").parse().ok()?;
    let field = |key: &str| {
        let mut words = fields.split_ascii_whitespace();
        let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix("=0x"))?;
        u32::from_str_radix(value, 16).ok()
    };
    let low = |number: u32| (number & 0xffff) as u16;
    let chip = field("chip");
    let vendor = field("vendor").or(chip).map(low)?;
    let device = field("device").map(low).or(chip.map(|chip| low(chip >> 16)));
    let ids = Ids { vendor, device, class: field("class")? };
    (!name.is_empty() && !name.contains(' ')).then_some((bdf, ids))
}

pub const DEVBIND: Kind = Kind {
    name: "dpdk-devbind.py -s, lshw -businfo",
    starts: Starts::Line,
    begins: |line| driven(line).is_some() || on_bus(line).is_some(),
    yields: "network controllers and GPUs: address; by dpdk-devbind.py their numbers and NUMA nodes",
    example: "0000:1a:00.0 'MT2910 Family [ConnectX-7] 1021' numa_node=0 if=ibp26s0 drv=mlx5_core unused=vfio-pci
",
    read: |text, recording| {
        for line in text.lines().map(str::trim) {
            if let Some((bdf, ids, node)) = driven(line) {
                match ids {
                    Some(ids) => recording.function(bdf, ids),
                    None => recording.controller(bdf, false),
                }
                if let Some(node) = node {
                    recording.function_node(bdf, node);
                }
            } else if let Some((bdf, class, name)) = on_bus(line) {
                let is_nvidias = ["GeForce", "Tesla", "Quadro", "TITAN", "NVIDIA"].iter().any(|brand| name.contains(brand));
                if class == "network" {
                    recording.controller(bdf, false);
                } else if is_nvidias {
                    recording.function(bdf, GPU);
                }
            }
        }
        Ok(())
    },
};

/// `0000:04:00.0 'MT27700 Family [ConnectX-4] 1013' numa_node=0 if=enp4s0f0np0 drv=mlx5_core unused=vfio-pci`.
fn driven(line: &str) -> Option<(Bdf, Option<Ids>, Option<u32>)> {
    let (place, rest) = line.split_once(" '")?;
    let bdf = place.parse().ok()?;
    let (name, rest) = rest.split_once("' ")?;
    let field = |key: &str| rest.split_ascii_whitespace().find_map(|word| word.strip_prefix(key));
    let drivers =
        [field("drv="), field("unused=")].into_iter().flatten().flat_map(|names| names.split(','));
    let mut drivers = drivers.peekable();
    drivers.peek()?;
    let vendor = drivers.find_map(vendor_of);
    let number = name.rsplit(' ').next().filter(|number| number.len() == 4);
    let device = number.and_then(|number| u16::from_str_radix(number, 16).ok());
    let ids = vendor.map(|vendor| Ids { vendor, device, class: 0x02_0000 });
    Some((bdf, ids, field("numa_node=").and_then(|node| node.parse().ok())))
}

/// The address, the class and the name in `pci@0000:03:00.0  enp3s0  network  RTL8111 PCI Express Gigabit Ethernet Controller`.
fn on_bus(line: &str) -> Option<(Bdf, &str, &str)> {
    let (place, rest) = line.strip_prefix("pci@")?.split_once(' ')?;
    let bdf = place.parse().ok()?;
    let classes = ["network", "display"];
    let at = classes.into_iter().find_map(|class| Some((class, rest.find(&format!(" {class} "))?)));
    let (class, at) = at?;
    Some((bdf, class, rest[at..].trim()))
}

pub const UBUNTU_DRIVERS: Kind = Kind {
    name: "ubuntu-drivers devices",
    starts: Starts::Line,
    begins: |line| line.starts_with("== /sys/devices/pci") && line.ends_with(" =="),
    yields: "GPUs: address and numbers",
    example: "== /sys/devices/pci0000:15/0000:15:01.0/0000:17:00.0 ==
modalias : pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00
vendor   : NVIDIA Corporation
driver   : nvidia-driver-570-server - distro non-free recommended
",
    read: |text, recording| {
        let mut last = None;
        for line in text.lines().map(str::trim) {
            if let Some(path) = line.strip_prefix("== ").and_then(|line| line.strip_suffix(" ==")) {
                last = path.rsplit('/').next().and_then(|bdf| bdf.parse().ok());
            } else if let Some(alias) = line.split_once(": pci:v").map(|(_, alias)| alias)
                && let Some((bdf, ids)) = last.zip(of_alias(alias))
                && ids.is_nvidia_gpu()
            {
                recording.function(bdf, ids);
            }
        }
        Ok(())
    },
};

/// `000010DEd00002330sv000010DEsd000016C1bc03sc02i00`.
fn of_alias(alias: &str) -> Option<Ids> {
    let hex =
        |from: usize, length: usize| u32::from_str_radix(alias.get(from..from + length)?, 16).ok();
    let class = alias.split_once("bc").filter(|(before, _)| before.contains("sd"))?.1;
    let (base, rest) = class.split_once("sc")?;
    let byte = |text: &str| u32::from_str_radix(text.get(..2)?, 16).ok();
    Some(Ids {
        vendor: u16::try_from(hex(0, 8)?).ok()?,
        device: Some(u16::try_from(hex(9, 8)?).ok()?),
        class: byte(base)? << 16 | byte(rest)? << 8,
    })
}

pub const PACKAGES: Kind = Kind {
    name: "dpkg -l, rpm -qa",
    starts: Starts::Line,
    begins: |line| package(line).is_some(),
    yields: "installed packages of NVIDIA's driver, its fabric manager and Mellanox OFED, as remarks",
    example:
        "ii  nvidia-driver-570-server-open   570.86.15-0ubuntu1   amd64   NVIDIA driver metapackage
",
    read: |text, recording| {
        const MOST: usize = 8;
        let mut all: Vec<String> = text.lines().filter_map(|line| package(line.trim())).collect();
        all.sort();
        all.dedup();
        for package in all.into_iter().take(MOST) {
            recording.note("installed package", package);
        }
        Ok(())
    },
};

/// Beginnings of names of packages.
const OF_DRIVERS: [&str; 9] = [
    "nvidia-driver",
    "nvidia-kernel-source",
    "nvidia-compute-utils",
    "nvidia-utils",
    "nvidia-fabricmanager",
    "kmod-nvidia",
    "dkms-nvidia",
    "mlnx-ofed-kernel",
    "nvidia-dkms",
];

/// An installed package of a line `ii  NAME  VERSION  ARCHITECTURE  WORDS` of dpkg, or `NAME-VERSION.ARCHITECTURE` of rpm.
fn package(line: &str) -> Option<String> {
    let is_one = |name: &str| OF_DRIVERS.iter().any(|begin| name.starts_with(begin));
    if !line.starts_with("ii ") && !is_one(line) {
        return None;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
    match words.as_slice() {
        ["ii", name, version, _]
            if is_one(name) && version.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            Some(format!("{name} {version}"))
        }
        [name]
            if is_one(name)
                && (name.ends_with(".x86_64")
                    || name.ends_with(".noarch")
                    || name.ends_with(".aarch64")) =>
        {
            Some((*name).to_owned())
        }
        _ => None,
    }
}

pub const SLURM: Kind = Kind {
    name: "scontrol show node",
    starts: Starts::Line,
    begins: |line| line.starts_with("NodeName=") && line.contains("Arch=") || gres(line).is_some(),
    yields: "number of the GPUs of one node, as Slurm counts them",
    example: "NodeName=node1 Arch=x86_64 CoresPerSocket=48
   Gres=gpu:h100:2(S:0-1)
",
    read: slurm,
};

/// The count in `Gres=gpu:h100:8(S:0-1)`; parts of one GPU have other names.
fn gres(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("Gres=gpu:")?;
    let rest = rest.split(['(', ',']).next()?;
    rest.rsplit(':').next()?.parse().ok()
}

fn slurm(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let lines = || text.lines().map(str::trim);
    let names = lines().filter_map(|line| line.strip_prefix("NodeName=")?.split(' ').next());
    let names: BTreeSet<&str> = names.collect();
    let counts: BTreeSet<usize> = lines().filter_map(gres).collect();
    // GPUs of several nodes are not those of one.
    if let (Some(count), 1, 0..=1) = (counts.first(), counts.len(), names.len()) {
        recording.listed(vec![ListedGpu::default(); (*count).min(MAX_GPUS)]);
    }
    Ok(())
}

pub const UNADDRESSED: Kind = Kind {
    name: "lspci without its addresses, as of cut or of a script for IOMMU groups",
    starts: Starts::Line,
    begins: |line| unaddressed(line).is_some(),
    yields: "models of NVIDIA's GPUs; NICs of Mellanox, as remarks",
    example: "3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
",
    read: |text, recording| {
        let mut gpus = Vec::new();
        let mut nics = BTreeSet::new();
        // Behind an empty line the same list may stand again.
        let list = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        for (is_gpu, model) in list.filter_map(unaddressed) {
            if is_gpu {
                let model = Some(model.to_owned());
                gpus.push(ListedGpu { model, ..ListedGpu::default() });
            } else {
                nics.insert(model);
            }
        }
        gpus.truncate(MAX_GPUS);
        recording.listed(gpus);
        nics.into_iter().for_each(|model| recording.note("lspci", format!("a NIC: {model}")));
        Ok(())
    },
};

/// What stands behind an address of which people masked a part: `xx:00.0`, `0000:##:00.0`, `**:**.*`.
fn behind_mask(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(' ')?;
    let is_mask = |byte: u8| b"xX#*?_".contains(&byte);
    let fits = address
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte) || is_mask(byte));
    (fits && address.contains(':') && address.bytes().any(is_mask)).then_some(rest)
}

/// Whether a line of lspci without its address is of a GPU, and its model.
fn unaddressed(line: &str) -> Option<(bool, &str)> {
    const CLASSES: [(&str, &str, bool); 5] = [
        ("3D controller", "NVIDIA Corporation ", true),
        ("VGA compatible controller", "NVIDIA Corporation ", true),
        ("Infiniband controller", "Mellanox Technologies ", false),
        ("InfiniBand controller", "Mellanox Technologies ", false),
        ("Ethernet controller", "Mellanox Technologies ", false),
    ];
    let line = behind_mask(line).unwrap_or(line);
    let (rest, vendor, is_gpu) = CLASSES
        .iter()
        .find_map(|(class, vendor, is_gpu)| Some((line.strip_prefix(class)?, vendor, *is_gpu)))?;
    let (number, rest) = rest.split_once(": ")?;
    let is_number = number.is_empty() || number.starts_with(" [") && number.len() == 7;
    let name = rest.strip_prefix(vendor).filter(|_| is_number)?;
    let name = name.split(" (rev ").next()?.trim_end();
    // The numbers of `-nn`.
    let numbers = |text: &str| text.len() == 9 && text.find(':') == Some(4);
    let bare = name.strip_suffix(']').and_then(|name| name.rsplit_once(" ["));
    let name = bare.filter(|(_, last)| numbers(last)).map_or(name, |(before, _)| before);
    Some((is_gpu, name)).filter(|(_, name)| !name.is_empty() && name.len() < 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_addresses() {
        for (line, expected) in [
            (
                "VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)",
                Some((true, "AD102 [GeForce RTX 4090]")),
            ),
            ("3D controller [0302]: NVIDIA Corporation Device [10de:2330]", Some((true, "Device"))),
            (
                "Ethernet controller [0200]: Mellanox Technologies MT2892 Family [ConnectX-6 Dx] [15b3:101d]",
                Some((false, "MT2892 Family [ConnectX-6 Dx]")),
            ),
            ("xx:00.0 VGA compatible controller: NVIDIA Corporation AD104", Some((true, "AD104"))),
            ("3D controller: the one of NVIDIA Corporation", None),
            ("VGA compatible controller [AMD/ATI]: NVIDIA Corporation X", None),
            ("Ethernet controller: Intel Corporation I210", None),
        ] {
            assert_eq!(unaddressed(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_of_listings() {
        assert_eq!(node("crw-rw-rw- 1 root root 195, 1 Jan  2 10:00 nvidia1"), Some(1));
        assert_eq!(node("crw-rw-rw- 1 root root 195, 255 Jan  2 10:00 /dev/nvidiactl"), None);
        assert_eq!(node("crw-rw-rw- 1 root root 507, 0 Jan  2 10:00 /dev/nvidia0"), None);
        let (bdf, ids) = function(PROC_PCI.example.trim()).expect("a function");
        assert_eq!((bdf.to_string().as_str(), ids.device), ("0000:17:00.0", Some(0x2330)));
        let audio = PROC_PCI.example.replace("nvidia", "snd_hda_intel");
        assert!(function(audio.trim()).is_none());
        let old = "vgapci0@pci0:1:0:0:\tclass=0x030000 card=0x1 chip=0x13c210de rev=0xa1 hdr=0x00";
        assert_eq!(
            selected(old).map(|(_, ids)| (ids.vendor, ids.device)),
            Some((0x10de, Some(0x13c2)))
        );
        let (_, ids, node) = driven(DEVBIND.example.trim()).expect("a function");
        assert_eq!(
            (ids.map(|ids| (ids.vendor, ids.device)), node),
            (Some((0x15b3, Some(0x1021))), Some(0))
        );
        let unbound = "0000:02:00.0 'Ethernet Controller 10G X550T 1563' numa_node=0 drv=vfio-pci unused=ixgbe";
        assert_eq!(driven(unbound).and_then(|(_, ids, _)| Some(ids?.vendor)), Some(0x8086));
        let line = "pci@0000:03:00.0  enp3s0      network        RTL8111/8168/8411 Controller";
        assert_eq!(
            on_bus(line).map(|(bdf, class, _)| (bdf.to_string(), class)),
            Some(("0000:03:00.0".to_owned(), "network"))
        );
        assert_eq!(on_bus("pci@0000:00:1c.0  bridge  PCI bridge").map(|(_, class, _)| class), None);
        assert_eq!(gres("Gres=gpu:h100:8(S:0-1)"), Some(8));
        assert_eq!(gres("Gres=(null)"), None);
        for line in ["ii  nvidia-driver-440 440.44-1 amd64 x", "nvidia-driver-390.25-1.fc27.x86_64"]
        {
            assert!(package(line).is_some(), "{line}");
        }
        for line in [
            "un  nvidia-driver-binary  <none> <none> x",
            "rc  nvidia-utils-450 450.1 amd64 x",
            "nvidia-driver-440",
        ] {
            assert!(package(line).is_none(), "{line}");
        }
    }
}
