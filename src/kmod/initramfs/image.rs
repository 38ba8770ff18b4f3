//! The whole image: archive after archive, the few entries that matter, and the directives in the order of kmod.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::archive::{self, Entry, Kind, Seen};
use super::input::{Input, broken, fill};
use super::uki;
use super::unpack::Packing;
use crate::kmod::directive::{directives, kept};
use crate::kmod::directories::{NEWEST, directories};
use crate::kmod::nvidia;
use crate::model::{Directive, Initramfs};

/// Limits of what is kept of an image.
const MOST_FILES: usize = 512;
const MOST_LINKS: usize = 1024;
const MOST_MODULES: usize = 64;
const LARGEST_FILE: u64 = 1 << 20;

/// The most that is unpacked: the largest images, with all firmware, have half of it.
const MOST_UNPACKED: u64 = 2 << 30;

/// How an image is read.
pub struct Reading<'a> {
    /// Its path, for the record.
    pub path: &'a str,
    /// Whether it has taken long enough.
    pub enough: &'a dyn Fn() -> bool,
}

/// What an image carries. Where it cannot be read to its end, what was found so far, and the trouble.
pub fn read(stream: &mut dyn Read, reading: &Reading<'_>) -> Initramfs {
    let mut found = Found {
        enough: reading.enough,
        unpacked: 0,
        modules: Vec::new(),
        files: BTreeMap::new(),
        links: BTreeMap::new(),
    };
    let mut packing = Vec::new();
    let failure = archives(stream, &mut packing, &mut found).err();
    let (directives, too_many) = found.directives(reading.path);
    let failure = failure.map(|error| error.to_string()).or(too_many);
    Initramfs {
        path: reading.path.to_owned(),
        packing: packing
            .into_iter()
            .map(|packing: Packing| packing.name().to_owned())
            .collect(),
        modules: found.modules,
        directives,
        failure,
    }
}

/// What the initramfs in a unified kernel image carries; none where the image has no initramfs.
pub fn read_unified(stream: &mut dyn Read, reading: &Reading<'_>) -> Option<Initramfs> {
    match uki::initrd(stream, reading.enough) {
        Ok(Some(mut initrd)) => Some(read(&mut initrd, reading)),
        Ok(None) => None,
        Err(error) => Some(Initramfs {
            path: reading.path.to_owned(),
            failure: Some(error.to_string()),
            ..Initramfs::default()
        }),
    }
}

fn archives(
    stream: &mut dyn Read,
    packing: &mut Vec<Packing>,
    found: &mut Found<'_>,
) -> io::Result<()> {
    /// Early microcode of two vendors, modules, the rest: no image has more.
    const MOST: usize = 64;
    let mut input = Input::new(stream);
    loop {
        while let Some(zeros) = zeros(input.buffered()?) {
            input.consume(zeros);
            found.goes_on(zeros as u64)?;
        }
        if input.peek(1)?.is_empty() {
            return match packing.is_empty() {
                true => Err(broken("it is empty")),
                false => Ok(()),
            };
        }
        let next = Packing::of(input.peek(6)?)?;
        if packing.len() == MOST {
            return Err(broken(format!("it has more than {MOST} archives")));
        }
        packing.push(next);
        let mut unpacked = next.unpack(&mut input)?;
        let mut magic = [0; 6];
        fill(unpacked.as_mut(), &mut magic)?;
        archive::read(unpacked.as_mut(), magic, found)?;
        if next == Packing::None {
            continue;
        }
        // What follows in the same packing: zeros, or another archive.
        while another(unpacked.as_mut(), &mut magic, found)? {
            archive::read(unpacked.as_mut(), magic, found)?;
        }
    }
}

/// How many zeros the bytes begin with; none where they begin otherwise, or end.
fn zeros(bytes: &[u8]) -> Option<usize> {
    match bytes
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(bytes.len())
    {
        0 => None,
        count => Some(count),
    }
}

/// Reads past zeros up to the first bytes of another archive; false at the end.
fn another(stream: &mut dyn Read, magic: &mut [u8; 6], found: &mut Found<'_>) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        if stream.read(&mut byte)? == 0 {
            return Ok(false);
        }
        if byte[0] != 0 {
            break;
        }
        found.goes_on(1)?;
    }
    magic[0] = byte[0];
    fill(stream, &mut magic[1..])?;
    Ok(true)
}

