//! What a reader of each format takes a page for, by readers that are not gdr's: an XML parser, a shell, the rules of the format.

use std::collections::BTreeSet;
use std::process::Command;

/// What is wrong with a page of this command; none where all is well or nothing was printed.
pub fn wrong(command: &str, page: &str) -> Option<String> {
    match command {
        _ if page.is_empty() => None,
        _ if command.ends_with("svg") => picture(page),
        _ if command.ends_with("prometheus") => metrics(page),
        _ if command.ends_with("--pairs") => lines_for_a_shell(page),
        _ if command.ends_with("script") => script(page),
        _ if command.ends_with("markdown") => markdown(page),
        _ => None,
    }
}

/// Well-formed, and nothing in it that runs or fetches.
fn picture(page: &str) -> Option<String> {
    let document = match roxmltree::Document::parse(page) {
        Ok(document) => document,
        Err(error) => return Some(error.to_string()),
    };
    let drawn = [
        "svg", "g", "rect", "path", "text", "tspan", "title", "desc", "line", "circle", "style",
        "defs", "polyline", "polygon",
    ];
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        if !drawn.contains(&node.tag_name().name()) {
            return Some(format!("an element {}", node.tag_name().name()));
        }
        let runs = |name: &str| name.starts_with("on") || name.ends_with("href");
        if let Some(attribute) = node.attributes().find(|attribute| runs(attribute.name())) {
            return Some(format!("an attribute {}", attribute.name()));
        }
    }
    None
}

/// Prometheus's text format: comments, and samples that are there once.
fn metrics(page: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    for line in page.lines() {
        if line.starts_with("# HELP gdr_") || line.starts_with("# TYPE gdr_") {
            continue;
        }
        let (name, rest) = line.split_once('{')?;
        let sample = rest.rsplit_once("} ").filter(|(labels, value)| {
            name.starts_with("gdr_") && value.parse::<u64>().is_ok() && labels_end(labels)
        });
        match sample {
            Some((labels, _)) if seen.insert((name.to_owned(), labels.to_owned())) => {}
            Some(_) => return Some(format!("twice: {line}")),
            None => return Some(format!("no sample: {line}")),
        }
    }
    None
}

/// Labels with their values in quotes, to the end.
fn labels_end(labels: &str) -> bool {
    let mut rest = labels;
    while let Some((name, after)) = rest.split_once("=\"") {
        if !name.trim_start_matches(',').bytes().all(|byte| byte.is_ascii_lowercase()) {
            return false;
        }
        let mut escaped = false;
        let end = after.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let Some((end, _)) = end else {
            return false;
        };
        rest = &after[end + 1..];
    }
    rest.is_empty()
}

/// Each line is the words of one command: a shell that takes them runs nothing.
fn lines_for_a_shell(page: &str) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        if matches!(line, "case \"$SLURM_LOCALID\" in" | "esac") || line.starts_with("*) echo ") {
            continue;
        }
        let of_a_rank = line.split_once(") exec ").and_then(|(rank, line)| {
            let line = line.strip_suffix(" \"$@\" ;;")?;
            rank.bytes().all(|b| b.is_ascii_digit()).then_some(line)
        });
        let of_the_machine = line.strip_prefix("export ");
        let words = of_a_rank.or(line.strip_suffix(" COMMAND"));
        let words = words.filter(|line| line.starts_with("env "));
        let Some(words) = words.or(of_the_machine) else {
            return Some(format!("no line of gdr's: {line}"));
        };
        let ran = Command::new("/bin/sh")
            .args(["-c", &format!("set -- {words} && echo whole")])
            .current_dir(directory.path())
            .output()
            .expect("a shell");
        if ran.stdout != b"whole\n" {
            return Some(format!("{line}: {}", String::from_utf8_lossy(&ran.stderr)));
        }
    }
    let made = std::fs::read_dir(directory.path()).expect("a directory").count();
    (made > 0).then(|| "a command ran".to_owned())
}

fn script(page: &str) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("script");
    std::fs::write(&path, page).expect("a file");
    let read = Command::new("/bin/sh").arg("-n").arg(&path).output().expect("a shell");
    (!read.status.success()).then(|| String::from_utf8_lossy(&read.stderr).into_owned())
}

/// No markup of HTML, and no picture, outside of code; a table's rows have its columns.
fn markdown(page: &str) -> Option<String> {
    let mut fence: Option<String> = None;
    for line in page.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line == *open => fence = None,
            Some(_) => {}
            None if ticks.len() > 2 && line == ticks => fence = Some(ticks),
            None => {
                let text = without_code(line);
                if let Some(mark) =
                    ["<", "![", "](", "://", "&#"].iter().find(|mark| text.contains(**mark))
                {
                    return Some(format!("{mark} in {line}"));
                }
                if line.starts_with("| ") && text.matches('|').count() != 5 {
                    return Some(format!("columns: {line}"));
                }
            }
        }
    }
    fence.map(|_| "a block of code does not end".to_owned())
}

/// A line without its spans of code, and without what a backslash makes plain.
fn without_code(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            rest = rest.get(1..).unwrap_or_default();
            rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
        if ticks > 0 {
            let (open, after) = rest.split_at(ticks);
            // The next run of as many ends it.
            let mut at = 0;
            let end = loop {
                let Some(next) = after[at..].find('`').map(|next| at + next) else {
                    break None;
                };
                let run = after[next..].bytes().take_while(|byte| *byte == b'`').count();
                if run == open.len() {
                    break Some(next + run);
                }
                at = next + run;
            };
            rest = end.map_or(after, |end| &after[end..]);
            continue;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}
