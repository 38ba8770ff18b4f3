//! Text as XML may hold it.

use crate::output::is_hidden;

/// The text without characters that XML forbids, that move the writing direction or that nobody can see: each becomes
/// U+FFFD. Names come from files anybody may have written.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_hidden(c) { '\u{fffd}' } else { c })
        .collect()
}

/// The text as character data or the value of an attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_nothing_that_xml_reads() {
        assert_eq!(
            escape(r#"<a b="c">&'"#),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;"
        );
        let hostile = "a\0b\u{1b}[31m\n\t\u{202e}\u{feff}\u{ffff}\u{85}é漢";
        assert_eq!(
            clean(hostile),
            "a\u{fffd}b\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é漢"
        );
    }
}
