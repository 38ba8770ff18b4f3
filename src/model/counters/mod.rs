//! The counters of ports, network interfaces and PCI functions that say more than how much traffic there was: what each means, and what
//! usually makes it rise. One table, for the probe, the checks and the documents.

mod table;
mod window;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use table::COUNTERS;
pub use window::{is_flap, is_high, risen_since, span};

/// A counter.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Name in sysfs or of `ethtool -S`; `*` stands for a number, such as that of a priority.
    pub name: &'static str,
    pub kind: CounterKind,
    pub meaning: &'static str,
    /// The usual cause, and what to do.
    pub cause: &'static str,
    /// Where the name and the meaning are published.
    pub source: &'static str,
}

/// What a counter is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CounterKind {
    /// Packets were lost, discarded or out of order; the transport repeats them, so a program sees only a lower speed.
    Loss,
    /// Bits were wrong on the link, or it went down.
    Link,
    /// Errors of PCI Express.
    Bus,
    /// Requests failed.
    Failure,
    /// A receiver had no buffer ready; the sender waits and repeats.
    Receiver,
    /// A queue was full: marked packets, notifications, pause frames.
    Congestion,
}

impl CounterKind {
    /// True if a rising counter is a fault; congestion and busy receivers are normal to a degree.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Receiver | Self::Congestion)
    }

    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Loss => "hidden loss",
            Self::Link => "link errors",
            Self::Bus => "PCI Express errors",
            Self::Failure => "failed requests",
            Self::Receiver => "receiver not ready",
            Self::Congestion => "congestion",
        }
    }
}

/// The entry of a counter's name.
pub fn counter(name: &str) -> Option<&'static Counter> {
    COUNTERS.iter().find(|counter| matches(counter.name, name))
}

/// True if a name fits a pattern, in which `*` stands for digits.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, end)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let number = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The counters of the table that rose between two readings, with their differences. One that fell was reset, or wrapped.
pub fn risen(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let rise = |(name, after): (&String, &u64)| {
        let rise = after.checked_sub(*before.get(name)?)?;
        (rise > 0 && counter(name).is_some()).then(|| (name.clone(), rise))
    };
    after.iter().filter_map(rise).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_patterns() {
        for (name, kind) in [
            ("out_of_sequence", Some(CounterKind::Loss)),
            ("out_of_seq_request", Some(CounterKind::Loss)),
            ("np_ecn_marked_roce_packets", Some(CounterKind::Congestion)),
            ("rx_prio3_pause", Some(CounterKind::Congestion)),
            ("rx_prio12_discards", Some(CounterKind::Loss)),
            ("rx_prio_pause", None),
            ("rx_priox_pause", None),
            ("symbol_error", Some(CounterKind::Link)),
            ("correctable.BadTLP", Some(CounterKind::Bus)),
            ("req_transport_retries_exceeded", Some(CounterKind::Failure)),
            ("rcvd_pkts", None),
            ("port_xmit_data", None),
        ] {
            assert_eq!(counter(name).map(|counter| counter.kind), kind, "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_described() {
        let names: BTreeSet<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
        assert_eq!(names.len(), COUNTERS.len());
        for counter in COUNTERS {
            for text in [counter.meaning, counter.cause, counter.source] {
                assert!(text.len() > 10, "{}: {text}", counter.name);
            }
            assert!(
                counter.meaning.ends_with('.') && counter.cause.ends_with('.'),
                "{}",
                counter.name
            );
            assert!(counter.name.matches('*').count() <= 1, "{}", counter.name);
        }
    }

    #[test]
    fn rises_of_known_counters() {
        let reading = |values: &[(&str, u64)]| -> BTreeMap<String, u64> {
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let before = reading(&[
            ("symbol_error", 5),
            ("rcvd_pkts", 1),
            ("out_of_sequence", 9),
            ("packet_seq_err", 3),
        ]);
        let after = reading(&[
            ("symbol_error", 7),
            ("rcvd_pkts", 100),
            ("out_of_sequence", 2),
            ("packet_seq_err", 3),
            ("np_cnp_sent", 4),
        ]);
        assert_eq!(risen(&before, &after), reading(&[("symbol_error", 2)]));
    }
}
