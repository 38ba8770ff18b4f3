//! One PCI function of a machine, as its author writes it.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::bars::Bar;
use super::files::Content;

/// One PCI function. tests/machines/README.md says what each key means.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    /// Address, `DDDD:BB:DD.F`.
    #[serde(skip)]
    pub bdf: String,
    /// Address of the bridge above, if any.
    #[serde(skip)]
    pub parent: Option<String>,
    /// The root bus, `DDDD:BB`.
    #[serde(skip)]
    pub root: String,
    pub vendor: Hex,
    pub device: Hex,
    pub class: Hex,
    pub revision: Hex,
    pub subsystem: Option<(Hex, Hex)>,
    #[serde(rename = "type")]
    pub port: Option<PortType>,
    pub port_number: u8,
    pub buses: Option<(Hex, Hex)>,
    pub bars: Vec<Bar>,
    pub resource_lines: Option<usize>,
    pub numa: Option<i32>,
    pub cpus: Option<String>,
    pub link: Option<(String, u8)>,
    pub max_link: Option<(String, u8)>,
    pub mps: Option<u32>,
    pub mps_max: Option<u32>,
    pub mrrs: Option<u32>,
    pub relaxed_ordering: bool,
    pub acs_cap: Option<Hex>,
    pub acs_ctl: Option<Hex>,
    pub acs_egress: Vec<u8>,
    pub ats: Option<bool>,
    pub sriov: Option<Sriov>,
    pub vf_of: Option<String>,
    pub serial: Option<String>,
    pub vpd: Vec<(String, String)>,
    pub driver: Option<String>,
    pub iommu: Option<String>,
    pub iommu_group: Option<u32>,
    pub gpu: Option<String>,
    #[serde(deserialize_with = "named")]
    pub rdma: Option<Rdma>,
    pub net: Option<String>,
    pub nvme: Option<String>,
    pub config: Option<RawConfig>,
    pub files: BTreeMap<String, Content>,
    pub without: Vec<String>,
}

impl Device {
    /// The bus it sits on.
    pub fn bus(&self) -> u8 {
        self.bdf
            .rsplit(':')
            .nth(1)
            .and_then(|bus| u8::from_str_radix(bus, 16).ok())
            .unwrap_or_else(|| panic!("'{}' is not an address", self.bdf))
    }

    /// Whether it has a bridge's header.
    pub fn is_bridge(&self) -> bool {
        self.class.0 >> 8 == 0x0604
    }
}

/// Device/Port Type of the PCI Express capability (PCIe Base Specification, 7.5.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortType {
    Endpoint = 0,
    LegacyEndpoint = 1,
    RootPort = 4,
    Upstream = 5,
    Downstream = 6,
    Integrated = 9,
}

/// SR-IOV capability of a physical function.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sriov {
    pub total: u16,
    pub vfs: u16,
    pub offset: u16,
    pub stride: u16,
    pub device: Hex,
}

/// Configuration space given byte for byte: from nothing (`raw`) or over what the keys give.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    #[serde(default)]
    pub raw: bool,
    #[serde(default = "whole")]
    pub size: usize,
    #[serde(default)]
    pub bytes: BTreeMap<String, String>,
}

fn whole() -> usize {
    4096
}

/// An RDMA device; what is not given is a healthy port of its kind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rdma {
    pub name: String,
    pub layer: Option<String>,
    pub state: Option<String>,
    pub phys_state: Option<String>,
    pub rate: Option<String>,
    pub lid: Option<String>,
    pub guid: Option<String>,
    pub fw: Option<String>,
    pub hca: Option<String>,
    pub board: Option<String>,
    pub uverbs: Option<u32>,
    pub gids: Vec<(String, String, String)>,
    /// A software device: the network interface it runs over.
    pub parent: Option<String>,
}

/// A number written in hexadecimal ("10de", "0x10de"), or a plain JSON number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hex(pub u32);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
            Value::String(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(&text);
                u32::from_str_radix(digits, 16).ok()
            }
            _ => None,
        };
        number.map(Self).ok_or_else(|| D::Error::custom("a hexadecimal text or a number is wanted"))
    }
}

/// A text where only the name matters, an object where more is said.
fn named<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<Option<T>, D::Error> {
    let value = match Value::deserialize(d)? {
        Value::Null => return Ok(None),
        Value::String(name) => serde_json::json!({ "name": name }),
        other => other,
    };
    serde_json::from_value(value).map(Some).map_err(D::Error::custom)
}
