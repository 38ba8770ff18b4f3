//! Known private names, and where they occur as whole words.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::ledger::{Ledger, Span, Word, is_host_name};

/// Suffixes of units and files, which are not domains.
pub const UNIT_SUFFIXES: [&str; 16] = [
    "service", "socket", "scope", "slice", "mount", "target", "timer", "device", "swap", "path",
    "conf", "log", "json", "ko", "txt", "so",
];

/// Words of gdr, the kernel and NVIDIA, never masked.
const VOCABULARY: &str = "live linux kernel host system machine server node cpu cpus gpu gpus mem memory nvidia nvml cuda \
    mellanox mlx5 mlx4 pci pcie bus device devices driver net eth0 ib0 rdma infiniband ethernet intel amd arm root boot \
    debian ubuntu rhel centos rocky fedora suse sles vm guest qemu kvm docker unknown none default switch bridge port \
    unix open closed module release build version nvrm x86_64 aarch64 ppc64le on off yes no true false auto enabled \
    disabled pt passthrough identity dma dma-fq direct translated nopt strict lazy force active down init armed up \
    link layer rate unlimited soft hard limit max locked character block flags hypervisor vendor_id implementer power \
    model uuid minor ro rw quiet masked";

/// Maximum length of a host name with domain.
const MAX_LENGTH: usize = 255;

/// The words that are replaced everywhere.
#[derive(Debug, Default)]
pub struct Words {
    words: HashMap<String, Word>,
    /// Common words: replaced only in positions of such names.
    common: HashSet<String>,
    /// Lengths of the names that begin with this part, longest first.
    lengths: HashMap<String, BTreeSet<Reverse<usize>>>,
    /// Lengths of those parts.
    parts: BTreeSet<usize>,
}

impl Words {
    /// Adds a host name, with or without domain.
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

    pub fn learn_user(&mut self, name: &str) {
        if name != "root" {
            self.learn(name, Word::User);
        }
    }

    /// Adds a serial number that may occur elsewhere.
    pub fn learn_serial(&mut self, serial: &str) {
        let digits = serial.bytes().all(|byte| byte.is_ascii_digit());
        let long = serial.len() >= if digits { 8 } else { 6 };
        if long && serial.bytes().any(|byte| byte.is_ascii_digit()) && !serial.starts_with("MASKED")
        {
            self.learn(serial, Word::Serial);
        }
    }

    fn learn(&mut self, name: &str, word: Word) {
        let lower = name.trim().to_lowercase();
        if lower.is_empty() || lower.starts_with("masked") {
            return;
        }
        let short = lower.chars().count() < 3 || lower.bytes().all(|byte| byte.is_ascii_digit());
        if word != Word::Serial
            && (short || VOCABULARY.split_ascii_whitespace().any(|other| other == lower))
        {
            self.common.insert(lower);
            return;
        }
        if lower.len() > MAX_LENGTH || self.common.contains(&lower) {
            return;
        }
        self.parts.insert(first_part(&lower).len());
        let lengths = self.lengths.entry(first_part(&lower).to_owned()).or_default();
        lengths.insert(Reverse(lower.len()));
        self.words.entry(lower).or_insert(word);
    }

    /// Marks the words of this text as common.
    pub fn learn_vocabulary(&mut self, text: &str) {
        let mut met = Vec::new();
        self.whole_words(text, |range, word| {
            if word != Word::Serial {
                met.push(text[range].to_lowercase());
            }
        });
        for word in met {
            self.words.remove(&word);
            self.common.insert(word);
        }
    }

    /// Calls `each` for every known whole word.
    fn whole_words(&self, text: &str, mut each: impl FnMut(Range<usize>, Word)) {
        if self.words.is_empty() {
            return;
        }
        let mut at = 0;
        while at < text.len() {
            let part = first_part(&text[at..]);
            let found = self.word_at(text, at, part);
            if let Some((length, word)) = found {
                each(at..at + length, word);
            }
            // A match ends at a word boundary.
            at += found.map_or(part.len(), |(length, _)| length);
        }
    }

    /// The longest known word that begins here and ends at a word boundary.
    fn word_at(&self, text: &str, at: usize, part: &str) -> Option<(usize, Word)> {
        // Checking the length first is cheap and excludes most parts.
        let lengths = if self.parts.contains(&part.len()) {
            self.lengths.get(&part.to_lowercase())
        } else {
            None
        };
        lengths.into_iter().flatten().find_map(|Reverse(length)| {
            let name = text.get(at..at + length)?;
            let joined = text[at + length..].chars().next().is_some_and(char::is_alphanumeric);
            let ends = !joined || !name.ends_with(char::is_alphanumeric);
            let word = self.words.get(&name.to_lowercase()).filter(|_| ends)?;
            Some((*length, *word))
        })
    }

    /// The known words outside `taken`, which is ordered.
    pub fn spans(&self, ledger: &mut Ledger, text: &str, taken: &[Span]) -> Vec<Span> {
        let mut found = Vec::new();
        self.whole_words(text, |range, word| {
            let next = taken.partition_point(|(other, _)| other.end <= range.start);
            if taken.get(next).is_none_or(|(other, _)| range.end <= other.start) {
                found.push((range, word));
            }
        });
        let mut end = 0;
        let mut spans = Vec::new();
        for (mut range, word) in found {
            if range.start < end {
                continue;
            }
            let name = &text[range.clone()];
            let masked = match word {
                Word::Host => {
                    let domain = domain_behind(&text[range.end..]);
                    let next = taken.partition_point(|(other, _)| other.end <= range.start);
                    if taken.get(next).is_none_or(|(other, _)| range.end + domain <= other.start) {
                        range.end += domain;
                    }
                    ledger.host(&text[range.clone()])
                }
                Word::Domain => ledger.domain(name),
                Word::User => ledger.user(name),
                Word::Serial => ledger.serial(name),
            };
            end = range.end;
            spans.push((range, masked));
        }
        spans
    }
}

/// Letters and digits up to another character, or one other character.
fn first_part(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    match end {
        0 => &text[..text.chars().next().map_or(0, char::len_utf8)],
        end => &text[..end],
    }
}

/// The length of the domain after a host name.
fn domain_behind(rest: &str) -> usize {
    let ascii = rest.bytes().take(MAX_LENGTH).take_while(u8::is_ascii).count();
    let rest = &rest[..ascii];
    let mut length = 0;
    let mut last = "";
    for label in rest.strip_prefix('.').into_iter().flat_map(|rest| rest.split('.')) {
        let end =
            label.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
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
    if is_domain && !UNIT_SUFFIXES.contains(&last) { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_suffix_is_not_a_domain() {
        assert_eq!(domain_behind(".hpc.site.edu:/x"), 13);
        assert_eq!(domain_behind(".service"), 0);
        assert_eq!(domain_behind(". Then"), 0);
        assert_eq!(domain_behind(".2"), 0);
        assert_eq!(domain_behind("-ib0.site.edu"), 0);
    }
}
