//! Metamorphic relations: a change of a machine whose effect on the verdicts is known without knowing the verdicts.
//!
//! 1. A lost fact improves no verdict: see `deletions`.
//! 2. A device that has nothing to do with GPUDirect changes no verdict about the others.
//! 3. A redirect bit on a path improves no verdict.
//! 4. Other bus numbers give the same verdicts, of devices with other addresses.
//!
//! On every laid-out and recorded machine. `GDR_METAMORPHIC` says how many places and permutations are tried on each, `GDR_SEED` which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use gdr::collect::{self, CollectOptions};
use gdr::model::PlatformKind;
use gdr::profile::{Profile, SHIPPED};
use gdr::world::World;
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::deletions::verdicts::Verdicts;
use crate::support::{Device, Machine, corpus, names};

/// Source validation, request and completion redirect, upstream forwarding: what Linux sets behind an IOMMU.
const REDIRECTS: u32 = 0x1d;
const ACS_CAPABLE: u32 = 0x5f;

fn machines() -> Vec<Machine> {
    let recorded = corpus();
    let recorded = recorded.iter().map(|path| Machine::from_corpus(path));
    names().iter().map(|name| Machine::load(name)).chain(recorded).collect()
}

fn profiles() -> Vec<Profile> {
    let shipped = SHIPPED.iter().filter(|(name, _)| *name != "all");
    shipped.map(|(name, text)| Profile::parse(name, text, |_| true).expect("a profile")).collect()
}

const VARIABLE: &str = "GDR_METAMORPHIC";

/// How often each relation is tried on a machine.
fn times() -> usize {
    number(VARIABLE).and_then(|times| usize::try_from(times).ok()).unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(number("GDR_SEED").unwrap_or(40))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("an index")
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }
}

fn verdicts(root: &Path, profiles: &[Profile], platform: Option<PlatformKind>) -> Verdicts {
    let world = World::directory(root).expect("a root");
    let mut facts = collect::facts(&world, CollectOptions::everything(false));
    facts.platform.asserted = platform;
    Verdicts::of(&facts, profiles)
}

/// The verdicts about a machine as it is, and as bare metal, where paths count.
fn of_machine(machine: &Machine, profiles: &[Profile]) -> [Verdicts; 2] {
    let root = machine.laid_out();
    [None, Some(PlatformKind::BareMetal)].map(|platform| verdicts(root.path(), profiles, platform))
}

fn differences(before: &BTreeSet<String>, after: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (sign, lines) in [("-", before.difference(after)), ("+", after.difference(before))] {
        lines.for_each(|line| _ = writeln!(text, "    {sign} {line}"));
    }
    text
}

fn assert_none(relation: &str, found: &[String]) {
    assert!(found.is_empty(), "{relation}:\n{}", found.join("\n"));
}

// ------------------------------------------------------------------------------------------ an unrelated device

fn device(bdf: &str, parent: Option<&str>, root: &str, what: Value) -> Device {
    let mut device: Device = serde_json::from_value(what).expect("a device");
    bdf.clone_into(&mut device.bdf);
    device.parent = parent.map(str::to_owned);
    root.clone_into(&mut device.root);
    device
}

