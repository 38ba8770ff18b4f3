//! Words in a program or a library that tell how it was built. Of the file nothing but those is kept.

use std::path::Path;

use regex::bytes::Regex;

use crate::model::{Fact, Why};
use crate::world::{Files, MOST};

/// Which of these words a file has. Of two that begin alike the longer stands first.
pub fn among(files: &dyn Files, path: &Path, words: &[&str]) -> Fact<Vec<String>> {
    let pattern = words
        .iter()
        .map(|word| regex::escape(word))
        .collect::<Vec<_>>()
        .join("|");
    let Ok(pattern) = Regex::new(&pattern) else {
        return Fact::Unknown(Why::Broken);
    };
    match files.reduced(path, MOST, &|bytes| found(&pattern, &bytes).into_bytes()) {
        Ok(bytes) => Fact::Known(
            String::from_utf8_lossy(&bytes)
                .lines()
                .map(str::to_owned)
                .collect(),
        ),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The words, one a line, which has the same words in it.
fn found(pattern: &Regex, bytes: &[u8]) -> String {
    let mut words: Vec<&[u8]> = pattern
        .find_iter(bytes)
        .map(|word| word.as_bytes())
        .collect();
    words.sort_unstable();
    words.dedup();
    let line = |word: &&[u8]| format!("{}\n", String::from_utf8_lossy(word));
    words.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_once_and_in_what_was_kept_too() {
        let pattern = Regex::new("use_cuda_dmabuf|use_cuda").expect("a pattern");
        let once = found(
            &pattern,
            b"\x7fELF --use_cuda=<id>\0--use_cuda_dmabuf\0use_cuda\xff",
        );
        assert_eq!(once, "use_cuda\nuse_cuda_dmabuf\n");
        assert_eq!(found(&pattern, once.as_bytes()), once);
        assert_eq!(found(&pattern, b""), "");
    }
}
