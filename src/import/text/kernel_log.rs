//! Kernel logs, by dmesg or journalctl: what they state of the boot and the driver. Failures in them are `gdr explain`'s.

use std::collections::{BTreeMap, BTreeSet};

use super::nccl::GPU;
use super::nic_tools::{mellanox, vendor_of};
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::find;
use crate::import::support::{Class, Recording};
use crate::model::{Bdf, Ids, ListedGpu};

pub const KERNEL_LOG: Kind = Kind {
    name: "kernel log (dmesg, journalctl -k)",
    starts: Starts::Line,
    begins: |line| {
        is_timed(line)
            || is_decoded(line)
            || find::has(line, " kernel: ")
            || line.starts_with("mlx5_core 0000:")
            || line.starts_with("NVRM: ")
            || find::has(line, " NVRM: Xid (")
            || find::has(line, "XID ") && line.contains(" detected on ")
            || line.starts_with("kernel: ")
            || line.starts_with("nvidia-modeset: ")
            || line.starts_with("[drm] [nvidia-drm] ")
            || line.split_once(' ').is_some_and(|(driver, rest)| bound(driver, rest).is_some())
            || line.starts_with("iommu: Default domain type")
    },
    yields: "kernel, its command line, the default IOMMU domain and the version of the NVIDIA driver; GPUs and NICs that it names; Xids, as \
             remarks; failures: gdr explain FILE",
    example: "[    0.000000] Linux version 6.8.0-45-generic (buildd@host) (gcc 13.2.0) #45-Ubuntu SMP
[    0.000000] Command line: BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/sda1 iommu=pt
[   12.345678] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Thu Feb 22 01:44:30 UTC 2024
",
    read,
};

/// `[   12.345678] message`, or `[Sun Feb 23 16:24:18 2025] message` of dmesg -T. The priority `<6>` may stand before it.
fn is_timed(line: &str) -> bool {
    let priority = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let line = match priority {
        Some((digits, rest)) if digits.parse::<u8>().is_ok() => rest,
        _ => line,
    };
    let Some((time, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let is_uptime = time.trim().split_once('.').is_some_and(|(seconds, fraction)| {
        fraction.len() == 6 && seconds.parse::<u64>().is_ok() && fraction.parse::<u32>().is_ok()
    });
    let is_date = || {
        let words: Vec<&str> = time.split_ascii_whitespace().collect();
        matches!(words.as_slice(), [day, month, _, time, year]
            if day.len() == 3 && month.len() == 3 && time.matches(':').count() == 2 && year.parse::<u32>().is_ok())
    };
    // Other programs print another bracket behind the time.
    let is_other = rest.starts_with(" [") && !rest.starts_with(" [drm");
    rest.starts_with(' ') && !is_other && (is_uptime || is_date())
}

/// `kern  :warn  : message` of dmesg --decode.
fn is_decoded(line: &str) -> bool {
    let word = |text: &str| {
        let text = text.trim_end();
        !text.is_empty() && text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let mut parts = line.splitn(3, ':');
    let facilities = ["kern", "user", "daemon", "syslog"];
    parts.next().is_some_and(|facility| facilities.contains(&facility.trim_end()))
        && parts.next().is_some_and(word)
        && parts.next().is_some_and(|rest| rest.starts_with(' '))
}

/// A log may have several boots and drivers: what it states differently is unknown.
fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut lines = [Once::default(), Once::default(), Once::default(), Once::default()];
    let mut devices = Devices::default();
    let mut above = "";
    for line in text.lines() {
        recording.kernel_line(line);
        if let Some(version) = mismatched(above, line) {
            let message = format!(
                "API mismatch: the driver's libraries are not of the version {version} of the kernel module"
            );
            recording.note("kernel log", message);
        }
        above = line;
        devices.read(line);
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim());
        if let Some(rest) = after("Linux version ") {
            lines[0].add(rest.split(' ').next().unwrap_or_default());
        } else if let Some(rest) = after("] Command line: ").or(after("kernel: Command line: ")) {
            lines[1].add(rest);
        } else if let Some(rest) = after("NVRM: loading ") {
            lines[2].add(rest);
        } else if let Some(rest) = after("nvidia-modeset: Loading NVIDIA ") {
            // The same package has all modules.
            let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
            lines[3].add(rest.split_ascii_whitespace().find(is_version).unwrap_or_default());
        }
    }
    devices.record(recording)?;
    let [release, command_line, module, modeset] = lines;
    if let Some(release) = release.only() {
        recording.pasted_file("/proc/sys/kernel/osrelease", release)?;
    }
    if let Some(line) = command_line.only() {
        recording.pasted_file("/proc/cmdline", format!("{line}\n"))?;
    }
    if module.value.is_some() {
        let Some(module) = module.only() else { return Ok(()) };
        recording.pasted_file("/proc/driver/nvidia/version", format!("NVRM version: {module}\n"))
    } else if let Some(version) = modeset.only() {
        recording.pasted_file("/sys/module/nvidia/version", format!("{version}\n"))
    } else {
        Ok(())
    }
}

/// The version of the module in `NVRM: this kernel module has the version 530.30.02.  Please`; newer drivers break the line before it.
fn mismatched<'a>(above: &str, line: &'a str) -> Option<&'a str> {
    let at_once = line.split_once("this kernel module has the version ");
    let is_below = above.trim_end().ends_with("this kernel module has");
    let below = || line.split_once("NVRM: the version ").filter(|_| is_below);
    let (_, rest) = at_once.or_else(below)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let version = rest[..end].trim_end_matches('.');
    version.contains('.').then_some(version)
}

