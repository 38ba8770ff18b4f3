//! Messages on standard error, in libgdsync's format. Debug messages only if `GDS_ENABLE_DEBUG` is a number other than 0.

use std::fmt::{Arguments, Write as _};

use crate::environment::environment;

/// Level of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    /// libgdsync's name.
    fn name(self) -> &'static str {
        match self {
            Self::Debug => "DBG  ",
            Self::Info => "INFO ",
            Self::Warning => "WARN ",
            Self::Error => "ERR  ",
        }
    }
}

/// Logs a message of a function.
pub(crate) fn write(level: Level, function: &str, message: Arguments<'_>) {
    if level == Level::Debug && !environment().debug {
        return;
    }
    let mut line = String::new();
    let pid = std::process::id();
    if writeln!(line, "[{pid}] GDS {} {function}() {message}", level.name()).is_ok() {
        gdr_sys::process::write_error(line.as_bytes());
    }
}
