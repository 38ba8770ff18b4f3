//! `gdr explain`.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::machine::Machine;
use super::profiles::expectations;
use super::{doctor, document};
use crate::check::{self, Check, Ctx};
use crate::cli::{Explain, ExplainFormat, Global, style};
use crate::explain::{self, MOST_BYTES, Matcher, Reading};
use crate::import;
use crate::input::Lookahead;
use crate::model::Order as _;
use crate::model::{
    EXPLAIN_SCHEMA, ExplainReport, ExplainedCheck, Finding, Outcome, ReadText, Standing,
    SymptomMatch,
};
use crate::output::{self, Document};
use crate::profile::Expectations;
use crate::render;
use crate::topo;

/// Exit status: no known symptom was found.
const NO_MATCH: u8 = 1;

/// Number of checks that are run; later ones are less likely.
const MAX_MATCHES: usize = 12;

/// The input of the command.
enum Request {
    Check(&'static Check),
    Text(String),
    File(OsString),
    Input,
}

/// Explains a check, or the symptoms in a text.
pub fn run(
    global: &Global,
    options: &Explain,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let request = parse(&options.what)?;
    // Report a missing profile before reading a long text.
    let expectations = expectations(&options.profile)?;
    let mut report = ExplainReport {
        asked: name(&request),
        matches: Vec::new(),
        checks: Vec::new(),
        host: None,
        profiles: Vec::new(),
        findings: Vec::new(),
        read: None,
    };
    let code = match &request {
        Request::Check(check) => {
            report.checks = vec![explained(check)];
            0
        }
        text => {
            let Searched {
                reading,
                cut,
                is_report,
            } = read(text, global)?;
            report.read = Some(ReadText {
                lines: reading.lines,
                bytes: reading.bytes,
                cut,
            });
            report.matches = reading.matches;
            if cut {
                super::remark(
                    err,
                    &format!(
                        "{}: only the first {} MiB were read",
                        report.asked,
                        MOST_BYTES >> 20
                    ),
                );
            }
            if !options.no_run && !report.matches.is_empty() {
                let machine = machine(text, is_report, global, err)?;
                inspect(&machine, global, &expectations, &mut report, err);
            }
            match report.matches.is_empty() {
                true => NO_MATCH,
                false => 0,
            }
        }
    };
    let text = match options.format {
        ExplainFormat::Table => render::explain::table(&report, style(global.color)),
        ExplainFormat::Json => {
            let recorded = report
                .host
                .as_ref()
                .and_then(|host| host.recorded.as_deref());
            output::pretty(&Document::of(EXPLAIN_SCHEMA, recorded, &report))?
        }
    };
    super::print(out, &text)?;
    Ok(code)
}

/// Detects the kind of input: standard input, a file, a check, or a message.
fn parse(what: &OsString) -> anyhow::Result<Request> {
    let word = what.to_string_lossy();
    if what == "-" {
        return Ok(Request::Input);
    }
    if Path::new(what).is_dir() {
        bail!("'{word}' is a directory; name a file in it, or put the error line in quotes");
    }
    if Path::new(what).exists() {
        return Ok(Request::File(what.clone()));
    }
    if let Some(check) = check::find(&word) {
        return Ok(Request::Check(check));
    }
    if looks_like_an_id(&word) {
        bail!(
            "there is no check '{word}'{}, and no file of that name; 'gdr doctor --list' lists the checks",
            check::similar(&word)
        );
    }
    if looks_like_a_path(&word) {
        bail!(
            "the file '{word}' does not exist. To explain a message, put the whole line in quotes, or use a pipe: \
             ... | gdr explain -"
        );
    }
    Ok(Request::Text(word.into_owned()))
}

/// `family.name` with a known family.
fn looks_like_an_id(word: &str) -> bool {
    word.split_once('.').is_some_and(|(family, name)| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_family = check::all().any(|check| check.id.split('.').next() == Some(family));
        is_family && !name.is_empty() && name.bytes().all(plain)
    })
}

/// A single word with a slash or with a log file extension.
fn looks_like_a_path(word: &str) -> bool {
    const EXTENSIONS: [&str; 8] = ["log", "txt", "out", "err", "json", "gz", "xz", "zst"];
    let extension = Path::new(word)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    !word.contains(char::is_whitespace) && (word.contains('/') || is_file)
}

