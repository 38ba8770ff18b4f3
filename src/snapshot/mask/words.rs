//! Names that are known to be somebody's, and where they stand as whole words.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::ledger::{Ledger, is_host_name};
use super::scan::Span;

/// What follows the name of a unit or of a file, and is no domain.
pub const UNIT_SUFFIXES: [&str; 16] = [
    "service", "socket", "scope", "slice", "mount", "target", "timer", "device", "swap", "path",
    "conf", "log", "json", "ko", "txt", "so",
];

/// Words that gdr, the kernel and NVIDIA use, whatever else a document holds.
const VOCABULARY: &str = "live linux kernel host system machine server node cpu cpus gpu gpus mem memory nvidia nvml cuda \
    mellanox mlx5 mlx4 pci pcie bus device devices driver net eth0 ib0 rdma infiniband ethernet intel amd arm root boot \
    debian ubuntu rhel centos rocky fedora suse sles vm guest qemu kvm docker unknown none default switch bridge port \
    unix open closed module release build version nvrm x86_64 aarch64 ppc64le on off yes no true false auto enabled \
    disabled pt passthrough identity dma dma-fq direct translated nopt strict lazy force active down init armed up \
    link layer rate unlimited soft hard limit max locked character block flags hypervisor vendor_id implementer power \
    model uuid minor ro rw quiet masked";

/// The longest name there is: a host's with its domain.
const LONGEST: usize = 255;

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
    words: HashMap<String, Word>,
    /// Those that something else is called too: they are replaced only where names of their kind stand.
    common: HashSet<String>,
    /// How long the names are that begin with this piece, the longest first.
    lengths: HashMap<String, BTreeSet<Reverse<usize>>>,
    /// How long those pieces are.
    pieces: BTreeSet<usize>,
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

    pub fn learn_user(&mut self, name: &str) {
        if name != "root" {
            self.learn(name, Word::User);
        }
    }

    /// A serial number that may stand elsewhere too.
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
            && (short
                || VOCABULARY
                    .split_ascii_whitespace()
                    .any(|other| other == lower))
        {
            self.common.insert(lower);
            return;
        }
        if lower.len() > LONGEST || self.common.contains(&lower) {
            return;
        }
        self.pieces.insert(first_piece(&lower).len());
        let lengths = self
            .lengths
            .entry(first_piece(&lower).to_owned())
            .or_default();
        lengths.insert(Reverse(lower.len()));
        self.words.entry(lower).or_insert(word);
    }

    /// Words that stand in this text of the kernel's or of a vendor's are common ones.
    pub fn meet_vocabulary(&mut self, text: &str) {
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

    /// Each place where a known word stands as a whole word.
    fn whole_words(&self, text: &str, mut each: impl FnMut(Range<usize>, Word)) {
        if self.words.is_empty() {
            return;
        }
        let mut at = 0;
        while at < text.len() {
            let piece = first_piece(&text[at..]);
            let found = self.word_at(text, at, piece);
            if let Some((length, word)) = found {
                each(at..at + length, word);
            }
            // What was found ends where a word ends.
            at += found.map_or(piece.len(), |(length, _)| length);
        }
    }

    /// The longest known word that begins here and ends where a word ends.
    fn word_at(&self, text: &str, at: usize, piece: &str) -> Option<(usize, Word)> {
        // Most pieces are none of a name: their number of letters says so at little cost.
        let lengths = match self.pieces.contains(&piece.len()) {
            true => self.lengths.get(&piece.to_lowercase()),
            false => None,
        };
        lengths.into_iter().flatten().find_map(|Reverse(length)| {
            let name = text.get(at..at + length)?;
            let joined = text[at + length..]
                .chars()
                .next()
                .is_some_and(char::is_alphanumeric);
            let ends = !joined || !name.ends_with(char::is_alphanumeric);
            let word = self.words.get(&name.to_lowercase()).filter(|_| ends)?;
            Some((*length, *word))
        })
    }

    /// Where known words stand in a text, outside of `taken`, which is in order.
    pub fn spans(&self, ledger: &mut Ledger, text: &str, taken: &[Span]) -> Vec<Span> {
        let mut found = Vec::new();
        self.whole_words(text, |range, word| {
            let next = taken.partition_point(|(other, _)| other.end <= range.start);
            if taken
                .get(next)
                .is_none_or(|(other, _)| range.end <= other.start)
            {
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
                    if taken
                        .get(next)
                        .is_none_or(|(other, _)| range.end + domain <= other.start)
                    {
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

/// Letters and digits up to something else, or one character that is neither.
fn first_piece(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    match end {
        0 => &text[..text.chars().next().map_or(0, char::len_utf8)],
        end => &text[..end],
    }
}

/// How long the domain is that follows the name of a host.
fn domain_behind(rest: &str) -> usize {
    let ascii = rest.bytes().take(LONGEST).take_while(u8::is_ascii).count();
    let rest = &rest[..ascii];
    let mut length = 0;
    let mut last = "";
    for label in rest
        .strip_prefix('.')
        .into_iter()
        .flat_map(|rest| rest.split('.'))
    {
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
