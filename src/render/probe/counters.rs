//! Counters that rose during a NIC transfer: faults with their meaning and cause, congestion in one line.

use super::INDENT;
use super::lines::line_of;
use crate::model::{CounterChange, CounterKind, ProbeReport};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

/// The counters of a connection; empty if none rose.
pub fn counters(report: &ProbeReport, subject: &str, style: Style) -> String {
    let of_connection = report.counters.iter().filter(|change| change.subject == subject);
    let (faults, others): (Vec<&CounterChange>, Vec<&CounterChange>) =
        of_connection.partition(|change| change.kind.is_fault());
    let mut text = String::new();
    let mut cause = None;
    for fault in faults {
        let mut line = format!("{}: {}", rise(fault), fault.meaning);
        // Counters of one fault have one cause.
        if cause.replace(&fault.cause) != Some(&fault.cause) {
            line.push_str(&format!(" {}", fault.cause));
        }
        let word = fault.kind.words();
        let hang = format!("{INDENT}  ");
        text.push_str(&format!(
            "{INDENT}{}  {}\n",
            style.paint(Tone::Fair, word),
            wrap(&printable(&line), style.width, INDENT.len() + word.len() + 2, &hang)
        ));
    }
    for kind in [CounterKind::Receiver, CounterKind::Congestion] {
        let of_kind = others.iter().filter(|change| change.kind == kind);
        let rises: Vec<String> = of_kind.map(|change| rise(change)).collect();
        if !rises.is_empty() {
            let line = format!("{}: {}", kind.words(), rises.join(", "));
            text.push_str(&line_of(&line, style));
        }
    }
    text
}

/// As in `out_of_sequence +3 (remote mlx5_0:1)`.
fn rise(change: &CounterChange) -> String {
    let end = if change.remote { "remote" } else { "local" };
    format!("{} +{} ({end} {})", change.name, change.rise, change.of)
}

#[cfg(test)]
mod tests {
    use super::super::sample::report;
    use super::*;
    use crate::model::counter;

    fn change(name: &str, rise: u64, remote: bool) -> CounterChange {
        let known = counter(name).expect(name);
        CounterChange {
            subject: "a -> b".to_owned(),
            remote,
            of: "mlx5_0:1".to_owned(),
            name: name.to_owned(),
            rise,
            kind: known.kind,
            meaning: known.meaning.to_owned(),
            cause: known.cause.to_owned(),
        }
    }

    #[test]
    fn faults_have_meaning_and_cause() {
        let report = ProbeReport {
            counters: vec![
                change("packet_seq_err", 7, false),
                change("out_of_sequence", 7, true),
                change("np_cnp_sent", 3, true),
                change("rx_prio3_pause", 2, false),
            ],
            ..report()
        };
        let style = Style { color: false, width: 100 };
        let text = counters(&report, "a -> b", style);
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        for expected in [
            "hidden loss packet_seq_err +7 (local mlx5_0:1): The responder reported missing packets",
            "A switch dropped or reordered packets",
            "hidden loss out_of_sequence +7 (remote mlx5_0:1): The responder received packets out of order. congestion:",
            "congestion: np_cnp_sent +3 (remote mlx5_0:1), rx_prio3_pause +2 (local mlx5_0:1)",
        ] {
            assert!(words.contains(expected), "{expected}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert_eq!(counters(&report, "c", style), "");
    }
}
