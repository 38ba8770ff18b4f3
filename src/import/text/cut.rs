//! Cuts a text into sections, and cleans pasted lines: quote marks, colours, indentation, prompts, fences.

use std::collections::BTreeMap;

use memchr::{memchr2, memmem};

use super::headings::{self, Frame};
use super::machines::{self, Machines};
use super::{KINDS, Starts, begun, cluster, nic_tools, query, section};
use crate::import::{find, lspci, matrix};

/// Longer lines are cut.
const LONGEST: usize = 64 << 10;

/// Limit of sections.
const MAX_SECTIONS: usize = 4096;

#[derive(Default)]
pub struct Cut {
    pub sections: Vec<Section>,
    /// Content of files that a command line names: `cat /etc/modprobe.d/nvidia.conf`.
    pub files: BTreeMap<String, String>,
    /// The text with empty lines in place of all sections but lspci's.
    pub lspci: Vec<u8>,
    pub machines: Machines,
    /// The machines of which headings say only what they are: `Server:`, `Client:`.
    pub roles: Machines,
}

/// Output of one program.
pub struct Section {
    /// The number of the kind.
    pub kind: usize,
    pub text: String,
    /// The number of its first line.
    pub line: usize,
    /// A line of the text began it, not the command line above.
    begun: bool,
}

/// What the current lines belong to.
enum Part {
    /// Text that no program is known to print, or lspci's.
    Open,
    Section(Section),
    File(String, String),
}

/// `of_file` are the lines of the file, if the text has others. `prefix` stands before the lines of the text.
pub fn cut(bytes: &[u8], of_file: &[usize], prefix: Option<&str>) -> Cut {
    let mut cut = Cut::default();
    let mut part = Part::Open;
    let mut of_machine = Named::default();
    let mut list = Vec::with_capacity(bytes.len());
    for (at, raw) in find::lines(bytes).enumerate() {
        let number = of_file.get(at).copied().unwrap_or(at + 1);
        let mut line = clean(&raw[..raw.len().min(LONGEST)]);
        if let Some(first) = behind_fence(&line) {
            cut.end(std::mem::replace(&mut part, Part::Open));
            line = first.to_owned();
        }
        let mut kept = raw;
        let behind = prefix.and_then(|name| machines::without(&line, name)).map(str::to_owned);
        if let Some(rest) = behind {
            kept = raw.strip_suffix(b"\r").unwrap_or(raw);
            kept = &kept[kept.len().saturating_sub(rest.len())..];
            line = rest;
        }
        let words = line.trim();
        // Most lines of `lspci -xxxx` are bytes, and mean nothing elsewhere.
        let is_bytes = lspci::is_bytes(words);
        let command = if is_bytes { None } else { command(words) };
        let is_open = !matches!(part, Part::Section(_));
        of_machine.next(&line, command, is_open);
        let kind = match command {
            None if !is_bytes => begun(words)
                .filter(|kind| !is_within(*kind, &part))
                .or_else(|| continued(words, &part)),
            _ => None,
        };
        part = match (command, part) {
            (Some(command), part) => {
                cut.end(part);
                match (printed_file(command), named(command)) {
                    (Some(path), _) => Part::File(path.to_owned(), String::new()),
                    (None, Some((kind, line))) => {
                        Part::Section(Section { kind, text: line, line: number, begun: false })
                    }
                    (None, None) => Part::Open,
                }
            }
            (None, Part::File(path, lines))
                if kind.is_none_or(|kind| KINDS[kind].name.starts_with('/')) =>
            {
                Part::File(path, longer(lines, &line))
            }
            (None, part) => cut.next(part, kind, &line, number),
        };
        if kind.is_some_and(|kind| !LAUNCHED.contains(&KINDS[kind].name)) {
            of_machine.machine.iter().for_each(|name| cut.machines.shows(name, number));
            of_machine.role.iter().for_each(|name| cut.roles.shows(name, number));
        }
        if matches!(part, Part::Open) {
            list.extend_from_slice(kept);
        }
        list.push(b'\n');
    }
    cut.end(part);
    list.pop();
    cut.lspci = list;
    cut
}

/// The first line of an output that stands behind its fence.
fn behind_fence(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("```")?.trim_start();
    begun(rest).filter(|kind| *kind > 0).map(|_| rest)
}

