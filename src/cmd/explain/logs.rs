//! Several logs of one job, read one after the other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::{Searched, stream};
use crate::cmd::{document, remark};
use crate::explain::{self, MAX_BYTES, Matcher, Setting};
use crate::job::JobReader;
use crate::model::{ExplainReport, Quote};

/// Limit of the logs of a job.
const MAX_LOGS: usize = 8_192;

/// Limit of the levels of a directory: torchrun makes one for each run, attempt and rank.
const MAX_DEPTH: usize = 6;

/// The logs in the order of their lines.
#[derive(Debug, Default)]
pub struct Logs {
    starts: Vec<Start>,
}

/// The start of a log. Lines are numbered over all logs.
#[derive(Debug)]
struct Start {
    name: String,
    /// First line as the job's reader counts.
    job: u64,
    /// First line as the matcher counts, which ends lines at carriage returns too.
    text: u64,
}

impl Logs {
    /// Names the log of each line of a report.
    pub fn locate(&self, report: &mut ExplainReport) {
        if self.starts.is_empty() {
            return;
        }
        let matches = report.matches.iter_mut().chain(&mut report.questions);
        let lines = matches.map(|found| &mut found.line);
        lines
            .chain(report.uncovered.iter_mut().map(|failure| &mut failure.line))
            .for_each(|line| self.quote(line, |start| start.text));
        if let Some(job) = &mut report.job {
            (job.lost.iter_mut().filter_map(|loss| loss.line.as_mut()))
                .chain(job.failures.iter_mut().map(|failure| &mut failure.line))
                .for_each(|line| self.quote(line, |start| start.job));
        }
    }

    /// Where a variable is set.
    pub fn place(&self, setting: &Setting) -> String {
        let mut quote = Quote { number: setting.line, text: String::new(), file: None };
        self.quote(&mut quote, |start| start.text);
        match quote.file {
            None => format!("{} of the text", quote.place()),
            Some(_) => quote.place(),
        }
    }

    fn quote(&self, quote: &mut Quote, first: impl Fn(&Start) -> u64) {
        let after = self.starts.partition_point(|start| first(start) <= quote.number);
        if let Some(start) = after.checked_sub(1).and_then(|at| self.starts.get(at)) {
            quote.number -= first(start) - 1;
            quote.file = Some(start.name.clone());
        }
    }
}

/// The files that the arguments name. A message is not a file.
pub fn named<'a>(words: impl Iterator<Item = &'a OsString>) -> anyhow::Result<Vec<PathBuf>> {
    let files: Vec<PathBuf> = words.map(PathBuf::from).collect();
    if let Some(other) = files.iter().find(|file| !file.is_file() && !is_stream(file)) {
        let other = other.to_string_lossy();
        bail!(
            "'{other}' is not a file: several arguments are the logs of one job. Put a message in quotes; --job reads a \
             directory of logs"
        );
    }
    Ok(files)
}

/// A pipe that a shell made of a command.
fn is_stream(file: &Path) -> bool {
    file.exists() && !file.is_dir()
}

/// The files below a directory, in the order of their names. Hidden files and links to directories are left out.
pub fn of_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let shown = directory.to_string_lossy();
    collect(directory, 0, &mut files).with_context(|| format!("cannot read '{shown}'"))?;
    if files.is_empty() {
        bail!("'{shown}' has no files");
    }
    if files.len() > MAX_LOGS {
        bail!("'{shown}' has more than {MAX_LOGS} files, the most that gdr reads");
    }
    Ok(files)
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        match entry.file_type()? {
            kind if kind.is_dir() && depth < MAX_DEPTH => collect(&path, depth + 1, files)?,
            // A pipe would wait for a writer.
            _ if path.is_file() => files.push(path),
            _ => {}
        }
        if files.len() > MAX_LOGS {
            break;
        }
    }
    Ok(())
}

/// Searches the logs for symptoms and for one job. In a directory a file that cannot be read is left out.
pub fn read(
    files: &[PathBuf],
    is_directory: bool,
    err: &mut dyn Write,
) -> anyhow::Result<(Searched, Logs)> {
    let mut text = Vec::new();
    let mut job = JobReader::default();
    let mut logs = Logs::default();
    let mut known = BTreeSet::new();
    let mut lines = 0;
    for file in files {
        // A log that is named twice is one.
        let identity = fs::metadata(file).map(|of| (of.dev(), of.ino()));
        if identity.is_ok_and(|identity| !known.insert(identity)) {
            continue;
        }
        let name = file.to_string_lossy().into_owned();
        logs.starts.push(Start { name: name.clone(), job: job.next_line(), text: lines + 1 });
        let begin = text.len();
        let read = document::open(file, |content| {
            let room = MAX_BYTES - text.len() as u64;
            let start = content.by_ref().take(room).read_to_end(&mut text);
            job.feed(&text[begin..]);
            start?;
            Ok(stream::read_rest(content, &mut job)?)
        });
        job.next_log();
        if text.last().is_some_and(|last| *last != b'\n') && (text.len() as u64) < MAX_BYTES {
            text.push(b'\n');
        }
        lines += explain::count_lines(&text[begin..]);
        match read {
            Ok(()) => {}
            Err(error) if is_directory => remark(err, &format!("{name} is left out: {error:#}")),
            Err(error) => return Err(error.context(format!("cannot read '{name}'"))),
        }
    }
    let mut reading = Matcher::new(explain::shipped()?)?.read(text.as_slice())?;
    let cut = text.len() as u64 == MAX_BYTES;
    let job = super::job_of(job, &mut reading);
    Ok((Searched { reading, job, cut, is_report: false }, logs))
}
