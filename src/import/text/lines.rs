//! Lines of programs that no other kind covers: an address, a UUID or a number beside the name of a GPU, and RDMA devices. Read only
//! where nothing else shows a GPU, or a NIC. Sentences of people are not lines of programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::charts::is_uuid;
use super::machines::Machines;
use super::nccl::GPU;
use super::rdma_lists::{NUMBERED, PLACED, is_device};
use super::{KINDS, Kind, Starts, by_index, cut, named, summary};
use crate::import::ImportError;
use crate::import::find::Words;
use crate::import::support::{Class, Recording};
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids, ListedGpu};

pub const LINES: Kind = Kind {
    name: "lines of other programs, where nothing else shows such a device",
    starts: Starts::Line,
    begins: |_| true,
    yields: "GPUs by UUID, by an identifier of Windows, or by a PCI address or a number beside the name of the product; NICs of Mellanox \
             beside a PCI address; RDMA devices beside a PCI address or the state of a port, in a path of /sys/class/infiniband, or in a \
             list that a program found",
    example: "CUDA device           : 0 NVIDIA H100 80GB HBM3 (0000:17:00.0)
mlx5_0 -> pci=0000:1a:00.0 class=0x020700 driver=mlx5_core
",
    read,
};

/// What the lines name.
#[derive(Default)]
struct Found<'a> {
    placed: BTreeMap<Bdf, (Ids, ListedGpu)>,
    by_uuid: Vec<ListedGpu>,
    by_number: BTreeMap<usize, ListedGpu>,
    /// Sizes of memory by number: a GPU with two is of two machines.
    sizes: BTreeMap<usize, &'a str>,
    differ: bool,
    /// By the identifier of Windows.
    by_id: Vec<(&'a str, ListedGpu)>,
    /// The product that a line above names.
    above: Option<&'a str>,
    /// NICs whose RDMA devices are not named.
    adapters: BTreeMap<Bdf, Ids>,
    controllers: BTreeSet<Bdf>,
    /// A number stands behind a word for a GPU. People number lists from 1.
    has_keys: bool,
    /// RDMA devices and their addresses.
    nics: BTreeMap<&'a str, Option<Bdf>>,
    /// How many GPUs there are at least by the numbers of those that a program uses.
    used: usize,
    /// Ports of NVSwitches have names of NICs.
    others: BTreeSet<&'a str>,
    hosts: BTreeSet<&'a str>,
}

fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let line = |raw: &str| may_name(raw).then(|| cut::clean(raw.as_bytes()));
    let lines: Vec<Option<String>> = text.lines().map(line).collect();
    let mut found = Found::default();
    let (mut is_input, mut are_names, mut head) = (false, false, None);
    let (mut of_machine, mut machines, mut roles) =
        (cut::Named::default(), Machines::default(), Machines::default());
    for (at, (line, raw)) in lines.iter().zip(text.lines()).enumerate() {
        of_machine.next(raw, cut::command(raw.trim()), true);
        let line = line.as_ref().map(|line| line.trim()).filter(|line| line.len() <= LONGEST);
        // What another kind refuses, as metrics of several machines, is not read here.
        if let Some(line) = line.filter(|line| !KINDS.iter().any(|kind| (kind.begins)(line)))
            && found.add(line) | found.add_below(line, is_input || are_names, head)
        {
            found.hosts.extend(host(line).or_else(|| labelled(line)));
            of_machine.machine.iter().for_each(|name| machines.shows(name, at + 1));
            of_machine.role.iter().for_each(|name| roles.shows(name, at + 1));
        }
        let raw = raw.trim();
        head = named::heading(raw).or(head.filter(|_| !raw.is_empty()));
        is_input = raw.contains(">>> ") || raw.starts_with("In [");
        let goes_on = raw.trim_matches('-').is_empty() || summary::whole(raw).is_some();
        are_names = named::is_head_of_names(raw) || are_names && goes_on;
        found.above = found.above.filter(|_| !raw.is_empty());
    }
    // Devices of several machines are not those of one.
    if found.hosts.len() > 1 {
        return Err(ImportError::Job(super::machines::launched(&found.hosts)));
    }
    if let Some(words) = machines.several().or_else(|| roles.several()) {
        return Err(ImportError::Job(words));
    }
    found.record(recording)
}

