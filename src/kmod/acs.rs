//! ACS parameters of the kernel command line, as `drivers/pci/pci.c` reads them:
//! `pci=config_acs=MASK@DEVICE;...` (Linux 6.11, fixed in 6.15) and `pci=disable_acs_redir=DEVICE;...`
//! (4.19).
//!
//! A later parameter of the same name replaces an earlier one. In a list the first matching entry
//! counts. A mask has one digit per bit, the lowest last: 0 clears, 1 sets, x keeps the firmware's
//! setting; the kernel's own defaults no longer apply to a listed device.

use super::command_line::words;
use crate::model::{AcsBits, Bdf};

/// The parameter that sets every bit.
pub const CONFIG: &str = "config_acs";
/// The parameter that clears the redirecting bits.
pub const DISABLE: &str = "disable_acs_redir";

/// Source validation, translation blocking, request redirect, completion redirect, upstream
/// forwarding, egress control, direct translated.
const BITS: u16 = 7;

/// A change of one port's control register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortChange {
    pub port: Bdf,
    /// The present register.
    pub control: AcsBits,
    /// The bits to clear.
    pub clear: AcsBits,
}

/// The entries of a parameter, empty if it is absent. An entry that the kernel would reject is an error.
pub fn entries(line: &str, name: &str) -> Result<Vec<String>, String> {
    let mut last = None;
    for word in words(line) {
        let word = word.trim_matches('"');
        let Some(list) = word.strip_prefix("pci=") else {
            continue;
        };
        for option in list.trim_matches('"').split(',') {
            if let Some(value) = option.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                last = Some(value.to_owned());
            }
        }
    }
    let entries: Vec<String> =
        last.iter().flat_map(|value| value.split(';')).map(str::to_owned).collect();
    match entries.iter().find(|entry| !is_entry(entry, name)) {
        Some(entry) => Err(format!("invalid entry in pci={name}=: '{entry}'")),
        None => Ok(entries),
    }
}

pub fn names(entry: &str, port: Bdf) -> bool {
    address(device(entry)) == Some(port)
}

/// Removes a parameter from a word of the command line; `None` if nothing is left.
pub fn without(word: &str, name: &str) -> Option<String> {
    let Some(list) = word.trim_matches('"').strip_prefix("pci=") else {
        return Some(word.to_owned());
    };
    let is_it = |option: &&str| option.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
    let options: Vec<&str> = list.trim_matches('"').split(',').collect();
    if options.iter().any(is_it) {
        let left: Vec<&str> = options.into_iter().filter(|option| !is_it(option)).collect();
        (!left.is_empty()).then(|| format!("pci={}", left.join(",")))
    } else {
        Some(word.to_owned())
    }
}

/// The value of `config_acs`: these ports, then the present entries. Keeps other bits that a present
/// entry sets for the same port.
pub fn config(present: &[String], changes: &[PortChange]) -> String {
    let own = changes.iter().map(|port| {
        let before = present.iter().find(|entry| names(entry, port.port));
        let mask = before.and_then(|entry| entry.split_once('@')).map_or("", |(mask, _)| mask);
        format!("{}@{}", mask_of(port, mask), port.port)
    });
    joined(own.collect(), present, changes)
}

/// The value of `disable_acs_redir`: these ports, then the present entries.
pub fn disable(present: &[String], changes: &[PortChange]) -> String {
    joined(changes.iter().map(|port| port.port.to_string()).collect(), present, changes)
}

fn joined(own: Vec<String>, present: &[String], changes: &[PortChange]) -> String {
    let others = present.iter().filter(|entry| !changes.iter().any(|port| names(entry, port.port)));
    own.into_iter().chain(others.cloned()).collect::<Vec<_>>().join(";")
}

