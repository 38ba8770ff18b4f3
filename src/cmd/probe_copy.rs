//! The list of the tests of `gdr probe copy`.

use crate::probe::copy::TESTS;
use crate::render::Style;
use crate::render::probe::{ListedTest, test_list};

/// The tests of `gdr probe copy`, with gdrcopy's names for them.
pub fn list_tests(style: Style) -> String {
    let tests = TESTS.iter().map(|test| ListedTest {
        name: test.name,
        about: test.about,
        upstream: test.upstream,
        by_default: test.by_default,
    });
    test_list(&tests.collect::<Vec<_>>(), style)
}
