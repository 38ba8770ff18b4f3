//! Masks a snapshot: removes what identifies its machine, and keeps everything that gdr checks.
//!
//! Serial numbers, UUIDs, GUIDs, hardware and network addresses, host and user names get replacements of the same shape,
//! one per original in the document. PCI addresses, versions, masks and sizes are kept. Masking is idempotent.

mod bytes;
mod command_line;
mod json;
mod keyed;
mod ledger;
mod report;
mod scan;
mod words;

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kmod;
use crate::model::Order as _;
use crate::model::{
    Failure, Hex, Host, Initramfs, LibraryAnswer, MaskKey, Recorded, RecordedLibraries, Snapshot,
    Why,
};
use bytes::Field;
use ledger::{Ledger, Word};
use scan::{Patterns, TextKind};
use words::Words;

pub use report::Masks;

/// Files with the kernel command line, which contains free text.
const COMMAND_LINE: [&str; 3] = ["/proc/cmdline", "/etc/kernel/cmdline", "/usr/lib/kernel/cmdline"];

const GRUB_DEFAULT: &str = "/etc/default/grub";

/// Names that the caller knows to be private.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub hosts: Vec<String>,
    pub users: Vec<String>,
    /// Makes the masks the same in all documents.
    pub key: Option<MaskKey>,
}

/// Replaces the path that a masked machine was read from.
const SOURCE: &str = "sysroot";

static PATTERNS: LazyLock<Result<Patterns, regex::Error>> = LazyLock::new(Patterns::new);

/// Masks the snapshot and marks it as masked.
pub fn mask(snapshot: &mut Snapshot, known: &Known) {
    let was_masked = std::mem::replace(&mut snapshot.masked, true);
    let Some(mut masker) = Masker::new(known) else {
        // A test prevents this. An empty document is better than an unmasked one.
        *snapshot = Snapshot { masked: true, ..Snapshot::default() };
        return;
    };
    masker.ledger.masked = was_masked;
    masker.learn(known, |masker| masker.read(snapshot));
    vocabulary(snapshot, |text| masker.words.learn_vocabulary(text));
    masker.document(snapshot);
}

struct Masker {
    patterns: &'static Patterns,
    ledger: Ledger,
    words: Words,
}

impl Masker {
    fn new(known: &Known) -> Option<Self> {
        let patterns = PATTERNS.as_ref().ok()?;
        let mut ledger = Ledger::default();
        ledger.key.clone_from(&known.key);
        Some(Self { patterns, ledger, words: Words::default() })
    }

    /// First pass: collects names and existing replacements.
    fn learn(&mut self, known: &Known, read: impl FnOnce(&mut Self)) {
        self.ledger.learning = true;
        read(self);
        self.ledger.learning = false;
        for host in &known.hosts {
            self.words.learn_host(host);
        }
        for user in &known.users {
            self.words.learn_user(user);
        }
        for (word, name) in std::mem::take(&mut self.ledger.collected) {
            match word {
                Word::User => self.words.learn_user(&name),
                Word::Serial => self.words.learn_serial(&name),
                Word::Host | Word::Domain => self.words.learn_host(&name),
            }
        }
    }

    /// Processes the document without changing it, one item at a time.
    fn read(&mut self, snapshot: &Snapshot) {
        self.host(&mut snapshot.host.clone());
        for (path, recorded) in &snapshot.files {
            self.recorded(path, &mut recorded.clone());
            self.text(TextKind::Plain, path);
        }
        let RecordedLibraries { nvml, cuda, verbs, network, mapping, registration } =
            &snapshot.libraries;
        nvml.iter().for_each(|answer| drop(self.library(answer)));
        cuda.iter().for_each(|answer| drop(self.library(answer)));
        verbs.iter().for_each(|answer| drop(self.library(answer)));
        network.iter().for_each(|answer| drop(self.library(answer)));
        mapping.iter().for_each(|answer| drop(self.library(answer)));
        registration.iter().for_each(|answer| drop(self.library(answer)));
        for (line, answer) in &snapshot.tools {
            self.text(TextKind::Plain, line);
            self.library(answer);
        }
    }

