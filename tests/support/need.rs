//! What a test needs from the machine it runs on, and what happens where that is missing.

use std::env;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Something a test cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// qemu-system-x86_64 in PATH.
    Qemu,
    /// User id 0.
    Root,
    /// bash with programmable completion.
    Bash,
    /// An NVIDIA GPU with its kernel driver.
    Gpu,
    /// The directory of recorded machines beside the repository.
    Shared,
    Lspci,
    /// lstopo-no-graphics of hwloc 2 in PATH.
    Lstopo,
    Prlimit,
    /// python3 in PATH.
    Python,
    /// The compiler and the make that build a module for Debian's kernel.
    KernelCompiler,
    /// A C compiler, cc.
    C,
    /// A C++ compiler, c++.
    Cxx,
    Binutils,
    /// The headers of libibverbs.
    VerbsHeaders,
    Promtool,
    JsonSchema,
    /// modprobe and depmod of kmod.
    Kmod,
    /// grub-mkconfig with Debian's scripts, and grub-script-check.
    Grub,
    /// cpio, gzip, xz, zstd and lz4.
    Packers,
    /// mmdebstrap, and mke2fs of e2fsprogs.
    Mmdebstrap,
    /// strace, which kills at a system call.
    Strace,
    /// systemctl, systemd-analyze and systemd-modules-load.
    Systemd,
    Udev,
    /// libibverbs and libmlx5.
    Mlx5,
    /// A mount namespace of one's own.
    Namespace,
    /// A home directory that only its user and root may write to, with all above it.
    SafeHome,
}

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Qemu => in_path("qemu-system-x86_64"),
            Self::Root => is_root(),
            Self::Bash => {
                let mut bash = std::process::Command::new("bash");
                let output = bash
                    .args(["--norc", "-c", "type complete compgen"])
                    .output();
                output.is_ok_and(|output| output.status.success())
            }
            Self::Gpu => Path::new("/dev/nvidiactl").exists() && Path::new("/dev/nvidia0").exists(),
            Self::Shared => shared().is_dir(),
            Self::Lspci => in_path("lspci"),
            Self::Lstopo => in_path("lstopo-no-graphics"),
            Self::Prlimit => in_path("prlimit"),
            Self::Python => in_path("python3"),
            Self::KernelCompiler => in_path("gcc-12") && in_path("make"),
            Self::C => in_path("cc"),
            Self::Cxx => in_path("c++"),
            Self::Binutils => in_path("nm") && in_path("readelf"),
            Self::VerbsHeaders => Path::new("/usr/include/infiniband/verbs.h").is_file(),
            Self::Promtool => in_path("promtool"),
            Self::JsonSchema => in_path("python3") && python_has("jsonschema"),
            Self::Kmod => in_path("modprobe") && in_path("depmod"),
            Self::Mmdebstrap => in_path("mmdebstrap") && Path::new("/sbin/mke2fs").exists(),
            Self::Strace => in_path("strace"),
            Self::Grub => {
                in_path("grub-mkconfig")
                    && in_path("grub-script-check")
                    && Path::new("/etc/grub.d/10_linux").exists()
            }
            Self::Packers => ["cpio", "gzip", "xz", "zstd", "lz4"]
                .into_iter()
                .all(in_path),
            Self::Systemd => {
                ["systemctl", "systemd-analyze"].into_iter().all(in_path)
                    && Path::new("/lib/systemd/systemd-modules-load").exists()
            }
            Self::Udev => in_path("udevadm"),
            Self::Mlx5 => ["libibverbs.so.1", "libmlx5.so.1"]
                .into_iter()
                .all(is_library),
            Self::SafeHome => safe_home().is_some(),
            Self::Namespace => {
                let mut unshare = std::process::Command::new("unshare");
                unshare.args(["-m", "true"]);
                unshare.output().is_ok_and(|output| output.status.success())
            }
        }
    }

    fn reason(self) -> String {
        match self {
            Self::Qemu => "qemu-system-x86_64 is not in PATH".to_owned(),
            Self::Root => "not root".to_owned(),
            Self::Bash => "bash is not in PATH, or completes nothing".to_owned(),
            Self::Gpu => "no NVIDIA GPU (/dev/nvidiactl, /dev/nvidia0)".to_owned(),
            Self::Shared => format!("{} is no directory", shared().display()),
            Self::Lspci => "lspci is not in PATH".to_owned(),
            Self::Lstopo => "lstopo-no-graphics is not in PATH (Debian's hwloc-nox)".to_owned(),
            Self::Prlimit => "prlimit is not in PATH".to_owned(),
            Self::Python => "python3 is not in PATH".to_owned(),
            Self::KernelCompiler => "gcc-12 or make is not in PATH".to_owned(),
            Self::C => "cc is not in PATH".to_owned(),
            Self::Cxx => "c++ is not in PATH".to_owned(),
            Self::Binutils => "nm or readelf is not in PATH".to_owned(),
            Self::VerbsHeaders => "no infiniband/verbs.h (Debian's libibverbs-dev)".to_owned(),
            Self::Promtool => "promtool is not in PATH (Debian's prometheus)".to_owned(),
            Self::JsonSchema => {
                "python3 has no jsonschema (Debian's python3-jsonschema)".to_owned()
            }
            Self::Kmod => "modprobe or depmod is not in PATH".to_owned(),
            Self::Mmdebstrap => {
                "mmdebstrap or mke2fs is not there (Debian's mmdebstrap and e2fsprogs)".to_owned()
            }
            Self::Strace => "strace is not in PATH".to_owned(),
            Self::Grub => {
                "grub-mkconfig or /etc/grub.d/10_linux is not there (Debian's grub-common)"
                    .to_owned()
            }
            Self::Packers => "cpio, gzip, xz, zstd or lz4 is not in PATH".to_owned(),
            Self::Systemd => "systemd's programs are not there (Debian's systemd)".to_owned(),
            Self::Udev => "udevadm is not in PATH (Debian's udev)".to_owned(),
            Self::Mlx5 => {
                "libibverbs.so.1 or libmlx5.so.1 is not installed (Debian's ibverbs-providers)"
                    .to_owned()
            }
            Self::SafeHome => {
                "others may write to the home directory, or to one above it".to_owned()
            }
            Self::Namespace => "unshare -m makes no mount namespace here".to_owned(),
        }
    }

    /// Whether continuous integration has it, so that its absence there is a fault.
    fn is_in_ci(self) -> bool {
        self != Self::Gpu
    }
}

