//! Replaces the strings of a JSON document; copies numbers, keys and punctuation.

use super::scan::TextKind;

/// Ends of keys whose values are versions.
const VERSIONS: [&str; 4] = ["version", "versions", "firmware", "release"];

/// Maps each string value; `None` if the text is not JSON.
pub fn map_texts(json: &str, mut map: impl FnMut(TextKind, &str) -> String) -> Option<String> {
    let mut out = String::with_capacity(json.len());
    // For each open list or object: whether it contains versions.
    let mut open: Vec<TextKind> = Vec::new();
    let mut place = TextKind::Plain;
    let mut rest = json;
    while let Some(at) = rest.find(['"', '{', '[', '}', ']']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let mark = rest.chars().next()?;
        if mark != '"' {
            match mark {
                '{' | '[' => open.push(place),
                _ => place = open.pop()?,
            }
            out.push(mark);
            rest = &rest[1..];
            continue;
        }
        let length = text_length(rest)?;
        let (text, behind) = rest.split_at(length);
        let around = open.last().copied().unwrap_or(TextKind::Plain);
        if behind.trim_start().starts_with(':') {
            let key = text.trim_end_matches('"');
            place = if VERSIONS.iter().any(|end| key.ends_with(end)) {
                TextKind::Version
            } else {
                around
            };
            out.push_str(text);
        } else {
            let text: String = serde_json::from_slice(text.as_bytes()).ok()?;
            out.push_str(&crate::model::to_json(&map(place, &text)).ok()?);
        }
        rest = behind;
    }
    out.push_str(rest);
    open.is_empty().then_some(out)
}

/// The length of the string literal at the start of the text.
fn text_length(json: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_strings_only() {
        let json = r#"{"a":"x","driver_version":{"known":["1","2"]},"b":[{"c":"\"q\\","n":-1.5e3},null,true],"e":"","ü":"é"}"#;
        let mut seen = Vec::new();
        let out = map_texts(json, |place, text| {
            seen.push((place, text.to_owned()));
            text.to_uppercase()
        });
        let expected = json.replace("\"x\"", "\"X\"").replace("\\\"q", "\\\"Q").replace('é', "É");
        assert_eq!(out.as_deref(), Some(expected.as_str()));
        let text = |place, text: &str| (place, text.to_owned());
        assert_eq!(
            seen,
            [
                text(TextKind::Plain, "x"),
                text(TextKind::Version, "1"),
                text(TextKind::Version, "2"),
                text(TextKind::Plain, "\"q\\"),
                text(TextKind::Plain, ""),
                text(TextKind::Plain, "é"),
            ]
        );
        assert_eq!(map_texts("{\"a\":[1}", |_, text| text.to_owned()), None);
        assert_eq!(map_texts("\"a", |_, text| text.to_owned()), None);
    }
}
