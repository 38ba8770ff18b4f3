//! Latencies of streams and HCA queues, and the time that stream-driven messages save.

use super::grid::grid;
use super::lines::line_of;
use super::{figure_or_dash, size};
use crate::model::figure::asynchronous::{KERNELS, MessageDriver, MessagePath, WORDS};
use crate::model::{MICROSECONDS, ProbeResult};
use crate::render::Style;

/// The results of one GPU.
pub fn figures(results: &[&ProbeResult], style: Style) -> String {
    let measured = || {
        let results = results.iter().copied();
        results.filter(|result| result.median.is_some())
    };
    let mut rows = Vec::new();
    for kind in WORDS {
        let found = measured().filter(|result| result.name == kind.name);
        rows.extend(found.map(|result| row(result, kind.heading.to_owned())));
    }
    for path in MessagePath::ALL {
        for driver in MessageDriver::ALL {
            for result in measured() {
                if let Some(details) = details(result, path, driver) {
                    let words = path.heading(driver);
                    rows.push(row(result, format!("{words} ({details})")));
                }
            }
        }
    }
    let mut rates = Vec::new();
    for kind in KERNELS {
        for result in measured().filter(|result| result.name == kind.name) {
            let bytes = result.bytes.map(size).unwrap_or_default();
            let row = row(result, format!("{} ({bytes})", kind.heading));
            if kind.unit == MICROSECONDS { rows.push(row) } else { rates.push(row) }
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
            Some((details(result, MessagePath::Loopback, driver)?, median))
        })
    };
    let is_one = loops(MessageDriver::Stream).count() == 1;
    for (details, stream) in loops(MessageDriver::Stream) {
        let Some((_, cpu)) = loops(MessageDriver::Cpu).find(|(other, _)| *other == details) else {
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

/// Size, transport and order of the messages, if the result has this path and driver.
pub fn details(result: &ProbeResult, path: MessagePath, driver: MessageDriver) -> Option<String> {
    let kind = path.details(driver, &result.name)?;
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