/// A SATA controller, an NVMe drive and an Ethernet port without RDMA.
fn unrelated() -> [(&'static str, Value); 3] {
    let link = |width: u8| json!(["8GT/s", width]);
    [
        (
            "a SATA controller",
            json!({"vendor": "1022", "device": "7901", "class": "010601", "driver": "ahci"}),
        ),
        (
            "an NVMe drive",
            json!({"vendor": "144d", "device": "a80a", "class": "010802", "driver": "nvme", "link": link(4), "max_link": link(4)}),
        ),
        (
            "an Ethernet port",
            json!({"vendor": "8086", "device": "1533", "class": "020000", "driver": "igb", "net": "eno77", "link": link(1), "max_link": link(1)}),
        ),
    ]
}

/// Adds the device below a port of its own, beside another bridge: of a root bus or of a switch.
fn add(machine: &mut Machine, beside: &Device, what: Value) -> Option<[String; 2]> {
    let domain = &beside.bdf[..4];
    let in_domain = || machine.devices.iter().filter(|device| device.bdf.starts_with(domain));
    let last = in_domain().map(|device| device.bus().max(last_bus(device))).max()?;
    let bus = last.checked_add(1)?;
    // A switch's bus range would have to grow around those of its neighbours.
    if beside.parent.is_some() {
        return None;
    }
    let used = |number: u8| {
        let slot = format!("{}:{number:02x}.", &beside.bdf[..7]);
        machine.devices.iter().any(|device| device.bdf.starts_with(&slot))
    };
    let number = (1..0x1f).rev().find(|number| !used(*number))?;
    let port = format!("{}:{number:02x}.0", &beside.bdf[..7]);
    let endpoint = format!("{domain}:{bus:02x}:00.0");
    // Where no driver is recorded, a driver would tell that there are none.
    let knows_drivers = machine.devices.iter().any(|device| device.driver.is_some());
    let mut bridge = beside.clone();
    bridge.bdf.clone_from(&port);
    bridge.port_number = number;
    bridge.buses = None;
    bridge.iommu_group = None;
    let mut added = device(&endpoint, Some(&port), &beside.root, what);
    added.numa = beside.numa;
    added.driver = added.driver.filter(|_| knows_drivers);
    if added.vendor.0 != 0x1022 {
        added.port = serde_json::from_value(json!("endpoint")).expect("a port type");
    }
    machine.devices.extend([bridge, added]);
    let key = |device: &Device| (device.bdf.len(), device.bdf.clone());
    machine.devices.sort_by_key(key);
    Some([port, endpoint])
}

fn last_bus(device: &Device) -> u8 {
    device.buses.map_or(0, |(_, last)| u8::try_from(last.0).unwrap_or(u8::MAX))
}

#[test]
fn unrelated_device_changes_no_other_verdict() {
    let profiles = profiles();
    let mut random = Random::new();
    let mut found = Vec::new();
    let mut tried = 0;
    for (nth, machine) in machines().into_iter().enumerate() {
        let before = of_machine(&machine, &profiles);
        let mut roots: Vec<Device> = (machine.devices.iter())
            .filter(|device| device.is_bridge() && device.parent.is_none())
            .cloned()
            .collect();
        random.shuffle(&mut roots);
        for beside in roots.iter().take(times()) {
            // One device on each machine is enough to see a change of the rules.
            let all = unrelated().into_iter().enumerate();
            let those = all.filter(|(at, _)| number(VARIABLE).is_some() || *at == nth % 3);
            for (_, (name, what)) in those {
                let mut changed = machine.clone();
                let Some(new) = add(&mut changed, beside, what) else { continue };
                tried += 1;
                let keep = |part: &str| {
                    (!new.iter().any(|bdf| part.contains(bdf.as_str()))).then(|| part.to_owned())
                };
                for (before, after) in before.iter().zip(&of_machine(&changed, &profiles)) {
                    let differences = differences(&before.said(keep), &after.said(keep));
                    if !differences.is_empty() {
                        found
                            .push(format!("{}: {name} at {}\n{differences}", machine.name, new[1]));
                    }
                }
            }
        }
    }
    assert!(tried >= 12, "{tried} devices");
    assert_none("an unrelated device changes verdicts", &found);
}

// ------------------------------------------------------------------------------------------ a redirect bit

fn hex<T: serde::de::DeserializeOwned>(value: u32) -> T {
    serde_json::from_value(Value::from(format!("{value:04x}"))).expect("hexadecimal digits")
}

/// The bridges above the GPUs and the NICs.
fn on_paths(machine: &Machine) -> Vec<String> {
    let mut bridges = BTreeSet::new();
    let ends = machine.devices.iter().filter(|device| {
        device.vendor.0 == 0x10de && device.class.0 >> 16 == 0x03 || device.rdma.is_some()
    });
    for end in ends {
        let mut at = end.parent.clone();
        while let Some(bdf) = &at {
            let bridge = machine.device(bdf);
            at = bridge.parent.clone();
            if bridge.port.is_some() {
                bridges.insert(bridge.bdf.clone());
            }
        }
    }
    bridges.into_iter().collect()
}

#[test]
fn redirect_bit_on_a_path_improves_no_verdict() {
    let profiles = profiles();
    let mut random = Random::new();
    let mut found = Vec::new();
    let mut tried = 0;
    for machine in machines() {
        let before = of_machine(&machine, &profiles);
        let mut bridges = on_paths(&machine);
        random.shuffle(&mut bridges);
        for bdf in bridges.iter().take(times()) {
            let mut changed = machine.clone();
            let bridge = changed.devices.iter_mut().find(|device| device.bdf == *bdf);
            let bridge = bridge.expect("the bridge");
            let control = bridge.acs_ctl.map_or(0, |control| control.0) | REDIRECTS;
            bridge.acs_cap = bridge.acs_cap.or_else(|| Some(hex(ACS_CAPABLE)));
            bridge.acs_ctl = Some(hex(control));
            tried += 1;
            for (before, after) in before.iter().zip(&of_machine(&changed, &profiles)) {
                let improved = before.improvements(after);
                let lines = improved.iter().map(|(kind, example)| format!("    {kind}: {example}"));
                let lines: Vec<String> = lines.collect();
                if !lines.is_empty() {
                    found.push(format!("{} {bdf}\n{}", machine.name, lines.join("\n")));
                }
            }
        }
    }
    assert!(tried >= 10, "{tried} bridges");
    assert_none("a redirect bit improves verdicts", &found);
}

// ------------------------------------------------------------------------------------------ other bus numbers

/// A domain and a bus → the bus after the renaming.
type Buses = BTreeMap<(String, u8), u8>;

/// Numbers the buses anew, as a kernel would that found the bridges of each bus in another order.
fn renumbered(machine: &Machine, random: &mut Random) -> Option<Buses> {
    let domain = |root: &str| root[..4].to_owned();
    let mut roots: Vec<String> = machine.devices.iter().map(|device| device.root.clone()).collect();
    roots.sort();
    roots.dedup();
    random.shuffle(&mut roots);
    let mut buses = Buses::new();
    let mut next: BTreeMap<String, u8> = BTreeMap::new();
    for root in roots {
        let domain = domain(&root);
        let first = next.entry(domain.clone()).or_insert(0);
        let own = u8::from_str_radix(&root[5..], 16).expect("a root bus");
        buses.insert((domain.clone(), own), *first);
        *first = first.checked_add(1)?;
        let of_root = |device: &&Device| device.root == root && device.parent.is_none();
        let mut order: Vec<&Device> = machine.devices.iter().filter(of_root).collect();
        random.shuffle(&mut order);
        for device in order {
            number_below(machine, device, &mut buses, first, random)?;
        }
    }
    Some(buses)
}

fn number_below(
    machine: &Machine,
    bridge: &Device,
    buses: &mut Buses,
    next: &mut u8,
    random: &mut Random,
) -> Option<()> {
    let mut below: Vec<&Device> = machine.below(&bridge.bdf).collect();
    let Some(bus) = below.first().map(|device| device.bus()) else { return Some(()) };
    buses.insert((bridge.bdf[..4].to_owned(), bus), *next);
    *next = next.checked_add(1)?;
    random.shuffle(&mut below);
    below.into_iter().try_for_each(|device| number_below(machine, device, buses, next, random))
}

/// Replaces the addresses in a text.
struct Renaming {
    buses: Buses,
    address: Regex,
}

impl Renaming {
    fn new(buses: Buses) -> Self {
        let address = r"([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2}\.[0-7])";
        Self { buses, address: Regex::new(address).expect("a pattern") }
    }

    fn bus(&self, domain: &str, bus: &str) -> String {
        let number = u8::from_str_radix(bus, 16).expect("a bus");
        match self.buses.get(&(domain.to_ascii_lowercase(), number)) {
            Some(new) => format!("{new:02x}"),
            None => bus.to_owned(),
        }
    }

    fn text(&self, text: &str) -> String {
        let replace = |found: &regex::Captures<'_>| {
            format!("{}:{}:{}", &found[1], self.bus(&found[1], &found[2]), &found[3])
        };
        self.address.replace_all(text, replace).into_owned()
    }

    fn root(&self, root: &str) -> String {
        format!("{}:{}", &root[..4], self.bus(&root[..4], &root[5..]))
    }

    fn device(&self, device: &mut Device) {
        device.bdf = self.text(&device.bdf);
        device.parent = device.parent.as_deref().map(|parent| self.text(parent));
        device.root = self.root(&device.root);
        device.vf_of = device.vf_of.as_deref().map(|of| self.text(of));
        device.buses = None;
    }

    fn machine(&self, machine: &Machine) -> Machine {
        let mut renamed = machine.clone();
        renamed.devices.iter_mut().for_each(|device| self.device(device));
        renamed.devices.sort_by_key(|device| (device.bdf.len(), device.bdf.clone()));
        let roots = machine.roots.iter();
        renamed.roots = roots.map(|(root, above)| (self.root(root), above.clone())).collect();
        renamed
    }

    /// The machine's own files, and what libraries answered on it.
    fn lay_out(&self, machine: &Machine) -> TempDir {
        let mut renamed = self.machine(machine);
        let files = std::mem::take(&mut renamed.extra.files);
        let root = renamed.laid_out();
        for (path, content) in files {
            let path = root.path().join(self.text(&path));
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            let bytes = content.bytes();
            let text = std::str::from_utf8(&bytes).map(|text| self.text(text).into_bytes());
            std::fs::write(&path, text.unwrap_or_else(|_| bytes.clone())).expect("a file");
        }
        for answer in std::fs::read_dir(root.path().join("gdr")).into_iter().flatten() {
            let path = answer.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("an answer");
            std::fs::write(&path, self.text(&text)).expect("an answer");
        }
        root
    }
}

