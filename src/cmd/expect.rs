//! `gdr expect`: writes a profile that says what good machines have.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::machine::{Machine, Recorded};
use super::profiles::expectations;
use super::{doctor, document};
use crate::check::Ctx;
use crate::check::expect::{Derived, FAMILY, derive, derive_bandwidths};
use crate::cli::ExpectOptions;
use crate::profile::{Expect, Expectations, toml_string};
use crate::topo;

/// From the machine that the global options select.
pub fn of_machine(
    machine: &Machine,
    options: &ExpectOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let expect = read(machine, "this machine", err);
    write(expect, options, out, err)
}

/// From recorded machines and results of probes.
pub fn of_files(
    options: &ExpectOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let mut all = Expect::default();
    for file in &options.sources {
        let name = file.display().to_string();
        let context = || name.clone();
        let expect = match Recorded::read(file).with_context(context)? {
            Recorded::Probe(saved) => {
                derive_bandwidths(&saved.report.results, f64::from(options.tolerance) / 100.0)
            }
            Recorded::Machine(machine, _) => read(&machine, &name, err),
        };
        for difference in all.merge(&expect) {
            super::remark(err, &format!("{name}: {difference}"));
        }
    }
    write(all, options, out, err)
}

fn read(machine: &Machine, name: &str, err: &mut dyn Write) -> Expect {
    let facts = machine.facts(doctor::want(false, |id| id.starts_with(FAMILY)));
    let topology = topo::topology(&facts);
    let nothing = Expectations::of(&[]);
    let Derived { expect, unknown } = derive(&Ctx::new(&facts, &topology, &nothing));
    for (key, why) in unknown {
        super::remark(err, &format!("{name}: {key} is left out: {why}"));
    }
    expect
}

fn write(
    expect: Expect,
    options: &ExpectOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if expect.is_empty() {
        bail!("nothing is known of these machines, so nothing can be expected");
    }
    let includes: Vec<String> = options
        .include
        .iter()
        .filter(|name| *name != "none")
        .cloned()
        .collect();
    expectations(&includes).context("--include")?;
    let text = page(&expect, options, &includes);
    match options.write == Path::new("-") {
        true => super::print(out, &text)?,
        false => {
            document::write(&options.write, text.as_bytes(), true, out)
                .with_context(|| format!("cannot write {}", options.write.display()))?;
            let name = options.write.display();
            super::remark(
                err,
                &format!("{name}: compare a machine with it: gdr doctor --profile ./{name}"),
            );
        }
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
