//! Widths of branches, and the distance from their top to the cards.

use super::card::Cards;
use super::text::Type;
use super::tree::{Branch, Hub, Note, Port, Root};

pub const GAP: i32 = 16;
/// Padding inside a bridge's box.
pub const PAD: i32 = 10;
/// Height of a bridge's name and address.
pub const HEAD: i32 = 42;
/// Distance from a port to the branch below it, with two lines of text next to the wire.
pub const LINK: i32 = 54;
/// Distance between a wire and its text.
pub const BESIDE: i32 = 8;

pub const HUB_NAME: Type = Type::bold(12);
pub const SMALL: Type = Type::plain(11);
pub const PORT: Type = Type::plain(10);
pub const TROUBLE: Type = Type::bold(10);
/// Width of a warning triangle and the space after it.
pub const TRIANGLE: i32 = 18;

const PORT_LINE: i32 = 18;

pub struct Measure<'a> {
    pub cards: &'a Cards<'a>,
}

impl Measure<'_> {
    /// Width of a branch, pixels.
    pub fn width(&self, branch: &Branch) -> i32 {
        match branch {
            Branch::Card(rows, link, _) => self.cards.width(rows).max(notes_width(link)),
            Branch::Port(port, below) => port_width(port).max(self.span(below)),
            Branch::Hub(hub, below) => {
                let text = HUB_NAME.width(&hub.name).min(220).max(SMALL.width(&hub.detail));
                (self.span(below).max(text) + 2 * PAD).max(notes_width(&hub.link))
            }
        }
    }

    /// Width of branches side by side, pixels.
    pub fn span(&self, branches: &[Branch]) -> i32 {
        let gaps = GAP * (i32::try_from(branches.len()).unwrap_or(0) - 1).max(0);
        branches.iter().map(|branch| self.width(branch)).sum::<i32>() + gaps
    }

    /// Width of a host bridge with these branches, pixels.
    pub fn root_width(&self, root: &Root, branches: &[Branch]) -> i32 {
        let Some(title) = &root.title else {
            return self.span(branches);
        };
        let text = HUB_NAME.width(&root_title(title, false)).max(SMALL.width(&others(root.others)));
        self.span(branches).max(text) + 2 * PAD
    }

    /// Distance from the top of a host bridge to its cards.
    pub fn root_drop(&self, root: &Root, branches: &[Branch]) -> i32 {
        match &root.title {
            Some(_) => self.hub_drop(branches),
            None => 0,
        }
    }

    fn hub_drop(&self, below: &[Branch]) -> i32 {
        let hanging = |branch: &Branch| match branch {
            Branch::Port(_, below) => {
                below.iter().map(|branch| self.drop(branch)).max().unwrap_or(0)
            }
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

/// Height of the ports at the lower edge of a bridge: equal for all, larger if one has a warning.
pub fn ports_height(below: &[Branch]) -> i32 {
    let height = |branch: &Branch| match branch {
        Branch::Port(Port { failure: Some(_), .. }, _) => 2 * PORT_LINE,
        Branch::Port(..) => PORT_LINE,
        Branch::Hub(..) | Branch::Card(..) => 0,
    };
    below.iter().map(height).max().unwrap_or(0)
}

/// Width of a port's box.
pub fn port_width(port: &Port) -> i32 {
    let failure =
        port.failure.as_ref().map_or(0, |failure| TRIANGLE + TROUBLE.width(&failure.bits));
    PORT.width(&port.bdf.to_string()).max(failure) + 12
}

/// The branch is centred, so the text next to its link needs the same space on both sides.
fn notes_width(notes: &[Note]) -> i32 {
    let text = notes.iter().map(|(text, _)| SMALL.width(text)).max();
    text.map_or(0, |text| 2 * (text + BESIDE))
}

/// Title of a host bridge's box.
pub fn root_title(bus: &str, continued: bool) -> String {
    if continued { format!("{bus}, continued") } else { format!("host bridge {bus}") }
}

/// Label for devices without a row.
pub fn others(count: usize) -> String {
    match count {
        0 => "no other devices".to_owned(),
        1 => "+1 other device".to_owned(),
        _ => format!("+{count} other devices"),
    }
}

/// Name of a bridge, cut to its box.
pub fn hub_name(hub: &Hub, w: i32) -> String {
    HUB_NAME.fit(&hub.name, w - 2 * PAD)
}
