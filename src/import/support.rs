//! Support reports → files of the machine, and the output of lspci. Pure.
//!
//! A report contains copies of files and output of commands. The files that collectors read are recorded as in a
//! snapshot. Output with the content of such a file is recorded as that file. The rest is dropped while the report
//! is read, so a large report takes little memory. A path that is not in the report is unknown, not absent.

mod archive;
mod counted;
mod devinfo;
mod domain;
mod recording;
mod sections;
mod smi;
mod tar;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

pub(super) use counted::attached;
pub(super) use devinfo::{Class, class as devinfo_class};
use domain::DefaultDomain;
pub(super) use recording::Recording;
use sections::Layout;

use super::ImportError;
use crate::input::Lookahead;
use crate::model::Order as _;
use crate::model::{
    Bdf, Config, Fact, Facts, Ids, Listed, ListedGpu, Note, Nvml, NvmlOutcome, P2pCapability,
    P2pStatus, PciDevice, Recorded,
};
use crate::pci::PciNames;

/// Bytes at the start of a file that are searched for the kind of report: people paste a log below their own words.
const LOOK: usize = 64 << 10;

/// The part of a machine that a support report describes.
#[derive(Debug, Default)]
pub struct SupportReport {
    /// The files, by path.
    pub files: BTreeMap<String, Recorded>,
    /// Output of lspci.
    pub lspci: Vec<u8>,
    /// True if lspci listed all functions and its output is whole.
    pub complete: bool,
    /// Output of nvidia-smi.
    pub(super) smi: String,
    /// The output is from a text that people put together.
    pasted: bool,
    /// Matrices of `nvidia-smi topo -m` in such a text.
    pub(super) matrices: String,
    /// GPUs that the text lists without addresses.
    pub(super) listed: Vec<ListedGpu>,
    /// The default IOMMU domain of the kernel's log.
    domain: DefaultDomain,
    /// GPUs that nvidia-smi lists.
    gpus: Vec<PciDevice>,
    /// Functions that other texts name, as a kernel's log.
    pub(super) functions: BTreeMap<Bdf, Ids>,
    /// Functions of lshw, inxi and hwinfo, as lspci prints them.
    inventory: BTreeMap<Bdf, String>,
    /// Network controllers by the names of interfaces; true with InfiniBand.
    controllers: BTreeMap<Bdf, bool>,
    /// NUMA nodes of such functions.
    nodes: BTreeMap<Bdf, u32>,
    /// Peer-to-peer status by the indexes of GPUs.
    p2p: BTreeMap<(u32, u32), BTreeMap<P2pCapability, Fact<P2pStatus>>>,
    /// Variables of the job's environment.
    environment: BTreeMap<String, String>,
    /// Remarks for the report.
    notes: Vec<Note>,
    /// Only texts: they need not show all devices.
    pub(super) only_texts: bool,
    /// Answers of NVML, from output of nvidia-smi.
    pub nvml: Option<NvmlOutcome>,
}

/// Which devices a text shows.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub gpus: bool,
    pub nics: bool,
}

impl Shown {
    /// By the names of vendors and classes in output of lspci.
    fn of_functions(text: &[u8]) -> Self {
        const NICS: [&str; 7] = [
            "Mellanox",
            "nfiniBand",
            "nfiniband",
            "Ethernet controller",
            "15b3:",
            "[0200]",
            "[0207]",
        ];
        let text = String::from_utf8_lossy(text);
        let has = |words: &[&str]| super::find::has_any(&text, words);
        Self { gpus: has(&["NVIDIA", "nVidia", "10de:"]), nics: has(&NICS) }
    }
}

/// True for a support report, or another archive. Consumes nothing.
pub fn is_support_report(content: &mut Lookahead<'_>) -> io::Result<bool> {
    let start = content.peek(LOOK)?;
    Ok(tar::is_format(start) || sections::is_bug_report(start))
}

/// The logs in an archive, one after the other, up to a limit. Returns `None` and consumes nothing if the content is something else.
pub fn archived_logs(
    content: &mut Lookahead<'_>,
    most: u64,
) -> Result<Option<Vec<u8>>, ImportError> {
    if tar::is_format(content.peek(LOOK)?) {
        archive::logs(content, most).map(Some)
    } else {
        Ok(None)
    }
}

