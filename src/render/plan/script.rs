//! A plan as a shell script: it looks before it writes as gdr does, and stops at the first surprise.

use super::{register, setpci, value};
use crate::model::{Action, AttributeWrite, Plan, PlannedCommand, Step};

const HEAD: &str = "#!/bin/sh
# What 'gdr fix' would do, without its journal: take it back by hand, or let gdr make it.
set -eu
stop() { echo \"stopped: $*\" >&2; exit 1; }
sha() { sha256sum \"$1\" | cut -d ' ' -f 1; }
";

/// The script.
pub fn script(plan: &Plan) -> String {
    let mut text = HEAD.to_owned();
    for repair in &plan.repairs {
        text.push_str(&format!("\n# {}: {}\n", comment(&repair.fix), comment(&repair.about)));
        if let Some(why) = &repair.refused {
            text.push_str(&format!("# not made: {}\n", comment(why)));
        }
        for warning in &repair.warnings {
            text.push_str(&format!("# mind: {}\n", comment(warning)));
        }
        for step in &repair.steps {
            text.push_str(&format!("\n# {}\n", comment(&step.about)));
            text.push_str(&commands(step));
        }
        for afterwards in &repair.afterwards {
            text.push_str(&format!("\n# then: {}\n", comment(afterwards)));
        }
    }
    text
}

fn commands(step: &Step) -> String {
    match &step.action {
        Action::WriteConfig(write) => {
            let (bdf, register) = (write.bdf, register(write));
            let read = format!("$(setpci -s {bdf} {register})");
            format!(
                "[ $((0x{read} & {mask:#x})) -eq $(({old:#x} & {mask:#x})) ] || stop {bdf} {register} no longer reads {is}\n\
                 {set}\n\
                 [ $((0x{read} & {mask:#x})) -eq $(({new:#x} & {mask:#x})) ] || stop {bdf} does not take it\n",
                mask = write.mask,
                old = write.old,
                new = write.new,
                is = value(write, write.old),
                set = setpci(write),
            )
        }
        Action::WriteFile(write) => {
            let path = quoted(write.path.as_str());
            let beside = quoted(&format!("{}.gdr-new", write.path));
            let directory = write
                .path
                .as_str()
                .rsplit_once('/')
                .map_or("/", |(directory, _)| directory);
            let (look, keep) = match &write.old {
                Some(old) => (
                    format!("[ ! -L {path} ] && [ \"$(sha {path})\" = {old} ] || stop {path} is not what it was\n"),
                    format!("cp -p {path} {beside}\n"),
                ),
                None => (
                    format!(
                        "[ ! -e {path} ] && [ ! -L {path} ] || stop {path} is there now\nmkdir -p {}\n",
                        quoted(directory)
                    ),
                    format!(": > {beside}\nchmod {:04o} {beside}\n", write.mode),
                ),
            };
            format!(
                "{look}{keep}printf %s {} > {beside}\nmv {beside} {path}\nsync\n",
                quoted(&write.content)
            )
        }
        Action::RemoveFile { path, old } => {
            let path = quoted(path.as_str());
            format!("[ ! -L {path} ] && [ \"$(sha {path})\" = {old} ] || stop {path} is not what it was\nrm {path}\n")
        }
        Action::WriteAttribute(AttributeWrite { path, old, new }) => {
            let path = quoted(path.as_str());
            format!(
                "[ \"$(cat {path})\" = {} ] || stop {path} is not what it was\necho {} > {path}\n",
                quoted(old),
                quoted(new)
            )
        }
        Action::RebuildImage(image) => {
            let (path, kept) = (quoted(image.path.as_str()), quoted(&image.kept()));
            format!(
                "cp -p {path} {kept}\n{}",
                step.command.as_ref().map(run).unwrap_or_default()
            )
        }
        Action::Run(_) => step.command.as_ref().map(run).unwrap_or_default(),
    }
}

fn run(command: &PlannedCommand) -> String {
    let line = line(command.argv.iter().map(String::as_str));
    match command.expected.as_slice() {
        [0] => format!("{line}\n"),
        codes => {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            let line = format!("code=0; {line} || code=$?\n");
            format!(
                "{line}case $code in {}) ;; *) stop it ended with $code ;; esac\n",
                codes.join("|")
            )
        }
    }
}

fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A text that stays on its line.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_whole() {
        for (word, text) in [
            ("modprobe", "modprobe"),
            (
                "--args=pci=disable_acs_redir=0000:02:00.0",
                "--args=pci=disable_acs_redir=0000:02:00.0",
            ),
            ("a b", "'a b'"),
            ("it's; $x", "'it'\\''s; $x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), text);
        }
        assert_eq!(comment("a\nrm -rf x"), "a rm -rf x");
    }
}
