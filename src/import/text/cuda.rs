//! GPUs as programs that use them print them: samples of CUDA, gdrcopy, TensorFlow, llama.cpp, gpustat, vulkaninfo; and the
//! environment that PyTorch, sglang and lmdeploy print.

use super::by_index;
use super::nccl::GPU;
use super::programs;
use super::smi::Log;
use super::{Kind, Starts, summary};
use crate::import::ImportError;
use crate::import::support::Recording;
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const PROGRAMS: Kind = Kind {
    name: "deviceQuery, p2pBandwidthLatencyTest, nvbandwidth, gdrcopy, TensorFlow, llama.cpp, GROMACS, LAMMPS, numba, gpustat, nvtop",
    starts: Starts::Line,
    begins: |line| {
        device(line).is_some()
            || found(line).is_some()
            || bus(line).is_some()
            || columns(line).is_some()
            || programs::is_matrix(line)
    },
    yields: "GPUs that the program sees: model, and address where it prints one; of matrices of bandwidth their number",
    example: "Device: 0, NVIDIA H100 80GB HBM3, pciBusID: 17, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA H100 80GB HBM3, pciBusID: 2a, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
",
    read: of_programs,
};

pub const MONITOR: Kind = Kind {
    name: "nvidia-smi dmon, nvidia-smi pmon",
    starts: Starts::Line,
    begins: |line| monitor(line).is_some(),
    yields: "number of the GPUs",
    example: "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0    71    33     -     0     0     0     0  2619  1980
    1    70    31     -     0     0     0     0  2619  1980
",
    read: |text, recording| {
        let column = text.lines().find_map(|line| monitor(line.trim()));
        let rows = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let number = |line: &str| line.split_ascii_whitespace().nth(column?)?.parse().ok();
        recording.listed(by_index(
            rows.filter_map(number).map(|at| (at, ListedGpu::default())).collect(),
        ));
        Ok(())
    },
};

pub const VULKANINFO: Kind = Kind {
    name: "vulkaninfo",
    starts: Starts::Line,
    begins: |line| value(line, "vendorID").is_some(),
    yields: "NVIDIA's GPUs: model, and address where it is printed",
    example: "\tvendorID          = 0x10de
\tdeviceID          = 0x2330
\tdeviceType        = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName        = NVIDIA H100 80GB HBM3
\tpciDomain   = 0
\tpciBus      = 23
\tpciDevice   = 0
\tpciFunction = 0
",
    read: |text, recording| {
        vulkaninfo(text, recording);
        Ok(())
    },
};

pub const ENVIRONMENT: Kind = Kind {
    name: "PyTorch's collect_env, check_env of sglang and lmdeploy",
    starts: Starts::Line,
    begins: |line| driver(line).is_some() || numbered(line).is_some(),
    yields: "version of the driver; models of the GPUs",
    example: "GPU 0,1: NVIDIA H100 80GB HBM3
CUDA Driver Version: 570.86.15
",
    read: |text, recording| {
        let mut gpus = Vec::new();
        for (numbers, model) in text.lines().filter_map(|line| numbered(line.trim())) {
            let gpu = ListedGpu { model: Some(model.to_owned()), ..ListedGpu::default() };
            gpus.extend(numbers.into_iter().map(|number| (number, gpu.clone())));
        }
        recording.listed(by_index(gpus));
        let Some(version) = text.lines().find_map(|line| driver(line.trim())) else {
            return Ok(());
        };
        let mut log = Log::default();
        log.head("Driver Version", version);
        recording.smi(&log.finish(None))
    },
};

/// A GPU in a line.
#[derive(Debug, PartialEq)]
struct Device<'a> {
    number: usize,
    model: &'a str,
    bdf: Option<Bdf>,
}

fn device(line: &str) -> Option<Device<'_>> {
    let found = of_latency_test(line)
        .or_else(|| of_query(line))
        .or_else(|| of_tensorflow(line))
        .or_else(|| of_gdrcopy(line))
        .or_else(|| of_main_device(line))
        .or_else(|| of_gpustat(line))
        .or_else(|| {
            let (number, model, bdf) = programs::device(line)?;
            Some(Device { number, model, bdf })
        })?;
    // HIP programs print the same lines.
    let is_other = ["AMD ", "Radeon", "gfx"].iter().any(|begin| found.model.starts_with(begin));
    (!is_other && !found.model.is_empty() && found.number < MAX_GPUS).then_some(found)
}

