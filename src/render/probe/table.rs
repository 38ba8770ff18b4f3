//! The report for people: failures, verified data, figures.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{failures, line_of, unexpected, verified};
use super::{INDENT, asynchronous, calls, copy, host, mp, mpi, opening, p2p, rdma, transfer};
use crate::model::figure;
use crate::model::{
    BackendOutcome, GIGABYTES_PER_SECOND, Outcome, ProbeKind, ProbeReport, ProbeResult,
    ProbeVerdict, ProbedGpu, WITHOUT_GPUDIRECT,
};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

/// Formats a report as a table.
pub fn table(report: &ProbeReport, style: Style) -> String {
    let mut page = opening(report, style);
    let known: BTreeSet<&str> = report.gpus.iter().map(|gpu| gpu.subject.as_str()).collect();
    // Results that belong neither to a GPU nor to a pair are failures.
    let belongs_to_chapter = |result: &ProbeResult| match report.probe {
        ProbeKind::P2p if matches!(result.verdict, ProbeVerdict::Ok) => true,
        ProbeKind::Rdma | ProbeKind::Mp | ProbeKind::Transfer => result.subject != "machine",
        ProbeKind::Mpi if result.subject.starts_with(mpi::PAIR) => true,
        // The trial's checks of messages to itself.
        ProbeKind::Mpi => result.verdict == ProbeVerdict::Ok,
        _ => known.contains(result.subject.as_str()),
    };
    let mut results: BTreeMap<&str, Vec<&ProbeResult>> = BTreeMap::new();
    for result in &report.results {
        results.entry(&result.subject).or_default().push(result);
    }
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for pair in &report.pairs {
        reached.entry(&pair.from).or_default().insert(&pair.subject);
    }
    let others = report.results.iter().filter(|result| !belongs_to_chapter(result));
    let failures = failures(&others.collect::<Vec<_>>(), "", style, true);
    if !failures.is_empty() {
        page.push_str(&format!("\n{failures}"));
    }
    if !matches!(
        report.probe,
        ProbeKind::Rdma | ProbeKind::Mp | ProbeKind::Mpi | ProbeKind::Transfer
    ) {
        for gpu in &report.gpus {
            page.push('\n');
            let own = results.get(gpu.subject.as_str()).map_or(&[][..], Vec::as_slice);
            let pairs = reached.get(gpu.subject.as_str()).into_iter().flatten();
            // Verified accesses of a GPU.
            let accesses = pairs.filter_map(|pair| results.get(pair)).flatten().copied();
            page.push_str(&chapter(report, gpu, own, accesses, style));
        }
    }
    page.push_str(&match report.probe {
        ProbeKind::P2p => p2p::figures(report, style),
        ProbeKind::Rdma => rdma::figures(report, style),
        ProbeKind::Mp => mp::figures(report, style),
        ProbeKind::Mpi => mpi::figures(report, style),
        ProbeKind::Transfer => transfer::figures(report, style),
        _ => String::new(),
    });
    page.push('\n');
    for note in &report.notes {
        page.push_str(&format!("{}\n", wrap(&printable(note), style.width, 0, "")));
    }
    page.push_str(&unexpected(&report.findings, style));
    if let Some(diff) = &report.baseline {
        page.push_str(&crate::render::diff::baseline(diff, style));
    }
    if let Some((tone, word, rest)) = verdict(report) {
        page.push_str(&format!(
            "{}{}\n",
            style.paint(tone, word),
            wrap(&rest, style.width, word.len(), INDENT)
        ));
    }
    if let Some(step) = &report.next_step {
        page.push_str(&format!("Next step: {}\n", style.command(&printable(&step.line()))));
    }
    page
}

fn chapter<'r>(
    report: &ProbeReport,
    gpu: &ProbedGpu,
    results: &[&'r ProbeResult],
    reached: impl Iterator<Item = &'r ProbeResult>,
    style: Style,
) -> String {
    let title = format!("{}: {}", printable(&gpu.subject), printable(&gpu.name));
    let title = wrap(&title, style.width, 0, INDENT);
    let mut text = format!("{}\n", style.paint(Tone::Strong, &title));
    for line in how(gpu) {
        text.push_str(&line_of(&line, style));
    }
    let all: Vec<&ProbeResult> = results.iter().copied().chain(reached).collect();
    text.push_str(&line_of(&verified(&all), style));
    text.push_str(&failures(results, INDENT, style, false));
    let nodes: BTreeSet<Option<u32>> = results.iter().map(|result| result.numa).collect();
    for node in nodes {
        let of_node: Vec<&ProbeResult> =
            results.iter().copied().filter(|result| result.numa == node).collect();
        text.push_str(&match report.probe {
            ProbeKind::Host => host::figures(&of_node, node, style),
            ProbeKind::Async => asynchronous::figures(&of_node, style),
            _ => copy::sweep(&of_node, node, style),
        });
    }
    text.push_str(&calls::costs(results, style));
    text
}

