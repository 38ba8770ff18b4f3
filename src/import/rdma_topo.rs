//! JSON of rdma-core's `rdma_topo dump` → Facts.
//!
//! A dump is close to sysfs: for each PCI function its path, configuration space, NUMA node, IOMMU group,
//! vital product data, and the names in `infiniband`, `net`, `nvme` and `drm`. It omits host bridges, ISA
//! bridges, system peripherals, NUMA nodes, software RDMA devices and ports.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::ImportError;
use super::limits::{FUNCTIONS, at_most};
use crate::input::json_error;
use crate::model::Order as _;
use crate::model::{Attributes, Bdf, Fact, Facts, Ids, Note, PciDevice, Platform, RdmaDevice, Why};
use crate::pci::{Depth, decode, parse_place};

/// Size of configuration space.
const CONFIG: usize = 4096;
/// Limit of vital product data, whose addresses have 15 bits.
const VPD: usize = 1 << 15;
/// Limit of devices of one class per function.
const NAMES: usize = 64;

/// NAME_MAX.
const MAX_NAME: usize = 255;
/// The first function must end within this many bytes.
const START: usize = 1 << 16;

/// Detects a dump: a list whose first object has the key `realpath`.
pub fn is_format(bytes: &[u8]) -> bool {
    let inner = bytes.strip_prefix(b"[").unwrap_or_default().trim_ascii_start();
    let start = inner.get(..START).unwrap_or(inner);
    let key = b"\"realpath\"";
    inner.starts_with(b"{") && start.windows(key.len()).any(|part| part == key)
}

pub fn facts(bytes: &[u8]) -> Result<Facts, ImportError> {
    let Functions(mut functions) = serde_json::from_slice(bytes).map_err(|error| {
        ImportError::Malformed(format!("rdma_topo's dump: {}", json_error(&error)))
    })?;
    functions.order_by_key(|function| function.device.bdf);
    if let Some(twice) = functions.windows(2).find(|pair| pair[0].device.bdf == pair[1].device.bdf)
    {
        return Err(ImportError::Malformed(format!(
            "rdma_topo's dump lists the PCI function {} twice",
            twice[0].device.bdf
        )));
    }
    let gpus = functions.iter().filter(|function| function.is(Ids::is_nvidia_gpu)).count();
    // A dump without any names was made without them.
    let named = functions.iter().any(|function| function.names.is_some());
    let (mut rdma, mut nvme) = (Vec::new(), Vec::new());
    for function in &functions {
        let Some(names) = &function.names else {
            continue;
        };
        rdma.extend(names.infiniband.0.iter().map(|name| function.rdma(name, gpus)));
        nvme.extend(names.nvme.0.iter().map(|name| (name.clone(), function.device.bdf)));
        at_most(FUNCTIONS, rdma.len() + nvme.len(), "RDMA devices and NVMe controllers")?;
    }
    rdma.order_by_key(|device: &RdmaDevice| RdmaDevice::natural(&device.name));
    nvme.order_by_key(|(name, bdf): &(String, Bdf)| (RdmaDevice::natural(name), *bdf));
    let mut notes = Vec::new();
    for function in &mut functions {
        notes.append(&mut function.notes);
    }
    let pci: Vec<PciDevice> = functions.into_iter().map(|function| function.device).collect();
    let unless_omitted = |named: bool| if named { Ok(()) } else { Err(Why::NotCovered) };
    Ok(Facts {
        unnamed_nics: if named { Vec::new() } else { super::nics(&pci) },
        rdma: unless_omitted(named).map_or_else(Fact::Unknown, |()| Fact::Known(rdma)),
        nvme: unless_omitted(named).map_or_else(Fact::Unknown, |()| Fact::Known(nvme)),
        platform: Platform {
            paravirtual_devices: super::paravirtual_devices(&pci),
            ..Platform::default()
        },
        pci: Fact::Known(pci),
        notes,
        ..Facts::default()
    })
}

/// The list, each item converted as it is read.
struct Functions(Vec<Function>);

impl<'de> Deserialize<'de> for Functions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Functions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of PCI functions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Functions, A::Error> {
                let mut functions = Vec::new();
                while let Some(item) = items.next_element::<Item<'de>>()? {
                    at_most(FUNCTIONS, functions.len() + 1, "PCI functions")
                        .map_err(A::Error::custom)?;
                    let number = functions.len();
                    let function = Function::of(item)
                        .map_err(|what| A::Error::custom(format!("function {number}: {what}")))?;
                    functions.push(function);
                }
                Ok(Functions(functions))
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

/// One item. `rdma_topo` writes null if sysfs has no such file, but omits `vpd`.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    realpath: Cow<'a, str>,
    /// Base64 of deflated bytes (RFC 1950).
    #[serde(borrow)]
    config: Cow<'a, str>,
    #[serde(borrow)]
    modalias: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    iommu_group: Option<Option<u32>>,
    numa_node: Option<i64>,
    #[serde(borrow)]
    vpd: Option<Cow<'a, str>>,
    subsystems: Option<Names>,
}

/// Distinguishes null from a missing key.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The names in some of a function's directories.
#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    infiniband: NameList,
    #[serde(default)]
    nvme: NameList,
}

/// A bounded list of names.
#[derive(Default)]
struct NameList(Vec<String>);

impl<'de> Deserialize<'de> for NameList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = NameList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NameList, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = items.next_element::<String>()? {
                    if name.len() > MAX_NAME {
                        return Err(A::Error::custom(format!(
                            "a name has more than {MAX_NAME} bytes"
                        )));
                    }
                    at_most(NAMES, names.len() + 1, "devices below one function")
                        .map_err(A::Error::custom)?;
                    names.push(name);
                }
                Ok(NameList(names))
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

