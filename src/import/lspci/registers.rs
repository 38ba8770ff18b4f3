//! Registers below a capability's title: `LnkSta: Speed 16GT/s (ok), Width x16 (ok)` and continuation lines.

use super::lines::Line;

/// A printed register: the text of each line.
#[derive(Debug, Clone, Default)]
pub(super) struct Register<'a> {
    parts: Vec<&'a str>,
}

/// The register of this name, if printed.
pub(super) fn register<'a>(lines: &'a [Line<'_>], name: &str) -> Option<Register<'a>> {
    let at =
        lines.iter().position(|line| named(&line.text).is_some_and(|(found, _)| found == name))?;
    let (_, first) = named(&lines[at].text)?;
    let more = lines[at + 1..].iter().map(|line| line.text.as_ref());
    let more = more.take_while(|text| named(text).is_none());
    Some(Register { parts: std::iter::once(first).chain(more).collect() })
}

/// Splits a line that begins with a register's name: one word and a colon.
fn named(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.then_some((name, rest.trim_start()))
}

impl<'a> Register<'a> {
    /// Reads `Name+` or `Name-`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.words().find_map(|word| match word.strip_prefix(name)? {
            "+" => Some(true),
            "-" => Some(false),
            _ => None,
        })
    }

    /// Reads flags as bits; `None` if one is missing.
    pub fn bits(&self, names: &[(&str, u32)]) -> Option<u32> {
        names
            .iter()
            .try_fold(0, |bits, (name, bit)| Some(bits | u32::from(self.flag(name)?) << bit))
    }

    /// The text after these words.
    pub fn after(&self, words: &str) -> Option<&'a str> {
        self.parts.iter().find_map(|part| {
            let (before, after) = part.split_once(words)?;
            let whole = before.is_empty() || before.ends_with([' ', '\t']);
            whole.then(|| after.trim_start())
        })
    }

    pub fn number<T: std::str::FromStr>(&self, words: &str) -> Option<T> {
        let after = self.after(words)?;
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..end].parse().ok()
    }

    fn words(&self) -> impl Iterator<Item = &'a str> {
        self.parts
            .iter()
            .flat_map(|part| part.split([' ', '\t', ',', ';']))
            .filter(|word| !word.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    const TEXT: &str = "\
        DevCtl:\tCorrErr+ NonFatalErr-\n\
        RlxdOrd+ ExtTag-\n\
        MaxPayload 256 bytes, MaxReadReq 4096 bytes\n\
        LnkSta: Speed 16GT/s (ok), Width x16 (downgraded)\n\
        \tTrErr- Train- DLActive+\n\
        ATSCtl:\tEnable+, Smallest Translation Unit: 1f";

    #[test]
    fn register_ends_at_next_register() {
        let lines: Vec<Line<'_>> = lines(TEXT.as_bytes()).collect();
        let control = register(&lines, "DevCtl").expect("a register");
        assert_eq!(control.flag("RlxdOrd"), Some(true));
        assert_eq!(control.flag("NonFatalErr"), Some(false));
        assert_eq!(control.flag("FatalErr"), None, "matches whole names only");
        assert_eq!(control.flag("DLActive"), None, "of another register");
        assert_eq!(control.number("MaxReadReq "), Some(4096_u16));
        assert_eq!(control.bits(&[("CorrErr", 0), ("ExtTag", 1), ("RlxdOrd", 4)]), Some(0x11));
        assert_eq!(control.bits(&[("CorrErr", 0), ("Missing", 1)]), None);
        let status = register(&lines, "LnkSta").expect("a register");
        assert_eq!(status.after("Speed "), Some("16GT/s (ok), Width x16 (downgraded)"));
        assert_eq!(status.number("Width x"), Some(16_u8));
        assert_eq!(status.flag("DLActive"), Some(true));
        let ats = register(&lines, "ATSCtl").expect("a register");
        assert_eq!(ats.flag("Enable"), Some(true));
        assert!(register(&lines, "LnkCap").is_none());
    }
}
