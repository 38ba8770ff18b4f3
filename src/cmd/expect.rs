//! `gdr expect`: writes a profile that says what good machines have.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::baseline::inside;
use super::machine::{Machine, Recorded};
use super::profiles::expectations;
use super::{doctor, document};
use crate::check::expect::{Derived, UnknownKey, derive, derive_bandwidths};
use crate::check::{self, Ctx, Judged};
use crate::cli::ExpectOptions;
use crate::model::{Outcome, Why};
use crate::output::shell_word;
use crate::profile::{DEFAULT, Expect, Expectations, Majority, majority, toml_string};
use crate::topo;

/// From the machine that the global options select.
pub fn of_machine(
    machine: &Machine,
    options: &ExpectOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let includes = includes(options)?;
    reject_existing(options)?;
    let expect = read(machine, "this machine", options, err)?;
    write(&expect, options, &includes, out, err)
}

/// From recorded machines and results of probes.
pub fn of_files(
    options: &ExpectOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let includes = includes(options)?;
    reject_existing(options)?;
    let mut all = Expect::default();
    let mut good = Vec::new();
    let (mut machines, mut failed) = (0, 0);
    for file in &files(&options.sources)? {
        let name = file.display().to_string();
        let context = || name.clone();
        let expect = match Recorded::read(file).with_context(context)? {
            Recorded::Probe(saved) => {
                derive_bandwidths(&saved.report.results, f64::from(options.tolerance) / 100.0)
            }
            Recorded::Machine(machine, _) => {
                machines += 1;
                match read(&machine, &name, options, err) {
                    Err(error) if options.majority => {
                        failed += 1;
                        super::remark(err, &format!("{name} is left out: {error:#}"));
                        continue;
                    }
                    expect => expect?,
                }
            }
        };
        if options.majority {
            good.push((name, expect));
            continue;
        }
        for difference in all.merge(&expect) {
            super::remark(err, &format!("{name}: {difference}"));
        }
    }
    if failed > 0 && 2 * failed >= machines {
        bail!(
            "nothing is written: {failed} of {machines} machines cannot be an example, and what most of them have would be expected \
             of all: repair them first"
        );
    }
    if options.majority {
        let Majority { expect, differences } = majority(&good);
        for difference in differences {
            super::remark(err, &difference);
        }
        all = expect;
    }
    write(&all, options, &includes, out, err)
}

/// The files, those of directories included.
fn files(sources: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for source in sources {
        if source.is_dir() {
            files.extend(inside(source)?);
        } else {
            files.push(source.clone());
        }
    }
    if files.is_empty() {
        bail!("no file of these directories ends in .json or .json.zst");
    }
    Ok(files)
}

/// The profiles to include, all of them known.
fn includes(options: &ExpectOptions) -> anyhow::Result<Vec<String>> {
    let names = options.include.iter().filter(|name| *name != "none");
    let names: Vec<String> = names.cloned().collect();
    expectations(&names).context("--include")?;
    Ok(names)
}

/// An expectation may have been edited by hand: only `--force` replaces it. Pipes and devices are not replaced.
fn reject_existing(options: &ExpectOptions) -> anyhow::Result<()> {
    let file = &options.write;
    if options.force || file == Path::new("-") || !file.is_file() {
        return Ok(());
    }
    bail!("{} exists: --force replaces it", file.display());
}

fn read(
    machine: &Machine,
    name: &str,
    options: &ExpectOptions,
    err: &mut dyn Write,
) -> anyhow::Result<Expect> {
    let facts = machine.facts(doctor::want(false, |_| true));
    let topology = topo::topology(&facts);
    let nothing = Expectations::of(&[]);
    let Derived { expect, unknown } = derive(&Ctx::new(&facts, &topology, &nothing));
    if !options.force {
        let judged_by = judged_by(options)?;
        let ctx = Ctx::new(&facts, &topology, &judged_by);
        reject_failures(&ctx, (!options.majority).then_some(name))?;
        reject_unknown(&unknown, name)?;
    }
    for UnknownKey { key, sentence, .. } in unknown {
        super::remark(err, &format!("{name}: {key} is left out: {sentence}"));
    }
    Ok(expect)
}

/// The profiles by which a machine is good: those included, else the default one.
fn judged_by(options: &ExpectOptions) -> anyhow::Result<Expectations> {
    match includes(options)?.as_slice() {
        [] => expectations(&[DEFAULT.to_owned()]),
        names => expectations(names),
    }
}

/// What a broken machine has would be expected of all others. `alone`: its name, if it is the only example.
fn reject_failures(ctx: &Ctx<'_>, alone: Option<&str>) -> anyhow::Result<()> {
    let findings =
        Judged::new(ctx, |id| !super::doctor::is_by_table(id)).into_findings(ctx.expectations);
    let causes = check::causes(&findings);
    let failed = findings.iter().zip(&causes);
    let failed =
        failed.filter(|(finding, cause)| finding.outcome == Outcome::Fail && cause.is_none());
    let failed: Vec<String> = failed
        .map(|(finding, _)| {
            let message = finding.message.trim_end_matches('.');
            format!("{} of {}: {message}", finding.id, finding.subject)
        })
        .collect();
    let Some(first) = failed.first() else {
        return Ok(());
    };
    let more = match failed.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let Some(name) = alone else {
        bail!("checks fail on it: {first}{more}. gdr doctor shows the repair");
    };
    bail!(
        "nothing is written, because checks fail on {name}, and every other machine would be compared with it: {first}{more}. \
         gdr doctor shows the repair; --force writes it as it is"
    )
}

/// A fact that a dump does not hold is left out, but what this user may not read, or what failed, can be had.
fn reject_unknown(unknown: &[UnknownKey], name: &str) -> anyhow::Result<()> {
    let mut readable = unknown.iter().filter(|unknown| unknown.why != Why::NotCovered);
    let Some(first) = readable.next() else {
        return Ok(());
    };
    let more = match readable.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let remedy = match first.why {
        Why::Denied => "run gdr expect as root",
        _ => "repair that",
    };
    bail!(
        "{name}: {} is unknown: {}{more}: {remedy}, or leave out what is unknown with --force",
        first.key,
        first.sentence
    )
}

fn write(
    expect: &Expect,
    options: &ExpectOptions,
    includes: &[String],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if expect.is_empty() {
        bail!("nothing is known of these machines, so nothing can be expected");
    }
    let text = page(expect, options, includes);
    if options.write == Path::new("-") {
        super::print(out, &text)?
    } else {
        document::write(&options.write, text.as_bytes(), true, out)
            .with_context(|| format!("cannot write {}", options.write.display()))?;
        let name = options.write.display().to_string();
        // A name without a slash or .toml is looked for among the installed profiles.
        let profile =
            if name.contains('/') { shell_word(&name) } else { format!("./{}", shell_word(&name)) };
        super::remark(
            err,
            &format!("{name}: compare a machine with it: gdr doctor --profile {profile}"),
        );
    }
    Ok(0)
}

fn page(expect: &Expect, options: &ExpectOptions, includes: &[String]) -> String {
    let includes: Vec<String> = includes.iter().map(|name| toml_string(name)).collect();
    let head = format!(
        "# Written by gdr expect. A value may be a list of accepted values, or \">=VERSION\"; a line may be removed.\n\
         name = {}\nabout = {}\nincludes = [{}]\n\n",
        toml_string(&options.name),
        toml_string(&format!("{}: as the good machines", options.name)),
        includes.join(", ")
    );
    head + &expect.to_toml()
}