/// True if a line has a word that each line of interest has: a text may have a million lines.
fn may_name(line: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "GPU-",
        named::CAPACITY,
        " MIG ",
        "10de",
        "10DE",
        "15b3",
        "15B3",
        "ConnectX",
        "BlueField",
        "Mellanox",
        "device found: ",
        "(nvgpu)",
        "GRES[gpu]",
        "pciId of gpu",
        "/sys/class/infiniband/",
    ];
    static WORDS: LazyLock<Words> = LazyLock::new(|| {
        let words = summary::BRANDS
            .into_iter()
            .chain(NUMBERED)
            .chain(PLACED)
            .chain(OTHERS)
            .chain(named::USED);
        Words::new(words)
    });
    WORDS.has_any(line)
}

/// Longer lines are documents of one line.
const LONGEST: usize = 16 << 10;

impl<'a> Found<'a> {
    /// True if the line names a device.
    fn add(&mut self, line: &'a str) -> bool {
        let model = models(line).next().map(|(_, model)| model);
        let of_slurm = named::of_slurm(line);
        let model = model.or(of_slurm.and_then(|(_, model)| model));
        let mut uuids = uuids(line).peekable();
        if uuids.peek().is_some() {
            for uuid in uuids.map(str::to_owned) {
                let known = self.by_uuid.iter().any(|gpu| gpu.uuid.as_ref() == Some(&uuid));
                if !known && self.by_uuid.len() < MAX_GPUS {
                    self.by_uuid.push(ListedGpu { uuid: Some(uuid), ..listed(model) });
                }
            }
            return true;
        }
        if let Some((number, size)) = named::out_of_memory(line) {
            self.differ |= *self.sizes.entry(number).or_insert(size) != size;
        }
        if let Some(number) = named::of_cuda(line) {
            self.has_keys = true;
            self.by_number.entry(number).or_default();
            return true;
        }
        if is_sentence(line) || named::is_code(line) {
            return false;
        }
        if let Some((id, device)) = named::pnp(line) {
            return self.add_pnp(line, id, device, model);
        }
        self.above = model.or(self.above);
        self.used = self.used.max(named::used(line).unwrap_or(0));
        let place = only(addresses(line));
        if let Some(bdf) = place
            && let Some(ids) = of_nvidia(line, bdf, model)
        {
            self.placed.entry(bdf).or_insert((ids, listed(model)));
            return true;
        }
        if let Some(bdf) = named::of_vgpu(line) {
            self.placed.entry(bdf).or_insert((GPU, ListedGpu::default()));
            return true;
        }
        if let Some(name) = in_sysfs(line) {
            self.nics.entry(name).or_default();
            return true;
        }
        let list = named::list(line);
        if !list.is_empty() && !named::is_of_switch(line) {
            list.into_iter().for_each(|name| _ = self.nics.entry(name).or_default());
            return true;
        }
        let names = || words(line).filter(|word| is_device(word));
        if let Some(name) = only(names()) {
            if named::is_of_switch(line) {
                self.others.insert(name);
                return false;
            }
            if place.is_some() || words(line).any(|word| STATES.contains(&word)) {
                let known = self.nics.entry(name).or_default();
                *known = known.or(place);
                return true;
            }
        }
        if place.is_some_and(|bdf| self.add_adapter(line, bdf)) {
            return true;
        }
        if let Some((number, model)) = numbered(line).or(of_slurm) {
            self.has_keys |= !line.starts_with(|c: char| c.is_ascii_digit());
            let gpu = self.by_number.entry(number).or_default();
            gpu.model = gpu.model.take().or(model.map(str::to_owned));
            return true;
        }
        false
    }

