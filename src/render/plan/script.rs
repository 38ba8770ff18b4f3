//! A plan as a shell script. Like gdr, it checks each old value before it writes, and stops at the first difference.

use super::{register, setpci, value};
use crate::model::{Action, AttributeWrite, Plan, PlannedCommand, Step};
use crate::output::{exact_word, print_exactly, printable};

const HEAD: &str = "#!/bin/sh
# What 'gdr fix' would do, without its journal: take it back by hand, or let gdr make it.
set -eu
stop() { echo \"stopped: $*\" >&2; exit 1; }
sha() { sha256sum \"$1\" | cut -d ' ' -f 1; }
";

/// Replaces a step with a name that contains hidden characters.
const HIDDEN: &str = "stop \"this step has a name with control characters: use gdr fix\"\n";

pub fn script(plan: &Plan) -> String {
    let mut text = HEAD.to_owned();
    for repair in &plan.repairs {
        text.push_str(&format!("\n# {}: {}\n", comment(&repair.fix), comment(&repair.about)));
        if let Some(why) = &repair.refused {
            text.push_str(&format!("# not made: {}\n", comment(why)));
        }
        for warning in &repair.warnings {
            text.push_str(&format!("# caution: {}\n", comment(warning)));
        }
        for unknown in &repair.unknown {
            text.push_str(&format!("# unknown: {}\n", comment(unknown)));
        }
        for step in &repair.steps {
            text.push_str(&format!("\n# {}\n", comment(&step.about)));
            text.push_str(commands(step).as_deref().unwrap_or(HIDDEN));
        }
        for afterwards in &repair.afterwards {
            text.push_str(&format!("\n# then: {}\n", comment(afterwards)));
        }
    }
    for left in &plan.left {
        text.push_str(&format!("\n# left: {}\n", comment(&super::left(left))));
    }
    for unknown in &plan.unknown {
        text.push_str(&format!("\n# unknown: {}\n", comment(unknown)));
    }
    text
}

fn commands(step: &Step) -> Option<String> {
    Some(match &step.action {
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
            let path = exact_word(write.path.as_str())?;
            let beside = exact_word(&format!("{}.gdr-new", write.path))?;
            let directory =
                write.path.as_str().rsplit_once('/').map_or("/", |(directory, _)| directory);
            let (look, keep) = match &write.old {
                Some(old) => (
                    format!(
                        "[ ! -L {path} ] && [ \"$(sha {path})\" = {old} ] || stop {path} has changed\n"
                    ),
                    format!("cp -p {path} {beside}\n"),
                ),
                None => (
                    format!(
                        "[ ! -e {path} ] && [ ! -L {path} ] || stop {path} exists now\nmkdir -p {}\n",
                        exact_word(directory)?
                    ),
                    format!(": > {beside}\nchmod {:04o} {beside}\n", write.mode),
                ),
            };
            format!(
                "{look}{keep}{} > {beside}\nmv {beside} {path}\nsync\n",
                print_exactly(&write.content)
            )
        }
        Action::RemoveFile { path, old } => {
            let path = exact_word(path.as_str())?;
            format!(
                "[ ! -L {path} ] && [ \"$(sha {path})\" = {old} ] || stop {path} has changed\nrm {path}\n"
            )
        }
        Action::WriteAttribute(AttributeWrite { path, old, new }) => {
            let path = exact_word(path.as_str())?;
            format!(
                "[ \"$(cat {path})\" = {} ] || stop {path} has changed\necho {} > {path}\n",
                exact_word(old)?,
                exact_word(new)?
            )
        }
        Action::RebuildImage(image) => {
            let (path, kept) = (exact_word(image.path.as_str())?, exact_word(&image.kept())?);
            format!("cp -p {path} {kept}\n{}", run(step.command.as_ref())?)
        }
        Action::Run(_) => run(step.command.as_ref())?,
    })
}

/// None if the step has no command.
fn run(command: Option<&PlannedCommand>) -> Option<String> {
    let Some(command) = command else {
        return Some(String::new());
    };
    let line = line(command.argv.iter().map(String::as_str))?;
    Some(match command.expected.as_slice() {
        [0] => format!("{line}\n"),
        codes => {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            let line = format!("code=0; {line} || code=$?\n");
            format!(
                "{line}case $code in {}) ;; *) stop exit status $code ;; esac\n",
                codes.join("|")
            )
        }
    })
}

fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let words: Option<Vec<String>> = words.into_iter().map(exact_word).collect();
    Some(words?.join(" "))
}

/// Makes a text safe for a comment line.
fn comment(text: &str) -> String {
    printable(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_has_one_line() {
        assert_eq!(comment("a\nrm -rf x\u{202e}"), "a?rm -rf x?");
    }
}
