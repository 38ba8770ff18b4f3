//! Escaping of XML text.

use crate::output::is_hidden;

/// Replaces characters that XML forbids, that change the writing direction or that are invisible with U+FFFD. Names
/// come from untrusted files.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Escapes text for character data or an attribute value.
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
    fn escapes_markup() {
        assert_eq!(escape(r#"<a b="c">&'"#), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        let hostile = "a\0b\u{1b}[31m\n\t\u{202e}\u{feff}\u{ffff}\u{85}é漢";
        assert_eq!(
            clean(hostile),
            "a\u{fffd}b\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é漢"
        );
    }
}
