//! Starts programs of the machine without the caller's environment.

use std::path::Path;
use std::process::Command;

/// The directories that contain programs, best first.
pub const DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// A command with a default PATH and the C locale, in the root directory.
///
/// The caller's variables could name files to run (`BASH_ENV`, `ENV`, `PERL5OPT`, `PYTHONPATH`), libraries
/// (`LD_PRELOAD`), options (`MODPROBE_OPTIONS`, `SYSTEMD_*`, `GREP_OPTIONS`) or search paths (`PATH`, `HOME`),
/// and its directory could contain configuration.
pub fn with_clean_environment(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", DIRECTORIES.join(":")).env("LC_ALL", "C").current_dir("/");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clears_caller_environment() {
        assert!(std::env::vars_os().count() > 2, "cargo sets more than that");
        let output = with_clean_environment(Path::new("/usr/bin/env")).output().expect("env runs");
        let mut lines: Vec<&str> =
            std::str::from_utf8(&output.stdout).expect("text").lines().collect();
        lines.sort_unstable();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(lines, ["LC_ALL=C", path]);
        let output = with_clean_environment(Path::new("/bin/pwd")).output().expect("pwd runs");
        assert_eq!(output.stdout, b"/\n");
    }
}
