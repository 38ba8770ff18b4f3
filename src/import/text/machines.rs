//! The machines that a text shows: names in prompts, headings and the prefixes of pdsh. Parts of several are never read as one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::begun;
use crate::import::{find, lspci};

/// Limit of names that are counted.
const MOST: usize = 4096;

/// Names of machines, and where what they show begins.
#[derive(Default)]
pub struct Machines {
    shown: BTreeSet<String>,
    /// The machine and the first line of each part that one shows.
    parts: Vec<(String, usize)>,
}

impl Machines {
    /// A machine shows something that is read, on this line.
    pub fn shows(&mut self, machine: &str, line: usize) {
        if self.parts.len() < MOST && self.parts.last().is_none_or(|(last, _)| last != machine) {
            self.shown.insert(machine.to_owned());
            self.parts.push((machine.to_owned(), line));
        }
    }

    /// Says that there are several, and how to read one.
    pub fn several(&self) -> Option<String> {
        if self.shown.len() < 2 {
            return None;
        }
        if self.parts.windows(2).any(|pair| pair[0].1 == pair[1].1) {
            let named: Vec<String> =
                self.shown.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
            return Some(format!(
                "shows several machines on one line of the file: {}; give what one of them shows",
                super::and(&named)
            ));
        }
        let mut left = self.shown.clone();
        let (mut named, mut commands) = (Vec::new(), Vec::new());
        for (at, (name, line)) in self.parts.iter().enumerate() {
            if !left.remove(name) {
                continue;
            }
            if named.len() == NAMED {
                named.push(format!("{} more", left.len() + 1));
                break;
            }
            named.push(format!("'{name}' from line {line}"));
            let next = self.parts.get(at + 1).map(|(_, next)| *next);
            commands.push(format!("{} ('{name}')", command(*line, next)));
        }
        Some(format!(
            "shows several machines: {}; give what one of them shows: {}",
            super::and(&named),
            commands.join(", ")
        ))
    }
}

/// Machines that a message names.
const NAMED: usize = 8;

/// Reads the lines from one up to that where another machine's begin.
fn command(from: usize, next: Option<usize>) -> String {
    match next {
        Some(next) => {
            format!("'sed -n {from},{}p FILE | gdr doctor --from -'", next.max(from + 1) - 1)
        }
        None => format!("'tail -n +{from} FILE | gdr doctor --from -'"),
    }
}

/// How to read one of two machines, whose parts begin on these lines.
pub fn one_of(a: usize, b: usize) -> String {
    let (first, second) = (a.min(b), a.max(b));
    if first == second {
        return "both stand on that line of the file".to_owned();
    }
    format!("{} or {}", command(first, Some(second)), command(second, None))
}

/// Says that each line stands behind the name of a machine, and how to read one.
pub fn prefixed(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = names.first().copied().unwrap_or_default();
    let lines = if first.starts_with('[') {
        format!("grep -F {first:?}")
    } else {
        format!("grep ^{first}:")
    };
    format!(
        "shows {} machines, each line behind the name of one: {}; give the lines of one, for example '{lines} FILE | gdr \
         doctor --from -'",
        names.len(),
        list(&names)
    )
}

/// Says that lines are of several machines, and how to read those of one.
pub fn launched(names: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    let first = names.first().copied().unwrap_or_default();
    format!(
        "shows several machines, by lines that programs print on {}: {}; give the lines of one, for example 'grep -w {first} FILE | \
         gdr doctor --from -'",
        names.len(),
        list(&names)
    )
}

/// `'node1', 'node2' and 3 more`.
pub fn list(names: &[&str]) -> String {
    let mut named: Vec<String> = names.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
    if names.len() > NAMED {
        named.push(format!("{} more", names.len() - NAMED));
    }
    super::and(&named)
}

/// The name that a command line is typed on: `user@host:~$`, `[user@host ~]#`, `(env) user@host:~$`.
pub fn of_prompt(prompt: &str) -> Option<String> {
    let (user, rest) = prompt.rsplit_once('@')?;
    let user = match user.split_once(") ") {
        Some((environment, user)) if environment.starts_with('(') => user,
        _ => user,
    };
    // An address in a command line: `git clone git@github.com:… # words`.
    if user.contains(' ') || user == "git" {
        return None;
    }
    let name = rest.split([':', ' ', ']', ')', '/', '~']).next()?;
    machine(name)
}