/// `Device: 0, NVIDIA H100, pciBusID: 17, pciDeviceID: 0, pciDomainID:0`; the numbers are hexadecimal.
fn of_latency_test(line: &str) -> Option<Device<'_>> {
    let (number, rest) = line.strip_prefix("Device: ")?.split_once(", ")?;
    let (model, rest) = rest.split_once(", pciBusID: ")?;
    let (bus, rest) = rest.split_once(", pciDeviceID: ")?;
    let (device, domain) = rest.split_once(", pciDomainID:")?;
    let hex = |text: &str| u32::from_str_radix(text.trim(), 16).ok();
    let bdf = bdf(hex(domain)?, hex(bus)?, hex(device)?);
    Some(Device { number: number.parse().ok()?, model, bdf })
}

/// `Device 0: "NVIDIA H100"` of deviceQuery; `Device 0: NVIDIA H100, compute capability 9.0, VMM: yes` of llama.cpp.
fn of_query(line: &str) -> Option<Device<'_>> {
    let (number, rest) = line.strip_prefix("Device ")?.split_once(": ")?;
    let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let model = quoted.or_else(|| Some(rest.split_once(", compute capability ")?.0))?;
    Some(Device { number: number.parse().ok()?, model, bdf: None })
}

/// `… -> device: 0, name: NVIDIA H100, pci bus id: 0000:17:00.0, compute capability: 9.0`.
fn of_tensorflow(line: &str) -> Option<Device<'_>> {
    let (_, rest) = line.split_once("device: ")?;
    let (number, rest) = rest.split_once(", name: ")?;
    let (model, rest) = rest.split_once(", pci bus id: ")?;
    let bdf = rest.split([',', ')']).next()?.trim();
    Some(Device { number: number.parse().ok()?, model, bdf: bdf.parse().ok() })
}

/// The number in `… Found device 0 with properties:` of TensorFlow; the model and the address stand on the lines below.
fn found(line: &str) -> Option<usize> {
    line.split_once("] Found device ")?.1.split_once(" with properties")?.0.parse().ok()
}

/// The address and the model in `pciBusID: 0000:17:00.0 name: NVIDIA H100 computeCapability: 9.0`; formerly the model stands above.
fn bus(line: &str) -> Option<(Bdf, Option<&str>)> {
    let rest = line.strip_prefix("pciBusID: ")?;
    let (bdf, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let model = rest.strip_prefix("name: ").and_then(|rest| rest.split_once(" computeCapability"));
    Some((bdf.parse().ok()?, model.map(|(model, _)| model)))
}

/// `ggml_cuda_set_main_device: using device 0 (NVIDIA A40) as main device` of older versions of llama.cpp.
fn of_main_device(line: &str) -> Option<Device<'_>> {
    let (number, rest) = line.split_once(": using device ")?.1.split_once(" (")?;
    let model = rest.split_once(") as main device")?.0;
    Some(Device { number: number.parse().ok()?, model, bdf: None })
}

/// `GPU id:0; name: NVIDIA H100; Bus id: 0000:17:00`, formerly `GPU id:0 name:Tesla K80 PCI domain: 0 bus: 0 device: 4`.
fn of_gdrcopy(line: &str) -> Option<Device<'_>> {
    let rest = line.strip_prefix("GPU id:")?;
    let (number, rest) = rest.split_once([';', ' '])?;
    let rest = rest.trim_start().strip_prefix("name:")?;
    let number = number.trim().parse().ok()?;
    if let Some((model, bus)) = rest.split_once("; Bus id: ") {
        let bus = bus.split_ascii_whitespace().next()?;
        let bdf = bus.parse().or_else(|_| format!("{bus}.0").parse()).ok();
        return Some(Device { number, model: model.trim(), bdf });
    }
    let (model, rest) = rest.split_once(" PCI domain: ")?;
    let (domain, rest) = rest.split_once(" bus: ")?;
    let (bus, device) = rest.split_once(" device: ")?;
    let decimal = |text: &str| text.trim().parse().ok();
    Some(Device {
        number,
        model: model.trim(),
        bdf: bdf(decimal(domain)?, decimal(bus)?, decimal(device)?),
    })
}

