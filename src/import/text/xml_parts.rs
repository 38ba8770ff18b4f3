//! XML of hwloc or NCCL whose beginning the text lacks, read by lines. Whole documents are read as such.

use std::collections::BTreeMap;

use super::nccl::GPU;
use super::rdma_lists::is_device;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const XML_PART: Kind = Kind {
    name: "a part of XML of hwloc or NCCL",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("<pci busid=\"")
            || line.starts_with("<object type=\"PCIDev\"")
            || rdma_device(line).is_some()
            || line.starts_with("<info name=\"Backend\" value=\"CUDA\"")
            || line.starts_with("<info name=\"Backend\" value=\"NVML\"")
            || line.starts_with("<info name=\"GPUModel\" value=\"NVIDIA ")
    },
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

/// The RDMA device of `<object type="OSDev" gp_index="400" name="mlx5_0" osdev_type="3">`. The numbers of types differ between versions.
fn rdma_device(line: &str) -> Option<&str> {
    let name = attribute(line.strip_prefix("<object type=\"OSDev\"")?, "name")?;
    is_device(name).then_some(name)
}

fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    let mut last: Option<Bdf> = None;
    // Each backend names each GPU.
    let mut models: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut backend = "";
    for line in text.lines().map(str::trim) {
        let (address, ids) = if line.starts_with("<pci ") {
            (attribute(line, "busid"), of_nccl(line))
        } else if line.starts_with("<object type=\"PCIDev\"") {
            (attribute(line, "pci_busid"), of_hwloc(line))
        } else if line.starts_with("<object type=\"OSDev\"") {
            if let Some(device) = rdma_device(line).and_then(|name| class.device(name)) {
                class.links.extend(last.map(|bdf| (device, bdf)));
            }
            continue;
        } else {
            if line.starts_with("<object ") {
                last = None;
            }
            if line.starts_with("<info name=\"Backend\"") {
                backend = attribute(line, "value").unwrap_or_default();
            }
            let model = attribute(line, "value").filter(|model| {
                line.starts_with("<info name=\"GPUModel\"") && model.starts_with("NVIDIA ")
            });
            if let Some(model) = model.filter(|_| last.is_none()) {
                models.entry(backend).or_default().push(model);
            }
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
    let models = models.into_values().max_by_key(Vec::len).unwrap_or_default();
    let gpu = |model: &str| ListedGpu { model: Some(model.to_owned()), ..ListedGpu::default() };
    recording.listed(models.into_iter().take(MAX_GPUS).map(gpu).collect());
    recording.class(class)
}

#[cfg(test)]
mod tests {
    fn read(text: &str) -> crate::import::SupportReport {
        crate::import::text(text.as_bytes(), crate::import::SupportReport::default())
            .expect("a device")
    }

    /// hwloc names a GPU once for CUDA and once for NVML.
    #[test]
    fn devices_of_the_system_in_xml() {
        let gpu = |backend: &str| {
            format!(
                "<object type=\"OSDev\" name=\"a0\" osdev_type=\"5\">\n  <info name=\"Backend\" value=\"{backend}\"/>\n  \
                 <info name=\"GPUModel\" value=\"NVIDIA L4\"/>\n</object>\n"
            )
        };
        assert_eq!(read(&(gpu("CUDA") + &gpu("NVML"))).listed.len(), 1);
        let function = "<object type=\"PCIDev\" pci_busid=\"0000:1a:00.0\" pci_type=\"0207 [15b3:1021] [15b3:1] 00\">\n";
        let nic =
            "<object type=\"OSDev\" gp_index=\"4\" name=\"mlx5_0\" osdev_type=\"3\">\n</object>\n";
        let link = |text: &str| {
            let link = read(text).files.get("/sys/class/infiniband/mlx5_0/device").cloned();
            link.and_then(|file| file.link)
        };
        assert_eq!(link(&(function.to_owned() + nic)).as_deref(), Some("../../../0000:1a:00.0"));
        let other = "<object type=\"Bridge\" bridge_type=\"1-1\">\n";
        assert_eq!(link(&(function.to_owned() + other + nic)), None);
        assert_eq!(link(nic), None);
    }
}
