//! Whether a line below a function is lspci's, or a person's mark for omitted lines.

use crate::import::find;

/// Marks for omitted lines, in lower case.
const LEFT_OUT: [&str; 8] =
    ["...", "\u{2026}", "snip", "truncat", "omitted", "left out", "cut here", "skipped"];

/// Lines of lspci that consist of words only.
const WORDS: [&str; 8] = [
    "End",
    "No end tag found",
    "Not readable",
    "Unknown small resource type",
    "Unknown large resource type",
    "<available only to root>",
    "<access denied>",
    "<unreadable>",
];

/// Whether a line has a form of lspci. If in doubt no: then nothing counts as absent.
pub(super) fn is_lspcis(text: &str) -> bool {
    if WORDS.iter().any(|words| text.starts_with(words)) {
        return true;
    }
    let lower = text.to_lowercase();
    // Device names may contain anything.
    let named = ["Subsystem: ", "DeviceName: ", "Product Name: ", "Kernel "]
        .iter()
        .any(|begin| text.starts_with(begin))
        || is_vital_data(text);
    if !named && find::has_any(&lower, &LEFT_OUT) {
        return false;
    }
    let in_brackets = [('[', ']'), ('<', '>'), ('(', ')'), ('{', '}')]
        .iter()
        .any(|(open, close)| text.starts_with(*open) && text.find(*close) == Some(text.len() - 1));
    if in_brackets {
        return false;
    }
    let flag = |word: &str| {
        word.trim_end_matches([',', ';'])
            .strip_suffix(['+', '-'])
            .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    text.starts_with("!!! ")
        || text.contains(": ")
        || text.ends_with(':')
        || text.contains('=')
        || text.contains(|c: char| c.is_ascii_digit())
        || text.split_ascii_whitespace().any(flag)
}

/// A line of Vital Product Data: `[PN] Part number: x`.
fn is_vital_data(text: &str) -> bool {
    let rest = text.strip_prefix('[').and_then(|rest| rest.get(2..));
    rest.is_some_and(|rest| rest.starts_with("] ") && rest.contains(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_lspci_from_omission_marks() {
        for text in [
            "Control: I/O- Mem+",
            "ExtTag+ RBE+",
            "PriDiscTmr- SecDiscTmr- DiscTmrStat- DiscTmrSERREn-",
            "Vector table: BAR=0 offset=00000000",
            "Region 0: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=32M]",
            "[virtual] Expansion ROM at fe000000 [disabled] [size=512K]",
            "Memory at e0000000 (32-bit, non-prefetchable) [size=16M]",
            "Memory behind bridge: [disabled] [32-bit]",
            "[PN] Part number: MCX75310AAS-NEAT",
            "[VA] Vendor specific: snip...]",
            "Subsystem: Acme Thing... [1234:5678]",
            "End",
            "!!! Unknown header type 7f",
            "Capabilities: <access denied>",
            "FirstFatal- NonFatalMsg- FatalMsg- IntMsg 0",
            "Latency: 0",
            "00000000 00000000",
        ] {
            assert!(is_lspcis(text), "{text}");
        }
        for text in [
            "...",
            "[...]",
            "\u{2026}",
            "<snip>",
            "-- snip --",
            "[cut]",
            "(output truncated)",
            "[ 12 lines: not shown ]",
            "--More--",
            "Capabilities: ...",
            "and so on",
            "----------",
        ] {
            assert!(!is_lspcis(text), "{text}");
        }
    }
}
