//! One path, hop by hop.

use super::View;
use super::text::{Tone, bandwidth, class, link, printable, wrap};
use crate::model::{Fact, Hop, Kind, Meeting, Path};
use crate::topo::{Redirect, redirects, verb};

/// The path as a column of devices.
pub fn text(view: &View<'_>, path: &Path) -> String {
    let rows = [&path.from, &path.to].map(|name| view.topology.find(name));
    let ends = [(&path.from, rows[0]), (&path.to, rows[1])].map(|(name, row)| {
        let row = row.and_then(|row| view.topology.rows.get(row));
        let label = row.map(|row| printable(&view.label(row))).unwrap_or_default();
        format!("{name} ({label})")
    });
    let mut head = format!("{} to {}: {}", ends[0], ends[1], class(&path.class));
    if let [Some(a), Some(b)] = rows
        && let Some(Fact::Known(count @ 1..)) = view.topology.pair(a, b).map(|pair| pair.nvlinks)
    {
        head.push_str(&format!(
            ", and {count} NVLinks, which CUDA prefers; the PCI Express path is"
        ));
    }
    let mut text = wrap(&head, view.style.width, 0, "  ") + "\n";

    let redirects = redirects(view.forest, path);
    let judged = view.topology.redirecting(path);
    let tone = |hop: &Hop| {
        judged.iter().find(|redirect| redirect.port == hop.bdf)?;
        Some(match path.meeting {
            Meeting::Bridge(_) => Tone::Bad,
            Meeting::HostBridge(_) | Meeting::Interconnect(..) => Tone::Fair,
        })
    };
    let turn = turn(view, path);
    for (at, hop) in path.hops.iter().enumerate() {
        if at == turn && !matches!(path.meeting, Meeting::Bridge(_)) {
            text.push_str(&format!("  {}\n", meeting(&path.meeting)));
        }
        text.push_str(&line(view, path, hop, (&redirects, tone(hop))));
    }
    let bottleneck = match &path.bottleneck {
        Fact::Known(narrow) => {
            let figure = bandwidth(narrow.bytes_per_second);
            let shared = if narrow.shared_with.is_empty() {
                String::new()
            } else {
                format!(", shared with {}", narrow.shared_with.join(" "))
            };
            format!("bottleneck: {figure} one way, the link above {}{shared}", narrow.below)
        }
        Fact::Unknown(why) => format!("bottleneck: unknown ({})", why.phrase()),
    };
    text + &wrap(&bottleneck, view.style.width, 0, "  ") + "\n"
}

/// Index of the first hop of the second leg.
fn turn(view: &View<'_>, path: &Path) -> usize {
    let place = |hop: &Hop| view.facts.device(hop.bdf).and_then(|d| d.place.known());
    let first = path.hops.first().and_then(place);
    path.hops
        .iter()
        .skip(1)
        .position(|hop| first.is_none_or(|place| !place.bridges.contains(&hop.bdf)))
        .map_or(path.hops.len(), |at| at + 1)
}

fn meeting(meeting: &Meeting) -> String {
    match meeting {
        Meeting::Bridge(bdf) => bdf.to_string(),
        Meeting::HostBridge(root) => format!("{root}  host bridge"),
        Meeting::Interconnect(a, b) => format!("{a} = {b}  between host bridges"),
    }
}

fn line(
    view: &View<'_>,
    path: &Path,
    hop: &Hop,
    (redirects, tone): (&[Redirect], Option<Tone>),
) -> String {
    let row =
        view.topology.rows.iter().find(|row| row.bdf == Some(hop.bdf) && row.kind != Kind::Nvme);
    let role = match row {
        Some(row) if hop.role == "endpoint" => row.name.clone(),
        _ if path.meeting == Meeting::Bridge(hop.bdf) => format!("{}, where they meet", hop.role),
        _ => hop.role.clone(),
    };
    let what = match &hop.link {
        Fact::Known(Some(state)) => format!("link {}", link(state)),
        Fact::Known(None) => String::new(),
        Fact::Unknown(why) => format!("link unknown ({})", why.phrase()),
    };
    let mut found = redirects.iter().filter(|redirect| redirect.port == hop.bdf);
    let (acs, tone) = match found.next().map(|redirect| &redirect.bits) {
        Some(Fact::Known(bits)) if !bits.is_empty() => {
            (format!("ACS {}: {}", verb(*bits), bits.names().join(" ")), tone)
        }
        Some(Fact::Known(_)) => match hop.acs {
            Fact::Known(Some(bits)) => (format!("ACS {bits}"), None),
            _ => (String::new(), None),
        },
        Some(Fact::Unknown(why)) => (format!("ACS unknown ({})", why.phrase()), None),
        None => (String::new(), None),
    };
    let mut text = format!("  {}  {role:<30}", hop.bdf);
    let mut column = text.chars().count();
    let indent = " ".repeat(16);
    for (part, tone) in [(what, None), (acs, tone)] {
        let length = part.chars().count();
        if length > 0 && column + length > view.style.width {
            text.truncate(text.trim_end().len());
            text.push_str(&format!("\n{indent}"));
            column = indent.len();
        }
        column += length;
        let part = wrap(&part, view.style.width, column - length, &indent);
        text.push_str(&tone.map_or(part.clone(), |tone| view.style.paint(tone, &part)));
    }
    text.trim_end().to_owned() + "\n"
}
