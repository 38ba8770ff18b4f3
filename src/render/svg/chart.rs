//! Line charts, two side by side, with the colours and fonts of the topology drawing.

use std::fmt::Write as _;

use super::draw::start;
use super::escape::escape;
use super::text::Type;

const MARGIN: f64 = 28.0;
/// Size of the plot area.
const PLANE: (f64, f64) = (430.0, 270.0);
/// Space for tick labels on the left.
const LEFT: f64 = 78.0;
/// Space for the title above, and for ticks and legend below.
const ABOVE: f64 = 40.0;
const TICKS: f64 = 26.0;
const LEGEND: f64 = 19.0;

const INK: &str = "#1f2328";
const GREY: &str = "#656d76";

/// One plot. Coordinates are fractions of the width from the left and of the height from the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// The lines, most important last.
    pub lines: Vec<ChartLine>,
    /// A marked position on the x axis, with its label.
    pub mark: Option<(f64, String)>,
    /// Positions on the x axis, and labels.
    pub x_ticks: Vec<(f64, String)>,
    pub y_ticks: Vec<(f64, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    pub label: String,
    pub stroke: Stroke,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// Style of a line, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stroke {
    /// Subject of the chart.
    First,
    Second,
    /// First comparison.
    Third,
    /// Second comparison.
    Fourth,
    /// Third comparison.
    Fifth,
    Limit,
}

impl Stroke {
    fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::First => ("#1a7f37", "2.5", ""),
            Self::Second => ("#8957c6", "2", ""),
            Self::Third => ("#9a4d00", "2", ""),
            Self::Fourth => ("#6a737d", "2", ""),
            Self::Fifth => ("#0969da", "2", ""),
            Self::Limit => ("#cf222e", "1", r#" stroke-dasharray="6 4""#),
        }
    }
}

/// Draws a document: a headline, remarks, and the charts in pairs.
pub fn chart(headline: &str, remarks: &[String], charts: &[Chart]) -> String {
    let max_lines = charts.iter().map(|chart| chart.lines.len()).max().unwrap_or(0) as f64;
    let row = ABOVE + PLANE.1 + TICKS + LEGEND * max_lines + 24.0;
    let column = LEFT + PLANE.0 + MARGIN;
    let head = 62.0 + 20.0 * remarks.len() as f64;
    let width = 2.0 * column + MARGIN;
    let height = head + row * charts.len().div_ceil(2).max(1) as f64;
    let mut out = start(width, height, headline);
    let room = (width - 2.0 * MARGIN) as i32;
    let (title, plain) = (Type::bold(20), Type::plain(13));
    text(&mut out, (MARGIN, 38.0), title, INK, "start", &title.fit(headline, room));
    for (at, remark) in remarks.iter().enumerate() {
        let y = 62.0 + 20.0 * at as f64;
        text(&mut out, (MARGIN, y), plain, "#9a4d00", "start", &plain.fit(remark, room));
    }
    for (at, chart) in charts.iter().enumerate() {
        let x = MARGIN + column * (at % 2) as f64 + LEFT;
        let y = head + row * (at / 2) as f64 + ABOVE;
        plane(&mut out, (x, y), chart);
    }
    if charts.is_empty() {
        text(&mut out, (MARGIN, head + 20.0), plain, INK, "start", "Nothing was measured.");
    }
    out.push_str("</svg>\n");
    out
}

fn plane(out: &mut String, at: (f64, f64), chart: &Chart) {
    let (x, y) = at;
    let (w, h) = PLANE;
    let place =
        |(across, down): (f64, f64)| (x + across.clamp(0.0, 1.0) * w, y + down.clamp(0.0, 1.0) * h);
    let (title, small) = (Type::bold(13), Type::plain(11));
    // It may reach into the margin.
    let room = (w + MARGIN) as i32;
    text(out, (x, y - 12.0), title, INK, "start", &title.fit(&chart.title, room));
    let _ = writeln!(
        out,
        r##"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="#ffffff" stroke="#d0d7de"/>"##
    );
    for (share, label) in &chart.x_ticks {
        let (at, _) = place((*share, 0.0));
        grid(out, (at, y), (at, y + h));
        text(out, (at, y + h + 16.0), small, GREY, "middle", label);
    }
    for (share, label) in &chart.y_ticks {
        let (_, at) = place((0.0, *share));
        grid(out, (x, at), (x + w, at));
        text(out, (x - 7.0, at + 4.0), small, GREY, "end", label);
    }
    if let Some((share, words)) = &chart.mark {
        let (at, _) = place((*share, 0.0));
        let _ = writeln!(
            out,
            r#"<path d="M{at:.1} {y}V{}" stroke="{GREY}" stroke-dasharray="2 3" fill="none"/>"#,
            y + h
        );
        // Place the label on the side with more space.
        let (at, anchor) = if *share > 0.5 { (at - 5.0, "end") } else { (at + 5.0, "start") };
        text(out, (at, y + h - 8.0), small, GREY, anchor, words);
    }
    for line in &chart.lines {
        curve(out, line, &place);
    }
    for (at, line) in chart.lines.iter().rev().enumerate() {
        let baseline = y + h + TICKS + 14.0 + LEGEND * at as f64;
        let (colour, thickness, dashes) = line.stroke.look();
        let _ = writeln!(
            out,
            r#"<path d="M{x} {}h22" stroke="{colour}" stroke-width="{thickness}"{dashes} fill="none"/>"#,
            baseline - 4.0
        );
        let label = small.fit(&line.label, w as i32 - 30);
        text(out, (x + 30.0, baseline), small, GREY, "start", &label);
    }
}

fn grid(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        r##"<path d="M{:.1} {:.1}L{:.1} {:.1}" stroke="#eaeef2" fill="none"/>"##,
        from.0, from.1, to.0, to.1
    );
}

fn curve(out: &mut String, line: &ChartLine, place: &dyn Fn((f64, f64)) -> (f64, f64)) {
    let (colour, thickness, dashes) = line.stroke.look();
    let mut path = String::new();
    for (at, point) in line.points.iter().enumerate() {
        let (x, y) = place(*point);
        let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
    }
    let _ = writeln!(
        out,
        r#"<path d="{path}" stroke="{colour}" stroke-width="{thickness}"{dashes} stroke-linejoin="round" fill="none"/>"#
    );
    for point in line.points.iter().filter(|_| line.stroke != Stroke::Limit) {
        let (x, y) = place(*point);
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="2.2" fill="{colour}"/>"#);
    }
}

fn text(out: &mut String, (x, y): (f64, f64), style: Type, fill: &str, anchor: &str, words: &str) {
    let weight = if style.bold { r#" font-weight="bold""# } else { "" };
    let _ = writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" font-size="{}"{weight} text-anchor="{anchor}" fill="{fill}">{}</text>"#,
        style.size,
        escape(words)
    );
}
