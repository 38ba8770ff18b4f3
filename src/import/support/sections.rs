//! Texts with sections, each a file or a command's output: the log of nvidia-bug-report.sh, where a line of underscores
//! begins a section, and the files of supportconfig, where `#==[ Command ]===#` does.

use super::recording::{MAX_FILE, Recording, absent, is_kept};
use crate::import::ImportError;
use crate::input::Lookahead;
use crate::model::Failure;

const FIRST: &[u8] = b"Start of NVIDIA bug report log file";
const SEPARATOR: &[u8] = b"____________________________________________";

/// A longer line is cut. Lines of lspci are shorter; the flags in /proc/cpuinfo have some thousand bytes.
const LONGEST: usize = 64 << 10;

const EACCES: i32 = 13;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    BugReport,
    Supportconfig,
}

impl Layout {
    fn is_separator(self, line: &[u8]) -> bool {
        match self {
            Self::BugReport => line == SEPARATOR,
            Self::Supportconfig => line.starts_with(b"#==["),
        }
    }
}

/// True for a log of nvidia-bug-report.sh.
pub(super) fn is_bug_report(start: &[u8]) -> bool {
    start.split(|byte| *byte == b'\n').any(|line| line.starts_with(FIRST))
}

/// A section, and its lines so far if they are kept.
enum Section {
    /// After a separator, before the line that names the section.
    Begins,
    File(String, Vec<u8>),
    Command(String, Vec<u8>),
    /// The flag is true if lspci lists all functions.
    Lspci(bool),
    Other,
}

/// Reads the sections of a text into the recording.
pub(super) fn read(
    content: &mut Lookahead<'_>,
    layout: Layout,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    let mut section = Section::Other;
    let mut line = Vec::new();
    while next_line(content, &mut line)? {
        section = match section {
            _ if layout.is_separator(&line) => {
                end(section, true, recording)?;
                Section::Begins
            }
            Section::Begins if line.is_empty() => Section::Begins,
            Section::Begins => begin(&String::from_utf8_lossy(&line), layout, recording)?,
            Section::File(path, body) => Section::File(path, longer(body, &line)),
            Section::Command(command, body) => Section::Command(command, longer(body, &line)),
            Section::Lspci(all) => {
                recording.lspci(&line, false)?;
                Section::Lspci(all)
            }
            Section::Other => {
                single(&String::from_utf8_lossy(&line), recording)?;
                Section::Other
            }
        };
        // Every line of a log counts, so remarks about lspci's output name lines of the log.
        if layout == Layout::BugReport || matches!(section, Section::Lspci(_) | Section::Begins) {
            recording.lspci(b"\n", false)?;
        }
    }
    // The end of a log may be cut; a file in an archive is whole.
    end(section, layout == Layout::Supportconfig, recording)?;
    let directory = match layout {
        Layout::BugReport => "/proc/driver/nvidia/gpus",
        Layout::Supportconfig => "/etc/modprobe.d",
    };
    let names = recording.names_below(directory);
    if names.is_empty() { Ok(()) } else { recording.directory(directory, names) }
}

/// Begins the section that its first line names.
fn begin(line: &str, layout: Layout, recording: &mut Recording) -> Result<Section, ImportError> {
    let (named, gone, denied) = match layout {
        Layout::BugReport => ("*** ", " does not exist", " is not readable"),
        Layout::Supportconfig => ("# ", " - File not found", " - File not readable"),
    };
    let path = line.strip_prefix(named);
    if let Some(path) = path.and_then(|path| path.strip_suffix(gone)) {
        recording.failed(path, absent())?;
        return Ok(Section::Other);
    }
    if let Some(path) = path.and_then(|path| path.strip_suffix(denied)) {
        recording.failed(path, Failure::Errno(EACCES))?;
        return Ok(Section::Other);
    }
    if let Some(path) = path.filter(|path| layout == Layout::BugReport || is_kept(path)) {
        return Ok(Section::File(path.to_owned(), Vec::new()));
    }
    let command = path.unwrap_or(line);
    let mut words = command.split_ascii_whitespace();
    let program = words.next().and_then(|path| path.rsplit('/').next());
    Ok(match program {
        Some("lspci") => {
            let options = words.filter(|word| word.starts_with('-'));
            let mut options = options.flat_map(|option| option.chars().skip(1));
            // The output of -t is a tree.
            Section::Lspci(!options.any(|option| "dst".contains(option)))
        }
        Some("numactl" | "uname" | "lsmod" | "nvidia-smi" | "ibv_devinfo") => {
            Section::Command(command.to_owned(), Vec::new())
        }
        _ => {
            single(line, recording)?;
            Section::Other
        }
    })
}

/// Reads a line that is complete by itself.
fn single(line: &str, recording: &mut Recording) -> Result<(), ImportError> {
    if let Some(uname) = line.strip_prefix("uname: ") {
        return recording.uname(uname);
    }
    recording.kernel_line(line);
    match line.split_once([':', '=']) {
        Some((path, value)) if path.starts_with("/sys/module/") && !path.contains(' ') => {
            recording.file(path, value.as_bytes().to_vec())
        }
        _ => Ok(()),
    }
}

/// Ends a section. `whole` means that another one follows.
fn end(section: Section, whole: bool, recording: &mut Recording) -> Result<(), ImportError> {
    match section {
        Section::File(path, body) if body.len() > MAX_FILE => {
            recording.failed(&path, Failure::TooLarge)
        }
        // In a log that was cut, the last file may be cut too.
        Section::File(path, body) if whole => recording.file(&path, without_state(body)),
        Section::Command(command, body) if whole => {
            recording.command(&command, &String::from_utf8_lossy(&body))
        }
        Section::Lspci(all) => recording.lspci(b"", whole && all),
        _ => Ok(()),
    }
}

/// The lines of a file, without the line of ls and the empty line that the script adds.
fn without_state(mut body: Vec<u8>) -> Vec<u8> {
    if body.ends_with(b"\n\n") {
        body.pop();
    }
    if body.starts_with(b"*** ls:") {
        let line = body.iter().position(|byte| *byte == b'\n');
        body.drain(..=line.unwrap_or(body.len() - 1));
    }
    body
}

fn longer(mut body: Vec<u8>, line: &[u8]) -> Vec<u8> {
    // One byte more than the limit means that it was exceeded.
    if body.len() <= MAX_FILE {
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    body
}

/// Reads a line without its end; false at the end of the content.
fn next_line(content: &mut Lookahead<'_>, line: &mut Vec<u8>) -> Result<bool, ImportError> {
    line.clear();
    let mut any = false;
    loop {
        let buffered = content.buffered()?;
        if buffered.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let part = &buffered[..end.unwrap_or(buffered.len())];
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let count = part.len() + usize::from(end.is_some());
        content.consume(count);
        if end.is_some() {
            if line.ends_with(b"\r") {
                line.pop();
            }
            return Ok(true);
        }
    }
}
