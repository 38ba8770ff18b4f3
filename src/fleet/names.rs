//! Names that are masked, and long texts in fewer bytes.

use std::collections::{HashMap, HashSet};

use super::natural;
use crate::model::{MaskKey, Order as _};

/// Most bytes of a text in a report; more are cut. One text may stand in many places.
const MAX_TEXT: usize = 1_024;

/// The text, up to its limit.
pub fn cut(text: &str) -> String {
    if text.len() > MAX_TEXT {
        format!("{}\u{2026}", &text[..text.floor_char_boundary(MAX_TEXT)])
    } else {
        text.to_owned()
    }
}

/// A mask for each name: a number in their order, or what follows from a key.
pub fn masks(mut names: Vec<String>, key: Option<&MaskKey>) -> HashMap<String, String> {
    names.order_by(|a, b| natural(a).cmp(&natural(b)));
    names.dedup();
    let mask = |at: usize, name: &str| match key {
        Some(key) => key.host(name),
        None => format!("node{at}"),
    };
    let masks: Vec<String> = (1..).zip(&names).map(|(at, name)| mask(at, name)).collect();
    let mut names: HashMap<String, String> = names.into_iter().zip(masks).collect();
    make_unique(&mut names);
    names
}

/// Two nodes never share a mask.
fn make_unique(names: &mut HashMap<String, String>) {
    let mut taken = HashSet::new();
    let mut each: Vec<(&String, &mut String)> = names.iter_mut().collect();
    each.sort_unstable_by_key(|(name, _)| name.as_str());
    for (_, mask) in each {
        while !taken.insert(mask.clone()) {
            mask.push('x');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_long_texts_between_characters() {
        let whole = "x".repeat(MAX_TEXT);
        assert_eq!(cut(&whole), whole);
        assert_eq!(cut(&"\u{20ac}".repeat(400)), "\u{20ac}".repeat(341) + "\u{2026}");
    }
}
