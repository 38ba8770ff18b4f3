//! `gdr probe`.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::machine::Machine;
use super::profiles::expectations;
use crate::cli::{self, CopyBackend, CopyProbe, Global, NumaChoice, Probe, ProbeFormat, ProbeWhat, style};
use crate::collect::Want;
use crate::model::{Bdf, Fact, Facts, Kind, NumaNode, ProbeReport, Topology};
use crate::probe::child::usable;
use crate::probe::depth::{Depth, Terms};
use crate::probe::events::Step;
use crate::probe::p2p::Between;
use crate::probe::supervise::{self, Nodes, Place, Scope, Way};
use crate::probe::verdict::{exit_code, failures};
use crate::probe::watch::Interrupts;
use crate::probe::{copy, host, p2p};
use crate::render::probe as render;
use crate::topo::{self, Forest};
use crate::world::NvmlWant;

/// Probes.
pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Probe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let session = Session {
        machine,
        global,
        want: match &options.what {
            ProbeWhat::P2p(_) => Want {
                nvml: NvmlWant {
                    links: true,
                    p2p: true,
                    from_gpus: 2,
                    ..NvmlWant::default()
                },
                ..Want::default()
            },
            ProbeWhat::Copy(_) | ProbeWhat::Host(_) => Want::default(),
        },
        scope: match &options.what {
            ProbeWhat::Copy(options) => &options.scope,
            ProbeWhat::Host(options) => &options.scope,
            ProbeWhat::P2p(options) => &options.scope,
        },
        profile: match &options.what {
            ProbeWhat::Copy(_) => "gdrcopy",
            ProbeWhat::Host(_) => "mpi",
            ProbeWhat::P2p(_) => "p2p",
        },
    };
    let scope = session.scope()?;
    match &options.what {
        ProbeWhat::Copy(wanted) => {
            let options = copy_options(scope, wanted)?;
            session.run(&options, copy::run, copy::expected, out, err)
        }
        ProbeWhat::Host(wanted) => {
            let options = host::Options {
                nodes: nodes(wanted.numa, scope.terms.depth),
                scope,
            };
            session.run(&options, host::run, host::expected, out, err)
        }
        ProbeWhat::P2p(_) => session.run(&p2p::Options { scope }, p2p::run, p2p::expected, out, err),
    }
}

/// How a probe measures, with its own options.
type Measure<O> =
    fn(&O, &supervise::Machine, &Interrupts, &mut dyn FnMut(&str, &Step)) -> Result<ProbeReport, supervise::ProbeError>;
/// What it expects of a recorded machine.
type Expect<O> = fn(&O, &supervise::Machine) -> Result<ProbeReport, supervise::ProbeError>;

/// What all probes have in common.
struct Session<'a> {
    machine: &'a Machine,
    want: Want,
    global: &'a Global,
    scope: &'a cli::Scope,
    /// The profile that says what is slow where none is named.
    profile: &'static str,
}

impl Session<'_> {
    fn scope(&self) -> anyhow::Result<Scope> {
        let profiles = match self.scope.profile.as_slice() {
            [] => vec![self.profile.to_owned()],
            named => named.to_vec(),
        };
        let shares = expectations(&profiles)?.shares();
        let mut sizes: Vec<usize> = self.scope.size.iter().map(|size| size.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Scope {
            sim: self.scope.sim,
            gpus: self.scope.gpu.clone(),
            terms: Terms {
                depth: match (self.scope.quick, self.scope.full) {
                    (true, _) => Depth::Quick,
                    (_, true) => Depth::Full,
                    _ => Depth::Default,
                },
                sizes,
                shares,
                patience: Duration::from_secs(self.global.library_timeout),
            },
        })
    }

    /// Measures, or tells what would be expected of a machine that is not here, and prints.
    fn run<O>(
        &self,
        options: &O,
        measure: Measure<O>,
        expect: Expect<O>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let facts = self.machine.facts(self.want);
        super::notes(self.global, self.machine.is_imported(), &facts, err);
        let promised = promised(self.machine, &facts);
        let drawn = matches!(self.scope.format, ProbeFormat::Curve | ProbeFormat::Svg);
        if !self.machine.is_live() {
            if self.scope.sim {
                bail!("--sim moves bytes on the machine gdr runs on: it cannot be had with --sysroot or --from");
            }
            if drawn {
                bail!(
                    "nothing is measured with --sysroot or --from, so there is no curve: take --format table or json"
                );
            }
            let report = expect(options, &promised)?;
            super::print(out, &self.text(&report)?)?;
            return Ok(exit_code(&report));
        }
        let interrupts = Interrupts::catch()?;
        let bar = bar();
        let report = measure(options, &promised, &interrupts, &mut |subject, step| {
            show(&bar, subject, step)
        });
        bar.finish_and_clear();
        let report = report?;
        if drawn {
            // A curve has no room for what failed, and nobody should have to miss it.
            for result in failures(&report) {
                let reason = result.reason.as_deref().unwrap_or("no reason is known");
                super::remark(err, &format!("{}: {}: {reason}", result.subject, result.name));
            }
        }
        super::print(out, &self.text(&report)?)?;
        Ok(exit_code(&report))
    }

    fn text(&self, report: &ProbeReport) -> anyhow::Result<String> {
        let style = style(self.global.color);
        Ok(match self.scope.format {
            ProbeFormat::Table => render::table(report, style),
            ProbeFormat::Curve => render::curve(report, style),
            ProbeFormat::Json => serde_json::to_string_pretty(report)? + "\n",
            ProbeFormat::Svg => render::svg(report),
        })
    }
}

