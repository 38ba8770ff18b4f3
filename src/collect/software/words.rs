//! Searches programs and libraries for strings that show how they were built; keeps only those.

use std::path::Path;

use regex::bytes::Regex;

use crate::model::{Fact, Why};
use crate::world::{Files, MOST};

/// The strings found in a file. Of two with a common beginning the longer comes first.
pub fn among(files: &dyn Files, path: &Path, words: &[&str]) -> Fact<Vec<String>> {
    matching(files, path, &alternatives(words))
}

/// The pattern of these words.
pub fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| regex::escape(word)).collect::<Vec<_>>().join("|")
}

/// The strings in a file that match. The pattern must match its own matches, one a line, so that a recording reads the same.
pub fn matching(files: &dyn Files, path: &Path, pattern: &str) -> Fact<Vec<String>> {
    let Ok(pattern) = Regex::new(pattern) else {
        return Fact::Unknown(Why::Broken);
    };
    match files.reduced(path, MOST, &|bytes| found(&pattern, &bytes).into_bytes()) {
        Ok(bytes) => {
            Fact::Known(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        }
        Err(error) => Fact::Unknown(error.why()),
    }
}

fn found(pattern: &Regex, bytes: &[u8]) -> String {
    let mut words: Vec<&[u8]> = pattern.find_iter(bytes).map(|word| word.as_bytes()).collect();
    words.sort_unstable();
    words.dedup();
    let line = |word: &&[u8]| format!("{}\n", String::from_utf8_lossy(word));
    words.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_words_idempotently() {
        let pattern = Regex::new("use_cuda_dmabuf|use_cuda").expect("a pattern");
        let once = found(&pattern, b"\x7fELF --use_cuda=<id>\0--use_cuda_dmabuf\0use_cuda\xff");
        assert_eq!(once, "use_cuda\nuse_cuda_dmabuf\n");
        assert_eq!(found(&pattern, once.as_bytes()), once);
        assert_eq!(found(&pattern, b""), "");
    }
}
