//! Width of text without font metrics: an upper bound for the sans-serif fonts of the stack.

use super::escape::clean;

/// The font stack. DejaVu Sans is the widest font that `sans-serif` commonly selects.
pub const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'DejaVu Sans', sans-serif";

const MOST: usize = 400;

/// Size and weight of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    /// Font size in pixels.
    pub size: i32,
    pub bold: bool,
}

impl Type {
    pub const fn plain(size: i32) -> Self {
        Self { size, bold: false }
    }

    pub const fn bold(size: i32) -> Self {
        Self { size, bold: true }
    }

    /// Maximum width of the text, pixels.
    pub fn width(self, text: &str) -> i32 {
        let thousandths: i64 = text.chars().map(advance).sum();
        let weight = if self.bold { 112 } else { 100 };
        let pixels = (thousandths * i64::from(self.size) * weight + 99_999) / 100_000;
        i32::try_from(pixels).unwrap_or(i32::MAX)
    }

    /// The text, cut with an ellipsis if it does not fit.
    pub fn fit(self, text: &str, room: i32) -> String {
        // No box holds more, and names have no maximum length.
        let mut cut: String = clean(&text.chars().take(MOST).collect::<String>());
        if cut.chars().count() < MOST && self.width(&cut) <= room {
            return cut;
        }
        while cut.pop().is_some() {
            let candidate = format!("{}…", cut.trim_end());
            if self.width(&candidate) <= room {
                return candidate;
            }
        }
        String::new()
    }
}

/// Advance in thousandths of the font size, from DejaVu Sans, rounded up so that 1.12 times it covers the bold face.
/// Characters outside ASCII and accented Latin count as more than an em.
fn advance(c: char) -> i64 {
    match c {
        'i' | 'j' | 'l' => 310,
        ' ' | ',' | '.' | '·' => 340,
        'I' | ':' | ';' | '/' | '\\' | '|' | '\'' => 360,
        'f' | 't' | 'r' | '-' | '(' | ')' | '[' | ']' | '!' => 445,
        'm' | 'W' | '@' | '%' => 1010,
        'M' | 'w' | '+' | '<' | '>' | '=' | '~' | '^' | '#' | '&' => 890,
        'A'..='Z' => 790,
        '0'..='9' | 'a'..='z' => 645,
        ' '..='~' => 640,
        '\u{a1}'..='\u{24f}' => 1010,
        '…' => 1000,
        _ => 1400,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_cover_dejavu_sans() {
        // From the font's advance table, 2048 units per em: regular, then bold.
        for (text, regular, bold) in [
            ("0", 1303, 1425),
            ("m", 1995, 2134),
            ("W", 2025, 2259),
            ("M", 1767, 2038),
            ("w", 1675, 1892),
            ("i", 569, 702),
            ("t", 803, 979),
            ("r", 842, 1010),
            ("b", 1300, 1466),
            (" ", 651, 713),
            (".", 651, 778),
            ("Q", 1612, 1741),
            (":", 690, 819),
            ("%", 1946, 2052),
            ("…", 2048, 2048),
        ] {
            assert!(Type::plain(2048).width(text) >= regular, "{text:?}");
            assert!(Type::bold(2048).width(text) >= bold, "{text:?} in bold");
        }
    }

    #[test]
    fn fit_cuts_long_text() {
        let type_ = Type::plain(10);
        assert_eq!(type_.fit("short", 200), "short");
        let cut = type_.fit("a name that goes on and on", 60);
        assert!(cut.ends_with('…') && type_.width(&cut) <= 60, "{cut}");
        assert_eq!(type_.fit("none", 1), "");
    }
}