/// Reads a support report. Returns `None` and consumes nothing if the content is something else.
pub fn support_report(content: &mut Lookahead<'_>) -> Result<Option<SupportReport>, ImportError> {
    let start = content.peek(LOOK)?;
    if tar::is_format(start) {
        return archive::read(content).map(Some);
    }
    if sections::is_bug_report(start) {
        let mut recording = Recording::default();
        sections::read(content, Layout::BugReport, &mut recording)?;
        return Ok(Some(recording.finish()));
    }
    Ok(None)
}

impl SupportReport {
    /// The facts of lspci's output, with the files that the report has of single functions; none without functions.
    /// Fails if the report describes no machine.
    pub fn printed(&self, names: &PciNames) -> Result<Option<Facts>, ImportError> {
        let (text, is_lspcis) = self.functions_text();
        let printed = super::printed_by_lspci(&text, names).ok();
        let Some(mut facts) = printed.filter(|facts| !facts.devices().is_empty()) else {
            return if self.is_empty() {
                Err(ImportError::Malformed(
                    "the support report has neither files of /sys nor output of lspci".to_owned(),
                ))
            } else {
                Ok(None)
            };
        };
        facts.pci = facts
            .pci
            .map(|devices| devices.into_iter().map(|device| self.located(device)).collect());
        if !is_lspcis {
            // Remarks name lines of lspci.
            for note in &mut facts.notes {
                note.source = "list of PCI functions".to_owned();
            }
        }
        super::matrix::add(&mut facts, &self.smi);
        super::matrix::add(&mut facts, &self.matrices);
        facts.partial = !self.complete;
        Ok(Some(facts))
    }

    /// The output of lspci; without it, the functions that other programs list, of which they say less.
    fn functions_text(&self) -> (Cow<'_, [u8]>, bool) {
        if self.inventory.is_empty() || super::lspci::is_format(&self.lspci) {
            return (Cow::Borrowed(&self.lspci), true);
        }
        (Cow::Owned(self.inventory.values().flat_map(|line| line.bytes()).collect()), false)
    }

    /// True if it describes no machine.
    pub fn is_empty(&self) -> bool {
        self.lspci.iter().all(u8::is_ascii_whitespace) && self.says_nothing()
    }

    /// True if neither its files nor the output of nvidia-smi describe a machine.
    pub fn says_nothing(&self) -> bool {
        let is_empty = |outcome: &NvmlOutcome| match outcome {
            NvmlOutcome::Read(nvml) => **nvml == Nvml { partial: nvml.partial, ..Nvml::default() },
            _ => false,
        };
        self.files.is_empty()
            && self.nvml.as_ref().is_none_or(is_empty)
            && self.listed.is_empty()
            && self.functions.is_empty()
            && self.inventory.is_empty()
            && self.controllers.is_empty()
            && self.environment.is_empty()
            && self.notes.is_empty()
            && super::matrix::listed(&self.matrices).is_none()
    }

    /// True if its files or texts show a GPU or a NIC, lspci aside.
    pub fn has_devices(&self) -> bool {
        const DIRECTORIES: [&str; 2] = ["/sys/class/infiniband/", "/proc/driver/nvidia/gpus/"];
        let is_one = |path: &String| DIRECTORIES.iter().any(|of| path.starts_with(of));
        !self.listed.is_empty()
            || !self.functions.is_empty()
            || !self.gpus.is_empty()
            || !self.inventory.is_empty()
            || !self.controllers.is_empty()
            || self.files.keys().any(is_one)
            || super::matrix::listed(&self.matrices).is_some()
    }

    /// Which devices its files or texts show, lspci aside.
    pub(super) fn shown(&self) -> Shown {
        let has_files = |of: &str| self.files.keys().any(|path| path.starts_with(of));
        let lines: String = self.inventory.values().map(String::as_str).collect();
        let of_lines = Shown::of_functions(lines.as_bytes());
        let listed = super::matrix::listed(&self.matrices);
        Shown {
            gpus: !self.listed.is_empty()
                || !self.gpus.is_empty()
                || self.functions.values().any(Ids::is_nvidia_gpu)
                || has_files("/proc/driver/nvidia/gpus/")
                || listed.is_some()
                || of_lines.gpus,
            // A matrix shows the NICs too, if there are any.
            nics: !self.controllers.is_empty()
                || self.functions.values().any(|ids| ids.base_class() == 0x02)
                || has_files("/sys/class/infiniband/")
                || listed.is_some()
                || of_lines.nics,
        }
    }

