//! GPUs and NICs in documents of other programs: an object with the number or the name of a vendor, an address, a product. Read only where
//! nothing else shows such a device. What a program should use or could buy is not a device of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::described::Device;
use super::fields::{Object, objects};
use super::nccl::GPU;
use super::nic_tools::mellanox;
use super::{Kind, Starts, machines};
use crate::import::ImportError;
use crate::import::find::Words;
use crate::import::support::{Class, Recording};
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const RECORDS: Kind = Kind {
    name: "JSON, YAML, XML and lists of fields of other programs, where nothing else shows such a device",
    starts: Starts::Line,
    begins: |_| true,
    yields: "GPUs of NVIDIA and NICs of Mellanox: address, numbers, model, UUID; of labels of GPU Feature Discovery the number of GPUs",
    example: "{
  \"cards\": [
    {
      \"address\": \"0000:17:00.0\",
      \"vendor\": { \"id\": \"10de\", \"name\": \"NVIDIA Corporation\" },
      \"product\": { \"id\": \"2330\", \"name\": \"GH100 [H100 SXM5 80GB]\" },
      \"class\": { \"id\": \"0302\" }
    }
  ]
}
",
    read,
};

/// Words of which each document of interest has one.
const WORDS: [&str; 13] = [
    "10de",
    "10DE",
    "15b3",
    "15B3",
    "4318",
    "5555",
    "NVIDIA",
    "Nvidia",
    "nvidia",
    "Mellanox",
    "ConnectX",
    "BlueField",
    "GeForce",
];

/// True if a document names a device.
pub fn shows_something(text: &str) -> bool {
    let mut recording = Recording::default();
    read(text, &mut recording).is_err() || recording.finish().has_devices()
}

fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    static FOUND: LazyLock<Words> = LazyLock::new(|| Words::new(WORDS));
    if !FOUND.has_any(text) {
        return Ok(());
    }
    let mut found = Found::default();
    objects(text, &mut |object| found.add(object));
    // Devices of several machines are not those of one.
    if found.hosts.len() > 1 && found.has_devices() {
        let hosts: BTreeSet<&str> = found.hosts.iter().map(String::as_str).collect();
        return Err(ImportError::Job(machines::launched(&hosts)));
    }
    found.record(recording)
}

#[derive(Default)]
struct Found {
    gpus: BTreeMap<Bdf, (Ids, ListedGpu)>,
    by_uuid: Vec<ListedGpu>,
    /// What labels of nodes say: the number of GPUs and their model.
    labels: BTreeSet<(usize, Option<String>)>,
    /// GPUs without an address or a UUID, by the list that holds them, each with what distinguishes it.
    others: BTreeMap<usize, Vec<(Option<String>, ListedGpu)>>,
    nics: BTreeMap<Bdf, Ids>,
    rdma: BTreeMap<String, Option<Bdf>>,
    hosts: BTreeSet<String>,
}

impl Found {
    fn has_devices(&self) -> bool {
        !(self.gpus.is_empty()
            && self.by_uuid.is_empty()
            && self.labels.is_empty()
            && self.others.is_empty()
            && self.nics.is_empty()
            && self.rdma.is_empty())
    }

    /// True if the object is a device.
    fn add(&mut self, object: &Object) -> bool {
        let device = Device::of(object);
        self.hosts.extend(device.host.map(str::to_owned));
        if device.labels.0 > 0 {
            let model = device.labels.1.map(str::to_owned);
            self.labels.insert((device.labels.0.min(MAX_GPUS), model));
            return true;
        }
        if device.is_nic() {
            return self.add_nic(&device);
        }
        if !device.is_gpu(&object.name) {
            return false;
        }
        let gpu = ListedGpu {
            model: device.model.map(str::to_owned),
            uuid: device.uuid.map(str::to_owned),
            ..ListedGpu::default()
        };
        if let Some(bdf) = device.bdf {
            if self.gpus.len() < MAX_GPUS {
                self.gpus.entry(bdf).or_insert((Ids { device: device.device, ..GPU }, gpu));
            }
        } else if device.uuid.is_some() {
            let is_known = self.by_uuid.iter().any(|known| known.uuid == gpu.uuid);
            if !is_known && self.by_uuid.len() < MAX_GPUS {
                self.by_uuid.push(gpu);
            }
        } else if device.is_observed || device.is_described(&object.name) {
            let known = self.others.entry(object.holder).or_default();
            let own = device.key.map(str::to_owned);
            let key = own.or_else(|| (!object.is_element).then(|| object.name.clone()));
            let is_known = key.is_some() && known.iter().any(|(other, _)| *other == key);
            if !is_known && known.len() < MAX_GPUS {
                known.push((key, gpu));
            }
        } else {
            return false;
        }
        true
    }

