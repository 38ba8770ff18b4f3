//! `gdr explain`.

mod logs;
mod lost;
mod scope;
mod stream;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use self::logs::Logs;
use self::scope::Scope;
use super::machine::Machine;
use super::mask_key::Masked;
use super::profiles::expectations;
use super::{doctor, document};
use crate::check::{self, Check, Ctx};
use crate::cli::{Explain, ExplainFormat, Global, style};
use crate::explain::{self, MAX_BYTES, Matcher, Reading, Setting};
use crate::import;
use crate::input::Lookahead;
use crate::job::{Around, JobReader, Shown};
use crate::model::Order as _;
use crate::model::{
    EXPLAIN_SCHEMA, ExplainReport, ExplainedCheck, Fact, Finding, Job, Likelihood, Outcome,
    RankFailure, ReadText, SymptomMatch, Undecided,
};
use crate::output::{self, Document};
use crate::profile::Expectations;
use crate::render;
use crate::topo;

/// Exit status: no known symptom was found.
const NO_MATCH: u8 = 1;

/// The check of environment variables.
const ENVIRONMENT: &str = "env.contradiction";

/// Number of checks that are run; later ones are less likely.
const MAX_MATCHES: usize = 12;

/// The input of the command.
enum Request {
    Check(&'static Check),
    Text(String),
    File(OsString),
    /// The logs of one job, and the directory if it was named.
    Logs(Vec<PathBuf>, Option<PathBuf>),
    Input,
}

/// Explains a check, or the symptoms in a text.
pub fn run(
    global: &Global,
    options: &Explain,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let request = request(options)?;
    let masked = Masked::by(options.masks.mask_key.as_deref())?;
    // Report a missing profile before reading a long text.
    let expectations = expectations(&options.profile)?;
    let mut report = ExplainReport {
        asked: name(&request),
        job: None,
        matches: Vec::new(),
        questions: Vec::new(),
        uncovered: Vec::new(),
        checks: Vec::new(),
        host: None,
        not_inspected: None,
        profiles: Vec::new(),
        findings: Vec::new(),
        undecided: Vec::new(),
        read: None,
    };
    let code = match &request {
        Request::Check(check) => {
            report.checks = vec![explained(check)];
            0
        }
        text => {
            // A remark may name the machine.
            let mut silent = io::sink();
            let err: &mut dyn Write = if masked.is_on() { &mut silent } else { err };
            search(text, global, options, &expectations, &mut report, err)?;
            match &report.job {
                Some(job) => lost::status(job),
                None if report.matches.is_empty() => NO_MATCH,
                None => 0,
            }
        }
    };
    let report = masked.explain(report)?;
    let text = match options.format {
        ExplainFormat::Table => render::explain::table(&report, style(global.color)),
        ExplainFormat::Json => {
            let recorded = report.host.as_ref().and_then(|host| host.recorded.as_deref());
            output::pretty(&Document::of(EXPLAIN_SCHEMA, recorded, &report))?
        }
        ExplainFormat::Html => render::html::explain(&report, &output::now()),
        ExplainFormat::Junit => render::junit::explain(&report),
    };
    super::print(out, &text)?;
    Ok(code)
}

/// Searches a text, and checks the machine for what it points to.
fn search(
    text: &Request,
    global: &Global,
    options: &Explain,
    expectations: &Expectations,
    report: &mut ExplainReport,
    err: &mut dyn Write,
) -> anyhow::Result<()> {
    let (searched, logs) = match text {
        Request::Logs(files, of) => logs::read(files, of.is_some(), err)?,
        text => (read(text, global)?, Logs::default()),
    };
    let Searched { reading, job, cut, is_report } = searched;
    report.read = Some(ReadText { lines: reading.lines, bytes: reading.bytes, cut });
    report.job = job;
    report.matches = reading.matches;
    report.questions = reading.questions;
    report.uncovered = reading.uncovered;
    if cut {
        let most = MAX_BYTES >> 20;
        let read = match &report.job {
            Some(_) => "searched for causes; the job's paths are of the whole log",
            None => "read",
        };
        let text = format!("{}: only the first {most} MiB were {read}", report.asked);
        super::remark(err, &text);
    }
    let is_of_listing =
        reading.listing.is_some() && !options.no_run && !is_report && !names_machine(global);
    // What the text shows is a machine, as for doctor --from.
    let described = match text {
        Request::File(file) if is_of_listing => Machine::recorded(Path::new(file), err).ok(),
        _ => None,
    };
    report.not_inspected = match reading.listing {
        Some(program) if is_of_listing && described.is_none() => Some(of_listing(program)),
        _ => None,
    };
    let is_inspected = !options.no_run && report.not_inspected.is_none();
    if is_inspected && !report.matches.is_empty() {
        let machine = match described {
            Some(machine) => machine,
            None => machine(text, is_report, global, err)?,
        };
        let variables = Variables { settings: reading.environment, logs: &logs };
        inspect(&machine, global, expectations, &variables, report, err);
    }
    if let Some(job) = &mut report.job
        && lost::is_open(job)
        && !options.no_run
        && (names_machine(global) || lost::is_here(job))
    {
        lost::inspect(job, &Machine::of(global, err)?, expectations);
    }
    logs.locate(report);
    Ok(())
}

fn request(options: &Explain) -> anyhow::Result<Request> {
    match (&options.what, &options.job) {
        (_, Some(directory)) => {
            Ok(Request::Logs(logs::of_directory(directory)?, Some(directory.clone())))
        }
        (Some(what), None) if options.more.is_empty() => parse(what),
        (what, None) => Ok(Request::Logs(logs::named(what.iter().chain(&options.more))?, None)),
    }
}

/// Detects the kind of input: standard input, a file, a check, or a message.
fn parse(what: &OsString) -> anyhow::Result<Request> {
    let word = what.to_string_lossy();
    if what == "-" {
        return Ok(Request::Input);
    }
    if Path::new(what).is_dir() {
        bail!(
            "'{word}' is a directory; name a file in it, or put the error line in quotes. The logs of one job: \
             gdr explain --job {word}"
        );
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
    let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    !word.contains(char::is_whitespace) && (word.contains('/') || is_file)
}

fn name(request: &Request) -> String {
    match request {
        Request::Check(_) => "check".to_owned(),
        Request::Text(_) => "text".to_owned(),
        Request::File(file) => format!("file {}", file.to_string_lossy()),
        Request::Logs(files, None) => format!("{} logs", files.len()),
        Request::Logs(files, Some(of)) => {
            format!("{} logs of {}", files.len(), of.to_string_lossy())
        }
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
        references: check.references.iter().map(|&reference| reference.to_owned()).collect(),
    }
}

/// The variables that a text shows.
struct Variables<'a> {
    settings: BTreeMap<String, Setting>,
    logs: &'a Logs,
}

#[derive(Default)]
struct Searched {
    reading: Reading,
    job: Option<Job>,
    /// True if the input has more bytes than were read.
    cut: bool,
    /// True for the report of a machine.
    is_report: bool,
}

/// The text without UTF-16, quote marks, and escapes of HTML, JSON and terminals, as `--from` reads it; `None` if it has none of them, or is
/// longer than 8 MiB.
fn decoded(content: &mut Lookahead<'_>) -> io::Result<Option<Vec<u8>>> {
    const LONGEST: usize = 8 << 20;
    let start = content.peek(LONGEST + 1)?;
    let plain = if start.len() <= LONGEST { import::plain(start) } else { None };
    Ok(plain.map(|plain| plain.bytes))
}

/// Searches the input for symptoms and for a job; of an archive, its logs.
fn read(request: &Request, global: &Global) -> anyhow::Result<Searched> {
    let matcher = Matcher::new(explain::shipped()?)?;
    let search = |content: &mut Lookahead<'_>| -> anyhow::Result<Searched> {
        let is_report = import::is_support_report(content)?;
        let logs = import::archived_logs(content, MAX_BYTES)?;
        let text = match logs {
            None => decoded(content)?,
            logs => logs,
        };
        let mut job = JobReader::default();
        let (mut reading, more) = match &text {
            Some(text) => {
                job.feed(text);
                (matcher.read(text.as_slice())?, true)
            }
            None => stream::read(content, &matcher, &mut job)?,
        };
        let cut = reading.bytes == MAX_BYTES && more;
        let job = job_of(job, &mut reading);
        Ok(Searched { cut, reading, job, is_report })
    };
    match request {
        Request::Check(_) | Request::Logs(..) => Ok(Default::default()),
        Request::Text(text) => search(&mut Lookahead::new(&mut text.as_bytes())),
        Request::File(file) => {
            // A log may be compressed, as that of nvidia-bug-report.sh.
            document::open(Path::new(file), search)
                .with_context(|| format!("cannot read '{}'", file.to_string_lossy()))
        }
        Request::Input => {
            if global.from.iter().any(|file| file == Path::new("-")) {
                bail!("standard input cannot be both the text and the machine (--from -)");
            }
            document::open(Path::new("-"), search).context("cannot read standard input")
        }
    }
}

