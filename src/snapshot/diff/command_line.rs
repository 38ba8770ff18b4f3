//! What differs between two command lines. Of a parameter that stands there twice the kernel may take the last, or all:
//! there the order counts, and between different ones it does not.

use std::collections::BTreeMap;

/// The words of a command line by the parameter that they set, each with its place; those of one in their order.
pub fn parameters(line: &str) -> BTreeMap<&str, Vec<(usize, &str)>> {
    let mut found: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (at, word) in line.split_ascii_whitespace().enumerate() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        found.entry(name).or_default().push((at, word));
    }
    found
}

/// The words of the parameters that the other line sets otherwise, in the line's order.
pub fn only_in(
    line: &BTreeMap<&str, Vec<(usize, &str)>>,
    other: &BTreeMap<&str, Vec<(usize, &str)>>,
) -> String {
    let texts = |words: &[(usize, &str)]| {
        words
            .iter()
            .map(|(_, word)| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let differ = line.iter().filter(|(name, words)| {
        other
            .get(*name)
            .is_none_or(|others| texts(others) != texts(words))
    });
    let mut words: Vec<(usize, &str)> = differ.flat_map(|(_, words)| words).copied().collect();
    words.sort_unstable();
    match words.is_empty() {
        true => "none of these".to_owned(),
        false => texts(&words).join(" "),
    }
}
