//! A machine: its devices, its NUMA nodes, and files; read from machine.json or from a recorded flat list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::bars;
use super::device::{Device, Rdma};
use super::expect::{Expect, Matrix};
use super::files::Content;
use super::scratch::scratch;
use super::{layout, tree};

/// The files beside `machine.json` that hold what a library answered there.
const LIBRARIES: [&str; 5] =
    ["nvml.json", "cuda.json", "verbs.json", "mapping.json", "registration.json"];

/// One machine, ready to be laid out.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub name: String,
    /// In the order of their addresses.
    pub devices: Vec<Device>,
    /// Root bus → directories between sys/devices and it ("" for most).
    pub roots: BTreeMap<String, String>,
    /// Node number → CPU list ("" for a node of memory only).
    pub nodes: BTreeMap<u32, String>,
    /// Whether the devices' local_cpulist follows from the nodes; a recorded machine does not say.
    pub knows_cpus: bool,
    pub soft_rdma: Vec<Rdma>,
    pub extra: Extra,
    /// The matrix nvidia-smi printed there, for recorded machines.
    pub matrix: Matrix,
    /// GPUs and NICs as recorded; empty for an authored machine.
    pub gpus: Vec<String>,
    pub nics: Vec<(String, String)>,
}

/// What lies beside the devices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extra {
    pub files: BTreeMap<String, Content>,
    pub links: BTreeMap<String, String>,
    pub empty_dirs: Vec<String>,
    pub note: Value,
}

impl Machine {
    /// Reads `tests/machines/NAME/machine.json`.
    pub fn load(name: &str) -> Self {
        Self::load_changed(name, |_| {})
    }

    /// The same, with its JSON changed before it is read.
    pub fn load_changed(name: &str, change: impl FnOnce(&mut Value)) -> Self {
        let mut machine = serde_json::from_str(&read(&home(name).join("machine.json")))
            .expect("a machine's JSON");
        change(&mut machine);
        Self::finished(tree::parse(name, &machine.to_string(), &machines()))
    }

    /// Reads a recorded machine: a flat list of devices, with the matrix that nvidia-smi printed.
    pub fn from_corpus(path: &Path) -> Self {
        Self::finished(from_list(&read(path)))
    }

    /// What a person expects of it.
    pub fn expect(&self) -> Expect {
        Expect::load(&home(&self.name).join("expect.json"))
    }

    /// What nvidia-smi printed there (`nvidia-smi topo -m` is "topo-m"), byte for byte.
    pub fn nvidia_smi(&self, file: &str) -> Option<Vec<u8>> {
        fs::read(home(&self.name).join("nvidia-smi").join(file)).ok()
    }

    /// Writes the machine as a root directory of its own.
    pub fn laid_out(&self) -> TempDir {
        let dir = scratch();
        self.lay_out(dir.path());
        dir
    }

    /// Writes the machine as a root directory below `dir`, which must exist.
    pub fn lay_out(&self, dir: &Path) {
        layout::lay_out(self, dir);
        // What the libraries answered on that machine, where gdr looks for it.
        for library in LIBRARIES {
            let answer = home(&self.name).join(library);
            if answer.is_file() {
                fs::create_dir_all(dir.join("gdr")).expect("a directory below the root");
                fs::copy(&answer, dir.join("gdr").join(library)).expect("a library's answer");
            }
        }
    }

    /// The device at an address.
    pub fn device(&self, bdf: &str) -> &Device {
        self.devices
            .iter()
            .find(|d| d.bdf == bdf)
            .unwrap_or_else(|| panic!("{} has no device {bdf}", self.name))
    }

    /// Those that sit right below a bridge.
    pub fn below<'a>(&'a self, bdf: &'a str) -> impl Iterator<Item = &'a Device> {
        self.devices.iter().filter(move |d| d.parent.as_deref() == Some(bdf))
    }

    /// Where a device's directory is, from the root.
    pub fn place(&self, device: &Device) -> String {
        let above = match &device.parent {
            Some(parent) => self.place(self.device(parent)),
            None => {
                let under = self.roots.get(&device.root).map_or("", String::as_str);
                let steps = ["sys/devices", under, &format!("pci{}", device.root)];
                steps.iter().filter(|step| !step.is_empty()).copied().collect::<Vec<_>>().join("/")
            }
        };
        format!("{above}/{}", device.bdf)
    }

