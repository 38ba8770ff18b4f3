//! The list of a probe's tests.

use crate::render::Style;
use crate::render::text::{Tone, wrap};

/// A test, and what gdrcopy calls it.
pub struct ListedTest<'a> {
    pub name: &'a str,
    pub about: &'a str,
    pub upstream: &'a str,
    pub by_default: bool,
}

/// Each test with what it does, and gdrcopy's program and test on a line of its own.
pub fn test_list(tests: &[ListedTest<'_>], style: Style) -> String {
    let widest = tests.iter().map(|test| test.name.len()).max().unwrap_or(0);
    let indent = " ".repeat(widest + 2);
    let column = |text: &str| wrap(text, style.width, indent.len(), &indent);
    let mut page = String::new();
    for test in tests {
        let only_named = if test.by_default { "" } else { "; only with --test" };
        let about = column(&format!("{}{only_named}", test.about));
        page.push_str(&format!("{:<widest$}  {about}\n", test.name));
        if !test.upstream.is_empty() {
            let upstream = column(&format!("gdrcopy: {}", test.upstream));
            page.push_str(&format!("{indent}{}\n", style.paint(Tone::Dim, &upstream)));
        }
    }
    page
}
