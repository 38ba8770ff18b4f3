//! Characters that a reader cannot see.

/// True for characters that control a terminal, change the writing direction or are invisible: C0, C1, DEL,
/// bidirectional controls, line and paragraph separators, format characters, default ignorables, private use,
/// noncharacters.
///
/// Unicode categories Cc, Cf, Co, Cs, Zl and Zp and the property Default_Ignorable_Code_Point, version 17, and all of
/// planes 14 to 16. A test compares with the tables of regex-syntax.
pub fn is_hidden(c: char) -> bool {
    if c < '\u{ad}' {
        return c.is_control();
    }
    matches!(u32::from(c),
        0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
        | 0x3164 | 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
        | 0x1_10bd | 0x1_10cd | 0x1_3430..=0x1_343f | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..)
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The length of the leading visible ASCII characters, spaces and line feeds: of most output, everything.
pub fn plain_length(text: &[u8]) -> usize {
    text.iter().position(|byte| !matches!(byte, b' '..=b'~' | b'\n')).unwrap_or(text.len())
}

/// Makes untrusted text safe within a line: hidden characters, line breaks and tabs become question marks.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use regex_syntax::hir::{Class, HirKind};

    use super::*;

    /// The ranges of a character class, from regex-syntax's Unicode tables.
    fn ranges(class: &str) -> Vec<(char, char)> {
        let parsed = regex_syntax::Parser::new().parse(class).expect("a class");
        match parsed.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn control_format_and_ignorable_characters_are_hidden() {
        for (first, last) in ranges(
            r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]",
        ) {
            for c in first..=last {
                assert!(is_hidden(c), "U+{:04X}", u32::from(c));
            }
        }
    }

    #[test]
    fn visible_characters_are_not_hidden() {
        for (first, last) in
            ranges(r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}--\p{Default_Ignorable_Code_Point}]")
        {
            for c in first..=last {
                assert!(!is_hidden(c), "U+{:04X}", u32::from(c));
            }
        }
    }

    #[test]
    fn hidden_characters_become_question_marks() {
        assert_eq!(
            printable("a\u{1b}[2Jb\nc\td\u{9b}e\u{202e}f\u{2028}g\u{200b}h"),
            "a?[2Jb?c?d?e?f?g?h"
        );
        assert_eq!(printable("Größe 漢字 → 5 µs"), "Größe 漢字 → 5 µs");
    }
}
