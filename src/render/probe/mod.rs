//! Formats of a probe report: table, terminal chart and SVG. The JSON is the report itself.

mod asynchronous;
mod by_size;
mod calls;
mod chart;
mod copy;
mod copy_chart;
mod counters;
mod curve;
#[cfg(test)]
mod curve_tests;
mod grid;
mod host;
mod lines;
mod mp;
mod mpi;
mod p2p;
mod panel;
mod picture;
mod rdma;
#[cfg(test)]
mod rdma_tests;
#[cfg(test)]
mod sample;
mod table;
mod test_list;
#[cfg(test)]
mod tests;
mod transfer;

pub use curve::curve;
pub use picture::svg;
pub use table::table;
pub(in crate::render) use table::verdict;
pub use test_list::{ListedTest, test_list};

use std::collections::BTreeSet;

use super::Style;
use super::text::{Tone, printable, wrap};
use crate::model::{ProbeReport, size};

const INDENT: &str = "  ";

/// The first lines of a report: the machine, and whether it is simulated.
fn opening(report: &ProbeReport, style: Style) -> String {
    let line = |tone: Tone, text: &str| {
        format!("{}\n", style.paint(tone, &wrap(text, style.width, 0, INDENT)))
    };
    let simulated = report.simulated.then(|| line(Tone::Fair, SIMULATED));
    line(Tone::Strong, &headline(report)) + &simulated.unwrap_or_default()
}

/// First line of every output of a simulated run.
pub(in crate::render) const SIMULATED: &str =
    "SIMULATED: no GPU took part; all figures are for host memory.";

/// Description of the machine on one line.
fn headline(report: &ProbeReport) -> String {
    let host = &report.host;
    let parts: Vec<String> = [&host.name, &host.os, &host.kernel]
        .into_iter()
        .flatten()
        .map(|part| printable(part))
        .collect();
    format!("gdr probe {}: {}", report.probe.name(), parts.join(", "))
}

/// What was tested, in the order of the results.
fn subjects(report: &ProbeReport) -> Vec<&str> {
    let mut known = BTreeSet::new();
    let subjects = report.results.iter().map(|result| result.subject.as_str());
    subjects.filter(|subject| known.insert(*subject)).collect()
}

/// Formats an amount, rounded down to a tenth of its unit.
fn amount(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// Formats a figure with three significant digits.
fn figure(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A figure, or a dash if there is none.
pub(in crate::render) fn figure_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

#[cfg(test)]
mod words {
    use super::*;

    #[test]
    fn formats_sizes_and_figures() {
        for (bytes, text) in [
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (65536, "64 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 20) + 1, "1048577 B"),
            (6 << 30, "6 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(amount(1536), "1.5 KiB");
        assert_eq!(amount(u64::MAX), "16777215.9 TiB");
        for (value, text) in [(0.1553, "0.155"), (1.04, "1.04"), (60.25, "60.2"), (1306.4, "1306")]
        {
            assert_eq!(figure(value), text);
        }
    }
}
