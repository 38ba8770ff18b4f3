//! Parses the PCI ID Repository's `pci.ids`, as distributions install it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// An indexed `pci.ids`: vendors and classes by offset; entries below them are searched on demand, because a run needs
/// a dozen of its 40,000 lines.
pub(super) struct Ids {
    bytes: Vec<u8>,
    vendors: BTreeMap<u16, Range<usize>>,
    classes: BTreeMap<u8, Range<usize>>,
    /// Lines of devices by id, for vendors queried so far.
    devices: Mutex<BTreeMap<u16, HashMap<u16, Range<usize>>>>,
}

impl Ids {
    /// Indexes the file. Skips invalid lines; names need not be UTF-8.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut vendors = BTreeMap::new();
        let mut classes = BTreeMap::new();
        let mut section = Section::None;
        let mut begin = 0;
        let mut close = |section, range: Range<usize>| match section {
            Section::Vendor(id) => drop(vendors.entry(id).or_insert(range)),
            Section::Class(id) => drop(classes.entry(id).or_insert(range)),
            Section::None => {}
        };
        let mut rest = bytes;
        loop {
            // Most lines are those of devices.
            if !matches!(rest.first(), None | Some(b'\t' | b'#' | b'\r' | b'\n')) {
                let at = bytes.len() - rest.len();
                close(section, begin..at);
                begin = at;
                section = Section::of(lines(rest).next().unwrap_or_default());
            }
            match memchr::memchr(b'\n', rest) {
                Some(end) => rest = &rest[end + 1..],
                None => break,
            }
        }
        close(section, begin..bytes.len());
        Self { bytes: bytes.to_vec(), vendors, classes, devices: Mutex::default() }
    }

    /// The lines for these devices and their vendors.
    pub(super) fn only(&self, parts: &BTreeMap<u16, BTreeSet<u16>>) -> Vec<u8> {
        let mut kept = Vec::new();
        for (vendor, devices) in parts {
            let Some(section) = self.vendors.get(vendor) else {
                continue;
            };
            for (number, line) in self.lines(section).enumerate() {
                let device = line.strip_prefix(b"\t").and_then(|line| entry(line, 4));
                let is_listed = device
                    .is_some_and(|(id, _)| u16::try_from(id).is_ok_and(|id| devices.contains(&id)));
                if number == 0 || is_listed {
                    kept.extend_from_slice(line);
                    kept.push(b'\n');
                }
            }
        }
        kept
    }

    pub(super) fn device(&self, vendor: u16, device: u16) -> Option<Cow<'_, str>> {
        let section = self.vendors.get(&vendor)?;
        // A vendor has thousands of devices, and a machine may have thousands of one vendor's.
        let mut indexed = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = indexed.entry(vendor).or_insert_with(|| self.device_lines(section));
        let line = self.bytes.get(lines.get(&device)?.clone())?;
        entry(line, 4).map(|(_, name)| name)
    }

    pub(super) fn vendors(&self, mut each: impl FnMut(u16, Cow<'_, str>)) {
        for (id, section) in &self.vendors {
            if let Some((_, name)) = self.lines(section).next().and_then(|line| entry(line, 4)) {
                each(*id, name);
            }
        }
    }

    pub(super) fn devices(&self, vendor: u16, mut each: impl FnMut(u16, Cow<'_, str>)) {
        for line in self.vendors.get(&vendor).into_iter().flat_map(|section| self.lines(section)) {
            if let Some((id, name)) = line.strip_prefix(b"\t").and_then(|line| entry(line, 4))
                && let Ok(id) = id.try_into()
            {
                each(id, name);
            }
        }
    }

    pub(super) fn subclasses(&self, mut each: impl FnMut(u8, u8, Cow<'_, str>)) {
        for (base, section) in &self.classes {
            for line in self.lines(section) {
                if let Some((sub, name)) = line.strip_prefix(b"\t").and_then(|line| entry(line, 2))
                    && let Ok(sub) = sub.try_into()
                {
                    each(*base, sub, name);
                }
            }
        }
    }

    /// The lines of a section's devices.
    fn device_lines(&self, section: &Range<usize>) -> HashMap<u16, Range<usize>> {
        let mut lines = HashMap::new();
        let mut at = section.start;
        for line in self.lines(section) {
            let end = at + line.len();
            let id = line.strip_prefix(b"\t").and_then(|line| entry(line, 4));
            if let Some(Ok(id)) = id.map(|(id, _)| u16::try_from(id)) {
                lines.entry(id).or_insert(at + 1..end);
            }
            at = end + 1;
        }
        lines
    }

    fn lines(&self, section: &Range<usize>) -> impl Iterator<Item = &[u8]> {
        let end = section.end.min(self.bytes.len());
        lines(&self.bytes[section.start..end])
    }
}

/// The lines without their line feeds; the last may be empty.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    // An iterator of memchr is compiled with gdr, slowly in a debug build.
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memchr(b'\n', text);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[derive(Clone, Copy)]
enum Section {
    None,
    Vendor(u16),
    Class(u8),
}

impl Section {
    fn of(line: &[u8]) -> Self {
        if let Some(class) = line.strip_prefix(b"C ") {
            let id = entry(class, 2).and_then(|(id, _)| id.try_into().ok());
            return id.map_or(Self::None, Self::Class);
        }
        let id = entry(line, 4).and_then(|(id, _)| id.try_into().ok());
        id.map_or(Self::None, Self::Vendor)
    }
}

/// Parses `id  name`, the id with exactly `digits` hexadecimal digits.
fn entry(line: &[u8], digits: usize) -> Option<(u32, Cow<'_, str>)> {
    let (id, name) = line.split_at_checked(digits)?;
    let blank = name.first().is_some_and(u8::is_ascii_whitespace);
    let name = name.trim_ascii();
    if !blank || name.is_empty() || !id.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let id = u32::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()?;
    Some((id, String::from_utf8_lossy(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"# a comment\n\
        10de  NVIDIA Corporation\r\n\
        \t2330  GH100 [H100 SXM5 80GB]\n\
        \t\t10de 16c1  a subsystem, not a device\n\
        # between\n\
        \t2335  GH100 [H200 \xe9]\n\
        nonsense\n\
        \t0001  belongs to no vendor\n\
        15b3  Mellanox Technologies\n\
        C 03  Display controller\n\
        \t02  3D controller\n\
        \t\t00  interface";

    #[test]
    fn finds_listed_names_only() {
        let ids = Ids::new(TEXT);
        let (mut vendors, mut classes) = (Vec::new(), Vec::new());
        ids.vendors(|id, name| vendors.push(format!("{id:04x} {name}")));
        ids.subclasses(|base, sub, name| classes.push(format!("{base:02x}{sub:02x} {name}")));
        assert_eq!(vendors, ["10de NVIDIA Corporation", "15b3 Mellanox Technologies"]);
        assert_eq!(classes, ["0302 3D controller"]);
        assert_eq!(ids.device(0x10de, 0x2330).as_deref(), Some("GH100 [H100 SXM5 80GB]"));
        assert_eq!(ids.device(0x10de, 0x2335).as_deref(), Some("GH100 [H200 \u{fffd}]"));
        assert_eq!(ids.device(0x10de, 0x0001), None);
        assert_eq!(ids.device(0x10de, 0x10de), None);
        assert_eq!(ids.device(0x15b3, 0x0002), None);
    }

    #[test]
    fn accepts_random_bytes() {
        for bytes in
            [&b""[..], b"\n\n", b"C", b"C ", b"10de", b"10de  ", b"\xff\xfe\n\t\xff", b"\t1234  x"]
        {
            let ids = Ids::new(bytes);
            assert_eq!(ids.device(0x10de, 0x1234), None);
            ids.vendors(|id, name| panic!("{id:04x} {name}"));
            ids.subclasses(|base, sub, name| panic!("{base:02x}{sub:02x} {name}"));
        }
    }
}
