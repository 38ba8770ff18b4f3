//! Builds a recorded machine from the files and command output of a report.

use std::ops::Bound;

use super::{SupportReport, counted, devinfo, smi};
use crate::import::ImportError;
use crate::import::limits::FUNCTIONS;
use crate::import::matrix;
use crate::model::limited::MAX_GPUS;
use crate::model::{
    Bdf, Fact, Failure, FileKind, FileState, Hex, Ids, ListedGpu, Note, NvmlOutcome, NvmlPair,
    P2pCapability, P2pStatus, Question, Recorded,
};

/// Limit of the files and output kept of a report.
const MOST: usize = 64 << 20;

/// Memory of a path besides its text.
const PER_PATH: usize = 512;

/// Limit of a file: collectors read no larger ones.
pub(super) const MAX_FILE: usize = 1 << 20;

/// Longer ones are of other programs.
const LONGEST_VARIABLE: usize = 4096;

/// The beginnings of paths that collectors read. Processes are left out: the checks are about the user's processes,
/// and a report describes its own.
const KEPT: [&str; 36] = [
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/loader/",
    "/etc/default/grub",
    "/etc/kernel/cmdline",
    "/etc/modprobe.d",
    "/etc/modules",
    "/etc/os-release",
    "/etc/security/limits",
    "/etc/systemd/system.conf",
    "/lib/modprobe.d",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/max_map_count",
    "/run/modprobe.d",
    "/sys/bus/pci/",
    "/sys/class/dmi",
    "/sys/class/infiniband",
    "/sys/class/iommu",
    "/sys/class/nvme",
    "/sys/devices/pci",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node",
    "/sys/devices/virtual/dmi/id/",
    "/sys/hypervisor/type",
    "/sys/kernel/iommu_groups",
    "/sys/kernel/mm/memory_peers",
    "/sys/kernel/security/lockdown",
    "/usr/lib/modprobe.d",
    "/usr/lib/os-release",
];

/// Beginnings of the names of modules whose directories collectors read.
const MODULES: &str = "/sys/module/";
const MODULE_NAMES: [&str; 5] = ["nvidia", "nv_peer_mem", "gdrdrv", "mlx5_core", "ib_core"];

/// Modules that are never part of the kernel image: if /proc/modules does not list them, they are not loaded.
const OUT_OF_TREE: [&str; 4] = ["nvidia", "nvidia_peermem", "nv_peer_mem", "gdrdrv"];

/// True if a collector may read the path.
pub(super) fn is_kept(path: &str) -> bool {
    let begins = |begins: &[&str], path: &str| begins.iter().any(|begin| path.starts_with(begin));
    match path.strip_prefix(MODULES) {
        Some(module) => begins(&MODULE_NAMES, module),
        None => begins(&KEPT, path),
    }
}

/// The path without empty and `.` components; `None` if it has `..`, or is longer or deeper than paths of sysfs.
pub(super) fn normal(path: &str) -> Option<String> {
    const LONGEST: usize = 4096;
    const DEEPEST: usize = 64;
    if path.len() > LONGEST {
        return None;
    }
    let mut normal = String::with_capacity(path.len() + 1);
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    for (depth, part) in parts.enumerate() {
        if part == ".." || depth == DEEPEST {
            return None;
        }
        normal.push('/');
        normal.push_str(part);
    }
    Some(normal)
}

#[derive(Debug, Default)]
pub struct Recording {
    report: SupportReport,
    used: usize,
}

impl Recording {
    /// Goes on with a report that was read.
    pub fn of(report: SupportReport) -> Self {
        Self { report, used: 0 }
    }

    /// Reads a line of the kernel's log.
    pub fn kernel_line(&mut self, line: &str) {
        self.report.domain.read(line);
    }

    /// Records a file that a text shows, unless its content is known.
    pub fn pasted_file(&mut self, path: &str, content: String) -> Result<(), ImportError> {
        match normal(path) {
            Some(path) => match self.report.files.get(&path) {
                None => self.file(&path, content.into_bytes()),
                Some(known) => {
                    let known = known.text.as_deref().map(str::trim);
                    if let Some(known) = known.filter(|known| *known != content.trim()) {
                        self.contradiction(&path, known.to_owned(), content.trim());
                    }
                    Ok(())
                }
            },
            None => Ok(()),
        }
    }

