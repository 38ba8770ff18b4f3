//! hwloc's XML as a flat list of NUMA nodes, bridges, PCI and OS devices with their parents.
//!
//! Read as a stream. The DTD is never opened, internal entities are refused and nesting is limited, so the
//! text's size bounds the cost.

use std::rc::Rc;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::super::ImportError;
use super::sets;
use crate::model::IdList;

/// Above packages, dies, caches, cores, and a dozen nested switches.
const DEEPEST: usize = 256;
/// Limit of attributes per element.
const ATTRIBUTES: usize = 64;
/// Limit of objects.
const OBJECTS: usize = 65_536;
/// Limit of an info's text.
const LONGEST: usize = 256;

/// How OS devices encode their types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// hwloc 1 and 2: numbers.
    Numbers,
    /// hwloc 3: bits.
    Bits,
}

#[derive(Debug)]
pub struct Document {
    pub version: Version,
    /// Parents come before children.
    pub objects: Vec<Object>,
    /// NUMA nodes of the whole machine, including those that its processes may not use.
    pub all_nodes: Option<IdList>,
    /// Infos of the machine and its packages, for the report's header.
    pub infos: Vec<(String, String)>,
}

impl Document {
    /// The machine's first info of this name.
    pub fn info(&self, name: &str) -> Option<String> {
        let mut infos = self.infos.iter();
        infos.find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

#[derive(Debug)]
pub struct Object {
    pub kind: ObjectKind,
    /// Index of the parent object; `None` if the parent is a part of the processors.
    pub above: Option<usize>,
    /// The nearest part of the processors above it.
    pub near: Rc<Locality>,
    pub infos: Vec<(String, String)>,
}

/// An object's type and attributes.
#[derive(Debug)]
pub enum ObjectKind {
    Node { number: Option<u32>, cpus: Option<IdList>, subtype: String },
    Bridge { kind: String, buses: String, address: String, pci: String },
    Pci { address: String, pci: String },
    Os { name: String, number: Option<u64> },
}

/// CPUs and NUMA nodes of a part of the processors.
#[derive(Debug, Default)]
pub struct Locality {
    pub whole: bool,
    pub cpus: Option<IdList>,
    pub nodes: Option<IdList>,
    /// Including those that the processes may not use.
    pub all_nodes: Option<IdList>,
}

pub fn read(bytes: &[u8]) -> Result<Document, ImportError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(error.valid_up_to() as u64, "not UTF-8"))?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut building = Building::default();
    loop {
        let at = reader.buffer_position();
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                building.start(&start).map_err(|what| malformed(at, &what))?
            }
            Ok(Event::End(_)) => building.end(),
            Ok(Event::DocType(kind)) if kind.contains('[') => {
                return Err(malformed(at, "its document type defines entities"));
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            // The error's own text quotes private names.
            Err(_) => return Err(malformed(reader.error_position(), "not well-formed")),
        }
    }
    building.finish(bytes.len() as u64)
}

fn malformed(at: u64, what: &str) -> ImportError {
    ImportError::Malformed(format!("invalid hwloc XML at byte {at}: {what}"))
}

/// An unclosed element.
enum Open {
    Part(Part),
    Object(usize),
    Other,
}

/// A part of the processors; its sets are parsed only if a device needs them.
struct Part {
    whole: bool,
    named: bool,
    tag: BytesStart<'static>,
    read: Option<Rc<Locality>>,
}

#[derive(Default)]
struct Building {
    version: Option<Version>,
    open: Vec<Open>,
    objects: Vec<Object>,
    all_nodes: Option<IdList>,
    infos: Vec<(String, String)>,
}

