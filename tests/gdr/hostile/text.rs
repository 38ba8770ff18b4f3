//! Texts that an attacker puts into a name.

use proptest::prelude::*;

/// Begins a line that gdr would not write.
pub const FORGED: &str = "FORGED";

/// What has done harm somewhere.
const HARMFUL: [&str; 34] = [
    "\u{1b}[2J",
    "\u{1b}[31m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://example.com\u{1b}\\",
    "\u{9b}2J",
    "\u{90}q\u{9c}",
    "\u{7f}\u{8}\u{8}",
    "\r",
    "\n",
    "\nFORGED",
    "\r\nFORGED",
    "\u{2028}FORGED",
    "\u{2029}",
    "\u{85}",
    "\u{b}\u{c}",
    "\t",
    "\u{202e}txt.exe",
    "\u{2066}\u{2069}",
    "\u{200b}\u{200d}\u{feff}",
    "\u{ad}",
    "\u{e0041}\u{e0042}",
    "\u{61c}\u{200f}",
    "\u{fff9}\u{3164}\u{115f}",
    "\u{fdd0}\u{ffff}\u{10ffff}",
    "<script>alert(1)</script>",
    "\"/><image href=\"http://example.com\"/>",
    "]]>&#x202e;&lt;",
    "| a | b |",
    "```\n#FORGED",
    "![x](http://example.com)",
    "'; touch forged; '",
    "$(touch forged)`touch forged`",
    "\\\" \\n",
    "漢字 é \u{1f600}",
];

/// A text of a few pieces, each harmful, or any characters.
pub fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(&HARMFUL[..]).prop_map(str::to_owned),
        1 => prop::collection::vec(any::<char>(), 1..6).prop_map(|characters| characters.into_iter().collect()),
        1 => "[a-z0-9_]{1,6}",
    ];
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

/// One that may be the name of a file.
pub fn hostile_name() -> impl Strategy<Value = String> {
    hostile().prop_map(|text| text.replace(['/', '\0'], "_"))
}
