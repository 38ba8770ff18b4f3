//! Finds words and lines in texts by memchr, which is fast in a debug build too: the standard library's searchers are compiled with gdr.

use aho_corasick::AhoCorasick;
use memchr::{memchr, memmem};

/// True if a text has the words.
pub fn has(text: &str, words: &str) -> bool {
    memmem::find(text.as_bytes(), words.as_bytes()).is_some()
}

/// True if a text has one of these words.
pub fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|words| has(text, words))
}

/// Many words, which are searched in one pass: a text may have a million lines.
pub struct Words(Option<AhoCorasick>);

impl Words {
    pub fn new<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        Self(AhoCorasick::new(words).ok())
    }

    /// True if a text has one of them, or if there are too many to search for.
    pub fn has_any(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|words| words.is_match(text))
    }
}

/// The parts of a text between line feeds, as `split` gives them.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr(b'\n', text);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_split() {
        for text in ["", "\n", "a", "a\n", "\n\na\n\nb", "a\nb\n\n"] {
            let split: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'\n').collect();
            assert_eq!(lines(text.as_bytes()).collect::<Vec<_>>(), split, "{text:?}");
        }
    }
}
