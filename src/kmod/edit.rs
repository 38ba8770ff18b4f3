//! Edits modprobe.d files: comments directives out, and sets parameters. Everything else stays byte for
//! byte.

use std::collections::BTreeSet;

use super::directive::{MARK, directives};
use super::line::{module_name, written};
use super::options::{Parameter, parameters};
use crate::model::{Command, Directive};

/// Precedes a line that gdr commented out.
const COMMENTED: &str = "# gdr: ";

/// Comments out all lines of these directives; an error if one is missing.
pub fn commented(text: &str, out: &[&Directive]) -> Result<String, String> {
    let source = out.first().map_or("", |directive| directive.source.as_str());
    let present = parse_complete(source, text)?;
    let mut starts = BTreeSet::new();
    for directive in out {
        if !present.contains(directive) {
            return Err(format!("{} line {} has changed", directive.source, directive.line));
        }
        starts.insert(directive.line);
    }
    let mut changed = String::with_capacity(text.len() + COMMENTED.len() * starts.len());
    let mut within = false;
    for (number, line, continued) in physical_lines(text) {
        within = (within && continued) || starts.contains(&number);
        if within {
            changed.push_str(COMMENTED);
        }
        changed.push_str(line);
    }
    Ok(changed)
}

/// Parses a complete file; rejects the reduced copy of a snapshot, whose lines are not the file's.
fn parse_complete(source: &str, text: &str) -> Result<Vec<Directive>, String> {
    if text.lines().any(|line| line.starts_with(MARK)) {
        Err(format!("{source} is only partly in this snapshot: run gdr on the machine itself"))
    } else {
        directives(source, text)
    }
}

/// Physical lines with their ends: number, text, and whether the line continues the one before.
fn physical_lines(text: &str) -> impl Iterator<Item = (u32, &str, bool)> {
    let mut continued = false;
    text.split_inclusive('\n').zip(1..).map(move |(line, number)| {
        let joined = continued;
        // A backslash escapes the next character, including a backslash.
        let mut escaped = false;
        continued = false;
        for c in line.chars() {
            continued = escaped && c == '\n';
            escaped = !escaped && c == '\\';
        }
        (number, line, joined)
    })
}

/// The last value that a text sets for a module's parameter, without quotes.
pub fn value_in(text: &str, module: &str, parameter: &str) -> Result<Option<String>, String> {
    let mut found = None;
    for (_, options) in lines_for(text, module)? {
        let own = parameters(&options).into_iter().rfind(|set| set.name == parameter);
        found = own.map(|set| set.value.unwrap_or_default()).or(found);
    }
    Ok(found)
}

/// Sets a parameter in the text's last line for the module, or in a new line at the end.
pub fn with_value(
    text: &str,
    module: &str,
    parameter: &str,
    value: &str,
) -> Result<String, String> {
    if value_in(text, module, parameter)?.as_deref() == Some(value) {
        return Ok(text.to_owned());
    }
    let last = lines_for(text, module)?.pop();
    let is_whole = |number: u32| {
        let found = physical_lines(text).find(|(at, ..)| *at == number);
        found.is_some_and(|(_, line, joined)| !joined && !line.contains('\\'))
    };
    let set = Parameter { name: parameter.to_owned(), value: Some(value.to_owned()) };
    let Some((number, options)) = last.filter(|(number, _)| is_whole(*number)) else {
        let mut text = text.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if text.ends_with("\\\n") {
            text.push('\n');
        }
        text.push_str(&line(module, &[set]));
        return Ok(text);
    };
    let mut all: Vec<Parameter> = parameters(&options);
    match all.iter().rposition(|old| old.name == parameter) {
        Some(at) => all[at] = set,
        None => all.push(set),
    }
    let lines = physical_lines(text)
        .map(|(at, old, _)| if at == number { line(module, &all) } else { old.to_owned() });
    Ok(lines.collect())
}

/// The options for a module, each with the number of its first line.
fn lines_for(text: &str, module: &str) -> Result<Vec<(u32, String)>, String> {
    let name = module_name(module).ok_or_else(|| format!("invalid module name: '{module}'"))?;
    let own = |directive: Directive| match directive.command {
        Command::Options { module, options } if module == name => Some((directive.line, options)),
        _ => None,
    };
    Ok(parse_complete("the file of gdr", text)?.into_iter().filter_map(own).collect())
}