/// How its memory was mapped.
fn how(gpu: &ProbedGpu) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(backend) = &gpu.backend {
        let mut line = format!("mapped by {backend}");
        if let Some(mapping) = &gpu.mapping {
            line.push_str(&format!(", {}", mapping.replace('_', "-")));
        }
        if let (Some(write), Some(read)) = (&gpu.write_kernel, &gpu.read_kernel) {
            line.push_str(&format!("; copy kernels: {write} to the GPU, {read} from it"));
        }
        lines.push(line);
    }
    for choice in gpu.backends.iter().filter(|choice| choice.outcome == BackendOutcome::Refused) {
        lines.push(format!("not by {}: {}", choice.backend, choice.why));
    }
    let usable = gpu.backends.iter();
    for choice in
        usable.filter(|choice| choice.outcome == BackendOutcome::Usable && gpu.backend.is_none())
    {
        lines.push(format!("{} also works: {}", choice.backend, choice.why));
    }
    let link =
        gpu.link.map(|link| format!("its PCI Express link carries {:.1} GB/s", link as f64 / 1e9));
    let node = gpu.numa.map(|node| format!("it is on NUMA node {node}"));
    let place: Vec<String> = link.into_iter().chain(node).collect();
    if !place.is_empty() {
        lines.push(place.join("; "));
    }
    lines
}

/// The last line: the verdict, a word and the rest; none if a note says it.
pub fn verdict(report: &ProbeReport) -> Option<(Tone, &'static str, String)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for result in &report.results {
        *counts.entry(result.verdict.word(result.median.is_some())).or_default() += 1;
    }
    let count = |word: &str| counts.get(word).copied().unwrap_or(0);
    let failed = || {
        report.results.iter().filter(|result| {
            result.verdict == ProbeVerdict::Wrong
                || (result.verdict == ProbeVerdict::Impossible && result.required)
        })
    };
    let unexpected = report.findings.iter().any(|finding| finding.outcome == Outcome::Fail);
    let is_unmeasured = |result: &ProbeResult| result.verdict == ProbeVerdict::NotMeasured;
    if !report.results.is_empty() && report.results.iter().all(is_unmeasured) {
        // A note gives the reason.
        return None;
    }
    let regressed = report.baseline.iter().flat_map(|diff| &diff.changes);
    let regressed =
        regressed.filter_map(|change| change.figure.as_ref()).any(|figure| figure.regression);
    let is_staged_alone = failed().next().is_some()
        && failed().all(|result| result.name == WITHOUT_GPUDIRECT)
        && !unexpected
        && !regressed;
    if is_staged_alone {
        let rest = ": the data is right, but without GPUDirect RDMA (staged)".to_owned();
        return Some((Tone::Bad, "FAILED", rest));
    }
    let failed = failed().next().is_some() || unexpected || regressed;
    let (tone, word) = match (failed, report.complete) {
        (true, _) => (Tone::Bad, "failed"),
        (false, false) => (Tone::Fair, "incomplete"),
        (false, true) => (Tone::Good, "passed"),
    };
    let sums: Vec<String> = ["ok", "slow", "wrong", "could not run", "impossible"]
        .into_iter()
        .filter(|word| *word != "impossible" || count(word) > 0)
        .map(|word| format!("{} {word}", count(word)))
        .collect();
    let best: Vec<String> = bests(report.probe)
        .into_iter()
        .filter_map(|(name, words)| {
            let rates = report.results.iter().filter(|result| result.name == name);
            let best = rates
                .filter(|result| {
                    result.unit == GIGABYTES_PER_SECOND
                        && result.verdict != ProbeVerdict::Impossible
                })
                .filter_map(|result| result.median)
                .max_by(f64::total_cmp)?;
            Some(format!("up to {best:.1} GB/s {words}"))
        })
        .collect();
    let best = if best.is_empty() { String::new() } else { format!("; {}", best.join(", ")) };
    let rest = format!(": {}{best}", sums.join(", "));
    Some((tone, word, rest))
}

/// The most important figures: names, and direction of the transfer.
fn bests(probe: ProbeKind) -> Vec<(String, &'static str)> {
    use figure::mpi::MessageMemory;
    use figure::{Direction, transfer};
    let of_directions = |name: &dyn Fn(Direction) -> String| {
        Direction::BOTH.map(|direction| (name(direction), direction.words())).to_vec()
    };
    match probe {
        ProbeKind::Host => {
            of_directions(&|direction| figure::host::HostMemoryKind::Pinned.bandwidth(direction))
        }
        ProbeKind::Rdma => vec![
            (figure::rdma::WRITE.name.to_owned(), "written by the NIC"),
            (figure::rdma::READ.name.to_owned(), "read by the NIC"),
        ],
        ProbeKind::Transfer => vec![
            (transfer::HOST.bandwidth.name.to_owned(), "of host memory"),
            (transfer::V3.bandwidth.name.to_owned(), "with GPUDirect RDMA"),
        ],
        ProbeKind::Mpi => vec![
            (MessageMemory::Host.bandwidth().name.to_owned(), "of host memory"),
            (MessageMemory::Gpu.bandwidth().name.to_owned(), "of GPU memory"),
        ],
        ProbeKind::P2p => vec![(figure::p2p::WRITE.name.to_owned(), "from GPU to GPU")],
        _ => of_directions(&|direction| figure::copy::MAPPING.bandwidth(direction)),
    }
}
