//! GPUs as further programs print them: nvtop, nvbandwidth, bandwidthTest, GROMACS, numba, perftest, ollama, the X server.

use super::nccl::GPU;
use super::{Kind, Starts, summary};
use crate::import::ImportError;
use crate::import::support::Recording;
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const OLLAMA: Kind = Kind {
    name: "ollama's log",
    starts: Starts::Line,
    begins: |line| of_ollama(line).is_some() || environment(line).is_some() || library(line).is_some(),
    yields: "GPUs that it uses: model, UUID; variables that select GPUs; the version of the driver's libraries, as a remark",
    example: "time=2026-01-02T10:00:00.000Z level=INFO source=types.go:131 msg=\"inference compute\" \
              id=GPU-01234567-89ab-cdef-0123-456789abcdef library=cuda variant=v12 compute=9.0 driver=12.8 \
              name=\"NVIDIA H100 80GB HBM3\" total=\"79.1 GiB\" available=\"78.6 GiB\"
",
    read: |text, recording| {
        let mut gpus: Vec<ListedGpu> = Vec::new();
        for line in text.lines() {
            if let Some(value) = environment(line) {
                recording.variable("CUDA_VISIBLE_DEVICES", value);
            }
            if let Some(version) = library(line) {
                recording.note("ollama", format!("the driver's libraries are those of {version}"));
            }
            let gpu = of_ollama(line).filter(|gpu| !gpus.contains(gpu) && gpus.len() < MAX_GPUS);
            gpus.extend(gpu);
        }
        recording.listed(gpus);
        Ok(())
    },
};

/// The word behind a name, which may stand in quotes: `name="NVIDIA H100"`.
fn labelled<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(name)?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split(' ').next(),
    }
}

fn of_ollama(line: &str) -> Option<ListedGpu> {
    let (_, rest) = line.split_once(" msg=\"inference compute\" ")?;
    let library = labelled(rest, "library=")?;
    let name = labelled(rest, " description=").or_else(|| labelled(rest, " name="))?;
    let uuid = labelled(rest, "id=").filter(|id| id.starts_with("GPU-")).map(str::to_owned);
    let model = Some(name.to_owned()).filter(|name| summary::whole(name).is_some());
    (library.eq_ignore_ascii_case("cuda") && model.is_some()).then_some(ListedGpu {
        model,
        uuid,
        ..ListedGpu::default()
    })
}

/// The version in `… msg="discovered GPU libraries" paths=[/usr/lib/libcuda.so.570.86.15]`.
fn library(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("iscovered GPU libraries")?;
    let marks = ["libnvidia-ml.so.", "libcuda.so."];
    let (_, rest) = marks.iter().find_map(|mark| rest.split_once(mark))?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|version| version.contains('.'))
}

/// CUDA_VISIBLE_DEVICES in `server config env="map[CUDA_VISIBLE_DEVICES:0,1 GPU_DEVICE_ORDINAL: …]"`.
fn environment(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("env=\"map[CUDA_VISIBLE_DEVICES:")?;
    rest.split([' ', ']']).next().filter(|value| !value.is_empty())
}

pub const XORG: Kind = Kind {
    name: "the log of the X server",
    starts: Starts::Line,
    begins: |line| display(line).is_some() || at_pci(line).is_some() || probed(line).is_some(),
    yields: "GPUs: address, and numbers where they are printed",
    example:
        "[    12.345] (--) PCI:*(23@0:0:0) 10de:2330:10de:16c1 rev 161, Mem @ 0x90000000/16777216
[    12.456] (--) NVIDIA(0): NVIDIA GPU NVIDIA H100 80GB HBM3 (GH100-A) at PCI:23:0:0 (GPU-0)
",
    read: |text, recording| {
        let mut cards = Vec::new();
        for line in text.lines() {
            if let Some((bdf, ids)) = display(line) {
                recording.function(bdf, ids);
            } else if let Some(bdf) = at_pci(line) {
                recording.function(bdf, GPU);
            } else if let Some(card) = probed(line) {
                cards.push(card);
            } else if let Some(name) = primary(line) {
                let of_name = cards.iter().find(|(card, _)| *card == name);
                of_name.iter().for_each(|(_, bdf)| recording.function(*bdf, GPU));
            }
        }
        Ok(())
    },
};