/// `[0] NVIDIA H100 80GB HBM3 | 35°C,   0 % |  1234 / 81559 MB |`; older versions print `35'C`.
fn of_gpustat(line: &str) -> Option<Device<'_>> {
    let (number, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (model, rest) = rest.split_once('|')?;
    let degrees = rest.trim_start().split(['\'', '°']).next()?;
    let is_degrees = !degrees.is_empty()
        && degrees.bytes().all(|byte| byte.is_ascii_digit())
        && rest.contains("C,");
    Some(Device {
        number: number.parse().ok().filter(|_| is_degrees)?,
        model: model.trim(),
        bdf: None,
    })
}

fn bdf(domain: u32, bus: u32, device: u32) -> Option<Bdf> {
    format!("{domain:04x}:{bus:02x}:{device:02x}.0").parse().ok()
}

/// The address that deviceQuery prints below a device, in decimal: `Device PCI Domain ID / Bus ID / location ID:   0 / 23 / 0`.
fn address_below(line: &str) -> Option<Bdf> {
    let (name, numbers) = line.strip_prefix("Device PCI ")?.split_once(':')?;
    let numbers: Vec<u32> =
        numbers.split('/').filter_map(|number| number.trim().parse().ok()).collect();
    match (name, numbers.as_slice()) {
        ("Domain ID / Bus ID / location ID", [domain, bus, device]) => bdf(*domain, *bus, *device),
        ("Bus ID / PCI location ID", [bus, device]) => bdf(0, *bus, *device),
        _ => None,
    }
}

/// The number of columns of a matrix of bandwidth or latency: `D\D     0      1`.
fn columns(line: &str) -> Option<usize> {
    let words =
        line.strip_prefix("D\\D ").or(line.strip_prefix("Dir\\D "))?.split_ascii_whitespace();
    let numbers: Option<Vec<usize>> = words.map(|word| word.parse().ok()).collect();
    let count = numbers.filter(|numbers| numbers.iter().copied().eq(0..numbers.len()))?.len();
    (1..=MAX_GPUS).contains(&count).then_some(count)
}

fn of_programs(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut devices: Vec<Device<'_>> = Vec::new();
    let (mut number, mut model) = (None, None);
    for line in text.lines().map(str::trim).flat_map(programs::side_by_side) {
        let of_line = device(line).or_else(|| {
            let (bdf, named) = bus(line)?;
            let number = number.take().unwrap_or(devices.len());
            Some(Device {
                number,
                model: named.or(model.take()).unwrap_or_default(),
                bdf: Some(bdf),
            })
        });
        number = found(line).or(number);
        model = line
            .strip_prefix("name: ")
            .and_then(|rest| Some(rest.split_once(" major: ")?.0))
            .or(model);
        if let Some(found) = of_line {
            if !devices.iter().any(|known| known.number == found.number && known.bdf == found.bdf) {
                devices.push(found);
            }
        } else if let Some(bdf) = address_below(line)
            && let Some(last) = devices.last_mut()
        {
            last.bdf = last.bdf.or(Some(bdf));
        }
    }
    let mut located: Vec<(Bdf, &str)> =
        devices.iter().filter_map(|device| Some((device.bdf?, device.model))).collect();
    if located.len() == devices.len() && !devices.is_empty() {
        // CUDA may number the fastest GPU first, nvidia-smi numbers by address.
        located.sort_unstable();
        located.dedup_by_key(|(bdf, _)| *bdf);
        recording.listed(located.iter().map(|(_, model)| listed_gpu(model)).collect());
        located.iter().for_each(|(bdf, _)| recording.function(*bdf, GPU));
        return Ok(());
    }
    let is_same = devices.windows(2).all(|pair| pair[0].model == pair[1].model);
    let gpu =
        |device: &Device<'_>| (device.number, listed_gpu(if is_same { device.model } else { "" }));
    let mut listed: Vec<(usize, ListedGpu)> = devices.iter().map(gpu).collect();
    if listed.is_empty() {
        let count = text.lines().filter_map(|line| columns(line.trim())).max().unwrap_or(0);
        let count = count.max(programs::below_matrix(text.lines().map(str::trim)));
        listed = (0..count).map(|at| (at, ListedGpu::default())).collect();
    }
    recording.listed(by_index(listed));
    Ok(())
}

