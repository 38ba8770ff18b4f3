//! Results of RDMA transfers: ends, latency and bandwidth by size, and GPUs against NICs.

use super::by_size::{bandwidths_by_size, latencies_by_size, medians_by_size, small_figure};
use super::counters::counters;
use super::grid::grid;
use super::lines::{failures, line_of, verified};
use super::{INDENT, size};
use crate::model::figure::rdma::STRICT;
use crate::model::figure::{FigureKind, rdma};
use crate::model::{
    BackendOutcome, PacketSettings, ProbeReport, ProbeResult, ProbeVerdict, ProbedEnd, RdmaPath,
    VirtualFunction,
};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

/// A matrix with fewer rows is shown as a list.
const MATRIX: usize = 2;

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    let named = report.ends.iter().filter(|end| !end.remote).map(|end| end.subject.as_str());
    for subject in report.results.iter().map(|result| result.subject.as_str()).chain(named) {
        let is_begun = |known: &&str| known.split(" -> ").next() == Some(subject);
        if subject != "machine" && !subjects.contains(&subject) && !subjects.iter().any(is_begun) {
            subjects.push(subject);
        }
    }
    let mut text = String::new();
    for subject in subjects {
        let results: Vec<&ProbeResult> =
            report.results.iter().filter(|result| result.subject == subject).collect();
        text.push_str(&chapter(report, subject, &results, style));
    }
    text + &matrix(report, style)
}

fn chapter(report: &ProbeReport, subject: &str, results: &[&ProbeResult], style: Style) -> String {
    let title = wrap(&printable(subject), style.width, 0, INDENT);
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, &title));
    text.push_str(&describe_ends(report, subject, style));
    if let Some(line) = packets(report) {
        text.push_str(&line_of(&line, style));
    }
    text.push_str(&line_of(&verified(results), style));
    text.push_str(&failures(results, INDENT, style, false));
    text.push_str(&counters(report, subject, style));
    text.push_str(&latencies(results, style));
    text.push_str(&bandwidths(results, style));
    text
}

/// The ports and the memory of a connection.
pub fn describe_ends(report: &ProbeReport, subject: &str, style: Style) -> String {
    let mut text = String::new();
    let mut add = |line: &str| text.push_str(&line_of(line, style));
    let (local, remote) = subject.split_once(" -> ").unwrap_or((subject, subject));
    let ends = |remote: bool, subject: &str| {
        let is_end = move |end: &&ProbedEnd| end.remote == remote && end.subject == subject;
        report.ends.iter().find(is_end)
    };
    if let Some(local) = ends(false, local) {
        add(&place(local, if remote == local.subject { "both ends" } else { "local" }));
        reach(local).iter().for_each(|line| add(line));
    }
    if let Some(remote) = ends(true, remote).filter(|remote| remote.subject != local) {
        add(&place(remote, "remote"));
        reach(remote).iter().for_each(|line| add(line));
    }
    text
}