struct Function {
    device: PciDevice,
    names: Option<Names>,
    /// The vital product data mark a management function.
    marked: bool,
    notes: Vec<Note>,
}

impl Function {
    fn of(item: Item<'_>) -> Result<Self, String> {
        let path = Path::new(item.realpath.as_ref());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let bdf: Bdf = name.parse().map_err(|_| "its realpath does not end in a PCI address")?;
        let space = unpacked(&item.config, CONFIG)
            .ok_or("its config is not base64 of at most 4096 deflated bytes")?;
        let vpd = match &item.vpd {
            Some(text) => unpacked(text, VPD)
                .ok_or("its vpd is not base64 of at most 32768 deflated bytes")?,
            None => Vec::new(),
        };
        let config = decode(&space.as_slice(), Depth::Full);
        let note = |message: String| Note { source: format!("{bdf} in the dump"), message };
        let mut notes: Vec<Note> = config.failure.iter().cloned().map(note).collect();
        let place = match parse_place(path, bdf) {
            Some(place) => Fact::Known(place),
            None => {
                notes.push(note("its realpath is not that of a PCI device".to_owned()));
                Fact::Unknown(Why::Broken)
            }
        };
        let ids = match config.header.known() {
            // A virtual function's vendor and device read as ones; sysfs takes them from the physical function.
            Some(header) if header.vendor != 0xffff => Fact::Known(Ids {
                vendor: header.vendor,
                device: Some(header.device),
                class: header.class.0,
            }),
            _ => ids(&item.modalias).map_or(Fact::Unknown(Why::Broken), Fact::Known),
        };
        let device = PciDevice {
            bdf,
            place,
            ids,
            numa_node: match item.numa_node {
                Some(node) => Fact::Known(u32::try_from(node).ok()),
                None => Fact::Unknown(Why::NotCovered),
            },
            config,
            attributes: Some(Box::new(Attributes {
                iommu_group: item.iommu_group.map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
                ..Attributes::default()
            })),
        };
        Ok(Self {
            device,
            names: item.subsystems,
            marked: RdmaDevice::is_marked_management(&vpd),
            notes,
        })
    }

    fn is(&self, what: fn(&Ids) -> bool) -> bool {
        self.device.ids.known().is_some_and(what)
    }

    fn rdma(&self, name: &str, gpus: usize) -> RdmaDevice {
        let may_manage = gpus >= RdmaDevice::GPUS_OF_A_SWITCHED_SYSTEM
            && self.is(|ids| ids.vendor == Ids::MELLANOX);
        RdmaDevice {
            name: name.to_owned(),
            place: Fact::Known(Some(self.device.bdf)),
            parent: Fact::Known(None),
            ports: Fact::Unknown(Why::NotCovered),
            uverbs: Fact::Unknown(Why::NotCovered),
            management: Fact::Known(may_manage && self.marked),
            physical_function: Fact::Unknown(Why::NotCovered),
            ..RdmaDevice::default()
        }
    }
}

/// Decodes and inflates up to this many bytes.
fn unpacked(text: &str, most: usize) -> Option<Vec<u8>> {
    // Incompressible data grows by far less than this.
    if text.len() > 2 * most + 64 {
        return None;
    }
    let deflated = STANDARD.decode(text).ok()?;
    decompress_to_vec_zlib_with_limit(&deflated, most).ok()
}

/// `pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00`.
fn ids(modalias: &str) -> Option<Ids> {
    let rest = modalias.strip_prefix("pci:v")?;
    let (vendor, rest) = rest.split_once('d')?;
    let (device, rest) = rest.split_once("sv")?;
    let (_, class) = rest.split_once("bc")?;
    let (base, rest) = class.split_once("sc")?;
    let (sub, interface) = rest.split_once('i')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let byte = |text: &str| hex(text).filter(|value| *value <= 0xff);
    Some(Ids {
        vendor: hex(vendor)?.try_into().ok()?,
        device: Some(hex(device)?.try_into().ok()?),
        class: byte(base)? << 16 | byte(sub)? << 8 | byte(interface)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_modalias() {
        let text = "pci:v000015B3d0000101Esv000015B3sd00000023bc02sc07i01";
        let read = ids(text).expect("ids");
        assert_eq!((read.vendor, read.device, read.class), (0x15b3, Some(0x101e), 0x02_0701));
        for text in ["", "pci:v", "usb:v1D6Bp0002d0510", "pci:v000115B3d0000101Esv0sd0bc02sc07i00"]
        {
            assert_eq!(ids(text), None, "{text}");
        }
    }

    #[test]
    fn inflates_python_output_up_to_limit() {
        // Python's base64.b64encode(zlib.compress(bytes(range(8)) * 4)), and of 100,000 zeros.
        let text = "eJxjYGRiZmFlY2fAQQMABrAAcQ==";
        let expected: Vec<u8> = (0..8).collect::<Vec<u8>>().repeat(4);
        assert_eq!(unpacked(text, 32), Some(expected));
        assert_eq!(unpacked(text, 31), None);
        let zeros = "eJztwTEBAAAAwqD1T20ND6AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
            AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACAVwOGrwAB";
        assert_eq!(unpacked(zeros, 100_000).map(|bytes| bytes.len()), Some(100_000));
        assert_eq!(unpacked(zeros, 4096), None);
        assert_eq!(unpacked("!", 64), None);
    }
}
