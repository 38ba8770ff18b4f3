//! A traceback in one line: a copy into a chat or into JSON has a blank, or a backslash and an n, for each line end.

use super::program::is_exception;

const HEADING: &str = "Traceback (most recent call last)";

/// What stands between the exceptions of a chain.
const CHAINED: [&str; 2] = ["During handling of the above exception", "The above exception was"];

/// The lines of a traceback: what is before it, its heading, its frames, and its exceptions with their messages.
pub fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for part in text.split("\\n") {
        // A frame's code ends before the first word that is an exception's name.
        let mut is_frame = part.contains(HEADING);
        let mut start = 0;
        for (at, word) in words(part) {
            let rest = &part[at..];
            let begins = |texts: &[&str]| texts.iter().any(|text| rest.starts_with(text));
            let is_begun = begins(&["File \"", "File \\\""]);
            // Without a message it is the last word: code raises others.
            let is_last = rest.trim_end() == word;
            let is_end = is_frame && (is_last || word.ends_with(':')) && is_exception(word);
            if is_begun || is_end || begins(&CHAINED) || begins(&[HEADING]) {
                lines.push(&part[start..at]);
                start = at;
                is_frame = !is_end;
            }
        }
        lines.push(&part[start..]);
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// The words of a text, each with its place.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(' ').map(move |word| {
        let start = at;
        at += word.len() + 1;
        (start, word)
    })
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn lines_of_a_traceback() {
        for (text, expected) in [
            (
                "[rank1]: Traceback (most recent call last): File \"a.py\", line 3, in f raise KeyError File \"b.py\", line 5, in g \
                 torch.E.OutOfMemoryError: CUDA out of memory. See Error: x",
                &[
                    "[rank1]: ",
                    "Traceback (most recent call last): ",
                    "File \"a.py\", line 3, in f raise KeyError ",
                    "File \"b.py\", line 5, in g ",
                    "torch.E.OutOfMemoryError: CUDA out of memory. See Error: x",
                ][..],
            ),
            (
                "Traceback (most recent call last):\\n  File \"a.py\", line 3, in f\\n    raise E(\"x\")\\nKeyError: 'x'\\n",
                &[
                    "Traceback (most recent call last):",
                    "File \"a.py\", line 3, in f",
                    "    raise E(\"x\")",
                    "KeyError: 'x'",
                ],
            ),
            (
                "Traceback (most recent call last): File \"a\", line 3, in f KeyError: 'x' During handling of the above exception, another \
                 exception occurred: Traceback (most recent call last): File \"a\", line 4, in f AssertionError",
                &[
                    "Traceback (most recent call last): ",
                    "File \"a\", line 3, in f ",
                    "KeyError: 'x' ",
                    "During handling of the above exception, another exception occurred: ",
                    "Traceback (most recent call last): ",
                    "File \"a\", line 4, in f ",
                    "AssertionError",
                ],
            ),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
    }
}