/// A port with its memory.
fn place(end: &ProbedEnd, which: &str) -> String {
    let mut parts = vec![format!("{which}: {}:{}", end.device, end.port), end.link_layer.clone()];
    parts.extend(end.virtual_function.map(VirtualFunction::phrase));
    if let (Some(index), Some(kind)) = (end.gid_index, &end.gid_kind) {
        parts.push(if kind == &end.link_layer {
            format!("GID {index}")
        } else {
            format!("GID {index} ({kind})")
        });
    }
    parts.push(match end.srd {
        // The MTU of verbs says less than the longest message.
        Some(srd) => format!("SRD, messages of {} bytes", srd.largest_message),
        None => format!("MTU {}", end.mtu),
    });
    if let Some(srd) = end.srd {
        let has = |has: bool| if has { "" } else { "no " };
        let (read, write) = (has(srd.rdma_read), has(srd.rdma_write));
        parts.push(format!("{read}RDMA read, {write}RDMA write"));
    }
    // The default partition is left out.
    if let Some(pkey) = end.pkey.filter(|pkey| pkey & 0x7fff != 0x7fff) {
        parts.push(format!("P_Key {pkey:#06x}"));
    }
    if let Some(rate) = end.rate {
        parts.push(format!("{:.1} GB/s", rate as f64 / 1e9));
        if let Some(ports) = end.bonded_ports {
            let total = rate as f64 * f64::from(ports) / 1e9;
            parts.push(format!("{total:.1} GB/s if {ports} ports are bonded"));
        }
    }
    let gpu = end.gpu.as_deref().unwrap_or("a GPU");
    parts.push(match end.memory.as_str() {
        "host" => "host memory".to_owned(),
        "huge" => "host memory, huge pages".to_owned(),
        "pinned" => format!("host memory, pinned by {gpu}"),
        "sim" => "memory of a SIMULATED GPU".to_owned(),
        _ => format!("memory of {gpu}"),
    });
    match (end.cpu_node, end.memory_node) {
        (Some(cpus), Some(memory)) if cpus != memory => {
            parts.push(format!("CPUs of node {cpus}, its memory on node {memory}"));
        }
        (Some(cpus), _) => parts.push(format!("CPUs of node {cpus}")),
        (None, _) => {}
    }
    parts.join(", ")
}

/// How a NIC reaches GPU memory.
fn reach(end: &ProbedEnd) -> Vec<String> {
    let mut lines = Vec::new();
    let path = match (&end.class, end.path) {
        (Some(class), Some(path)) => format!("; path {class} with {:.1} GB/s", path as f64 / 1e9),
        (Some(class), None) => format!("; path {class}"),
        (None, Some(path)) => format!("; path with {:.1} GB/s", path as f64 / 1e9),
        (None, None) => String::new(),
    };
    match end.memory_path.as_deref() {
        Some("staged") => {
            lines.push(format!("NO GPUDirect RDMA: staged through pinned memory{path}"))
        }
        Some("simulated") => {
            lines.push(format!("the NIC accesses the host memory that stands for the GPU's{path}"))
        }
        Some(memory_path) => {
            let expected = match end.rdma_path {
                Some(expected @ (RdmaPath::DataDirect | RdmaPath::C2c)) => {
                    format!("; expected over {}", expected.phrase())
                }
                Some(RdmaPath::Pcie) | None => String::new(),
            };
            let function = end.data_direct.as_ref().map(|function| {
                let bridges = function.bridges.iter().map(|bridge| format!("{bridge} > "));
                format!(" by {}{}", bridges.collect::<String>(), function.bdf)
            });
            let function = function.unwrap_or_default();
            lines.push(format!("GPUDirect RDMA with {memory_path}{function}{path}{expected}"));
        }
        None => {}
    }
    let refused = end
        .memory_paths
        .iter()
        .filter(|memory_path| memory_path.outcome == BackendOutcome::Refused);
    lines.extend(
        refused.map(|memory_path| format!("not by {}: {}", memory_path.backend, memory_path.why)),
    );
    lines
}

fn latencies(results: &[&ProbeResult], style: Style) -> String {
    let title = "latency with on-demand paging, us";
    latencies_by_size(results, &rdma::LATENCIES, style)
        + &medians_by_size(title, results, &rdma::PAGED_LATENCIES, style)
}

fn bandwidths(results: &[&ProbeResult], style: Style) -> String {
    let mut text = bandwidths_by_size(results, &rdma::BANDWIDTHS, style);
    for line in orderings(results) {
        text.push_str(&line_of(&line, style));
    }
    let rate = results.iter().find(|result| result.name == rdma::WRITE_RATE);
    if let Some((rate, bytes)) = rate.and_then(|rate| Some((rate.median?, rate.bytes?))) {
        let line =
            format!("{} million writes of {bytes} bytes per second", small_figure(Some(rate)));
        text.push_str(&line_of(&line, style));
    }
    text
}

