//! Messages on standard error, in the form that libgdsync has: errors, warnings and what was asked for always, the rest where
//! `GDS_ENABLE_DEBUG` is a number other than 0.

use std::fmt::{Arguments, Write as _};

use crate::environment::environment;

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    /// What libgdsync calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Debug => "DBG  ",
            Self::Info => "INFO ",
            Self::Warning => "WARN ",
            Self::Error => "ERR  ",
        }
    }
}

/// Says something of a function, if it is to be heard.
pub(crate) fn say(level: Level, function: &str, message: Arguments<'_>) {
    if level == Level::Debug && !environment().debug {
        return;
    }
    let mut line = String::new();
    let pid = std::process::id();
    if writeln!(line, "[{pid}] GDS {} {function}() {message}", level.name()).is_ok() {
        process::write_error(line.as_bytes());
    }
}
