//! Parses `RegistryDwords` and `RegistryDwordsPerDevice` as the driver does.
//!
//! The driver removes blanks, splits at `;`, and drops tokens that are not `key=value`
//! (os-registry.c and osapi.c of the open kernel modules). It ignores case in registry keys, but
//! not in the module option names that may appear there too.

use std::collections::BTreeMap;

use crate::model::Bdf;

/// A registry key's value in `RegistryDwords`; the last one wins.
pub fn key(text: &str, name: &str) -> Option<u32> {
    tokens(text)
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .last()
        .map(|(_, value)| number(&value))
}

/// A module option's value in `RegistryDwords`, which overrides the module parameter.
pub fn option(text: &str, name: &str) -> Option<u32> {
    tokens(text).filter(|(key, _)| key == name).last().map(|(_, value)| number(&value))
}

/// A registry key's value for one GPU in `RegistryDwordsPerDevice`: `pci=DDDD:BB:DD.F;key=value;…`, repeated.
pub fn key_of_device(text: &str, gpu: Bdf, name: &str) -> Option<u32> {
    let mut here = false;
    let mut found = None;
    for (key, value) in tokens(text) {
        if key == "pci" {
            here = address(&value) == Some(gpu);
        } else if here && key.eq_ignore_ascii_case(name) {
            found = Some(number(&value));
        }
    }
    found
}

/// The string with one key set and everything else unchanged.
pub fn merged(text: &str, name: &str, value: u32) -> String {
    let kept = text.split(';').filter(|token| {
        let key = token.split('=').next().unwrap_or_default();
        !token.trim().is_empty() && !without_blanks(key).eq_ignore_ascii_case(name)
    });
    let mut merged: String = kept.map(|token| format!("{};", token.trim())).collect();
    merged.push_str(&format!("{name}={value};"));
    merged
}

/// The last string plus the keys that only earlier strings set.
pub fn joined<'t>(last: &str, earlier: impl IntoIterator<Item = &'t str>) -> String {
    let kept = effect(last);
    let mut joined: String = last
        .split(';')
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .map(|token| format!("{token};"))
        .collect();
    let mut added = BTreeMap::new();
    for (key, value) in earlier.into_iter().flat_map(tokens) {
        let name = key.to_ascii_lowercase();
        if !kept.contains_key(&name) && added.get(&name) != Some(&value) {
            joined.push_str(&format!("{key}={value};"));
            added.insert(name, value);
        }
    }
    joined
}

/// Splits dropped tokens at blanks and commas. Also returns the tokens that are still invalid,
/// which are removed.
pub fn fixed(text: &str) -> (String, Vec<String>) {
    let (mut fixed, mut left) = (String::new(), Vec::new());
    for token in text.split(';').map(str::trim).filter(|token| !token.is_empty()) {
        let parts: Vec<&str> = match tokens(token).next() {
            Some(_) => vec![token],
            None => token
                .split(|c: char| c == ',' || c.is_ascii_whitespace())
                .filter(|part| !part.is_empty())
                .collect(),
        };
        if parts.iter().all(|part| tokens(part).next().is_some()) {
            fixed.extend(parts.iter().map(|part| format!("{part};")))
        } else {
            left.push(token.to_owned())
        }
    }
    (fixed, left)
}

/// The keys that a string sets, ignoring case, with their last values.
pub fn effect(text: &str) -> BTreeMap<String, u32> {
    tokens(text).map(|(key, value)| (key.to_ascii_lowercase(), number(&value))).collect()
}

/// The tokens that the driver drops because they are not `key=value`.
pub fn dropped(text: &str) -> Vec<String> {
    let whole = |token: &String| token.is_empty() || tokens(token).next().is_some();
    text.split(';').map(without_blanks).filter(|token| !whole(token)).collect()
}

