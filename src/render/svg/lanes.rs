//! Routes the wires between cards: down from a card to a track below its deck, along the track, and up to the other
//! card; between decks through a gutter on the right. Wires may cross but do not overlap.

use std::collections::BTreeMap;

use super::nets::Net;
use super::scene::{Anchor, Ink, Label, Pill, Rect, Scene, Wire};
use super::text::Type;
use crate::model::Order as _;

const TRACK: i32 = 24;
const COLUMN: i32 = 14;
const PILL: i32 = 18;
/// Length of a vertical segment used by the rounded corner.
const CORNER: i32 = 18;
const PILL_TYPE: Type = Type::bold(11);

/// The point where a wire leaves a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    pub x: i32,
    pub y: i32,
}

/// The part of a net in one deck.
struct Part {
    net: usize,
    deck: usize,
    pins: Vec<Pin>,
    /// The net continues in another deck.
    leaves: bool,
    track: i32,
    y: i32,
}

/// Routes the nets, deck by deck.
pub struct Lanes<'a> {
    nets: &'a [Net],
    /// The decks in which each net has rows.
    decks: Vec<Vec<usize>>,
    /// Deck of the first row of each net, where its label is.
    homes: Vec<Option<usize>>,
    /// Left edge of the gutter.
    gutter: i32,
    parts: Vec<Part>,
}

impl<'a> Lanes<'a> {
    /// `deck_of` maps each row to its deck.
    pub fn new(nets: &'a [Net], deck_of: &BTreeMap<usize, usize>, gutter: i32) -> Self {
        let decks = nets.iter().map(|net| {
            let mut decks: Vec<usize> =
                net.rows.iter().filter_map(|row| deck_of.get(row).copied()).collect();
            decks.sort_unstable();
            decks.dedup();
            decks
        });
        let homes = nets.iter().map(|net| deck_of.get(net.rows.first()?).copied());
        Self { nets, decks: decks.collect(), homes: homes.collect(), gutter, parts: Vec::new() }
    }

    /// Places the tracks of a deck below y and returns their height.
    pub fn deck(&mut self, deck: usize, pins: &BTreeMap<usize, Vec<Pin>>, y: i32) -> i32 {
        let mut parts: Vec<Part> = pins
            .iter()
            .map(|(net, pins)| {
                let mut pins = pins.clone();
                pins.order_by_key(|pin| pin.x);
                Part { net: *net, deck, pins, leaves: self.decks[*net].len() > 1, track: 0, y: 0 }
            })
            .collect();
        // Short wires first, so that long ones go around them. NVLink is lowest.
        parts.order_by_key(|part| {
            let (low, high) = self.ends(part);
            (self.nets[part.net].is_nvlink(), high - low, part.net)
        });
        let mut tracks: Vec<Vec<(i32, i32)>> = Vec::new();
        for part in &mut parts {
            let (low, high) = self.ends(part);
            // The pill is at least as wide as the wire.
            let spare = (PILL_TYPE.width(&self.nets[part.net].text) + 20 - (high - low)).max(0) / 2;
            let (low, high) = (low - spare - 8, high + spare + 8);
            let free = |taken: &Vec<(i32, i32)>| taken.iter().all(|(l, h)| high < *l || *h < low);
            let track = tracks.iter().position(free).unwrap_or(tracks.len());
            if track == tracks.len() {
                tracks.push(Vec::new());
            }
            tracks[track].push((low, high));
            part.track = i32::try_from(track).unwrap_or(0);
            part.y = y + TRACK / 2 + TRACK * part.track;
        }
        self.parts.extend(parts);
        TRACK * i32::try_from(tracks.len()).unwrap_or(0)
    }

    fn ends(&self, part: &Part) -> (i32, i32) {
        let xs = || part.pins.iter().map(|pin| pin.x);
        let (low, high) = (xs().min().unwrap_or(0), xs().max().unwrap_or(0));
        (low, if part.leaves { self.gutter } else { high })
    }

    /// Draws everything and returns the right edge of the gutter.
    pub fn finish(mut self, scene: &mut Scene) -> i32 {
        let columns = self.columns();
        // NVLink bars are below the wires of the pairs.
        self.parts.order_by_key(|part| (!self.nets[part.net].is_nvlink(), part.net, part.deck));
        for part in &self.parts {
            let net = &self.nets[part.net];
            let (low, _) = self.ends(part);
            let exit = part.leaves.then(|| self.gutter + COLUMN * (columns[&part.net] + 1));
            trunk(scene, net, part, exit.map(|x| (x, self.turn(part))));
            self.gutter_wire(scene, part, exit);
            let first = self.homes[part.net] == Some(part.deck);
            if net.is_nvlink() || first {
                let x = self.clearing(
                    part,
                    low,
                    exit.map_or_else(|| self.ends(part).1, |_| self.gutter),
                );
                scene.pills.push(pill(net, x, part.y));
            }
        }
        let last = columns.values().max().map_or(0, |column| COLUMN * (column + 2));
        self.gutter + last
    }

