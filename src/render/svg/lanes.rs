//! Wires that join cards: down from a card to a track below its deck, along it, and up to the other card; from deck to
//! deck by way of a gutter on the right of the page. Wires may cross, but no two run on top of each other.

use std::collections::BTreeMap;

use super::nets::Net;
use super::scene::{Anchor, Ink, Label, Pill, Rect, Scene, Wire};
use super::text::Type;

const TRACK: i32 = 24;
const COLUMN: i32 = 14;
const PILL: i32 = 18;
/// Of the vertical piece, what the corner takes.
const CORNER: i32 = 18;
const PILL_TYPE: Type = Type::bold(11);

/// Where a wire leaves a card.
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
    /// It goes on in another deck.
    leaves: bool,
    track: i32,
    y: i32,
}

/// Routes the nets, deck by deck.
pub struct Lanes<'a> {
    nets: &'a [Net],
    /// In which decks each net has rows.
    decks: Vec<Vec<usize>>,
    /// The deck of each net's first row, where its text stands.
    homes: Vec<Option<usize>>,
    /// Where the gutter begins.
    gutter: i32,
    parts: Vec<Part>,
}

impl<'a> Lanes<'a> {
    /// `deck_of` tells where each row is.
    pub fn new(nets: &'a [Net], deck_of: &BTreeMap<usize, usize>, gutter: i32) -> Self {
        let decks = nets.iter().map(|net| {
            let mut decks: Vec<usize> = net
                .rows
                .iter()
                .filter_map(|row| deck_of.get(row).copied())
                .collect();
            decks.sort_unstable();
            decks.dedup();
            decks
        });
        let homes = nets
            .iter()
            .map(|net| deck_of.get(net.rows.first()?).copied());
        Self {
            nets,
            decks: decks.collect(),
            homes: homes.collect(),
            gutter,
            parts: Vec::new(),
        }
    }

    /// Lays the tracks of a deck from y on; the height they take.
    pub fn deck(&mut self, deck: usize, pins: &BTreeMap<usize, Vec<Pin>>, y: i32) -> i32 {
        let mut parts: Vec<Part> = pins
            .iter()
            .map(|(net, pins)| {
                let mut pins = pins.clone();
                pins.sort_unstable_by_key(|pin| pin.x);
                Part {
                    net: *net,
                    deck,
                    pins,
                    leaves: self.decks[*net].len() > 1,
                    track: 0,
                    y: 0,
                }
            })
            .collect();
        // Short wires first: a long one then goes round them. NVLink is the lowest.
        parts.sort_by_key(|part| {
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

    /// Draws everything; the x where the gutter ends.
    pub fn finish(mut self, scene: &mut Scene) -> i32 {
        let columns = self.columns();
        // The bars of NVLink lie below the wires of the pairs.
        self.parts
            .sort_by_key(|part| (!self.nets[part.net].is_nvlink(), part.net, part.deck));
        for part in &self.parts {
            let net = &self.nets[part.net];
            let (low, _) = self.ends(part);
            let exit = part
                .leaves
                .then(|| self.gutter + COLUMN * (columns[&part.net] + 1));
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
        let last = columns
            .values()
            .max()
            .map_or(0, |column| COLUMN * (column + 2));
        self.gutter + last
    }

    /// The tracks of a net, the uppermost and the lowest.
    fn extent(&self, part: &Part) -> (i32, i32) {
        let ys = self
            .parts
            .iter()
            .filter(|other| other.net == part.net)
            .map(|other| other.y);
        ys.fold((part.y, part.y), |(top, bottom), y| {
            (top.min(y), bottom.max(y))
        })
    }

    /// Where a track ends that turns into the gutter: some pixels down, up, or none for one that ends there.
    fn turn(&self, part: &Part) -> i32 {
        match self.extent(part) {
            (top, _) if part.y == top => CORNER,
            (_, bottom) if part.y == bottom => -CORNER,
            _ => 0,
        }
    }

    /// The vertical piece of a net that leaves, drawn once, from its first deck to its last.
    fn gutter_wire(&self, scene: &mut Scene, part: &Part, exit: Option<i32>) {
        let (top, bottom) = self.extent(part);
        if let Some(x) = exit.filter(|_| part.y == top) {
            let net = &self.nets[part.net];
            scene
                .wires
                .push(wire(net, vec![(x, top + CORNER), (x, bottom - CORNER)]));
        }
    }

    /// A column of the gutter for each net that leaves: the short ones inside.
    fn columns(&self) -> BTreeMap<usize, i32> {
        let mut spans: BTreeMap<usize, (i32, i32)> = BTreeMap::new();
        for part in self.parts.iter().filter(|part| part.leaves) {
            let span = spans.entry(part.net).or_insert((part.y, part.y));
            *span = (span.0.min(part.y), span.1.max(part.y));
        }
        let mut order: Vec<_> = spans.into_iter().collect();
        order.sort_by_key(|(net, (top, bottom))| (bottom - top, *net));
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

    /// The middle of the longest stretch of a track that no other wire crosses.
    fn clearing(&self, part: &Part, low: i32, high: i32) -> i32 {
        let deeper = |other: &&Part| {
            other.deck == part.deck && (other.track > part.track || other.net == part.net)
        };
        let mut stops: Vec<i32> = self
            .parts
            .iter()
            .filter(deeper)
            .flat_map(|other| &other.pins)
            .map(|p| p.x)
            .collect();
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

/// The track with the ways down to it.
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
    let middle = if exit.is_some() {
        part.pins.len()
    } else {
        part.pins.len() - 1
    };
    for pin in part.pins.get(1..middle).unwrap_or_default() {
        scene
            .wires
            .push(wire(net, vec![(pin.x, pin.y), (pin.x, part.y)]));
    }
    scene
        .dots
        .extend(part.pins.iter().map(|pin| (pin.x, pin.y, net.ink)));
}

fn wire(net: &Net, points: Vec<(i32, i32)>) -> Wire {
    Wire {
        points,
        ink: net.ink,
        thickness: if net.is_nvlink() { 6 } else { 3 },
        net: true,
    }
}

fn pill(net: &Net, x: i32, y: i32) -> Pill {
    let w = PILL_TYPE.width(&net.text) + 16;
    Pill {
        rect: Rect {
            x: x - w / 2,
            y: y - PILL / 2,
            w,
            h: PILL,
        },
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
