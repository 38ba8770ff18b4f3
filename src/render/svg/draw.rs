//! Shapes to SVG, without scripts or external resources, so that simple viewers can open it.

use std::fmt::{Display, Write};

use super::escape::escape;
use super::scene::{Anchor, Frame, Ink, Label, Look, Pill, Rect, Scene, Wire};
use super::text::FONTS;

pub(super) const PAPER: &str = "#f6f8fa";

/// In a dark page or viewer: light becomes dark, and a hue stays. Viewers without style sheets draw it light.
const DARK: &str = "<style>@media screen and (prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)}}</style>";

/// The start of a document: size, title and background.
pub(in crate::render) fn start(width: impl Display, height: impl Display, title: &str) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="{}" role="img">"#,
        escape(FONTS)
    );
    let _ = writeln!(out, "<title>{}</title>\n{DARK}", escape(title));
    let _ = writeln!(out, r#"<rect width="{width}" height="{height}" fill="{PAPER}"/>"#);
    out
}

pub fn document(scene: &Scene, title: &str) -> String {
    let mut out = start(scene.width, scene.height, title);
    scene.frames.iter().for_each(|shape| frame(&mut out, shape));
    scene.wires.iter().for_each(|shape| wire(&mut out, shape));
    for (x, y, ink) in &scene.dots {
        let _ = writeln!(out, r#"<circle cx="{x}" cy="{y}" r="3.5" fill="{}"/>"#, colour(*ink));
    }
    scene.pills.iter().for_each(|shape| pill(&mut out, shape));
    scene.warnings.iter().for_each(|shape| warning(&mut out, *shape));
    scene.labels.iter().for_each(|shape| label(&mut out, shape, None));
    out.push_str("</svg>\n");
    out
}

/// The contrast of each with what is behind it is at least 4.5, light and dark: a test computes it.
pub(super) fn colour(ink: Ink) -> &'static str {
    match ink {
        Ink::Text => "#1f2328",
        Ink::Grey => "#5e666f",
        Ink::Link => "#57606a",
        Ink::Good => "#1a7f37",
        Ink::Fair => "#9a4d00",
        Ink::Bad => "#cf222e",
        Ink::Unknown => "#6a737d",
        Ink::NvLink => "#0e7490",
    }
}

/// The colour of a box, the colour of its edge, and its radius.
pub(super) fn paint(look: Look) -> (&'static str, &'static str, i32) {
    match look {
        Look::Group => ("#ffffff", "#d0d7de", 12),
        Look::Root => ("#eaeef2", "#afb8c1", 8),
        Look::Switch => ("#fff8e6", "#d9b24c", 8),
        Look::Port => ("#ffffff", "#8c959f", 4),
        Look::BadPort => ("#ffebe9", "#cf222e", 4),
        Look::FairPort => ("#fff4e5", "#9a4d00", 4),
        Look::Gpu => ("#f1f9e3", "#76b900", 8),
        Look::Nic => ("#e7f1ff", "#3b82d6", 8),
        Look::Nvme => ("#f5effc", "#8957c6", 8),
    }
}

fn frame(out: &mut String, Frame { rect, look }: &Frame) {
    let (fill, edge, radius) = paint(*look);
    let Rect { x, y, w, h } = rect;
    let _ = writeln!(
        out,
        r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius}" fill="{fill}" stroke="{edge}"/>"#
    );
    if matches!(look, Look::Gpu | Look::Nic | Look::Nvme) {
        let _ = writeln!(
            out,
            r#"<path d="M{0} {y}h-{1}a8 8 0 0 0 -8 8v{2}a8 8 0 0 0 8 8h{1}z" fill="{edge}"/>"#,
            x + 9,
            1,
            h - 16
        );
    }
}

fn wire(out: &mut String, wire: &Wire) {
    let _ = writeln!(
        out,
        r#"<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linecap="butt"/>"#,
        rounded(&wire.points, if wire.net { 9 } else { 5 }),
        colour(wire.ink),
        wire.thickness
    );
}

/// A path through the points with rounded corners; short segments have smaller arcs.
fn rounded(points: &[(i32, i32)], radius: i32) -> String {
    let mut path = String::new();
    let towards = |from: (i32, i32), to: (i32, i32), by: i32| {
        let step = |a: i32, b: i32| a + (b - a).signum() * by;
        (step(from.0, to.0), step(from.1, to.1))
    };
    let length = |a: (i32, i32), b: (i32, i32)| (a.0 - b.0).abs() + (a.1 - b.1).abs();
    for (at, &point) in points.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| points.get(at));
        let _ = match (before, points.get(at + 1)) {
            (None, _) => write!(path, "M{} {}", point.0, point.1),
            (_, None) => write!(path, "L{} {}", point.0, point.1),
            (Some(&before), Some(&after)) => {
                let radius = radius.min(length(before, point) / 2).min(length(point, after) / 2);
                let (start, end) = (towards(point, before, radius), towards(point, after, radius));
                let ((a, b), (x, y), (c, d)) = (start, point, end);
                write!(path, "L{a} {b}Q{x} {y} {c} {d}")
            }
        };
    }
    path
}

fn pill(out: &mut String, pill: &Pill) {
    let Rect { x, y, w, h } = pill.rect;
    let _ = writeln!(
        out,
        r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{}" fill="{}" stroke="white" stroke-width="2"/>"#,
        h / 2,
        colour(pill.ink)
    );
    label(out, &pill.label, Some("#ffffff"));
}

fn warning(out: &mut String, (Rect { x, y, w, h }, ink): (Rect, Ink)) {
    let middle = x + w / 2;
    let _ = writeln!(
        out,
        r#"<path d="M{middle} {y}L{} {2}H{x}Z" fill="{1}" stroke="{1}" stroke-width="2" stroke-linejoin="round"/>"#,
        x + w,
        colour(ink),
        y + h
    );
    let _ = writeln!(
        out,
        r##"<path d="M{middle} {}V{}M{middle} {}V{}" stroke="#ffffff" stroke-width="2"/>"##,
        y + 3,
        y + h - 4,
        y + h - 2,
        y + h
    );
}

fn label(out: &mut String, label: &Label, fill: Option<&str>) {
    let anchor = match label.anchor {
        Anchor::Start => "",
        Anchor::Middle => r#" text-anchor="middle""#,
    };
    let weight = if label.style.bold { r#" font-weight="bold""# } else { "" };
    let _ = writeln!(
        out,
        r#"<text x="{}" y="{}" font-size="{}"{weight}{anchor} fill="{}">{}</text>"#,
        label.x,
        label.y,
        label.style.size,
        fill.unwrap_or(colour(label.ink)),
        escape(&label.text)
    );
}
