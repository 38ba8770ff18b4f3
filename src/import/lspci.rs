//! The text of lspci, with whatever of `-v`, `-n`, `-x` it was called, in whatever a report has around it.
//!
//! What is printed is known. What is not printed is none only where it is sure that it would have been; else it is not
//! covered. Where a function has bytes, they count for more than the words.

mod blocks;
mod bytes;
mod capabilities;
mod dump;
mod express;
mod extended;
mod form;
mod function;
mod head;
mod lines;
mod nics;
mod regions;
mod registers;
#[cfg(test)]
mod tests;

use dump::{Functions, Seen};
use function::Function;

use super::ImportError;
use super::limits::FUNCTIONS;
use super::tree::{Node, Tree};
use crate::model::config::PortType;
use crate::model::{Attributes, Bdf, Fact, Facts, Ids, Note, PciDevice, Platform, Why};
use crate::pci::{PciNames, PciNumbers};

/// More parts that have nothing in common than any report has.
const MOST_RUNS: usize = 256;

/// More remarks than anybody reads.
const MOST_NOTES: usize = 100;

/// Whether a line of the text begins a function.
pub fn is_one(bytes: &[u8]) -> bool {
    lines::lines(bytes).any(|line| head::parse(&line.text).is_some())
}

/// The facts of a text.
pub fn facts(bytes: &[u8], names: &PciNames) -> Result<Facts, ImportError> {
    let mut failure = ParseNotes::default();
    let functions = functions(bytes, &PciNumbers::new(names), &mut failure);
    let devices = all_devices(functions, &mut failure);
    let nics = devices.iter().filter(|(_, manages)| !manages);
    let nics = nics.filter(|(device, _)| nics::looks_like_one(device, names));
    let unnamed_nics: Vec<Bdf> = nics.map(|(device, _)| device.bdf).collect();
    let devices: Vec<PciDevice> = devices.into_iter().map(|(device, _)| device).collect();
    let of_class = |is: fn(&Ids) -> bool| {
        devices
            .iter()
            .filter(move |device| device.ids.known().is_some_and(is))
    };
    let nvme: Vec<(String, Bdf)> = of_class(Ids::is_nvme)
        .map(|device| (device.bdf.to_string(), device.bdf))
        .collect();
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

/// The functions of all runs of lspci in the text, by machines that they can be of: first the one that has most.
fn functions(bytes: &[u8], numbers: &PciNumbers<'_>, failure: &mut ParseNotes) -> Vec<Functions> {
    let mut machines: Vec<Functions> = Vec::new();
    let mut run: Vec<Function> = Vec::new();
    let (mut count, mut left_out) = (0_usize, 0_usize);
    blocks::blocks(bytes, |block| {
        let Some(head) = head::parse(&block.first.text) else {
            return;
        };
        // Addresses rise within a run, and nothing stands between its functions.
        if block.apart || run.last().is_some_and(|last| last.bdf >= head.bdf) {
            join(&mut machines, std::mem::take(&mut run), failure);
        }
        let known = || {
            machines
                .iter()
                .any(|machine| machine.contains_key(&head.bdf))
        };
        if count < FUNCTIONS || known() {
            count += usize::from(!known());
            run.push(Function::read(&head, &block, numbers));
        } else {
            left_out += 1;
        }
    });
    if left_out > 0 {
        failure.add(
            0,
            format!("more than {FUNCTIONS} functions: {left_out} are left out"),
        );
    }
    join(&mut machines, run, failure);
    machines.sort_by_key(|machine| std::cmp::Reverse(machine.len()));
    let all: usize = machines.iter().map(Functions::len).sum();
    if let Some(first) = machines.first()
        && all > first.len()
    {
        let line = machines[1..]
            .iter()
            .flat_map(Functions::values)
            .map(|seen| seen.line);
        failure.add(
            line.min().unwrap_or_default(),
            "has no function in common with other parts of this text: it may be of another machine, and nothing is said \
             of what lies between them"
                .to_owned(),
        );
    }
    machines
}

/// Adds a run to the machine that it is surely of; or else sets it beside them.
fn join(machines: &mut Vec<Functions>, run: Vec<Function>, failure: &mut ParseNotes) {
    if run.is_empty() {
        return;
    }
    let mut run = dump::settle(run, failure);
    let mut at = 0;
    while let Some(machine) = machines.get_mut(at) {
        let (few, many) = if run.len() < machine.len() {
            (&run, &*machine)
        } else {
            (&*machine, &run)
        };
        let common = few.keys().filter(|bdf| many.contains_key(bdf)).count();
        let contradiction = dump::contradiction(machine, &run);
        match contradiction {
            None if common == 0 => at += 1,
            // Machines of one kind have much in common, too: one must have all that the other has.
            None if common == machine.len().min(run.len()) => {
                let machine = machines.remove(at);
                run = dump::add(machine, run, failure);
            }
            _ => {
                // The one that has more is what the text is about.
                let mut other = machines.remove(at);
                if run.len() <= other.len() {
                    std::mem::swap(&mut run, &mut other);
                }
                let first =
                    |of: &Functions| of.values().map(|seen| seen.line).min().unwrap_or_default();
                let message = match contradiction {
                    Some((one, another)) => {
                        let by = if run.values().any(|seen| seen.line == one) {
                            one
                        } else {
                            another
                        };
                        let left_out = if by == one { another } else { one };
                        (
                            left_out,
                            format!(
                                "says otherwise of a function than line {by}: of two machines, or of two states of one, \
                                 it is left out"
                            ),
                        )
                    }
                    None => (
                        first(&other),
                        format!(
                            "has some functions of what begins at line {} and others: it may be of another machine, and is \
                             left out",
                            first(&run)
                        ),
                    ),
                };
                failure.add(message.0, message.1);
                at = 0;
            }
        }
    }
    if machines.len() < MOST_RUNS {
        machines.push(run);
    } else {
        let line = run.values().map(|seen| seen.line).min().unwrap_or_default();
        let message =
            format!("has nothing in common with {MOST_RUNS} parts before it: it is left out");
        failure.add(line, message);
    }
}

/// The functions as devices with their places. Of what may be another machine no root is sure, so that nothing is said of
/// how it meets the first.
fn all_devices(machines: Vec<Functions>, failure: &mut ParseNotes) -> Vec<(PciDevice, bool)> {
    let mut devices = Vec::new();
    for (at, functions) in machines.into_iter().enumerate() {
        let mut these = self::devices(functions, failure);
        if at > 0 {
            for (device, _) in &mut these {
                if let Fact::Known(place) = &mut device.place {
                    place.rooted = false;
                }
            }
        }
        devices.append(&mut these);
    }
    devices.sort_by_key(|(device, _)| device.bdf);
    devices
}

/// The functions as devices with their places, and whether each manages a switch.
fn devices(functions: Functions, failure: &mut ParseNotes) -> Vec<(PciDevice, bool)> {
    let nodes: Vec<Node> = functions
        .iter()
        .map(|(bdf, seen)| Node {
            bdf: *bdf,
            secondary: seen.secondary,
            subordinate: seen.subordinate,
            on_root: on_root(seen),
            below_a_port: matches!(
                seen.port,
                Some(PortType::UpstreamPort | PortType::DownstreamPort)
            ),
        })
        .collect();
    let mut tree = Tree::new(&nodes);
    for (bdf, seen) in &functions {
        reach(&mut tree, *bdf, seen);
    }
    for (bridge, message) in tree.failure() {
        let line = functions.get(&bridge).map_or(0, |seen| seen.line);
        failure.add(line, message);
    }
    let device = |(bdf, seen): (Bdf, Seen)| {
        if seen.numbers.ids().is_none() {
            failure.add(
                seen.line,
                format!("{bdf}: no list of PCI ids has its vendor or class by that name"),
            );
        }
        let device = PciDevice {
            bdf,
            place: tree.place(bdf),
            ids: seen
                .numbers
                .ids()
                .map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
            numa_node: seen.numa,
            config: seen.config,
            attributes: Some(seen.attributes)
                .filter(|told| *told != Attributes::default())
                .map(Box::new),
        };
        (device, seen.manages)
    };
    functions.into_iter().map(device).collect()
}

/// Whether a function can only sit on a root bus: a part of the root complex. QEMU's root ports also sit below switches.
fn on_root(seen: &Seen) -> bool {
    const RED_HAT: u16 = 0x1b36;
    // System peripherals of Xeon's root complexes (Skylake, from Ice Lake on), one set on each root bus. Their kind of port
    // is for root to read, their number for everybody.
    const INTEL: u16 = 0x8086;
    const PERIPHERALS: [u16; 7] = [0x2034, 0x2035, 0x2036, 0x0998, 0x09a2, 0x09a3, 0x09a4];
    // Xilinx, Altera: NICs of any class.
    const FPGAS: [u16; 2] = [0x10ee, 0x1172];
    match seen.port {
        _ if seen.numbers.vendor == Some(INTEL)
            && seen
                .numbers
                .device
                .is_some_and(|of| PERIPHERALS.contains(&of)) =>
        {
            true
        }
        Some(port) if port.is_integrated() => true,
        Some(PortType::RootPort) => seen.numbers.vendor.is_some_and(|vendor| vendor != RED_HAT),
        // NICs can say of themselves that they are host bridges: they are endpoints.
        Some(_) => false,
        None if seen
            .numbers
            .vendor
            .is_some_and(|vendor| FPGAS.contains(&vendor)) =>
        {
            false
        }
        None => seen.numbers.class.is_some_and(|class| class >> 8 == 0x0600),
    }
}

/// Virtual functions go on behind the last function of their physical one's bus (PCIe 9.2.1.2).
fn reach(tree: &mut Tree, bdf: Bdf, seen: &Seen) {
    let Some(sriov) = seen
        .config
        .sriov
        .present()
        .filter(|sriov| sriov.enabled && sriov.num_vfs > 0)
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

/// What could not be made sense of, as notes.
#[derive(Default)]
pub(super) struct ParseNotes {
    found: Vec<(usize, String)>,
    more: usize,
}

impl ParseNotes {
    /// Line 0 stands for the whole text.
    fn add(&mut self, line: usize, message: String) {
        match self.found.len() < MOST_NOTES {
            true => self.found.push((line, message)),
            false => self.more += 1,
        }
    }

    fn notes(mut self) -> Vec<Note> {
        self.found.sort();
        if self.more > 0 {
            self.found
                .push((0, format!("and {} more remarks", self.more)));
        }
        let source = |line: usize| match line {
            0 => "lspci".to_owned(),
            line => format!("lspci, line {line}"),
        };
        let note = |(line, message)| Note {
            source: source(line),
            message,
        };
        self.found.into_iter().map(note).collect()
    }
}