/// An address in decimal: `1:0:0`, `1@0:0:0`, formerly `0:1:0:0`.
fn decimal(text: &str) -> Option<Bdf> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '@'));
    let text = text[..end.unwrap_or(text.len())].trim_end_matches(':');
    let (bus, rest) = text.split_once('@').unwrap_or(("", text));
    let mut numbers = Vec::new();
    for part in rest.split(':') {
        numbers.push(part.parse::<u32>().ok()?);
    }
    let (domain, bus, device, function) = match (bus, numbers.as_slice()) {
        ("", [bus, device, function]) => (0, *bus, *device, *function),
        ("", [domain, bus, device, function]) => (*domain, *bus, *device, *function),
        (bus, [domain, device, function]) => (*domain, bus.parse().ok()?, *device, *function),
        _ => return None,
    };
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}").parse().ok()
}

/// A graphics device in `(--) PCI:*(1@0:0:0) 10de:1f08:1462:3754 rev 161, …`.
fn display(line: &str) -> Option<(Bdf, Ids)> {
    let (_, rest) = line.split_once("(--) PCI:")?;
    let (place, rest) = rest.trim_start_matches(['*', ' ']).strip_prefix('(')?.split_once(") ")?;
    let mut numbers = rest.split([':', ' ']).map(|number| u16::from_str_radix(number, 16).ok());
    let (vendor, device) = (numbers.next()??, numbers.next()?);
    Some((decimal(place)?, Ids { vendor, device, class: 0x03_0000 }))
}

/// The card and the address in `(II) Platform probe for /sys/devices/pci0000:00/…/0000:01:00.0/drm/card2`.
fn probed(line: &str) -> Option<(&str, Bdf)> {
    let (_, path) = line.split_once("Platform probe for /sys/devices/pci")?;
    let (place, card) = path.split_once("/drm/")?;
    Some((card.trim(), place.rsplit('/').next()?.parse().ok()?))
}

/// The card in `(**) OutputClass "nvidia" setting /dev/dri/card2 as PrimaryGPU`, whose class is that of NVIDIA's driver.
fn primary(line: &str) -> Option<&str> {
    let (class, rest) = line.split_once("OutputClass \"")?.1.split_once("\" setting /dev/dri/")?;
    let card = rest.strip_suffix(" as PrimaryGPU")?;
    class.to_ascii_lowercase().starts_with("nvidia").then_some(card)
}

/// The address in `NVIDIA(0): NVIDIA GPU … at PCI:1:0:0 (GPU-0)` and `… Failed to initialize the NVIDIA GPU at PCI:1:0:0.`.
fn at_pci(line: &str) -> Option<Bdf> {
    let (_, rest) = line.split_once("NVIDIA(")?;
    let (words, place) = rest.split_once(" at PCI:")?;
    words.contains("NVIDIA GPU").then(|| decimal(place)).flatten()
}

/// The number, the model and the address of a GPU in a line.
pub fn device(line: &str) -> Option<(usize, &str, Option<Bdf>)> {
    let (number, model, bdf) = listed(line)
        .or_else(|| of_nvtop(line))
        .or_else(|| of_gromacs(line))
        .or_else(|| of_numba(line))
        .or_else(|| of_perftest(line))
        .or_else(|| of_llama(line))?;
    Some((number.trim().parse().ok()?, summary::whole(model)?, bdf))
}

/// `Device 0: NVIDIA H100 80GB HBM3 (00000000:17:00)` of nvbandwidth, without the address of bandwidthTest, with the number of units of
/// LAMMPS.
fn listed(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.strip_prefix("Device ")?.split_once(": ")?;
    number.parse::<usize>().ok()?;
    let (model, rest) = rest.split_once([',', '(']).unwrap_or((rest, ""));
    let place = rest.strip_suffix(')').unwrap_or_default();
    Some((number, model, place.parse().or_else(|_| format!("{place}.0").parse()).ok()))
}

/// The devices that nvtop prints side by side on a line.
pub fn side_by_side(line: &str) -> impl Iterator<Item = &str> {
    let next = line.match_indices(" Device ").map(|(at, _)| at + 1);
    let starts: Vec<usize> = next.filter(|at| of_nvtop(&line[*at..]).is_some()).collect();
    let ends: Vec<usize> = starts.iter().copied().chain([line.len()]).collect();
    let starts = [0].into_iter().chain(starts);
    starts.zip(ends).map(|(from, to)| line[from..to].trim())
}

