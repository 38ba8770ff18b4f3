//! Compares kernel command lines. The order matters only among repeated parameters, of which the kernel may use the last
//! or all.

use std::collections::BTreeMap;

/// The words by parameter, each with its position; repeated ones in order.
pub fn parameters(line: &str) -> BTreeMap<&str, Vec<(usize, &str)>> {
    let mut found: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (at, word) in line.split_ascii_whitespace().enumerate() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        found.entry(name).or_default().push((at, word));
    }
    found
}

/// The words of the parameters whose values differ from the other line's, in order.
pub fn only_in(
    line: &BTreeMap<&str, Vec<(usize, &str)>>,
    other: &BTreeMap<&str, Vec<(usize, &str)>>,
) -> String {
    let texts = |words: &[(usize, &str)]| {
        words.iter().map(|(_, word)| (*word).to_owned()).collect::<Vec<_>>()
    };
    let differ = line.iter().filter(|(name, words)| {
        other.get(*name).is_none_or(|others| texts(others) != texts(words))
    });
    let mut words: Vec<(usize, &str)> = differ.flat_map(|(_, words)| words).copied().collect();
    words.sort_unstable();
    if words.is_empty() { "none of these".to_owned() } else { texts(&words).join(" ") }
}
