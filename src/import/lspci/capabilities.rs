//! Capabilities below a function, by title, and what a missing one means.

use super::lines::Line;
use super::{express, extended};
use crate::model::config::PortType;
use crate::model::{Config, Fact, Why};

const EXTENDED: u16 = 0x100;

/// The relevant extended capabilities, for an lspci that prints their numbers.
const BY_NUMBER: [(u16, &str); 4] =
    [(0x03, "serial"), (0x0d, "acs"), (0x0f, "ats"), (0x10, "sriov")];

/// The result of reading the lines from the first capability on.
pub(super) struct Listed {
    /// Known for capabilities that are printed completely, otherwise unknown.
    pub config: Config,
    /// The port type, which only the title has.
    pub port: Option<PortType>,
    /// Why the list may be incomplete.
    pub denied: bool,
    /// The list in the first 256 bytes is broken.
    pub broken: bool,
    /// The extended list is broken.
    pub broken_beyond: bool,
    /// Number in the first 256 bytes.
    pub legacy: usize,
    /// Number in extended space.
    pub beyond: usize,
    /// It may have extended capabilities: PCI Express, PCI-X.
    pub may_go_beyond: bool,
    /// An extended capability with unreadable type is listed.
    pub illegible: bool,
    /// Relevant capabilities that are listed, and so not absent.
    named: Vec<&'static str>,
    /// The vital product data mark a switch management function.
    pub manages: bool,
}