/// A value that all lines agree on.
#[derive(Default)]
struct Once {
    value: Option<String>,
    differs: bool,
}

impl Once {
    fn add(&mut self, value: &str) {
        match &self.value {
            Some(known) => self.differs |= known != value,
            None => self.value = Some(value.to_owned()),
        }
    }

    fn only(self) -> Option<String> {
        self.value.filter(|value| !self.differs && !value.is_empty())
    }
}

/// The devices that lines name, and the Xids.
#[derive(Default)]
struct Devices {
    functions: BTreeMap<Bdf, Ids>,
    /// RDMA devices.
    class: Class,
    /// The lines of each Xid, by number and GPU.
    xids: BTreeMap<(Bdf, u32), usize>,
    /// Minor numbers of GPUs without addresses.
    minors: BTreeSet<u32>,
}

impl Devices {
    fn read(&mut self, line: &str) {
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
        if let Some((bdf, rest)) = after("NVRM: Xid (").and_then(xid) {
            self.add(bdf, GPU);
            // The number stands before a comma, a blank or the end.
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            if let Ok(number) = digits.parse() {
                *self.xids.entry((bdf, number)).or_default() += 1;
            }
            return;
        }
        const MARKS: [&str; 7] = [
            // gpud words an Xid so.
            " detected on GPU PCI:",
            " detected on PCI:",
            "NVRM: GPU at PCI:",
            "NVRM: GPU at ",
            "NVRM: GPU ",
            "NVRM: The NVIDIA GPU ",
            "nvidia: probe of ",
        ];
        if let Some(bdf) =
            MARKS.into_iter().find_map(after).and_then(address).or_else(|| graphics(line))
        {
            self.add(bdf, GPU);
        } else if let Some(rest) = after("mlx5_core ")
            && let Some(bdf) = address(rest)
        {
            self.add(bdf, mellanox(None));
            let name = rest.split_ascii_whitespace().nth(1).and_then(|word| word.strip_suffix(':'));
            let name = name.filter(|name| {
                let number = name.strip_prefix("mlx5_");
                number.is_some_and(|number| number.parse::<u16>().is_ok())
            });
            if let Some(device) = name.and_then(|name| self.class.device(name)) {
                self.class.links.push((device, bdf));
            }
        } else if let Some((bdf, ids)) = after("pci ").and_then(enumerated) {
            self.add(bdf, ids);
        } else {
            let minor = after("device minor number ").or(after("bearing minor number "));
            let minor = minor
                .filter(|_| line.contains("NVRM: "))
                .and_then(|rest| rest.split([' ', ')']).next());
            self.minors.extend(minor.and_then(|number| number.parse::<u32>().ok()));
            self.bound(line);
        }
    }

    /// The function behind the name of a driver of GPUs or NICs: `igb 0000:07:00.0 eno2: …`.
    fn bound(&mut self, line: &str) {
        for (at, _) in line.match_indices(' ').take(MAX_WORDS) {
            let driver = line[..at].rsplit(' ').next().unwrap_or_default();
            if let Some((bdf, ids)) = bound(driver, &line[at + 1..]) {
                self.add(bdf, ids);
                return;
            }
        }
    }