    /// Which devices lspci shows, in this text or in the report.
    pub(super) fn printed_devices(&self, lspci: &[u8]) -> Shown {
        let of = [lspci, &self.lspci].map(|text| {
            let is_lspcis = super::lspci::is_format(text);
            if is_lspcis { Shown::of_functions(text) } else { Shown::default() }
        });
        Shown { gpus: of[0].gpus || of[1].gpus, nics: of[0].nics || of[1].nics }
    }

    /// Adds the GPUs or the NICs of another report, and its remarks. True if there are any.
    pub(super) fn fill(&mut self, other: Self, gpus: bool, nics: bool) -> bool {
        let shown = other.shown();
        for (bdf, ids) in other.functions {
            if if ids.is_nvidia_gpu() { gpus } else { nics } {
                self.functions.entry(bdf).or_insert(ids);
            }
        }
        if gpus {
            self.listed = other.listed;
        }
        if nics {
            self.controllers.extend(other.controllers);
            for (path, file) in other.files {
                self.files.entry(path).or_insert(file);
            }
        }
        let has_notes = !other.notes.is_empty();
        self.notes.extend(other.notes);
        shown.gpus && gpus || shown.nics && nics || has_notes
    }

    /// True if something is recorded besides the output of lspci and a matrix.
    pub fn has_recording(&self) -> bool {
        !self.files.is_empty() || self.nvml.is_some()
    }

    /// Adds the devices that nvidia-smi lists to facts without a list of PCI functions, and what the kernel's log says of their IOMMU
    /// groups.
    pub fn add_listed(&self, facts: &mut Facts) {
        facts.partial |= self.only_texts;
        facts.notes.extend(self.notes.iter().cloned());
        if !self.environment.is_empty() && facts.environment.known().is_none() {
            facts.environment = Fact::Known(self.environment.clone());
        }
        let links = facts.devices().iter().filter_map(|device| self.two_links(device));
        let links: Vec<Note> = links.collect();
        facts.notes.extend(links);
        let functions = self.named_functions();
        let gpus = functions.iter().filter(|function| is_gpu(function)).count();
        // A matrix shows all GPUs, a line of a log one of them.
        let shows_more = |listed: Listed| listed.gpus.len() > gpus;
        let more_listed = super::matrix::listed(&self.matrices).is_some_and(shows_more);
        if facts.pci.known().is_none() && !functions.is_empty() && !more_listed {
            if facts.rdma.known().is_none() {
                facts.unnamed_nics = super::nics(&functions);
                let known = facts.unnamed_nics.clone();
                let others = self.controllers.iter().filter(|(_, has_infiniband)| **has_infiniband);
                facts
                    .unnamed_nics
                    .extend(others.map(|(bdf, _)| *bdf).filter(|bdf| !known.contains(bdf)));
            }
            facts.pci = Fact::Known(functions);
            facts.partial = true;
            super::matrix::add(facts, &self.smi);
            super::matrix::add(facts, &self.matrices);
        }
        let count = facts.gpus().count();
        let is_longer = self.listed.len() > count && self.lists_some();
        if facts.listed.is_none() && count > 0 && (self.listed.len() == count || is_longer) {
            // Models of GPUs whose addresses another part shows, and GPUs that it does not show.
            facts.listed = Some(Listed::default());
        }
        if facts.listed.is_none() && (facts.pci.known().is_none() || count == 0) {
            facts.listed = super::matrix::listed(&self.matrices);
            if facts.listed.is_none() && !self.listed.is_empty() {
                facts.listed = Some(Listed::default());
            }
        }
        if let Some(listed) = &mut facts.listed {
            if listed.gpus.is_empty() {
                listed.gpus = self.listed.clone();
            } else if listed.gpus.len() == self.listed.len() {
                for (gpu, other) in listed.gpus.iter_mut().zip(&self.listed) {
                    gpu.model = other.model.clone();
                    gpu.uuid = other.uuid.clone();
                }
            }
        }
        self.domain.add_to(facts);
    }

    /// True if the addresses of GPUs are from parts that need not show all of them.
    fn lists_some(&self) -> bool {
        let is_whole = match &self.nvml {
            Some(NvmlOutcome::Read(nvml)) => !nvml.partial,
            _ => false,
        };
        self.only_texts
            && !is_whole
            && self.inventory.is_empty()
            && !super::lspci::is_format(&self.lspci)
    }

