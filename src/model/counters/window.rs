//! Errors within a window: what rose between two readings, and whether its rate is a fault.

use std::collections::BTreeMap;

use super::{CounterKind, counter};

/// Counters that rise whenever a link comes up, so that their value since the last reset shows nothing. A rise between two
/// readings without a reboot is a flap.
const OF_EVERY_LINK: [&str; 3] = ["link_downed", "link_error_recovery", "link_down_events_phy"];

/// Errors an hour from which on a counter is judged over a long window. A link within its error rate, or one lost packet in a
/// burst, stays below it.
const PER_HOUR: f64 = 10.0;
/// Within so many seconds every error counts: none happens by chance.
const SHORT: f64 = 60.0;

/// True if the counter says how often a link went down.
pub fn is_flap(name: &str) -> bool {
    OF_EVERY_LINK.contains(&name)
}

/// True if errors that rose by so much within a window are a fault.
pub fn is_high(name: &str, rise: u64, seconds: f64) -> bool {
    let Some(known) = counter(name) else { return false };
    if rise == 0 || !known.kind.is_fault() {
        return false;
    }
    let is_severe = is_flap(name)
        || (known.kind == CounterKind::Bus && !name.starts_with("correctable."))
        || known.kind == CounterKind::Failure;
    is_severe || seconds <= SHORT || rise as f64 * 3600.0 / seconds >= PER_HOUR
}

/// A time in its largest unit: `2 s`, `40 min`, `24 h`, `3 days`.
pub fn span(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// What rose since an earlier reading. Counters that are not zero are listed, so one that is missing was zero. A counter that fell,
/// and every one of a machine that started since then, began again at zero.
pub fn risen_since(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    has_rebooted: bool,
) -> BTreeMap<String, u64> {
    let rise = |(name, after): (&String, &u64)| {
        counter(name)?;
        let before = before.get(name).copied().unwrap_or(0);
        let was_reset = has_rebooted || *after < before;
        let rise = if !was_reset {
            after - before
        } else if is_flap(name) {
            // The link comes up once after a start.
            0
        } else {
            *after
        };
        (rise > 0).then(|| (name.clone(), rise))
    };
    after.iter().filter_map(rise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_high_by_kind_and_window() {
        const DAY: f64 = 86_400.0;
        for (name, rise, seconds, high) in [
            ("symbol_error", 3, 2.0, true),
            ("symbol_error", 3, DAY, false),
            ("symbol_error", 240, DAY, true),
            ("symbol_error", 239, DAY, false),
            ("out_of_sequence", 40, 3600.0, true),
            ("link_downed", 1, DAY, true),
            ("correctable.BadTLP", 5, DAY, false),
            ("fatal.DLP", 1, DAY, true),
            ("req_transport_retries_exceeded", 1, DAY, true),
            // Congestion is not a fault at any rate, and traffic is not an error.
            ("np_cnp_sent", 1_000_000, DAY, false),
            ("port_xmit_data", 1_000_000, DAY, false),
            ("symbol_error", 0, DAY, false),
        ] {
            assert_eq!(is_high(name, rise, seconds), high, "{name} +{rise} in {seconds}");
        }
    }

    #[test]
    fn a_span_has_the_largest_unit() {
        let spans = [2.1, 119.0, 1800.0, 86_400.0, 604_800.0].map(span);
        assert_eq!(spans, ["2.1 s", "119 s", "30 min", "24 h", "7 days"]);
    }

    #[test]
    fn a_reset_begins_at_zero() {
        let counts = |list: &[(&str, u64)]| -> BTreeMap<String, u64> {
            list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let before = counts(&[("symbol_error", 100), ("link_downed", 2)]);
        let after = counts(&[("symbol_error", 130), ("link_downed", 3), ("packet_seq_err", 7)]);
        let rises = counts(&[("symbol_error", 30), ("link_downed", 1), ("packet_seq_err", 7)]);
        assert_eq!(risen_since(&before, &after, false), rises);
        let rises = counts(&[("symbol_error", 130), ("packet_seq_err", 7)]);
        assert_eq!(risen_since(&before, &after, true), rises);
        let after = counts(&[("symbol_error", 4), ("link_downed", 1)]);
        assert_eq!(risen_since(&before, &after, false), counts(&[("symbol_error", 4)]));
    }
}