    /// True for a NIC at this address.
    fn add_adapter(&mut self, line: &str, bdf: Bdf) -> bool {
        const MOST: usize = 1024;
        let has_room = self.adapters.len() < MOST && self.controllers.len() < MOST;
        match named::adapter(line) {
            Some(ids) if has_room => _ = self.adapters.entry(bdf).or_insert(ids),
            None if has_room && named::is_controller(line, bdf) => _ = self.controllers.insert(bdf),
            _ => return false,
        }
        true
    }

    /// True for a GPU in Windows: the line or one above names the product or the class, or the number is that of a GPU.
    fn add_pnp(&mut self, line: &str, id: &'a str, device: u16, model: Option<&'a str>) -> bool {
        let model = model.or(self.above.take());
        let ids = Ids { device: Some(device), ..GPU };
        let is_gpu = model.is_some() || line.contains("Display") || ids.listed_gpu().is_some();
        let is_known = self.by_id.iter().any(|(known, _)| *known == id);
        if is_gpu && !is_known && self.by_id.len() < MAX_GPUS {
            self.by_id.push((id, listed(model)));
        }
        is_gpu
    }

    /// A GPU whose name stands below what says so: the input of an interpreter, or the number of a device.
    fn add_below(&mut self, line: &'a str, is_input: bool, head: Option<usize>) -> bool {
        let bare =
            line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "[]: ".contains(c));
        let whole = if line.starts_with("Out[") { bare } else { line };
        let whole = whole.strip_prefix('b').unwrap_or(whole).trim_matches(['\'', '"']);
        if let Some(model) = summary::whole(whole).filter(|_| is_input) {
            self.by_number.insert(self.by_number.len(), listed(Some(model)));
            return true;
        }
        let of_name = line.strip_prefix("name").filter(|rest| rest.starts_with([' ', ':', '=']));
        let value = of_name.map(|rest| rest.trim_matches([' ', ':', '=', '\'', '"']));
        if let Some((number, model)) = head.zip(value.filter(|value| named::is_brand(value))) {
            self.by_number.entry(number).or_insert_with(|| listed(Some(model)));
            return true;
        }
        false
    }

    fn record(mut self, recording: &mut Recording) -> Result<(), ImportError> {
        if self.differ {
            self.by_number.clear();
        }
        // The numbers alone do not say of what vendor the GPUs are.
        if !self.by_uuid.is_empty() && self.placed.is_empty() && self.by_uuid.len() < self.used {
            self.by_uuid.resize(self.used, ListedGpu::default());
        }
        if !self.placed.is_empty() {
            self.placed.iter().for_each(|(bdf, (ids, _))| recording.function(*bdf, *ids));
            recording.listed(self.placed.into_values().map(|(_, gpu)| gpu).collect());
        } else if self.by_id.len() > self.by_uuid.len().max(self.by_number.len()) {
            recording.listed(self.by_id.into_iter().map(|(_, gpu)| gpu).collect());
        } else if self.by_uuid.len() >= self.by_number.len() {
            recording.listed(self.by_uuid);
        } else if self.by_number.contains_key(&0) || self.has_keys {
            recording.listed(by_index(self.by_number.into_iter().collect()));
        }
        self.adapters.iter().for_each(|(bdf, ids)| recording.function(*bdf, *ids));
        self.controllers.iter().for_each(|bdf| recording.controller(*bdf, false));
        let mut class = Class::default();
        for (name, place) in self.nics.iter().filter(|(name, _)| !self.others.contains(*name)) {
            if let Some(device) = class.device(name) {
                class.links.extend(place.map(|bdf| (device, bdf)));
            }
        }
        recording.class(class)
    }
}

fn listed(model: Option<&str>) -> ListedGpu {
    ListedGpu { model: model.map(str::to_owned), ..ListedGpu::default() }
}