fn name(request: &Request) -> String {
    match request {
        Request::Check(_) => "check".to_owned(),
        Request::Text(_) => "text".to_owned(),
        Request::File(file) => format!("file {}", file.to_string_lossy()),
        Request::Input => "standard input".to_owned(),
    }
}

fn explained(check: &Check) -> ExplainedCheck {
    ExplainedCheck {
        id: check.id.to_owned(),
        rule: check.rule.to_owned(),
        why: check.why.to_owned(),
        sources: check.sources.to_owned(),
        remedy: check.remedy.to_owned(),
        severity: check.severity,
        references: check
            .references
            .iter()
            .map(|&reference| reference.to_owned())
            .collect(),
    }
}

#[derive(Default)]
struct Searched {
    reading: Reading,
    /// True if the input has more bytes than were read.
    cut: bool,
    /// True for the report of a machine.
    is_report: bool,
}

/// Searches the input for symptoms; of an archive, its logs.
fn read(request: &Request, global: &Global) -> anyhow::Result<Searched> {
    let matcher = Matcher::new(explain::shipped()?)?;
    let search = |content: &mut Lookahead<'_>| -> anyhow::Result<Searched> {
        let is_report = import::is_support_report(content)?;
        let logs = import::archived_logs(content, MOST_BYTES)?;
        let (reading, more) = match &logs {
            Some(logs) => (matcher.read(logs.as_slice())?, true),
            None => (
                matcher.read(content.take(MOST_BYTES))?,
                !content.buffered()?.is_empty(),
            ),
        };
        Ok(Searched {
            cut: reading.bytes == MOST_BYTES && more,
            reading,
            is_report,
        })
    };
    match request {
        Request::Check(_) => Ok(Default::default()),
        Request::Text(text) => search(&mut Lookahead::new(&mut text.as_bytes())),
        Request::File(file) => {
            // A log may be compressed, as that of nvidia-bug-report.sh.
            document::open(Path::new(file), search)
                .with_context(|| format!("cannot read '{}'", file.to_string_lossy()))
        }
        Request::Input => {
            if global.from.as_deref() == Some(Path::new("-")) {
                bail!("standard input cannot be both the text and the machine (--from -)");
            }
            document::open(Path::new("-"), search).context("cannot read standard input")
        }
    }
}

/// The machine that the options name, or that the text is a report of; else this one.
fn machine(
    text: &Request,
    is_report: bool,
    global: &Global,
    err: &mut dyn Write,
) -> anyhow::Result<Machine> {
    let is_named = global.from.is_some() || global.sysroot.is_some();
    match text {
        // An archive may hold logs alone.
        Request::File(file) if is_report && !is_named => {
            Machine::recorded(Path::new(file), err).or_else(|_| Machine::of(global, err))
        }
        _ => Machine::of(global, err),
    }
}

/// Runs the checks of the matches on the machine, with the severities of the profiles.
fn inspect(
    machine: &Machine,
    global: &Global,
    expectations: &Expectations,
    report: &mut ExplainReport,
    err: &mut dyn Write,
) {
    let ids: Vec<&str> = report
        .matches
        .iter()
        .take(MAX_MATCHES)
        .map(|found| found.check.as_str())
        .collect();
    let wanted = |id: &str| ids.contains(&id);
    let facts = machine.facts(doctor::want(false, wanted));
    super::notes(global, machine.is_imported(), &facts, err);
    let mut findings = check::run_those(
        &Ctx::new(&facts, &topo::topology(&facts), expectations),
        wanted,
    );
    // In the order of the matches.
    findings.order_by_key(|finding| ids.iter().position(|id| *id == finding.id));
    for found in &mut report.matches {
        found.standing = Some(standing(found, &findings));
    }
    report.matches.order_by_key(|found| found.standing);
    report.findings = findings;
    report.host = Some(facts.host.clone());
    report.profiles = expectations.names.clone();
}

fn standing(found: &SymptomMatch, findings: &[Finding]) -> Standing {
    let mut outcomes = findings
        .iter()
        .filter(|finding| finding.id == found.check)
        .map(|finding| finding.outcome)
        .peekable();
    let is_run = outcomes.peek().is_some();
    let mut passes = true;
    for outcome in outcomes {
        match outcome {
            Outcome::Fail | Outcome::Warn => return Standing::Confirmed,
            Outcome::Pass => {}
            _ => passes = false,
        }
    }
    match is_run && passes {
        true => Standing::Excluded,
        false => Standing::Open,
    }
}