    /// Says which of two parts counts. Programs word most files differently; these are the same in all.
    fn contradiction(&mut self, path: &str, known: String, other: &str) {
        const WHOLE: [&str; 4] = [
            "/proc/cmdline",
            "/proc/driver/nvidia/version",
            "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/osrelease",
        ];
        let is_port =
            path.contains("/ports/") && (path.ends_with("/state") || path.ends_with("/link_layer"));
        const MOST: usize = 20;
        if (is_port || WHOLE.contains(&path)) && self.report.notes.len() < MOST {
            let message = format!(
                "two parts of the text differ: '{known}' counts, not '{other}', by the order of kinds in the book \
                 (docs/texts.md); they may be of two machines or times"
            );
            self.note(path, message);
        }
    }

    /// Adds output of nvidia-smi.
    pub fn smi(&mut self, output: &str) -> Result<(), ImportError> {
        self.take(output.len())?;
        self.report.pasted = true;
        self.report.smi.push_str(output);
        self.report.smi.push('\n');
        Ok(())
    }

    /// Adds a matrix of `nvidia-smi topo -m`.
    pub fn matrix(&mut self, text: &str) -> Result<(), ImportError> {
        self.take(text.len())?;
        self.report.matrices.push_str(text);
        self.report.matrices.push('\n');
        Ok(())
    }

    /// True if a text shows a matrix of `nvidia-smi topo -m`.
    pub fn has_matrix(&self) -> bool {
        matrix::listed(&self.report.matrices).is_some()
    }

    /// True if a text shows GPUs, with or without their addresses.
    pub fn shows_gpus(&self) -> bool {
        let report = &self.report;
        let is_gpu = |ids: &Ids| ids.is_nvidia_gpu();
        !report.listed.is_empty()
            || !report.smi.is_empty()
            || !report.matrices.is_empty()
            || report.functions.values().any(is_gpu)
    }

    /// Adds GPUs that are listed without their addresses. What is known of them stays.
    pub fn listed(&mut self, gpus: Vec<ListedGpu>) {
        for (at, gpu) in gpus.into_iter().take(MAX_GPUS).enumerate() {
            match self.report.listed.get_mut(at) {
                Some(known) => {
                    known.model = known.model.take().or(gpu.model);
                    known.uuid = known.uuid.take().or(gpu.uuid);
                }
                None => self.report.listed.push(gpu),
            }
        }
    }

    /// Adds a PCI function that the text names, and its numbers as far as the text has them.
    pub fn function(&mut self, bdf: Bdf, ids: Ids) {
        let functions = &mut self.report.functions;
        if functions.len() < FUNCTIONS || functions.contains_key(&bdf) {
            let known = functions.entry(bdf).or_insert(ids);
            if known.device.is_none() {
                *known = ids;
            }
        }
    }

    /// Adds a PCI function that another program than lspci lists, as lspci prints it. What is known of it stays.
    pub fn inventory(&mut self, bdf: Bdf, line: String) {
        let functions = &mut self.report.inventory;
        if functions.len() < FUNCTIONS || functions.contains_key(&bdf) {
            functions.entry(bdf).or_insert(line);
        }
    }

    /// Adds the function of a network controller whose numbers the text does not show.
    pub fn controller(&mut self, bdf: Bdf, has_infiniband: bool) {
        let controllers = &mut self.report.controllers;
        if controllers.len() < FUNCTIONS || controllers.contains_key(&bdf) {
            *controllers.entry(bdf).or_default() |= has_infiniband;
        }
    }

    /// Adds the NUMA node of a function that the text names.
    pub fn function_node(&mut self, bdf: Bdf, node: u32) {
        if self.report.functions.contains_key(&bdf) || self.report.controllers.contains_key(&bdf) {
            self.report.nodes.entry(bdf).or_insert(node);
        }
    }

    /// Adds a remark.
    pub fn note(&mut self, source: &str, message: String) {
        self.report.notes.push(Note { source: source.to_owned(), message });
    }

    /// Adds the peer-to-peer status of pairs of GPUs, by their indexes.
    pub fn p2p(&mut self, capability: P2pCapability, pairs: Vec<(u32, u32, P2pStatus)>) {
        for (from, to, status) in pairs {
            let known = self.report.p2p.entry((from, to)).or_default();
            known.entry(capability).or_insert(Fact::Known(status));
        }
    }