    /// A device's `local_cpulist`: given, or the CPUs of its node; all of them where it has none.
    pub fn local_cpus(&self, device: &Device) -> Option<String> {
        if device.cpus.is_some() || !self.knows_cpus {
            return device.cpus.clone();
        }
        let node = device.numa.and_then(|n| u32::try_from(n).ok());
        match node {
            Some(node) => self.nodes.get(&node).cloned(),
            None => Some(self.all_cpus()),
        }
    }

    /// The CPUs of all nodes.
    pub fn all_cpus(&self) -> String {
        layout::list(self.nodes.values().flat_map(|cpus| layout::numbers(cpus)))
    }

    fn finished(mut machine: Self) -> Self {
        machine.devices.sort_by(|a, b| (a.bdf.len(), &a.bdf).cmp(&(b.bdf.len(), &b.bdf)));
        bars::place(&mut machine.devices);
        group(&mut machine.devices);
        machine
    }
}

/// The names of all machines of this repository, sorted.
pub fn names() -> Vec<String> {
    those_with(&machines(), "machine.json")
}

/// The names of the machines that are there as snapshots, `tests/recorded/NAME/snapshot.json`, sorted.
pub fn recorded() -> Vec<String> {
    those_with(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded"), "snapshot.json")
}

/// The facts of real machines, `tests/corpus/*.json`, sorted.
pub fn corpus() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = fs::read_dir(corpus)
        .expect("tests/corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

/// The directories in `around` that hold this file.
fn those_with(around: &Path, file: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(around)
        .expect("a directory of machines")
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(file).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

fn home(name: &str) -> PathBuf {
    machines().join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()))
}

/// A device with a domain type and no group gets a group of its own, counted in the order of addresses.
fn group(devices: &mut [Device]) {
    let taken: Vec<_> = devices.iter().filter_map(|d| d.iommu_group).collect();
    let mut free = (0..).filter(|n| !taken.contains(n));
    for device in devices.iter_mut().filter(|d| d.iommu.is_some()) {
        device.iommu_group = device.iommu_group.or_else(|| free.next());
    }
}

#[derive(Deserialize)]
struct Recorded {
    name: String,
    gpus: Vec<String>,
    nics: Vec<(String, String)>,
    matrix: Matrix,
    devices: Vec<RecordedDevice>,
}

#[derive(Deserialize)]
struct RecordedDevice {
    bdf: String,
    parent: Option<String>,
    root: String,
    express: Option<String>,
    bus: Option<Vec<String>>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

fn from_list(text: &str) -> Machine {
    let file: Recorded = serde_json::from_str(text).expect("a recorded machine");
    let mut machine = Machine {
        name: file.name,
        gpus: file.gpus,
        nics: file.nics,
        matrix: file.matrix,
        ..Machine::default()
    };
    for recorded in &file.devices {
        let mut device = tree::recorded(&recorded.rest);
        let has_children = file.devices.iter().any(|d| d.parent.as_ref() == Some(&recorded.bdf));
        device.bdf.clone_from(&recorded.bdf);
        device.parent.clone_from(&recorded.parent);
        device.root.clone_from(&recorded.root);
        device.buses = recorded.bus.as_deref().and_then(tree::buses);
        let above = recorded.parent.as_ref().and_then(|parent| {
            let parent = machine.devices.iter().find(|d| d.bdf == *parent);
            parent.and_then(|d| d.port)
        });
        let kind = recorded.express.as_deref().unwrap_or("");
        tree::complete(&mut device, has_children, above, kind);
        let nic = machine.nics.iter().find(|(bdf, _)| *bdf == device.bdf);
        device.rdma = nic.map(|(_, name)| Rdma {
            name: name.clone(),
            layer: Some("Ethernet".to_owned()),
            ..Rdma::default()
        });
        if let Some(node) = device.numa.and_then(|n| u32::try_from(n).ok()) {
            machine.nodes.insert(node, format!("{}-{}", 16 * node, 16 * node + 15));
        }
        machine.devices.push(device);
    }
    if machine.nodes.is_empty() {
        machine.nodes.insert(0, "0-15".to_owned());
    }
    machine
}
