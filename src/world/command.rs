//! How a program of the machine is started: nothing of the caller's environment reaches it.

use std::path::Path;
use std::process::Command;

use super::tools::Tools;

/// A command of this program, with an environment of its own: PATH as a distribution has it, and the language C.
///
/// The caller's variables may name files that a program runs (`BASH_ENV`, `ENV`, `PERL5OPT`, `PYTHONPATH`), libraries that it loads
/// (`LD_PRELOAD`), options that it takes (`MODPROBE_OPTIONS`, `SYSTEMD_*`, `GREP_OPTIONS`) or where it looks (`PATH`, `HOME`). It
/// starts in the root directory: the caller's may hold configuration, too.
pub fn with_clean_environment(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", Tools::DIRECTORIES.join(":"))
        .env("LC_ALL", "C")
        .current_dir("/");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_nothing_of_the_caller() {
        assert!(std::env::vars_os().count() > 2, "cargo sets more than that");
        let said = with_clean_environment(Path::new("/usr/bin/env"))
            .output()
            .expect("env runs");
        let mut lines: Vec<&str> = std::str::from_utf8(&said.stdout)
            .expect("text")
            .lines()
            .collect();
        lines.sort_unstable();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(lines, ["LC_ALL=C", path]);
        let said = with_clean_environment(Path::new("/bin/pwd"))
            .output()
            .expect("pwd runs");
        assert_eq!(said.stdout, b"/\n");
    }
}
