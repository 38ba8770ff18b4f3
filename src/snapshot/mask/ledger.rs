//! Maps originals to replacements: one replacement per original in a document, whatever its spelling, and never one for
//! two originals.
//!
//! A replacement keeps the original's shape and contains a number. Existing replacements are kept: the learning pass
//! reserves their numbers.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::model::{MaskKey, NAME_BITS};

/// A private name that is replaced wherever it occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    Host,
    Domain,
    User,
    Serial,
}

/// A range of the text and its replacement, which may be equal: then it contains nothing else to mask.
pub type Span = (Range<usize>, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Wide,
    Eui,
    Container,
    Mac,
    Ipv4,
    Ipv6,
    Host,
    Domain,
    User,
    Serial,
    /// Serial numbers in hexadecimal digits.
    HexSerial,
}

/// The replacements so far.
#[derive(Debug, Default)]
pub struct Ledger {
    numbers: HashMap<(Kind, String), u64>,
    taken: HashSet<(Kind, u64)>,
    last: HashMap<Kind, u64>,
    /// All numbers follow from it.
    pub key: Option<MaskKey>,
    /// First pass: reserve the numbers of existing replacements, assign none.
    pub learning: bool,
    /// Names from places that contain only such names, found in the first pass.
    pub collected: Vec<(Word, String)>,
    /// The document says that it is masked; then addresses of reserved ranges are replacements too.
    pub masked: bool,
    /// The first 12 digits of container ids found in the first pass.
    containers: HashSet<String>,
}

/// Numbers of ids and of all but some addresses are below.
const LIMIT: u64 = 1 << NAME_BITS;
/// Bits of the numbers that a MAC address, an IPv4 address of class E, and a short serial number have room for.
const MAC_BITS: u32 = 32;
const IPV4_BITS: u32 = 27;
const HEX_BITS: u32 = 16;
/// A locally administered EUI-64 with room for the number.
const EUI: u64 = 0x0200 << 48;
const MAC: u64 = 0x0200 << 32;

impl Ledger {
    fn number(&mut self, kind: Kind, original: String) -> u64 {
        if self.learning {
            return 0;
        }
        let key = (kind, original);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if let Some(number) = self.keyed(kind, &key.1) {
            self.taken.insert((kind, number));
            self.numbers.insert(key, number);
            return number;
        }
        let last = self.last.entry(kind).or_default();
        *last += 1;
        while self.taken.contains(&(kind, *last)) {
            *last += 1;
        }
        let number = *last;
        self.numbers.insert(key, number);
        number
    }

    /// The number that follows from the key; the next free one if another original has it.
    fn keyed(&self, kind: Kind, original: &str) -> Option<u64> {
        let of_bits = |bits: u32| (1_u64 << bits) - 1;
        // The numbers of a kind are `least` to `most`.
        let (name, least, most) = match kind {
            Kind::Host => ("host", 1, of_bits(NAME_BITS)),
            Kind::Domain => ("domain", 1, of_bits(NAME_BITS)),
            Kind::User => ("user", 1, of_bits(NAME_BITS)),
            Kind::Wide => ("id", 1, of_bits(NAME_BITS)),
            Kind::Eui => ("eui", 1, of_bits(NAME_BITS)),
            Kind::Mac => ("mac", 1, of_bits(MAC_BITS)),
            Kind::Container => ("container", 1, of_bits(NAME_BITS)),
            Kind::Ipv6 => ("ipv6", 1, of_bits(NAME_BITS)),
            Kind::Ipv4 => ("ipv4", CLASS_E, CLASS_E + of_bits(IPV4_BITS)),
            // The same in a text and in a field of fixed width, if that has room for the word and four digits.
            Kind::Serial => {
                let digits = original.len().saturating_sub(SERIAL.len()).clamp(4, 12);
                ("serial", 1, 10_u64.pow(digits as u32) - 1)
            }
            Kind::HexSerial => ("serial", 1, of_bits(HEX_BITS)),
        };
        let key = self.key.as_ref()?;
        let mut number = least + (key.number(name, original, NAME_BITS) - 1) % (most - least + 1);
        while self.taken.contains(&(kind, number)) {
            number = if number < most { number + 1 } else { least };
        }
        Some(number)
    }

