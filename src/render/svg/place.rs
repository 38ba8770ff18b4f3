//! Branches to shapes: a bridge's box with its ports, the links below, and the cards at their ends.

use super::card::{Card, LEFT, first_baseline, line_height};
use super::layout::{Layout, Leave};
use super::measure::{
    BESIDE, GAP, HEAD, HUB_NAME, LINK, PAD, PORT, SMALL, TRIANGLE, TROUBLE, hub_name, port_width,
    ports_height,
};
use super::scene::{Anchor, Frame, Ink, Label, Look, Rect, Wire};
use super::tree::{Branch, Hub, Note, Port, Problem};

impl Layout<'_> {
    /// Draws a bridge's box with its ports and everything below; returns the lower edge of the cards.
    pub(super) fn bridge(
        &mut self,
        look: Look,
        text: (&str, &str),
        below: &[Branch],
        place: Rect,
        cards_y: i32,
    ) -> i32 {
        let ports = ports_height(below);
        let rect = Rect { h: HEAD + ports, ..place };
        self.scene.frames.push(Frame { rect, look });
        self.scene.write(rect.x + PAD, rect.y + 17, HUB_NAME, Ink::Text, text.0);
        self.scene.write(rect.x + PAD, rect.y + 33, SMALL, Ink::Grey, text.1);
        self.row(below, Rect { y: rect.bottom(), ..rect }, Some(ports), cards_y)
    }

    /// Draws branches side by side below a bridge whose box ends at the top of `place`; returns the lower edge of the
    /// cards.
    pub(super) fn row(
        &mut self,
        below: &[Branch],
        place: Rect,
        ports: Option<i32>,
        cards_y: i32,
    ) -> i32 {
        let mut x = place.x + (place.w - self.measure.span(below)) / 2;
        let mut bottom = cards_y;
        for branch in below {
            let w = self.measure.width(branch);
            let middle = x + w / 2;
            let slot = Rect { x, w, ..place };
            let end = match (branch, ports) {
                (Branch::Port(port, children), Some(h)) => {
                    self.port(port, middle, place.y - h, h);
                    self.hang(children, slot, middle, cards_y)
                }
                (branch, Some(_)) => self.hang(std::slice::from_ref(branch), slot, middle, cards_y),
                (branch, None) => self.branch(branch, slot, cards_y),
            };
            bottom = bottom.max(end);
            x += w + GAP;
        }
        bottom
    }

    /// Draws branches on one wire from above at x.
    fn hang(&mut self, below: &[Branch], place: Rect, from: i32, cards_y: i32) -> i32 {
        let mut x = place.x + (place.w - self.measure.span(below)) / 2;
        let mut bottom = cards_y;
        for branch in below {
            let w = self.measure.width(branch);
            let middle = x + w / 2;
            let (top, notes, lanes) = match branch {
                Branch::Card(_, notes, lanes) => (cards_y, notes.as_slice(), *lanes),
                Branch::Hub(hub, _) => (place.y + LINK, hub.link.as_slice(), hub.lanes),
                Branch::Port(..) => (place.y + LINK, [].as_slice(), 0),
            };
            self.link((from, place.y), (middle, top), notes, lanes);
            let slot = Rect { x, y: top, w, h: 0 };
            bottom = bottom.max(self.branch(branch, slot, cards_y));
            x += w + GAP;
        }
        bottom
    }

    fn branch(&mut self, branch: &Branch, place: Rect, cards_y: i32) -> i32 {
        match branch {
            Branch::Card(rows, ..) => self.card(&self.cards.card(rows), place, cards_y),
            Branch::Hub(hub, below) => self.hub(hub, below, place, cards_y),
            // A port that is not on the edge of a bridge: the bridge above is of another kind.
            Branch::Port(port, below) => {
                let hub = Hub {
                    name: "port".to_owned(),
                    detail: port.bdf.to_string(),
                    link: Vec::new(),
                    lanes: 0,
                };
                self.hub(&hub, below, place, cards_y)
            }
        }
    }

    fn hub(&mut self, hub: &Hub, below: &[Branch], place: Rect, cards_y: i32) -> i32 {
        let name = hub_name(hub, place.w);
        self.bridge(Look::Switch, (&name, &hub.detail), below, place, cards_y)
    }

    fn port(&mut self, port: &Port, middle: i32, y: i32, h: i32) {
        let w = port_width(port);
        let rect = Rect { x: middle - w / 2, y, w, h };
        let look = match port.failure.as_ref().map(|failure| failure.ink) {
            None => Look::Port,
            Some(Ink::Bad) => Look::BadPort,
            Some(_) => Look::FairPort,
        };
        self.scene.frames.push(Frame { rect, look });
        let label = |x, y, anchor, style, ink, text: &str| Label {
            x,
            y,
            anchor,
            style,
            ink,
            text: text.to_owned(),
        };
        let bdf = port.bdf.to_string();
        let middle_of_line = if port.failure.is_some() { y + 13 } else { y + h / 2 + 4 };
        let line = label(middle, middle_of_line, Anchor::Middle, PORT, Ink::Grey, &bdf);
        self.scene.labels.push(line);
        if let Some(Problem { bits, ink }) = &port.failure {
            let left = middle - (TRIANGLE + TROUBLE.width(bits)) / 2;
            let triangle = Rect { x: left, y: y + 20, w: 13, h: 11 };
            self.scene.warnings.push((triangle, *ink));
            let line = label(left + TRIANGLE, y + 30, Anchor::Start, TROUBLE, *ink, bits);
            self.scene.labels.push(line);
        }
    }

    fn link(&mut self, from: (i32, i32), to: (i32, i32), notes: &[Note], lanes: u8) {
        let bend = from.1 + 9;
        let points = if from.0 == to.0 {
            vec![from, to]
        } else {
            vec![from, (from.0, bend), (to.0, bend), to]
        };
        self.scene.wires.push(Wire {
            points,
            // A link with missing lanes shows it in its text and colour.
            ink: if notes.iter().any(|(_, ink)| *ink == Ink::Bad) { Ink::Bad } else { Ink::Link },
            thickness: match lanes {
                0..=3 => 1,
                4..=7 => 2,
                8..=15 => 3,
                _ => 5,
            },
            net: false,
        });
        let baselines = (from.1 + 25..).step_by(15);
        for ((text, ink), y) in notes.iter().zip(baselines) {
            self.scene.write(to.0 + BESIDE, y, SMALL, *ink, text.as_str());
        }
    }

    fn card(&mut self, card: &Card, place: Rect, y: i32) -> i32 {
        let rect = Rect { x: place.x + (place.w - card.w) / 2, y, w: card.w, h: card.h };
        self.scene.frames.push(Frame { rect, look: card.look });
        let mut top = y;
        let mut wires = 0;
        for section in &card.sections {
            let mut baseline = top;
            for (at, (text, style, ink)) in section.lines.iter().enumerate() {
                baseline = if at == 0 {
                    first_baseline(top, *style)
                } else {
                    baseline + line_height(*style)
                };
                self.scene.write(rect.x + LEFT, baseline, *style, *ink, text.as_str());
            }
            let leave =
                Leave { rect, y: top + 16, first: (card.sections.len() > 1).then_some(wires) };
            self.pins.insert(section.row, leave);
            wires += self.cards.wires(section.row);
            top += section.h;
        }
        rect.bottom()
    }
}
