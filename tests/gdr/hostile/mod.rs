//! Hostile names: whatever is in a snapshot, a dump, a profile or an argument, nothing that gdr prints controls a terminal, hides itself, or
//! makes a line that gdr did not write.

mod arguments;
mod document;
mod grammar;
mod page;
mod text;

/// How many cases of a property; GDR_CASES says another number.
pub fn cases(usual: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("GDR_CASES").ok().and_then(|cases| cases.parse().ok());
    proptest::test_runner::Config {
        cases: cases.unwrap_or(usual),
        failure_persistence: None,
        // What is found is a text of a few words already.
        max_shrink_iters: 200,
        ..proptest::test_runner::Config::default()
    }
}
