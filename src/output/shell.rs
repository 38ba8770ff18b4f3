//! Quoting of shell commands that a person copies.

use super::character::{is_hidden, printable};

/// Quotes a word for the shell. Hidden characters become question marks; no valid name contains any.
pub fn shell_word(word: &str) -> String {
    quoted(&printable(word))
}

/// Quotes a word for the shell, unchanged; none if it contains hidden characters.
pub fn exact_word(word: &str) -> Option<String> {
    (!word.contains(is_hidden)).then(|| quoted(word))
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A shell command that prints the text. Each line is quoted on its own line and cannot be mistaken for a command.
/// Hidden characters become escapes of printf's `%b`.
pub fn print_exactly(text: &str) -> String {
    let is_escaped = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    let conversion = if text.contains(is_escaped) { "%b" } else { "%s" };
    let argument = |line: &str| match conversion {
        "%s" => format!("'{}'", line.replace('\'', "'\\''")),
        _ => format!("'{}'", escaped(line, is_escaped)),
    };
    let (whole, rest) = match text.rsplit_once('\n') {
        Some((whole, rest)) => (Some(whole), rest),
        None => (None, text),
    };
    let whole = whole.map(|whole| {
        let lines: Vec<String> = whole.split('\n').map(argument).collect();
        format!("printf '{conversion}\\n' \\\n  {}", lines.join(" \\\n  "))
    });
    let rest = (!rest.is_empty()).then(|| format!("printf {conversion} {}", argument(rest)));
    match (whole, rest) {
        (Some(whole), Some(rest)) => format!("{{ {whole}\n{rest}; }}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => ":".to_owned(),
    }
}

/// Escapes a line inside single quotes for printf's `%b` (POSIX: `\0` and up to three octal digits per byte).
fn escaped(line: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("'\\''"),
            c if is_escaped(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&format!("\\0{byte:03o}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_words() {
        for (word, text) in [
            ("modprobe", "modprobe"),
            (
                "--args=pci=disable_acs_redir=0000:02:00.0",
                "--args=pci=disable_acs_redir=0000:02:00.0",
            ),
            ("a b", "'a b'"),
            ("it's; $x", "'it'\\''s; $x'"),
            ("", "''"),
            ("~root", "'~root'"),
            ("a\nb", "'a?b'"),
        ] {
            assert_eq!(shell_word(word), text);
        }
        assert_eq!(exact_word("a\u{202e}b"), None);
        assert_eq!(exact_word("a\nb"), None);
        assert_eq!(exact_word("a b").as_deref(), Some("'a b'"));
    }

    #[test]
    fn prints_text_exactly() {
        for text in [
            "",
            "\n",
            "one",
            "one\n",
            "one\n\ntwo",
            "it's\t\\0101 %s $x `y`\n-n\n",
            "\u{1b}[2J'\\\u{202e}é\r\n\u{0}x\n",
        ] {
            let command = print_exactly(text);
            assert!(!command.contains(|c| is_hidden(c) && c != '\n' && c != '\t'), "{command:?}");
            let output = std::process::Command::new("/bin/sh")
                .args(["-c", &command])
                .output()
                .expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{command}");
        }
        assert_eq!(print_exactly("a\nrm -rf x\n"), "printf '%s\\n' \\\n  'a' \\\n  'rm -rf x'");
    }
}
