//! Checks the drawing of every machine: no overlaps, complete content, well-formed XML.

use std::collections::BTreeSet;

use super::draw::{PAPER, colour, paint};
use super::scene::{Look, Rect};
use super::*;
use crate::topo::topology;

/// Names that try to leave their box and their element.
const HOSTILE: &str = "</text><script>\"&'\u{1b}[31m\0\u{202e}\u{ffff} and very long besides: 漢字漢字漢字漢字漢字漢字漢字漢字";

fn hostile(mut facts: Facts) -> Facts {
    if let (Fact::Known(gpus), Fact::Known(rdma)) = (&mut facts.driver.gpus, &mut facts.rdma) {
        gpus.values_mut().for_each(|gpu| gpu.model = Some(HOSTILE.to_owned()));
        rdma.iter_mut().for_each(|device| device.name = HOSTILE.to_owned());
    }
    facts.host.name = Some(HOSTILE.repeat(20));
    facts.host.source = HOSTILE.to_owned();
    facts
}

fn machines() -> Vec<(&'static str, Facts)> {
    vec![
        ("hgx", samples::hgx()),
        ("epyc", samples::epyc()),
        ("pair", samples::pair()),
        ("guest", samples::guest()),
        ("grace", samples::grace()),
        ("two NICs", samples::two_nics()),
        ("wide", samples::wide()),
        ("hostile", hostile(samples::hgx())),
        ("hostile card", hostile(samples::epyc())),
        ("empty", machines::Machine::default().facts(1)),
        ("unread", Facts::default()),
    ]
}

fn names(ids: &Ids) -> String {
    machines::names(ids.vendor, ids.device.expect("a device id"))
}

fn scene_of(facts: &Facts) -> Scene {
    scene(facts, &topology(facts), &names)
}

fn svg_of(facts: &Facts) -> String {
    svg(facts, &topology(facts), &names)
}

fn is_card(look: Look) -> bool {
    matches!(look, Look::Gpu | Look::Nic | Look::Nvme)
}

fn meets(a: Rect, b: Rect) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

fn holds(outer: Rect, inner: Rect) -> bool {
    outer.x <= inner.x
        && outer.y <= inner.y
        && inner.right() <= outer.right()
        && inner.bottom() <= outer.bottom()
}

