//! lspci text, with any of `-v`, `-n`, `-x`, `-t`, and with other text around it.
//!
//! Printed values are known. A missing line means absence only if lspci would certainly have printed it;
//! otherwise the fact is unknown. Hex bytes of a function override its text.

mod blocks;
mod bytes;
mod capabilities;
mod drawn;
mod dump;
mod express;
mod extended;
mod form;
mod function;
mod head;
mod lines;
mod machines;
mod nics;
mod regions;
mod registers;
#[cfg(test)]
mod tests;

pub use head::{Named, gpu};

use drawn::Drawn;
use dump::{Functions, MergedFunction};
use function::Function;
use machines::Machines;

use super::ImportError;
use super::limits::FUNCTIONS;
use super::tree::{Node, Tree};
use crate::model::Order as _;
use crate::model::config::PortType;
use crate::model::{Attributes, Bdf, Fact, Facts, Ids, Note, PciDevice, Platform, Why};
use crate::pci::{PciNames, PciNumbers};

/// Limit of functions in all runs together: those of the largest machine 16 times.
const MAX_READ: usize = 16 * FUNCTIONS;

/// Limit of remarks.
const MAX_NOTES: usize = 100;

pub fn is_format(bytes: &[u8]) -> bool {
    lines::lines(bytes).any(|line| head::parse(&line.text).is_some()) || drawn::names_devices(bytes)
}

/// True for the first line of a function.
pub fn is_head(line: &str) -> bool {
    head::parse(line).is_some()
}

/// True for a line of the bytes of a function, as `-x` prints them.
pub fn is_bytes(line: &str) -> bool {
    blocks::is_row(line)
}

pub fn facts(bytes: &[u8], names: &PciNames) -> Result<Facts, ImportError> {
    let mut failure = ParseNotes::default();
    let numbers = PciNumbers::new(names);
    let mut functions = functions(bytes, &numbers, &mut failure);
    let trees = drawn::trees(bytes);
    if functions.is_empty()
        && let Some(tree) = trees.first()
    {
        functions = self::functions(tree.list(&numbers).as_bytes(), &numbers, &mut failure);
    }
    let devices = all_devices(functions, &trees, &mut failure);
    let nics = devices
        .iter()
        .filter(|(device, is_nic)| is_nic.unwrap_or_else(|| nics::looks_like_one(device, names)));
    let unnamed_nics: Vec<Bdf> = nics.map(|(device, _)| device.bdf).collect();
    let devices: Vec<PciDevice> = devices.into_iter().map(|(device, _)| device).collect();
    let of_class = |is: fn(&Ids) -> bool| {
        devices.iter().filter(move |device| device.ids.known().is_some_and(is))
    };
    let nvme: Vec<(String, Bdf)> =
        of_class(Ids::is_nvme).map(|device| (device.bdf.to_string(), device.bdf)).collect();
    let platform = Platform {
        paravirtual_devices: super::paravirtual_devices(&devices),
        ..Platform::default()
    };
    Ok(Facts {
        nvme: Fact::Known(nvme),
        platform,
        unnamed_nics,
        pci: Fact::Known(devices),
        notes: failure.notes(),
        ..Facts::default()
    })
}

/// The functions of all lspci runs in the text, grouped by possible machine, the largest first.
fn functions(bytes: &[u8], numbers: &PciNumbers<'_>, failure: &mut ParseNotes) -> Vec<Functions> {
    let mut machines = Machines::default();
    let mut run: Vec<Function> = Vec::new();
    let (mut count, mut left_out) = (0_usize, 0_usize);
    let (mut read, mut unread) = (0_usize, 0_usize);
    blocks::blocks(bytes, |block| {
        if read == MAX_READ {
            unread += 1;
            return;
        }
        let Some(head) = head::parse(&block.first.text) else {
            return;
        };
        // Within a run addresses rise, and functions are adjacent.
        if block.apart || run.last().is_some_and(|last| last.bdf >= head.bdf) {
            machines.join(std::mem::take(&mut run), failure);
        }
        let known = machines.has(head.bdf);
        if count < FUNCTIONS || known {
            count += usize::from(!known);
            read += 1;
            run.push(Function::read(&head, &block, numbers));
        } else {
            left_out += 1;
        }
    });
    if left_out > 0 {
        failure.add(0, format!("more than {FUNCTIONS} functions: {left_out} ignored"));
    }
    if unread > 0 {
        failure.add(0, format!("more than {MAX_READ} functions in all parts: {unread} not read"));
    }
    machines.join(run, failure);
    let mut machines = machines.all();
    machines.order_by_key(|machine| std::cmp::Reverse(machine.len()));
    let all: usize = machines.iter().map(Functions::len).sum();
    if let Some(first) = machines.first()
        && all > first.len()
    {
        let line = machines[1..].iter().flat_map(Functions::values).map(|merged| merged.line);
        failure.add(
            line.min().unwrap_or_default(),
            "has no function in common with other parts of this text: it may be another machine, and paths between them are \
             unknown"
                .to_owned(),
        );
    }
    machines
}

/// The functions as placed devices. The root of a possible other machine is uncertain, so no path joins
/// the two.
fn all_devices(
    machines: Vec<Functions>,
    trees: &[Drawn],
    failure: &mut ParseNotes,
) -> Vec<(PciDevice, Option<bool>)> {
    let mut devices = Vec::new();
    for (at, functions) in machines.into_iter().enumerate() {
        let tree = trees.iter().find(|tree| tree.has_all(functions.keys()));
        let mut these = self::devices(functions, tree, failure);
        if at > 0 {
            for (device, _) in &mut these {
                if let Fact::Known(place) = &mut device.place {
                    place.rooted = false;
                }
            }
        }
        devices.append(&mut these);
    }
    devices.order_by_key(|(device, _)| device.bdf);
    devices
}

