//! `gdr probe`.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::machine::Machine;
use crate::cli::{CopyBackend, CopyProbe, Global, NumaChoice, Probe, ProbeFormat, ProbeWhat, style};
use crate::collect::Want;
use crate::model::{Fact, Facts, Kind, NumaNode, ProbeReport};
use crate::probe::copy::{self, Depth, Nodes, Options, Place};
use crate::probe::events::Step;
use crate::probe::verdict::{exit_code, failures};
use crate::probe::watch::Interrupts;
use crate::render::probe as render;
use crate::topo::{self, Forest};

/// Probes.
pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Probe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    match &options.what {
        ProbeWhat::Copy(options) => copy(machine, global, options, out, err),
    }
}

fn copy(
    machine: &Machine,
    global: &Global,
    wanted: &CopyProbe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let facts = machine.facts(Want::default());
    super::notes(global, machine.is_imported(), &facts, err);
    let promised = promised(machine, &facts);
    if !machine.is_live() {
        if wanted.sim {
            bail!("--sim moves bytes on the machine gdr runs on: it cannot be had with --sysroot or --from");
        }
        if matches!(wanted.format, ProbeFormat::Curve | ProbeFormat::Svg) {
            bail!("nothing is measured with --sysroot or --from, so there is no curve: take --format table or json");
        }
        let report = copy::expected(&options(global, wanted)?, &promised)?;
        super::print(out, &text(&report, global, wanted.format)?)?;
        return Ok(exit_code(&report));
    }
    let options = options(global, wanted)?;
    let interrupts = Interrupts::catch()?;
    let bar = bar();
    let report = copy::run(&options, &promised, &interrupts, &mut |subject, step| {
        show(&bar, subject, step)
    });
    bar.finish_and_clear();
    let report = report?;
    if matches!(wanted.format, ProbeFormat::Curve | ProbeFormat::Svg) {
        // A curve has no room for what failed, and nobody should have to miss it.
        for result in failures(&report) {
            let reason = result.reason.as_deref().unwrap_or("no reason is known");
            super::remark(err, &format!("{}: {}: {reason}", result.subject, result.name));
        }
    }
    super::print(out, &text(&report, global, wanted.format)?)?;
    Ok(exit_code(&report))
}

fn text(report: &ProbeReport, global: &Global, format: ProbeFormat) -> anyhow::Result<String> {
    Ok(match format {
        ProbeFormat::Table => render::table(report, style(global.color)),
        ProbeFormat::Curve => render::curve(report, style(global.color)),
        ProbeFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        ProbeFormat::Svg => render::svg(report),
    })
}

fn options(global: &Global, wanted: &CopyProbe) -> anyhow::Result<Options> {
    if let Some(kernel) = &wanted.kernel {
        let known = copy::kernels();
        if !known.contains(&kernel.as_str()) {
            bail!(
                "there is no copy kernel '{kernel}'; this machine has: {}",
                known.join(", ")
            );
        }
    }
    let depth = match (wanted.quick, wanted.full) {
        (true, _) => Depth::Quick,
        (_, true) => Depth::Full,
        _ => Depth::Default,
    };
    let mut sizes: Vec<usize> = wanted.size.iter().map(|size| size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    Ok(Options {
        sim: wanted.sim,
        gpus: wanted.gpu.clone(),
        depth,
        backend: wanted.backend.map(|backend| {
            match backend {
                CopyBackend::Gdrdrv => "gdrdrv",
                CopyBackend::Dmabuf => "dmabuf",
                CopyBackend::Rm => "rm",
            }
            .to_owned()
        }),
        kernel: wanted.kernel.clone(),
        nodes: match wanted.numa {
            Some(NumaChoice::All) => Nodes::All,
            Some(NumaChoice::Near) => Nodes::Near,
            Some(NumaChoice::Node(node)) => Nodes::One(node),
            None if depth == Depth::Quick => Nodes::Near,
            None => Nodes::All,
        },
        sizes,
        patience: Duration::from_secs(global.library_timeout),
    })
}

/// What the PCI tree promises.
fn promised(machine: &Machine, facts: &Facts) -> copy::Machine {
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
        cpus: copy::usable(&node.cpus),
    };
    copy::Machine {
        host: facts.host.clone(),
        gpus: gpus.collect(),
        nodes: nodes.map(within_reach).collect(),
    }
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