/// What was found so far.
struct Found<'a> {
    enough: &'a dyn Fn() -> bool,
    unpacked: u64,
    modules: Vec<String>,
    /// What is kept of the files that could be configuration, by path.
    files: BTreeMap<String, String>,
    /// Links of such names, and where they lead.
    links: BTreeMap<String, String>,
}

impl Seen for Found<'_> {
    fn wants(&mut self, entry: &Entry) -> bool {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        if is_of_the_driver(name) && entry.path.contains("/modules/") {
            if self.modules.len() < MOST_MODULES && !self.modules.contains(&entry.path) {
                self.modules.push(entry.path.clone());
            }
            return false;
        }
        // A link in modprobe.d may lead to a file elsewhere below /etc, as Debian's alternatives do.
        let configures = name.ends_with(".conf") || entry.path.starts_with("etc/alternatives/");
        let few = match entry.kind {
            Kind::File => self.files.len() < MOST_FILES,
            Kind::Link => self.links.len() < MOST_LINKS,
            Kind::Other => false,
        };
        configures && few && entry.size <= LARGEST_FILE
    }

    fn take(&mut self, entry: &Entry, content: Vec<u8>) {
        let text = String::from_utf8_lossy(&content);
        if entry.kind == Kind::Link {
            self.links
                .insert(entry.path.clone(), text.trim_end_matches('\0').to_owned());
            return;
        }
        let text = kept(&text);
        // An empty file of the same name hides another.
        if !text.is_empty() || in_modprobe_d(&entry.path) {
            self.files.insert(entry.path.clone(), text);
        }
    }

    fn goes_on(&mut self, bytes: u64) -> io::Result<()> {
        self.unpacked += bytes;
        if self.unpacked > MOST_UNPACKED {
            return Err(broken("it unpacks to more than 2 GiB"));
        }
        match (self.enough)() {
            true => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "reading it took too long",
            )),
            false => Ok(()),
        }
    }
}

impl Found<'_> {
    /// The directives in the order in which kmod reads them; an error in words where a file has too many.
    fn directives(&self, image: &str) -> (Vec<Directive>, Option<String>) {
        let mut by_name: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
        for directory in directories(NEWEST) {
            let directory = directory.trim_start_matches('/');
            let paths = self.files.keys().chain(self.links.keys());
            for path in paths.filter(|path| {
                path.rsplit_once('/')
                    .is_some_and(|(above, _)| above == directory)
            }) {
                let name = path.rsplit('/').next().unwrap_or_default();
                if name.ends_with(".conf")
                    && !name.starts_with('.')
                    && let Some(text) = self.text(path)
                {
                    by_name.entry(name).or_insert((path, text));
                }
            }
        }
        let mut all = Vec::new();
        for (path, text) in by_name.into_values() {
            match directives(&format!("{image}: {path}"), text) {
                Ok(found) => all.extend(found),
                Err(words) => return (all, Some(format!("{path}: {words}"))),
            }
        }
        (all, None)
    }

    /// What is kept of a file, links followed.
    fn text(&self, path: &str) -> Option<&str> {
        let mut path = path.to_owned();
        for _ in 0..8 {
            if let Some(text) = self.files.get(&path) {
                return Some(text);
            }
            path = follow(&path, self.links.get(&path)?);
        }
        None
    }
}

/// Whether a file is a module of NVIDIA's driver: the kernel has some of its own that begin with the name.
fn is_of_the_driver(file: &str) -> bool {
    const KERNELS_OWN: [&str; 3] = ["nvidiafb", "nvidia_wmi_ec_backlight", "nvidia_cspmu"];
    let Some((name, _)) = file.split_once(".ko") else {
        return false;
    };
    name.starts_with(nvidia::MODULE) && !KERNELS_OWN.contains(&name.replace('-', "_").as_str())
}

fn in_modprobe_d(path: &str) -> bool {
    path.rsplit_once('/')
        .is_some_and(|(above, _)| above.ends_with("/modprobe.d"))
}

/// Where a link at `path` with this target leads.
fn follow(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => path
            .split('/')
            .rev()
            .skip(1)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