fn listed_gpu(model: &str) -> ListedGpu {
    ListedGpu {
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        ..ListedGpu::default()
    }
}

/// The column of the GPU's number in a head of dmon or pmon, which may begin with the date and the time.
fn monitor(line: &str) -> Option<usize> {
    // Markdown needs a mark before it.
    let line = line.strip_prefix('\\').unwrap_or(line);
    let words: Vec<&str> = line.strip_prefix('#')?.split_ascii_whitespace().collect();
    let at = words.iter().position(|word| *word == "gpu")?;
    let next = words.get(at + 1)?;
    (at <= 2
        && ["pwr", "sm", "pid", "mclk", "rxpci", "fb", "pviol", "temp", "sbecc"].contains(next))
    .then_some(at)
}

/// The value in `vendorID       = 0x10de`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once('=')?;
    (key.trim() == name).then(|| value.trim())
}

fn vulkaninfo(text: &str, recording: &mut Recording) {
    let mut listed = Vec::new();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &&str| value(line, "vendorID").is_some();
    let mut rest = lines.as_slice();
    while let Some(at) = rest.iter().position(begins) {
        let length = rest[at + 1..].iter().position(begins).unwrap_or(rest.len() - at - 1);
        let (own, below) = rest[at..].split_at(length + 1);
        rest = below;
        let of = |name: &str| own.iter().find_map(|line| value(line, name));
        let number = |name: &str| of(name)?.parse::<u32>().ok();
        if of("vendorID") != Some("0x10de") {
            continue;
        }
        let place = number("pciDomain").zip(number("pciBus")).zip(number("pciDevice"));
        match place.and_then(|((domain, bus), device)| bdf(domain, bus, device)) {
            Some(bdf) => {
                let device = of("deviceID")
                    .and_then(|id| u16::from_str_radix(id.strip_prefix("0x")?, 16).ok());
                recording.function(bdf, Ids { vendor: Ids::NVIDIA, device, class: 0x03_0000 });
            }
            None => listed.push(ListedGpu {
                model: of("deviceName").map(str::to_owned),
                ..ListedGpu::default()
            }),
        }
    }
    recording.listed(listed);
}

/// The version in `Nvidia driver version: 570.86.15` and `CUDA Driver Version: 570.86.15`.
fn driver(line: &str) -> Option<&str> {
    let (key, version) = line.split_once(':')?;
    let version = version.split_ascii_whitespace().next()?.trim_end_matches([':', '.', ',', ';']);
    let is_version =
        version.contains('.') && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    // Templates for reports word it differently; a version of CUDA has two digits before the point.
    const KEYS: [&str; 5] = [
        "nvidia driver version",
        "nvidia driver",
        "nvidia drivers",
        "gpu driver version",
        "gpu driver",
    ];
    let bare =
        key.trim_matches(|c: char| c.is_whitespace() || "-*•_`".contains(c)).to_ascii_lowercase();
    let is_release = version.split('.').next().is_some_and(|major| major.len() == 3);
    // deviceQueryDrv prints CUDA's version behind the same words.
    let is_known = key.trim_end() == "CUDA Driver Version" || KEYS.contains(&bare.as_str());
    (is_release && is_known && is_version).then_some(version)
}

