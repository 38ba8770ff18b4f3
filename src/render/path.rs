//! One path, hop by hop.

use super::View;
use super::text::{Tone, bandwidth, class, link, printable};
use crate::model::{Fact, Hop, Kind, Meeting, Path};
use crate::topo::{redirects, verb};

/// The path as a column of devices.
pub fn text(view: &View<'_>, path: &Path) -> String {
    let rows = [&path.from, &path.to].map(|name| view.topology.find(name));
    let ends = [(&path.from, rows[0]), (&path.to, rows[1])].map(|(name, row)| {
        let row = row.and_then(|row| view.topology.rows.get(row));
        let label = row
            .map(|row| printable(&view.label(row)))
            .unwrap_or_default();
        format!("{name} ({label})")
    });
    let mut text = format!("{} to {}: {}", ends[0], ends[1], class(&path.class));
    if let [Some(a), Some(b)] = rows
        && let Some(Fact::Known(count @ 1..)) = view.topology.pair(a, b).map(|pair| pair.nvlinks)
    {
        text.push_str(&format!(
            ", and {count} NVLinks, which CUDA prefers; over PCI Express the way is"
        ));
    }
    text.push('\n');

    let redirects = redirects(view.forest, path);
    let turn = turn(view, path);
    for (at, hop) in path.hops.iter().enumerate() {
        if at == turn && !matches!(path.meeting, Meeting::Bridge(_)) {
            text.push_str(&format!("  {}\n", meeting(&path.meeting)));
        }
        text.push_str(&line(view, path, hop, &redirects));
    }
    match &path.bottleneck {
        Fact::Known(narrow) => {
            let figure = bandwidth(narrow.bytes_per_second);
            text.push_str(&format!(
                "bottleneck: {figure} one way, the link above {}",
                narrow.below
            ));
            if !narrow.shared_with.is_empty() {
                text.push_str(&format!(", shared with {}", narrow.shared_with.join(" ")));
            }
        }
        Fact::Unknown(why) => text.push_str(&format!("bottleneck: not known ({})", why.phrase())),
    }
    text.push('\n');
    text
}

/// The first hop of the second leg.
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

fn line(view: &View<'_>, path: &Path, hop: &Hop, redirects: &[crate::topo::Redirect]) -> String {
    let row = view
        .topology
        .rows
        .iter()
        .find(|row| row.bdf == Some(hop.bdf) && row.kind != Kind::Nvme);
    let role = match row {
        Some(row) if hop.role == "endpoint" => row.name.clone(),
        _ if path.meeting == Meeting::Bridge(hop.bdf) => format!("{}, where they meet", hop.role),
        _ => hop.role.clone(),
    };
    let mut text = format!("  {}  {role:<30}", hop.bdf);
    match &hop.link {
        Fact::Known(Some(state)) => text.push_str(&format!("link {}", link(state))),
        Fact::Known(None) => {}
        Fact::Unknown(why) => text.push_str(&format!("link not known ({})", why.phrase())),
    }
    match redirects
        .iter()
        .find(|redirect| redirect.port == hop.bdf)
        .map(|redirect| &redirect.bits)
    {
        Some(Fact::Known(bits)) if !bits.is_empty() => {
            let what = format!("ACS {}: {}", verb(bits), bits.join(" "));
            text.push_str(&view.style.paint(Tone::Bad, &what));
        }
        Some(Fact::Known(_)) => {
            if let Fact::Known(Some(bits)) = hop.acs {
                text.push_str(&format!("ACS {bits}"));
            }
        }
        Some(Fact::Unknown(why)) => text.push_str(&format!("ACS not known ({})", why.phrase())),
        None => {}
    }
    text.trim_end().to_owned() + "\n"
}