/// Kinds that a program on one machine prints of others.
const LAUNCHED: [&str; 3] =
    ["NCCL's log (NCCL_DEBUG=INFO)", "NCCL_GRAPH_DUMP_FILE", "kubectl describe node"];

/// The machine whose output follows, by what stands above.
#[derive(Default)]
pub struct Named {
    pub machine: Option<String>,
    pub role: Option<String>,
    frame: Frame,
    /// A command prints the name on the next line.
    is_next: bool,
}

impl Named {
    /// Reads a line, which is a command line or not. `is_open` is false within an output.
    pub fn next(&mut self, line: &str, command: Option<&str>, is_open: bool) {
        let words = line.trim();
        if let Some(command) = command {
            let prompt = || words.strip_suffix(command).filter(|_| !words.starts_with("```"));
            let name = headings::of_command(command).or_else(|| {
                machines::of_prompt(prompt()?.trim_end().trim_end_matches(['$', '#']).trim_end())
            });
            self.machine = name.or(self.machine.take());
            self.is_next = headings::prints_name(command);
            return;
        }
        if std::mem::take(&mut self.is_next) && !words.contains(' ') {
            self.machine = machines::machine(words).or(self.machine.take());
            return;
        }
        let framed = self.frame.next(words);
        self.machine = framed.or(self.machine.take());
        // Most lines end here.
        if !headings::may_be_one(words) {
            return;
        }
        // Within an output, as between two of the same program, people write a mark or begin a line.
        let has_mark = words.starts_with(['#', '*', '=', '-', '<']) || words.ends_with(">>");
        let is_line = words.ends_with(':') && !line.starts_with([' ', '\t']);
        if is_open || has_mark || is_line {
            self.role = headings::role(words).or(self.role.take());
            self.machine = headings::of_heading(words).or(self.machine.take());
        }
    }
}

impl Section {
    fn longer(self, line: &str) -> Self {
        Self { text: longer(self.text, line), ..self }
    }
}

fn longer(mut lines: String, line: &str) -> String {
    lines.push_str(line);
    lines.push('\n');
    lines
}

/// What a command line says that its output does not: the capability of a peer-to-peer matrix, the device of mlxlink.
fn named(command: &str) -> Option<(usize, String)> {
    let of = |name: &str| KINDS.iter().position(|kind| kind.name == name);
    if let Some((_, options)) = command.split_once("topo -p2p") {
        return Some((of("nvidia-smi topo -m")?, format!("topo -p2p {}\n", options.trim())));
    }
    let mut words = command.split_ascii_whitespace();
    let program = words.find(|word| word.ends_with("mlxlink") || word.ends_with("flint"))?;
    words.find(|word| *word == "-d")?;
    let name = if program.ends_with("flint") { "flint query" } else { "mlxlink" };
    Some((of(name)?, format!("{name} -d {}\n", words.next()?)))
}

/// The first XML of hwloc or NCCL between other words, without quote marks, and the text with empty lines in its place.
pub fn embedded(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    const ROOTS: [(&[u8], &str); 2] =
        [(b"<system version", "</system>"), (b"<topology", "</topology>")];
    let (root, end) = ROOTS.into_iter().find(|(root, _)| memmem::find(bytes, root).is_some())?;
    let root = String::from_utf8_lossy(root);
    let is_nccl = end == "</system>";
    let (mut xml, mut rest) = (Vec::new(), Vec::with_capacity(bytes.len()));
    let (mut inside, mut ended) = (false, false);
    for raw in find::lines(bytes) {
        // Lines of hwloc's distances may be longer than those that are cut.
        let line = if ended { String::new() } else { clean(raw) };
        inside |= !ended && line.trim_start().starts_with(root.as_ref());
        if inside && is_nccl && !matches!(line.trim_start().bytes().next(), None | Some(b'<')) {
            (inside, ended) = (false, true);
        }
        if inside {
            xml.extend_from_slice(line.as_bytes());
            xml.push(b'\n');
            (inside, ended) = if line.contains(end) { (false, true) } else { (true, false) };
        } else {
            rest.extend_from_slice(raw);
        }
        rest.push(b'\n');
    }
    if is_nccl && !String::from_utf8_lossy(&xml).contains(end) {
        xml = closed(&xml);
        ended = true;
    }
    ended.then_some((xml, rest))
}