/// The numbers and the model in `GPU 0,1,2,3: NVIDIA H100 80GB HBM3`.
fn numbered(line: &str) -> Option<(Vec<usize>, &str)> {
    let rest = line.strip_prefix("GPU ")?;
    // detectron2 prints `GPU 0,1   NVIDIA H100 80GB HBM3 (arch=9.0)`.
    let of_table = || {
        let (numbers, rest) = rest.split_once("  ")?;
        Some((numbers, rest.trim_start().split_once(" (arch=")?.0))
    };
    if let Some((numbers, model)) = of_table() {
        let numbers: Option<Vec<usize>> =
            numbers.split(',').map(|number| number.trim().parse().ok()).collect();
        return numbers
            .filter(|numbers| numbers.len() <= MAX_GPUS && summary::is_model(model))
            .map(|numbers| (numbers, model));
    }
    let (numbers, model) = rest.split_once(": ")?;
    let numbers: Option<Vec<usize>> =
        numbers.split(',').map(|number| number.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() > 1 && numbers.len() <= MAX_GPUS)?;
    summary::is_model(model).then_some((numbers, model))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TensorFlow prints the model above or beside the address; a GPU may be printed twice.
    #[test]
    fn devices_of_tensorflow_over_several_lines() {
        let head = "2020-01-01 10:00:00.1: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1618] Found device 0 with properties:\n";
        let old = format!(
            "{head}name: Tesla M40 24GB major: 5 minor: 2 memoryClockRate(GHz): 1.112\npciBusID: 0000:08:00.0\n"
        );
        let new =
            format!("{head}pciBusID: 0000:08:00.0 name: Tesla M40 24GB computeCapability: 5.2\n");
        for text in [old.repeat(2), new.repeat(2), new.replacen(head, "", 1)] {
            let report =
                crate::import::text(text.as_bytes(), crate::import::SupportReport::default())
                    .expect("a GPU");
            let mut facts = crate::model::Facts::default();
            report.add_listed(&mut facts);
            let gpus: Vec<String> = facts.gpus().map(|gpu| gpu.bdf.to_string()).collect();
            assert_eq!(gpus, ["0000:08:00.0"], "{text}");
            let listed = facts.listed.expect("the model").gpus;
            assert_eq!(listed[0].model.as_deref(), Some("Tesla M40 24GB"));
        }
    }

    #[test]
    fn devices_in_lines_of_programs() {
        let at = |text: &str| Some(text.parse::<Bdf>().expect("an address"));
        for (line, expected) in [
            (
                "Device: 5, NVIDIA RTX A6000, pciBusID: d, pciDeviceID: 0, pciDomainID:0",
                (5, "NVIDIA RTX A6000", at("0000:0d:00.0")),
            ),
            ("Device 0: \"Tesla V100\"", (0, "Tesla V100", None)),
            (
                "Device 1: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes",
                (1, "NVIDIA GeForce RTX 3090", None),
            ),
            (
                "2024-01-01 10:00:00.1: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1639] Created device /job:localhost/device:GPU:0 with 46 MB memory:  -> device: 0, name: NVIDIA L4, pci bus id: 0000:00:03.0, compute capability: 8.9",
                (0, "NVIDIA L4", at("0000:00:03.0")),
            ),
            (
                "GPU id:0 name:Tesla K80 PCI domain: 0 bus: 0 device: 4",
                (0, "Tesla K80", at("0000:00:04.0")),
            ),
            (
                "GPU id:3; name: NVIDIA A30; Bus id: 0000:3b:00",
                (3, "NVIDIA A30", at("0000:3b:00.0")),
            ),
            (
                "[2] NVIDIA A100-SXM4-80GB | 35'C,   0 % |     3 / 81920 MB |",
                (2, "NVIDIA A100-SXM4-80GB", None),
            ),
            ("[1] NVIDIA L4 | 35°C,   0 % |     3 / 23034 MB |", (1, "NVIDIA L4", None)),
        ] {
            let (number, model, bdf) = expected;
            assert_eq!(device(line), Some(Device { number, model, bdf }), "{line}");
        }
        for line in [
            "Device 0: AMD Radeon RX 7900 XTX, compute capability 11.0, VMM: no",
            "Device 0: the first one",
            "[1] a reference | with a bar",
            "Device=0 CAN Access Peer Device=1",
        ] {
            assert_eq!(device(line), None, "{line}");
        }
        assert_eq!(
            (columns("D\\D     0      1      2"), columns("D\\D     0      2"), columns("GPU 0 1")),
            (Some(3), None, None)
        );
        assert_eq!(driver("Nvidia driver version        : 570.86.15"), Some("570.86.15"));
        assert_eq!(driver("Nvidia driver version: Could not collect"), None);
        assert_eq!(driver("CUDA Driver Version:                           12.4"), None);
    }
}
