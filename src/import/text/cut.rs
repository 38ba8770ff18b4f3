//! Cuts a text into sections, and cleans pasted lines: quote marks, colours, indentation, prompts, fences.

use std::collections::BTreeMap;

use super::KINDS;

/// Longer lines are cut.
const LONGEST: usize = 64 << 10;

/// Limit of sections.
const MAX_SECTIONS: usize = 4096;

#[derive(Default)]
pub struct Cut {
    /// The number of the kind, and the section's text.
    pub sections: Vec<(usize, String)>,
    /// Content of files that a command line names: `cat /etc/modprobe.d/nvidia.conf`.
    pub files: BTreeMap<String, String>,
    /// The text with empty lines in place of all sections but lspci's.
    pub lspci: Vec<u8>,
}

/// What the current lines belong to.
enum Part {
    /// Text that no program is known to print, or lspci's.
    Open,
    Section(usize, String),
    File(String, String),
}

pub fn cut(bytes: &[u8]) -> Cut {
    let mut cut = Cut::default();
    let mut part = Part::Open;
    let mut list = Vec::with_capacity(bytes.len());
    for raw in bytes.split(|byte| *byte == b'\n') {
        let line = clean(&raw[..raw.len().min(LONGEST)]);
        let words = line.trim();
        let command = command(words);
        part = match (command, part) {
            (Some(command), part) => {
                cut.end(part);
                match (printed_file(command), p2p_status(command)) {
                    (Some(path), _) => Part::File(path.to_owned(), String::new()),
                    (None, Some((kind, line))) => Part::Section(kind, line),
                    (None, None) => Part::Open,
                }
            }
            (None, Part::File(path, lines))
                if kind(words).is_none_or(|kind| KINDS[kind].name.starts_with('/')) =>
            {
                Part::File(path, longer(lines, &line))
            }
            (None, part) => match (kind(words), part) {
                (Some(new), Part::Section(old, lines)) if new == old => {
                    Part::Section(old, longer(lines, &line))
                }
                (Some(0), part) => {
                    cut.end(part);
                    Part::Open
                }
                (Some(new), part) => {
                    cut.end(part);
                    Part::Section(new, longer(String::new(), &line))
                }
                (None, Part::Section(old, lines)) => Part::Section(old, longer(lines, &line)),
                (None, part) => part,
            },
        };
        if matches!(part, Part::Open) {
            list.extend_from_slice(raw);
        }
        list.push(b'\n');
    }
    cut.end(part);
    list.pop();
    cut.lspci = list;
    cut
}

fn longer(mut lines: String, line: &str) -> String {
    lines.push_str(line);
    lines.push('\n');
    lines
}

/// The command line of a peer-to-peer matrix names the capability; the matrix itself does not.
fn p2p_status(command: &str) -> Option<(usize, String)> {
    let (_, options) = command.split_once("topo -p2p")?;
    let kind = KINDS.iter().position(|kind| kind.name == "nvidia-smi topo -m")?;
    Some((kind, format!("topo -p2p {}\n", options.trim())))
}

/// The first XML of hwloc or NCCL between other words, without quote marks, and the text with empty lines in its place.
pub fn embedded(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    const ROOTS: [(&[u8], &str); 2] =
        [(b"<system version", "</system>"), (b"<topology", "</topology>")];
    let has = |root: &[u8]| bytes.windows(root.len()).any(|window| window == root);
    let (root, end) = ROOTS.into_iter().find(|(root, _)| has(root))?;
    let root = String::from_utf8_lossy(root);
    let (mut xml, mut rest) = (Vec::new(), Vec::with_capacity(bytes.len()));
    let (mut inside, mut ended) = (false, false);
    for raw in bytes.split(|byte| *byte == b'\n') {
        // Lines of hwloc's distances may be longer than those that are cut.
        let line = if ended { String::new() } else { clean(raw) };
        inside |= !ended && line.trim_start().starts_with(root.as_ref());
        if inside {
            xml.extend_from_slice(line.as_bytes());
            xml.push(b'\n');
            (inside, ended) = if line.contains(end) { (false, true) } else { (true, false) };
        } else {
            rest.extend_from_slice(raw);
        }
        rest.push(b'\n');
    }
    ended.then_some((xml, rest))
}

/// The kind that a line begins.
fn kind(line: &str) -> Option<usize> {
    if line.is_empty() { None } else { KINDS.iter().position(|kind| (kind.begins)(line)) }
}

impl Cut {
    fn end(&mut self, part: Part) {
        match part {
            Part::Section(kind, lines) if self.sections.len() < MAX_SECTIONS => {
                self.sections.push((kind, flush_left(lines.trim_end())));
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
fn clean(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
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
            '\u{feff}' | '\r' => {}
            c => out.push(c),
        }
    }
    let mut rest = out.as_str();
    while let Some(quoted) = rest.trim_start_matches(' ').strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    rest.trim_end().to_owned()
}

/// The command after a prompt or a trace mark; empty for a fence.
fn command(line: &str) -> Option<&str> {
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
    let end = line.find(['$', '#'])?;
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
    const PROGRAMS: [&str; 30] = [
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
        "nvcc",
        "lstopo",
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