fn line(module: &str, parameters: &[Parameter]) -> String {
    let words: Vec<String> = parameters.iter().map(word).collect();
    format!("{}\n", written(&format!("options {module} {}", words.join(" "))))
}

/// Formats a parameter.
pub fn word(parameter: &Parameter) -> String {
    match &parameter.value {
        None => parameter.name.clone(),
        // The kernel has no quotes within quotes.
        Some(value) if value.contains('"') => format!("{}={value}", parameter.name),
        Some(value)
            if value.is_empty()
                || value.contains(|c: char| !(c.is_ascii_alphanumeric() || "-+._".contains(c))) =>
        {
            format!("{}=\"{value}\"", parameter.name)
        }
        Some(value) => format!("{}={value}", parameter.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &str, lines: &[u32]) -> Result<String, String> {
        let all = directives("a.conf", text).expect("few");
        let out: Vec<&Directive> = all.iter().filter(|found| lines.contains(&found.line)).collect();
        commented(text, &out)
    }

    #[test]
    fn comments_out_directives_only() {
        let text = "# by hand\r\n\tblacklist nvidia \noptions snd a=1\ninstall nvidia \\\n  /bin/false\nblacklist nouveau";
        assert_eq!(
            out(text, &[2, 4]).as_deref(),
            Ok(
                "# by hand\r\n# gdr: \tblacklist nvidia \noptions snd a=1\n# gdr: install nvidia \\\n# gdr:   /bin/false\nblacklist nouveau"
            )
        );
        assert_eq!(out("blacklist nvidia", &[1]).as_deref(), Ok("# gdr: blacklist nvidia"));
        // An escaped backslash does not join lines.
        assert_eq!(
            out("options nvidia A=x\\\\\nblacklist nvidia\n", &[1]).as_deref(),
            Ok("# gdr: options nvidia A=x\\\\\nblacklist nvidia\n")
        );
    }

    #[test]
    fn rejects_changed_or_reduced_file() {
        let directive = directives("a.conf", "blacklist nvidia\n").expect("few").remove(0);
        for text in ["", "\nblacklist nvidia\n"] {
            let changed = commented(text, &[&directive]);
            assert!(changed.is_err_and(|why| why.contains("a.conf line 1")), "{text}");
        }
        let recorded = commented("# gdr: line 1\nblacklist nvidia\n", &[&directive]);
        assert!(recorded.is_err_and(|why| why.contains("only partly in this snapshot")));
    }

    #[test]
    fn sets_parameter_in_last_line_of_module() {
        for (text, module, parameter, value, expected) in [
            ("", "nvidia", "A", "1", "options nvidia A=1\n"),
            ("# x", "nvidia", "A", "1;", "# x\noptions nvidia A=\"1;\"\n"),
            (
                "options nvidia A=1 B=\"x y\"\n# x\n",
                "nvidia",
                "A",
                "2",
                "options nvidia A=2 B=\"x y\"\n# x\n",
            ),
            (
                "options nvidia A=1\noptions nvidia-current A=1\n",
                "nvidia-current",
                "B",
                "2",
                "options nvidia A=1\noptions nvidia-current A=1 B=2\n",
            ),
            ("options nvidia A=1\n", "nvidia", "A", "1", "options nvidia A=1\n"),
            (
                "options nvidia A=1 \\\n B=2\n",
                "nvidia",
                "A",
                "2",
                "options nvidia A=1 \\\n B=2\noptions nvidia A=2\n",
            ),
            ("# open \\\n", "nvidia", "A", "1", "# open \\\n\noptions nvidia A=1\n"),
            ("", "nvidia", "A", "", "options nvidia A=\"\"\n"),
        ] {
            assert_eq!(
                with_value(text, module, parameter, value).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn last_value_counts() {
        let text = "options nvidia A=1\noptions nvidia_current A=2\noptions nvidia A=\"3 4\" B=1\n";
        assert_eq!(value_in(text, "nvidia", "A"), Ok(Some("3 4".to_owned())));
        assert_eq!(value_in(text, "nvidia-current", "A"), Ok(Some("2".to_owned())));
        assert_eq!(value_in(text, "nvidia", "C"), Ok(None));
    }
}
