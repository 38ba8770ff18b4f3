//! Counters of an end's port before and after a connection: what rose meanwhile. They count all traffic of the port.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use verbs::nic::{self, Reading};

use super::task::LocalEnd;
use crate::model::{CounterChange, counter, risen};
use crate::probe::events::{Event, Reporter};
use crate::probe::rendezvous::shortened;

/// Most counters of an end, so that a message of them fits into a frame, and most characters of what has one.
const MOST: usize = 256;
const MAX_NAME: usize = 64;

/// A counter that rose, as an end sends it to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rise {
    /// What has the counter: a port, a network interface, a PCI function.
    of: String,
    name: String,
    rise: u64,
}

/// The counters of a port at the start of a connection.
pub struct Baseline {
    device: String,
    port: u32,
    /// PCI functions of the path, whose errors count.
    functions: Vec<String>,
    before: Reading,
}

impl Baseline {
    /// Reads the counters of a place.
    pub fn read(place: &LocalEnd) -> Self {
        let mut baseline = Self {
            device: place.port.device.clone(),
            port: place.port.number.into(),
            functions: place.functions.clone(),
            before: Reading::new(),
        };
        if !place.port.simulated {
            baseline.before = baseline.reading();
        }
        baseline
    }

    /// Why a loss would not show; none if the port's counters can be read.
    pub fn missing(&self) -> Option<String> {
        let port = format!("{}:{}", self.device, self.port);
        let counters = self.before.get(&port)?;
        counters.is_empty().then(|| {
            format!("the counters of {port} cannot be read here, so a loss that the transport hides would not show")
        })
    }

    /// What rose since then.
    pub fn rises(&self) -> Vec<Rise> {
        if self.before.is_empty() {
            return Vec::new();
        }
        let after = self.reading();
        let rises = after.into_iter().flat_map(|(of, now)| {
            let risen = self.before.get(&of).map(|before| risen(before, &now));
            let rise = move |(name, rise)| Rise { of: of.clone(), name, rise };
            risen.unwrap_or_default().into_iter().map(rise)
        });
        rises.take(MOST).collect()
    }

    fn reading(&self) -> Reading {
        let port = nic::Port { root: Path::new("/"), device: &self.device, number: self.port };
        port.reading(&self.functions)
    }
}

/// Reports what rose at an end.
pub fn report_counters(
    reporter: &mut Reporter<'_>,
    subject: &str,
    is_remote: bool,
    rises: Vec<Rise>,
) -> io::Result<()> {
    let changes = changes(subject, is_remote, rises);
    if changes.is_empty() { Ok(()) } else { reporter.send(&Event::Counters(changes)) }
}

/// The counters of an end in a report. Names that are not in the table, as another machine may send, are left out.
fn changes(subject: &str, is_remote: bool, rises: Vec<Rise>) -> Vec<CounterChange> {
    let change = |rise: Rise| {
        let known = counter(&rise.name)?;
        Some(CounterChange {
            subject: subject.to_owned(),
            remote: is_remote,
            of: shortened(&rise.of, MAX_NAME),
            name: rise.name,
            rise: rise.rise,
            kind: known.kind,
            meaning: known.meaning.to_owned(),
            cause: known.cause.to_owned(),
        })
    };
    rises.into_iter().take(MOST).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CounterKind;

    #[test]
    fn unknown_names_are_left_out() {
        let rise =
            |of: &str, name: &str| Rise { of: of.to_owned(), name: name.to_owned(), rise: 3 };
        let rises = vec![
            rise("mlx5_0:1", "out_of_sequence"),
            rise("mlx5_0:1", "liar\u{1b}[2J"),
            rise("eth0\u{1b}", "rx_prio3_pause"),
        ];
        let found = changes("mlx5_0:1", true, rises);
        let summary: Vec<_> = found
            .iter()
            .map(|change| (change.of.as_str(), change.name.as_str(), change.kind))
            .collect();
        assert_eq!(
            summary,
            [
                ("mlx5_0:1", "out_of_sequence", CounterKind::Loss),
                ("eth0?", "rx_prio3_pause", CounterKind::Congestion),
            ]
        );
    }
}