/// The job that a text is a log of, with what the rest of the text says.
fn job_of(reader: JobReader, reading: &mut Reading) -> Option<Job> {
    let shown = |(name, setting): (&String, &Setting)| Shown {
        name: name.clone(),
        value: setting.value.clone(),
        line: setting.line,
    };
    let settings: Vec<Shown> = reading.environment.iter().map(shown).collect();
    // A word that some check is about explains no failure, and neither does a possible cause.
    let is_explained = reading
        .matches
        .iter()
        .any(|found| found.symptom.is_some() && found.likelihood != Likelihood::Possible);
    let job = reader.finish_in(&Around { is_explained, settings: &settings })?;
    doubt_warnings(&mut reading.matches, &job);
    Some(job)
}

/// A job that failed by another line may have gone on after a warning: its cause is a possible one.
fn doubt_warnings(matches: &mut [SymptomMatch], job: &Job) {
    if job.failures.is_empty() {
        return;
    }
    for found in matches.iter_mut() {
        let is_warning = found.line.text.to_ascii_lowercase().contains("warning: ");
        let is_of = |failure: &RankFailure| failure.line.number == found.line.number;
        if is_warning && !job.failures.iter().any(is_of) {
            found.likelihood = Likelihood::Possible;
        }
    }
    matches.order_by_key(|found| found.likelihood == Likelihood::Possible);
}