impl Building {
    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.open.len() == DEEPEST {
            return Err(format!("elements nest deeper than {DEEPEST}"));
        }
        let open = match (self.open.is_empty(), start.name().as_ref()) {
            (true, "topology") if self.version.is_none() => {
                self.version = Some(version(&Attributes::of(start)?)?);
                Open::Other
            }
            (true, _) => {
                return Err("the root element is not a single 'topology'".to_owned());
            }
            (false, "object") => self.object(start)?,
            (false, "info") => {
                self.info(start)?;
                Open::Other
            }
            (false, _) => Open::Other,
        };
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) {
        self.open.pop();
    }

    fn finish(self, end: u64) -> Result<Document, ImportError> {
        match self.version {
            Some(version) if self.open.is_empty() => Ok(Document {
                version,
                objects: self.objects,
                all_nodes: self.all_nodes,
                infos: self.infos,
            }),
            _ => Err(malformed(end, "truncated")),
        }
    }

    fn object(&mut self, start: &BytesStart<'_>) -> Result<Open, String> {
        let kind = kind_of(start)?;
        if !matches!(kind.as_str(), "NUMANode" | "Bridge" | "PCIDev" | "OSDev") {
            return self.processors(start, &kind);
        }
        let given = Attributes::of(start)?;
        let kind = match kind.as_str() {
            "NUMANode" => ObjectKind::Node {
                number: given.get("os_index").parse().ok(),
                cpus: sets::ids(given.get("cpuset")),
                subtype: given.get("subtype").to_owned(),
            },
            "Bridge" => ObjectKind::Bridge {
                kind: given.get("bridge_type").to_owned(),
                buses: given.get("bridge_pci").to_owned(),
                address: given.get("pci_busid").to_owned(),
                pci: given.get("pci_type").to_owned(),
            },
            "PCIDev" => ObjectKind::Pci {
                address: given.get("pci_busid").to_owned(),
                pci: given.get("pci_type").to_owned(),
            },
            _ => ObjectKind::Os {
                name: given.get("name").to_owned(),
                number: given.get("osdev_type").parse().ok(),
            },
        };
        if self.objects.len() == OBJECTS {
            return Err(format!("more than {OBJECTS} nodes and devices"));
        }
        let near = self.near();
        let above = match self.open.last() {
            Some(Open::Object(at)) => Some(*at),
            _ => None,
        };
        let is_node = matches!(kind, ObjectKind::Node { .. });
        self.objects.push(Object {
            kind,
            above: above.filter(|_| !is_node),
            near,
            infos: Vec::new(),
        });
        // In hwloc 1 a node is a part of the processors, with packages and devices below it.
        Ok(if is_node {
            Open::Part(part(start, false, false))
        } else {
            Open::Object(self.objects.len() - 1)
        })
    }

    fn processors(&mut self, start: &BytesStart<'_>, kind: &str) -> Result<Open, String> {
        let whole = matches!(kind, "Machine" | "System");
        if whole && self.all_nodes.is_none() {
            self.all_nodes = sets::ids(Attributes::of(start)?.get("complete_nodeset"));
        }
        Ok(Open::Part(part(start, whole, whole || kind == "Package")))
    }

    /// The innermost open part of the processors.
    fn near(&mut self) -> Rc<Locality> {
        let mut parts = self.open.iter_mut().rev().filter_map(|open| match open {
            Open::Part(part) => Some(part),
            _ => None,
        });
        parts.next().map_or_else(Rc::default, Part::locality)
    }

    fn info(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let (infos, is_wanted): (_, fn(&str) -> bool) = match self.open.last() {
            Some(Open::Object(at)) => {
                (self.objects.get_mut(*at).map(|object| &mut object.infos), is_of_device)
            }
            Some(Open::Part(Part { named: true, .. }) | Open::Other) => {
                (Some(&mut self.infos), is_of_machine)
            }
            _ => return Ok(()),
        };
        let Some(infos) = infos.filter(|infos| infos.len() < ATTRIBUTES) else {
            return Ok(());
        };
        let given = Attributes::of(start)?;
        let (name, value) = (given.get("name"), given.get("value"));
        if is_wanted(name) {
            infos.push((name.to_owned(), value.chars().take(LONGEST).collect()));
        }
        Ok(())
    }
}

fn part(start: &BytesStart<'_>, whole: bool, named: bool) -> Part {
    Part { whole, named, tag: start.to_owned(), read: None }
}

/// The attribute `type`, which hwloc writes first.
fn kind_of(start: &BytesStart<'_>) -> Result<String, String> {
    for attribute in start.attributes().with_checks(false).take(ATTRIBUTES) {
        let attribute = attribute.map_err(|error| error.to_string())?;
        if attribute.key.as_ref() == "type" {
            return Ok(attribute.value.chars().take(LONGEST).collect());
        }
    }
    Ok(String::new())
}

impl Part {
    fn locality(&mut self) -> Rc<Locality> {
        let read = self.read.get_or_insert_with(|| {
            // Unreadable sets are ignored.
            let given = Attributes::of(&self.tag).unwrap_or_default();
            Rc::new(Locality {
                whole: self.whole,
                cpus: sets::ids(given.get("cpuset")),
                nodes: sets::ids(given.get("nodeset")),
                all_nodes: sets::ids(given.get("complete_nodeset")),
            })
        });
        Rc::clone(read)
    }
}

/// hwloc 1 writes no version.
fn version(given: &Attributes) -> Result<Version, String> {
    match given.get("version").split('.').next() {
        Some("" | "1" | "2") => Ok(Version::Numbers),
        Some("3") => Ok(Version::Bits),
        other => {
            let version = other.and_then(|number| number.parse::<u32>().ok());
            let version = version
                .map_or_else(|| "another version".to_owned(), |number| format!("version {number}"));
            Err(format!("unsupported format with {version}: gdr reads hwloc 1, 2 and 3"))
        }
    }
}

/// Infos that facts need: `Port1State`, NVML's names.
fn is_of_device(name: &str) -> bool {
    matches!(name, "GPUVendor" | "GPUModel" | "NVIDIAUUID")
        || name.strip_prefix("Port").is_some_and(|rest| rest.ends_with("State"))
}

fn is_of_machine(name: &str) -> bool {
    matches!(
        name,
        "HostName"
            | "OSName"
            | "OSRelease"
            | "CPUModel"
            | "Architecture"
            | "DMISysVendor"
            | "DMIProductName"
    )
}

#[derive(Default)]
struct Attributes(Vec<(String, String)>);

impl Attributes {
    fn of(start: &BytesStart<'_>) -> Result<Self, String> {
        let mut all = Vec::new();
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|_| "an attribute is not well-formed")?;
            if all.len() == ATTRIBUTES {
                return Err(format!("an element has more than {ATTRIBUTES} attributes"));
            }
            let name: String = attribute.key.as_ref().to_owned();
            if all.iter().any(|(other, _)| *other == name) {
                return Err("an element has the same attribute twice".to_owned());
            }
            let value = quick_xml::escape::unescape(&attribute.value)
                .map_err(|_| "an attribute holds an entity that hwloc does not write")?;
            all.push((name, value.into_owned()));
        }
        Ok(Self(all))
    }

    /// The value, or an empty text.
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }
}