    fn document(&mut self, snapshot: &mut Snapshot) {
        self.host(&mut snapshot.host);
        snapshot.files = std::mem::take(&mut snapshot.files)
            .into_iter()
            .map(|(path, mut recorded)| {
                self.recorded(&path, &mut recorded);
                (self.text(TextKind::Plain, &path), recorded)
            })
            .collect();
        let RecordedLibraries { nvml, cuda, verbs, network, mapping, registration } =
            &mut snapshot.libraries;
        *nvml = nvml.take().map(|answer| self.library(&answer));
        *cuda = cuda.take().map(|answer| self.library(&answer));
        *verbs = verbs.take().map(|answer| self.library(&answer));
        *network = network.take().map(|answer| self.library(&answer));
        *mapping = mapping.take().map(|answer| self.library(&answer));
        *registration = registration.take().map(|answer| self.library(&answer));
        snapshot.tools = std::mem::take(&mut snapshot.tools)
            .into_iter()
            .map(|(line, answer)| (self.text(TextKind::Plain, &line), self.library(&answer)))
            .collect();
    }

    fn text(&mut self, place: TextKind, text: &str) -> String {
        let by_shape = scan::spans(self.patterns, &mut self.ledger, place, text);
        let mut spans = self.words.spans(&mut self.ledger, text, &by_shape);
        spans.extend(by_shape);
        spans.order_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, new) in spans {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    fn host(&mut self, host: &mut Host) {
        if let Some(name) = &mut host.name {
            *name = self.ledger.own_host(name.trim());
        }
        // A path may contain names.
        for source in [Some(&mut host.source), host.recorded_from.as_mut()].into_iter().flatten() {
            if !["", "live", SOURCE].contains(&source.as_str()) {
                *source = SOURCE.to_owned();
            }
        }
        for text in [&mut host.os, &mut host.kernel, &mut host.cpu].into_iter().flatten() {
            *text = self.text(TextKind::Version, text);
        }
    }

    fn recorded(&mut self, path: &str, recorded: &mut Recorded) {
        if let Some(link) = &mut recorded.link {
            *link = self.text(TextKind::Plain, link);
        }
        if let Some(names) = &mut recorded.names {
            self.names(path, names);
        }
        if let Some(text) = &mut recorded.text {
            *text = self.file(path, text);
        }
        let Recorded { bytes, parts, end, .. } = recorded;
        let mut file_parts: bytes::Parts<'_> =
            parts.iter_mut().flatten().map(|part| (part.at, &mut part.bytes.0)).collect();
        self.file_parts(path, &mut file_parts);
        if let Some(Hex(bytes)) = bytes {
            let length = bytes.len() as u64;
            self.bytes(path, bytes);
            if *end == Some(length) {
                *end = Some(bytes.len() as u64);
            }
        }
        for failure in recorded.errors.values_mut() {
            if let Failure::Invalid(words) = failure {
                *words = self.text(TextKind::Plain, words);
            }
        }
    }

    /// Masks a directory's names as in their full paths, so that both agree.
    fn names(&mut self, path: &str, names: &mut [String]) {
        let was_sorted = names.is_sorted();
        for name in names.iter_mut() {
            let full_path = format!("{}/{name}", path.trim_end_matches('/'));
            let masked = self.text(TextKind::Plain, &full_path);
            if let Some((_, last)) = masked.rsplit_once('/') {
                *name = last.to_owned();
            }
        }
        if was_sorted {
            names.sort_unstable();
        }
    }

    fn file(&mut self, path: &str, text: &str) -> String {
        const HOST_NAMES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        const VERSIONS: [&str; 10] = [
            "version",
            "fw_ver",
            "fw_version",
            "osrelease",
            "os-release",
            "firmware_rev",
            "vbios_version",
            "bios_version",
            "product_version",
            "hw_rev",
        ];
        const SERIALS: [&str; 7] = [
            "product_serial",
            "board_serial",
            "chassis_serial",
            "board_asset_tag",
            "chassis_asset_tag",
            "serial",
            "serial_number",
        ];
        const NUMBERS: [&str; 4] = ["wwid", "nguid", "eui", "wwn"];
        let name = path.rsplit('/').next().unwrap_or_default();
        let trimmed = text.trim();
        let around = |new: String| {
            if trimmed.is_empty() { text.to_owned() } else { text.replacen(trimmed, &new, 1) }
        };
        match name {
            _ if HOST_NAMES.contains(&path) => around(self.ledger.own_host(trimmed)),
            "domainname" if trimmed != "(none)" => around(self.ledger.domain(trimmed)),
            "node_desc" => {
                // The kernel's default: host name and device name.
                let host = trimmed
                    .split_once(' ')
                    .filter(|(_, rest)| rest.starts_with("HCA-") || rest.starts_with("mlx"));
                match host {
                    Some((host, rest)) => {
                        let host = self.ledger.own_host(host);
                        around(format!("{host} {}", self.text(TextKind::Plain, rest)))
                    }
                    None => self.text(TextKind::Plain, text),
                }
            }
            _ if SERIALS.contains(&name) => around(self.ledger.serial(trimmed)),
            _ if NUMBERS.contains(&name) || name.ends_with("guid") => around(self.number(trimmed)),
            _ if VERSIONS.contains(&name) => self.text(TextKind::Version, text),
            _ if COMMAND_LINE.contains(&path) => self.command_line(text),
            _ if path == GRUB_DEFAULT => self.text(TextKind::Plain, &without_command_lines(text)),
            _ if path.contains("/modprobe.d/") => self.text(TextKind::Plain, &kmod::masked(text)),
            _ if is_image(path) => self.text(TextKind::Plain, &image(text)),
            _ => self.text(TextKind::Plain, text),
        }
    }

    /// Masks a file that contains one number of a device.
    fn number(&mut self, text: &str) -> String {
        let (mark, digits) = match text.strip_prefix("0x") {
            Some(digits) => ("0x", digits),
            None => ("", text),
        };
        if digits.len() == 16
            && let Ok(value) = u64::from_str_radix(digits, 16)
        {
            return format!("{mark}{:016x}", self.ledger.eui(value));
        }
        let by_shape = scan::spans(self.patterns, &mut self.ledger, TextKind::Plain, text);
        if by_shape.is_empty() {
            self.ledger.serial(text)
        } else {
            self.text(TextKind::Plain, text)
        }
    }

    fn file_parts(&mut self, path: &str, file_parts: &mut bytes::Parts<'_>) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if is_config(path) {
            bytes::config(file_parts, |serial| self.ledger.eui(serial));
            return;
        }
        for (at, data) in file_parts {
            let followed = *at == 0 && name == "vpd" && self.vital_product_data(data);
            if !followed {
                bytes::runs(data, |run| self.text(TextKind::Plain, run));
            }
        }
    }

