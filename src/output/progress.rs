//! A progress bar on a terminal; nothing elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::printable;

/// Cells of the bar.
const BAR: usize = 24;

/// Width if the terminal does not report one.
const WIDTH: usize = 80;

/// Between two drawings: more often is only work for the terminal.
const PAUSE: Duration = Duration::from_millis(50);

/// A progress bar. It bypasses the filtered writers, so it makes its texts printable.
pub struct Progress {
    terminal: bool,
    line: String,
    drawn: Option<Instant>,
}

impl Progress {
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            terminal: std::io::stderr().is_terminal() && !dumb,
            line: String::new(),
            drawn: None,
        }
    }

    pub fn show(&mut self, subject: &str, message: &str, done: u64, of: u64) {
        if self.terminal {
            self.line = line(subject, message, done, of, width());
            if self.drawn.is_none_or(|at| at.elapsed() >= PAUSE) {
                self.draw();
            }
        }
    }

    /// Hides the bar while something else is written.
    pub fn suspend(&mut self, write: impl FnOnce()) {
        self.erase();
        write();
        if !self.line.is_empty() {
            self.draw();
        }
    }

    /// Removes the bar.
    pub fn clear(&mut self) {
        self.erase();
        self.line.clear();
    }

    fn draw(&mut self) {
        put(&format!("\r{}\x1b[K", self.line));
        self.drawn = Some(Instant::now());
    }

    fn erase(&mut self) {
        if self.drawn.take().is_some() {
            put("\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn put(text: &str) {
    // A bar that cannot be drawn is not worth an error.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// Subject, bar, numbers, and as much of the message as fits. The last column stays empty: some terminals wrap there.
fn line(subject: &str, message: &str, done: u64, of: u64, width: usize) -> String {
    let cells = u128::from(done.min(of)) * BAR as u128 / u128::from(of.max(1));
    let full = usize::try_from(cells).unwrap_or(BAR);
    let (full, empty) = ("█".repeat(full), "░".repeat(BAR - full));
    let text = printable(&format!("{subject} {full}{empty} {done}/{of} {message}"));
    let mut used = 0;
    text.chars()
        .take_while(|c| {
            // East Asian characters, which start there, may take two columns; the bar's are narrow.
            used += if *c >= '\u{2e80}' { 2 } else { 1 };
            used < width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_share_that_is_done() {
        assert_eq!(line("GPU 0", "copies", 1, 4, 80), "GPU 0 ██████░░░░░░░░░░░░░░░░░░ 1/4 copies");
        assert_eq!(line("GPU 0", "", 9, 4, 80), "GPU 0 ████████████████████████ 9/4 ");
        assert_eq!(line("GPU 0", "", 0, 0, 80), "GPU 0 ░░░░░░░░░░░░░░░░░░░░░░░░ 0/0 ");
        let most = line("", "", u64::MAX, u64::MAX, 30);
        assert_eq!(most, " ████████████████████████ 184");
    }

    #[test]
    fn a_line_is_narrower_than_the_terminal_and_controls_nothing() {
        assert_eq!(line("GPU 0", "copies", 1, 4, 10), "GPU 0 ███");
        assert_eq!(line("漢字漢字", "", 0, 1, 6), "漢字");
        assert_eq!(line("a\x1b[2J\n", "", 0, 1, 8), "a?[2J? ");
        assert_eq!(line("GPU 0", "", 0, 1, 0), "");
    }
}
