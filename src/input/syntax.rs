//! Error messages of parsers, without content of the file: the place, the kind of error, and words of our own.

use std::error::Error;
use std::io;

/// Prefixes of messages from gdr's own deserializers: they never quote the input.
const OWN: [&str; 3] = ["more than ", "not an even number", "function "];

/// Describes a JSON error.
pub fn json_error(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    if error.is_eof() {
        return format!("{place}: unexpected end of the text");
    }
    if !error.is_data() {
        return format!("{place}: not valid JSON");
    }
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    format!("{place}: {}", kind(message))
}

/// Describes a TOML error in this text.
pub fn toml_error(error: &toml::de::Error, text: &str) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let what = match text.parse::<toml::Table>() {
        Ok(_) => kind(error.message()),
        Err(_) => "not valid TOML".to_owned(),
    };
    format!("line {line}, column {column}: {what}")
}

/// The kind of a serde error, with the expected value, which comes last and is our text.
fn kind(message: &str) -> String {
    let expected = || match message.rsplit_once(", expected ") {
        Some((_, expected))
            if !message.ends_with("there are no fields")
                && !message.ends_with("there are no variants") =>
        {
            format!(", expected {expected}")
        }
        _ => String::new(),
    };
    let known = [
        ("unknown field `", "unknown key"),
        ("unknown variant `", "unknown value"),
        ("invalid type: ", "wrong type"),
        ("invalid value: ", "wrong value"),
        ("invalid length ", "wrong number of values"),
    ];
    if let Some((_, what)) = known.iter().find(|(start, _)| message.starts_with(start)) {
        return format!("{what}{}", expected());
    }
    // The names in these messages are from our types, not from the input.
    let is_ours = ["missing field `", "duplicate field `"]
        .iter()
        .chain(&OWN)
        .any(|start| message.starts_with(start));
    if is_ours {
        message.replace("field", "key")
    } else {
        "a value that gdr does not accept".to_owned()
    }
}

/// Describes a Zstandard error, from the debug text of the decoder's error.
pub fn zstd_error(error: &(dyn Error + 'static)) -> &'static str {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            return "the Zstandard data ends too early: the file is truncated";
        }
        cause = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    "the Zstandard data is corrupt"
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are wanted")]
    struct Page {
        title: String,
        #[serde(default)]
        kind: Kind,
        #[serde(default)]
        none: None,
    }

    #[derive(Debug, Default, Deserialize)]
    enum Kind {
        #[default]
        Short,
        Long,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct None {}

    fn toml(text: &str) -> String {
        toml_error(&toml::from_str::<Page>(text).expect_err("it is wrong"), text)
    }

    fn json(text: &str) -> String {
        json_error(&serde_json::from_str::<Page>(text).expect_err("it is wrong"))
    }

    #[test]
    fn toml_errors_say_place_and_kind() {
        assert_eq!(toml("root:$6$secret:1:2\nuser:*:3\n"), "line 1, column 19: not valid TOML");
        assert_eq!(
            toml("title = 'a'\nsecret = 1\n"),
            "line 2, column 1: unknown key, expected one of `title`, `kind`, `none`"
        );
        assert_eq!(
            toml("title = 'a'\nkind = 'secret'\n"),
            "line 2, column 8: unknown value, expected `Short` or `Long`"
        );
        assert_eq!(
            toml("title = [ 'secret' ]\n"),
            "line 1, column 9: wrong type, expected a string"
        );
        assert_eq!(toml("kind = 'Long'\n"), "line 1, column 1: missing key `title`");
    }

    #[test]
    fn json_errors_say_place_and_kind() {
        assert_eq!(json("root:secret"), "line 1, column 1: not valid JSON");
        assert_eq!(
            json("{\"title\": \"a\",\n \"secret\": 1}"),
            "line 2, column 9: unknown key, expected one of `title`, `kind`, `none`"
        );
        assert_eq!(
            json("{\"title\": {\"secret\": 1}}"),
            "line 1, column 10: wrong type, expected a string"
        );
    }

    #[test]
    fn does_not_quote_keys_that_imitate_messages() {
        for key in [
            "a, expected secret",
            "missing field `secret`",
            "more than secret",
            "x at line 1 column 1 secret",
        ] {
            for text in [
                toml(&format!("title = 'a'\n[none]\n'{key}' = 1\n")),
                toml(&format!("title = 'a'\n'{key}' = 1\n")),
            ] {
                assert!(!text.contains("secret"), "{text}");
            }
            for text in [
                json(&format!("{{\"title\": \"a\", \"none\": {{\"{key}\": 1}}}}")),
                json(&format!("{{\"title\": \"a\", \"kind\": \"{key}\"}}")),
                json(&format!("{{\"title\": \"a\", \"{key}\": 1}}")),
            ] {
                assert!(!text.contains("secret"), "{text}");
            }
        }
    }
}
