//! Messages on standard error, in libmp's format: debug messages with `MP_ENABLE_DEBUG`, no warnings with `MP_ENABLE_WARN=0`.

use std::fmt::{Arguments, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::environment::environment;

/// Level of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

/// The rank in messages, once it is known.
static RANK: AtomicU32 = AtomicU32::new(0);

pub(crate) fn set_rank(rank: u32) {
    RANK.store(rank, Ordering::Relaxed);
}

static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Drops all messages, for fuzzing.
#[doc(hidden)]
pub fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Logs a message of a function.
pub(crate) fn write(level: Level, function: &str, message: Arguments<'_>) {
    if IS_SILENT.load(Ordering::Relaxed) {
        return;
    }
    let (name, is_on) = match level {
        Level::Debug => ("DBG ", environment().debug),
        Level::Info => ("INFO", true),
        Level::Warning => ("WARN", environment().warn),
        Level::Error => ("ERR ", true),
    };
    let (mut line, pid, rank) = (String::new(), std::process::id(), RANK.load(Ordering::Relaxed));
    if is_on && writeln!(line, "[{pid}] [{rank}] MP {name} {function}() {message}").is_ok() {
        gdr_sys::process::write_error(line.as_bytes());
    }
}