/// The accepted keys and values, in order.
pub fn tokens(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(';').filter_map(|token| {
        let token = without_blanks(token);
        let (key, value) = token.split_once('=')?;
        let whole = !key.is_empty() && !value.is_empty() && !value.contains('=');
        whole.then(|| (key.to_owned(), value.to_owned()))
    })
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// `strtoul` with base 0: `0x` is hexadecimal, a leading 0 octal; stops at the first non-digit.
pub fn number(text: &str) -> u32 {
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => (hexadecimal, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let digits = digits.chars().map_while(|c| c.to_digit(base));
    digits.fold(0, |value: u32, digit| value.wrapping_mul(base).wrapping_add(digit))
}

/// `BB:DD`, `DDDD:BB:DD` or `DDDD:BB:DD.F`.
fn address(text: &str) -> Option<Bdf> {
    if text.contains('.') { text.parse().ok() } else { format!("{text}.0").parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_as_the_driver_does() {
        for (text, value) in [
            ("PeerMappingOverride=1", Some(1)),
            ("peermappingoverride=0x1;", Some(1)),
            ("A=2; Peer Mapping Override = 01 ;B=3", Some(1)),
            ("PeerMappingOverride=1;PeerMappingOverride=0", Some(0)),
            ("PeerMappingOverride=1=1", None),
            ("PeerMappingOverride==1", None),
            ("PeerMappingOverride=", None),
            ("PeerMappingOverride", None),
            ("XPeerMappingOverride=1", None),
            // A comma does not separate tokens; the value ends at the comma.
            ("PeerMappingOverride=1,B=2", None),
            ("PeerMappingOverride=1,B", Some(1)),
            ("PeerMappingOverride=010", Some(8)),
            ("PeerMappingOverride=0x1F", Some(31)),
            ("PeerMappingOverride=yes", Some(0)),
            ("", None),
        ] {
            assert_eq!(key(text, "PeerMappingOverride"), value, "{text}");
        }
    }

    #[test]
    fn reports_dropped_tokens() {
        assert_eq!(dropped("A=1;B=2,C=3; D ;=1;;E="), ["B=2,C=3", "D", "=1", "E="]);
        assert!(dropped("A=1; B = 0x2;").is_empty());
        assert_eq!(effect("a=1;A=0x2;B=3"), effect("b=3;A=2"));
    }

    #[test]
    fn options_are_case_sensitive() {
        assert_eq!(option("EnableStreamMemOPs=1", "EnableStreamMemOPs"), Some(1));
        assert_eq!(option("enablestreammemops=1", "EnableStreamMemOPs"), None);
    }

    #[test]
    fn keys_of_a_device_follow_its_address() {
        let text = "PeerMappingOverride=1;pci=0000:03:00.0;PeerMappingOverride=1;pci=41:00;A=1;peermappingoverride=2";
        let value = |gpu: &str| {
            key_of_device(text, gpu.parse().expect("an address"), "PeerMappingOverride")
        };
        assert_eq!(value("0000:03:00.0"), Some(1));
        assert_eq!(value("0000:41:00.0"), Some(2));
        assert_eq!(value("0000:05:00.0"), None);
    }

    #[test]
    fn joining_keeps_earlier_keys() {
        assert_eq!(joined("B=1", ["A=1;b=2", "C=3"]), "B=1;A=1;C=3;");
        assert_eq!(joined("", ["A=1", "a=1", "A=2"]), "A=1;A=2;");
        assert_eq!(joined(" A = 1 ;", []), "A = 1;");
    }

    #[test]
    fn splits_dropped_tokens() {
        assert_eq!(fixed("A=1,B=2; C=3 D=4;E = 5").0, "A=1;B=2;C=3;D=4;E = 5;");
        assert_eq!(
            fixed("A=1;B;C=1=2"),
            ("A=1;".to_owned(), vec!["B".to_owned(), "C=1=2".to_owned()])
        );
    }

    #[test]
    fn merging_keeps_the_rest() {
        for (text, want) in [
            ("", "PeerMappingOverride=1;"),
            ("A=1;B=0x2", "A=1;B=0x2;PeerMappingOverride=1;"),
            ("peermappingoverride=0; A=1;", "A=1;PeerMappingOverride=1;"),
        ] {
            assert_eq!(merged(text, "PeerMappingOverride", 1), want);
        }
    }
}
