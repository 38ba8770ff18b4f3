//! Places the trees on the page. From top to bottom: host bridges, switches, cards, and the tracks of the wires
//! between cards. All cards of a deck have the same y.

use std::collections::BTreeMap;

use super::card::{Cards, PIN};
use super::decks::{Deck, INSET, Lot, decks};
use super::lanes::{Lanes, Pin};
use super::measure::{GAP, Measure, others, root_title};
use super::nets::Net;
use super::scene::{Frame, Ink, Look, Rect, Scene};
use super::text::Type;
use super::tree::{Branch, Group};
use crate::model::Order as _;

const GROUP_TITLE: Type = Type::bold(14);
/// Height of the title of a NUMA node's box.
const GROUP_HEAD: i32 = 40;
/// Distance from the lowest card to the first track.
const ABOVE_TRACKS: i32 = 12;
const BETWEEN: i32 = 22;

/// Places trees in a scene.
pub struct Layout<'a> {
    pub measure: Measure<'a>,
    pub cards: &'a Cards<'a>,
    pub nets: &'a [Net],
    pub scene: Scene,
    /// Position of each row's card, and the y from which its wires leave.
    pub(super) pins: BTreeMap<usize, Leave>,
}

/// Where wires leave the card of a row.
#[derive(Clone, Copy)]
pub(super) struct Leave {
    pub rect: Rect,
    /// The y of the title line, on a card with several sections.
    pub y: i32,
    /// Index of its first wire, on a card with several sections.
    pub first: Option<usize>,
}

impl<'a> Layout<'a> {
    pub fn new(cards: &'a Cards<'a>, nets: &'a [Net]) -> Self {
        Self {
            measure: Measure { cards },
            cards,
            nets,
            scene: Scene::default(),
            pins: BTreeMap::new(),
        }
    }

    /// Places the groups below y on a page of at least this width; returns the right and lower edges.
    pub fn groups(&mut self, groups: &[Group], left: i32, y: i32, width: i32) -> (i32, i32) {
        let title = |group: &Group| GROUP_TITLE.width(&group.title);
        let titles: Vec<i32> = groups.iter().map(title).collect();
        let decks = decks(&self.measure, groups, &titles);
        let width = decks.iter().map(|deck| deck.width(&titles)).fold(width, i32::max);
        let mut deck_of = BTreeMap::new();
        for (at, deck) in decks.iter().enumerate() {
            let branches =
                deck.lots.iter().flat_map(|lot| &lot.parts).flat_map(|part| part.branches);
            branches.for_each(|branch| {
                rows_of(branch, &mut |row| {
                    deck_of.insert(row, at);
                })
            });
        }
        let mut lanes = Lanes::new(self.nets, &deck_of, left + width + 4);
        // Boxes are behind everything: add their frames first, although their height is known last.
        let mut boxes: BTreeMap<usize, Rect> = BTreeMap::new();
        let mut y = y;
        for (at, deck) in decks.iter().enumerate() {
            let begins = deck.lots.iter().any(|lot| !boxes.contains_key(&lot.group));
            let top = y;
            if begins {
                y += GROUP_HEAD;
            }
            let bottom = self.deck(deck, &titles, left, y, width);
            let pins = self.pins_of(&deck_of, at);
            let tracks = lanes.deck(at, &pins, bottom + ABOVE_TRACKS);
            y = bottom + tracks + ABOVE_TRACKS + if tracks > 0 { 6 } else { 4 };
            for (lot, (x, w)) in deck.lots.iter().zip(spread(deck, &titles, left, width)) {
                let rect = boxes.entry(lot.group).or_insert(Rect { x, y: top, w, h: 0 });
                rect.h = y - rect.y;
            }
            let goes_on =
                |next: &Deck<'_>| next.lots.iter().any(|lot| boxes.contains_key(&lot.group));
            y += if decks.get(at + 1).is_some_and(goes_on) { 8 } else { BETWEEN };
        }
        let frames = boxes.values().map(|rect| Frame { rect: *rect, look: Look::Group });
        self.scene.frames.splice(0..0, frames);
        for (group, rect) in boxes {
            let (x, y) = (rect.x + INSET, rect.y + 25);
            let text = groups[group].title.clone();
            self.scene.write(x, y, GROUP_TITLE, Ink::Text, text);
        }
        let right = lanes.finish(&mut self.scene);
        (right.max(left + width), y)
    }