    /// The functions that nvidia-smi and other texts name. nvidia-smi's GPUs are those of the machine; a log may be older.
    fn named_functions(&self) -> Vec<PciDevice> {
        let function = |bdf: &Bdf, ids: Fact<Ids>| PciDevice {
            bdf: *bdf,
            ids,
            place: Fact::default(),
            numa_node: match self.nodes.get(bdf) {
                Some(node) => Fact::Known(Some(*node)),
                None => Fact::default(),
            },
            config: Config::default(),
            attributes: None,
        };
        let named = self.functions.iter().map(|(bdf, ids)| function(bdf, Fact::Known(*ids)));
        let has_gpus = !self.gpus.is_empty();
        let others = named.filter(|function| !(has_gpus && is_gpu(function)));
        let mut all: Vec<PciDevice> = others.collect();
        let controllers = self.controllers.keys().filter(|bdf| !self.functions.contains_key(bdf));
        all.extend(controllers.map(|bdf| function(bdf, Fact::default())));
        all.extend(self.gpus.iter().cloned());
        all.order_by_key(|function| function.bdf);
        all.dedup_by_key(|function| function.bdf);
        all
    }

    /// The rule by which a link counts that lspci and nvidia-smi show differently.
    fn two_links(&self, device: &PciDevice) -> Option<Note> {
        let gpu = self.gpus.iter().find(|gpu| gpu.bdf == device.bdf)?;
        let smi = gpu.attributes.as_ref()?.link.present()?.current;
        let lspci = device.config.express.present()?.link.as_ref()?.current;
        (smi != lspci).then(|| Note {
            source: format!("link of {}", device.bdf),
            message: format!(
                "lspci shows {lspci} and nvidia-smi {smi}: the faster and wider counts, because an idle GPU lowers its link"
            ),
        })
    }

    /// Adds the location that the files state: nvidia-bug-report.sh copies two files of each NVIDIA function.
    fn located(&self, mut device: PciDevice) -> PciDevice {
        let text = |name: &str| {
            let path = format!("/sys/bus/pci/devices/{}/{name}", device.bdf);
            Some(self.files.get(&path)?.text.as_ref()?.trim())
        };
        let node = text("numa_node").and_then(|node| node.parse::<i64>().ok());
        if device.numa_node.known().is_none()
            && let Some(node) = node
        {
            device.numa_node = Fact::Known(u32::try_from(node).ok());
        }
        // lspci may have read the link while the GPU was idle; nvidia-smi wakes it.
        let of_smi = self.gpus.iter().find(|gpu| gpu.bdf == device.bdf);
        if let Some(link) = of_smi.and_then(|gpu| Some(gpu.attributes.as_ref()?.link.clone()))
            && link.present().is_some()
        {
            // lspci's stays in the configuration space.
            device.attributes.get_or_insert_default().link = link;
        }
        if let Some(cpus) = text("local_cpulist").and_then(|text| text.parse().ok()) {
            device.attributes.get_or_insert_default().local_cpus = Fact::Known(cpus);
        }
        device
    }
}

fn is_gpu(function: &PciDevice) -> bool {
    function.ids.known().is_some_and(Ids::is_nvidia_gpu)
}

/// Adds facts of lspci's output where the files of the report state none.
pub fn add_printed(mut facts: Facts, printed: Facts) -> Facts {
    // The files may name functions without saying what they are.
    let mut devices = facts.devices().iter();
    if !devices.any(|device| device.ids.known().is_some()) {
        facts.pci = printed.pci;
        facts.partial = printed.partial;
        facts.platform.paravirtual_devices = printed.platform.paravirtual_devices;
        facts.notes.extend(printed.notes);
    }
    if facts.nvme.known().is_none() {
        facts.nvme = printed.nvme;
    }
    // ibv_devinfo prints no PCI addresses.
    let is_placed = match facts.rdma.known() {
        Some(nics) => nics.is_empty() || nics.iter().any(|nic| nic.place.known().is_some()),
        None => false,
    };
    if !is_placed {
        facts.unnamed_nics = printed.unnamed_nics;
    }
    if facts.listed.is_none() {
        facts.listed = printed.listed;
    }
    if facts.linked_pairs.known().is_none() {
        facts.linked_pairs = printed.linked_pairs;
    }
    facts
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}
