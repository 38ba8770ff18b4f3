//! Changing a file of modprobe.d: a directive becomes a comment, and parameters are set in a file of our
//! own; everything else stays byte for byte.

use std::collections::BTreeSet;

use super::directive::{MARK, directives};
use super::line::{module_name, written};
use super::options::{Parameter, parameters};
use crate::model::{Command, Directive};

/// What stands before a line that gdr has taken out.
const OUT: &str = "# gdr: ";

/// The text with these directives as comments, each of its lines; an error in words where one of them is not there.
pub fn commented(text: &str, out: &[&Directive]) -> Result<String, String> {
    let source = out
        .first()
        .map_or("", |directive| directive.source.as_str());
    let there = whole(source, text)?;
    let mut starts = BTreeSet::new();
    for directive in out {
        if !there.contains(directive) {
            return Err(format!(
                "{} line {} does not hold what was read of it",
                directive.source, directive.line
            ));
        }
        starts.insert(directive.line);
    }
    let mut changed = String::with_capacity(text.len() + OUT.len() * starts.len());
    let mut within = false;
    for (number, line, continued) in physical(text) {
        within = (within && continued) || starts.contains(&number);
        if within {
            changed.push_str(OUT);
        }
        changed.push_str(line);
    }
    Ok(changed)
}

/// The directives of a text that is no part of a recorded file: such a part has not the lines of the file.
fn whole(source: &str, text: &str) -> Result<Vec<Directive>, String> {
    match text.lines().any(|line| line.starts_with(MARK)) {
        true => Err(format!(
            "{source} is recorded in part, and cannot be changed by it: run gdr on the machine itself"
        )),
        false => directives(source, text),
    }
}

/// The lines as they stand, with their ends: number, text, and whether the line before is joined with it.
fn physical(text: &str) -> impl Iterator<Item = (u32, &str, bool)> {
    let mut continued = false;
    text.split_inclusive('\n')
        .zip(1..)
        .map(move |(line, number)| {
            let joined = continued;
            // A backslash takes the meaning of the character after it, of another backslash too.
            let mut escaped = false;
            continued = false;
            for c in line.chars() {
                continued = escaped && c == '\n';
                escaped = !escaped && c == '\\';
            }
            (number, line, joined)
        })
}

/// The value that a text sets for a module's parameter, as it is written without quotes; the last one counts.
pub fn value_in(text: &str, module: &str, parameter: &str) -> Result<Option<String>, String> {
    let mut found = None;
    for (_, options) in lines_for(text, module)? {
        let own = parameters(&options)
            .into_iter()
            .rfind(|set| set.name == parameter);
        found = own.map(|set| set.value.unwrap_or_default()).or(found);
    }
    Ok(found)
}

/// The text with a parameter set for a module: in its last line for that module, else in a line of its own at the end.
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
        let found = physical(text).find(|(at, ..)| *at == number);
        found.is_some_and(|(_, line, joined)| !joined && !line.contains('\\'))
    };
    let set = Parameter {
        name: parameter.to_owned(),
        value: Some(value.to_owned()),
    };
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
    let lines = physical(text).map(|(at, old, _)| match at == number {
        true => line(module, &all),
        false => old.to_owned(),
    });
    Ok(lines.collect())
}

/// The options for a module in a text, in order, each with the number of its first line.
fn lines_for(text: &str, module: &str) -> Result<Vec<(u32, String)>, String> {
    let wanted = module_name(module).ok_or_else(|| format!("'{module}' is no name of a module"))?;
    let own = |directive: Directive| match directive.command {
        Command::Options { module, options } if module == wanted => Some((directive.line, options)),
        _ => None,
    };
    Ok(whole("the file of gdr", text)?
        .into_iter()
        .filter_map(own)
        .collect())
}

/// A line of options.
fn line(module: &str, parameters: &[Parameter]) -> String {
    let words: Vec<String> = parameters.iter().map(word).collect();
    format!(
        "{}\n",
        written(&format!("options {module} {}", words.join(" ")))
    )
}

/// A parameter as it is set.
pub fn word(parameter: &Parameter) -> String {
    match &parameter.value {
        None => parameter.name.clone(),
        // The kernel knows no quote within quotes.
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
        let out: Vec<&Directive> = all
            .iter()
            .filter(|found| lines.contains(&found.line))
            .collect();
        commented(text, &out)
    }

    #[test]
    fn a_directive_becomes_a_comment_and_the_rest_stays() {
        let text = "# by hand\r\n\tblacklist nvidia \noptions snd a=1\ninstall nvidia \\\n  /bin/false\nblacklist nouveau";
        assert_eq!(
            out(text, &[2, 4]).as_deref(),
            Ok(
                "# by hand\r\n# gdr: \tblacklist nvidia \noptions snd a=1\n# gdr: install nvidia \\\n# gdr:   /bin/false\nblacklist nouveau"
            )
        );
        assert_eq!(
            out("blacklist nvidia", &[1]).as_deref(),
            Ok("# gdr: blacklist nvidia")
        );
        // An escaped backslash joins nothing.
        assert_eq!(
            out("options nvidia A=x\\\\\nblacklist nvidia\n", &[1]).as_deref(),
            Ok("# gdr: options nvidia A=x\\\\\nblacklist nvidia\n")
        );
    }

    #[test]
    fn a_file_that_says_something_else_is_not_changed() {
        let directive = directives("a.conf", "blacklist nvidia\n")
            .expect("few")
            .remove(0);
        for text in ["", "\nblacklist nvidia\n"] {
            let changed = commented(text, &[&directive]);
            assert!(
                changed.is_err_and(|why| why.contains("a.conf line 1")),
                "{text}"
            );
        }
        let recorded = commented("# gdr: line 1\nblacklist nvidia\n", &[&directive]);
        assert!(recorded.is_err_and(|why| why.contains("recorded in part")));
    }

    #[test]
    fn a_parameter_is_set_in_the_last_line_for_the_module() {
        for (text, module, parameter, value, want) in [
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
            (
                "options nvidia A=1\n",
                "nvidia",
                "A",
                "1",
                "options nvidia A=1\n",
            ),
            (
                "options nvidia A=1 \\\n B=2\n",
                "nvidia",
                "A",
                "2",
                "options nvidia A=1 \\\n B=2\noptions nvidia A=2\n",
            ),
            (
                "# open \\\n",
                "nvidia",
                "A",
                "1",
                "# open \\\n\noptions nvidia A=1\n",
            ),
            ("", "nvidia", "A", "", "options nvidia A=\"\"\n"),
        ] {
            assert_eq!(
                with_value(text, module, parameter, value).as_deref(),
                Ok(want),
                "{text}"
            );
        }
    }

    #[test]
    fn the_last_value_of_a_text_counts() {
        let text = "options nvidia A=1\noptions nvidia_current A=2\noptions nvidia A=\"3 4\" B=1\n";
        assert_eq!(value_in(text, "nvidia", "A"), Ok(Some("3 4".to_owned())));
        assert_eq!(
            value_in(text, "nvidia-current", "A"),
            Ok(Some("2".to_owned()))
        );
        assert_eq!(value_in(text, "nvidia", "C"), Ok(None));
    }
}