/// `Device 0 [GeForce GTX 1080 Ti] PCIe GEN 3@16x`.
fn of_nvtop(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.strip_prefix("Device ")?.split_once(" [")?;
    // The name may be cut at the end of the line.
    Some((number, rest.split(']').next()?, None))
}

/// `#0: NVIDIA A100-SXM4-40GB, compute cap.: 8.0, ECC: yes, stat: compatible`.
fn of_gromacs(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(": ")?;
    Some((number, rest.split_once(", compute cap.:")?.0, None))
}

/// `id 0    b'NVIDIA H100'   [SUPPORTED]`.
fn of_numba(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.strip_prefix("id ")?.split_once(" b'")?;
    let (model, rest) = rest.split_once('\'')?;
    rest.contains("SUPPORTED]").then_some((number, model, None))
}

/// `[pid = 3669, dev = 0] device name = [NVIDIA A30]`.
fn of_perftest(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.strip_prefix("[pid = ")?.split_once(", dev = ")?.1.split_once(']')?;
    Some((number, rest.split_once("device name = [")?.1.split(']').next()?, None))
}

/// `… using device CUDA0 (NVIDIA H100 80GB HBM3) (0000:17:00.0) - 80000 MiB free`.
fn of_llama(line: &str) -> Option<(&str, &str, Option<Bdf>)> {
    let (number, rest) = line.split_once("using device CUDA")?.1.split_once(" (")?;
    let (model, rest) = rest.split_once(')')?;
    let place = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
    Some((number, model, place.and_then(|place| place.parse().ok())))
}

/// The number of GPUs in the line of columns below `memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)` of nvbandwidth.
pub fn below_matrix<'a>(mut lines: impl Iterator<Item = &'a str>) -> usize {
    lines.find(|line| is_matrix(line));
    let numbers: Option<Vec<usize>> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|word| word.parse().ok())
        .collect();
    let numbers =
        numbers.filter(|all| all.len() <= MAX_GPUS && all.iter().copied().eq(0..all.len()));
    numbers.map_or(0, |numbers| numbers.len())
}

pub fn is_matrix(line: &str) -> bool {
    line.starts_with("memcpy ") && line.contains("(row)") && line.contains("GPU(column)")
}

pub const CONTAINER_LOG: Kind = Kind {
    name: "nvidia-container-cli -d, its log",
    starts: Starts::Line,
    begins: |line| message(line).is_some(),
    yields: "GPUs that it lists; the version of the driver's libraries, as a remark",
    example: "I0102 10:00:00.000000 100 nvc_info.c:766] requesting driver information with ''
I0102 10:00:00.000001 100 nvc_info.c:173] selecting /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15
I0102 10:00:00.000002 100 nvc_info.c:262] listing device /dev/nvidia0 (GPU-01234567-89ab-cdef-0123-456789abcdef at 00000000:17:00.0)
",
    read: container_log,
};

/// What follows the place in a line `I0102 10:00:00.000000 100 nvc_info.c:766] …`.
fn message(line: &str) -> Option<&str> {
    let (head, message) = line.split_once("] ")?;
    let level = head.strip_prefix(['I', 'W', 'E', 'D'])?;
    let is_date = level.get(..4)?.bytes().all(|byte| byte.is_ascii_digit());
    let place = head.rsplit(' ').next()?.split_once(".c:")?.0;
    (is_date && (place.starts_with("nvc") || place == "driver")).then_some(message)
}

