//! The header and the legend, which only lists what the drawing contains.

use crate::model::{Fact, Facts, Kind, PciClass, Verdict};
use crate::render::text::counted;
use crate::topo::Topology;

use super::acs::Acs;
use super::nets::{Net, Nets, picks};
use super::scene::{Ink, Rect, Scene, Wire};
use super::text::Type;
use super::tree::Group;

const TITLE: Type = Type::bold(22);
const LINE: Type = Type::plain(12);
const SAMPLE: i32 = 30;
const COLUMN_GAP: i32 = 24;

/// Height of the header.
pub const HEAD: i32 = 78;

/// Draws the header and returns its width.
pub fn head(scene: &mut Scene, facts: &Facts, topology: &Topology<'_>, left: i32) -> i32 {
    let host = &facts.host;
    let name = host.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("GPUDirect topology");
    let count = |kind, one: &str| match topology.rows_of(kind).count() {
        0 => None,
        count => Some(counted(count, one)),
    };
    let counts = [(Kind::Gpu, "GPU"), (Kind::Nic, "NIC"), (Kind::Nvme, "NVMe controller")];
    let counts = counts.into_iter().filter_map(|(kind, one)| count(kind, one));
    let kernel = host.kernel.as_deref().or(facts.kernel.release.known().map(String::as_str));
    let source = (host.source != "live" && !host.source.is_empty())
        .then(|| format!("read from {}", host.source));
    let parts = counts
        .chain(kernel.map(|kernel| format!("kernel {kernel}")))
        .chain(host.os.clone())
        .chain(host.cpu.clone())
        .chain(source);
    let title = TITLE.fit(name, 900);
    let line = LINE.fit(&parts.collect::<Vec<_>>().join(" · "), 1200);
    let width = TITLE.width(&title).max(LINE.width(&line));
    scene.write(left, 40, TITLE, Ink::Text, title);
    scene.write(left, 62, LINE, Ink::Grey, line);
    width
}

/// The symbol of an entry.
enum Sample {
    Wire(Ink, i32),
    Warning(Ink),
    None,
}

/// Draws the legend below y in columns and returns its lower edge.
pub fn legend(scene: &mut Scene, page: &Page<'_>, left: i32, y: i32, width: i32) -> i32 {
    let cut = |(sample, text): (Sample, String)| (sample, LINE.fit(&text, width - SAMPLE));
    let entries: Vec<(Sample, String)> = entries(page).into_iter().map(cut).collect();
    let widest = entries.iter().map(|(_, text)| SAMPLE + LINE.width(text) + COLUMN_GAP).max();
    let columns =
        usize::try_from((width + COLUMN_GAP) / widest.unwrap_or(width).max(1)).unwrap_or(1).max(1);
    let rows = entries.len().div_ceil(columns);
    let step = width / i32::try_from(columns).unwrap_or(1);
    let mut baseline = y;
    for line in 0..rows {
        baseline += 22;
        // Fill columns from top to bottom.
        let column = entries.iter().skip(line).step_by(rows);
        for ((sample, text), x) in
            column.zip((left..).step_by(usize::try_from(step).unwrap_or(1).max(1)))
        {
            match *sample {
                Sample::Wire(ink, thickness) => scene.wires.push(Wire {
                    points: vec![(x, baseline - 4), (x + SAMPLE - 8, baseline - 4)],
                    ink,
                    thickness,
                    net: true,
                }),
                Sample::Warning(ink) => {
                    let triangle = Rect { x: x + 5, y: baseline - 10, w: 13, h: 11 };
                    scene.warnings.push((triangle, ink));
                }
                Sample::None => {}
            }
            scene.write(x + SAMPLE, baseline, LINE, Ink::Grey, text.as_str());
        }
    }
    baseline + 8
}

/// The content that the legend describes.
pub struct Page<'a> {
    pub facts: &'a Facts,
    pub topology: &'a Topology<'a>,
    pub groups: &'a [Group],
    pub nets: &'a Nets,
    pub acs: &'a Acs,
    /// Number of host bridges that are not drawn.
    pub undrawn: usize,
}