    fn add(&mut self, bdf: Bdf, ids: Ids) {
        let known = self.functions.entry(bdf).or_insert(ids);
        if known.device.is_none() {
            *known = ids;
        }
    }

    fn record(self, recording: &mut Recording) -> Result<(), ImportError> {
        if self.functions.is_empty() {
            recording.listed(vec![ListedGpu::default(); self.minors.len()]);
        }
        for (bdf, ids) in self.functions {
            recording.function(bdf, ids);
        }
        for ((bdf, number), lines) in self.xids {
            let times = if lines > 1 { format!(" in {lines} lines") } else { String::new() };
            let message = format!(
                "Xid {number} of the GPU {bdf}{times}: gdr explain FILE says what it means"
            );
            recording.note("kernel log", message);
        }
        recording.class(self.class)
    }
}

/// A driver stands behind the time, the host and the program at most.
const MAX_WORDS: usize = 8;

/// The function that a driver of GPUs or NICs names itself with.
pub fn bound(driver: &str, rest: &str) -> Option<(Bdf, Ids)> {
    let ids = match driver {
        "nvidia" | "nouveau" => GPU,
        _ => Ids { vendor: vendor_of(driver)?, ..mellanox(None) },
    };
    let word = rest.split(' ').next().filter(|word| word.contains('.'))?;
    Some((address(word)?, ids))
}

/// The GPU in lines of nvidia-modeset and nvidia-drm, and of the module that finds no BAR.
fn graphics(line: &str) -> Option<Bdf> {
    let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
    if let Some(rest) = after("[nvidia-drm] [GPU ID 0x") {
        let id = u32::from_str_radix(rest.split(']').next()?, 16).ok()?;
        // Domain, bus and device (open-gpu-kernel-modules 595, gpuGenerate32BitId in src/nvidia/src/kernel/gpu/gpu.c). The GPU of a
        // system on a chip has no bus.
        let (domain, bus, device) = (id >> 16, id >> 8 & 0xff, id & 0xff);
        return format!("{domain:04x}:{bus:02x}:{device:02x}.0").parse().ok().filter(|_| bus > 0);
    }
    let place = after("Initialized nvidia-drm ").and_then(|rest| Some(rest.split_once(" for ")?.1));
    let place =
        place.or_else(|| Some(after("nvidia-modeset: Allocated GPU:")?.split_once("@ PCI:")?.1));
    let place = place.or_else(|| Some(after("NVRM: BAR")?.split_once("(PCI:")?.1));
    place.and_then(address)
}

/// `PCI:0000:9b:00): 119, …`, or without `PCI:` of old drivers; and what follows the address.
fn xid(text: &str) -> Option<(Bdf, &str)> {
    let (bdf, rest) = text.split_once("): ")?;
    Some((address(bdf.strip_prefix("PCI:").unwrap_or(bdf))?, rest))
}

/// An address at the start, perhaps without the function.
fn address(text: &str) -> Option<Bdf> {
    let end = text.find(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'));
    let text = text[..end.unwrap_or(text.len())].trim_end_matches(':');
    match text.matches(':').count() {
        2 if text.contains('.') => text.parse().ok(),
        2 => format!("{text}.0").parse().ok(),
        _ => None,
    }
}

/// `0000:17:00.0: [10de:2330] type 00 class 0x030200 …`: GPUs and NICs.
fn enumerated(text: &str) -> Option<(Bdf, Ids)> {
    let bdf = address(text)?;
    let (_, rest) = text.split_once(": [")?;
    let (numbers, rest) = rest.split_once(']')?;
    let (vendor, device) = numbers.split_once(':')?;
    let (_, class) = rest.split_once(" class 0x")?;
    let hex = |text: &str| u16::from_str_radix(text, 16).ok();
    let class = u32::from_str_radix(class.get(..6)?, 16).ok()?;
    let ids = Ids { vendor: hex(vendor)?, device: Some(hex(device)?), class };
    let is_nic = ids.vendor == Ids::MELLANOX && ids.base_class() == 0x02;
    (ids.is_nvidia_gpu() || is_nic).then_some((bdf, ids))
}
