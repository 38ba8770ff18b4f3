//! Builder of machines for the tests.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::*;

/// A machine under construction.
#[derive(Default)]
pub struct Machine {
    devices: Vec<PciDevice>,
    rdma: Vec<RdmaDevice>,
    nvme: Vec<(String, Bdf)>,
    gpus: BTreeMap<Bdf, DriverGpu>,
    links: Option<usize>,
}

/// NVIDIA, Mellanox, Broadcom (LSI), Samsung, AMD.
pub const GPU: (u16, u16) = (0x10de, 0x2330);
pub const NIC: (u16, u16) = (0x15b3, 0x1021);
const SWITCH: (u16, u16) = (0x1000, 0xc030);
const NVME: (u16, u16) = (0x144d, 0xa80a);
const PORT: (u16, u16) = (0x1022, 0x14ab);

pub fn names(vendor: u16, device: u16) -> String {
    match (vendor, device) {
        GPU => "GH100 [H100 SXM5 80GB]",
        NIC => "MT2910 Family [ConnectX-7]",
        SWITCH => "PEX890xx PCIe Gen 5 Switch",
        NVME => "NVMe SSD Controller PM9A3",
        _ => "",
    }
    .to_owned()
}

pub fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

impl Machine {
    /// A function with a link: speed, width, maximum speed. Width 0 means no link.
    fn function(
        &mut self,
        address: &str,
        above: &[&str],
        node: Option<u32>,
        (ids, class): ((u16, u16), u32),
        link: (u8, u8, u8),
        acs: Option<u16>,
    ) {
        let address = bdf(address);
        let bridges: Vec<Bdf> = above.iter().map(|text| bdf(text)).collect();
        let first = bridges.first().copied().unwrap_or(address);
        let (speed, width, best) = link;
        let state = LinkState {
            current: Link { speed: LinkSpeed(speed), width },
            max: Link {
                speed: LinkSpeed(best),
                width: if width == 8 && ids == GPU { 16 } else { width },
            },
        };
        let config = Config {
            acs: from_json(json!({ "known": acs.map(|control| json!({
                "offset": 0x100, "capable": 0x5f, "control": control, "egress_size": 0, "egress_vector": { "known": [] },
            })) })),
            ..Config::default()
        };
        self.devices.push(PciDevice {
            bdf: address,
            place: Fact::Known(PciPath {
                root: RootBus { domain: first.domain, bus: first.bus },
                rooted: true,
                bridges,
            }),
            ids: Fact::Known(Ids { vendor: ids.0, device: Some(ids.1), class }),
            numa_node: Fact::Known(node),
            config,
            attributes: Some(Box::new(Attributes {
                link: Fact::Known((width > 0).then_some(state)),
                ..Attributes::default()
            })),
        });
    }

    pub fn gpu(mut self, at: &str, above: &[&str], node: Option<u32>, link: (u8, u8, u8)) -> Self {
        self.function(at, above, node, (GPU, 0x03_0200), link, None);
        self.gpus.insert(
            bdf(at),
            DriverGpu { model: Some("NVIDIA H100 80GB HBM3".to_owned()), ..DriverGpu::default() },
        );
        self
    }

    pub fn nic(mut self, at: &str, above: &[&str], node: Option<u32>, link: (u8, u8, u8)) -> Self {
        let name = format!("mlx5_{}", self.rdma.len());
        self.function(at, above, node, (NIC, 0x02_0700), link, None);
        self.rdma.push(rdma(name, Some(bdf(at))));
        self
    }

    pub fn nvme(mut self, at: &str, above: &[&str], node: Option<u32>) -> Self {
        self.function(at, above, node, (NVME, 0x01_0802), (4, 4, 4), None);
        self.nvme.push((format!("nvme{}", self.nvme.len()), bdf(at)));
        self
    }

    pub fn other(mut self, at: &str, above: &[&str]) -> Self {
        self.function(at, above, None, ((0x8086, 1), 0x0c_0330), (0, 0, 0), None);
        self
    }

    pub fn software(mut self, name: &str) -> Self {
        self.rdma.push(RdmaDevice {
            parent: Fact::Known(Some("lo".to_owned())),
            ..rdma(name.to_owned(), None)
        });
        self
    }

    pub fn port(mut self, at: &str, above: &[&str], node: Option<u32>, acs: u16) -> Self {
        self.function(at, above, node, (PORT, 0x06_0400), (5, 16, 5), Some(acs));
        self
    }

    pub fn switch(mut self, up: &str, above: &[&str], node: Option<u32>) -> Self {
        self.function(up, above, node, (SWITCH, 0x06_0400), (5, 16, 5), None);
        self
    }

    /// All GPUs reach each other through NVSwitches over this number of links.
    pub fn nvlinks(mut self, count: usize) -> Self {
        self.links = Some(count);
        self
    }

    /// The facts of the machine with this number of NUMA nodes.
    pub fn facts(mut self, nodes: u32) -> Facts {
        self.devices.sort_by_key(|device| device.bdf);
        let gpus = self.gpus.keys().enumerate().map(|(at, bdf)| self.nvml(at, *bdf)).collect();
        Facts {
            host: Host {
                source: "live".to_owned(),
                name: Some("dgx-a17".to_owned()),
                kernel: Some("6.8.0-49-generic".to_owned()),
                os: Some("Ubuntu 24.04.1 LTS".to_owned()),
                cpu: Some("Intel(R) Xeon(R) Platinum 8480C".to_owned()),
                ..Host::default()
            },
            pci: Fact::Known(self.devices),
            numa: Fact::Known(
                (0..nodes)
                    .map(|id| NumaNode {
                        id,
                        cpus: IdList::new(
                            (id * 56..id * 56 + 56).chain(id * 56 + 112..id * 56 + 168),
                        ),
                    })
                    .collect(),
            ),
            rdma: Fact::Known(self.rdma),
            nvme: Fact::Known(self.nvme),
            nvml: Fact::Known(NvmlOutcome::Read(Box::new(Nvml { gpus, ..Nvml::default() }))),
            driver: Driver { gpus: Fact::Known(self.gpus), ..Driver::default() },
            ..Facts::default()
        }
    }

    fn nvml(&self, at: usize, bdf: Bdf) -> NvmlGpu {
        let unknown = json!({ "unknown": "not_covered" });
        let link = |index| json!({ "index": index, "remote": { "known": "switch" }, "remote_bdf": unknown });
        let links: Vec<_> = (0..self.links.unwrap_or(0)).map(link).collect();
        let mut gpu = json!({ "index": at, "bdf": bdf, "active_links": { "known": links } });
        for fact in FACTS {
            gpu[fact] = unknown.clone();
        }
        from_json(gpu)
    }
}

/// Facts of NVML that these tests do not use.
const FACTS: [&str; 12] = [
    "name",
    "uuid",
    "minor",
    "architecture",
    "memory_node",
    "bar1",
    "memory_total",
    "persistence",
    "mig",
    "fabric",
    "performance_state",
    "virtualization",
];

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("a value of the model")
}

fn rdma(name: String, place: Option<Bdf>) -> RdmaDevice {
    RdmaDevice {
        name,
        place: Fact::Known(place),
        parent: Fact::Known(None),
        ports: Fact::Known(Vec::new()),
        uverbs: Fact::Known(None),
        management: Fact::Known(false),
        physical_function: Fact::Known(None),
        ..RdmaDevice::default()
    }
}
