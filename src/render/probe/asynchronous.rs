//! Latencies of streams and HCA queues, and the time that stream-driven messages save.

use super::grid::grid;
use super::lines::line_of;
use super::{figure_or_dash, size};
use crate::model::ProbeResult;
use crate::render::Style;

/// Name of a latency and its description.
const ROWS: [(&str, &str); 7] = [
    (
        "async.poll.host.latency",
        "a stream reads a word in host memory, and answers",
    ),
    (
        "async.poll.gpu.latency",
        "a stream reads a word in GPU memory, and answers",
    ),
    (
        "async.doorbell.latency",
        "the same, rings, and the HCA writes",
    ),
    (
        "async.loopback.stream.latency",
        "a message over the loop, by the stream",
    ),
    (
        "async.loopback.cpu.latency",
        "a message over the loop, by the CPU",
    ),
    (
        "async.pingpong.stream.latency",
        "a message to another process, by the streams",
    ),
    (
        "async.pingpong.cpu.latency",
        "a message to another process, by the CPUs",
    ),
];

/// The results of one GPU.
pub fn figures(results: &[&ProbeResult], style: Style) -> String {
    let find = |name: &str| {
        let mut results = results.iter().copied();
        results.find(|result| result.median.is_some() && result.name == name)
    };
    let rows: Vec<Vec<String>> = ROWS
        .iter()
        .filter_map(|(name, words)| Some((find(name)?, words)))
        .map(|(result, words)| {
            let what = match result.bytes {
                Some(bytes) if name_is_of_messages(&result.name) => {
                    format!("{words} ({})", size(bytes))
                }
                _ => (*words).to_owned(),
            };
            let figures = [result.median, result.p5, result.p95, result.p99, result.max];
            let mut row = vec![what, result.backend.clone()];
            row.extend(figures.map(figure_or_dash));
            row
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["us", "by", "median", "p5", "p95", "p99", "max"].map(str::to_owned);
    let mut text = grid(
        "from the CPU's store, or from message to message",
        &head,
        &rows,
        style,
    );
    let median = |name: &str| {
        find(name)
            .and_then(|result| result.median)
            .filter(|us| *us > 0.0)
    };
    if let (Some(stream), Some(cpu)) = (
        median("async.loopback.stream.latency"),
        median("async.loopback.cpu.latency"),
    ) {
        let words = match stream < cpu {
            true => format!(
                "a message driven by the stream takes {:.0} % of the time of one driven by the CPU",
                stream / cpu * 100.0
            ),
            false => format!(
                "a message driven by the stream takes {:.1} times as long as one driven by the CPU",
                stream / cpu
            ),
        };
        text.push_str(&line_of(&words, style));
    }
    text
}

fn name_is_of_messages(name: &str) -> bool {
    name.starts_with("async.loopback.") || name.starts_with("async.pingpong.")
}
