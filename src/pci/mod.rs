//! Decodes PCI configuration space, and names PCI devices. Pure.
//!
//! Reads each list entry once and each needed structure once, no further than it goes: in a guest a dword read takes about
//! 14 µs, and some devices misbehave when their whole space is read.

mod express;
mod extended;
mod find;
mod header;
mod ids;
mod list;
mod names;
mod numbers;
mod place;
mod space;

pub use find::offset_of;
pub use names::{NamesError, Part, PartKind, PciNames, only_these};
pub use numbers::PciNumbers;
pub use place::parse_place;
pub use space::{ConfigSpace, ReadError};

use crate::model::config::{Class, Express, HeaderKind};
use crate::model::{Config, Fact, Why};
use space::Reader;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The first 64 bytes.
    Header,
    /// Also the capability list up to the PCI Express capability, in about six reads.
    Express,
    /// Everything [`Config`] holds.
    Full,
}

/// Decodes a function's configuration space. Malformed data become remarks and unknown facts.
pub fn decode(space: &dyn ConfigSpace, depth: Depth) -> Config {
    let mut reader = Reader::new(space);
    let mut config = Config::default();
    match header::read(&mut reader) {
        Ok((header, first)) => {
            let class = header.class;
            config.header = Fact::Known(header);
            if depth >= Depth::Express {
                legacy(&mut config, &mut reader, first, depth);
            }
            if depth == Depth::Full {
                read_extended(&mut config, &mut reader, class);
            }
        }
        Err(why) => {
            config.header = Fact::Unknown(why);
            if depth >= Depth::Express {
                config.express = Fact::Unknown(why);
            }
            if depth == Depth::Full {
                extended::all_unknown(&mut config, why);
            }
        }
    }
    config.failure = reader.into_remarks();
    config
}

fn legacy(config: &mut Config, reader: &mut Reader<'_>, first: u8, depth: Depth) {
    const SUBSYSTEM: u8 = 0x0d;
    const EXPRESS: u8 = 0x10;
    let mut express = Fact::Known(None);
    let mut subsystem = Fact::Known(None);
    let end = list::legacy(reader, first, |reader, entry| {
        match entry.id {
            EXPRESS => extended::keep(&mut express, || express::read(reader, entry)),
            SUBSYSTEM if depth == Depth::Full => {
                extended::keep(&mut subsystem, || header::bridge_subsystem(reader, entry));
            }
            _ => {}
        }
        depth == Depth::Full || entry.id != EXPRESS
    });
    if let Err(why) = end {
        extended::lose(&mut express, why);
        extended::lose(&mut subsystem, why);
    }
    config.express = express;
    if let Fact::Known(header) = &mut config.header
        && let HeaderKind::Bridge { subsystem: slot, .. } = &mut header.kind
        && depth == Depth::Full
    {
        *slot = subsystem;
    }
}

/// The capabilities in extended space.
fn read_extended(config: &mut Config, reader: &mut Reader<'_>, class: Class) {
    match first_extended(reader, class, &config.express) {
        Ok(Some(head)) => extended::read(config, reader, head),
        Ok(None) => extended::all_absent(config),
        Err(why) => extended::all_unknown(config, why),
    }
}

/// The first dword of the extended list; `None` if the function is known to have no list.
///
/// Linux ends the space of a conventional device at 256 bytes, and that of an Express device too without ECAM: so the end
/// of an Express device's space at 256 leaves its list unknown.
fn first_extended(
    reader: &mut Reader<'_>,
    class: Class,
    express: &Fact<Option<Express>>,
) -> Result<Option<u32>, Why> {
    let unreachable = |express: &Fact<Option<Express>>| match express {
        Fact::Known(Some(_)) => Err(Why::NotCovered),
        Fact::Known(None) => Ok(None),
        Fact::Unknown(why) => Err(*why),
    };
    let mut head = [0; 4];
    let got = reader.some(list::EXTENDED, &mut head, "extended capabilities")?;
    if got == head.len() {
        return match u32::from_le_bytes(head) {
            u32::MAX => unreachable(express),
            head => Ok(Some(head)),
        };
    }
    if reader.ends_unprivileged() {
        // Without a capability list a function is not an Express device; only host bridges may still have extended space.
        let never = express.is_absent() && !class.is_host_bridge();
        return if never { Ok(None) } else { Err(Why::Denied) };
    }
    if reader.ends_at(list::EXTENDED) {
        return unreachable(express);
    }
    Err(reader.malformed("the space ends before", "extended capabilities", list::EXTENDED))
}

#[cfg(test)]
mod tests;