    /// Records that a module is loaded. Others may be loaded too.
    pub fn module(&mut self, name: &str) -> Result<(), ImportError> {
        let path = format!("{MODULES}{name}");
        if !is_kept(&path) || normal(&path).as_deref() != Some(path.as_str()) {
            return Ok(());
        }
        self.take(PER_PATH + path.len())?;
        let recorded = self.report.files.entry(path).or_default();
        recorded.state.get_or_insert(state(FileKind::Directory));
        Ok(())
    }

    /// Records limits of locked memory in bytes, soft and hard, as the kernel prints them; none is unlimited.
    pub fn memlock(&mut self, soft: Option<u64>, hard: Option<u64>) {
        let word = |limit: Option<u64>| match limit {
            Some(bytes) => bytes.to_string(),
            None => "unlimited".to_owned(),
        };
        let text = format!("Max locked memory         {} {} bytes\n", word(soft), word(hard));
        let recorded = Recorded {
            text: Some(text),
            state: Some(state(FileKind::Regular)),
            ..Recorded::default()
        };
        self.report.files.entry("/proc/self/limits".to_owned()).or_insert(recorded);
    }

    /// Adds a variable of the job's environment. What is known of it stays.
    pub fn variable(&mut self, name: &str, value: &str) {
        const MOST: usize = 1024;
        let variables = &mut self.report.environment;
        if variables.len() < MOST && name.len() + value.len() < LONGEST_VARIABLE {
            variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// Adds RDMA devices; what is known of them stays.
    pub fn class(&mut self, class: devinfo::Class) -> Result<(), ImportError> {
        for (path, text) in class.files {
            self.pasted_file(&path, text)?;
        }
        for (device, bdf) in class.links {
            let link = format!("{device}/device");
            if !self.report.files.contains_key(&link) {
                // Only the end of the target is known, and only it counts.
                self.link(&link, &format!("../../../{bdf}"))?;
                // Only software devices have one.
                let mut parent = Recorded::default();
                parent.errors.insert(Question::State, absent());
                self.report.files.insert(format!("{device}/parent"), parent);
            }
        }
        // Those below come first: a directory may hold nothing but them.
        for path in class.directories.into_iter().rev() {
            let names = self.names_below(&path);
            self.directory(&path, names)?;
        }
        Ok(())
    }

    /// Records a regular file. Paths that no collector reads are ignored.
    pub fn file(&mut self, path: &str, content: Vec<u8>) -> Result<(), ImportError> {
        let Some(path) = normal(path).filter(|path| is_kept(path)) else {
            return Ok(());
        };
        self.take(PER_PATH + path.len() + content.len())?;
        let (text, bytes) = match String::from_utf8(content) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(Hex(error.into_bytes()))),
        };
        let recorded =
            Recorded { text, bytes, state: Some(state(FileKind::Regular)), ..Recorded::default() };
        self.report.files.insert(path, recorded);
        Ok(())
    }

    /// Records that a file was absent or unreadable.
    pub fn failed(&mut self, path: &str, failure: Failure) -> Result<(), ImportError> {
        let Some(path) = normal(path).filter(|path| is_kept(path)) else {
            return Ok(());
        };
        self.take(PER_PATH + path.len())?;
        let absent = failure == absent();
        let mut recorded = Recorded::default();
        recorded.errors.insert(Question::State, failure);
        if absent && let Some((parent, _)) = path.rsplit_once('/') {
            // The directory can be listed, or the file would not be known to be absent.
            let parent = self.report.files.entry(parent.to_owned()).or_default();
            parent.names.get_or_insert_default();
        }
        self.report.files.insert(path, recorded);
        Ok(())
    }

