//! Words, numbers and colours shared by several formats.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use anstyle::{AnsiColor, Color, Effects, Style as Ansi};

use super::Style;
use crate::model::{Fact, LinkState, Outcome, PciClass, Verdict};
use crate::output;
pub use crate::output::printable;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    /// Slower or at risk.
    Fair,
    Bad,
    Dim,
    Strong,
    Special,
    /// A command to type.
    Command,
}

impl Tone {
    fn ansi(self) -> Ansi {
        let colour = |colour: AnsiColor| Ansi::new().fg_color(Some(Color::Ansi(colour)));
        match self {
            Self::Good => colour(AnsiColor::Green),
            Self::Fair => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red),
            Self::Dim => Ansi::new().effects(Effects::DIMMED),
            Self::Strong => Ansi::new().effects(Effects::BOLD),
            Self::Special => colour(AnsiColor::Cyan),
            Self::Command => colour(AnsiColor::Cyan).effects(Effects::BOLD),
        }
    }

    pub fn of_cell(cell: &str) -> Option<Self> {
        match cell {
            "PIX" | "PXB" => Some(Self::Good),
            "PHB" => Some(Self::Fair),
            "NODE" | "NODE or SYS" | "SYS" => Some(Self::Bad),
            "?" => Some(Self::Dim),
            _ if cell.strip_prefix("NV").is_some_and(|n| n.parse::<u32>().is_ok()) => {
                Some(Self::Special)
            }
            _ => None,
        }
    }

    pub fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::LikelyGood => Self::Fair,
            Verdict::Bad => Self::Bad,
            Verdict::Unknown => Self::Dim,
        }
    }

    pub fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pass => Self::Good,
            Outcome::Warn | Outcome::Unknown => Self::Fair,
            Outcome::Fail => Self::Bad,
            Outcome::Info => Self::Special,
            Outcome::Skip => Self::Dim,
        }
    }
}

impl Style {
    /// A command to type, the same in every output.
    pub fn command(self, text: &str) -> String {
        self.paint(Tone::Command, text)
    }

    /// The text, coloured if colour is on.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if self.color { output::paint(tone.ansi(), text) } else { text.to_owned() }
    }
}

/// Formats a bandwidth in GB/s (10⁹ bytes per second).
pub fn bandwidth(bytes_per_second: u64) -> String {
    let tenths = bytes_per_second / 100_000_000;
    format!("{}.{} GB/s", tenths / 10, tenths % 10)
}

/// A link such as `32GT/s x16`, with its maximum if that is higher.
pub fn link(link: &LinkState) -> String {
    let mut text = format!("{} x{}", link.current.speed, link.current.width);
    if link.current != link.max {
        // Writing to a String cannot fail.
        let _ = write!(text, " (of {} x{})", link.max.speed, link.max.width);
    }
    text
}

pub fn class(class: &Fact<PciClass>) -> &'static str {
    class.known().map_or("?", |class| class.letters())
}

/// `1 check`, `2 checks`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    if count == N::from(1) { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Wraps a text at spaces to `width` columns. It starts at column `start`; later lines start with `indent`.
pub fn wrap(text: &str, width: usize, start: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut column = start;
    for (at, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = indent.chars().count();
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Splits table columns into blocks that fit `width` together with the first column. Each block has
/// at least one column, even if that is too wide.
pub fn blocks(first: usize, widths: &[usize], gap: usize, width: usize) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut used = first;
    for (at, column) in widths.iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if used + gap + column <= width => block.end = at + 1,
            _ => {
                used = first;
                blocks.push(at..at + 1);
            }
        }
        used += gap + column;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_columns_into_blocks() {
        assert_eq!(blocks(4, &[3, 3, 3], 2, 19), std::slice::from_ref(&(0..3)));
        assert_eq!(blocks(4, &[3, 3, 3], 2, 18), [0..2, 2..3]);
        assert_eq!(blocks(4, &[30, 3, 30], 2, 18), [0..1, 1..2, 2..3]);
        assert!(blocks(4, &[], 2, 18).is_empty());
    }

    #[test]
    fn rounds_down_and_wraps_at_spaces() {
        assert_eq!(bandwidth(63_015_384_615), "63.0 GB/s");
        assert_eq!(bandwidth(985_000_000), "0.9 GB/s");
        assert_eq!(wrap("one two three", 7, 0, "  "), "one two\n  three");
        assert_eq!(wrap("one two three", 9, 4, "  "), "one\n  two\n  three");
        assert_eq!(wrap("endless", 3, 4, "  "), "endless", "the first word is not moved");
    }
}
