//! Splits a text into functions: first line, lines below it, hex bytes. Ignores everything else.

use super::lines::{Line, lines};
use super::{form, head};

/// Limit of lines per function; further content is unknown.
const MAX_LINES: usize = 2000;

/// Size of configuration space.
const MAX_BYTES: usize = 4096;

/// Beginnings of lines below a first line, recognisable without indentation.
const BEGINS: [&str; 8] = [
    "Subsystem:",
    "DeviceName:",
    "Physical Slot:",
    "Device tree node:",
    "Control:",
    "Flags:",
    "Kernel driver in use:",
    "!!! ",
];

/// Beginnings of lines that occur only within a function.
const BELOW: [&str; 14] = [
    "Subsystem: ",
    "Physical Slot: ",
    "Control: ",
    "Status: ",
    "Latency: ",
    "Interrupt: ",
    "NUMA node: ",
    "IOMMU group: ",
    "Region ",
    "Bus: primary=",
    "BridgeCtl: ",
    "Capabilities: [",
    "Kernel driver in use: ",
    "Kernel modules: ",
];

/// The line that `grep -A` prints between lines of one output that do not stand together.
const GREP: &str = "--";

pub(super) struct Block<'a> {
    pub first: Line<'a>,
    /// Without the hex bytes.
    pub lines: Vec<Line<'a>>,
    /// Contiguous from offset 0.
    pub bytes: Vec<u8>,
    /// No line is visibly missing in its middle. Its end is certain only if a line follows that lspci prints
    /// last, because people also end excerpts with a blank line.
    pub whole: bool,
    /// Foreign text separates it from the function before.
    pub apart: bool,
    /// Remarks with their lines.
    pub failure: Vec<(usize, String)>,
    flat: bool,
}

impl<'a> Block<'a> {
    fn new(first: Line<'a>, apart: bool) -> Self {
        Self {
            first,
            lines: Vec::new(),
            bytes: Vec::new(),
            whole: true,
            apart,
            failure: Vec::new(),
            flat: false,
        }
    }

    /// Whether a line belongs to this function.
    fn takes(&mut self, line: &Line<'a>) -> bool {
        if self.lines.is_empty() && line.indent <= self.first.indent {
            self.flat = BEGINS.iter().any(|begin| line.text.starts_with(begin));
        }
        self.flat || line.indent > self.first.indent
    }

    fn take(&mut self, line: Line<'a>) {
        // lspci prints bytes last, so a later line belongs to another function, or the bytes do.
        let fits =
            self.lines.len() < MAX_LINES && self.bytes.is_empty() && form::is_lspcis(&line.text);
        self.whole &= fits;
        if self.lines.len() < MAX_LINES {
            self.lines.push(line);
        }
    }

    fn add_bytes(&mut self, number: usize, (offset, row): (usize, Row)) {
        if offset != self.bytes.len() || offset + row.len > MAX_BYTES {
            // Only the first gap: nothing fits after it.
            if self.failure.is_empty() {
                let message = format!(
                    "bytes at {offset:#x} do not continue those before, which end at {:#x}",
                    self.bytes.len()
                );
                self.failure.push((number, message));
            }
            return;
        }
        self.bytes.extend_from_slice(&row.bytes[..row.len]);
    }
}

/// Calls `each` for every function of a text.
pub(super) fn blocks<'a>(text: &'a [u8], mut each: impl FnMut(Block<'a>)) {
    let mut open: Option<Block<'a>> = None;
    let mut apart = false;
    for line in lines(text) {
        if line.text.is_empty() {
            if let Some(block) = open.take() {
                each(block);
            }
        } else if head::parse(&line.text).is_some() {
            if let Some(block) = open.replace(Block::new(line, std::mem::take(&mut apart))) {
                each(block);
            }
        } else if let Some(block) = &mut open {
            if line.text == GREP {
                open.take().into_iter().for_each(&mut each);
            } else if let Some(row) = row(&line.text) {
                block.add_bytes(line.number, row);
            } else if block.takes(&line) {
                block.take(line);
            } else if !is_complaint(&line.text)
                && let Some(block) = open.take()
            {
                apart = true;
                each(block);
            }
        } else {
            // A function's lines may continue after an inserted blank line.
            apart |= !is_complaint(&line.text)
                && line.text != GREP
                && !BELOW.iter().any(|begin| line.text.starts_with(begin));
        }
    }
    if let Some(block) = open {
        each(block);
    }
}

/// Whether a line is from lspci's standard error, mixed into its output.
fn is_complaint(text: &str) -> bool {
    ["pcilib: ", "lspci: ", "WARNING: Cannot show"].iter().any(|begin| text.starts_with(begin))
}

struct Row {
    bytes: [u8; 16],
    len: usize,
}

