//! Any bytes as a log: they are read to their end, and what is quoted of them steers no terminal.
//!
//! `cargo +nightly fuzz run explain fuzz/corpus/explain fuzz/seeds/explain`

#![no_main]

use std::collections::HashSet;
use std::sync::LazyLock;

use gdr::explain::{Matcher, shipped};
use libfuzzer_sys::fuzz_target;

static MATCHER: LazyLock<Option<Matcher>> = LazyLock::new(|| Matcher::new(shipped().ok()?).ok());

fuzz_target!(|data: &[u8]| {
    let Some(matcher) = &*MATCHER else {
        panic!("the shipped table is one");
    };
    let Ok(reading) = matcher.read(data) else {
        panic!("memory is read");
    };
    assert_eq!(reading.bytes, data.len() as u64);
    for found in &reading.matches {
        assert!(
            found.count >= 1 && found.line.number >= 1 && found.line.number <= reading.lines.max(1)
        );
        assert!(found.line.text.chars().all(|c| !c.is_control()));
        assert!((1..=100).contains(&found.score));
    }
    let checks: HashSet<&str> = reading.matches.iter().map(|found| found.check.as_str()).collect();
    assert_eq!(checks.len(), reading.matches.len(), "each check once");
    assert!(reading.matches.is_sorted_by_key(|found| std::cmp::Reverse(found.score)));
});