    /// The leftmost and rightmost tracks of a net.
    fn extent(&self, part: &Part) -> (i32, i32) {
        let ys = self.parts.iter().filter(|other| other.net == part.net).map(|other| other.y);
        ys.fold((part.y, part.y), |(top, bottom), y| (top.min(y), bottom.max(y)))
    }

    /// Vertical offset of the end of a track that turns into the gutter: down, up, or none if it ends there.
    fn turn(&self, part: &Part) -> i32 {
        match self.extent(part) {
            (top, _) if part.y == top => CORNER,
            (_, bottom) if part.y == bottom => -CORNER,
            _ => 0,
        }
    }

    /// The vertical segment of a net between decks, drawn once, from its first to its last deck.
    fn gutter_wire(&self, scene: &mut Scene, part: &Part, exit: Option<i32>) {
        let (top, bottom) = self.extent(part);
        if let Some(x) = exit.filter(|_| part.y == top) {
            let net = &self.nets[part.net];
            scene.wires.push(wire(net, vec![(x, top + CORNER), (x, bottom - CORNER)]));
        }
    }

    /// Assigns a gutter column to each net between decks, short ones inside.
    fn columns(&self) -> BTreeMap<usize, i32> {
        let mut spans: BTreeMap<usize, (i32, i32)> = BTreeMap::new();
        for part in self.parts.iter().filter(|part| part.leaves) {
            let span = spans.entry(part.net).or_insert((part.y, part.y));
            *span = (span.0.min(part.y), span.1.max(part.y));
        }
        let mut order: Vec<_> = spans.into_iter().collect();
        order.order_by_key(|(net, (top, bottom))| (bottom - top, *net));
        let mut taken: Vec<Vec<(i32, i32)>> = Vec::new();
        let mut columns = BTreeMap::new();
        for (net, (top, bottom)) in order {
            let free = |spans: &Vec<(i32, i32)>| spans.iter().all(|(t, b)| bottom < *t || *b < top);
            let column = taken.iter().position(free).unwrap_or(taken.len());
            if column == taken.len() {
                taken.push(Vec::new());
            }
            taken[column].push((top, bottom));
            columns.insert(net, i32::try_from(column).unwrap_or(0));
        }
        columns
    }

    /// Middle of the longest part of a track that no other wire crosses.
    fn clearing(&self, part: &Part, low: i32, high: i32) -> i32 {
        let deeper = |other: &&Part| {
            other.deck == part.deck && (other.track > part.track || other.net == part.net)
        };
        let mut stops: Vec<i32> =
            self.parts.iter().filter(deeper).flat_map(|other| &other.pins).map(|p| p.x).collect();
        stops.retain(|x| (low..=high).contains(x));
        stops.extend([low, high]);
        stops.sort_unstable();
        let mut best = (0, low, high);
        for pair in stops.windows(2) {
            if let &[left, right] = pair
                && right - left > best.0
            {
                best = (right - left, left, right);
            }
        }
        i32::midpoint(best.1, best.2)
    }
}

/// Draws a track and the segments down to it.
fn trunk(scene: &mut Scene, net: &Net, part: &Part, exit: Option<(i32, i32)>) {
    let (Some(first), Some(last)) = (part.pins.first(), part.pins.last()) else {
        return;
    };
    let mut points = vec![(first.x, first.y), (first.x, part.y)];
    match exit {
        Some((x, 0)) => points.push((x, part.y)),
        Some((x, turn)) => points.extend([(x, part.y), (x, part.y + turn)]),
        None => points.extend([(last.x, part.y), (last.x, last.y)]),
    }
    scene.wires.push(wire(net, points));
    let middle = if exit.is_some() { part.pins.len() } else { part.pins.len() - 1 };
    for pin in part.pins.get(1..middle).unwrap_or_default() {
        scene.wires.push(wire(net, vec![(pin.x, pin.y), (pin.x, part.y)]));
    }
    scene.dots.extend(part.pins.iter().map(|pin| (pin.x, pin.y, net.ink)));
}

fn wire(net: &Net, points: Vec<(i32, i32)>) -> Wire {
    Wire { points, ink: net.ink, thickness: if net.is_nvlink() { 6 } else { 3 }, net: true }
}

fn pill(net: &Net, x: i32, y: i32) -> Pill {
    let w = PILL_TYPE.width(&net.text) + 16;
    Pill {
        rect: Rect { x: x - w / 2, y: y - PILL / 2, w, h: PILL },
        ink: net.ink,
        label: Label {
            x,
            y: y + 4,
            anchor: Anchor::Middle,
            style: PILL_TYPE,
            ink: Ink::Text,
            text: net.text.clone(),
        },
    }
}
