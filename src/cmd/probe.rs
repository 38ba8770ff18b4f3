//! `gdr probe`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::expected::expected_machine;
use super::machine::Machine;
use super::mask_key::Masked;
use super::probe_copy::list_tests;
use super::probe_file;
use super::profiles::expectations;
use crate::check::expected_bandwidths;
use crate::cli::{Global, Probe, ProbeWhat, style};
use crate::collect::CollectOptions;
use crate::model::{PROBE_SCHEMA, ProbeKind, ProbeReport, Side};
use crate::output::{self, Document, Progress};
use crate::probe::arguments::{Arguments, ProbeFormat, ScopeArguments};
use crate::probe::baseline;
use crate::probe::children::Watcher;
use crate::probe::events::Step;
use crate::probe::interrupts::Interrupts;
use crate::probe::scope::Scope;
use crate::probe::supervise;
use crate::probe::verdict::{exit_code, failures, next_step};
use crate::profile::Expectations;
use crate::render::{html, junit, probe as render};
use crate::world::NvmlQuery;

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Probe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if let ProbeWhat::Copy(wanted) = &options.what
        && wanted.list_tests
    {
        super::print(out, &list_tests(style(global.color)))?;
        return Ok(0);
    }
    let runner = Runner { machine, global };
    match &options.what {
        ProbeWhat::Copy(wanted) => runner.run(&**wanted, out, err),
        ProbeWhat::Host(wanted) => runner.run(wanted, out, err),
        ProbeWhat::P2p(wanted) => runner.run(wanted, out, err),
        ProbeWhat::Rdma(wanted) => runner.run(&**wanted, out, err),
        ProbeWhat::Async(wanted) => runner.run(wanted, out, err),
        ProbeWhat::Mp(wanted) => runner.run(&**wanted, out, err),
        ProbeWhat::Transfer(wanted) => runner.run(&**wanted, out, err),
        ProbeWhat::Mpi(wanted) => runner.run(wanted, out, err),
    }
}

/// Runs a probe, as its arguments say.
struct Runner<'a> {
    machine: &'a Machine,
    global: &'a Global,
}

impl Runner<'_> {
    fn run<A: Arguments>(
        &self,
        wanted: &A,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let session = Session {
            machine: self.machine,
            want: if A::OF_PAIRS { pairs() } else { CollectOptions::default() },
            global: self.global,
            scope: wanted.scope(),
            profile: A::PROFILE,
            masked: Masked::by(wanted.scope().masks.mask_key.as_deref())?
                .with_hosts(wanted.peer_host()),
        };
        let probe = wanted.probe(session.scope()?, self.machine.is_live())?;
        session.run(&probe, out, err)
    }
}

/// Facts about pairs of GPUs.
fn pairs() -> CollectOptions {
    CollectOptions {
        nvml: NvmlQuery { links: true, p2p: true, from_gpus: 2, ..NvmlQuery::default() },
        ..CollectOptions::default()
    }
}

/// Common settings of all probes.
pub struct Session<'a> {
    pub machine: &'a Machine,
    pub want: CollectOptions,
    pub global: &'a Global,
    pub scope: &'a ScopeArguments,
    pub masked: Masked,
    /// The profile with the default thresholds.
    pub profile: &'static str,
}