    /// Records a name for the second pass.
    pub fn collect(&mut self, word: Word, name: &str) {
        if self.learning {
            self.collected.push((word, name.to_owned()));
        }
    }

    fn reserve(&mut self, kind: Kind, number: u64) {
        self.taken.insert((kind, number));
    }

    /// 128 bits: UUIDs, machine ids.
    pub fn wide(&mut self, value: u128) -> u128 {
        match u64::try_from(value) {
            _ if value == u128::MAX => value,
            Ok(0) => value,
            Ok(number) if number < LIMIT => {
                self.reserve(Kind::Wide, number);
                value
            }
            _ => self.number(Kind::Wide, format!("{value:x}")).into(),
        }
    }

    /// 64 bits: GUIDs, world wide names, device serial numbers, interface ids of GIDs.
    pub fn eui(&mut self, value: u64) -> u64 {
        if value == 0 || value == u64::MAX {
            return value;
        }
        if self.masked && value & !(LIMIT - 1) == EUI {
            self.reserve(Kind::Eui, value - EUI);
            return value;
        }
        EUI | self.number(Kind::Eui, format!("{value:x}"))
    }

    /// 48 bits: MAC addresses.
    pub fn mac(&mut self, value: u64) -> u64 {
        if value == 0 || value == (1 << 48) - 1 {
            return value;
        }
        if self.masked && value >> MAC_BITS == MAC >> MAC_BITS {
            self.reserve(Kind::Mac, value - MAC);
            return value;
        }
        MAC | self.number(Kind::Mac, format!("{value:x}"))
    }

    /// A container id of 64 digits, or its first 12.
    pub fn container(&mut self, id: &str) -> String {
        let short = id.get(..12).unwrap_or(id).to_ascii_lowercase();
        if self.learning {
            self.containers.insert(short.clone());
        }
        let rest_is_zero = id.bytes().skip(12).all(|digit| digit == b'0');
        match u64::from_str_radix(&short, 16) {
            Ok(0) => id.to_owned(),
            Ok(number) if number < LIMIT && rest_is_zero => {
                self.reserve(Kind::Container, number);
                id.to_owned()
            }
            _ => {
                let number = self.number(Kind::Container, short);
                format!("{number:012x}{:0<rest$}", "", rest = id.len().saturating_sub(12))
            }
        }
    }

    /// True if these are the first 12 digits of a known container id.
    pub fn knows_container(&self, short: &str) -> bool {
        self.containers.contains(&short.to_ascii_lowercase())
    }

    /// An IPv4 address. Keeps unspecified, loopback and broadcast addresses, and masks.
    pub fn ipv4(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        let bits = address.to_bits();
        let is_mask = bits.leading_ones() + bits.trailing_zeros() >= 32;
        let local_multicast = address.is_multicast() && bits >> 8 == 0xe0_0000;
        if bits >> 24 == 0 || address.is_loopback() || is_mask || local_multicast {
            return address;
        }
        if let Some(number) = number_of_ipv4(bits)
            && (self.masked || number <= DOCUMENTED)
        {
            self.reserve(Kind::Ipv4, number);
            return address;
        }
        Ipv4Addr::from_bits(ipv4_of_number(self.number(Kind::Ipv4, address.to_string())))
    }