/// The elements of a topology that was cut, with their ends. NCCL writes an element per line. A GPU that was cut may have more NVLinks, so
/// it is left out: then those of no pair are known.
fn closed(xml: &[u8]) -> Vec<u8> {
    let (mut text, mut open, mut gpu) = (String::new(), Vec::new(), 0);
    let xml = String::from_utf8_lossy(xml);
    for line in xml.lines() {
        let Some(element) = line.trim().strip_prefix('<').and_then(|line| line.strip_suffix('>'))
        else {
            continue;
        };
        if element.starts_with('/') {
            open.pop();
        } else if !element.ends_with('/') {
            open.push(element.split(' ').next().unwrap_or_default());
            gpu = if open.last() == Some(&"gpu") { text.len() } else { gpu };
        }
        text.push_str(line);
        text.push('\n');
    }
    if open.pop_if(|name| *name == "gpu").is_some() {
        text.truncate(gpu);
    }
    let ends: String = open.iter().rev().map(|name| format!("</{name}>\n")).collect();
    (text + &ends).into_bytes()
}

/// True for a line of `nvidia-smi -q` that would begin a part of it.
fn is_within(kind: usize, part: &Part) -> bool {
    const WHOLE: [&str; 2] = ["nvidia-smi -q", "nvidia-smi -q -x"];
    let is_whole =
        matches!(part, Part::Section(section) if WHOLE.contains(&KINDS[section.kind].name));
    is_whole && KINDS[kind].name == section::SECTION.name
}

/// The kind of a line that stands within an output, where the text lacks its beginning.
fn continued(line: &str, part: &Part) -> Option<usize> {
    let within =
        |name: &str| matches!(part, Part::Section(section) if KINDS[section.kind].name == name);
    let name = if matrix::is_row(line) || matrix::is_legend(line) {
        "nvidia-smi topo -m"
    } else if query::is_part(line) {
        "nvidia-smi -q"
    } else if query::is_row(line) {
        "nvidia-smi"
    } else if query::is_values(line) {
        "nvidia-smi --query-gpu=… --format=csv"
    } else if nic_tools::is_setting(line) {
        nic_tools::MLXCONFIG.name
    } else if cluster::is_part(line) {
        cluster::KUBECTL.name
    } else {
        return None;
    };
    if within(name) { None } else { KINDS.iter().position(|kind| kind.name == name) }
}

impl Cut {
    /// The part that a line of text belongs to, which begins a kind or none.
    fn next(&mut self, part: Part, kind: Option<usize>, line: &str, number: usize) -> Part {
        match (kind, part) {
            (Some(0), part) => {
                self.end(part);
                Part::Open
            }
            (Some(new), Part::Section(section))
                if new == section.kind && (KINDS[new].starts == Starts::Line || !section.begun) =>
            {
                Part::Section(Section { begun: true, ..section.longer(line) })
            }
            (Some(new), part) => {
                self.end(part);
                let section = Section { kind: new, text: String::new(), line: number, begun: true };
                Part::Section(section.longer(line))
            }
            (None, Part::Section(section)) => Part::Section(section.longer(line)),
            (None, part) => part,
        }
    }

    fn end(&mut self, part: Part) {
        match part {
            Part::Section(section) if self.sections.len() < MAX_SECTIONS => {
                let text = flush_left(section.text.trim_end());
                self.sections.push(Section { text, ..section });
            }
            Part::File(path, lines) => {
                let text = flush_left(&lines);
                let text = text.trim_matches('\n');
                if !text.is_empty() {
                    self.files.entry(path).or_insert_with(|| format!("{text}\n"));
                }
            }
            _ => {}
        }
    }
}

/// The lines without their common indentation. A head of a table may stand further left or right than its rows.
fn flush_left(lines: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let common = lines.lines().filter(|line| !line.trim().is_empty()).map(indent).min();
    let mut text = String::with_capacity(lines.len());
    for line in lines.lines() {
        text.push_str(line.get(common.unwrap_or(0)..).unwrap_or_default());
        text.push('\n');
    }
    text
}

