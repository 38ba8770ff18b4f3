//! Finds private data in a text by shape and by the words before it. One pass finds candidates; code then inspects each
//! one and its surroundings.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use regex::Regex;

use super::ledger::{Ledger, Span};
use super::words::UNIT_SUFFIXES;

pub struct Patterns {
    candidates: Regex,
}

/// Alternatives have names; the group whose name begins with `v_` is replaced.
const CANDIDATES: &str = r#"(?ix-u)
  (?: (?: serial (?:[\ _-]?(?:number|no|num))? | asset[\ _-]?tag | \bs/n ) ["']? [\ \t]* [:=] [\ \t]* ["']? )
  (?P<v_serial> [a-z0-9] [a-z0-9_.-]{3,127} )
| /(?:home|users)/ (?P<v_home> (?u-i:[^/\x00-\x20:"',;])+ )
| /by-id/ (?P<v_disk> [a-z0-9_.+:-]+ )
| (?: uuid= | by-(?:part)?uuid/ ) (?P<v_volume> [0-9a-f]{4}-[0-9a-f]{4} | [0-9a-f]{8}-[0-9a-f]{2} )
| [in]qn\. [0-9]{4} [.-] [0-9]{2} \. [a-z0-9.-]{1,200} : (?P<v_qualified> [a-z0-9_.:-]+ )
| nvme\. [0-9a-f]{4} - (?P<v_nvme> [0-9a-f]{1,80} ) -
| (?: systemd\.hostname | \bhostname ) = (?P<v_host> [a-z0-9._-]+ )
| nfsroot= (?P<v_server> [a-z0-9._-]{1,255} ) :
| \b (?P<v_address_name> ip (?:-[0-9]{1,3}){4} ) \b
| (?: [0-9a-f]{8} (?:-[0-9a-f]{4}){3} - [0-9a-f]{12} | [0-9a-f]{8} (?:_[0-9a-f]{4}){3} _ [0-9a-f]{12} )
| (?: [0-9a-f]* : [0-9a-f]* : [0-9a-f:]* )
| (?: [0-9a-f]{2} (?:-[0-9a-f]{2}){5,} )
| (?: [0-9]+ (?:\.[0-9]+){3,} )
| (?: [0-9a-f]{12,} )
"#;

impl Patterns {
    pub fn new() -> Result<Self, regex::Error> {
        Ok(Self { candidates: Regex::new(CANDIDATES)? })
    }
}

/// The kind of text, by its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Plain,
    /// Four numbers with dots are a version, not an address.
    Version,
    CommandLine,
}

/// The ranges to mask by shape, ordered and disjoint.
pub fn spans(patterns: &Patterns, ledger: &mut Ledger, place: TextKind, text: &str) -> Vec<Span> {
    let mut mails = mails(ledger, place, text).into_iter().peekable();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(whole) = patterns.candidates.find_at(text, at) {
        let taken = found.last().map_or(0, |(range, _): &Span| range.end);
        if let Some(name) = mails.next_if(|(name, _)| name.start <= whole.start()) {
            // Part of an earlier match, so not a name.
            if name.0.start >= taken {
                at = at.max(name.0.end);
                found.push(name);
            }
            continue;
        }
        let mut scan = Scan { ledger, place, text, found: &mut found };
        let resume = scan.candidate(patterns, whole.range());
        // A candidate has at least two ASCII bytes.
        at = resume.max(whole.start() + 1).min(text.len());
    }
    let taken = found.last().map_or(0, |(range, _)| range.end);
    found.extend(mails.filter(|(name, _)| name.start >= taken));
    found
}

/// The names in each `user@host`.
fn mails(ledger: &mut Ledger, place: TextKind, text: &str) -> Vec<Span> {
    const MAX_USER: usize = 64;
    const MAX_HOST: usize = 255;
    let bytes = text.as_bytes();
    let mut found: Vec<Span> = Vec::new();
    let mut free = 0;
    for (sign, _) in text.match_indices('@') {
        let in_user = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
        let in_host = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let mut start =
            sign - bytes[free..sign].iter().rev().take(MAX_USER).take_while(in_user).count();
        while start < sign && b".+-".contains(&bytes[start]) {
            start += 1;
        }
        let end = sign + 1 + bytes[sign + 1..].iter().take(MAX_HOST).take_while(in_host).count();
        let (user, host) = (&text[start..sign], text[sign + 1..end].trim_end_matches('.'));
        let suffix = host.rsplit('.').next().unwrap_or_default();
        let top_level = suffix.len() >= 2
            && suffix.len() < host.len()
            && suffix.bytes().all(|b| b.is_ascii_alphabetic());
        let in_brackets = text[..start].ends_with('(');
        // Unit instances and addresses with sizes also contain `@`.
        let none =
            user.is_empty() || UNIT_SUFFIXES.contains(&suffix) || (host.is_empty() && !in_brackets);
        if none || (place == TextKind::CommandLine && !top_level) {
            continue;
        }
        let end = sign + 1 + host.len();
        found.push((start..sign, ledger.user(user)));
        if !host.is_empty() {
            found.push((sign + 1..end, ledger.host(host)));
        }
        free = end;
    }
    found
}

/// The alternative of a candidate, from its bytes; capture groups of the regex are much slower.
enum Shape {
    Uuid,
    Colons,
    Dashes,
    Dotted,
    Hex,
    /// One with a keyword.
    Keyed,
}

fn shape(bytes: &[u8]) -> Shape {
    let all = |other: u8| bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == other);
    match bytes {
        _ if all(b'0') => Shape::Hex,
        _ if all(b':') => Shape::Colons,
        _ if bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => Shape::Dotted,
        _ if bytes.len() == 36 && bytes[8] != b'-' && all(b'_') => Shape::Uuid,
        _ if all(b'-') && bytes.get(2) == Some(&b'-') => Shape::Dashes,
        _ if all(b'-') && bytes.len() == 36 => Shape::Uuid,
        _ => Shape::Keyed,
    }
}

pub(super) struct Scan<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) place: TextKind,
    pub(super) text: &'a str,
    pub(super) found: &'a mut Vec<Span>,
}

impl Scan<'_> {
    /// Handles one candidate; returns where to continue.
    fn candidate(&mut self, patterns: &Patterns, whole: Range<usize>) -> usize {
        match shape(&self.text.as_bytes()[whole.clone()]) {
            Shape::Uuid => self.uuid(whole),
            Shape::Colons => self.colons(whole),
            Shape::Dashes => self.dashes(whole),
            Shape::Dotted => self.dotted(whole),
            Shape::Hex => self.hex(whole),
            Shape::Keyed => match patterns.candidates.captures_at(self.text, whole.start) {
                Some(captures) => self.keyed(&captures, whole),
                None => whole.end,
            },
        }
    }

    pub(super) fn before(&self, at: usize) -> u8 {
        self.text.as_bytes()[..at].last().copied().unwrap_or(b' ')
    }

    pub(super) fn after(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(b' ')
    }

    /// True if the text before `at` ends with one of these words, ignoring case.
    fn follows(&self, at: usize, words: &[&str]) -> bool {
        let text = &self.text.as_bytes()[..at];
        words.iter().any(|word| {
            let tail = text.len().checked_sub(word.len()).and_then(|start| text.get(start..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word.as_bytes()))
        })
    }

    pub(super) fn uuid(&mut self, range: Range<usize>) -> usize {
        if self.after(range.end).is_ascii_hexdigit() {
            return range.start + 8;
        }
        let text = &self.text[range.clone()];
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let masked = u128::from_str_radix(&digits, 16).map(|value| self.ledger.wide(value));
        let masked = format!("{:032x}", masked.unwrap_or_default());
        self.keep_shape(range, &masked)
    }

    /// Replaces the hexadecimal digits of a range, keeping separators.
    pub(super) fn keep_shape(&mut self, range: Range<usize>, digits: &str) -> usize {
        let end = range.end;
        let original = &self.text[range.clone()];
        let mut digits = digits.chars();
        let masked: String = original
            .chars()
            .map(|c| if c.is_ascii_hexdigit() { digits.next().unwrap_or('0') } else { c })
            .collect();
        // Keeps the case of an unchanged text.
        let masked =
            if masked.eq_ignore_ascii_case(original) { original.to_owned() } else { masked };
        self.found.push((range, masked));
        end
    }

    /// Groups of hexadecimal digits between colons: MAC addresses, GUIDs, IPv6 addresses.
    fn colons(&mut self, mut range: Range<usize>) -> usize {
        let tail = self.dotted_tail(&range);
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let joined =
            (word(self.before(range.start)), tail.is_none() && word(self.after(range.end)));
        let run = &self.text[range.clone()];
        if run.starts_with(':') && !run.starts_with("::") {
            range.start += 1;
        }
        if run.ends_with(':') && !run.ends_with("::") {
            range.end -= 1;
        }
        let end = range.end;
        if self.pairs(range.clone(), ':', joined) {
            return end;
        }
        let run = &self.text[range.clone()];
        let groups: Vec<&str> = run.split(':').collect();
        let apart = joined == (false, false);
        if apart && groups.len() == 4 && groups.iter().all(|group| group.len() == 4) {
            if self.place == TextKind::CommandLine || self.names_a_part(&range, &groups) {
                return end;
            }
            return self.eui(range);
        }
        let whole = range.start..tail.clone().map_or(range.end, |tail| tail.end);
        if apart && let Ok(address) = self.text[whole.clone()].parse::<Ipv6Addr>() {
            let masked = self.ledger.ipv6(address);
            let long = groups.len() == 8 && groups.iter().all(|group| group.len() == 4);
            let masked = match (masked == address, long) {
                (true, _) => self.text[whole.clone()].to_owned(),
                (false, true) => masked.segments().map(|group| format!("{group:04x}")).join(":"),
                (false, false) => masked.to_string(),
            };
            let end = whole.end;
            self.found.push((whole, masked));
            return end;
        }
        // With dots after it, the last group may begin an IPv4 address.
        tail.map_or(range.end, |tail| tail.start)
    }

    /// True if four groups are PCI vendor, device and subsystem ids, not a GUID.
    fn names_a_part(&self, range: &Range<usize>, groups: &[&str]) -> bool {
        const VENDORS: [&str; 16] = [
            "1000", "1002", "1022", "1028", "103c", "10b5", "10de", "1137", "11f8", "144d", "14e4",
            "15b3", "15d9", "17aa", "1af4", "8086",
        ];
        let vendor = |at: usize| {
            let group = groups.get(at).map(|group| group.to_ascii_lowercase());
            group.is_some_and(|group| VENDORS.contains(&group.as_str()))
        };
        self.follows(range.start, &["ids=", "ids=\""])
            || vendor(0) && (vendor(2) || self.before(range.start) == b',')
    }

    /// The IPv4 address that begins with the last group.
    fn dotted_tail(&self, range: &Range<usize>) -> Option<Range<usize>> {
        if self.after(range.end) != b'.' {
            return None;
        }
        let run = &self.text[range.clone()];
        let start = range.start + run.rfind(':')? + 1;
        let rest = &self.text[start..];
        let length =
            rest.bytes().take(15).take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        rest[..length].parse::<Ipv4Addr>().ok()?;
        Some(start..start + length)
    }

    fn dashes(&mut self, range: Range<usize>) -> usize {
        let end = range.end;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let joined = (word(self.before(range.start)), word(self.after(range.end)));
        self.pairs(range, '-', joined);
        end
    }

    /// Hardware addresses: six pairs, eight (EUI-64), twenty (IP over InfiniBand), or seven (type and MAC). A group that
    /// is part of a word does not count.
    fn pairs(&mut self, range: Range<usize>, separator: char, joined: (bool, bool)) -> bool {
        let run = &self.text[range.clone()];
        if run.len() < 17 {
            return false;
        }
        let mut stretches: Vec<Range<usize>> = Vec::new();
        let mut at = range.start;
        let count = run.matches(separator).count() + 1;
        for (index, group) in run.split(separator).enumerate() {
            let here = at..at + group.len();
            at = here.end + 1;
            let cut = (index == 0 && joined.0) || (index + 1 == count && joined.1);
            match stretches.last_mut() {
                _ if cut || group.len() != 2 => {}
                Some(last) if last.end + 1 == here.start => last.end = here.end,
                _ => stretches.push(here),
            }
        }
        let mut any = false;
        for stretch in stretches {
            let pairs = (stretch.len() + 1) / 3;
            let last = |count: usize| stretch.end + 1 - 3 * count..stretch.end;
            match pairs {
                6 | 7 => self.mac(last(6)),
                8 | 20 => self.eui(last(8)),
                _ => continue,
            };
            any = true;
        }
        any
    }

    fn value(&self, range: &Range<usize>) -> u64 {
        let digits = self.text[range.clone()].bytes().filter(u8::is_ascii_hexdigit);
        digits.fold(0, |value, digit| {
            value << 4 | char::from(digit).to_digit(16).map_or(0, u64::from)
        })
    }

    pub(super) fn eui(&mut self, range: Range<usize>) -> usize {
        let masked = self.ledger.eui(self.value(&range));
        self.keep_shape(range, &format!("{masked:016x}"))
    }

    fn mac(&mut self, range: Range<usize>) -> usize {
        let masked = self.ledger.mac(self.value(&range));
        self.keep_shape(range, &format!("{masked:012x}"))
    }

    /// Four numbers with dots, unless they are a version.
    fn dotted(&mut self, range: Range<usize>) -> usize {
        let end = range.end;
        let text = &self.text[range.clone()];
        let joined = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        let more = self.after(end) == b'.' && self.after(end + 1).is_ascii_alphanumeric();
        let after = self.after(end) != b'.' && joined(self.after(end));
        let version = ["version ", "version: ", "version=", "version: \"", "firmware "];
        if joined(self.before(range.start))
            || after
            || more
            || self.place == TextKind::Version
            || self.follows(range.start, &version)
        {
            return end;
        }
        // Leading zeros and large numbers do not occur in addresses.
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            let zero = |part: &str| part.len() > 1 && part.starts_with('0');
            if !text.split('.').any(zero) {
                let masked = self.ledger.ipv4(address).to_string();
                self.found.push((range, masked));
            }
        }
        end
    }

    /// Digits without separators, recognised by their number and by the words before them.
    fn hex(&mut self, mut range: Range<usize>) -> usize {
        const GUID: [&str; 6] = ["guid", "wwn", "wwid", "wwpn", "wwnn", "eui"];
        const CONTAINER: [&str; 5] =
            ["docker/", "docker-", "containers/", "libpod-", "containerd-"];
        let end = range.end;
        // `pod` directly precedes an id.
        if self.follows(range.start + 1, &["pod"]) && [33, 65].contains(&range.len()) {
            range.start += 1;
        }
        let number = self.follows(range.start, &["0x"]);
        let start = if number { range.start - 2 } else { range.start };
        // Device names derived from an address or a GUID.
        let of_guid = range.len() == 16 && self.follows(start, &["rocex", "ibx", "iwx", "opax"]);
        let interface = of_guid
            || range.len() == 12
                && self.follows(start, &["enx", "wlx", "wwx", "ibx", "rocex", "slx"]);
        let pod = range.start > 0 && self.follows(range.start, &["pod"]);
        let word = |byte: u8| byte.is_ascii_alphanumeric();
        if (word(self.before(start)) && !interface && !pod) || (word(self.after(end)) && !interface)
        {
            return end;
        }
        let key =
            self.text[..start].trim_end_matches([' ', '\t', ':', '=', '"', '\'', '.', '-', '_']);
        let keyed = |words: &[&str]| self.follows(key.len(), words) && start - key.len() <= 8;
        let digits = &self.text[range.clone()];
        match range.len() {
            64 | 12
                if range.len() == 64
                    || self.follows(start, &CONTAINER)
                    || self.ledger.knows_container(digits) =>
            {
                let masked = self.ledger.container(digits);
                self.found.push((range, masked));
            }
            32 if digits.bytes().any(|byte| byte != digits.as_bytes()[0]) => {
                return self.uuid(range);
            }
            16 if of_guid || keyed(&GUID) || self.follows(start, &["naa."]) => {
                return self.eui(range);
            }
            12 if interface || keyed(&["mac", "macaddr", "mac_address", "hwaddr"]) => {
                return self.mac(range);
            }
            _ => {}
        }
        end
    }
}
