//! What a page that gdr printed must not hold, by tables that are not gdr's.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

use crate::hostile::text::FORGED;

/// Unicode's own tables, as regex-syntax has them.
static FORBIDDEN: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let class = r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}--[\n\t]]";
    match regex_syntax::Parser::new().parse(class).expect("a class").kind() {
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        other => panic!("{other:?}"),
    }
});

fn is_forbidden(c: char) -> bool {
    FORBIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// What is wrong with a page; none where all is well. `underlined`: nvidia-smi's own sequences may be in it.
pub fn problem(page: &[u8], underlined: bool) -> Option<String> {
    let Ok(text) = std::str::from_utf8(page) else {
        return Some("it is not UTF-8".to_owned());
    };
    let plain = if underlined {
        text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "")
    } else {
        text.to_owned()
    };
    if let Some(c) = plain.chars().find(|c| is_forbidden(*c)) {
        let line = plain.lines().find(|line| line.contains(c)).unwrap_or_default();
        return Some(format!("U+{:04X} is in it: {line:?}", u32::from(c)));
    }
    // A line that gdr breaks at a blank is indented.
    let forged = plain.lines().find(|line| line.starts_with(FORGED));
    forged.map(|line| format!("a line is forged: {line:?}"))
}

pub fn without_colour(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let (parameters, after) = after.split_once('m').expect("a colour ends in m");
        assert!(
            parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'),
            "{parameters:?} is not a colour"
        );
        rest = after;
    }
    out + rest
}
