//! Latencies of streams and HCA queues, and the time that stream-driven messages save.

use super::grid::grid;
use super::lines::line_of;
use super::{figure_or_dash, size};
use crate::model::ProbeResult;
use crate::render::Style;

/// Name of a latency without messages, and its description.
const ROWS: [(&str, &str); 3] = [
    ("async.poll.host.latency", "a stream reads a word in host memory, and answers"),
    ("async.poll.gpu.latency", "a stream reads a word in GPU memory, and answers"),
    ("async.doorbell.latency", "the same, rings, and the HCA writes"),
];
/// Start of a name of a latency of messages, and its driver, with their description.
const MESSAGES: [(&str, &str, &str); 4] = [
    (LOOP, STREAM, "a message over the loop, by the stream"),
    (LOOP, CPU, "a message over the loop, by the CPU"),
    (PINGPONG, STREAM, "a message to another process, by the streams"),
    (PINGPONG, CPU, "a message to another process, by the CPUs"),
];
/// The end of a name of a kernel's latency and rate, with their description.
const KERNELS: [(&str, &str); 14] = [
    ("thread.latency", "a WRITE posted by a thread of a kernel"),
    ("warp.latency", "the same, by a warp"),
    ("block.latency", "the same, by a block of threads"),
    ("inline.latency", "the same, by a thread, with inline data"),
    ("blueflame.latency", "the same, rung by BlueFlame"),
    ("recordless.latency", "the same, by a thread, without a doorbell record"),
    ("assisted.latency", "a WRITE posted by a thread, rung by the CPU"),
    ("thread.rate", "by a thread"),
    ("warp.rate", "by a warp"),
    ("block.rate", "by a block of threads"),
    ("warp.inline.rate", "by a warp, with inline data"),
    ("warp.pairs4.rate", "by four warps on four queue pairs"),
    ("recordless.rate", "by a warp, without a doorbell record"),
    ("assisted.rate", "by a warp, rung by the CPU"),
];
const KERNEL: &str = "async.kernel.";

pub const LOOP: &str = "async.loopback";
pub const PINGPONG: &str = "async.pingpong";
pub const STREAM: &str = ".stream.latency";
pub const CPU: &str = ".cpu.latency";

/// The results of one GPU.
pub fn figures(results: &[&ProbeResult], style: Style) -> String {
    let measured = || {
        let results = results.iter().copied();
        results.filter(|result| result.median.is_some())
    };
    let mut rows = Vec::new();
    for (name, words) in ROWS {
        let found = measured().filter(|result| result.name == name);
        rows.extend(found.map(|result| row(result, words.to_owned())));
    }
    for (part, driver, words) in MESSAGES {
        for result in measured() {
            if let Some(details) = details(result, part, driver) {
                rows.push(row(result, format!("{words} ({details})")));
            }
        }
    }
    let mut rates = Vec::new();
    for (end, words) in KERNELS {
        let is_it = |result: &&ProbeResult| result.name.strip_prefix(KERNEL) == Some(end);
        for result in measured().filter(is_it) {
            let bytes = result.bytes.map(size).unwrap_or_default();
            let row = row(result, format!("{words} ({bytes})"));
            if end.ends_with("latency") { rows.push(row) } else { rates.push(row) }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = ["us", "by", "median", "p5", "p95", "p99", "max"].map(str::to_owned);
    let mut text = grid("from the CPU's store, or from message to message", &head, &rows, style);
    if !rates.is_empty() {
        let head = ["M/s", "by", "median", "p5", "p95", "p99", "max"].map(str::to_owned);
        text.push_str(&grid("WRITEs that a kernel posts, 32 per doorbell", &head, &rates, style));
    }
    let loops = |driver| {
        measured().filter_map(move |result| {
            let median = result.median.filter(|us| *us > 0.0)?;
            Some((details(result, LOOP, driver)?, median))
        })
    };
    let is_one = loops(STREAM).count() == 1;
    for (details, stream) in loops(STREAM) {
        let Some((_, cpu)) = loops(CPU).find(|(other, _)| *other == details) else {
            continue;
        };
        let which = if is_one { String::new() } else { format!(" ({details})") };
        let words = if stream < cpu {
            format!(
                "a message driven by the stream{which} takes {:.0} % of the time of one driven by the CPU",
                stream / cpu * 100.0
            )
        } else {
            format!(
                "a message driven by the stream{which} takes {:.1} times as long as one driven by the CPU",
                stream / cpu
            )
        };
        text.push_str(&line_of(&words, style));
    }
    text
}

fn row(result: &ProbeResult, what: String) -> Vec<String> {
    let figures = [result.median, result.p5, result.p95, result.p99, result.max];
    let mut row = vec![what, result.backend.clone()];
    row.extend(figures.map(figure_or_dash));
    row
}

/// Size, transport and order of the messages, if the result has this part and driver.
pub fn details(result: &ProbeResult, part: &str, driver: &str) -> Option<String> {
    let kind = result.name.strip_prefix(part)?.strip_suffix(driver)?;
    let mut words = Vec::from_iter(result.bytes.map(size));
    for kind in kind.split('.').filter(|kind| !kind.is_empty()) {
        words.push(match kind {
            "ud" => "datagram".to_owned(),
            "out-of-order" => "last first".to_owned(),
            other => other.to_owned(),
        });
    }
    Some(words.join(", "))
}