fn entries(page: &Page<'_>) -> Vec<(Sample, String)> {
    let topology = page.topology;
    let mut out = Vec::new();
    for (verdict, ink) in [
        (Verdict::Good, Ink::Good),
        (Verdict::LikelyGood, Ink::Fair),
        (Verdict::Bad, Ink::Bad),
        (Verdict::Unknown, Ink::Unknown),
    ] {
        if picks(topology).any(|(.., found)| found == verdict) {
            let text = format!("GPU and its nearest NIC: {}", verdict.phrase());
            out.push((Sample::Wire(ink, 3), text));
        }
    }
    for class in [
        PciClass::Pix,
        PciClass::Pxb,
        PciClass::Phb,
        PciClass::Node,
        PciClass::NodeOrSys,
        PciClass::Sys,
    ] {
        if page.nets.drawn.iter().any(|net| net.text == class.letters()) {
            out.push((Sample::None, format!("{}: {}", class.letters(), meaning(class))));
        }
    }
    if page.nets.drawn.iter().any(Net::is_nvlink) {
        let text = "NVLink between GPUs, NV with the number of links".to_owned();
        out.push((Sample::Wire(Ink::NvLink, 6), text));
    }
    out.extend(link_entries(page));
    for (below_a_switch, ink, text) in [
        (true, Ink::Bad, "ACS redirects the pair's traffic above its switch, or blocks it"),
        (false, Ink::Fair, "ACS at the root complex: may slow the pair down"),
    ] {
        if page.acs.ports.values().any(|found| found.below_a_switch == below_a_switch) {
            out.push((Sample::Warning(ink), text.to_owned()));
        }
    }
    out.extend(unknowns(page).into_iter().map(|text| (Sample::None, text)));
    out
}

fn meaning(class: PciClass) -> &'static str {
    match class {
        PciClass::Pix => "at most one bridge between",
        PciClass::Pxb => "several bridges, no host bridge",
        PciClass::Phb => "through the host bridge",
        PciClass::Node => "between host bridges of one NUMA node",
        PciClass::NodeOrSys => "between host bridges of unknown NUMA nodes",
        PciClass::Sys => "between NUMA nodes",
    }
}

fn link_entries(page: &Page<'_>) -> Vec<(Sample, String)> {
    use super::tree::Branch;

    fn inks(branches: &[Branch], found: &mut Vec<Ink>) {
        for branch in branches {
            let (notes, below) = match branch {
                Branch::Card(_, notes, _) => (notes.as_slice(), [].as_slice()),
                Branch::Hub(hub, below) => (hub.link.as_slice(), below.as_slice()),
                Branch::Port(_, below) => ([].as_slice(), below.as_slice()),
            };
            found.extend(notes.iter().map(|(_, ink)| *ink));
            inks(below, found);
        }
    }

    let mut found = Vec::new();
    for root in page.groups.iter().flat_map(|group| &group.roots) {
        inks(&root.below, &mut found);
    }
    let entries = [
        (Ink::Text, Sample::Wire(Ink::Link, 5), "PCI Express link: speed and lanes"),
        (Ink::Bad, Sample::Wire(Ink::Bad, 3), "fewer lanes than both ends support"),
        (Ink::Fair, Sample::None, "of …: what both ends of the link support"),
        (Ink::Grey, Sample::None, "idle: the link of an unused GPU is slow"),
    ];
    let shown = entries.into_iter().filter(|(ink, ..)| found.contains(ink));
    shown.map(|(_, sample, text)| (sample, text.to_owned())).collect()
}

/// What the drawing leaves out, and what is unknown.
fn unknowns(page: &Page<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if page.facts.platform.is_guest() && picks(page.topology).next().is_some() {
        out.push("virtual machine: the host's paths are unknown".to_owned());
    }
    let gpus: Vec<usize> = page.topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let pairs =
        || gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))).filter(|(a, b)| a < b);
    let nvlinks = |(a, b)| page.topology.pair(a, b).map(|pair| pair.nvlinks);
    if pairs().any(|pair| matches!(nvlinks(pair), Some(Fact::Unknown(_)))) {
        out.push("NVLink: unknown".to_owned());
    }
    if page.nets.no_nvlinks {
        out.push("NVLink: too many links to draw; gdr topo shows them".to_owned());
    }
    match page.acs.unknown.len() {
        0 => {}
        1 => out.push("ACS of 1 port between a GPU and its NIC: unknown".to_owned()),
        count => out.push(format!("ACS of {count} ports between GPUs and their NICs: unknown")),
    }
    if let Fact::Unknown(why) = &page.facts.rdma {
        out.push(format!("RDMA devices: {}", why.phrase()));
    }
    if page.facts.rdma.known().is_some()
        && !gpus.is_empty()
        && page.topology.rows_of(Kind::Nic).next().is_none()
    {
        out.push("no RDMA device: there is no GPU–NIC pair".to_owned());
    }
    match page.undrawn {
        0 => {}
        1 => out.push("1 host bridge without such devices is not drawn".to_owned()),
        count => out.push(format!("{count} host bridges without such devices are not drawn")),
    }
    out
}
