//! Lines of modprobe.d as libkmod reads them: a backslash joins lines and escapes characters; blanks and
//! tabs separate words; names have underscores for dashes.

/// Limit for a joined line, far above real options (the kernel accepts 4096 bytes in total).
const LONGEST: usize = 64 << 10;

/// Joined lines, each with the number of its first line. Skips lines over the limit.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u32, String)> {
    let mut rest = text.chars().peekable();
    let mut number = 1;
    std::iter::from_fn(move || {
        rest.peek()?;
        let first = number;
        let mut line = String::new();
        loop {
            let c = match rest.next() {
                None => break,
                Some('\n') => {
                    number += 1;
                    break;
                }
                Some('\\') => match rest.next() {
                    Some('\n') => {
                        number += 1;
                        continue;
                    }
                    Some(c) => c,
                    None => break,
                },
                Some(c) => c,
            };
            if line.len() <= LONGEST {
                line.push(c);
            }
        }
        if line.len() > LONGEST {
            line.clear();
        }
        // libkmod treats a line as a C string.
        if let Some(end) = line.find('\0') {
            line.truncate(end);
        }
        Some((first, line))
    })
}

/// Escapes a line for `lines`.
pub(super) fn written(line: &str) -> String {
    line.replace('\\', "\\\\")
}

/// The next word and the rest after one blank, as `strtok_r` splits them.
pub(super) fn word(text: &str) -> Option<(&str, &str)> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() {
        return None;
    }
    Some(text.split_once(BLANKS).unwrap_or((text, "")))
}

/// Replaces dashes by underscores outside brackets; `None` for unbalanced brackets.
pub fn module_name(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut inside = false;
    for c in name.chars() {
        match c {
            ']' if !inside => return None,
            ']' => inside = false,
            '[' => inside = true,
            '-' if !inside => {
                out.push('_');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    (!inside).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u32, String)> {
        lines(text).collect()
    }

    fn owned(lines: &[(u32, &str)]) -> Vec<(u32, String)> {
        lines.iter().map(|(number, line)| (*number, (*line).to_owned())).collect()
    }

    #[test]
    fn backslash_joins_lines_and_escapes() {
        assert_eq!(all("a\nb\n"), owned(&[(1, "a"), (2, "b")]));
        assert_eq!(all("a \\\n  b\nc"), owned(&[(1, "a   b"), (3, "c")]));
        assert_eq!(all(r"a\nb\\c\"), owned(&[(1, r"anb\c")]));
        assert_eq!(
            all("# not \\\noptions a b=1\nx"),
            owned(&[(1, "# not options a b=1"), (3, "x")])
        );
        assert_eq!(all("a\0b\nc"), owned(&[(1, "a"), (2, "c")]));
        assert!(all("").is_empty());
        assert_eq!(all("\n\n"), owned(&[(1, ""), (2, "")]));
    }

    #[test]
    fn written_line_reads_back() {
        for line in [r"a\b", "a", r"\", r"install x sh -c 'echo \n'"] {
            assert_eq!(all(&format!("{}\n", written(line))), owned(&[(1, line)]));
        }
    }

    #[test]
    fn skips_huge_line() {
        let text = format!("options a {}\noptions b c=1\n", "x".repeat(1 << 20));
        assert_eq!(all(&text), owned(&[(1, ""), (2, "options b c=1")]));
    }

    #[test]
    fn normalizes_names_outside_brackets() {
        assert_eq!(module_name("nvidia-peermem").as_deref(), Some("nvidia_peermem"));
        assert_eq!(module_name("a-[0-9]-b").as_deref(), Some("a_[0-9]_b"));
        assert_eq!((module_name("a]b"), module_name("a[b")), (None, None));
    }
}
