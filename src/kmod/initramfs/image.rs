//! Reads an image: all archives, the few relevant entries, and the directives in kmod's order.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::archive::{self, Entry, Kind, Visitor};
use super::uki;
use crate::input::{Compression, Lookahead, fill, invalid};

use crate::kmod::directive::{directives, kept};
use crate::kmod::directories::{NEWEST, directories};
use crate::kmod::nvidia;
use crate::model::{Directive, Initramfs};

/// Limits per image.
const MAX_FILES: usize = 512;
const MAX_LINKS: usize = 1024;
const MAX_MODULES: usize = 64;
const LARGEST_FILE: u64 = 1 << 20;

/// Limit of unpacked bytes, twice the size of the largest images with all firmware.
const MAX_UNPACKED: u64 = 2 << 30;

pub struct Reading<'a> {
    /// The path to record.
    pub path: &'a str,
    /// Returns true when the time is up.
    pub enough: &'a dyn Fn() -> bool,
}

/// Reads an image. On an error returns what was found so far, with the error.
pub fn read(stream: &mut dyn Read, reading: &Reading<'_>) -> Initramfs {
    let mut found = Found {
        enough: reading.enough,
        unpacked: 0,
        modules: Vec::new(),
        files: BTreeMap::new(),
        links: BTreeMap::new(),
    };
    let mut compression = Vec::new();
    let failure = archives(stream, &mut compression, &mut found).err();
    let (directives, too_many) = found.directives(reading.path);
    let failure = failure.map(|error| error.to_string()).or(too_many);
    Initramfs {
        path: reading.path.to_owned(),
        packing: compression
            .into_iter()
            .map(|compression: Compression| compression.name().to_owned())
            .collect(),
        modules: found.modules,
        directives,
        failure,
    }
}

/// Reads the initramfs in a unified kernel image; `None` if it has none.
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
    compression: &mut Vec<Compression>,
    found: &mut Found<'_>,
) -> io::Result<()> {
    /// Real images have two for microcode, one for modules, one for the rest.
    const MOST: usize = 64;
    let mut input = Lookahead::new(stream);
    loop {
        while let Some(zeros) = zeros(input.buffered()?) {
            input.consume(zeros);
            found.advance(zeros as u64)?;
        }
        if input.peek(1)?.is_empty() {
            return if compression.is_empty() {
                Err(invalid("the image is empty"))
            } else {
                Ok(())
            };
        }
        let next = Compression::of(input.peek(6)?)?;
        if compression.len() == MOST {
            return Err(invalid(format!("the image has more than {MOST} archives")));
        }
        compression.push(next);
        let mut unpacked = next.unpack(&mut input)?;
        let mut magic = [0; 6];
        fill(unpacked.as_mut(), &mut magic)?;
        archive::read(unpacked.as_mut(), magic, found)?;
        if next == Compression::None {
            continue;
        }
        // The same compressed stream may contain zeros or another archive.
        while another(unpacked.as_mut(), &mut magic, found)? {
            archive::read(unpacked.as_mut(), magic, found)?;
        }
    }
}

/// The number of leading zeros; `None` for 0.
fn zeros(bytes: &[u8]) -> Option<usize> {
    match bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len()) {
        0 => None,
        count => Some(count),
    }
}

/// Skips zeros and reads the next archive's magic; false at the end.
fn another(stream: &mut dyn Read, magic: &mut [u8; 6], found: &mut Found<'_>) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        if stream.read(&mut byte)? == 0 {
            return Ok(false);
        }
        if byte[0] != 0 {
            break;
        }
        found.advance(1)?;
    }
    magic[0] = byte[0];
    fill(stream, &mut magic[1..])?;
    Ok(true)
}

struct Found<'a> {
    enough: &'a dyn Fn() -> bool,
    unpacked: u64,
    modules: Vec<String>,
    /// Relevant lines of files that may be configuration, by path.
    files: BTreeMap<String, String>,
    /// Targets of links with such names, by path.
    links: BTreeMap<String, String>,
}

impl Visitor for Found<'_> {
    fn is_relevant(&mut self, entry: &Entry) -> bool {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        if is_of_the_driver(name) && entry.path.contains("/modules/") {
            if self.modules.len() < MAX_MODULES && !self.modules.contains(&entry.path) {
                self.modules.push(entry.path.clone());
            }
            return false;
        }
        // A link in modprobe.d may lead elsewhere below /etc, as Debian's alternatives do.
        let configures = name.ends_with(".conf") || entry.path.starts_with("etc/alternatives/");
        let few = match entry.kind {
            Kind::File => self.files.len() < MAX_FILES,
            Kind::Link => self.links.len() < MAX_LINKS,
            Kind::Other => false,
        };
        configures && few && entry.size <= LARGEST_FILE
    }

    fn take(&mut self, entry: &Entry, content: Vec<u8>) {
        let text = String::from_utf8_lossy(&content);
        if entry.kind == Kind::Link {
            self.links.insert(entry.path.clone(), text.trim_end_matches('\0').to_owned());
            return;
        }
        let text = kept(&text);
        // An empty file also hides another of its name.
        if !text.is_empty() || in_modprobe_d(&entry.path) {
            self.files.insert(entry.path.clone(), text);
        }
    }

    fn advance(&mut self, bytes: u64) -> io::Result<()> {
        self.unpacked += bytes;
        if self.unpacked > MAX_UNPACKED {
            return Err(invalid("the image unpacks to more than 2 GiB"));
        }
        if (self.enough)() {
            Err(io::Error::new(io::ErrorKind::TimedOut, "reading it took too long"))
        } else {
            Ok(())
        }
    }
}

impl Found<'_> {
    /// The directives in kmod's order; an error if a file has too many.
    fn directives(&self, image: &str) -> (Vec<Directive>, Option<String>) {
        let mut by_name: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
        for directory in directories(NEWEST) {
            let directory = directory.trim_start_matches('/');
            let paths = self.files.keys().chain(self.links.keys());
            for path in paths
                .filter(|path| path.rsplit_once('/').is_some_and(|(above, _)| above == directory))
            {
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

    /// A file's relevant lines, with links followed.
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

/// True if a file is a module of NVIDIA's driver; some of the kernel's own have similar names.
fn is_of_the_driver(file: &str) -> bool {
    const KERNELS_OWN: [&str; 3] = ["nvidiafb", "nvidia_wmi_ec_backlight", "nvidia_cspmu"];
    let Some((name, _)) = file.split_once(".ko") else {
        return false;
    };
    name.starts_with(nvidia::MODULE) && !KERNELS_OWN.contains(&name.replace('-', "_").as_str())
}

fn in_modprobe_d(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(above, _)| above.ends_with("/modprobe.d"))
}

/// Resolves a link.
fn follow(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect()
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
