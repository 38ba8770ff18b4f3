//! Runs the built binary in an environment that does not depend on who runs the tests.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What one run of gdr left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Standard output; a byte that is no UTF-8 is shown as U+FFFD.
    pub stdout: String,
    pub stderr: String,
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
}

/// The memory that gdr keeps within for inputs of at most 8 MiB.
pub const MEMORY: u64 = 256 << 20;

/// Runs gdr with these arguments.
pub fn gdr(args: &[&str]) -> Run {
    Gdr::new().args(args).run()
}

/// One run of gdr to be.
pub struct Gdr {
    command: Command,
}

impl Gdr {
    /// The built binary. Only PATH, HOME and the coverage tool's file name pass from the caller's environment:
    /// LD_LIBRARY_PATH would bring in libraries of the machine, CI would change what gdr prints.
    pub fn new() -> Self {
        Self::of(Path::new(env!("CARGO_BIN_EXE_gdr")))
    }

    /// The same of a copy of the binary.
    pub fn of(binary: &Path) -> Self {
        Self::started_by(Command::new(binary))
    }

    /// The same with no more than so many bytes of address space, which the kernel enforces.
    pub fn within(bytes: u64) -> Self {
        let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", bytes >> 10);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_gdr")]);
        Self::started_by(shell)
    }

    fn started_by(mut command: Command) -> Self {
        command.env_clear().env("TERM", "dumb").stdin(Stdio::null());
        // What two runs print is compared: the time in it is the same.
        command.env("SOURCE_DATE_EPOCH", "1700000000");
        for name in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Self { command }
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds `--sysroot DIR`.
    pub fn sysroot(self, dir: &Path) -> Self {
        self.args([OsStr::new("--sysroot"), dir.as_os_str()])
    }

    /// Sets one environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it a file as its standard input.
    pub fn stdin(mut self, file: &Path) -> Self {
        self.command.stdin(File::open(file).expect("a file"));
        self
    }

    /// The command, for a test that talks to it while it runs.
    pub fn command(self) -> Command {
        self.command
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Run {
        let output = self.command.output().expect("the built gdr starts");
        Run {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

/// That a run ended with this code; what it printed, where it did not.
pub fn ended(run: &Run, code: i32) {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
}

/// A copy of gdr in the home directory. A systemd unit may only run a binary that no other user can change.
pub struct SafeBinary {
    _dir: TempDir,
    pub path: PathBuf,
}

impl SafeBinary {
    pub fn new() -> Self {
        let home = std::env::var_os("HOME").expect("HOME is set");
        let dir = tempfile::tempdir_in(home).expect("a directory in HOME");
        let path = dir.path().join("gdr");
        std::fs::copy(env!("CARGO_BIN_EXE_gdr"), &path).expect("a copy of gdr");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .expect("permissions");
        Self { _dir: dir, path }
    }
}
