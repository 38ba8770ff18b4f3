//! The tree that `lspci -t` draws: the bus below each bridge, and the root buses. With `-v` it has the names of the devices too.
//!
//! Layout of pciutils, ls-tree.c: a line continues the branch whose `+` or `\` is in its column.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::lines;
use crate::import::limits::FUNCTIONS;
use crate::import::tree::Node;
use crate::model::{Bdf, RootBus};
use crate::pci::PciNumbers;

/// One drawn tree.
#[derive(Default)]
pub(super) struct Drawn {
    /// Each function, with the first and the last bus below it if it is a bridge.
    functions: BTreeMap<Bdf, Option<(u8, u8)>>,
    roots: BTreeSet<RootBus>,
    names: Vec<(Bdf, String)>,
    /// What is right of the branch in each column.
    branches: BTreeMap<usize, Under>,
}

/// What the rest of a line is below.
#[derive(Clone, Copy)]
enum Under {
    Host,
    Bus(RootBus),
    Function(Bdf),
}

/// All trees of a text.
pub(super) fn trees(bytes: &[u8]) -> Vec<Drawn> {
    let mut trees: Vec<Drawn> = Vec::new();
    let mut is_open = false;
    for line in lines(bytes) {
        let skipped = line.text.len() - line.text.trim_start_matches(['|', ' ']).len();
        let (text, column) = (&line.text[skipped..], line.indent + skipped);
        if skipped == 0 && is_begin(text) {
            trees.push(Drawn::default());
            is_open = true;
        }
        let Some(tree) = trees.last_mut().filter(|_| is_open) else {
            continue;
        };
        is_open = tree.functions.len() < FUNCTIONS && tree.read(text, column);
    }
    trees
}

/// True for the first line of a tree.
fn is_begin(text: &str) -> bool {
    let bus = text.strip_prefix("-[").or_else(|| text.strip_prefix("-+-["));
    let bus = bus.and_then(|rest| rest.split_once("]-")).map(|(bus, _)| bus);
    bus.is_some_and(|bus| bus_of(bus).is_some())
}

/// True if a text has a tree that names a GPU or a NIC.
pub(super) fn names_devices(bytes: &[u8]) -> bool {
    let is_named = |name: &str| name.starts_with("NVIDIA ") || name.starts_with("Mellanox ");
    trees(bytes).iter().any(|tree| tree.names.iter().any(|(_, name)| is_named(name)))
}

impl Drawn {
    /// Reads a line; false if it does not belong to the tree.
    fn read(&mut self, text: &str, column: usize) -> bool {
        let mut under = match text.as_bytes().first() {
            Some(b'-') if self.functions.is_empty() => Under::Host,
            Some(b'+' | b'\\') => match self.branches.get(&column) {
                Some(under) => *under,
                None => return false,
            },
            _ => return false,
        };
        self.branches.split_off(&column);
        let mut at = 0;
        while let Some(rest) = text.get(at..) {
            match rest.as_bytes().first() {
                Some(b'-') => at += 1,
                Some(b'+' | b'\\') => {
                    self.branches.insert(column + at, under);
                    at += 1;
                }
                Some(b'[') => {
                    let Some((bus, _)) = rest[1..].split_once(']') else {
                        return false;
                    };
                    let Some(below) = self.bus(under, bus) else {
                        return false;
                    };
                    under = below;
                    at += bus.len() + 2;
                }
                Some(b' ') | None => break,
                Some(_) => {
                    let (Under::Bus(bus), Some((device, function))) =
                        (under, rest.get(..4).and_then(slot))
                    else {
                        return false;
                    };
                    let bdf = Bdf { domain: bus.domain, bus: bus.bus, device, function };
                    self.functions.insert(bdf, None);
                    under = Under::Function(bdf);
                    at += 4;
                }
            }
        }
        if let (Under::Function(bdf), Some(name)) =
            (under, text.get(at..).map(str::trim).filter(|name| !name.is_empty()))
        {
            self.names.push((bdf, name.to_owned()));
        }
        true
    }

    /// A bus in brackets: `0000:16`, `17`, `17-1a`.
    fn bus(&mut self, under: Under, text: &str) -> Option<Under> {
        match under {
            Under::Host => {
                let root = bus_of(text)?;
                self.roots.insert(root);
                Some(Under::Bus(root))
            }
            Under::Function(bridge) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last) = (hex8(first)?, hex8(last)?);
                self.functions.insert(bridge, Some((first, last)));
                Some(Under::Bus(RootBus { domain: bridge.domain, bus: first }))
            }
            Under::Bus(_) => None,
        }
    }

    /// True if the tree has all of these functions, and so is certainly of their machine.
    pub(super) fn has_all<'a>(&self, mut functions: impl Iterator<Item = &'a Bdf>) -> bool {
        functions.all(|bdf| self.functions.contains_key(bdf))
    }

    /// The buses below a bridge.
    pub(super) fn below(&self, bridge: Bdf) -> Option<(u8, u8)> {
        self.functions.get(&bridge).copied().flatten()
    }

    pub(super) fn is_on_root(&self, bdf: Bdf) -> bool {
        self.roots.contains(&RootBus { domain: bdf.domain, bus: bdf.bus })
    }

    /// The bridges, and a function of each root bus, as far as a list lacks them.
    pub(super) fn nodes(&self, is_listed: impl Fn(Bdf) -> bool) -> Vec<Node> {
        let missing = self.functions.iter().filter(|(bdf, _)| !is_listed(**bdf));
        let node = |(bdf, below): (&Bdf, &Option<(u8, u8)>)| Node {
            bdf: *bdf,
            secondary: below.map(|(first, _)| first),
            subordinate: below.map(|(_, last)| last),
            on_root: self.is_on_root(*bdf),
            below_a_port: false,
        };
        missing.map(node).collect()
    }

    /// The named GPUs and NICs as lspci lists them. A tree has no classes; these are the least that the parts can be.
    pub(super) fn list(&self, numbers: &PciNumbers<'_>) -> String {
        const NVIDIA: u16 = 0x10de;
        const MELLANOX: u16 = 0x15b3;
        let line = |(bdf, name): &(Bdf, String)| {
            let (vendor, device) = numbers.part(name)?;
            let is_nic = ["ConnectX", "BlueField"].iter().any(|part| name.contains(part));
            let ids = crate::model::Ids { vendor, device, class: 0x03_8000 };
            let class = match vendor {
                NVIDIA if ids.listed_gpu().is_some() => "0380",
                MELLANOX if is_nic && !name.to_ascii_lowercase().contains("bridge") => "0200",
                _ => return None,
            };
            Some(format!("{bdf} {class}: {vendor:04x}:{:04x}\n", device?))
        };
        self.names.iter().filter_map(line).collect()
    }
}

fn bus_of(text: &str) -> Option<RootBus> {
    let (domain, bus) = text.split_once(':').unwrap_or(("0", text));
    Some(RootBus { domain: u32::from_str_radix(domain, 16).ok()?, bus: hex8(bus)? })
}

fn slot(text: &str) -> Option<(u8, u8)> {
    let (device, function) = text.split_once('.')?;
    let function = function.parse().ok().filter(|function| *function < 8)?;
    Some((hex8(device).filter(|device| *device < 32)?, function))
}

fn hex8(text: &str) -> Option<u8> {
    let is_hex = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}