/// The value if all are the same.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// Words of sentences. Logs have some of them too, but not those of a person.
fn is_sentence(line: &str) -> bool {
    const PERSONS: [&str; 7] = ["i", "i'm", "my", "we", "our", "you", "your"];
    const OTHERS: [&str; 14] = [
        "the", "a", "an", "is", "are", "was", "have", "has", "with", "this", "that", "and", "but",
        "or",
    ];
    let count = |of: &[&str]| {
        let words = line.split_ascii_whitespace().map(|word| word.to_ascii_lowercase());
        words.filter(|word| of.contains(&word.trim_matches([',', '.']))).count()
    };
    count(&PERSONS) > 0 || count(&OTHERS) > 1 || line.ends_with('?')
}

/// Names of products of NVIDIA, and where they begin: the first few of a line.
fn models(line: &str) -> impl Iterator<Item = (usize, &str)> {
    const MOST: usize = 64;
    let is_start = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric());
    let starts = line.char_indices().map(|(at, _)| at).filter(move |at| is_start(*at));
    let is_brand = |at: &usize| summary::BRANDS.iter().any(|brand| line[*at..].starts_with(brand));
    starts.filter(is_brand).take(MOST).filter_map(|at| {
        // The next column of a table.
        let name = summary::model(line[at..].split("  ").next()?)?;
        // Words of a message may follow.
        let is_word = |word: &str| {
            word.contains('=')
                || matches!(word, "On" | "Off")
                || word.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        let end = name
            .split(' ')
            .take_while(|word| !is_word(word))
            .map(|word| word.len() + 1)
            .sum::<usize>();
        let name = name.get(..end.saturating_sub(1))?.trim_end_matches([')', '}', '.']);
        Some((at, summary::model(name)?))
    })
}

/// `GPU-01234567-89ab-cdef-0123-456789abcdef`.
fn uuids(line: &str) -> impl Iterator<Item = &str> {
    const LENGTH: usize = 40;
    let uuid = |at: usize| line.get(at..at + LENGTH);
    line.match_indices("GPU-")
        .filter_map(move |(at, _)| uuid(at).filter(|uuid| is_uuid(&uuid[4..])))
}

/// Words of letters, digits and the marks of names.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
}

