//! How a process ended: the number of a signal or an exit status.

use crate::model::FailureKind;

/// The signals that end a process by themselves, and those that follow from another failure or a request.
const SIGNALS: [(u32, &str, bool); 11] = [
    (1, "SIGHUP", false),
    (2, "SIGINT", false),
    (4, "SIGILL", true),
    (6, "SIGABRT", false),
    (7, "SIGBUS", true),
    (8, "SIGFPE", true),
    (9, "SIGKILL", true),
    (11, "SIGSEGV", true),
    (13, "SIGPIPE", false),
    (15, "SIGTERM", false),
    (24, "SIGXCPU", true),
];

/// What signals usually mean.
fn meaning(signal: u32) -> &'static str {
    match signal {
        7 => ": usually /dev/shm is full",
        9 => ": usually host memory ran out (see the kernel's log), or somebody ended it",
        11 => ": it crashed",
        _ => "",
    }
}

/// The kind of a failure, and its detail.
pub type End = (FailureKind, String);

pub fn by_signal(signal: u32) -> End {
    match SIGNALS.iter().find(|(number, ..)| *number == signal) {
        Some((_, name, true)) => {
            (FailureKind::Signal, format!("signal {signal} ({name}){}", meaning(signal)))
        }
        Some((_, name, false)) => (FailureKind::Exited, format!("signal {signal} ({name})")),
        None => (FailureKind::Exited, format!("signal {signal}")),
    }
}

/// The signal of a name: `SIGSEGV`.
pub fn by_name(name: &str) -> Option<End> {
    let (number, ..) = SIGNALS.iter().find(|(_, known, _)| *known == name)?;
    Some(by_signal(*number))
}

/// The signal of a shell's or a kernel's words: `Killed`, `Bus error`, `Segmentation fault`.
pub fn by_words(words: &str) -> Option<End> {
    let words = words.trim_start().to_ascii_lowercase();
    let signal = [
        ("killed", 9),
        ("bus error", 7),
        ("segmentation fault", 11),
        ("aborted", 6),
        ("terminated", 15),
        ("illegal instruction", 4),
        ("floating point exception", 8),
        ("interrupt", 2),
    ]
    .iter()
    .find(|(start, _)| words.starts_with(start))?
    .1;
    Some(by_signal(signal))
}

/// -9 of Python's subprocesses, 137 of a shell; `None` if the process ended well.
pub fn by_code(code: i64) -> Option<End> {
    match code {
        0 => None,
        -64..=-1 => Some(by_signal(code.unsigned_abs() as u32)),
        129..=192 => Some(by_signal((code - 128) as u32)),
        _ => Some((FailureKind::Exited, format!("exit status {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_processes() {
        for (code, expected) in [
            (0, None),
            (1, Some((FailureKind::Exited, "exit status 1"))),
            (-15, Some((FailureKind::Exited, "signal 15 (SIGTERM)"))),
            (139, Some((FailureKind::Signal, "signal 11 (SIGSEGV): it crashed"))),
            (i64::MIN, Some((FailureKind::Exited, "exit status -9223372036854775808"))),
        ] {
            assert_eq!(by_code(code), expected.map(|(kind, text)| (kind, text.to_owned())));
        }
        assert!(by_words("Killed").is_some_and(|(_, text)| text.starts_with("signal 9")));
        assert_eq!(by_words("done"), None);
    }
}
