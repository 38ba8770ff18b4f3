//! Reads machine.json: a tree of root buses, bridges and functions, with kinds and inheritance.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::device::{Device, Hex, PortType, Rdma};
use super::machine::{Extra, Machine};

/// What a device takes over from the bridge above unless it says otherwise.
const INHERITED: [&str; 4] = ["numa", "cpus", "iommu", "iommu_group"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    note: Value,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    nodes: BTreeMap<u32, String>,
    #[serde(default)]
    kinds: Kinds,
    roots: BTreeMap<String, Root>,
    #[serde(default)]
    soft_rdma: Vec<Rdma>,
    #[serde(default)]
    files: BTreeMap<String, super::files::Content>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    empty_dirs: Vec<String>,
}

#[derive(Deserialize)]
struct Root {
    #[serde(default)]
    under: String,
    below: Map<String, Value>,
    #[serde(flatten)]
    inherited: Map<String, Value>,
}

type Kinds = BTreeMap<String, Map<String, Value>>;

/// Reads an authored machine. `machines` holds `common/`: kinds, and files many machines share.
pub fn parse(name: &str, text: &str, machines: &Path) -> Machine {
    let file: File = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut kinds: Kinds = common(machines, "kinds");
    kinds.extend(file.kinds);
    let mut extra = Extra { note: file.note, ..Extra::default() };
    for shared in &file.with {
        let shared: Extra = common(machines, shared);
        extra.files.extend(shared.files);
        extra.links.extend(shared.links);
        extra.empty_dirs.extend(shared.empty_dirs);
    }
    extra.files.extend(file.files);
    extra.links.extend(file.links);
    extra.empty_dirs.extend(file.empty_dirs);
    let mut machine = Machine {
        name: name.to_owned(),
        nodes: file.nodes,
        knows_cpus: true,
        soft_rdma: file.soft_rdma,
        extra,
        ..Machine::default()
    };
    for (bus, root) in &file.roots {
        machine.roots.insert(bus.clone(), root.under.clone());
        for key in root.inherited.keys() {
            assert!(
                INHERITED.contains(&key.as_str()),
                "{name}: root {bus} has a key '{key}' that nothing reads"
            );
        }
        let mut planter = Planter { machine: name, bus, kinds: &kinds, out: &mut machine.devices };
        let mut inherited = root.inherited.clone();
        inherited.entry("numa").or_insert(Value::from(-1));
        planter.plant(&root.below, None, &inherited);
    }
    machine
}

fn common<T: serde::de::DeserializeOwned>(machines: &Path, name: &str) -> T {
    let path = machines.join("common").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

struct Planter<'a> {
    machine: &'a str,
    bus: &'a str,
    kinds: &'a Kinds,
    out: &'a mut Vec<Device>,
}

impl Planter<'_> {
    fn plant(
        &mut self,
        below: &Map<String, Value>,
        parent: Option<&str>,
        above: &Map<String, Value>,
    ) {
        for (address, written) in below {
            let bdf = self.bdf(address);
            let mut keys = self.keys(&bdf, written);
            let children = match keys.remove("below") {
                Some(Value::Object(children)) => children,
                None => Map::new(),
                Some(_) => panic!("{}: 'below' of {bdf} is an object", self.machine),
            };
            for key in INHERITED {
                if let (None, Some(value)) = (keys.get(key), above.get(key)) {
                    keys.insert(key.to_owned(), value.clone());
                }
            }
            let mut device: Device = serde_json::from_value(Value::Object(keys.clone()))
                .unwrap_or_else(|e| panic!("{}: {bdf}: {e}", self.machine));
            device.bdf.clone_from(&bdf);
            device.parent = parent.map(str::to_owned);
            self.bus.clone_into(&mut device.root);
            self.out.push(device);
            self.plant(&children, Some(&bdf), &keys);
        }
    }

    /// The keys of a device: those of its kind, then its own.
    fn keys(&self, bdf: &str, written: &Value) -> Map<String, Value> {
        let own = match written {
            Value::Object(own) => own.clone(),
            Value::String(kind) => Map::from_iter([("is".to_owned(), Value::from(kind.as_str()))]),
            _ => panic!("{}: {bdf} is an object or the name of a kind", self.machine),
        };
        let mut keys = match own.get("is").and_then(Value::as_str) {
            None => Map::new(),
            Some(kind) => {
                let base = self
                    .kinds
                    .get(kind)
                    .unwrap_or_else(|| panic!("{}: no kind '{kind}' ({bdf})", self.machine));
                self.keys(bdf, &Value::Object(base.clone()))
            }
        };
        keys.extend(own);
        keys.remove("is");
        keys
    }

    /// "17:00.0" gets the domain of its root.
    fn bdf(&self, address: &str) -> String {
        if address.matches(':').count() > 1 {
            return address.to_owned();
        }
        let domain = self.bus.split(':').next().unwrap_or("0000");
        format!("{domain}:{address}")
    }
}

/// A device of the recorded flat list, whose keys are a part of ours.
pub fn recorded(keys: &Map<String, Value>) -> Device {
    let mut keys = keys.clone();
    keys.entry("vendor").or_insert(Value::from(0xfffe));
    keys.entry("device").or_insert(Value::from(0x0001));
    keys.entry("class").or_insert(Value::from(0x08_8000));
    keys.entry("numa").or_insert(Value::from(-1));
    serde_json::from_value(Value::Object(keys)).expect("a recorded device")
}

/// What the record leaves open, filled as the recorder's own layout fills it.
pub fn complete(device: &mut Device, has_children: bool, above: Option<PortType>, express: &str) {
    const NAMES: [(&str, PortType); 6] = [
        ("Root Port", PortType::RootPort),
        ("Upstream Port", PortType::Upstream),
        ("Downstream Port", PortType::Downstream),
        ("Endpoint", PortType::Endpoint),
        ("Legacy Endpoint", PortType::LegacyEndpoint),
        ("Root Complex Integrated Endpoint", PortType::Integrated),
    ];
    if has_children {
        device.class = Hex(0x06_0400);
    }
    let named = NAMES.iter().find(|(name, _)| express.starts_with(name));
    device.port = Some(match named {
        Some((_, port)) => *port,
        None if !device.is_bridge() => PortType::Endpoint,
        None if device.parent.is_none() => PortType::RootPort,
        None if above == Some(PortType::Upstream) => PortType::Downstream,
        None => PortType::Upstream,
    });
}

/// The recorded bus numbers of a bridge: secondary, subordinate.
pub fn buses(recorded: &[String]) -> Option<(Hex, Hex)> {
    let number = |text: &String| u32::from_str_radix(text, 16).ok().map(Hex);
    let secondary = number(recorded.first()?)?;
    Some((secondary, recorded.get(1).and_then(number).unwrap_or(secondary)))
}