/// The functions as placed devices, and whether each is a NIC, as far as its text says so: one that manages a switch is not.
fn devices(
    functions: Functions,
    tree: Option<&Drawn>,
    failure: &mut ParseNotes,
) -> Vec<(PciDevice, Option<bool>)> {
    let below = |bdf| tree.and_then(|tree| tree.below(bdf));
    let mut nodes: Vec<Node> = functions
        .iter()
        .map(|(bdf, merged)| Node {
            bdf: *bdf,
            secondary: merged.secondary.or(below(*bdf).map(|(first, _)| first)),
            subordinate: merged.subordinate.or(below(*bdf).map(|(_, last)| last)),
            on_root: on_root(merged) || tree.is_some_and(|tree| tree.is_on_root(*bdf)),
            below_a_port: matches!(
                merged.port,
                Some(PortType::UpstreamPort | PortType::DownstreamPort)
            ),
        })
        .collect();
    if let Some(tree) = tree {
        nodes.extend(tree.nodes(|bdf| functions.contains_key(&bdf)));
    }
    let mut tree = Tree::new(&nodes);
    for (bdf, merged) in &functions {
        reach(&mut tree, *bdf, merged);
    }
    for (bridge, message) in tree.failure() {
        let line = functions.get(&bridge).map_or(0, |merged| merged.line);
        failure.add(line, message);
    }
    let device = |(bdf, merged): (Bdf, MergedFunction)| {
        if merged.numbers.ids().is_none() {
            failure.add(
                merged.line,
                format!("{bdf}: the PCI ids list no vendor or class of that name"),
            );
        }
        let device = PciDevice {
            bdf,
            place: tree.place(bdf),
            ids: merged.numbers.ids().map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
            numa_node: merged.numa,
            config: merged.config,
            attributes: Some(merged.attributes)
                .filter(|attributes| *attributes != Attributes::default())
                .map(Box::new),
        };
        let is_network = device.ids.known().is_some_and(|ids| ids.base_class() == 0x02);
        let is_named = merged.names_rdma && is_network;
        (device, if merged.manages { Some(false) } else { is_named.then_some(true) })
    };
    functions.into_iter().map(device).collect()
}

/// Whether the function is always on a root bus. QEMU's root ports also occur below switches.
fn on_root(merged: &MergedFunction) -> bool {
    const RED_HAT: u16 = 0x1b36;
    // System peripherals of Xeon's root complexes (Skylake, from Ice Lake on), one set per root bus. Only
    // root sees their port type, but everyone sees their ids.
    const INTEL: u16 = 0x8086;
    const PERIPHERALS: [u16; 7] = [0x2034, 0x2035, 0x2036, 0x0998, 0x09a2, 0x09a3, 0x09a4];
    // Xilinx and Altera: NICs of any class.
    const FPGAS: [u16; 2] = [0x10ee, 0x1172];
    match merged.port {
        _ if merged.numbers.vendor == Some(INTEL)
            && merged.numbers.device.is_some_and(|of| PERIPHERALS.contains(&of)) =>
        {
            true
        }
        Some(port) if port.is_integrated() => true,
        Some(PortType::RootPort) => merged.numbers.vendor.is_some_and(|vendor| vendor != RED_HAT),
        // Some NICs claim to be host bridges but are endpoints.
        Some(_) => false,
        None if merged.numbers.vendor.is_some_and(|vendor| FPGAS.contains(&vendor)) => false,
        None => merged.numbers.class.is_some_and(|class| class >> 8 == 0x0600),
    }
}

/// Virtual functions may extend past the last function of the physical one's bus (PCIe 9.2.1.2).
fn reach(tree: &mut Tree, bdf: Bdf, merged: &MergedFunction) {
    let Some(sriov) =
        merged.config.sriov.present().filter(|sriov| sriov.enabled && sriov.num_vfs > 0)
    else {
        return;
    };
    let first = u32::from(bdf.bus) << 8 | u32::from(bdf.device) << 3 | u32::from(bdf.function);
    let first = first + u32::from(sriov.first_vf_offset);
    let last = first.saturating_add(u32::from(sriov.num_vfs - 1) * u32::from(sriov.vf_stride));
    let buses = (first >> 8).max(u32::from(bdf.bus) + 1)..=(last >> 8).min(0xff);
    for bus in buses {
        if let Ok(bus) = u8::try_from(bus) {
            tree.reaches(bdf, bus);
        }
    }
}

/// Remarks about malformed parts.
#[derive(Default)]
pub(super) struct ParseNotes {
    found: Vec<(usize, String)>,
    more: usize,
}

impl ParseNotes {
    /// Line 0 means the whole text.
    fn add(&mut self, line: usize, message: String) {
        if self.found.len() < MAX_NOTES { self.found.push((line, message)) } else { self.more += 1 }
    }

    fn notes(mut self) -> Vec<Note> {
        self.found.sort();
        if self.more > 0 {
            self.found.push((0, format!("and {} more remarks", self.more)));
        }
        let source = |line: usize| match line {
            0 => "lspci".to_owned(),
            line => format!("lspci, line {line}"),
        };
        let note = |(line, message)| Note { source: source(line), message };
        self.found.into_iter().map(note).collect()
    }
}