fn copy_options(scope: Scope, wanted: &CopyProbe) -> anyhow::Result<copy::Options> {
    if let Some(kernel) = &wanted.kernel {
        let known = copy::kernels();
        if !known.contains(&kernel.as_str()) {
            bail!(
                "there is no copy kernel '{kernel}'; this machine has: {}",
                known.join(", ")
            );
        }
    }
    Ok(copy::Options {
        backend: wanted.backend.map(|backend| {
            match backend {
                CopyBackend::Gdrdrv => "gdrdrv",
                CopyBackend::Dmabuf => "dmabuf",
                CopyBackend::Rm => "rm",
            }
            .to_owned()
        }),
        kernel: wanted.kernel.clone(),
        nodes: nodes(wanted.numa, scope.terms.depth),
        scope,
    })
}

fn nodes(wanted: Option<NumaChoice>, depth: Depth) -> Nodes {
    match wanted {
        Some(NumaChoice::All) => Nodes::All,
        Some(NumaChoice::Near) => Nodes::Near,
        Some(NumaChoice::Node(node)) => Nodes::One(node),
        None if depth == Depth::Quick => Nodes::Near,
        None => Nodes::All,
    }
}

/// What the PCI tree promises.
fn promised(machine: &Machine, facts: &Facts) -> supervise::Machine {
    let names = machine.names();
    let topology = topo::topology(facts);
    let forest = Forest::new(facts.devices());
    let gpus = topology.rows_of(Kind::Gpu).filter_map(|(_, row)| {
        let bdf = row.bdf?;
        let link = match facts.device(bdf).map(|device| forest.link_above(device)) {
            // A GPU that idles has slowed its link down: what counts is what it can be.
            Some(Fact::Known(Some(link))) => link.max.bytes_per_second().filter(|rate| *rate > 0),
            _ => None,
        };
        Some(Place {
            name: row.name.clone(),
            label: match (
                row.label.as_str(),
                facts.device(bdf).and_then(|device| device.ids.known()),
            ) {
                ("", Some(ids)) => names.of(ids),
                (label, _) => label.to_owned(),
            },
            bdf,
            numa: row.numa.present().copied(),
            // The CPU reaches a coherent GPU's memory over NVLink-C2C.
            link: link.filter(|_| !row.coherent),
        })
    });
    let nodes = facts.numa.known().into_iter().flatten();
    // A job that was given the CPUs of one node probes from there.
    let within_reach = |node: &NumaNode| NumaNode {
        id: node.id,
        cpus: usable(&node.cpus),
    };
    supervise::Machine {
        host: facts.host.clone(),
        gpus: gpus.collect(),
        nodes: nodes.map(within_reach).collect(),
        ways: ways(facts, &topology, &forest),
    }
}

/// The ways between the GPUs, each in both directions.
fn ways(facts: &Facts, topology: &Topology, forest: &Forest<'_>) -> Vec<Way> {
    let gpus: Vec<(usize, Bdf)> = topology
        .rows_of(Kind::Gpu)
        .filter_map(|(at, row)| Some((at, row.bdf?)))
        .collect();
    let ends = gpus
        .iter()
        .flat_map(|a| gpus.iter().filter(move |b| b != &a).map(move |b| (*a, *b)));
    ends.map(|((a, from), (b, to))| {
        let pair = topology.pair(a, b);
        let path = topo::between(facts, forest, topology, a, b).ok();
        let narrowest = path.as_ref().and_then(|path| path.bottleneck.known());
        Way {
            from,
            to,
            between: Between {
                nvlinks: pair.and_then(|pair| pair.nvlinks.known().copied()),
                pci: narrowest
                    .map(|narrowest| narrowest.bytes_per_second)
                    .filter(|rate| *rate > 0),
                class: pair
                    .and_then(|pair| pair.pci.known())
                    .map(|class| class.letters().to_owned()),
                nvml: granted(facts, from, to),
            },
        }
    })
    .collect()
}

/// What NVML says of one GPU reaching another.
fn granted(facts: &Facts, from: Bdf, to: Bdf) -> BTreeMap<String, String> {
    let Some(nvml) = facts.nvml() else {
        return BTreeMap::new();
    };
    let index = |bdf| nvml.gpus.iter().find(|gpu| gpu.bdf == bdf).map(|gpu| gpu.index);
    let pair = nvml
        .pairs
        .iter()
        .find(|pair| (Some(pair.from), Some(pair.to)) == (index(from), index(to)));
    let said = pair.into_iter().flat_map(|pair| &pair.p2p);
    said.filter_map(|(what, status)| Some((what.words().to_owned(), status.known()?.words().to_owned())))
        .collect()
}

/// A bar on a terminal, and nothing elsewhere.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {wide_msg}") {
        Ok(style) => bar.with_style(style),
        // A template that cannot be read is no reason not to probe.
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, subject: &str, step: &Step) {
    bar.set_prefix(subject.to_owned());
    bar.set_length(step.of);
    bar.set_position(step.done);
    bar.set_message(step.what.clone());
}
