//! Long texts in fewer bytes.

/// Most bytes of a text in a report; more are cut. One text may stand in many places.
const MAX_TEXT: usize = 1_024;

/// The text, up to its limit.
pub fn cut(text: &str) -> String {
    if text.len() > MAX_TEXT {
        format!("{}\u{2026}", &text[..text.floor_char_boundary(MAX_TEXT)])
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_long_texts_between_characters() {
        let whole = "x".repeat(MAX_TEXT);
        assert_eq!(cut(&whole), whole);
        assert_eq!(cut(&"\u{20ac}".repeat(400)), "\u{20ac}".repeat(341) + "\u{2026}");
    }
}
