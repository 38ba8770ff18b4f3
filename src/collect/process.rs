//! This process: limits, capabilities, namespaces.

use super::read::{self, malformed};
use crate::model::{Fact, Note, Process, Why};
use crate::world::Files;

pub fn process(files: &dyn Files, notes: &mut Vec<Note>) -> Process {
    let limits = read::text(files, "/proc/self/limits", notes);
    let (memlock_soft, memlock_hard) = match limits {
        Fact::Known(ref text) => match limit(text, "Max locked memory") {
            Some((soft, hard)) => (Fact::Known(soft), Fact::Known(hard)),
            None => {
                let source = "/proc/self/limits";
                (
                    malformed(notes, source, "no line 'Max locked memory' with two values"),
                    Fact::Unknown(Why::Broken),
                )
            }
        },
        Fact::Unknown(why) => (Fact::Unknown(why), Fact::Unknown(why)),
    };
    let status = read::kept(files, "/proc/self/status", identity_lines, notes);
    let field = |key: &str| {
        status.as_ref().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.map_or(Fact::Unknown(Why::Broken), |value| Fact::Known(value.trim().to_owned()))
        })
    };
    let parsed = |value: Option<u64>| value.map_or(Fact::Unknown(Why::Broken), Fact::Known);
    Process {
        memlock_soft,
        memlock_hard,
        open_files: limits.and_then(|text| match limit(&text, "Max open files") {
            Some((soft, _)) => Fact::Known(soft),
            None => Fact::Unknown(Why::Broken),
        }),
        capabilities: field("CapEff").and_then(|text| parsed(u64::from_str_radix(&text, 16).ok())),
        uid: field("Uid")
            .and_then(|text| {
                parsed(text.split_ascii_whitespace().nth(1).and_then(|uid| uid.parse().ok()))
            })
            .and_then(|uid| u32::try_from(uid).map_or(Fact::Unknown(Why::Broken), Fact::Known)),
        initial_user_namespace: read::text(files, "/proc/self/uid_map", notes)
            .map(|text| is_identity(&text)),
    }
}

/// The lines about identity; the others differ on every run.
fn identity_lines(status: &str) -> String {
    let is_relevant = |line: &&str| ["Uid:", "CapEff:"].iter().any(|key| line.starts_with(key));
    status.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// The soft and the hard limit of this name; `None` inside means unlimited.
fn limit(limits: &str, name: &str) -> Option<(Option<u64>, Option<u64>)> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let mut values = line.split_ascii_whitespace().map(|value| match value {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    Some((values.next()??, values.next()??))
}

/// The id map of the initial user namespace: 0 0 4294967295.
fn is_identity(map: &str) -> bool {
    let fields: Vec<_> = map.split_ascii_whitespace().collect();
    fields == ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_limit_of_locked_memory() {
        let line = |values: &str| {
            format!("Limit  Soft Limit\nMax locked memory         {values}  bytes\n")
        };
        let memlock = |text: &str| limit(text, "Max locked memory");
        assert_eq!(memlock(&line("8388608 unlimited")), Some((Some(8388608), None)));
        assert_eq!(memlock(&line("0 0")), Some((Some(0), Some(0))));
        assert_eq!(memlock("Max locked memory  many"), None);
        assert_eq!(memlock(""), None);
    }

    #[test]
    fn only_full_identity_map_is_initial_namespace() {
        assert!(is_identity("         0          0 4294967295\n"));
        assert!(!is_identity("         0       1000          1\n"));
        assert!(!is_identity("0 0 65536\n"));
    }
}