    /// Places a deck and returns the lower edge of its cards.
    fn deck(&mut self, deck: &Deck<'_>, titles: &[i32], left: i32, y: i32, width: i32) -> i32 {
        let parts = || deck.lots.iter().flat_map(|lot| &lot.parts);
        let drop =
            |part: &super::decks::RootPart<'_>| self.measure.root_drop(part.root, part.branches);
        let cards_y = y + parts().map(drop).max().unwrap_or(0);
        let mut bottom = cards_y;
        for (lot, (x, w)) in deck.lots.iter().zip(spread(deck, titles, left, width)) {
            let mut x = x + (w - lot.inner()) / 2;
            for part in &lot.parts {
                let place = Rect { x, y, w: part.w, h: 0 };
                match &part.root.title {
                    None => bottom = bottom.max(self.row(part.branches, place, None, cards_y)),
                    Some(bus) => {
                        let name = root_title(bus, part.continued);
                        let detail =
                            if part.continued { String::new() } else { others(part.root.others) };
                        let end = self.bridge(
                            Look::Root,
                            (&name, &detail),
                            part.branches,
                            place,
                            cards_y,
                        );
                        bottom = bottom.max(end);
                    }
                }
                x += part.w + GAP;
            }
        }
        bottom
    }

    /// The pins of each net in a deck.
    fn pins_of(&self, deck_of: &BTreeMap<usize, usize>, deck: usize) -> BTreeMap<usize, Vec<Pin>> {
        let here = |row: &usize| deck_of.get(row) == Some(&deck);
        // Position of the other rows of a net, to avoid crossings on a card: far right for another deck.
        let aim = |net: &Net, row: usize| {
            let others = net.rows.iter().filter(|other| **other != row);
            let xs = others.map(|other| match self.pins.get(other).filter(|_| here(other)) {
                Some(leave) => leave.rect.x,
                None => i32::MAX / 64,
            });
            let (sum, count) =
                xs.fold((0_i64, 0_i64), |(sum, count), x| (sum + i64::from(x), count + 1));
            sum / count.max(1)
        };
        let mut pins: BTreeMap<usize, Vec<Pin>> = BTreeMap::new();
        for (&row, leave) in self.pins.iter().filter(|(row, _)| here(row)) {
            let mut mine: Vec<usize> =
                (0..self.nets.len()).filter(|at| self.nets[*at].rows.contains(&row)).collect();
            mine.order_by_key(|at| (aim(&self.nets[*at], row), *at));
            let count = mine.len();
            for (at, net) in mine.into_iter().enumerate() {
                pins.entry(net).or_default().push(leave.pin(at, count));
            }
        }
        pins
    }
}

impl Leave {
    /// The pin of wire `at` of `count`.
    fn pin(&self, at: usize, count: usize) -> Pin {
        let number = |value: usize| i32::try_from(value).unwrap_or(0);
        match self.first {
            None => Pin {
                x: self.rect.x + self.rect.w * (number(at) + 1) / (number(count) + 1),
                y: self.rect.bottom(),
            },
            Some(first) => Pin { x: self.rect.right() - PIN * (number(first + at) + 1), y: self.y },
        }
    }
}

/// Left edge and width of each box of a deck: together they fill the width.
fn spread(deck: &Deck<'_>, titles: &[i32], left: i32, width: i32) -> Vec<(i32, i32)> {
    let count = i32::try_from(deck.lots.len()).unwrap_or(1).max(1);
    let spare = (width - deck.width(titles)) / count;
    let mut x = left;
    let place = |lot: &Lot<'_>| {
        let w = lot.outer(titles[lot.group]) + spare;
        let at = x;
        x += w + GAP;
        (at, w)
    };
    let mut places: Vec<_> = deck.lots.iter().map(place).collect();
    if let Some(last) = places.last_mut() {
        last.1 = left + width - last.0;
    }
    places
}

fn rows_of(branch: &Branch, each: &mut impl FnMut(usize)) {
    match branch {
        Branch::Card(rows, ..) => rows.iter().for_each(|row| each(*row)),
        Branch::Port(_, below) | Branch::Hub(_, below) => {
            below.iter().for_each(|branch| rows_of(branch, each))
        }
    }
}