    fn vital_product_data(&mut self, data: &mut [u8]) -> bool {
        bytes::vital_product_data(data, |field, text| match field {
            Field::Serial => self.ledger.serial_in_place(text),
            Field::Text => self.text(TextKind::Plain, text),
        })
    }

    fn bytes(&mut self, path: &str, data: &mut Vec<u8>) {
        let special = is_config(path) || path.ends_with("/vpd");
        match std::str::from_utf8(data) {
            _ if COMMAND_LINE.contains(&path) => {
                *data = self.command_line(&String::from_utf8_lossy(data)).into_bytes()
            }
            Ok(text) if !special => *data = self.file(path, text).into_bytes(),
            _ => self.file_parts(path, &mut vec![(0, data)]),
        }
    }

    /// Masks all strings of a library's answer.
    fn library<T: Serialize + DeserializeOwned>(
        &mut self,
        answer: &LibraryAnswer<T>,
    ) -> LibraryAnswer<T> {
        let lost = |why| LibraryAnswer::Failed {
            why,
            message: "the answer could not be masked".to_owned(),
        };
        match answer {
            LibraryAnswer::Failed { why, message } => {
                LibraryAnswer::Failed { why: *why, message: self.text(TextKind::Plain, message) }
            }
            LibraryAnswer::Answered(outcome) => {
                self.value(outcome).map_or_else(|| lost(Why::Broken), LibraryAnswer::Answered)
            }
        }
    }