impl Session<'_> {
    fn expectations(&self) -> anyhow::Result<Expectations> {
        match self.scope.profile.as_slice() {
            [] => expectations(&[self.profile.to_owned()]),
            named => expectations(named),
        }
    }

    pub fn scope(&self) -> anyhow::Result<Scope> {
        let shares = self.expectations()?.shares();
        Ok(self.scope.scope(shares, Duration::from_secs(self.global.library_timeout)))
    }

    /// Measures the local machine, or shows expected values for a recorded one, and prints the report.
    fn run<P: supervise::Probe>(
        &self,
        probe: &P,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let facts = self.machine.facts(self.want);
        super::notes(self.global, self.machine.is_imported(), &facts, err);
        let expected = expected_machine(self.machine, &facts)?;
        if !self.machine.is_live() {
            if self.scope.sim {
                bail!("--sim runs on this machine: it does not work with --sysroot or --from");
            }
            if self.scope.save.is_some() || self.scope.baseline.is_some() {
                bail!("nothing is measured with --sysroot or --from: omit --save and --baseline");
            }
            if self.is_chart() {
                bail!(
                    "nothing is measured with --sysroot or --from, so there is no curve: use --format table or json"
                );
            }
            let report = self.masked.probe(supervise::expected(probe, &expected)?)?;
            self.print(out, &report)?;
            return Ok(exit_code(&report));
        }
        let baseline = self.baseline(P::KIND)?;
        if let Some(file) = &self.scope.save {
            probe_file::check_save(file)?;
        }
        let interrupts = Interrupts::catch()?;
        let status = self.measured(probe, &expected, baseline, &interrupts, (out, err));
        super::concluded(&interrupts, status, err)
    }

    /// Measures, compares and prints the report.
    fn measured<P: supervise::Probe>(
        &self,
        probe: &P,
        expected: &crate::probe::machine::Machine,
        baseline: Option<probe_file::Saved>,
        interrupts: &Interrupts,
        (out, err): (&mut dyn Write, &mut dyn Write),
    ) -> anyhow::Result<u8> {
        let mut report = self.measure(probe, expected, interrupts, err)?;
        interrupts.printing();
        if failures(&report).next().is_some() {
            report.notes.extend(super::limits::tight());
        }
        report.findings = expected_bandwidths(&self.expectations()?, &report);
        if let Some(saved) = baseline {
            let side = Side {
                source: "live".to_owned(),
                host: report.host.name.clone(),
                taken: Some(output::now()),
            };
            let diff =
                baseline::compare(&saved.report.results, &report.results, baseline::TOLERANCE);
            report.baseline = Some(diff.report(saved.side, side, true));
        }
        if interrupts.status().is_none() {
            report.next_step = next_step(&report);
        }
        let report = self.masked.probe(report)?;
        let is_chart = self.is_chart();
        // Of several ranks only the first one prints the report.
        let is_rank = report.mpi.as_ref().is_some_and(|mpi| mpi.rank > 0);
        if is_chart || is_rank {
            // A curve does not show failures.
            for result in failures(&report) {
                let reason = result.reason.as_deref().unwrap_or("unknown reason");
                super::remark(err, &format!("{}: {}: {reason}", result.subject, result.name));
            }
        }
        if !is_rank {
            self.print(out, &report)?;
            self.save(&report, out, err)?;
        }
        Ok(exit_code(&report))
    }

    fn is_chart(&self) -> bool {
        matches!(self.scope.format, ProbeFormat::Curve | ProbeFormat::Svg)
    }

    fn baseline(&self, kind: ProbeKind) -> anyhow::Result<Option<probe_file::Saved>> {
        let read = |file: &PathBuf| {
            probe_file::baseline(file, kind, self.scope.sim)
                .with_context(|| format!("--baseline {}", file.display()))
        };
        self.scope.baseline.as_ref().map(read).transpose()
    }

    /// Runs the probe as often as the user wants. An interrupted run ends it.
    fn measure<P: supervise::Probe>(
        &self,
        probe: &P,
        expected: &crate::probe::machine::Machine,
        interrupts: &Interrupts,
        err: &mut dyn Write,
    ) -> anyhow::Result<ProbeReport> {
        let mut watcher = TerminalWatcher { bar: Progress::new(), err };
        let mut runs = Vec::new();
        for _ in 0..self.scope.runs {
            let run = supervise::measure(probe, expected, interrupts, &mut watcher);
            watcher.bar.clear();
            runs.push(run?);
            if runs.last().is_some_and(|run| !run.complete) {
                break;
            }
        }
        baseline::combine(runs).context("no run")
    }

    fn save(
        &self,
        report: &ProbeReport,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let Some(file) = &self.scope.save else {
            return Ok(());
        };
        let name = file.display();
        if failures(report).next().is_some() || !report.complete {
            super::remark(
                err,
                &format!("{name} was not written: the probe failed or is incomplete"),
            );
            return Ok(());
        }
        probe_file::save(file, report, out).with_context(|| format!("cannot write {name}"))?;
        super::remark(
            err,
            &format!(
                "{name}: compare with it: gdr probe {} --baseline {name}",
                report.probe.name()
            ),
        );
        Ok(())
    }

    fn print(&self, out: &mut dyn Write, report: &ProbeReport) -> anyhow::Result<()> {
        let style = style(self.global.color);
        let text = match self.scope.format {
            ProbeFormat::Table => render::table(report, style),
            ProbeFormat::Curve => render::curve(report, style),
            ProbeFormat::Svg => render::svg(report),
            ProbeFormat::Html => html::probe(report, &output::now()),
            ProbeFormat::Junit => junit::probe(report),
            // 50 MB with 256 GPUs: write it directly.
            ProbeFormat::Json => {
                return super::print_with(out, |out| {
                    output::write_pretty(out, &Document::new(PROBE_SCHEMA, report))
                });
            }
        };
        super::print(out, &text)
    }
}

/// Shows progress and messages while a probe runs.
struct TerminalWatcher<'e> {
    bar: Progress,
    err: &'e mut dyn Write,
}

impl Watcher for TerminalWatcher<'_> {
    fn step(&mut self, subject: &str, step: &Step) {
        self.bar.show(subject, &step.what, step.done, step.total);
    }

    fn message(&mut self, message: &str) {
        let Self { bar, err } = self;
        bar.suspend(|| super::remark(*err, message));
    }
}