fn mask_of(port: &PortChange, before: &str) -> String {
    let digit = |bit: u16| {
        let present = before.bytes().rev().nth(usize::from(bit)).map(char::from);
        match present {
            _ if port.clear.0 >> bit & 1 == 1 => '0',
            Some(digit @ ('0' | '1')) => digit,
            _ if port.control.0 >> bit & 1 == 1 => '1',
            _ => 'x',
        }
    };
    (0..BITS).rev().map(digit).collect()
}

fn device(entry: &str) -> &str {
    entry.split_once('@').map_or(entry, |(_, device)| device)
}

/// Parses an address with or without domain.
fn address(device: &str) -> Option<Bdf> {
    device.parse().or_else(|_| format!("0000:{device}").parse()).ok()
}

fn is_entry(entry: &str, name: &str) -> bool {
    let device = match (name, entry.split_once('@')) {
        (CONFIG, Some((mask, device))) => {
            let is_mask = !mask.is_empty() && mask.bytes().all(|digit| b"01xX".contains(&digit));
            if !is_mask {
                return false;
            }
            device
        }
        (CONFIG, None) => return false,
        _ => entry,
    };
    let hex = device.strip_prefix("pci:").unwrap_or(device);
    !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit() || b":./".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(bdf: &str, control: u16, clear: u16) -> PortChange {
        PortChange {
            port: bdf.parse().expect("an address"),
            control: AcsBits(control),
            clear: AcsBits(clear),
        }
    }

    #[test]
    fn last_parameter_counts_and_invalid_entry_is_error() {
        let line = "ro pci=realloc,config_acs=xx000x0@0000:01:00.0 quiet \"pci=config_acs=1@02:00.0;x0@pci:10de:22a3\"";
        assert_eq!(entries(line, CONFIG).expect("entries"), ["1@02:00.0", "x0@pci:10de:22a3"]);
        assert_eq!(entries(line, DISABLE), Ok(Vec::new()));
        // The kernel rejects quotes inside the value.
        assert!(entries("pci=config_acs=\"1@02:00.0\"", CONFIG).is_err());
        assert!(entries("pci=config_acs=0000:02:00.0", CONFIG).is_err());
        assert!(entries("pci=disable_acs_redir=00:1c.0/00.0;$x", DISABLE).is_err());
        let path = entries("pci=disable_acs_redir=00:1c.0/00.0", DISABLE);
        assert_eq!(path, Ok(vec!["00:1c.0/00.0".to_owned()]));
    }

    #[test]
    fn masks_clear_redirect_bits_only() {
        // SV RR CR UF: bits 0, 2, 3, 4. DT EC UF CR RR TB SV from the left.
        let ports = [port("0000:02:00.0", 0x1d, 0x0c), port("0000:02:01.0", 0x3d, 0x2c)];
        assert_eq!(config(&[], &ports), "xx100x1@0000:02:00.0;x0100x1@0000:02:01.0");
        let present = ["xxxx1x0@02:00.0".to_owned(), "xx111x1@pci:10de:22a3".to_owned()];
        // SrcValid stays off; a port comes before a wildcard.
        assert_eq!(config(&present, &ports[..1]), "xx100x0@0000:02:00.0;xx111x1@pci:10de:22a3");
        let once = config(&present, &ports);
        let parsed: Vec<String> = once.split(';').map(str::to_owned).collect();
        assert_eq!(config(&parsed, &ports), once);
        let present = ["0000:03:00.0".to_owned(), "0000:02:00.0".to_owned()];
        assert_eq!(disable(&present, &ports[..1]), "0000:02:00.0;0000:03:00.0");
    }

    #[test]
    fn without_keeps_other_options() {
        assert_eq!(
            without("pci=realloc,config_acs=1@02:00.0", CONFIG).as_deref(),
            Some("pci=realloc")
        );
        assert_eq!(without("pci=config_acs=1@02:00.0", CONFIG), None);
        assert_eq!(without("pci=realloc", CONFIG).as_deref(), Some("pci=realloc"));
        assert_eq!(without("quiet", CONFIG).as_deref(), Some("quiet"));
    }
}
