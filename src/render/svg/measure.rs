//! How wide a branch is, and how far below its top its cards hang.

use super::card::Cards;
use super::text::Type;
use super::tree::{Branch, Hub, Note, Port, Root};

pub const GAP: i32 = 16;
/// Inside a bridge's box.
pub const PAD: i32 = 10;
/// Name and address of a bridge.
pub const HEAD: i32 = 42;
/// From a port to what hangs below it, with two lines of text beside the wire.
pub const LINK: i32 = 54;
/// Between a wire and the text beside it.
pub const BESIDE: i32 = 8;

pub const HUB_NAME: Type = Type::bold(12);
pub const SMALL: Type = Type::plain(11);
pub const PORT: Type = Type::plain(10);
pub const TROUBLE: Type = Type::bold(10);
/// A warning triangle and the space after it.
pub const TRIANGLE: i32 = 18;

const PORT_LINE: i32 = 18;

pub struct Measure<'a> {
    pub cards: &'a Cards<'a>,
}

impl Measure<'_> {
    /// Pixels a branch takes from left to right.
    pub fn width(&self, branch: &Branch) -> i32 {
        match branch {
            Branch::Card(rows, link, _) => self.cards.width(rows).max(notes_width(link)),
            Branch::Port(port, below) => port_width(port).max(self.span(below)),
            Branch::Hub(hub, below) => {
                let text = HUB_NAME
                    .width(&hub.name)
                    .min(220)
                    .max(SMALL.width(&hub.detail));
                (self.span(below).max(text) + 2 * PAD).max(notes_width(&hub.link))
            }
        }
    }

    /// Pixels that branches side by side take.
    pub fn span(&self, branches: &[Branch]) -> i32 {
        let gaps = GAP * (i32::try_from(branches.len()).unwrap_or(0) - 1).max(0);
        branches
            .iter()
            .map(|branch| self.width(branch))
            .sum::<i32>()
            + gaps
    }

    /// Pixels a host bridge takes with these of its branches.
    pub fn root_width(&self, root: &Root, branches: &[Branch]) -> i32 {
        let Some(title) = &root.title else {
            return self.span(branches);
        };
        let text = HUB_NAME
            .width(&root_title(title, false))
            .max(SMALL.width(&others(root.others)));
        self.span(branches).max(text) + 2 * PAD
    }

    /// From the top of a host bridge to its cards.
    pub fn root_drop(&self, root: &Root, branches: &[Branch]) -> i32 {
        match &root.title {
            Some(_) => self.hub_drop(branches),
            None => 0,
        }
    }

    fn hub_drop(&self, below: &[Branch]) -> i32 {
        let hanging = |branch: &Branch| match branch {
            Branch::Port(_, below) => below
                .iter()
                .map(|branch| self.drop(branch))
                .max()
                .unwrap_or(0),
            other => self.drop(other),
        };
        HEAD + ports_height(below) + LINK + below.iter().map(hanging).max().unwrap_or(0)
    }

    fn drop(&self, branch: &Branch) -> i32 {
        match branch {
            Branch::Card(..) => 0,
            Branch::Hub(_, below) | Branch::Port(_, below) => self.hub_drop(below),
        }
    }
}

/// The height of the ports along the lower edge of a bridge: all alike, higher where one has trouble.
pub fn ports_height(below: &[Branch]) -> i32 {
    let height = |branch: &Branch| match branch {
        Branch::Port(
            Port {
                failure: Some(_), ..
            },
            _,
        ) => 2 * PORT_LINE,
        Branch::Port(..) => PORT_LINE,
        Branch::Hub(..) | Branch::Card(..) => 0,
    };
    below.iter().map(height).max().unwrap_or(0)
}

/// The width of a port's own box.
pub fn port_width(port: &Port) -> i32 {
    let failure = port
        .failure
        .as_ref()
        .map_or(0, |failure| TRIANGLE + TROUBLE.width(&failure.bits));
    PORT.width(&port.bdf.to_string()).max(failure) + 12
}

/// A branch hangs in the middle, so text beside its link needs the same room on both sides.
fn notes_width(notes: &[Note]) -> i32 {
    let text = notes.iter().map(|(text, _)| SMALL.width(text)).max();
    text.map_or(0, |text| 2 * (text + BESIDE))
}

/// What stands in a host bridge's box.
pub fn root_title(bus: &str, continued: bool) -> String {
    match continued {
        false => format!("host bridge {bus}"),
        true => format!("{bus}, continued"),
    }
}

/// The devices that are no rows.
pub fn others(count: usize) -> String {
    match count {
        0 => "no other devices".to_owned(),
        1 => "+1 other device".to_owned(),
        _ => format!("+{count} other devices"),
    }
}

/// The name of a bridge, cut to its box.
pub fn hub_name(hub: &Hub, w: i32) -> String {
    HUB_NAME.fit(&hub.name, w - 2 * PAD)
}
