//! Splits module options as the kernel does (lib/cmdline.c, kernel/params.c): blanks separate
//! parameters outside double quotes; quotes around a value or a whole parameter are removed; `-` and `_`
//! are equal in names; the last value counts.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// With underscores for dashes.
    pub name: String,
    /// `None` without `=`.
    pub value: Option<String>,
}

/// Parses an option string, up to `--`.
pub fn parameters(options: &str) -> Vec<Parameter> {
    let mut found = Vec::new();
    let mut rest = options.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let (word, after) = split(rest);
        rest = after.trim_start_matches(is_blank);
        if word == "--" {
            break;
        }
        found.push(parameter(word));
    }
    found
}

/// Splits at the first blank outside quotes.
fn split(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|c| {
        quoted ^= c == '"';
        is_blank(c) && !quoted
    });
    text.split_at(end.unwrap_or(text.len()))
}

fn parameter(word: &str) -> Parameter {
    let (word, whole) = match word.strip_prefix('"') {
        Some(inner) => (inner, true),
        None => (word, false),
    };
    // A leading = is part of the name.
    let equals = word.char_indices().skip(1).find(|(_, c)| *c == '=').map(|(at, _)| at);
    let unquoted = |text: &str| text.strip_suffix('"').unwrap_or(text).to_owned();
    match equals {
        Some(at) => {
            let (name, value) = (&word[..at], &word[at + 1..]);
            let value = match value.strip_prefix('"') {
                Some(inner) => unquoted(inner),
                None if whole => unquoted(value),
                None => value.to_owned(),
            };
            Parameter { name: name.replace('-', "_"), value: Some(value) }
        }
        None => Parameter {
            name: if whole { unquoted(word) } else { word.to_owned() }.replace('-', "_"),
            value: None,
        },
    }
}

/// Parses a number like `kstrtouint` and `kstrtoint` with base 0; unsigned, as the driver prints it.
pub fn unsigned(text: &str) -> Option<u32> {
    let text = text.trim_ascii_end();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, base) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => (hexadecimal, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u32::from_str_radix(digits, base).ok()?;
    if negative { Some(value.wrapping_neg()) } else { Some(value) }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(options: &str) -> Vec<(String, Option<String>)> {
        parameters(options).into_iter().map(|p| (p.name, p.value)).collect()
    }

    #[test]
    fn removes_quotes_and_keeps_blanks_inside() {
        for (options, name, value) in [
            ("NVreg_X=1", "NVreg_X", Some("1")),
            ("NVreg-X=0x10", "NVreg_X", Some("0x10")),
            ("  A=\"b c; d\" ", "A", Some("b c; d")),
            ("\"A=b c\"", "A", Some("b c")),
            ("A=b\"c d\"", "A", Some("b\"c d\"")),
            ("A=\"PeerMappingOverride=1;\"", "A", Some("PeerMappingOverride=1;")),
            ("A=b=c", "A", Some("b=c")),
            ("A=", "A", Some("")),
            ("async_probe", "async_probe", None),
            ("=x", "=x", None),
        ] {
            assert_eq!(pairs(options), [(name.to_owned(), value.map(str::to_owned))], "{options}");
        }
    }

    #[test]
    fn splits_at_blanks_until_double_dash() {
        let names: Vec<String> =
            parameters("A=1 B=\"x y\"\tC D=\"open e=1").into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["A", "B", "C", "D"]);
        assert_eq!(pairs("A=1 -- B=2").len(), 1);
        assert!(pairs("   ").is_empty());
    }

    #[test]
    fn reads_numbers_of_any_base() {
        for (text, value) in [
            ("1", Some(1)),
            ("0x1F", Some(31)),
            ("0666", Some(438)),
            ("0", Some(0)),
            ("-1", Some(u32::MAX)),
            ("+3", Some(3)),
            ("4294967296", None),
            ("1;", None),
            ("", None),
            ("0x", None),
            ("--1", None),
        ] {
            assert_eq!(unsigned(text), value, "{text}");
        }
    }
}