/// Whether the test can run. Prints why not; panics where CI ought to have been able to.
#[must_use]
pub fn need(what: Need) -> bool {
    if what.is_met() {
        return true;
    }
    let reason = what.reason();
    assert!(
        !(what.is_in_ci() && env::var("CI").is_ok_and(|ci| ci == "true")),
        "CI must not skip this: {reason}"
    );
    // Past the test harness, which keeps what eprintln! says of a passing test to itself.
    let _ = writeln!(std::io::stderr(), "SKIP: {reason}");
    false
}

/// The directory of recorded machines: `../shared` beside the repository, or `GDR_SHARED` for a second
/// checkout that lies elsewhere.
pub fn shared() -> PathBuf {
    env::var_os("GDR_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    )
}

/// The home directory, where nobody but its user and root may write to it and to what is above it.
pub fn safe_home() -> Option<PathBuf> {
    let home = PathBuf::from(env::var_os("HOME")?).canonicalize().ok()?;
    // Whom a process's directory belongs to is its effective user (proc(5)).
    let user = std::fs::metadata("/proc/self").ok()?.uid();
    let is_safe = |part: &Path| {
        std::fs::metadata(part)
            .is_ok_and(|meta| [0, user].contains(&meta.uid()) && meta.mode() & 0o022 == 0)
    };
    home.ancestors().all(is_safe).then_some(home)
}

fn in_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Where the loader looks on Debian and on systems of RPMs.
fn is_library(name: &str) -> bool {
    let debian = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    [debian.as_str(), "/usr/lib64", "/usr/lib"]
        .iter()
        .any(|directory| Path::new(directory).join(name).exists())
}

fn python_has(module: &str) -> bool {
    let mut python = std::process::Command::new("python3");
    python.args(["-c", &format!("import {module}")]);
    python.output().is_ok_and(|output| output.status.success())
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .filter_map(|line| line.strip_prefix("Uid:"))
            .any(|ids| ids.split_whitespace().nth(1) == Some("0"))
    })
}
