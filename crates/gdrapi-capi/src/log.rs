//! Messages on standard error, enabled by `GDRCOPY_ENABLE_LOGGING` (any value) and
//! `GDRCOPY_LOG_LEVEL`, as in gdrcopy. Read once, at the first message. Without locks, because a
//! forked child could inherit a locked one.

use std::fmt::{Arguments, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use gdr_sys::process::SetOnce;

/// Message level, numbered like `GDRCOPY_LOG_LEVEL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug = 1,
    Info = 2,
    Warning = 3,
    Error = 4,
}

impl Level {
    /// gdrcopy's prefix for this level.
    fn prefix(self) -> &'static str {
        match self {
            Self::Debug => "DBG:  ",
            Self::Info => "INFO: ",
            Self::Warning => "WARN: ",
            Self::Error => "ERR:  ",
        }
    }
}

/// Prints a message if its level is enabled.
pub(crate) fn write(level: Level, message: Arguments<'_>) {
    if !listening(level) {
        return;
    }
    let mut line = String::new();
    if writeln!(line, "{}{message}", level.prefix()).is_ok() {
        gdr_sys::process::write_error(line.as_bytes());
    }
}

/// True if messages of `level` are printed.
pub(crate) fn listening(level: Level) -> bool {
    static THRESHOLD: SetOnce<Option<i64>> = SetOnce::new();
    THRESHOLD
        .get_or_set(|| {
            std::env::var_os("GDRCOPY_ENABLE_LOGGING")?;
            let level = std::env::var_os("GDRCOPY_LOG_LEVEL");
            Some(level.map_or(Level::Error as i64, |level| number(level.as_bytes())))
        })
        .is_some_and(|threshold| level as i64 >= threshold)
}

/// Number at the start of a text, else 0, like C's `atoi`.
fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let value =
        digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0_i64, |value, digit| {
            value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
        });
    sign * value
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn parses_levels_like_atoi() {
        for (text, value) in [("1", 1), (" 3x", 3), ("", 0), ("debug", 0), ("-2", -2), ("+4", 4)] {
            assert_eq!(number(text.as_bytes()), value, "{text:?}");
        }
    }
}