/// The machine that the options name, or that the text is a report of; else this one.
fn machine(
    text: &Request,
    is_report: bool,
    global: &Global,
    err: &mut dyn Write,
) -> anyhow::Result<Machine> {
    match text {
        // An archive may hold logs alone.
        Request::File(file) if is_report && !names_machine(global) => {
            Machine::recorded(Path::new(file), err).or_else(|_| Machine::of(global, err))
        }
        _ => Machine::of(global, err),
    }
}

/// True if the options name the machine that the text is of.
fn names_machine(global: &Global) -> bool {
    !global.from.is_empty() || global.sysroot.is_some()
}

fn of_listing(program: &str) -> String {
    format!(
        "The text is output of {program}, perhaps of another machine: gdr judged what it shows and checked no machine."
    )
}

/// Runs the checks of the matches on the machine, with the severities of the profiles. Variables that the text shows replace those
/// of gdr's own process.
fn inspect(
    machine: &Machine,
    global: &Global,
    expectations: &Expectations,
    variables: &Variables<'_>,
    report: &mut ExplainReport,
    err: &mut dyn Write,
) {
    let settings = &variables.settings;
    let ids: Vec<String> =
        report.matches.iter().take(MAX_MATCHES).map(|found| found.check.clone()).collect();
    let wanted = |id: &str| ids.iter().any(|wanted| wanted == id);
    let mut facts = machine.facts(doctor::want(false, wanted));
    super::notes(global, machine.is_imported(), &facts, err);
    if !settings.is_empty() {
        let values = settings.iter().map(|(name, setting)| (name.clone(), setting.value.clone()));
        facts.environment = Fact::Known(values.collect());
    }
    let scope = Scope::new(machine.is_live(), &facts, !settings.is_empty());
    report.not_inspected = scope.is_elsewhere().map(str::to_owned);
    if report.not_inspected.is_some() {
        return;
    }
    let mut findings =
        check::run_those(&Ctx::new(&facts, &topo::topology(&facts), expectations), |id| {
            wanted(id) && scope.excludes(id).is_none()
        });
    quote_settings(&mut findings, variables);
    // In the order of the matches.
    findings.order_by_key(|finding| ids.iter().position(|id| *id == finding.id));
    for found in &mut report.matches {
        found.standing = Some(scope.standing(&found.check, &findings));
    }
    report.undecided = ids
        .iter()
        .filter_map(|id| {
            let reason = scope.why_undecided(id, &findings)?;
            let check = id.clone();
            Some(Undecided { check, reason })
        })
        .collect();
    report.matches.order_by_key(|found| found.standing);
    report.findings = findings;
    report.host = Some(facts.host.clone());
    report.profiles = expectations.names.clone();
}

/// Names the lines of the text that set the variables of a finding.
fn quote_settings(findings: &mut [Finding], variables: &Variables<'_>) {
    let Variables { settings, logs } = variables;
    for finding in findings.iter_mut().filter(|finding| finding.id == ENVIRONMENT) {
        if let Some(setting) = settings.get(&finding.subject) {
            for evidence in &mut finding.evidence {
                evidence.source = logs.place(setting);
            }
        } else if finding.outcome == Outcome::Pass && !settings.is_empty() {
            "No environment variable of the text contradicts what the machine supports."
                .clone_into(&mut finding.message);
            for evidence in &mut finding.evidence {
                "the text".clone_into(&mut evidence.source);
            }
        }
    }
}