/// What is said, without what the order of addresses decides: the partner among equally near NICs, and the one device that gpu.nouveau names
/// for all.
fn without_order(verdicts: &Verdicts, names: impl Fn(&str) -> String) -> BTreeSet<String> {
    let gpu = |part: &str| names(part.split_once(" and ").map_or(part, |(gpu, _)| gpu));
    let lines = verdicts.said(|part| Some(gpu(part)));
    let short = |line: String| match line.split_once(": ") {
        Some((what, _)) if what.starts_with("gpu.nouveau ") => what.to_owned(),
        _ => line,
    };
    lines.into_iter().map(short).collect()
}

/// True if files of the machine name devices in a way that this test does not rename: in /sys, or by a virtual function's offset.
fn is_fixed(machine: &Machine) -> bool {
    let address = Regex::new(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]").expect("a pattern");
    let in_sys = |path: &String| path.starts_with("sys/") && address.is_match(path);
    machine.extra.files.keys().chain(machine.extra.links.keys()).any(in_sys)
        || machine.devices.iter().any(|device| device.vf_of.is_some() || device.config.is_some())
}

#[test]
fn other_bus_numbers_permute_the_verdicts() {
    let profiles = profiles();
    let mut random = Random::new();
    let mut found = Vec::new();
    let mut tried = 0;
    for machine in machines().iter().filter(|machine| !is_fixed(machine)) {
        let before = of_machine(machine, &profiles);
        for _ in 0..times() {
            let Some(buses) = renumbered(machine, &mut random) else { continue };
            let renaming = Renaming::new(buses);
            let root = renaming.lay_out(machine);
            tried += 1;
            let platforms = [None, Some(PlatformKind::BareMetal)];
            for (before, platform) in before.iter().zip(platforms) {
                let after = verdicts(root.path(), &profiles, platform);
                let before = without_order(before, |part| renaming.text(part));
                let differences = differences(&before, &without_order(&after, str::to_owned));
                if !differences.is_empty() {
                    found.push(format!("{}:\n{differences}", machine.name));
                }
            }
        }
    }
    assert!(tried >= 8, "{tried} machines");
    assert_none("other bus numbers change verdicts", &found);
}
