//! Names that are known to be somebody's, and where they stand as whole words.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::ledger::{Ledger, is_host_name};
use super::scan::Span;

/// What follows the name of a unit or of a file, and is no domain.
pub const UNIT_SUFFIXES: [&str; 16] = [
    "service", "socket", "scope", "slice", "mount", "target", "timer", "device", "swap", "path", "conf", "log", "json",
    "ko", "txt", "so",
];

/// Words that gdr, the kernel and NVIDIA use, whatever else a document holds.
const VOCABULARY: &str = "live linux kernel host system machine server node cpu cpus gpu gpus mem memory nvidia nvml cuda \
    mellanox mlx5 mlx4 pci pcie bus device devices driver net eth0 ib0 rdma infiniband ethernet intel amd arm root boot \
    debian ubuntu rhel centos rocky fedora suse sles vm guest qemu kvm docker unknown none default switch bridge port";

/// What a known word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    Host,
    Domain,
    User,
    Serial,
}

/// The words that are replaced wherever they stand.
#[derive(Debug, Default)]
pub struct Words {
    words: BTreeMap<String, Word>,
    /// Those that something else is called too: they are replaced only where names of their kind stand.
    common: BTreeSet<String>,
    patterns: Vec<Regex>,
}

impl Words {
    /// A host, with or without its domain.
    pub fn learn_host(&mut self, name: &str) {
        let name = name.trim();
        if !is_host_name(name) {
            return;
        }
        match name.split_once('.') {
            Some((label, domain)) => {
                self.learn(label, Word::Host);
                if domain.contains('.') {
                    self.learn(domain, Word::Domain);
                }
            }
            None => self.learn(name, Word::Host),
        }
    }

    /// A user.
    pub fn learn_user(&mut self, name: &str) {
        if name != "root" {
            self.learn(name, Word::User);
        }
    }

    /// A serial number that may stand elsewhere too.
    pub fn learn_serial(&mut self, serial: &str) {
        let digits = serial.bytes().all(|byte| byte.is_ascii_digit());
        let long = serial.len() >= if digits { 8 } else { 6 };
        if long && serial.bytes().any(|byte| byte.is_ascii_digit()) && !serial.starts_with("MASKED") {
            self.learn(serial, Word::Serial);
        }
    }

    fn learn(&mut self, name: &str, word: Word) {
        let lower = name.trim().to_lowercase();
        if lower.is_empty() || lower.starts_with("masked") {
            return;
        }
        let short = lower.chars().count() < 3 || lower.bytes().all(|byte| byte.is_ascii_digit());
        if word != Word::Serial && (short || VOCABULARY.split_ascii_whitespace().any(|other| other == lower)) {
            self.common.insert(lower.clone());
        }
        self.words.entry(lower).or_insert(word);
    }

    /// Compiles what was learned.
    pub fn compile(&mut self) {
        // Longer names first: of two that begin alike the longer one is meant.
        let mut names: Vec<&String> = self.words.keys().filter(|name| !self.common.contains(*name)).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let pattern = |name: &String| match name.is_ascii() {
            true => format!("(?i-u:{})", regex::escape(name)),
            false => regex::escape(name),
        };
        self.patterns = names
            .chunks(256)
            .filter_map(|some| Regex::new(&some.iter().map(|name| pattern(name)).collect::<Vec<_>>().join("|")).ok())
            .collect();
    }

    /// Words that stand in this text of the kernel's or of a vendor's are common ones.
    pub fn meet_vocabulary(&mut self, text: &str) {
        let mut met = Vec::new();
        for pattern in &self.patterns {
            whole_words(pattern, text, |range| met.push(text[range].to_lowercase()));
        }
        self.common.extend(
            met.into_iter()
                .filter(|word| self.words.get(word) != Some(&Word::Serial)),
        );
    }

    /// Where known words stand in a text, outside of `taken`, which is in order.
    pub fn spans(&self, ledger: &mut Ledger, text: &str, taken: &[Span]) -> Vec<Span> {
        let mut found = Vec::new();
        for pattern in &self.patterns {
            whole_words(pattern, text, |range| {
                let next = taken.partition_point(|(other, _)| other.end <= range.start);
                if taken.get(next).is_none_or(|(other, _)| range.end <= other.start) {
                    found.push(range);
                }
            });
        }
        found.sort_by_key(|range| range.start);
        let mut end = 0;
        let mut spans = Vec::new();
        for mut range in found {
            if range.start < end {
                continue;
            }
            let name = &text[range.clone()];
            let masked = match self.words.get(&name.to_lowercase()) {
                Some(Word::Host) => {
                    let domain = domain_behind(&text[range.end..]);
                    let next = taken.partition_point(|(other, _)| other.end <= range.start);
                    if taken
                        .get(next)
                        .is_none_or(|(other, _)| range.end + domain <= other.start)
                    {
                        range.end += domain;
                    }
                    ledger.host(&text[range.clone()])
                }
                Some(Word::Domain) => ledger.domain(name),
                Some(Word::User) => ledger.user(name),
                Some(Word::Serial) => ledger.serial(name),
                None => continue,
            };
            end = range.end;
            spans.push((range, masked));
        }
        spans
    }
}

/// Each place where the pattern stands as a whole word.
fn whole_words(pattern: &Regex, text: &str, mut each: impl FnMut(std::ops::Range<usize>)) {
    let joined = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut at = 0;
    while let Some(found) = pattern.find_at(text, at) {
        let range = found.range();
        let before = joined(text[..range.start].chars().next_back());
        if before || joined(text[range.end..].chars().next()) {
            let step = text[range.start..].chars().next().map_or(1, char::len_utf8);
            at = range.start + step;
        } else {
            at = range.end;
            each(range);
        }
    }
}

/// How long the domain is that follows the name of a host.
fn domain_behind(rest: &str) -> usize {
    const LONGEST: usize = 255;
    let ascii = rest.bytes().take(LONGEST).take_while(u8::is_ascii).count();
    let rest = &rest[..ascii];
    let mut length = 0;
    let mut last = "";
    for label in rest.strip_prefix('.').into_iter().flat_map(|rest| rest.split('.')) {
        let end = label
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            .count();
        if end == 0 {
            break;
        }
        last = &label[..end];
        length += 1 + end;
        if end < label.len() {
            break;
        }
    }
    let is_domain = last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    match is_domain && !UNIT_SUFFIXES.contains(&last) {
        true => length,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_no_suffix_of_a_file() {
        assert_eq!(domain_behind(".hpc.site.edu:/x"), 13);
        assert_eq!(domain_behind(".service"), 0);
        assert_eq!(domain_behind(". Then"), 0);
        assert_eq!(domain_behind(".2"), 0);
        assert_eq!(domain_behind("-ib0.site.edu"), 0);
    }
}
