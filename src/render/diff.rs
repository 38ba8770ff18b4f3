//! Differences between two machines, for people. The JSON is the report itself.

use super::Style;
use super::text::{Tone, printable, wrap};
use crate::model::{Change, ChangeKind, DiffReport, Side};

/// Formats the report, grouped by area.
pub fn table(diff: &DiffReport, style: Style) -> String {
    let mut page = format!("{}{}\n", side("A", &diff.a, style), side("B", &diff.b, style));
    if diff.changes.is_empty() {
        page.push_str("no differences\n");
    }
    page.push_str(&changes(&diff.changes, style));
    if diff.left_out > 0 {
        let text = format!("\n{}", wrap(&left_out(diff.left_out), style.width, 0, ""));
        page.push_str(&style.paint(Tone::Dim, &text));
        page.push('\n');
    }
    page
}

/// How a probe compares with its baseline: the figures that noise does not explain.
pub fn baseline(diff: &DiffReport, style: Style) -> String {
    let telling: Vec<Change> =
        diff.changes.iter().filter(|change| change.matters()).cloned().collect();
    let compared = diff.changes.iter().filter(|change| change.figure.is_some()).count();
    let parts = [Some(&diff.a.source), diff.a.host.as_ref(), diff.a.taken.as_ref()];
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| printable(part)).collect();
    let what = match telling.len() {
        0 => "no figure differs beyond noise".to_owned(),
        1 => "1 differs beyond noise".to_owned(),
        count => format!("{count} differ beyond noise"),
    };
    let line = format!("baseline {}: {compared} figures compared, {what}", parts.join(", "));
    let line = wrap(&line, style.width, 0, "  ");
    format!("{}\n{}", style.paint(Tone::Strong, &line), changes(&telling, style))
}

fn changes(all: &[Change], style: Style) -> String {
    let mut page = String::new();
    let mut area = None;
    for change in all {
        let is_thing = change.fact.is_empty();
        if area != Some(&change.area) && !is_thing {
            page.push_str(&style.paint(Tone::Strong, &printable(&change.area)));
            page.push('\n');
        }
        area = (!is_thing).then_some(&change.area);
        page.push_str(&if is_thing { thing(change, style) } else { fact(change, style) });
    }
    page
}

pub fn left_out(count: usize) -> String {
    match count {
        1 => "1 difference is not shown, because it occurs between any two machines or moments; --all shows it".to_owned(),
        _ => format!(
            "{count} differences are not shown, because they occur between any two machines or moments; --all shows them"
        ),
    }
}

fn side(letter: &str, side: &Side, style: Style) -> String {
    let parts = [Some(&side.source), side.host.as_ref(), side.taken.as_ref()];
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| printable(part)).collect();
    let line = format!("{letter}: {}", parts.join(", "));
    format!("{}\n", style.paint(Tone::Strong, &wrap(&line, style.width, 0, "   ")))
}

/// An item that only one side has: one line, with its facts if known.
fn thing(change: &Change, style: Style) -> String {
    let (only, what) = match (&change.a, &change.b) {
        (Some(a), None) => ("only in A", a.as_str()),
        (None, Some(b)) => ("only in B", b.as_str()),
        _ => return fact(change, style),
    };
    let what = match what {
        "present" | "none" => String::new(),
        what => format!(" {}", printable(what)),
    };
    let line = format!("{}{what}", printable(&change.area));
    let line = wrap(&format!("{line} {only}"), style.width, 0, "  ");
    let (start, end) = line.split_at(line.len().saturating_sub(only.len()));
    if end == only {
        format!("{start}{}\n", style.paint(tone(change.kind), end))
    } else {
        format!("{line}\n")
    }
}

fn fact(change: &Change, style: Style) -> String {
    let absent = || "absent".to_owned();
    let value = |text: &Option<String>| text.as_deref().map_or_else(absent, printable);
    let (from, to) = (value(&change.a), value(&change.b));
    let name =
        if change.fact.is_empty() { printable(&change.area) } else { printable(&change.fact) };
    let line = format!("{name}: {from} \u{2192} {to}{}", percent(change));
    let regressed = change.figure.as_ref().is_some_and(|figure| figure.regression);
    let mark = match change.kind {
        _ if regressed => "!",
        ChangeKind::Added => "+",
        ChangeKind::Removed | ChangeKind::Lost => "-",
        ChangeKind::Changed => "~",
        ChangeKind::Learned => "?",
    };
    let indent = "      ";
    format!(
        "  {} {}\n",
        style.paint(if regressed { Tone::Bad } else { tone(change.kind) }, mark),
        wrap(&line, style.width, 4, indent)
    )
}