/// What relaxed ordering gains, at the largest message of each bandwidth that was measured both ways.
fn orderings(results: &[&ProbeResult]) -> Vec<String> {
    let gain = |FigureKind { name, heading, .. }: FigureKind| {
        let relaxed = name.strip_suffix(STRICT)?;
        let largest = |name: &str| {
            let found = results.iter().filter(|result| result.name == name);
            found.max_by_key(|result| result.bytes).copied()
        };
        let (strict, relaxed) = (largest(name)?, largest(relaxed)?);
        let ratio = relaxed.median? / strict.median.filter(|median| *median > 0.0)?;
        let word = heading.trim_end_matches(", strict");
        Some(format!(
            "relaxed ordering: {ratio:.2} times the bandwidth of strict order ({word}, {})",
            size(relaxed.bytes?)
        ))
    };
    rdma::BANDWIDTHS.into_iter().filter_map(gain).collect()
}

/// How packets are addressed and retried, where that is not the default.
fn packets(report: &ProbeReport) -> Option<String> {
    let packets = report.packets?;
    let mut parts = Vec::new();
    if packets.traffic_class != 0 {
        let (class, dscp) = (packets.traffic_class, packets.traffic_class >> 2);
        parts.push(format!("traffic class {class} (DSCP {dscp})"));
    }
    let mut add = |is_set: bool, text: String| {
        if is_set {
            parts.push(text);
        }
    };
    let default = PacketSettings::DEFAULT;
    add(
        packets.service_level != default.service_level,
        format!("service level {}", packets.service_level),
    );
    add(packets.hop_limit != default.hop_limit, format!("hop limit {}", packets.hop_limit));
    add(packets.flow_label != default.flow_label, format!("flow label {:#x}", packets.flow_label));
    if let Some(rate) = packets.static_rate {
        add(true, format!("at most {rate} Gb/s"));
    }
    add(packets.timeout != default.timeout, format!("ack timeout {}", packets.timeout));
    add(packets.retries != default.retries, format!("{} retries", packets.retries));
    add(
        packets.rnr_retries != default.rnr_retries,
        format!("{} retries after RNR", packets.rnr_retries),
    );
    add(packets.rnr_timer != default.rnr_timer, format!("RNR timer {}", packets.rnr_timer));
    (!parts.is_empty()).then(|| format!("packets: {}", parts.join(", ")))
}

/// Writes of the largest message, GPUs against NICs.
fn matrix(report: &ProbeReport, style: Style) -> String {
    let names = [rdma::WRITE.name, rdma::STAGED.name];
    let is_cell = |result: &&ProbeResult| {
        names.contains(&result.name.as_str()) && !result.subject.contains(" -> ")
    };
    let cells: Vec<(&str, &str, &ProbeResult)> = report
        .results
        .iter()
        .filter(is_cell)
        .filter_map(|result| {
            let (gpu, nic) = result.subject.split_once(' ')?;
            Some((gpu, nic, result))
        })
        .collect();
    let gpus = distinct(cells.iter().map(|(gpu, ..)| *gpu));
    let nics = distinct(cells.iter().map(|(_, nic, _)| *nic));
    if gpus.len() * nics.len() < MATRIX || nics.len() < MATRIX {
        return String::new();
    }
    let head: Vec<String> =
        std::iter::once("").chain(nics.iter().copied()).map(printable).collect();
    let row = |gpu: &&str| {
        let cell = |nic: &&str| {
            let found = cells.iter().filter(|(a, b, _)| (a, b) == (gpu, nic));
            let best = found.map(|(.., result)| *result).max_by_key(|result| result.bytes);
            let Some(result) = best else {
                return "-".to_owned();
            };
            let subject = format!("{gpu} {nic}");
            let class = report
                .ends
                .iter()
                .find(|end| end.subject == subject)
                .and_then(|end| end.class.clone());
            let class = class.map_or_else(String::new, |class| format!(" {class}"));
            match result.verdict {
                ProbeVerdict::Wrong => format!("WRONG{class}"),
                _ => format!("{}{class}", small_figure(result.median)),
            }
        };
        std::iter::once(printable(gpu)).chain(nics.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = gpus.iter().map(row).collect();
    grid("GB/s, writes of the largest message, and path class", &head, &rows, style)
}

fn distinct<'s>(names: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
