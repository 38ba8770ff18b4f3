//! PCI functions from `/sys/bus/pci/devices`, in two passes.
//!
//! An attribute file costs an open, a read and a close; a dword of configuration space costs 14 µs in a
//! guest. So every function gives its link, its header with the PCI Express capability, and `numa_node`;
//! the rest is read only for GPUs, NICs and the bridges above them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::read::{self, malformed, unread};
use crate::model::Order as _;
use crate::model::{
    Attributes, Bdf, Config, ErrorCounts, Fact, Ids, Link, LinkSpeed, LinkState, Note, PciDevice,
    PciPath, RdmaDevice, Resource, Why,
};
use crate::pci::{ConfigSpace, Depth, ReadError, decode, parse_place};
use crate::world::{Files, OpenFile};

const DEVICES: &str = "/sys/bus/pci/devices";
const GROUPS: &str = "/sys/kernel/iommu_groups";

/// The largest machines have some thousands, with virtual functions.
pub const MAX_FUNCTIONS: usize = 1 << 14;

pub fn devices(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<PciDevice>> {
    let names = match files.list(Path::new(DEVICES)) {
        Ok(names) => names,
        Err(error) => return unread(notes, &error),
    };
    if names.len() > MAX_FUNCTIONS {
        return malformed(notes, DEVICES, format!("more than {MAX_FUNCTIONS} functions"));
    }
    let mut devices = Vec::with_capacity(names.len());
    let mut add = |(some, remarks): (Vec<PciDevice>, Vec<Note>)| {
        devices.extend(some);
        remarks.into_iter().for_each(|Note { source, message }| read::note(notes, source, message));
    };
    let share = names.len().div_ceil(threads(names.len()));
    if share == names.len() {
        add(first_pass(files, &names));
    } else {
        std::thread::scope(|scope| {
            let shares = names.chunks(share);
            let looks: Vec<_> =
                shares.map(|names| scope.spawn(move || first_pass(files, names))).collect();
            for look in looks {
                match look.join() {
                    Ok(found) => add(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    devices.order_by_key(|device| device.bdf);
    place_by_children(&mut devices);
    Fact::Known(devices)
}

/// A bridge whose own link cannot be read is where the links of the functions below it say.
fn place_by_children(devices: &mut [PciDevice]) {
    let unplaced = devices.iter().filter(|device| device.place.known().is_none());
    let unplaced: BTreeSet<Bdf> = unplaced.map(|device| device.bdf).collect();
    if unplaced.is_empty() {
        return;
    }
    let mut found = BTreeMap::new();
    for place in devices.iter().filter_map(|device| device.place.known()) {
        let bridges = place.bridges.iter().enumerate();
        for (at, bridge) in bridges.filter(|(_, bridge)| unplaced.contains(bridge)) {
            let above = place.bridges.iter().take(at).copied().collect();
            found.entry(*bridge).or_insert_with(|| PciPath { bridges: above, ..place.clone() });
        }
    }
    for device in devices {
        if let Some(place) = found.remove(&device.bdf) {
            device.place = Fact::Known(place);
        }
    }
}

/// Number of reader threads; a read waits for the device or the kernel. A few hundred functions are not
/// worth a second thread.
fn threads(functions: usize) -> usize {
    const WORTH: usize = 256;
    const MOST: usize = 4;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (functions / WORTH).clamp(1, cores.min(MOST))
}

fn first_pass(files: &dyn Files, names: &[String]) -> (Vec<PciDevice>, Vec<Note>) {
    let mut notes = Vec::new();
    let devices = names.iter().filter_map(|name| match name.parse() {
        Ok(bdf) => Some((bdf, name)),
        Err(error) => {
            malformed::<()>(&mut notes, format!("{DEVICES}/{name}"), format!("{error}"));
            None
        }
    });
    let devices: Vec<(Bdf, &String)> = devices.collect();
    let looked =
        devices.into_iter().map(|(bdf, name)| device(files, bdf, name, &mut notes)).collect();
    (looked, notes)
}

fn device(files: &dyn Files, bdf: Bdf, name: &str, notes: &mut Vec<Note>) -> PciDevice {
    let base = format!("{DEVICES}/{name}");
    let config = config(files, &format!("{base}/config"), Depth::Express, notes);
    let ids = match config.header.known() {
        // A virtual function's vendor and device read as ones; sysfs takes them from the physical function.
        Some(header) if header.vendor != 0xffff => Fact::Known(Ids {
            vendor: header.vendor,
            device: Some(header.device),
            class: header.class.0,
        }),
        _ => ids(files, &base, notes),
    };
    PciDevice {
        bdf,
        place: place(files, &base, bdf, notes),
        ids,
        numa_node: numa_node(files, &base, notes),
        config,
        attributes: None,
    }
}

fn numa_node(files: &dyn Files, base: &str, notes: &mut Vec<Note>) -> Fact<Option<u32>> {
    read::value::<i64>(files, &format!("{base}/numa_node"), notes)
        .map(|node| u32::try_from(node).ok())
}

fn ids(files: &dyn Files, base: &str, notes: &mut Vec<Note>) -> Fact<Ids> {
    let mut number = |name: &str| {
        let path = format!("{base}/{name}");
        read::text(files, &path, notes).and_then(|text| match hex(&text) {
            Some(value) => Fact::Known(value),
            None => malformed(
                notes,
                path,
                format!("'{}' is not a hexadecimal number", read::shorten(&text)),
            ),
        })
    };
    let (vendor, device, class) = (number("vendor"), number("device"), number("class"));
    vendor.and_then(|vendor| {
        device.and_then(|device| {
            class.and_then(|class| {
                match (u16::try_from(vendor), u16::try_from(device), u32::try_from(class)) {
                    (Ok(vendor), Ok(device), Ok(class)) => {
                        Fact::Known(Ids { vendor, device: Some(device), class })
                    }
                    _ => Fact::Unknown(Why::Broken),
                }
            })
        })
    })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// The place from the link's target, `…/pciDDDD:BB/BRIDGE/…/BDF`. Anything before the last root bus (a
/// platform device, a VMBUS channel) is not PCI.
fn place(files: &dyn Files, base: &str, bdf: Bdf, notes: &mut Vec<Note>) -> Fact<PciPath> {
    let target = match files.read_link(Path::new(base)) {
        Ok(target) => target,
        Err(error) => return unread(notes, &error),
    };
    match parse_place(&target, bdf) {
        Some(place) => Fact::Known(place),
        None => malformed(
            notes,
            base,
            format!("its link leads to '{}', which is not a PCI device", target.display()),
        ),
    }
}

/// The second pass: all capabilities and attributes of these functions and of the bridges above them.
pub fn second_pass(
    files: &dyn Files,
    devices: &mut [PciDevice],
    interest: &BTreeSet<Bdf>,
    notes: &mut Vec<Note>,
) {
    let mut all = interest.clone();
    for device in devices.iter().filter(|device| interest.contains(&device.bdf)) {
        all.extend(device.place.known().into_iter().flat_map(|place| &place.bridges));
    }
    let there = |path: &str| files.list_kept(Path::new(path), &|_| false).is_ok();
    let recorded = Recorded { drivers: there("/sys/bus/pci/drivers"), groups: there(GROUPS) };
    for device in devices.iter_mut().filter(|device| all.contains(&device.bdf)) {
        let base = format!("{DEVICES}/{}", device.bdf);
        device.config = config(files, &format!("{base}/config"), Depth::Full, notes);
        device.attributes = Some(Box::new(attributes(files, &base, &recorded, notes)));
    }
    if recorded.groups {
        find_groups(files, devices);
    }
}

/// Looks in the IOMMU groups for functions without a link to theirs.
fn find_groups(files: &dyn Files, devices: &mut [PciDevice]) {
    let is_any = |is: fn(&Fact<Option<u32>>) -> bool| {
        let mut attributes = devices.iter().filter_map(|device| device.attributes.as_ref());
        attributes.any(|attributes| is(&attributes.iommu_group))
    };
    if !is_any(Fact::is_absent) {
        return;
    }
    let members = match members(files) {
        // Other functions have their links: this source has links, but does not list the members of groups.
        Fact::Unknown(Why::NotCovered) if is_any(|group| group.present().is_some()) => {
            Fact::Known(BTreeMap::new())
        }
        members => members,
    };
    for device in devices {
        if let Some(attributes) = &mut device.attributes
            && attributes.iommu_group.is_absent()
        {
            let group = |members: &BTreeMap<Bdf, u32>| members.get(&device.bdf).copied();
            attributes.iommu_group = members.as_ref().map(group);
        }
    }
}

/// The functions of all IOMMU groups.
fn members(files: &dyn Files) -> Fact<BTreeMap<Bdf, u32>> {
    let mut members = BTreeMap::new();
    let names = match files.list(Path::new(GROUPS)) {
        Ok(names) => names,
        Err(error) => return Fact::Unknown(error.why()),
    };
    let groups = names.iter().filter_map(|name| name.parse::<u32>().ok());
    for group in groups.take(MAX_FUNCTIONS) {
        match files.list(Path::new(&format!("{GROUPS}/{group}/devices"))) {
            Ok(names) => {
                members.extend(names.iter().filter_map(|name| Some((name.parse().ok()?, group))))
            }
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    Fact::Known(members)
}

/// Which directories exist. A recorded machine may lack whole areas, where a missing link means nothing.
struct Recorded {
    drivers: bool,
    groups: bool,
}

fn attributes(
    files: &dyn Files,
    base: &str,
    recorded: &Recorded,
    notes: &mut Vec<Note>,
) -> Attributes {
    let link_if = |recorded: bool, name: &str, notes: &mut Vec<Note>| match read::link_name(
        files,
        &format!("{base}/{name}"),
        notes,
    ) {
        Fact::Known(None) if !recorded => Fact::Unknown(Why::NotCovered),
        fact => fact,
    };
    Attributes {
        driver: link_if(recorded.drivers, "driver", notes),
        local_cpus: read::value(files, &format!("{base}/local_cpulist"), notes),
        resources: resources(files, &format!("{base}/resource"), notes),
        iommu_group: link_if(recorded.groups, "iommu_group", notes)
            .map(|name| name.and_then(|name| name.parse().ok())),
        physical_function: read::link_name(files, &format!("{base}/physfn"), notes)
            .map(|name| name.and_then(|name| name.parse().ok())),
        link: link(files, base, notes),
        errors: errors(files, base, notes),
    }
}

/// The kernel's counters (since 4.19, if it handles errors itself).
fn errors(files: &dyn Files, base: &str, notes: &mut Vec<Note>) -> Fact<Option<ErrorCounts>> {
    let counts = |name: &str, notes: &mut Vec<Note>| {
        let text = read::kept_if_there(files, &format!("{base}/{name}"), nonzero, notes);
        text.map(|text| text.map(|text| counters(&text)))
    };
    let [fatal, correctable] =
        ["aer_dev_fatal", "aer_dev_correctable"].map(|name| counts(name, notes));
    match (fatal, correctable) {
        (Fact::Known(Some(fatal)), Fact::Known(correctable)) => Fact::Known(Some(ErrorCounts {
            fatal,
            // They are shown, not judged, so their absence from a snapshot needs no note.
            nonfatal: counts("aer_dev_nonfatal", &mut Vec::new())
                .present()
                .cloned()
                .unwrap_or_default(),
            correctable: correctable.unwrap_or_default(),
        })),
        (Fact::Known(None), Fact::Known(_)) => Fact::Known(None),
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(why),
    }
}

/// Drops counters that are zero.
fn nonzero(text: &str) -> String {
    let is_relevant =
        |line: &&str| line.split_ascii_whitespace().next_back().is_some_and(|count| count != "0");
    text.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// Parses `MalfTLP 3`; the last line is the sum.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, count) = line.trim().rsplit_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    // The kernel has thirty counters.
    let each = text.lines().take(64).filter_map(line);
    each.filter(|(name, _)| !name.starts_with("TOTAL_ERR")).collect()
}

fn resources(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Vec<Resource>> {
    read::text(files, path, notes).and_then(|text| {
        match text.lines().take(6).enumerate().map(resource).collect() {
            Some(lines) => Fact::Known(lines),
            None => malformed(notes, path, "a line is not three hexadecimal numbers"),
        }
    })
}

fn resource((bar, line): (usize, &str)) -> Option<Resource> {
    let mut numbers = line.split_ascii_whitespace().map(hex);
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Resource {
        bar: u8::try_from(bar).ok()?,
        start,
        size: match (start, end) {
            (0, 0) => 0,
            _ => end.checked_sub(start)?.checked_add(1)?,
        },
        flags,
    })
}

/// The link from the attribute files; `None` if they are missing or say `Unknown`.
fn link(files: &dyn Files, base: &str, notes: &mut Vec<Note>) -> Fact<Option<LinkState>> {
    let mut text = |name: &str| read::text_if_there(files, &format!("{base}/{name}"), notes);
    let parts = [
        text("current_link_speed"),
        text("current_link_width"),
        text("max_link_speed"),
        text("max_link_width"),
    ];
    match parts {
        [
            Fact::Known(Some(speed)),
            Fact::Known(Some(width)),
            Fact::Known(Some(max_speed)),
            Fact::Known(Some(max_width)),
        ] => {
            let link = || {
                Some(LinkState { current: end(&speed, &width)?, max: end(&max_speed, &max_width)? })
            };
            Fact::Known(link().filter(|link| link.current.width > 0))
        }
        [Fact::Unknown(why), ..] | [_, Fact::Unknown(why), ..] => Fact::Unknown(why),
        _ => Fact::Known(None),
    }
}

fn end(speed: &str, width: &str) -> Option<Link> {
    Some(Link { speed: link_speed(speed)?, width: width.trim().parse().ok()? })
}

/// Parses `16.0 GT/s PCIe`, or `16 GT/s` of older kernels.
fn link_speed(text: &str) -> Option<LinkSpeed> {
    let code = match text.split_ascii_whitespace().next()? {
        "2.5" => 1,
        "5" | "5.0" => 2,
        "8" | "8.0" => 3,
        "16" | "16.0" => 4,
        "32" | "32.0" => 5,
        "64" | "64.0" => 6,
        "128" | "128.0" => 7,
        _ => return None,
    };
    Some(LinkSpeed(code))
}

fn config(files: &dyn Files, path: &str, depth: Depth, notes: &mut Vec<Note>) -> Config {
    let file = match files.open(Path::new(path)) {
        Ok(file) => file,
        Err(error) => {
            unread::<()>(notes, &error);
            let why = error.why();
            return Config {
                header: Fact::Unknown(why),
                express: Fact::Unknown(why),
                acs: Fact::Unknown(why),
                ats: Fact::Unknown(why),
                sriov: Fact::Unknown(why),
                serial_number: Fact::Unknown(why),
                ..Config::default()
            };
        }
    };
    let config = decode(&Space(file.as_ref()), depth);
    for message in &config.failure {
        malformed::<()>(notes, path, message.clone());
    }
    config
}

struct Space<'a>(&'a dyn OpenFile);

impl ConfigSpace for Space<'_> {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        self.0.read_at(offset.into(), out).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ReadError::Denied,
            _ => ReadError::Failed,
        })
    }
}

pub fn nvme(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<(String, Bdf)>> {
    let class = "/sys/class/nvme";
    read::names(files, class, notes).and_then(|names| {
        let names = names.unwrap_or_default();
        if names.len() > MAX_FUNCTIONS {
            return malformed(notes, class, format!("more than {MAX_FUNCTIONS} controllers"));
        }
        let mut found: Vec<(String, Bdf)> = names
            .into_iter()
            .filter_map(|name| {
                let target = files.read_link(Path::new(&format!("{class}/{name}"))).ok()?;
                Some((name, read::last_bdf(&target)?))
            })
            .collect();
        found.order_by_key(|(name, _)| RdmaDevice::natural(name));
        Fact::Known(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_nonzero_counters() {
        let kept = nonzero("Undefined 0\nDLP 0\nMalfTLP 3\nTOTAL_ERR_FATAL 3\n");
        assert_eq!(kept, "MalfTLP 3\nTOTAL_ERR_FATAL 3\n");
        assert_eq!(counters(&kept), [("MalfTLP".to_owned(), 3)].into());
        assert!(counters("").is_empty());
    }

    #[test]
    fn reads_link_speeds_and_resources() {
        assert_eq!(link_speed("2.5 GT/s PCIe"), Some(LinkSpeed(1)));
        assert_eq!(link_speed("32.0 GT/s PCIe"), Some(LinkSpeed(5)));
        assert_eq!(link_speed("8 GT/s"), Some(LinkSpeed(3)));
        assert_eq!(link_speed("Unknown"), None);
        let line = "0x0000004000000000 0x000000400007ffff 0x0000000000140204";
        assert_eq!(resource((0, line)).map(|r| r.size), Some(0x80000));
        assert_eq!(resource((0, "0x0 0x0 0x0")).map(|r| r.size), Some(0));
        assert_eq!(resource((0, "0x0 0x0")), None);
        assert_eq!(resource((0, "0x2 0x1 0x0")), None);
        assert_eq!(resource((0, "0x0 0xffffffffffffffff 0x200")), None);
    }
}