/// Parses `1f0: 00 ff …`.
fn row(text: &str) -> Option<(usize, Row)> {
    let (offset, mut rest) = match text.as_bytes() {
        [a, b, b':', b' ', rest @ ..] => (number(&[*a, *b])?, rest),
        [a, b, c, b':', b' ', rest @ ..] => (number(&[*a, *b, *c])?, rest),
        _ => return None,
    };
    let mut row = Row { bytes: [0; 16], len: 0 };
    loop {
        let (byte, behind) = rest.split_at_checked(2)?;
        *row.bytes.get_mut(row.len)? = u8::try_from(number(byte)?).ok()?;
        row.len += 1;
        match behind {
            [] => return Some((offset, row)),
            [b' ', behind @ ..] => rest = behind,
            _ => return None,
        }
    }
}

/// The value of hexadecimal digits.
fn number(digits: &[u8]) -> Option<usize> {
    let mut number = 0;
    for byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        number = number << 4 | usize::from(digit);
    }
    Some(number)
}

/// True for a line of the bytes of a function.
pub(super) fn is_row(text: &str) -> bool {
    row(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `first line | lines | bytes | whole`
    fn found(text: &str) -> Vec<(String, Vec<String>, usize, bool)> {
        let mut found = Vec::new();
        blocks(text.as_bytes(), |block| {
            let lines = block.lines.iter().map(|line| line.text.to_string()).collect();
            let first = block.first.text.split(' ').next().unwrap_or_default().to_owned();
            found.push((first, lines, block.bytes.len(), block.whole));
        });
        found
    }

    fn block(
        first: &str,
        lines: &[&str],
        bytes: usize,
        whole: bool,
    ) -> (String, Vec<String>, usize, bool) {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        (first.to_owned(), lines, bytes, whole)
    }

    #[test]
    fn finds_functions_in_other_text() {
        let text = "My machine hangs:\n```\n$ lspci -vvv\n00:00.0 Host bridge: A B\n\tControl: I/O-\n\n\tControl: lost\n\
            01:00.0 VGA compatible controller: C D\n\tControl: x\npcilib: sysfs_read_vpd: read failed\n\tRegion 0: y\n```\n\
            \tRegion 1: not hers\n02:00.0 Bridge: E F\n03:00.0 Bridge: E F";
        assert_eq!(
            found(text),
            [
                block("00:00.0", &["Control: I/O-"], 0, true),
                block("01:00.0", &["Control: x", "Region 0: y"], 0, true),
                block("02:00.0", &[], 0, true),
                block("03:00.0", &[], 0, true),
            ]
        );
    }

    #[test]
    fn reads_quoted_indented_and_flat_text() {
        let lines = ["01:00.0 Bridge: A B", "\tControl: x", "\t\tdeeper+", "", "$ exit"];
        let body = ["Control: x", "deeper+"];
        for before in ["", "> ", ">", "> > ", "    ", "\t"] {
            let text: String = lines.iter().map(|line| format!("{before}{line}\r\n")).collect();
            assert_eq!(found(&text), [block("01:00.0", &body, 0, true)], "{before:?}");
        }
        let text = lines.map(str::trim).join("\n");
        assert_eq!(found(&text), [block("01:00.0", &body, 0, true)], "flat");
    }

    #[test]
    fn notices_lines_missing_in_the_middle() {
        let lines = |line: &str| {
            format!("01:00.0 Bridge: A B\n\tControl: x\n{line}\tKernel driver in use: y\n")
        };
        assert!(found(&lines(""))[0].3);
        for line in ["\t[...]\n", "\t...\n", "\t(output truncated)\n", "00: 01 02\n"] {
            assert!(!found(&lines(line))[0].3, "{line}");
        }
        let many = |count| "\tFoo: 1\n".repeat(count);
        assert!(found(&lines(&many(MAX_LINES - 2)))[0].3);
        assert!(!found(&lines(&many(MAX_LINES - 1)))[0].3);
    }

    #[test]
    fn reads_contiguous_bytes() {
        let row =
            |at: usize| format!("{at:02x}: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n");
        let text = format!("01:00.0 Bridge: A B\n{}{}{}20: 00 11\n\n", row(0), row(16), row(48));
        assert_eq!(found(&text), [block("01:00.0", &[], 34, true)]);
        let mut failure = Vec::new();
        blocks(text.as_bytes(), |block| failure.extend(block.failure));
        assert_eq!(failure.len(), 1);
        assert_eq!(failure[0].0, 4);
        // Offsets have at most three digits, so bytes end at 4096.
        let all: String = (0..=0xff).map(|n| row(n * 16)).collect();
        let text = format!("01:00.0 Bridge: A B\n{all}1000: 00\n");
        assert_eq!(found(&text)[0].2, 4096);
        assert!(
            row_of("00: 0g").is_none()
                && row_of("0000: 00").is_none()
                && row_of("00: 00  00").is_none()
        );
    }

    fn row_of(text: &str) -> Option<usize> {
        row(text).map(|(offset, _)| offset)
    }
}