    fn add_nic(&mut self, device: &Device<'_>) -> bool {
        const MOST: usize = 1024;
        if let Some(name) = device.rdma.filter(|_| self.rdma.len() < MOST) {
            let known = self.rdma.entry(name.to_owned()).or_default();
            *known = known.or(device.bdf);
        }
        if let Some(bdf) = device.bdf.filter(|_| device.is_mellanox() && self.nics.len() < MOST) {
            self.nics.entry(bdf).or_insert_with(|| mellanox(device.device));
        }
        true
    }

    fn record(self, recording: &mut Recording) -> Result<(), ImportError> {
        self.nics.iter().for_each(|(bdf, ids)| recording.function(*bdf, *ids));
        if !self.gpus.is_empty() {
            self.gpus.iter().for_each(|(bdf, (ids, _))| recording.function(*bdf, *ids));
            recording.listed(self.gpus.into_values().map(|(_, gpu)| gpu).collect());
        } else {
            let longest = self.others.into_values().max_by_key(Vec::len).unwrap_or_default();
            let mut listed = self.by_uuid;
            if longest.len() > listed.len() {
                listed = longest.into_iter().map(|(_, gpu)| gpu).collect();
            }
            // Different labels are those of several nodes.
            if let (1, Some((count, model))) = (self.labels.len(), self.labels.into_iter().next())
                && count > listed.len()
            {
                listed = vec![ListedGpu { model, ..ListedGpu::default() }; count];
            }
            recording.listed(listed);
        }
        let mut class = Class::default();
        for (name, place) in self.rdma {
            let device = class.device(&name);
            class.links.extend(device.zip(place));
        }
        recording.class(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{SupportReport, text};

    /// The ends of addresses of GPUs or their models, and those of NICs or their names.
    fn found(document: &str) -> (Vec<String>, Vec<String>) {
        let report = text(document.as_bytes(), SupportReport::default()).expect(document);
        let short = |bdf: &Bdf| bdf.to_string()[5..].to_owned();
        let (gpus, mut nics): (Vec<_>, Vec<_>) =
            report.functions.iter().partition(|(_, ids)| ids.is_nvidia_gpu());
        let mut gpus: Vec<String> = gpus.into_iter().map(|(bdf, _)| short(bdf)).collect();
        if gpus.is_empty() {
            let name = |gpu: ListedGpu| gpu.model.unwrap_or_default();
            gpus = report.listed.into_iter().map(name).collect();
        }
        let mut names: Vec<String> = nics.drain(..).map(|(bdf, _)| short(bdf)).collect();
        let of_class = |path: &String| {
            let rest = path.strip_prefix("/sys/class/infiniband/")?;
            rest.strip_suffix("/ports").map(str::to_owned)
        };
        names.extend(report.files.keys().filter_map(of_class));
        (gpus, names)
    }

    #[test]
    fn documents_show_devices() {
        for (document, gpus, nics) in [
            (
                "[\n  {\n    \"class\" : \"0x030200\",\n    \"device\" : \"0x2330\",\n    \"id\" : \"0000:17:00.0\",\n    \"vendor\" : \"0x10de\"\n  },\n  \
                 {\n    \"class\" : \"0x020700\",\n    \"id\" : \"0000:1a:00.0\",\n    \"vendor\" : \"0x15b3\"\n  }\n]\n",
                vec!["17:00.0"],
                vec!["1a:00.0"],
            ),
            (
                "found.go:17  Discovered NIC  {\"address\": \"0000:1a:00.0\", \"status\": {\"type\":\"1023\",\"modelName\":\"NVIDIA ConnectX-8 C8180\",\"sup\n",
                vec![],
                vec!["1a:00.0"],
            ),
            (
                "GPUs:\n  Card 0:\n    Vendor: NVIDIA Corporation (10de)\n    Product: GH100 [H100 SXM5 80GB] (2330)\n    PCI address: 0000:17:00.0\n  Card 1:\n    \
                 Vendor: ASPEED Technology (1a03)\n    PCI address: 0000:03:00.0\nNICs:\n  Card 0:\n    Vendor: Mellanox Technologies (15b3)\n    PCI address: 0000:1a:00.0\n",
                vec!["17:00.0"],
                vec!["1a:00.0"],
            ),
            (
                "<device>\n  <name>pci_0000_17_00_0</name>\n  <capability type='pci'>\n    <class>0x030200</class>\n    <domain>0</domain>\n    <bus>23</bus>\n    \
                 <slot>0</slot>\n    <function>0</function>\n    <product id='0x2330'>GH100</product>\n    <vendor id='0x10de'>NVIDIA Corporation</vendor>\n  \
                 </capability>\n</device>\n",
                vec!["17:00.0"],
                vec![],
            ),
            (
                "[{\"type\":\"GPU\",\"result\":[{\"index\":null,\"name\":\"GeForce RTX 3090\",\"temperature\":35.0,\"vendor\":\"NVIDIA\"},\
                 {\"index\":null,\"name\":\"GeForce RTX 3090\",\"temperature\":36.0,\"vendor\":\"NVIDIA\"}]}]\n",
                vec!["GeForce RTX 3090"; 2],
                vec![],
            ),
            (
                "{\"gpuDevice\": [{\"active\": true, \"deviceId\": 9348, \"vendorId\": 4318}, {\"active\": false, \"deviceId\": 1, \"vendorId\": 32902}]}\n",
                vec![""],
                vec![],
            ),
            (
                "{\"Id\": \"GPU_1\", \"Manufacturer\": \"NVIDIA\", \"Model\": \"H100 80GB HBM3\", \"ProcessorType\": \"GPU\"}\n",
                vec!["H100 80GB HBM3"],
                vec![],
            ),
            (
                "{\"kubernetes.io/hostname\": \"node1\", \"nvidia.com/gpu.count\": \"2\", \"nvidia.com/gpu.product\": \"NVIDIA-L4-SHARED\"}\n",
                vec!["NVIDIA-L4"; 2],
                vec![],
            ),
            (
                "{\"ibdev\": \"mlx5_2\", \"state\": \"ACTIVE\", \"vendor\": \"15b3\"}\n",
                vec![],
                vec!["mlx5_2"],
            ),
            (
                "Name=NVIDIA GeForce RTX 3060\nAdapterRAM=4293918720\nStatus=OK\n",
                vec!["NVIDIA GeForce RTX 3060"],
                vec![],
            ),
            (
                "Name: NVIDIA L4\nDriverVersion: 31.0\nLocation: PCI bus 23, device 0, function 0\n",
                vec!["17:00.0"],
                vec![],
            ),
        ] {
            let (of_gpus, of_nics) = found(document);
            assert_eq!(
                (of_gpus, of_nics),
                (
                    gpus.into_iter().map(str::to_owned).collect(),
                    nics.into_iter().map(str::to_owned).collect()
                ),
                "{document}"
            );
        }
    }

    /// A log repeats what it lists, and numbers distinguish GPUs that stand alone.
    #[test]
    fn each_gpu_counts_once() {
        let list = "{\"gpus\": [{\"name\": \"NVIDIA L4\", \"temp\": 30}, {\"name\": \"NVIDIA L4\", \"temp\": 31}]}\n";
        assert_eq!(found(&list.repeat(3)).0.len(), 2);
        let one = |index: u32| {
            format!("log {{\"name\": \"NVIDIA L4\", \"temp\": 30, \"index\": {index}}}\n")
        };
        assert_eq!(found(&(one(0) + &one(1) + &one(0))).0.len(), 2);
        let bare = "log {\"name\": \"NVIDIA L4\", \"temp\": 30}\n";
        assert_eq!(found(&bare.repeat(2)).0.len(), 1);
    }

    #[test]
    fn what_shows_no_device_of_the_machine() {
        for document in [
            "device_spec = { \"vendor_id\": \"10de\", \"product_id\": \"2330\" }\n",
            "{\"Gpus\": [{\"Name\": \"A100\", \"Manufacturer\": \"NVIDIA\", \"Count\": 8}]}\n",
            "GPUS = {\n    \"h100\": {\"name\": \"NVIDIA H100 80GB HBM3\", \"memory\": 80},\n}\n",
            "matchFeatures:\n- feature: pci.device\n  vendor: {op: In, value: [\"10de\"]}\n  class: {op: In, value: [\"0302\"]}\n",
            "{\"vendor\": \"10de\", \"class\": \"0302\"}\n",
            "{\"address\": \"0000:17:00.1\", \"vendor\": \"10de\", \"class\": \"0403\"}\n",
            "{\"address\": \"0000:05:00.0\", \"vendor\": \"10de\", \"name\": \"NVIDIA NVSwitch\", \"class\": \"0680\"}\n",
            "{\"device_name\": \"mlx5_0\", \"protocol\": \"rdma\", \"vendor\": \"nvidia\"}\n",
        ] {
            assert!(text(document.as_bytes(), SupportReport::default()).is_err(), "{document}");
        }
        let of = |node: &str| {
            format!(
                "{{\"node\": \"{node}\", \"address\": \"0000:17:00.0\", \"vendor\": \"10de\", \"name\": \"NVIDIA L4\"}}\n"
            )
        };
        let error = text((of("a") + &of("b")).as_bytes(), SupportReport::default());
        assert!(error.expect_err("two machines").to_string().contains("'a' and 'b'"));
    }
}
