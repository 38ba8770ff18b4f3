//! Undoes what people do to a text: comment marks before outputs, tables of wikis, an output that begins within a line.

use super::begun;
use crate::import::{find, lspci, matrix};

/// Where a line ends that the file does not end: the separator of lines in Unicode.
pub const BREAK: char = '\u{2028}';

/// A text in a comment of a program, with the same mark before all lines.
pub fn of_comment(text: &str) -> Option<String> {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let first = lines().next()?.trim_start();
    let mark = ["#", "//", ";", "--", "*"].into_iter().find(|mark| first.starts_with(mark))?;
    let has = |line: &str| {
        line.trim_start()
            .strip_prefix(mark)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    };
    if !lines().all(has) || lines().count() < 4 {
        return None;
    }
    // Some programs print such lines themselves, and each is read as it is.
    let behind = |line: &str| {
        line.trim_start()
            .strip_prefix(mark)
            .map(|rest| rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    if lines().any(|line| begun(line.trim()).is_some()) {
        return None;
    }
    Some(text.lines().map(|line| behind(line).unwrap_or_default() + "\n").collect())
}

/// Outputs that stand in comments of a script or a program, between lines without a mark. Each block is read without its mark if only
/// that makes it an output.
pub fn of_comments(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut block: Vec<&str> = Vec::new();
    let (mut current, mut changed) = ("", false);
    for line in text.lines() {
        let mark = comment(line).map_or("", |(mark, _)| mark);
        if mark != current {
            changed |= end(&mut block, &mut out);
            current = mark;
        }
        if mark.is_empty() {
            out.push_str(line);
            out.push('\n');
        } else {
            block.push(line);
        }
    }
    changed |= end(&mut block, &mut out);
    changed.then_some(out)
}

/// The mark of a comment, and what stands behind it.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    if !line.starts_with(['#', '/', ';', '-']) {
        return None;
    }
    ["#", "//", ";", "--"].into_iter().find_map(|mark| {
        let rest = line.strip_prefix(mark)?;
        // A root's prompt stands before one command.
        (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some((mark, rest))
    })
}

/// Writes a block, without its mark if it is an output. True if it is.
fn end(block: &mut Vec<&str>, out: &mut String) -> bool {
    let begins = |line: &str| begun(line).is_some() || matrix::is_row(line);
    let behind = |line: &str| comment(line).map_or("", |(_, rest)| rest).trim().to_owned();
    let first = block.iter().find(|line| begins(&behind(line)));
    let is_output = first.is_some_and(|line| block.len() > 1 || lspci::is_head(&behind(line)))
        && !block.iter().any(|line| begins(line.trim()));
    for line in block.drain(..) {
        if is_output {
            let rest = comment(line).map_or("", |(_, rest)| rest);
            out.push_str(rest.strip_prefix(' ').unwrap_or(rest));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    is_output
}

/// Tables and blocks of Jira and Confluence: `||GPU0||GPU1||`, `{noformat}`.
pub fn of_wiki(text: &str) -> Option<String> {
    const BLOCKS: [&str; 4] = ["{noformat", "{code", "{quote", "{panel"];
    let is_block = |line: &str| BLOCKS.iter().any(|block| line.trim_start().starts_with(block));
    let is_head = |line: &str| line.trim_start().starts_with("||");
    if !find::has_any(text, &BLOCKS) && !find::has(text, "||") {
        return None;
    }
    if !text.lines().any(|line| is_block(line) || is_head(line)) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        match line.trim_start().split_once('}') {
            Some((_, rest)) if is_block(line) => {
                out.push_str("```\n");
                out.push_str(rest);
            }
            _ if is_head(line) => out.push_str(&line.replace("||", "|")),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    Some(out)
}

/// The first line of a function that a window or a mail wrapped within its brackets. The line stays at its end, below an empty one.
pub fn of_wrapped(text: &str) -> Option<String> {
    if !find::has(text, CONTROLLER) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let (mut lines, mut changed) = (text.lines().peekable(), false);
    while let Some(line) = lines.next() {
        let next = lines.next_if(|next| is_wrapped(line, next));
        if let Some(next) = next {
            changed = true;
            out.push('\n');
            out.push_str(line);
            // A window breaks words too.
            out.push_str(if WINDOWS.contains(&line.len()) { "" } else { " " });
            out.push_str(next);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    changed.then_some(out)
}

/// Columns of windows.
const WINDOWS: [usize; 5] = [80, 100, 120, 132, 160];

fn is_wrapped(line: &str, next: &str) -> bool {
    const LONGEST: usize = 64;
    let is_open = |open: char, end: char| line.rfind(open) > line.rfind(end);
    let begins = next.starts_with(|c: char| c.is_alphanumeric() || c == '[');
    let ends = next.ends_with(')') && next.contains("v ") || next.ends_with(']');
    find::has(line, CONTROLLER)
        && begins
        && ends
        && next.len() <= LONGEST
        && (is_open('[', ']') || is_open('(', ')') || next.starts_with('['))
        && !line.ends_with(')')
        && lspci::is_head(line.trim())
        && begun(next.trim()).is_none()
}

/// The first line of a function behind words: `my card: 62:00.0 VGA compatible controller: …`.
pub fn of_prose(text: &str) -> Option<String> {
    let mut out: Option<String> = None;
    let mut done = 0;
    if !find::has(text, CONTROLLER) {
        return None;
    }
    for line in text.lines().filter(|line| find::has(line, CONTROLLER)) {
        if let Some(at) = behind_words(line) {
            let start = line.as_ptr() as usize - text.as_ptr() as usize + at;
            let out = out.get_or_insert_default();
            out.push_str(&text[done..start]);
            out.push(BREAK);
            done = start;
            // Marks of code end it too.
            if let Some(end) = line[at..].find('`').filter(|_| line[..at].ends_with('`')) {
                out.push_str(&text[start..start + end]);
                out.push(BREAK);
                done = start + end;
            }
        }
    }
    out.map(|out| out + &text[done..])
}

/// What all classes of [`behind_words`] end with.
const CONTROLLER: &str = " controller";

/// Where the function begins.
fn behind_words(line: &str) -> Option<usize> {
    const CLASSES: [&str; 5] = [
        " VGA compatible controller",
        " 3D controller",
        " Infiniband controller",
        " InfiniBand controller",
        " Ethernet controller",
    ];
    let at = CLASSES.iter().filter_map(|class| line.find(class)).min()?;
    let start = line[..at].rfind([' ', '\t', '(', '`'])? + 1;
    let before = line[..start].trim();
    // A name and a colon are the prefix of pdsh, which names a machine; quote marks and numbers are not words.
    let words = before.split_ascii_whitespace().count();
    let has_words = words > 1 && before.starts_with(|c: char| c.is_alphabetic());
    ((has_words || before.ends_with('`'))
        && lspci::is_head(line[start..].trim_end())
        && !lspci::is_head(line.trim()))
    .then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_in_comments_are_read() {
        let script =
            "#!/bin/bash\nibstat\n# Two ports:\n# CA 'mlx5_0'\n#     Port 1:\nexport A=1\n";
        assert_eq!(
            of_comments(script).as_deref(),
            Some("#!/bin/bash\nibstat\nTwo ports:\nCA 'mlx5_0'\n    Port 1:\nexport A=1\n")
        );
        let code = "// 17:00.0 3D controller: NVIDIA\n//     LnkSta: Speed 32GT/s\nint main() {}\n";
        assert_eq!(
            of_comments(code).as_deref(),
            Some("17:00.0 3D controller: NVIDIA\n    LnkSta: Speed 32GT/s\nint main() {}\n")
        );
        for text in [
            "# nvidia-smi\n# lspci\nwords\n",
            "# GPU: NVIDIA GeForce RTX 3090\nwords\n",
            "#  Rank  0 Group  0 Pid  1 on node1 device  0 [0000:17:00] NVIDIA H100\n# a\nwords\n",
        ] {
            assert_eq!(of_comments(text), None, "{text}");
        }
    }

    #[test]
    fn tables_of_wikis_are_read() {
        assert_eq!(
            of_wiki("{code:bash}\n|| ||GPU0||GPU1||\n|GPU0|X|SYS|\n{code}\n").as_deref(),
            Some("```\n\n| |GPU0|GPU1|\n|GPU0|X|SYS|\n```\n\n")
        );
        assert_eq!(of_wiki("a || b\n{ \"code\": 1 }\n"), None);
    }

    #[test]
    fn a_function_ends_with_its_mark() {
        let function = "f014:00:02.0 Infiniband controller: Mellanox Technologies MT27800 Family";
        assert_eq!(
            of_prose(&format!("2 - The OS sees `{function}` and its driver\n")),
            Some(format!("2 - The OS sees `{BREAK}{function}{BREAK}` and its driver\n"))
        );
    }

    #[test]
    fn wrapped_functions_are_joined() {
        let head = "62:00.0 VGA compatible controller: NVIDIA Corporation AD102";
        let whole = format!("\n{head} [GeForce RTX 4090] (rev a1)\n\tLatency: 0\n");
        for text in [
            format!("{head}\n[GeForce RTX 4090] (rev a1)\n\tLatency: 0\n"),
            format!("{head} [GeForce\nRTX 4090] (rev a1)\n\tLatency: 0\n"),
        ] {
            assert_eq!(of_wrapped(&text).as_deref(), Some(whole.as_str()), "{text}");
        }
        for text in [
            format!("{head} [GeForce RTX 4090] (rev a1)\n[1] words]\n"),
            format!("{head}\nwords\n"),
        ] {
            assert_eq!(of_wrapped(&text), None, "{text}");
        }
    }

    #[test]
    fn a_function_begins_behind_words() {
        let function =
            "62:00.0 VGA compatible controller: NVIDIA Corporation AD102\n\tLatency: 0\n";
        assert_eq!(
            of_prose(&format!("a\nhere is my card {function}")),
            Some(format!("a\nhere is my card {BREAK}{function}"))
        );
        for text in [format!("node1: {function}"), function.to_owned(), format!("> {function}")] {
            assert_eq!(of_prose(&text), None, "{text}");
        }
    }
}
