//! A progress bar on a terminal; nothing elsewhere.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::printable;

/// A progress bar. It bypasses the filtered writers, so it makes its texts printable.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        Self(
            match ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {wide_msg}") {
                Ok(style) => bar.with_style(style),
                // A bad template is not worth an error.
                Err(_) => bar,
            },
        )
    }

    pub fn show(&self, subject: &str, message: &str, done: u64, of: u64) {
        self.0.set_prefix(printable(subject));
        self.0.set_length(of);
        self.0.set_position(done);
        self.0.set_message(printable(message));
    }

    /// Hides the bar while something else is written.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
