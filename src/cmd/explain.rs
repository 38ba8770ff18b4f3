//! `gdr explain`.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::machine::Machine;
use super::profiles::expectations;
use super::{doctor, document};
use crate::check::{self, Check, Ctx};
use crate::cli::{Explain, ExplainFormat, Global, style};
use crate::explain::{self, MOST_BYTES, Matcher, Reading};
use crate::model::{EXPLAIN_SCHEMA, ExplainReport, ExplainedCheck, ReadText, SymptomMatch};
use crate::output::{self, Document};
use crate::profile::Expectations;
use crate::render;
use crate::topo;

/// Nothing in the text is a symptom that gdr knows.
const NOTHING_MATCHED: u8 = 1;

/// The matches whose checks are run: what comes after is less sure than that many.
const FOLLOWED: usize = 8;

/// What was asked about.
enum Request {
    Check(&'static Check),
    Text(String),
    File(OsString),
    Input,
}

/// Explains a check, or what a text tells.
pub fn run(
    global: &Global,
    options: &Explain,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let asked = asked(&options.what)?;
    // A profile that does not exist is reported before a long text is read.
    let expectations = expectations(&options.profile)?;
    let mut report = ExplainReport {
        asked: name(&asked),
        matches: Vec::new(),
        checks: Vec::new(),
        host: None,
        profiles: Vec::new(),
        findings: Vec::new(),
        read: None,
    };
    let code = match &asked {
        Request::Check(check) => {
            report.checks = vec![explained(check)];
            0
        }
        text => {
            let (reading, cut) = reading(text, global)?;
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
                look(global, &expectations, &mut report, err)?;
            }
            match report.matches.is_empty() {
                true => NOTHING_MATCHED,
                false => 0,
            }
        }
    };
    let text = match options.format {
        ExplainFormat::Table => render::explain::table(&report, style(global.color)),
        ExplainFormat::Json => output::pretty(&Document::new(EXPLAIN_SCHEMA, &report))?,
    };
    super::print(out, &text)?;
    Ok(code)
}

/// Standard input, a file, a check, or a text.
fn asked(what: &OsString) -> anyhow::Result<Request> {
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
            "the file '{word}' does not exist. To explain a message, put the whole line in quotes, or pipe it: \
             ... | gdr explain -"
        );
    }
    Ok(Request::Text(word.into_owned()))
}

/// `family.name`, of a family that there is.
fn looks_like_an_id(word: &str) -> bool {
    word.split_once('.').is_some_and(|(family, name)| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let there = check::all().any(|check| check.id.split('.').next() == Some(family));
        there && !name.is_empty() && name.bytes().all(plain)
    })
}

/// A single word with a slash or with the extension of a log.
fn looks_like_a_path(word: &str) -> bool {
    const EXTENSIONS: [&str; 8] = ["log", "txt", "out", "err", "json", "gz", "xz", "zst"];
    let extension = Path::new(word)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    !word.contains(char::is_whitespace) && (word.contains('/') || is_file)
}

fn name(asked: &Request) -> String {
    match asked {
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

/// What a text tells, and whether there is more of it than was read.
fn reading(asked: &Request, global: &Global) -> anyhow::Result<(Reading, bool)> {
    let matcher = Matcher::new(explain::shipped()?)?;
    let read = |text: &mut dyn Read| -> io::Result<(Reading, bool)> {
        let reading = matcher.read(text.take(MOST_BYTES))?;
        let more = reading.bytes == MOST_BYTES && text.read(&mut [0])? > 0;
        Ok((reading, more))
    };
    match asked {
        Request::Check(_) => Ok(Default::default()),
        Request::Text(text) => Ok(read(&mut text.as_bytes())?),
        Request::File(file) => {
            // A log may be compressed, like that of nvidia-bug-report.sh.
            document::open(Path::new(file), |content| Ok(read(content)?))
                .with_context(|| format!("'{}' cannot be read", file.to_string_lossy()))
        }
        Request::Input => {
            if global.from.as_deref() == Some(Path::new("-")) {
                bail!("standard input can be the text or the machine (--from -), not both");
            }
            document::open(Path::new("-"), |content| Ok(read(content)?))
                .context("standard input cannot be read")
        }
    }
}

/// Looks at the machine with the checks that the matches lead to, by what the profiles expect.
fn look(
    global: &Global,
    expectations: &Expectations,
    report: &mut ExplainReport,
    err: &mut dyn Write,
) -> anyhow::Result<()> {
    let machine = Machine::of(global, err)?;
    let ids = followed(&report.matches);
    let wanted = |id: &str| ids.iter().any(|wanted| wanted == id);
    let facts = machine.facts(doctor::want(false, wanted));
    super::notes(global, machine.is_imported(), &facts, err);
    let mut findings = check::run_those(
        &Ctx::new(&facts, &topo::topology(&facts), expectations),
        wanted,
    );
    // In the order of the matches.
    findings.sort_by_key(|finding| ids.iter().position(|id| *id == finding.id));
    report.findings = findings;
    report.host = Some(facts.host.clone());
    report.profiles = expectations.names.clone();
    Ok(())
}

/// The checks that the matches lead to, in their order.
fn followed(matches: &[SymptomMatch]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for id in matches
        .iter()
        .take(FOLLOWED)
        .flat_map(|found| &found.checks)
    {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    ids
}
