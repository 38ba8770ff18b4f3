//! The terminal that sends signals for its keys.

use std::fs::File;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// True if keys such as Ctrl-C send their signals to the group of this process.
pub fn is_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}