#[test]
fn boxes_are_disjoint_or_nested() {
    for (name, facts) in machines() {
        let frames = scene_of(&facts).frames;
        for (at, a) in frames.iter().enumerate() {
            for b in &frames[at + 1..] {
                let nested = holds(a.rect, b.rect) && !is_card(a.look) && a.look != b.look;
                assert!(nested || !meets(a.rect, b.rect), "{name}: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn texts_stay_in_their_boxes() {
    for (name, facts) in machines() {
        let scene = scene_of(&facts);
        let page = Rect { x: 0, y: 0, w: scene.width, h: scene.height };
        for (at, label) in scene.labels.iter().enumerate() {
            let rect = label.rect();
            assert!(holds(page, rect), "{name}: {label:?} leaves the page");
            for frame in &scene.frames {
                assert!(
                    !meets(frame.rect, rect) || holds(frame.rect, rect),
                    "{name}: {label:?} crosses {frame:?}"
                );
            }
            for other in &scene.labels[at + 1..] {
                assert!(!meets(rect, other.rect()), "{name}: {label:?} on {other:?}");
            }
            for (warning, _) in &scene.warnings {
                assert!(!meets(rect, *warning), "{name}: {label:?} on {warning:?}");
            }
        }
        for pill in &scene.pills {
            assert!(holds(pill.rect, pill.label.rect()), "{name}: {pill:?}");
        }
    }
}

/// The straight segments of a wire as rectangles with its thickness.
fn segments(wire: &scene::Wire) -> Vec<Rect> {
    let half = wire.thickness / 2;
    let segment = |pair: &[(i32, i32)]| {
        let (a, b) = (pair[0], pair[1]);
        assert!(a.0 == b.0 || a.1 == b.1, "a slanted segment: {wire:?}");
        let across = if a.0 == b.0 { (half, 0) } else { (0, half) };
        Rect {
            x: a.0.min(b.0) - across.0,
            y: a.1.min(b.1) - across.1,
            w: (a.0 - b.0).abs() + 2 * across.0,
            h: (a.1 - b.1).abs() + 2 * across.1,
        }
    };
    wire.points.windows(2).map(segment).collect()
}

#[test]
fn wires_avoid_cards_and_texts() {
    for (name, facts) in machines() {
        let scene = scene_of(&facts);
        for wire in &scene.wires {
            for segment in segments(wire) {
                for label in &scene.labels {
                    assert!(!meets(segment, label.rect()), "{name}: {wire:?} through {label:?}");
                }
                for frame in scene.frames.iter().filter(|frame| !matches!(frame.look, Look::Group))
                {
                    let own = wire.net && is_card(frame.look) && {
                        let (first, last) = (wire.points[0], wire.points[wire.points.len() - 1]);
                        [first, last].iter().any(|(x, y)| {
                            let inside = frame.rect.x < *x && *x < frame.rect.right();
                            inside && frame.rect.y < *y && *y <= frame.rect.bottom()
                        })
                    };
                    assert!(
                        own || !meets(segment, frame.rect),
                        "{name}: {wire:?} through {frame:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn wires_do_not_overlap() {
    for (name, facts) in machines() {
        let scene = scene_of(&facts);
        let nets: Vec<_> = scene.wires.iter().filter(|wire| wire.net).collect();
        for (at, a) in nets.iter().enumerate() {
            for b in &nets[at + 1..] {
                for (p, q) in segments(a)
                    .into_iter()
                    .flat_map(|p| segments(b).into_iter().map(move |q| (p, q)))
                {
                    let along = (p.w < p.h) == (q.w < q.h);
                    assert!(!(along && meets(p, q)), "{name}: {a:?} {b:?}");
                }
            }
        }
        for (at, a) in scene.pills.iter().enumerate() {
            for b in &scene.pills[at + 1..] {
                assert!(!meets(a.rect, b.rect), "{name}: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn shows_rows_links_and_warnings() {
    for (name, facts) in machines() {
        let topology = topology(&facts);
        let scene = scene_of(&facts);
        let texts: Vec<&str> = scene.labels.iter().map(|label| label.text.as_str()).collect();
        for row in &topology.rows {
            let name_of = |text: &&str| text.split(' ').next() == Some(row.name.as_str());
            assert_eq!(
                texts.iter().filter(|text| name_of(text)).count(),
                1,
                "{name}: {}",
                row.name
            );
            if let Some(bdf) = row.bdf {
                let place = match row.virtual_function {
                    Some(_) => format!("{bdf}, virtual function"),
                    None => bdf.to_string(),
                };
                assert!(texts.contains(&place.as_str()), "{name}: {place}");
            }
        }
        let forest = &topology.forest;
        let devices = topology.rows.iter().filter_map(|row| facts.device(row.bdf?));
        for link in devices.filter_map(|device| forest.link_above(device).present().copied()) {
            let lanes = format!("GT/s x{}", link.current.width);
            assert!(texts.iter().any(|text| text.ends_with(&lanes)), "{name}: {lanes}");
        }
        let nets = nets::nets(&topology);
        let written: Vec<_> = scene.pills.iter().map(|pill| (&pill.label.text, pill.ink)).collect();
        assert!(nets.drawn.iter().all(|net| written.contains(&(&net.text, net.ink))), "{name}");
    }
}

#[test]
fn shows_link_texts() {
    let count = |facts: &Facts, text: &str| {
        scene_of(facts).labels.iter().filter(|label| label.text == text).count()
    };
    let hgx = samples::hgx();
    // 4 switches, 8 GPUs and 8 NICs, except the narrow GPU and the slow NIC.
    assert_eq!(count(&hgx, "32GT/s x16"), 18);
    assert_eq!(count(&hgx, "16GT/s x4"), 4);
    assert_eq!((count(&hgx, "32GT/s x8"), count(&hgx, "of x16")), (1, 1));
    assert_eq!((count(&hgx, "16GT/s x16"), count(&hgx, "of 32GT/s")), (1, 1));
    assert_eq!(count(&hgx, "idle 2.5GT/s"), 2);
    // The switch with redirection: two GPUs, two NICs.
    assert_eq!(count(&hgx, "ReqRedir CmpltRedir"), 4);
    assert_eq!(count(&hgx, "+2 other devices"), 1);
    assert_eq!(count(&samples::guest(), "+2 other devices"), 1);
    // Coherent pairs do not use their root ports.
    assert_eq!(count(&samples::grace(), "ReqRedir CmpltRedir"), 0);
}

#[test]
fn colours_match_verdicts() {
    let pills = |facts: &Facts| -> BTreeSet<(String, Ink)> {
        let pills = scene_of(facts).pills;
        pills.into_iter().map(|pill| (pill.label.text, pill.ink)).collect()
    };
    let one = |text: &str, ink| (text.to_owned(), ink);
    assert_eq!(pills(&samples::hgx()), [one("PIX", Ink::Good), one("NV18", Ink::NvLink)].into());
    assert_eq!(pills(&samples::pair()), [one("SYS", Ink::Bad)].into());
    assert_eq!(pills(&samples::epyc()), [one("NODE", Ink::Bad)].into());
    assert_eq!(pills(&samples::grace()), [one("NODE", Ink::Good), one("NV6", Ink::NvLink)].into());
    assert!(pills(&samples::wide()).contains(&one("PHB", Ink::Fair)));
    assert!(pills(&samples::guest()).is_empty());
    // Below a switch, ACS costs the direct path; at the root complex it matters less.
    let warnings = |facts: &Facts| {
        scene_of(facts).warnings.iter().map(|(_, ink)| *ink).collect::<BTreeSet<_>>()
    };
    assert_eq!(warnings(&samples::hgx()), [Ink::Bad].into());
    assert_eq!(warnings(&samples::epyc()), [Ink::Fair].into());
}

#[test]
fn documents_are_well_formed_and_self_contained() {
    for (name, facts) in machines() {
        let text = svg_of(&facts);
        let document =
            roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let root = document.root_element();
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        assert!(root.attribute("viewBox").is_some());
        for node in root.descendants().filter(roxmltree::Node::is_element) {
            let tag = node.tag_name().name();
            assert!(
                ["svg", "title", "style", "rect", "path", "circle", "text"].contains(&tag),
                "{name}: {tag}"
            );
            assert!(
                tag != "style"
                    || node
                        .text()
                        .is_some_and(|text| !text.contains("url") && !text.contains("@import")),
                "{name}"
            );
            assert!(
                node.attributes()
                    .all(|a| !a.name().contains("href") && !a.name().starts_with("on"))
            );
        }
        assert_eq!(text, svg_of(&facts), "{name}: the same again");
    }
}

#[test]
fn escapes_hostile_names() {
    let text = svg_of(&hostile(samples::hgx()));
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    let shown = |part: &str| {
        document.descendants().any(|node| node.text().is_some_and(|text| text.contains(part)))
    };
    assert!(shown("NIC0 </text><"));
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}') && !text.contains("<script"));
}

#[test]
fn draws_machine_without_rows() {
    assert!(
        svg_of(&machines::Machine::default().facts(1))
            .contains("No GPU and no RDMA device was found.")
    );
    assert!(svg_of(&Facts::default()).contains("The PCI devices are unknown: not available."));
}

#[test]
fn shows_source_of_recorded_machine() {
    assert!(svg_of(&samples::guest()).contains("read from machines/guest"));
    assert!(!svg_of(&samples::hgx()).contains("live"));
}

/// As many wires as NCCL uses NICs: two of two below each GPU's switch; one card of two ports for four GPUs.
#[test]
fn wires_lead_to_all_nics_that_a_gpu_uses() {
    let wires = |facts: &Facts| -> Vec<Vec<String>> {
        let topology = topology(facts);
        let nets = nets::nets(&topology).drawn;
        let names = |net: &nets::Net| {
            let mut names: Vec<String> =
                net.rows.iter().map(|row| topology.rows[*row].name.clone()).collect();
            names.sort_unstable();
            names
        };
        nets.iter().map(names).collect()
    };
    assert_eq!(
        wires(&samples::two_nics()),
        [["GPU0", "NIC0", "NIC1"], ["GPU1", "NIC2", "NIC3"]].map(|net| net.map(str::to_owned))
    );
    let epyc = wires(&samples::epyc());
    assert_eq!(epyc.len(), 8);
    assert!(epyc[..4].iter().all(|net| net[1..] == ["NIC0", "NIC1"]), "{epyc:?}");
}

/// A colour of the drawing as sRGB.
fn rgb(text: &str) -> [f64; 3] {
    let value = u32::from_str_radix(&text[1..], 16).expect("a colour");
    [16, 8, 0].map(|shift| f64::from((value >> shift) & 0xff))
}

/// What the style of a dark page makes of it: `invert(1) hue-rotate(180deg)`, by the matrices of Filter Effects 1.
fn inverted(colour: [f64; 3]) -> [f64; 3] {
    const TURN: [[f64; 3]; 3] =
        [[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]];
    let from = colour.map(|part| 255.0 - part);
    TURN.map(|row| row.iter().zip(from).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 255.0))
}

/// The contrast ratio of WCAG 2.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let light = |colour: [f64; 3]| {
        let [r, g, b] = colour.map(|part| match part / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        });
        0.0722f64.mul_add(b, 0.2126f64.mul_add(r, 0.7152 * g)) + 0.05
    };
    let (a, b) = (light(a), light(b));
    a.max(b) / a.min(b)
}

#[test]
fn lines_and_texts_stand_out_in_both_themes() {
    assert!((contrast(rgb("#000000"), rgb("#ffffff")) - 21.0).abs() < 0.01);
    assert!(svg_of(&samples::hgx()).contains("filter:invert(1) hue-rotate(180deg)"));
    // Around a drawing, a dark page has the colour of the drawing's own paper.
    let around = inverted(rgb(PAPER)).map(|part| format!("{:02x}", part.round() as u8)).concat();
    let style = include_str!("../html/style.css");
    assert!(style.contains(&format!(".drawing{{background:#{around}}}")), "#{around}");
    let mut pairs = BTreeSet::new();
    for (_, facts) in machines() {
        let scene = scene_of(&facts);
        // A legend is on the paper, a net in the box of a NUMA node.
        let inks = scene.wires.iter().map(|wire| wire.ink);
        for ink in inks.chain(scene.pills.iter().map(|pill| pill.ink)) {
            pairs.extend([PAPER, "#ffffff"].map(|behind| (colour(ink), behind)));
        }
        for label in &scene.labels {
            let mut frames = scene.frames.iter().rev();
            let inner = frames.find(|frame| holds(frame.rect, label.rect()));
            let behind = inner.map_or(PAPER, |frame| paint(frame.look).0);
            pairs.insert((colour(label.ink), behind));
        }
    }
    assert!(pairs.len() > 20, "{pairs:?}");
    for (front, behind) in pairs {
        let (a, b) = (rgb(front), rgb(behind));
        for (theme, contrast) in
            [("light", contrast(a, b)), ("dark", contrast(inverted(a), inverted(b)))]
        {
            assert!(contrast >= 4.5, "{front} on {behind}, {theme}: {contrast:.2}");
        }
    }
}