    /// Records a symbolic link. With a merged `/usr`, `/lib` is one.
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), ImportError> {
        const LONGEST: usize = 4096;
        if !(is_kept(path) || path == "/lib") || target.len() > LONGEST {
            return Ok(());
        }
        self.take(PER_PATH + path.len() + target.len())?;
        let recorded = Recorded { link: Some(target.to_owned()), ..Recorded::default() };
        self.report.files.insert(path.to_owned(), recorded);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.report.files.is_empty() && self.report.lspci.is_empty()
    }

    /// Records a directory with all its names, sorted.
    pub fn directory(&mut self, path: &str, names: Vec<String>) -> Result<(), ImportError> {
        let length: usize = names.iter().map(|name| name.len() + 24).sum();
        self.take(PER_PATH + path.len() + length)?;
        let recorded = self.report.files.entry(path.to_owned()).or_default();
        recorded.state = Some(state(FileKind::Directory));
        recorded.names = Some(names);
        Ok(())
    }

    /// Names of the recorded files in a directory, sorted. Visits one path of each name, not all that are below it.
    pub fn names_below(&self, directory: &str) -> Vec<String> {
        let start = format!("{directory}/");
        let mut names: Vec<String> = Vec::new();
        let mut from = Bound::Included(start.clone());
        loop {
            let mut rest = self.report.files.range((from, Bound::Unbounded));
            let Some(rest) = rest.next().and_then(|(path, _)| path.strip_prefix(&start)) else {
                break;
            };
            let (name, is_below) = match rest.split_once('/') {
                Some((name, _)) => (name, true),
                None => (rest, false),
            };
            from = if is_below {
                // What follows all paths that begin with the name and a slash.
                Bound::Included(format!("{start}{name}0"))
            } else {
                Bound::Excluded(format!("{start}{name}"))
            };
            names.push(name.to_owned());
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// True if a file in the directory, or below it, is recorded.
    fn holds(&self, directory: &str) -> bool {
        let start = format!("{directory}/");
        let mut below = self.report.files.range(start.clone()..);
        below.next().is_some_and(|(path, _)| path.starts_with(&start))
    }

    /// Adds output of lspci. `complete` means the whole output, for all functions.
    pub fn lspci(&mut self, output: &[u8], complete: bool) -> Result<(), ImportError> {
        self.take(output.len())?;
        self.report.lspci.extend_from_slice(output);
        self.report.complete |= complete;
        Ok(())
    }

    /// Records the output of a command as the file with the same content.
    pub fn command(&mut self, command: &str, output: &str) -> Result<(), ImportError> {
        let mut words = command.split_ascii_whitespace();
        let program = words.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        match (program, words.next()) {
            ("uname", Some("-a")) => self.uname(output),
            ("nvidia-smi", _) => {
                self.take(output.len())?;
                self.report.smi.push_str(output);
                self.report.smi.push('\n');
                Ok(())
            }
            ("numactl", Some("-H" | "--hardware")) => self.nodes(output),
            ("ibv_devinfo", _) => self.rdma(output),
            ("lsmod", _) => {
                let is_head = |line: &&str| line.starts_with("Module ");
                // A second head begins the output of another run.
                let lines = output.lines().skip_while(is_head).take_while(|line| !is_head(line));
                let modules = lines.filter_map(module).collect::<String>();
                if self.report.files.contains_key("/proc/modules") {
                    Ok(())
                } else {
                    self.file("/proc/modules", modules.into_bytes())
                }
            }
            _ => Ok(()),
        }
    }

    /// `Linux NAME RELEASE #1 SMP …`.
    pub fn uname(&mut self, line: &str) -> Result<(), ImportError> {
        let mut words = line.split_ascii_whitespace().skip(1);
        for path in ["/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease"] {
            if let Some(word) = words.next()
                && !self.report.files.contains_key(path)
            {
                self.file(path, word.as_bytes().to_vec())?;
            }
        }
        Ok(())
    }

    /// `available: 2 nodes (0-1)`, then `node 0 cpus: 0 1 2` of each.
    fn nodes(&mut self, text: &str) -> Result<(), ImportError> {
        const NODES: &str = "/sys/devices/system/node";
        let head = text.lines().find_map(|line| line.strip_prefix("available: "));
        let available = head.and_then(|rest| rest.split(' ').next());
        let nodes: Vec<(&str, String)> = text.lines().filter_map(cpus).collect();
        let is_whole = available.and_then(|count| count.parse().ok()) == Some(nodes.len());
        if !is_whole || self.report.files.contains_key(NODES) {
            return Ok(());
        }
        for (node, cpus) in &nodes {
            let path = format!("{NODES}/node{node}/cpulist");
            self.file(&path, cpus.clone().into_bytes())?;
        }
        self.directory(NODES, self.names_below(NODES))
    }

    /// The RDMA devices in the output of ibv_devinfo.
    fn rdma(&mut self, output: &str) -> Result<(), ImportError> {
        if self.holds(devinfo::CLASS) {
            return Ok(());
        }
        let class = devinfo::class(output);
        for (path, text) in class.files {
            self.file(&path, text.into_bytes())?;
        }
        for path in class.directories.into_iter().rev() {
            self.directory(&path, self.names_below(&path))?;
        }
        Ok(())
    }

    /// The report, with the paths whose absence follows from other files.
    pub fn finish(mut self) -> SupportReport {
        let files = &mut self.report.files;
        let gone = || {
            let mut recorded = Recorded::default();
            recorded.errors.insert(Question::State, absent());
            recorded
        };
        let modules = files.get("/proc/modules");
        if let Some(modules) = modules.and_then(|modules| modules.text.clone()) {
            for name in OUT_OF_TREE {
                let is_loaded = modules.lines().any(|line| line.split(' ').next() == Some(name));
                let path = format!("{MODULES}{name}");
                if is_loaded {
                    files.entry(path).or_default().state = Some(state(FileKind::Directory))
                } else {
                    files.insert(path, gone());
                    let all = files.entry("/sys/module".to_owned()).or_default();
                    all.names.get_or_insert_default();
                }
            }
        }
        // The driver creates both.
        let version = files.get("/proc/driver/nvidia/version");
        let is_absent = |version: &Recorded| version.errors.get(Question::State).is_some();
        if version.is_some_and(is_absent) {
            files.entry("/proc/driver/nvidia/gpus".to_owned()).or_insert_with(gone);
        }
        self.report.nvml = smi::outcome(&self.report.smi, self.report.pasted);
        self.report.gpus = smi::functions(&self.report.smi);
        if self.report.only_texts || self.report.pasted {
            self.two_drivers();
            counted::add(&mut self.report);
        }
        self.report.notes.sort();
        self.report.notes.dedup();
        add_pairs(&mut self.report);
        self.report
    }

    /// Outputs of nvidia-smi with different drivers are of two machines or times.
    fn two_drivers(&mut self) {
        let mut versions = self.report.smi.lines().filter_map(|line| {
            let (key, value) = line.split_once(" : ")?;
            // Newer drivers print a remark behind the version.
            let version = value.split_ascii_whitespace().next()?;
            (key.trim() == "Driver Version").then(|| version.to_owned())
        });
        if let Some(first) = versions.next()
            && let Some(other) = versions.find(|version| *version != first)
        {
            let message = format!(
                "two parts of the text differ: driver {first} counts, not {other}; they may be of two machines or times, whose \
                 GPUs are listed together"
            );
            self.note("nvidia-smi", message);
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), ImportError> {
        self.used += bytes;
        if self.used > MOST {
            Err(ImportError::Malformed(format!(
                "the support report has more than {} MiB of the files that gdr reads; take a snapshot on that machine with \
                 'gdr snapshot -o FILE'",
                MOST >> 20
            )))
        } else {
            Ok(())
        }
    }
}

/// NVML's answers have the peer-to-peer status of pairs by index. It is kept only where the text lists these GPUs.
fn add_pairs(report: &mut SupportReport) {
    if let Some(NvmlOutcome::Read(nvml)) = &mut report.nvml {
        let has = |index: &u32| nvml.gpus.iter().any(|gpu| gpu.index == *index);
        let pairs = report.p2p.iter().filter(|((from, to), _)| has(from) && has(to));
        nvml.pairs = pairs
            .map(|((from, to), p2p)| NvmlPair { from: *from, to: *to, p2p: p2p.clone() })
            .collect();
    }
}

/// `No such file or directory`.
pub(super) fn absent() -> Failure {
    const ENOENT: i32 = 2;
    Failure::Errno(ENOENT)
}

fn state(kind: FileKind) -> FileState {
    FileState { kind, mode: 0o444, device: (0, 0) }
}

/// A line of lsmod as a line of /proc/modules.
fn module(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let (name, size, count) = (words.next()?, words.next()?, words.next()?);
    size.parse::<u64>().ok()?;
    let users = words.next().map_or("-".to_owned(), |users| format!("{users},"));
    Some(format!("{name} {size} {count} {users} Live 0x0\n"))
}

/// The node and the list of its CPUs, from `node 0 cpus: 0 1 2`.
fn cpus(line: &str) -> Option<(&str, String)> {
    let (node, cpus) = line.strip_prefix("node ")?.split_once(" cpus:")?;
    node.parse::<u32>().ok()?;
    let cpus: Vec<&str> = cpus.split_ascii_whitespace().collect();
    Some((node, cpus.join(",")))
}
