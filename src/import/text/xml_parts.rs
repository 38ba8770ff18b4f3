//! XML of hwloc or NCCL whose beginning the text lacks, read by lines. Whole documents are read as such.

use super::nccl::GPU;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::{Bdf, Ids};

pub const XML_PART: Kind = Kind {
    name: "a part of XML of hwloc or NCCL",
    starts: Starts::Line,
    begins: |line| line.starts_with("<pci busid=\"") || line.starts_with("<object type=\"PCIDev\""),
    yields: "GPUs, network controllers and RDMA devices: addresses and numbers",
    example: "<pci busid=\"0000:1a:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">
  <nic>
    <net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/>
  </nic>
</pci>
<object type=\"PCIDev\" name=\"NVIDIA Corporation GH100\" pci_busid=\"0000:17:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\">
",
    read,
};

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (before, rest) = line.split_once(&format!("{name}=\""))?;
    before.ends_with(' ').then(|| rest.split('"').next()).flatten()
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The class and the numbers of an element of NCCL; older versions write none of the latter.
fn of_nccl(line: &str) -> Option<Ids> {
    let number = |name: &str| u16::try_from(hex(attribute(line, name)?)?).ok();
    let class = hex(attribute(line, "class")?)?;
    match number("vendor") {
        Some(vendor) => Some(Ids { vendor, device: number("device"), class }),
        // Files of clouds name no vendor: NCCL takes displays for GPUs.
        None => (class == GPU.class).then_some(GPU),
    }
}

/// True for an InfiniBand controller in a file without vendors.
fn is_infiniband(line: &str) -> bool {
    attribute(line, "class").and_then(hex).is_some_and(|class| class >> 8 == 0x0207)
}

/// `pci_type="0302 [10de:2330] …"`. A text may end within it.
fn of_hwloc(line: &str) -> Option<Ids> {
    let kind = attribute(line, "pci_type")?;
    let class = hex(kind.get(..4)?)? << 8;
    let numbers = kind.split(['[', ']']).nth(1).and_then(|numbers| numbers.split_once(':'));
    let number = |text: &str| u16::try_from(hex(text)?).ok();
    match numbers {
        Some((vendor, device)) => {
            Some(Ids { vendor: number(vendor)?, device: number(device), class })
        }
        None => {
            let is_nvidias = attribute(line, "name")?.starts_with("NVIDIA Corporation");
            is_nvidias.then_some(Ids { vendor: Ids::NVIDIA, device: None, class })
        }
    }
}

fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    let mut last: Option<Bdf> = None;
    for line in text.lines().map(str::trim) {
        let (address, ids) = if line.starts_with("<pci ") {
            (attribute(line, "busid"), of_nccl(line))
        } else if line.starts_with("<object type=\"PCIDev\"") {
            (attribute(line, "pci_busid"), of_hwloc(line))
        } else {
            let is_gpu = line.starts_with("<gpu dev=");
            if let Some(bdf) = last.filter(|_| is_gpu) {
                recording.function(bdf, GPU);
            }
            let name = attribute(line, "name").filter(|_| line.starts_with("<net "));
            if let Some(device) = name.and_then(|name| class.device(name)) {
                class.links.extend(last.map(|bdf| (device, bdf)));
            }
            if line.starts_with("</pci") {
                last = None;
            }
            continue;
        };
        last = address.and_then(|address| address.parse().ok());
        let of_interest = ids.filter(|ids| matches!(ids.base_class(), 0x02 | 0x03));
        if let Some((bdf, ids)) = last.zip(of_interest) {
            recording.function(bdf, ids);
        } else if let Some(bdf) = last.filter(|_| ids.is_none() && is_infiniband(line)) {
            recording.controller(bdf, true);
        }
    }
    recording.class(class)
}
