//! The options that modprobe will pass at the next load, as values that the driver will show.

use std::collections::BTreeMap;

use super::registry_keys as keys;
use crate::check::{Ctx, Judgement};
use crate::kmod::{self, Config, Load, nvidia};
use crate::model::{Area, Command, Directive, Fact, Initramfs, Why};

/// Source of the directives, as shown to users.
pub const MODPROBE: &str = "/etc/modprobe.d and the directories after it";
/// Source of the words of the command line, as shown to users.
pub const COMMAND_LINE: &str = "/proc/cmdline";

/// The configuration from modprobe.d and the command line, or the judgement if it is unknown.
pub fn config<'a>(ctx: &'a Ctx<'_>, subject: &str) -> Result<Config<'a>, Box<Judgement>> {
    if let Some(inside) = in_a_container(ctx, subject) {
        return Err(Box::new(inside));
    }
    let modprobe = &ctx.facts.modprobe;
    let known = |fact: &'a Fact<Vec<Directive>>, area, source: &str| match fact {
        Fact::Known(directives) => Ok(directives),
        Fact::Unknown(why) => Err(Box::new(Judgement::unknown(subject, *why, area, source))),
    };
    let files = known(&modprobe.directives, Area::Modprobe, MODPROBE)?;
    Ok(Config::new(files.iter().chain(known(&modprobe.command_line, Area::Proc, COMMAND_LINE)?)))
}

/// The configuration from the modprobe.d of an image and the command line.
pub fn config_of<'a>(ctx: &'a Ctx<'_>, image: &'a Initramfs) -> Config<'a> {
    let words = ctx.facts.modprobe.command_line.known().into_iter().flatten();
    Config::new(image.directives.iter().chain(words))
}

/// The host loads the driver, so a container's modprobe.d does not matter.
fn in_a_container(ctx: &Ctx<'_>, subject: &str) -> Option<Judgement> {
    let marks = match &ctx.facts.platform.container_marks {
        Fact::Known(marks) => marks,
        // A directory that is laid out like a root has no process.
        Fact::Unknown(Why::NotCovered) => return None,
        Fact::Unknown(why) => {
            return Some(Judgement::unknown(subject, *why, Area::Proc, "/proc/self/ns"));
        }
    };
    let namespace = marks.iter().find(|mark| mark.starts_with("namespace "))?;
    let message = "unknown in a container: the host loads the driver, with its own modprobe.d";
    let judgement = Judgement::undetermined(subject, message).evidence("/proc/self/ns", namespace);
    Some(judgement.needs("gdr doctor on the host"))
}

/// A value that a load sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<'a> {
    /// As written, without quotes.
    pub text: String,
    pub from: &'a Directive,
}

/// The values that a load sets, by the names that the driver shows; the last value counts.
pub fn values<'a>(load: &Load<'a>) -> BTreeMap<String, Value<'a>> {
    let mut values = BTreeMap::new();
    for (name, text, from) in set(load) {
        if let Some(shown) = nvidia::shown_as(&name) {
            values.insert(shown.to_owned(), Value { text, from });
        }
    }
    // A registry key named like an option overrides it.
    if let Some(Value { text, from }) = values.get("RegistryDwords").cloned() {
        for (key, value) in keys::tokens(&text) {
            if nvidia::NAMES.contains(&key.as_str()) {
                let text = keys::number(&value).to_string();
                values.insert(key, Value { text, from });
            }
        }
    }
    values
}

/// Every parameter that a load sets to a value, in order.
pub fn set<'a>(load: &Load<'a>) -> Vec<(String, String, &'a Directive)> {
    let mut found = Vec::new();
    for from in &load.options {
        let Command::Options { options, .. } = &from.command else {
            continue;
        };
        for parameter in kmod::parameters(options) {
            found.push((parameter.name, parameter.value.unwrap_or_default(), *from));
        }
    }
    found
}

/// The last value and directive of each parameter, by the name that sets it.
pub fn last<'a>(load: &Load<'a>) -> BTreeMap<String, (String, &'a Directive)> {
    let set = set(load).into_iter();
    set.map(|(name, text, from)| (name, (text, from))).collect()
}

/// True if the driver treats two texts as equal: numbers by value, registry keys one by one.
pub fn same(name: &str, a: &str, b: &str) -> bool {
    match (kmod::unsigned(a), kmod::unsigned(b)) {
        (Some(a), Some(b)) => a == b,
        _ if name == "RegistryDwords" => keys::effect(a) == keys::effect(b),
        _ => a == b,
    }
}

/// File and line of a directive, as shown to users.
pub fn place(directive: &Directive) -> String {
    match directive.line {
        0 => directive.source.clone(),
        line => format!("{}:{line}", directive.source),
    }
}

pub fn unread(subject: &str, why: Why) -> Judgement {
    Judgement::unknown(subject, why, Area::Modprobe, "the initramfs of the running kernel")
}