/// A line without escape sequences, quote marks and the carriage return.
pub fn clean(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let end = raw.len() - usize::from(raw.ends_with(b"\r"));
    let is_clean = raw.is_ascii() && memchr2(b'\x1b', b'\r', &raw[..end]).is_none();
    let out = if is_clean { text } else { undone(&text).into() };
    let mut rest = out.as_ref();
    while let Some(quoted) = rest.trim_start_matches(' ').strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    rest.trim_end().to_owned()
}

/// A text without escape sequences and carriage returns.
fn undone(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next() == Some('[') {
                    chars.by_ref().find(|c| ('@'..='~').contains(c));
                }
                // An underlined head has no blank before its first word.
                out.push(' ');
            }
            '\u{a0}' => out.push(' '),
            // Borders of nvitop.
            '│' | '┃' | '║' => out.push('|'),
            '\u{feff}' | '\r' => {}
            c => out.push(c),
        }
    }
    out
}

/// The command after a prompt or a trace mark; empty for a fence.
pub fn command(line: &str) -> Option<&str> {
    if line.starts_with("```") || line.starts_with("~~~") {
        return Some("");
    }
    if line.len() > 512 {
        return None;
    }
    let after = |mark: &str| line.strip_prefix(mark).filter(|command| is_program(command));
    if let Some(command) = ["$ ", "# ", "+ ", "% "].into_iter().find_map(after) {
        return Some(command.trim());
    }
    // tail and head print `==> FILE <==`.
    if let Some(path) = line.strip_prefix("==> ").and_then(|line| line.strip_suffix(" <==")) {
        return Some(path);
    }
    // `user@host:~$ command`, `[root@host ~]# command`, `root@host:/# command`.
    let end = memchr2(b'$', b'#', line.as_bytes())?;
    let (prompt, command) = line.split_at(end);
    let command = &command[1..];
    let is_prompt = (prompt.contains('@') || prompt.starts_with('[') || prompt.starts_with('('))
        && prompt.len() < 120
        && !prompt.contains(['=', '|', '"'])
        && (command.is_empty() || command.starts_with(' '));
    is_prompt.then_some(command.trim())
}

/// Programs that a bare mark stands before: a comment may begin with the same mark.
fn is_program(command: &str) -> bool {
    const PROGRAMS: [&str; 43] = [
        "sudo",
        "cat",
        "nvidia-smi",
        "lspci",
        "ibstat",
        "ibstatus",
        "ibv_devinfo",
        "ibdev2netdev",
        "show_gids",
        "rdma",
        "ip",
        "ethtool",
        "dmesg",
        "journalctl",
        "lsmod",
        "modinfo",
        "uname",
        "numactl",
        "lscpu",
        "ulimit",
        "env",
        "grep",
        "ls",
        "free",
        "df",
        "echo",
        "mst",
        "mlxconfig",
        "mlxlink",
        "docker",
        "dcgmi",
        "nvcc",
        "lstopo",
        "lshw",
        "inxi",
        "hwinfo",
        "ibv_devices",
        "vulkaninfo",
        "gpustat",
        "kubectl",
        "python",
        "ssh",
        "hostname",
    ];
    let program = command.split_ascii_whitespace().next().unwrap_or_default();
    PROGRAMS.contains(&program.rsplit('/').next().unwrap_or_default())
}

/// The file that a command prints whole: `cat FILE`, or the file itself above its content.
fn printed_file(command: &str) -> Option<&str> {
    let mut words = command.split_ascii_whitespace().filter(|word| *word != "sudo");
    let first = words.next()?;
    let path = if first == "cat" { words.next()? } else { first };
    (path.starts_with('/') && !path.contains(['*', '?']) && words.next().is_none()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// [`cut`] takes such a line for nothing else, without trying.
        #[test]
        fn bytes_of_a_function_begin_nothing(
            offset in 0_usize..0x1000,
            bytes in proptest::collection::vec(any::<u8>(), 1..=16),
        ) {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("{offset:02x}: {}", bytes.join(" "));
            prop_assert!(lspci::is_bytes(&line), "{line}");
            prop_assert_eq!(begun(&line), None);
            prop_assert_eq!(continued(&line, &Part::Open), None);
            prop_assert_eq!(command(&line), None);
        }
    }
}