fn container_log(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut numbers = Vec::new();
    let mut versions = Vec::new();
    for message in text.lines().filter_map(|line| message(line.trim())) {
        if let Some((_, version)) = message.split_once("/libnvidia-ml.so.") {
            versions.push(version.split([' ', ']']).next().unwrap_or_default().to_owned());
        }
        let node = message.split_once("/dev/nvidia").map(|(_, rest)| rest);
        let number = node.and_then(|rest| rest.split([' ', ')']).next()?.parse::<usize>().ok());
        let place = node.and_then(|rest| rest.split_once(" at ")?.1.strip_suffix(')'));
        match (number, place.and_then(|place| place.parse().ok())) {
            (Some(_), Some(bdf)) => recording.function(bdf, GPU),
            (Some(number), None) => numbers.push((number, ListedGpu::default())),
            (None, _) => {}
        }
    }
    versions.sort();
    versions.dedup();
    for version in versions.iter().filter(|version| version.len() > 2).take(2) {
        recording
            .note("nvidia-container-cli", format!("the driver's libraries are those of {version}"));
    }
    recording.listed(super::by_index(numbers));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_in_lines_of_further_programs() {
        let at = |text: &str| Some(text.parse::<Bdf>().expect("an address"));
        for (line, expected) in [
            ("Device 0: GeForce RTX 2080 Ti", (0, "GeForce RTX 2080 Ti", None)),
            (
                "Device 3: NVIDIA H100 80GB HBM3 (00000000:17:00)",
                (3, "NVIDIA H100 80GB HBM3", at("0000:17:00.0")),
            ),
            (
                "Device 0: Tesla V100-SXM2-32GB, 80 CUs, 31/32 GB, 1.5 GHZ (Mixed Precision)",
                (0, "Tesla V100-SXM2-32GB", None),
            ),
            ("Device 1 [GeForce GTX 1080 Ti] PCIe GEN 1@16x", (1, "GeForce GTX 1080 Ti", None)),
            (
                "Device 0 [NVIDIA H100 80GB HBM3] PCIe GEN 5@16x RX: 1.000 MiB/s TX: 1.000 MiB/s",
                (0, "NVIDIA H100 80GB HBM3", None),
            ),
            (
                "#0: NVIDIA A100-SXM4-40GB, compute cap.: 8.0, ECC: yes, stat: compatible",
                (0, "NVIDIA A100-SXM4-40GB", None),
            ),
            (
                "id 0    b'GeForce GTX 970'                              [SUPPORTED]",
                (0, "GeForce GTX 970", None),
            ),
            ("[pid = 3669, dev = 0] device name = [NVIDIA A30]", (0, "NVIDIA A30", None)),
            (
                "llama_model_load_from_file_impl: using device CUDA1 (NVIDIA L4) (0000:17:00.0) - 22000 MiB free",
                (1, "NVIDIA L4", at("0000:17:00.0")),
            ),
        ] {
            assert_eq!(device(line), Some(expected), "{line}");
        }
        for line in [
            "Device 0: the first one",
            "Device 0 [AMD Radeon RX 7900 XTX] PCIe GEN 4@16x",
            "#1: it fails",
        ] {
            assert_eq!(device(line), None, "{line}");
        }
        let lines = [
            "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
            "0         1         2",
            "0     35.19     35.25     35.30",
        ];
        assert_eq!(below_matrix(lines.into_iter()), 3);
        assert_eq!(below_matrix(lines.into_iter().take(1)), 0);
    }

    #[test]
    fn devices_side_by_side() {
        let line =
            "Device 0 [NVIDIA L4] PCIe GEN 1@ 8x RX: 7 MiB/s Device 1 [NVIDIA L40S] PCIe GEN 4@16x";
        let names: Vec<_> = side_by_side(line).filter_map(device).map(|found| found.1).collect();
        assert_eq!(names, ["NVIDIA L4", "NVIDIA L40S"]);
        assert_eq!(side_by_side("a Device b").count(), 1);
    }

    #[test]
    fn the_primary_card_of_nvidias_class() {
        let line =
            "(II) Platform probe for /sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0/drm/card2";
        assert_eq!(
            probed(line).map(|(card, bdf)| (card, bdf.to_string())),
            Some(("card2", "0000:01:00.0".to_owned()))
        );
        let line = "(**) OutputClass \"nvidia\" setting /dev/dri/card2 as PrimaryGPU";
        assert_eq!(primary(line), Some("card2"));
        assert_eq!(primary(&line.replace("nvidia", "amdgpu")), None);
        let intel = "(--) PCI: (0@0:2:0) 8086:5917:17aa:225e rev 7";
        assert_eq!(
            display(intel).map(|(bdf, ids)| (bdf.to_string(), ids.vendor)),
            Some(("0000:00:02.0".to_owned(), 0x8086))
        );
    }

    #[test]
    fn addresses_in_decimal() {
        for (text, expected) in [
            ("1:0:0 (GPU-0)", Some("0000:01:00.0")),
            ("59@1:0:0", Some("0001:3b:00.0")),
            ("0:23:0:1", Some("0000:17:00.1")),
            ("1:0:0.  Please", Some("0000:01:00.0")),
            ("1:0", None),
            ("a:0:0", None),
        ] {
            assert_eq!(decimal(text).map(|bdf| bdf.to_string()).as_deref(), expected, "{text}");
        }
    }
}