/// The machine of this name; none for a container's, which may run on any of them.
pub fn machine(name: &str) -> Option<String> {
    let name = name.split('.').next()?.to_ascii_lowercase();
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (is_name && name != "localhost" && !is_container(&name)).then_some(name)
}

/// Docker names a container by its id, Kubernetes a pod by its deployment and two generated words.
fn is_container(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let generated = |text: &str, lengths: Range<usize>| {
        lengths.contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() == 12 && is_hex(name) {
        return true;
    }
    let mut parts = name.rsplit('-');
    let last = parts.next().is_some_and(|part| generated(part, 5..6));
    last && parts
        .next()
        .is_some_and(|part| generated(part, 7..11) && part.contains(char::is_numeric))
        && parts.next().is_some()
}

/// The names before the lines of a text by pdsh, clush or `kubectl logs --prefix`: `node1: …` on nearly all lines.
pub fn prefixes(bytes: &[u8]) -> Vec<String> {
    #[derive(Default)]
    struct Prefix {
        lines: usize,
        begins: bool,
    }
    let lines = find::lines(bytes);
    let lines = lines.filter_map(|raw| str::from_utf8(&raw[..raw.len().min(1024)]).ok());
    let lines = lines.map(str::trim_end);
    let (mut count, mut prefixed) = (0, Vec::new());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("```")) {
        count += 1;
        prefixed.extend(prefix(line).map(|parts| (line, parts)));
    }
    // Words of the person who asks stand around.
    if prefixed.len() * 2 < count {
        return Vec::new();
    }
    let mut found: BTreeMap<&str, Prefix> = BTreeMap::new();
    for (line, (name, rest)) in prefixed {
        if begun(line).is_some() {
            // A line that a program prints so: `NVRM: …`.
            return Vec::new();
        }
        if found.len() < MOST || found.contains_key(name) {
            let of_name = found.entry(name).or_default();
            of_name.lines += 1;
            of_name.begins = of_name.begins || begun(rest.trim()).is_some();
        }
    }
    let mut series: BTreeMap<&str, usize> = BTreeMap::new();
    for name in found.iter().filter(|(_, prefix)| prefix.begins).map(|(name, _)| stem(name)) {
        *series.entry(name).or_default() += 1;
    }
    // One line may be all that a program prints on a machine.
    let is_named = |(name, prefix): &(&str, Prefix)| {
        let of_series = series.get(stem(name)).filter(|_| !stem(name).is_empty());
        prefix.begins && (prefix.lines > 1 || of_series.is_some_and(|of| *of > 1))
    };
    found.into_iter().filter(is_named).map(|(name, _)| name.to_owned()).collect()
}

/// A name without its number; empty if it has none, and for a device.
fn stem(name: &str) -> &str {
    const DEVICES: [&str; 8] = ["gpu", "nic", "cuda", "rank", "device", "card", "pci", "eth"];
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_device = DEVICES.iter().any(|device| stem.eq_ignore_ascii_case(device));
    if is_device || stem.len() == name.len() { "" } else { stem }
}

/// The line behind a prefix.
pub fn without<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    prefix(line).filter(|(own, _)| *own == name).map(|(_, rest)| rest)
}

fn prefix(line: &str) -> Option<(&str, &str)> {
    // Fabric prints `[node1] out: …`.
    if let Some((name, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] out:")) {
        let own = &line[..name.len() + 2];
        return machine(name).map(|_| (own, rest.strip_prefix(' ').unwrap_or(rest)));
    }
    // The registers of lspci: `10: 0c 00 f0 c7`.
    if !line.starts_with(|c: char| c.is_ascii_alphanumeric()) || lspci::is_bytes(line) {
        return None;
    }
    let (name, rest) = line.split_once(':')?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b' ');
    let is_name = !name.is_empty()
        && name.len() <= 64
        && !(name.len() <= 3 && is_hex(name) && is_hex(rest))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    match rest.strip_prefix(' ') {
        Some(rest) if is_name => Some((name, rest)),
        // The end of an empty line.
        None if is_name && rest.is_empty() => Some((name, rest)),
        _ => None,
    }
}