/// Addresses with their domains.
fn addresses(line: &str) -> impl Iterator<Item = Bdf> {
    let words = line.split(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'));
    let words = words.map(|word| word.trim_end_matches([':', '.']));
    words.filter(|word| word.len() >= 12).filter_map(|word| word.parse().ok())
}

/// The numbers of a GPU of NVIDIA at this address: by its name, or by the number of the vendor.
fn of_nvidia(line: &str, bdf: Bdf, model: Option<&str>) -> Option<Ids> {
    const OTHERS: [&str; 6] = ["audio", "usb", "bridge", "switch", "serial", "class=0x06"];
    let lower = line.to_ascii_lowercase();
    if bdf.function > 0 || OTHERS.iter().any(|other| lower.contains(other)) {
        return None;
    }
    let number = lower.match_indices("10de").find_map(|(at, _)| {
        let rest = lower[at + 4..].strip_prefix(':')?;
        u16::from_str_radix(rest.trim_start_matches("0x").get(..4)?, 16).ok()
    });
    // Chipsets of NVIDIA are on the first bus.
    let by_number = number.is_some() && bdf.bus > 0;
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let by_class = has(&["0x10de"]) && has(&["0x0300", "0x0302"]);
    // A row of nvidia-smi without its borders, with a name that is cut.
    let is_row = summary::BRANDS.iter().any(|brand| line.contains(brand))
        && (line.contains(" On ") || line.contains(" Off "))
        && line.contains(" 0000");
    (model.is_some() || by_number || by_class || is_row).then_some(Ids { device: number, ..GPU })
}

/// The device in a path of sysfs.
fn in_sysfs(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("/sys/class/infiniband/")?;
    let name = words(rest).next().filter(|name| is_device(name))?;
    (!line.contains("No such file")).then_some(name)
}

/// States of ports and devices, as programs print them.
const STATES: [&str; 17] = [
    "ACTIVE",
    "DOWN",
    "INIT",
    "ARMED",
    "PORT_ACTIVE",
    "PORT_DOWN",
    "PORT_INIT",
    "Active",
    "LinkUp",
    "LINK_UP",
    "LinkDown",
    "Polling",
    "POLLING",
    "port",
    "numPorts",
    "node_guid",
    "fw_ver",
];

/// The number of the GPU before the name of a product: `0: NVIDIA L4`, `GPU1: …`, `device 2 [NVIDIA L4]`, `"index": 0, "name": …`.
fn numbered(line: &str) -> Option<(usize, Option<&str>)> {
    if line.contains("(nvgpu)") {
        // The GPU of a system on a chip.
        let name = line.split_once(" (nvgpu)")?.0.rsplit([' ', ':', '{', '"']).next()?;
        return Some((0, Some(name))).filter(|_| !name.is_empty());
    }
    let (at, model) = models(line).next()?;
    let marks = |c: char| " \t=-([{\"'|,:>]".contains(c);
    let before = line[..at].trim_end_matches(marks);
    let before =
        ["name", "Name", "model", "NAME"].iter().find_map(|word| before.strip_suffix(word));
    let before = before.unwrap_or(&line[..at]);
    let has_mark = before.trim_end().ends_with([':', ']', '=', ',', '>', '[', '(', '|']);
    let before = before.trim_end_matches(marks);
    let key = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = before[key.len()..].parse().ok().filter(|number| *number < MAX_GPUS)?;
    let key = key.to_ascii_lowercase();
    // `GPU: 2 NVIDIA L4` is a count.
    let is_count = number > 0 && key.trim_end().ends_with([':', '=']);
    let bare = key.trim_end_matches(|c: char| marks(c) || c == '#');
    let ends = |names: &[&str]| names.iter().any(|name| bare.ends_with(name));
    let is_gpu = bare.is_empty() && has_mark || ends(&["gpu", "device", "card"]);
    // A blank stands between CUDA and its version.
    let is_index =
        ends(&["index", "id", "minor"]) || key.ends_with("cuda") || key.ends_with("cuda:");
    (is_gpu && !is_count || is_index).then_some((number, Some(model)))
}

/// The host in `host=node1` of a line of fields.
fn labelled(line: &str) -> Option<&str> {
    const KEYS: [&str; 5] = ["host", "hostname", "node", "nodename", "instance"];
    let words = line.split([' ', ',', '{', '}']);
    let of_word = |word: &str| {
        let (key, _) = word.split_once('=')?;
        KEYS.contains(&key.to_ascii_lowercase().as_str()).then_some(key.len() + 1)
    };
    words.into_iter().find_map(|word| Some(word[of_word(word)?..].trim_matches('"')))
}

/// The host in `Jan  2 10:00:00 node1 program: …` of syslog.
pub fn host(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
    let [month, day, time, host, program] = words[..] else { return None };
    let is_time = month.len() == 3 && day.parse::<u8>().is_ok() && time.matches(':').count() == 2;
    (is_time && program.ends_with(':')).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{SupportReport, text};

    /// GPUs by address, models or UUIDs of those without, and RDMA devices with the ends of their addresses.
    fn devices(report: &SupportReport) -> (Vec<String>, Vec<String>, Vec<String>) {
        let gpus = report.functions.keys().map(ToString::to_string).collect();
        let name = |gpu: &ListedGpu| gpu.uuid.clone().or(gpu.model.clone()).unwrap_or_default();
        let listed: Vec<String> = report.listed.iter().map(name).collect();
        let place = |link: &str| link.rsplit('/').next().unwrap_or_default().to_owned();
        let nics = report.files.iter().filter_map(|(path, file)| {
            let name = path.strip_prefix("/sys/class/infiniband/")?;
            match name.split_once('/') {
                Some((name, "device")) => Some(format!("{name} {}", place(file.link.as_deref()?))),
                Some((name, "ports")) => Some(name.to_owned()),
                _ => None,
            }
        });
        let mut nics: Vec<String> = nics.collect();
        nics.dedup_by(|b, a| b.starts_with(&format!("{a} ")) || a.starts_with(&format!("{b} ")));
        (gpus, if report.functions.is_empty() { listed } else { Vec::new() }, nics)
    }

    fn found(lines: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        devices(&text(lines.as_bytes(), SupportReport::default()).expect(lines))
    }

    #[test]
    fn lines_of_programs_name_gpus() {
        const UUID: &str = "GPU-01234567-89ab-cdef-0123-456789abcdef";
        for (lines, places, listed) in [
            (
                "CUDA device           : 0 NVIDIA H100 80GB HBM3 (0000:17:00.0)\n".to_owned(),
                vec!["0000:17:00.0"],
                vec![],
            ),
            ("node-check: 00000000:2A:00.0 10de:2330 is bound to vfio-pci\n".to_owned(), vec!["0000:2a:00.0"], vec![]),
            ("nvidia-vgpud: pciId of gpu [0]: 0:2a:0:0\n".to_owned(), vec!["0000:2a:00.0"], vec![]),
            (format!("{{\\\"gpu_uuid\\\":\\\"{UUID}\\\",\\\"clique\\\":1}} again {UUID}\n"), vec![], vec![UUID]),
            (format!("['200.00, 45, NVIDIA L4, {UUID}, 86']\n"), vec![], vec![UUID]),
            (
                ">>> torch.cuda.get_device_name(0)\n'NVIDIA L4'\n>>> torch.cuda.get_device_name(1)\n'NVIDIA L40S'\n".to_owned(),
                vec![],
                vec!["NVIDIA L4", "NVIDIA L40S"],
            ),
            (
                "Device #0:\n>>> attributes:\n  name      NVIDIA L4\n  major     8\n\nDevice #1:\n  name      NVIDIA L4\n".to_owned(),
                vec![],
                vec!["NVIDIA L4", "NVIDIA L4"],
            ),
            ("0: NVIDIA L4\n1: NVIDIA L4\n".to_owned(), vec![], vec!["NVIDIA L4", "NVIDIA L4"]),
            ("[worker] found cuda:0 (NVIDIA L4)\n".to_owned(), vec![], vec!["NVIDIA L4"]),
            ("{\"index\": 0, \"name\": \"NVIDIA L4\", \"used\": 1},\n".to_owned(), vec![], vec!["NVIDIA L4"]),
            ("stats {GPUData:map[0:{Name:Orin (nvgpu) Usage:0}]}\n".to_owned(), vec![], vec!["Orin"]),
            (
                "slurmd:  GRES[gpu] Type:nvidia_l4 Count:1 Flags:HAS_FILE File:/dev/nvidia0 Cores:0-55\n".to_owned(),
                vec![],
                vec!["nvidia_l4"],
            ),
        ] {
            let (of_place, of_list, nics) = found(&lines);
            assert_eq!((of_place, of_list), (places.into_iter().map(str::to_owned).collect(), listed.into_iter().map(str::to_owned).collect()), "{lines}");
            assert!(nics.is_empty(), "{lines}");
        }
    }

    #[test]
    fn lines_of_programs_name_nics() {
        for (lines, expected) in [
            ("mlx5_0 -> pci=0000:0b:00.0 driver=mlx5_core\nmlx5_0: one\n", "mlx5_0 0000:0b:00.0"),
            ("cd /sys/class/infiniband/hfi1_0/ports/1/hw_counters\nRcAcks  1\n", "hfi1_0"),
            ("rocep26s0f0: port 1 is PORT_ACTIVE\n", "rocep26s0f0"),
        ] {
            let (places, listed, nics) = found(lines);
            assert_eq!(nics, [expected], "{lines}");
            assert!(places.is_empty() && listed.is_empty(), "{lines}");
        }
    }

    #[test]
    fn lines_name_adapters_lists_and_devices_of_windows() {
        let adapter =
            "agent: device added: [identifier: 0000:1a:00.0, vendor: 15b3, device: 1021]\n";
        let report = text(adapter.as_bytes(), SupportReport::default()).expect("a NIC");
        assert!(report.functions.values().all(|ids| ids.vendor == Ids::MELLANOX));
        assert_eq!(report.functions.len(), 1);
        let (_, _, nics) = found("agent: found 2 devices: mlx5_0, mlx5_1\n");
        assert_eq!(nics, ["mlx5_0", "mlx5_1"]);
        let controller = |id: &str| {
            format!(
                "detected:\n  Name NVIDIA GeForce GTX 1060 6GB\n  PNPDeviceID PCI\\VEN_10DE&DEV_1C03&SUBSYS_1&REV_A1\\4&2&0&{id}\n"
            )
        };
        for (lines, expected) in [
            (
                controller("9A") + &controller("9B") + &controller("9A"),
                vec!["NVIDIA GeForce GTX 1060 6GB"; 2],
            ),
            (
                "OK  Display  NVIDIA GeForce RTX 4090   PCI\\VEN_10DE&DEV_2684&SUBSYS_1\\4\n"
                    .to_owned(),
                vec!["NVIDIA GeForce RTX 4090"],
            ),
            ("Name\nNVIDIA L4\n\nNVIDIA L4\n".to_owned(), vec!["NVIDIA L4"; 2]),
        ] {
            let (places, listed, nics) = found(&lines);
            assert!(
                places.is_empty() && nics.is_empty() && listed == expected,
                "{listed:?}\n{lines}"
            );
        }
        // The borders of nvidia-smi's table are gone, and a name is cut.
        let (places, ..) = found(
            "0 NVIDIA L4 On 00000000:17:00.0 Off 0\n1 NVIDIA GeForce ... Off 00000000:2A:00.0 Off 0\n",
        );
        assert_eq!(places, ["0000:17:00.0", "0000:2a:00.0"]);
    }

    #[test]
    fn what_names_no_device_of_the_machine() {
        for lines in [
            "I have an NVIDIA L4 at 0000:17:00.0 and mlx5_0 port 1.\n",
            "GPU: 2 NVIDIA L4 in words\n2 NVIDIA L4\nCUDA 12 (NVIDIA L4)\n",
            "vfio: 0000:17:00.1 10de:22ba\nvfio: 0000:00:08.0 10de:03ea\n",
            "cat: /sys/class/infiniband/mlx5_0/ports: No such file or directory\n",
            "found NVSwitch LPF device: mlx5_0\nread port attributes device=mlx5_0 port=1\n",
            "MIG-01234567-89ab-cdef-0123-456789abcdef\nGPU-0123\n",
            "ib_write_bw -d mlx5_0 -p 10000\n",
            "opening with devices=mlx5_0:1,mlx5_1:1\n",
            "OK  USB  NVIDIA USB controller  PCI\\VEN_10DE&DEV_1AD6&SUBSYS_1\\4\n",
            "my NIC is ConnectX-7 at 0000:1a:00.0\n",
            "NVIDIA L4\n",
            "1: NVIDIA L4\n2: NVIDIA L40S\n",
            "assert mlx5_0.port == 1\nlet gpus = [{ index: 0, name: \"NVIDIA L4\" }];\n",
        ] {
            assert!(text(lines.as_bytes(), SupportReport::default()).is_err(), "{lines}");
        }
        let two = "Jan  2 10:00:00 node1 agent: GPU 0: NVIDIA L4 is up\nJan  2 10:00:00 node2 agent: GPU 0: NVIDIA L4 is up\n";
        let fields = "gpu=GPU-01234567-89ab-cdef-0123-456789abcdef host=node1\ngpu=GPU-11234567-89ab-cdef-0123-456789abcdef host=node2\n";
        for two in [two, fields] {
            let error = text(two.as_bytes(), SupportReport::default()).expect_err("two machines");
            assert!(error.to_string().contains("'node1' and 'node2'"), "{error}");
        }
        // Another kind shows the NICs.
        let (_, listed, nics) =
            found("CA 'mlx5_0'\n\tCA type: MT4129\nmlx5_1: port 1\n0: NVIDIA L4\n");
        assert!(listed == ["NVIDIA L4"] && nics == ["mlx5_0"]);
    }
}
