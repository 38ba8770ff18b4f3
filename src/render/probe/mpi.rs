//! Results between ranks of MPI: the library, its transports, latency and bandwidth by size.

use super::by_size::medians_by_size;
use super::lines::{failures, line_of, verified};
use super::{INDENT, subjects};
use crate::model::figure::mpi::MessageMemory;
use crate::model::{ProbeReport, ProbeResult, ProbedMpi};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

const TITLE: &str = "half of the round-trip time, and bandwidth of 64 messages in flight";
/// Subjects that are pairs of ranks begin so.
pub const PAIR: &str = "rank 0 > ";

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let mut text = report.mpi.as_ref().map_or_else(String::new, |mpi| library(mpi, style));
    for subject in pairs(report) {
        let results: Vec<&ProbeResult> =
            report.results.iter().filter(|result| result.subject == subject).collect();
        let title = wrap(&printable(subject), style.width, 0, INDENT);
        text.push_str(&format!("\n{}\n", style.paint(Tone::Strong, &title)));
        let same_host = subject.ends_with("(same host)");
        let transports = report.mpi.iter().flat_map(|mpi| &mpi.transports);
        for transport in transports.filter(|transport| transport.same_host == same_host) {
            let memory = if transport.gpu { "GPU" } else { "host" };
            let line = format!(
                "{memory} memory goes by {} ({})",
                transport.names.join(", "),
                transport.layer
            );
            text.push_str(&line_of(&line, style));
        }
        text.push_str(&line_of(&verified(&results), style));
        text.push_str(&failures(&results, INDENT, style, false));
        let columns = [MessageMemory::latency, MessageMemory::bandwidth]
            .map(|figure| MessageMemory::ALL.map(figure));
        text.push_str(&medians_by_size(TITLE, &results, columns.as_flattened(), style));
    }
    text
}

/// The pairs of ranks, in order.
pub fn pairs(report: &ProbeReport) -> Vec<&str> {
    let mut subjects = subjects(report);
    subjects.retain(|subject| subject.starts_with(PAIR));
    subjects
}

fn library(mpi: &ProbedMpi, style: Style) -> String {
    let file = mpi.file.as_deref().unwrap_or("no file");
    let mut lines = vec![format!("{file}, {}", mpi.chosen)];
    if mpi.ranks > 0 {
        let hosts = match mpi.hosts {
            1 => "one host".to_owned(),
            hosts => format!("{hosts} hosts"),
        };
        let by = mpi.launcher.as_ref();
        let by = by.map_or_else(String::new, |launcher| format!(", started by {launcher}"));
        lines.push(format!("{} ranks on {hosts}{by}", mpi.ranks));
    }
    if let (Some(query), Some(claims)) = (&mpi.query, mpi.claims_gpu) {
        let answer = if claims { "supported" } else { "not supported" };
        lines.push(format!("GPU pointers: {query} says {answer}"));
    }
    let taken = match mpi.takes_gpu {
        Some(true) => Some("GPU pointers: taken; a message of GPU memory arrived unchanged"),
        Some(false) => Some("GPU pointers: NOT taken"),
        None => None,
    };
    lines.extend(taken.map(str::to_owned));
    let title = wrap(&printable(&mpi.version), style.width, 0, INDENT);
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, &title));
    lines.iter().for_each(|line| text.push_str(&line_of(line, style)));
    text
}