/// Reads these lines, the first of which is a title.
pub(super) fn listed(lines: &[Line<'_>]) -> Listed {
    let mut listed = Listed {
        config: Config::default(),
        port: None,
        denied: false,
        broken: false,
        broken_beyond: false,
        legacy: 0,
        beyond: 0,
        may_go_beyond: false,
        illegible: false,
        named: Vec::new(),
        manages: false,
    };
    let mut rest = lines;
    while let Some((first, below)) = rest.split_first() {
        let count = below.iter().take_while(|line| title(line).is_none()).count();
        let (below, next) = below.split_at(count);
        if let Some(title) = title(first) {
            listed.add(title, below);
        }
        rest = next;
    }
    listed
}

/// The text after `Capabilities: `.
pub(super) fn title<'a>(line: &'a Line<'_>) -> Option<&'a str> {
    line.text.strip_prefix("Capabilities: ")
}

impl Listed {
    fn add(&mut self, text: &str, below: &[Line<'_>]) {
        if text.starts_with("<access denied>") {
            self.denied = true;
            return;
        }
        let Some((offset, title)) = offset(text) else {
            return;
        };
        if offset < EXTENDED {
            self.legacy += 1;
            self.add_legacy(offset, title, below);
        } else {
            self.beyond += 1;
            self.add_extended(offset, title, below);
        }
    }

    fn add_legacy(&mut self, offset: u16, title: &str, below: &[Line<'_>]) {
        if title.starts_with("Express") && first(&mut self.named, "express") {
            self.may_go_beyond = true;
            self.port = express::port(title);
            self.config.express = known_if_complete(express::express(offset, title, below));
        } else if title.starts_with("PCI-X ") {
            self.may_go_beyond = true;
        } else if title.starts_with("<chain ") {
            self.broken = true;
        } else if title.starts_with("Vital Product Data") {
            self.manages = below.iter().any(|line| line.text.contains("SW_MNG"));
        }
    }

    fn add_extended(&mut self, offset: u16, title: &str, below: &[Line<'_>]) {
        match numbered(title) {
            // Listed without details: like a partially printed one.
            Some(Some(id)) => {
                if let Some((_, name)) = BY_NUMBER.iter().find(|(number, _)| *number == id) {
                    first(&mut self.named, name);
                }
                return;
            }
            // It may be any of them.
            Some(None) => {
                self.illegible = true;
                return;
            }
            None => {}
        }
        let config = &mut self.config;
        let named = |name: &str| title.starts_with(name);
        if named("Access Control Services") && first(&mut self.named, "acs") {
            config.acs = known_if_complete(extended::acs(offset, below));
        } else if named("Address Translation Service") && first(&mut self.named, "ats") {
            config.ats = known_if_complete(extended::ats(below));
        } else if named("Device Serial Number") && first(&mut self.named, "serial") {
            config.serial_number = known_if_complete(extended::serial_number(title));
        } else if named("Single Root I/O Virtualization") && first(&mut self.named, "sriov") {
            config.sriov = known_if_complete(extended::sriov(below));
        } else if named("<chain ") {
            self.broken_beyond = true
        }
    }

    /// Sets unlisted capabilities, in the first 256 bytes and beyond.
    pub fn settle(&mut self, absent: Result<(), Why>, absent_beyond: Result<(), Why>) {
        let Self { config, named, .. } = self;
        let listed = |name: &str| named.contains(&name);
        settle(&mut config.express, listed("express"), absent);
        settle(&mut config.acs, listed("acs"), absent_beyond);
        settle(&mut config.ats, listed("ats"), absent_beyond);
        settle(&mut config.serial_number, listed("serial"), absent_beyond);
        settle(&mut config.sriov, listed("sriov"), absent_beyond);
    }
}

fn settle<T>(slot: &mut Fact<Option<T>>, listed: bool, absent: Result<(), Why>) {
    if !listed {
        *slot = match absent {
            Ok(()) => Fact::Known(None),
            Err(why) => Fact::Unknown(why),
        };
    }
}

/// Of several with the same id the first counts.
fn first(named: &mut Vec<&'static str>, name: &'static str) -> bool {
    let first = !named.contains(&name);
    if first {
        named.push(name);
    }
    first
}

fn known_if_complete<T>(value: Option<T>) -> Fact<Option<T>> {
    match value {
        Some(value) => Fact::Known(Some(value)),
        None => Fact::Unknown(Why::NotCovered),
    }
}

/// Parses `[148 v1] Access Control Services`.
fn offset(text: &str) -> Option<(u16, &str)> {
    let (place, title) = text.strip_prefix('[')?.split_once("] ")?;
    let digits = place.split(' ').next()?;
    let fits = (2..=3).contains(&digits.len());
    let offset = u16::from_str_radix(digits, 16).ok().filter(|_| fits)?;
    Some((offset, title))
}

/// For a numeric title: its number, or `None` inside if unreadable. `#0d` until 2.2, `Unknown (13)` until
/// 3.2, then `Extended Capability ID 0xd`.
fn numbered(title: &str) -> Option<Option<u16>> {
    let digits = |text: &str, base| {
        let end = text.find(|c: char| !c.is_digit(base)).unwrap_or(text.len());
        u16::from_str_radix(&text[..end], base).ok()
    };
    if let Some(rest) = title.strip_prefix('#') {
        return Some(digits(rest, 16));
    }
    if let Some(rest) = title.strip_prefix("Extended Capability ID") {
        return Some(rest.trim_start().strip_prefix("0x").and_then(|rest| digits(rest, 16)));
    }
    if let Some(rest) = title.strip_prefix("Unknown") {
        return Some(rest.trim_start().strip_prefix('(').and_then(|rest| digits(rest, 10)));
    }
    ["<unreadable>", "<?>", "??"].iter().any(|begin| title.starts_with(begin)).then_some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numeric_titles() {
        for (title, expected) in [
            ("#0d", Some(Some(0x0d))),
            ("#10 [0001]", Some(Some(0x10))),
            ("Unknown (13)", Some(Some(13))),
            ("Extended Capability ID 0xd", Some(Some(0x0d))),
            ("Extended Capability ID 0x15", Some(Some(0x15))),
            ("Unknown", Some(None)),
            ("#", Some(None)),
            ("Secondary PCI Express", None),
        ] {
            assert_eq!(numbered(title), expected, "{title}");
        }
    }
}