    /// Masks all strings of a value.
    fn value<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Option<T> {
        // A tree of values would take many times the memory of its text.
        let text = crate::model::to_json(value).ok()?;
        let masked = json::map_texts(&text, |place, text| self.text(place, text))?;
        serde_json::from_slice(masked.as_bytes()).ok()
    }
}

/// True for an initramfs, of which the snapshot contains a summary.
fn is_image(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    // gdr reads nothing else from boot partitions.
    let to_boot = path.starts_with("/boot/") || path.starts_with("/efi/");
    to_boot || (path.contains("/modules/") && ["initramfs.img", "initrd"].contains(&name))
}

/// The summary of an image without private words; empty if invalid.
fn image(text: &str) -> String {
    let found: Result<Option<Initramfs>, _> = serde_json::from_slice(text.as_bytes());
    found
        .map(|image| image.map(kmod::masked_image))
        .and_then(|image| crate::model::to_json(&image))
        .unwrap_or_default()
}

/// GRUB's settings without kernel command lines.
fn without_command_lines(text: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((name, _)) if name.trim_start().starts_with("GRUB_CMDLINE") => {
            format!("{name}=masked\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn is_config(path: &str) -> bool {
    path.starts_with("/sys/") && path.ends_with("/config")
}

/// Texts with the vocabulary of kernel and vendors, but no host or user names.
fn vocabulary(snapshot: &Snapshot, mut each: impl FnMut(&str)) {
    const FILES: [&str; 9] = [
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/modules",
        "/proc/devices",
        "/proc/self/limits",
        "/proc/self/status",
        "/proc/driver/nvidia/params",
        "/sys/class/dmi/id/sys_vendor",
        "/sys/class/dmi/id/product_name",
    ];
    const KERNEL: [&str; 5] = ["/sys/", "/proc/", "/dev/nvidia", "/dev/infiniband", "/dev/gdrdrv"];
    // Names of interfaces, volumes and process groups are private.
    const PEOPLE: [&str; 7] = [
        "/sys/block",
        "/sys/class/block",
        "/sys/class/net",
        "/sys/devices/virtual",
        "/sys/fs",
        "/sys/kernel/config",
        "/proc/sys/net",
    ];
    let starts = |path: &str, roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
    let of_kernel = |path: &str| {
        starts(path, &KERNEL) && !starts(path, &PEOPLE) && !path.ends_with("/device/net")
    };
    for (path, recorded) in snapshot.files.iter().filter(|(path, _)| of_kernel(path)) {
        each(path);
        recorded.names.iter().flatten().for_each(|name| each(name));
        recorded.link.iter().for_each(|link| each(link));
        if FILES.contains(&path.as_str()) || path.ends_with("/information") {
            recorded.text.iter().for_each(|text| each(text));
        }
    }
    let Host { os, cpu, .. } = &snapshot.host;
    [os, cpu].into_iter().flatten().for_each(|text| each(text));
    if let Some(LibraryAnswer::Answered(crate::model::NvmlOutcome::Read(nvml))) =
        &snapshot.libraries.nvml
    {
        nvml.gpus.iter().filter_map(|gpu| gpu.name.known()).for_each(|name| each(name));
    }
}

#[cfg(test)]
mod tests;
