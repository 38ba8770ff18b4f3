//! Text as XML may hold it.

/// The text without characters that XML forbids, that move the writing direction or that nobody can see: each becomes
/// U+FFFD. Names come from files anybody may have written.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

fn is_plain(c: char) -> bool {
    // Marks, joiners and embeddings of the writing direction; private use has no glyph to measure.
    let unseen = matches!(u32::from(c), 0x00ad | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfe00..=0xfe0f
        | 0xfeff | 0xfff0..=0xfffb | 0xe000..=0xf8ff | 0xe_0000..=0x10_ffff);
    let nobody = matches!(u32::from(c) & 0xffff, 0xfffe | 0xffff);
    !c.is_control() && !unseen && !nobody
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
        assert_eq!(escape(r#"<a b="c">&'"#), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        let hostile = "a\0b\u{1b}[31m\n\t\u{202e}\u{feff}\u{ffff}\u{85}é漢";
        assert_eq!(
            clean(hostile),
            "a\u{fffd}b\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é漢"
        );
    }
}