/// By how much a figure changed; empty for another fact.
pub fn percent(change: &Change) -> String {
    let percent = change.figure.as_ref().and_then(|figure| Some((figure.percent?, figure.noise)));
    percent.map_or(String::new(), |(percent, noise)| {
        format!(" ({percent:+.1} %; noise explains {noise:.1} %)")
    })
}

pub const fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "only in B",
        ChangeKind::Removed => "only in A",
        ChangeKind::Changed => "changed",
        ChangeKind::Learned => "now known",
        ChangeKind::Lost => "now unknown",
    }
}

pub fn tone(kind: ChangeKind) -> Tone {
    match kind {
        ChangeKind::Added => Tone::Good,
        ChangeKind::Removed => Tone::Bad,
        ChangeKind::Changed => Tone::Fair,
        ChangeKind::Learned => Tone::Special,
        ChangeKind::Lost => Tone::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { color: false, width: 72 };

    fn change(
        area: &str,
        fact: &str,
        a: Option<&str>,
        b: Option<&str>,
        kind: ChangeKind,
    ) -> Change {
        Change {
            area: area.to_owned(),
            fact: fact.to_owned(),
            a: a.map(str::to_owned),
            b: b.map(str::to_owned),
            kind,
            identity: false,
            volatile: false,
            figure: None,
        }
    }

    fn report(changes: Vec<Change>, left_out: usize) -> DiffReport {
        let side = |source: &str, taken: Option<&str>| Side {
            source: source.to_owned(),
            host: Some("node17".to_owned()),
            taken: taken.map(str::to_owned),
        };
        DiffReport {
            a: side("before.json", Some("2026-11-21T10:15:00Z")),
            b: side("live", None),
            changes,
            left_out,
        }
    }

    #[test]
    fn groups_by_area_and_shows_items_of_one_side() {
        use ChangeKind::*;
        let changes = vec![
            change("process", "memlock soft", Some("unlimited"), Some("64 KiB"), Changed),
            change(
                "PCI 0000:02:00.0",
                "ACS control",
                Some("SrcValid+ TransBlk- ReqRedir- CmpltRedir-"),
                Some("SrcValid+ TransBlk- ReqRedir+ CmpltRedir-"),
                Changed,
            ),
            change("PCI 0000:02:00.0", "link", Some("32GT/s x16"), Some("32GT/s x8"), Changed),
            change("PCI 0000:05:00.0", "", Some("10de:2335"), None, Removed),
            change("module nvidia_peermem", "", None, Some("present"), Added),
            change(
                "NVML",
                "driver version",
                Some("unknown (permission denied)"),
                Some("580\u{1b}[31m"),
                Learned,
            ),
        ];
        let want = "\
A: before.json, node17, 2026-11-21T10:15:00Z
B: live, node17

process
  ~ memlock soft: unlimited \u{2192} 64 KiB
PCI 0000:02:00.0
  ~ ACS control: SrcValid+ TransBlk- ReqRedir- CmpltRedir- \u{2192} SrcValid+
      TransBlk- ReqRedir+ CmpltRedir-
  ~ link: 32GT/s x16 \u{2192} 32GT/s x8
PCI 0000:05:00.0 10de:2335 only in A
module nvidia_peermem only in B
NVML
  ? driver version: unknown (permission denied) \u{2192} 580?[31m

2 differences are not shown, because they occur between any two machines
or moments; --all shows them
";
        assert_eq!(table(&report(changes, 2), PLAIN), want);
    }

    #[test]
    fn reports_no_differences() {
        let want =
            "A: before.json, node17, 2026-11-21T10:15:00Z\nB: live, node17\n\nno differences\n";
        assert_eq!(table(&report(Vec::new(), 0), PLAIN), want);
        let colour = Style { color: true, ..PLAIN };
        let shown = crate::output::filtered(&table(&report(Vec::new(), 0), colour));
        assert!(shown.contains("\u{1b}[1mA: before.json"), "{shown:?}");
    }
}
