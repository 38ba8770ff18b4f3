//! Runs the built binary in a fixed environment.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

/// Output and exit code of one run of gdr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Invalid UTF-8 becomes U+FFFD.
    pub stdout: String,
    pub stderr: String,
    /// Exit code; -1 after a signal.
    pub code: i32,
}

impl Run {
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
    }

    #[track_caller]
    pub fn assert_stdout(&self, words: impl AsRef<str>) {
        assert!(self.stdout.contains(words.as_ref()), "{}", self.stdout);
    }

    #[track_caller]
    pub fn assert_stderr(&self, words: impl AsRef<str>) {
        assert!(self.stderr.contains(words.as_ref()), "{}", self.stderr);
    }
}

/// The memory limit of gdr for inputs of at most 8 MiB, in bytes.
pub const MEMORY: u64 = 256 << 20;

/// The memory limit of gdr for inputs that are larger, or unpack to more, up to 64 MiB.
pub const MEMORY_UNPACKED: u64 = 512 << 20;

/// Runs gdr with these arguments.
pub fn gdr(args: &[&str]) -> Run {
    Gdr::new().args(args).run()
}

/// Builder of one run of gdr.
pub struct Gdr {
    command: Command,
}

impl Gdr {
    /// The built binary. Only PATH, HOME and the coverage tool's file name pass from the caller's environment, because
    /// LD_LIBRARY_PATH selects other libraries and CI changes the output. GDR_TEST_PROGRAM names another program, such as one that
    /// starts gdr in an emulator.
    pub fn new() -> Self {
        match std::env::var_os("GDR_TEST_PROGRAM") {
            Some(program) => Self::of(Path::new(&program)),
            None => Self::of(Path::new(env!("CARGO_BIN_EXE_gdr"))),
        }
    }

    /// A copy of the binary.
    pub fn of(binary: &Path) -> Self {
        Self::from_command(Command::new(binary))
    }

    /// The built binary, or that of GDR_TEST_PROGRAM, with a limit on its address space, in bytes.
    pub fn within(bytes: u64) -> Self {
        let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", bytes >> 10);
        let program = std::env::var_os("GDR_TEST_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_gdr").into());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).arg(program);
        Self::from_command(shell)
    }

    /// The built binary in a mount namespace of its own, with this directory as its `/sys`. Needs root.
    pub fn with_sys(sys: &Path) -> Self {
        let script = "mount --bind \"$0\" /sys && exec \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script]).arg(sys);
        unshare.arg(env!("CARGO_BIN_EXE_gdr"));
        Self::from_command(unshare)
    }

    fn from_command(mut command: Command) -> Self {
        command.env_clear().env("TERM", "dumb").stdin(Stdio::null());
        // Tests compare outputs, which contain the time.
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

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Reads standard input from a file.
    pub fn stdin(mut self, file: &Path) -> Self {
        self.command.stdin(File::open(file).expect("a file"));
        self
    }

    /// The command, for tests that need the running process.
    pub fn command(self) -> Command {
        self.command
    }

    pub fn run(mut self) -> Run {
        let output = self.command.output().expect("the built gdr starts");
        Run {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

/// A port that nobody listens on, outside the range that the kernel gives out, so it stays free until the test listens.
pub fn free_port() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id() % 10_000) as u16;
    let mut candidates =
        std::iter::repeat_with(|| 20_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.find(is_free).expect("a port").to_string()
}

/// A copy of gdr in the home directory: a systemd unit may only run a binary that no other user can change.
pub struct SafeBinary {
    _dir: TempDir,
    pub path: PathBuf,
}

impl SafeBinary {
    pub fn new() -> Self {
        let home = std::env::var_os("HOME").expect("HOME is set");
        let dir = tempfile::tempdir_in(home).expect("a directory in HOME");
        let path = dir.path().join("gdr");
        copy_gdr(&path);
        Self { _dir: dir, path }
    }
}

/// Copies gdr with `cp`. If this process had the copy open for writing, programs that other threads start at that time would inherit
/// the file, and Linux refuses to run a program that is open for writing.
pub fn copy_gdr(to: &Path) {
    let gdr = env!("CARGO_BIN_EXE_gdr");
    let copied = Command::new("cp").arg(gdr).arg(to).status().expect("cp");
    assert!(copied.success(), "{gdr} to {}", to.display());
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).expect("permissions");
}
