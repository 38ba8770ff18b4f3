//! Breaks host bridges into lines (decks): wide machines wrap, each NUMA node on its own.

use super::measure::{GAP, Measure};
use super::tree::{Branch, Group, Root};

/// Preferred maximum width of a line.
const PAGE: i32 = 1900;
/// Padding inside the box of a NUMA node.
pub const INSET: i32 = 18;

/// A host bridge, or a part of one.
#[derive(Clone, Copy)]
pub struct RootPart<'a> {
    pub root: &'a Root,
    pub branches: &'a [Branch],
    /// An earlier part of it is further up.
    pub continued: bool,
    pub w: i32,
}

/// One line of the drawing: parts of one or more groups.
pub struct Deck<'a> {
    pub lots: Vec<Lot<'a>>,
}

/// The parts of one group in one deck.
pub struct Lot<'a> {
    pub group: usize,
    pub parts: Vec<RootPart<'a>>,
}

impl Lot<'_> {
    /// Width of the parts.
    pub fn inner(&self) -> i32 {
        sum(&self.parts)
    }

    /// Width of the box.
    pub fn outer(&self, title: i32) -> i32 {
        self.inner().max(title) + 2 * INSET
    }
}

impl Deck<'_> {
    /// Width of the boxes, including the space between them.
    pub fn width(&self, titles: &[i32]) -> i32 {
        let boxes: i32 = self.lots.iter().map(|lot| lot.outer(titles[lot.group])).sum();
        boxes + GAP * (i32::try_from(self.lots.len()).unwrap_or(1) - 1)
    }
}

/// Wraps the groups; groups share a line if they fit.
pub fn decks<'a>(measure: &Measure<'_>, groups: &'a [Group], titles: &[i32]) -> Vec<Deck<'a>> {
    let mut decks: Vec<Deck<'a>> = Vec::new();
    let mut open = false;
    for (group, content) in groups.iter().enumerate() {
        let lines = balanced(&parts(measure, content));
        let single = lines.len() == 1;
        for parts in lines {
            let lot = Lot { group, parts };
            match decks.last_mut() {
                Some(deck)
                    if open
                        && single
                        && deck.width(titles) + GAP + lot.outer(titles[group]) <= PAGE =>
                {
                    deck.lots.push(lot);
                }
                _ => decks.push(Deck { lots: vec![lot] }),
            }
        }
        open = single;
    }
    decks
}

/// The host bridges of a group; those wider than the page are split.
fn parts<'a>(measure: &Measure<'_>, group: &'a Group) -> Vec<RootPart<'a>> {
    let mut parts = Vec::new();
    for root in &group.roots {
        let root_part = |branches: &'a [Branch], continued| RootPart {
            root,
            branches,
            continued,
            w: measure.root_width(root, branches),
        };
        let whole = root_part(&root.below, false);
        if whole.w <= PAGE {
            parts.push(whole);
            continue;
        }
        let count = usize::try_from(whole.w / PAGE + 1).unwrap_or(1);
        let each = root.below.len().div_ceil(count).max(1);
        parts.extend(root.below.chunks(each).enumerate().map(|(at, part)| root_part(part, at > 0)));
    }
    parts
}

/// The fewest lines possible, as even as possible.
fn balanced<'a>(parts: &[RootPart<'a>]) -> Vec<Vec<RootPart<'a>>> {
    let lines = wrap(parts, PAGE);
    let widest = parts.iter().map(|part| part.w).max().unwrap_or(PAGE);
    let mut room = widest.min(PAGE);
    while room < PAGE {
        let tried = wrap(parts, room);
        if tried.len() <= lines.len() {
            return tried;
        }
        room += 8;
    }
    lines
}

fn wrap<'a>(parts: &[RootPart<'a>], room: i32) -> Vec<Vec<RootPart<'a>>> {
    let mut lines: Vec<Vec<RootPart<'a>>> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if sum(line) + GAP + part.w <= room => line.push(*part),
            _ => lines.push(vec![*part]),
        }
    }
    lines
}

fn sum(parts: &[RootPart<'_>]) -> i32 {
    let gaps = GAP * (i32::try_from(parts.len()).unwrap_or(1) - 1);
    parts.iter().map(|part| part.w).sum::<i32>() + gaps
}
