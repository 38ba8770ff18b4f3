//! Messages on standard error, for those who ask for them: `GDRCOPY_ENABLE_LOGGING` (set to
//! anything) and `GDRCOPY_LOG_LEVEL`, as in gdrcopy. Read once, at the first message. No lock is
//! taken: a forked child could inherit it locked.

use std::fmt::{Arguments, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use process::SetOnce;

/// How much a message matters; the numbers are those of `GDRCOPY_LOG_LEVEL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug = 1,
    Info = 2,
    Warning = 3,
    Error = 4,
}

impl Level {
    /// What gdrcopy puts before a message of this level.
    fn prefix(self) -> &'static str {
        match self {
            Self::Debug => "DBG:  ",
            Self::Info => "INFO: ",
            Self::Warning => "WARN: ",
            Self::Error => "ERR:  ",
        }
    }
}

/// Says something, if somebody listens.
pub(crate) fn say(level: Level, message: Arguments<'_>) {
    if !listening(level) {
        return;
    }
    let mut line = String::new();
    if writeln!(line, "{}{message}", level.prefix()).is_ok() {
        process::write_error(line.as_bytes());
    }
}

/// Whether a message of `level` would be seen.
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

/// The number a text begins with, 0 if with none: what C's `atoi` makes of it.
fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let value =
        digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0_i64, |value, digit| {
                value
                    .saturating_mul(10)
                    .saturating_add(i64::from(digit - b'0'))
            });
    sign * value
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn levels_are_read_as_c_reads_them() {
        for (text, value) in [
            ("1", 1),
            (" 3x", 3),
            ("", 0),
            ("debug", 0),
            ("-2", -2),
            ("+4", 4),
        ] {
            assert_eq!(number(text.as_bytes()), value, "{text:?}");
        }
    }
}