    /// An IPv6 address. Keeps the link-local prefix and the form of mapped IPv4 addresses.
    pub fn ipv6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        if let Some(v4) = address.to_ipv4_mapped() {
            return self.ipv4(v4).to_ipv6_mapped();
        }
        let bits = address.to_bits();
        // Unspecified, loopback, multicast.
        if bits <= 1 || bits >> 120 == 0xff {
            return address;
        }
        if bits >> 118 == 0xfe80 >> 6 {
            let interface = self.eui(bits as u64);
            return Ipv6Addr::from_bits(bits >> 64 << 64 | u128::from(interface));
        }
        const DOCUMENTATION: u128 = 0x2001_0db8 << 96;
        match u64::try_from(bits ^ DOCUMENTATION) {
            Ok(number) if number < LIMIT => {
                self.reserve(Kind::Ipv6, number);
                address
            }
            _ => Ipv6Addr::from_bits(
                DOCUMENTATION | u128::from(self.number(Kind::Ipv6, format!("{bits:x}"))),
            ),
        }
    }

    pub fn user(&mut self, name: &str) -> String {
        if name.eq_ignore_ascii_case("root") || name.is_empty() {
            return name.to_owned();
        }
        self.word(Kind::User, name, "maskeduser", "")
    }

    /// A host name, with its domain if it has one.
    pub fn host(&mut self, name: &str) -> String {
        if !is_host_name(name) {
            return match name.parse() {
                Ok(address) => self.ipv4(address).to_string(),
                Err(_) => name.to_owned(),
            };
        }
        match name.split_once('.') {
            Some((label, domain)) if !domain.is_empty() => {
                format!("{}.{}", self.label(label), self.domain(domain))
            }
            _ => self.label(name),
        }
    }

    /// The machine's own name, even if it has only digits.
    pub fn own_host(&mut self, name: &str) -> String {
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        if digits {
            return self.label(name);
        }
        if is_host_name(name) {
            self.collect(Word::Host, name);
        }
        self.host(name)
    }

    fn label(&mut self, label: &str) -> String {
        self.word(Kind::Host, label, "maskedhost", "")
    }

    pub fn domain(&mut self, domain: &str) -> String {
        if domain.eq_ignore_ascii_case("localdomain") || domain == "local" {
            domain.to_owned()
        } else {
            self.word(Kind::Domain, domain, "masked", ".example")
        }
    }

    fn word(&mut self, kind: Kind, word: &str, before: &str, after: &str) -> String {
        let lower = word.to_lowercase();
        let number = lower.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(number) = number.and_then(decimal) {
            self.reserve(kind, number);
            return word.to_owned();
        }
        // A replacement of another kind.
        if lower.starts_with(MASKED) {
            return word.to_owned();
        }
        format!("{before}{}{after}", self.number(kind, lower))
    }

    /// A serial number in a text; the replacement is not shorter.
    pub fn serial(&mut self, serial: &str) -> String {
        if is_no_serial(serial) {
            return serial.to_owned();
        }
        if let Some(number) = serial.strip_prefix(SERIAL).and_then(decimal) {
            self.reserve(Kind::Serial, number);
            return serial.to_owned();
        }
        self.collect(Word::Serial, serial);
        let number = self.number(Kind::Serial, serial.to_ascii_uppercase());
        let width = serial.len().saturating_sub(SERIAL.len());
        format!("{SERIAL}{number:0width$}")
    }

    /// A serial number in a field of fixed width.
    pub fn serial_in_place(&mut self, serial: &str) -> String {
        // Too short for the word: use as much of it as fits before the number.
        let digits = serial.trim_start_matches(|c: char| SERIAL.contains(c));
        if serial.len() <= SERIAL.len()
            && let Some(number) = decimal(digits)
            && short_serial(number, serial.len()) == serial
            && digits.len() < serial.len()
        {
            self.reserve(Kind::Serial, number);
            return serial.to_owned();
        }
        let masked = self.serial(serial);
        if masked.len() == serial.len() {
            return masked;
        }
        let number = self.number(Kind::Serial, serial.to_ascii_uppercase());
        short_serial(number, serial.len())
    }

    /// A serial number in hexadecimal digits.
    pub fn hex_serial(&mut self, digits: &str) -> String {
        let significant = digits.trim_start_matches('0');
        if significant.len() <= 4 {
            if let Ok(number) = u64::from_str_radix(significant, 16) {
                self.reserve(Kind::HexSerial, number);
            }
            return digits.to_owned();
        }
        let number = self.number(Kind::HexSerial, digits.to_ascii_uppercase());
        format!("{number:0width$x}", width = digits.len())
    }
}

