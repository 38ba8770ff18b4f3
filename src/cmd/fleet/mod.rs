//! `gdr fleet`: the reports of many nodes in one.

mod child;
mod history;
mod links;
mod nodes;
mod report;

use std::io::Write;

use anyhow::bail;

use crate::cli::{Fleet, FleetFormat, FleetProbeKind, FleetWhat, Global, style};
use crate::fleet::exit_code;
use crate::model::{FLEET_SCHEMA, FleetReport};
use crate::output::{self, Document};
use crate::render::{comparison as render_comparison, fleet as render, html, junit};

pub fn run(
    global: &Global,
    options: &Fleet,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    match &options.what {
        FleetWhat::Report(options) => report::run(global, options, out, err),
        FleetWhat::History(options) => history::run(global, options, out),
        FleetWhat::Doctor(options) => nodes::run(global, &["doctor"], options, out, err),
        FleetWhat::Topo(options) => nodes::run(global, &["topo"], options, out, err),
        FleetWhat::Probe(options) if options.probe == FleetProbeKind::Rdma => {
            links::run(global, options, out, err)
        }
        FleetWhat::Probe(options) => {
            if options.topology.is_some() {
                bail!("--topology is an option of gdr fleet probe rdma");
            }
            let quick = options.quick.then_some("--quick");
            let command = ["probe", options.probe.name()].into_iter().chain(quick);
            let command: Vec<&str> = command.collect();
            nodes::run(global, &command, &options.run, out, err)
        }
    }
}

/// Prints a report; the exit code follows from it.
fn print(
    global: &Global,
    report: &FleetReport,
    format: FleetFormat,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    match format {
        FleetFormat::Table => {
            let style = style(global.color);
            let mut text = render::table(report, style);
            if let Some(comparison) = &report.comparison {
                text.push('\n');
                text.push_str(&render_comparison::table(comparison, true, style));
            }
            super::print(out, &text)?
        }
        FleetFormat::Json => super::print_with(out, |out| {
            output::write_pretty(out, &Document::new(FLEET_SCHEMA, report))
        })?,
        FleetFormat::Html => super::print(out, &html::fleet(report, &output::now()))?,
        FleetFormat::Junit => super::print(out, &junit::fleet(report))?,
    }
    Ok(exit_code(report))
}