const MASKED: &str = "masked";
const SERIAL: &str = "MASKED";

fn short_serial(number: u64, length: usize) -> String {
    let digits = number.to_string();
    let digits = &digits[digits.len().saturating_sub(length)..];
    let word = SERIAL.get(..length - digits.len()).unwrap_or(SERIAL);
    format!("{word}{digits}")
}

fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number < 1_u64 << NAME_BITS)
}

/// Placeholders of vendors for a missing serial number.
fn is_no_serial(text: &str) -> bool {
    const NONE: [&str; 13] = [
        "n/a",
        "na",
        "none",
        "null",
        "unknown",
        "unspecified",
        "not specified",
        "not available",
        "to be filled by o.e.m.",
        "default string",
        "system serial number",
        "no asset tag",
        "serial number",
    ];
    let lower = text.trim().to_lowercase();
    lower.bytes().all(|byte| byte == lower.as_bytes()[0] && !byte.is_ascii_alphabetic())
        || NONE.contains(&lower.as_str())
}

/// True for the name of a specific host, not a generic name.
pub fn is_host_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let digits = lower.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    !digits && !["localhost", "(none)", "localhost.localdomain"].contains(&lower.as_str())
}

/// Address blocks for documentation and benchmarks, then class E, which is unused.
const BLOCKS: [(u32, u64); 5] = [
    (0xc000_0200, 254),
    (0xc633_6400, 254),
    (0xcb00_7100, 254),
    (0xc612_0000, (1 << 17) - 2),
    (0xf000_0000, (1 << 28) - 2),
];

/// Number of addresses for documentation only.
const DOCUMENTED: u64 = 3 * 254;
/// The first number of an address of class E, whose block alone has room for numbers that follow from a key.
const CLASS_E: u64 = DOCUMENTED + (1 << 17) - 1;

fn ipv4_of_number(number: u64) -> u32 {
    let mut left = number;
    for (base, count) in BLOCKS {
        if left <= count {
            // At most 2^28.
            return base + left as u32;
        }
        left -= count;
    }
    u32::MAX
}

fn number_of_ipv4(bits: u32) -> Option<u64> {
    let mut before = 0;
    for (base, count) in BLOCKS {
        let at = u64::from(bits.wrapping_sub(base));
        if at <= count + 1 {
            return Some(before + at);
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_numbers_fill_blocks_in_order() {
        for (number, expected) in [
            (1, [192, 0, 2, 1]),
            (254, [192, 0, 2, 254]),
            (255, [198, 51, 100, 1]),
            (509, [203, 0, 113, 1]),
            (763, [198, 18, 0, 1]),
            (762 + 131_070, [198, 19, 255, 254]),
            (762 + 131_071, [240, 0, 0, 1]),
        ] {
            let address = Ipv4Addr::from(expected);
            assert_eq!(Ipv4Addr::from_bits(ipv4_of_number(number)), address);
            assert_eq!(number_of_ipv4(address.to_bits()), Some(number), "{address}");
        }
    }

    #[test]
    fn serials_keep_width_and_are_idempotent() {
        let mut ledger = Ledger::default();
        for (serial, expected) in [
            ("MT2043X12345", "MASKED000001"),
            ("AB12", "MAS2"),
            ("1234567", "MASKED3"),
            ("x9", "M4"),
        ] {
            let masked = ledger.serial_in_place(serial);
            assert_eq!(masked, expected);
            assert_eq!(ledger.serial_in_place(&masked), expected, "again");
        }
        assert_eq!(ledger.serial("MT2043X12345"), "MASKED000001");
        assert_eq!(ledger.serial("A1"), "MASKED5");
    }
}
