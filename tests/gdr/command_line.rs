//! What gdr answers to a command line with a mistake in it, and whether every page fits its terminal.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Gdr, Machine, Run, gdr, names, scratch};

fn rejected(args: &[&str], words: &[&str]) {
    let run = gdr(args);
    run.assert_code(2);
    assert_eq!(run.stdout, "", "{args:?}");
    for word in words {
        assert!(run.stderr.contains(word), "{args:?}: no {word:?} in {}", run.stderr);
    }
}

#[test]
fn unknown_name_suggests_nearest() {
    rejected(&["doctor", "--only", "pcie.asc"], &["'pcie.asc'", "did you mean 'pcie.acs'?"]);
    rejected(&["doctor", "--skip", "pci"], &["'pci'", "did you mean 'pcie'?"]);
    rejected(&["doctor", "--profile", "rmda"], &["'rmda'", "did you mean 'rdma'?"]);
    rejected(&["fix", "memlok"], &["'memlok'", "did you mean 'memlock'?"]);
    rejected(&["explain", "pcie.asc"], &["'pcie.asc'", "did you mean 'pcie.acs'?"]);
    let dir = scratch();
    let profile = dir.path().join("own.toml");
    fs::write(&profile, "name = 'own'\nabout = 'x'\n[checks]\n'gpu.presnt' = {}\n")
        .expect("a profile");
    let profile = profile.to_str().expect("a path");
    rejected(&["doctor", "--profile", profile], &["'gpu.presnt'", "did you mean 'gpu.present'?"]);
}

#[test]
fn rejects_empty_selection() {
    rejected(&["doctor", "--only", "pcie", "--skip", "pcie"], &["no check is left to run"]);
}

#[test]
fn missing_log_is_an_error() {
    for path in ["nccl.log", "logs/nccl", "/no/such/dmesg.txt", "out.gz"] {
        rejected(&["explain", path], &[path, "does not exist", "gdr explain -"]);
    }
    // One word that is neither a path nor of a family of checks is a message.
    for word in ["ibv_reg_mr_iova2", "mlx5.error"] {
        let run = gdr(&["explain", "--no-run", word]);
        assert!(run.code < 2, "{}", run.stderr);
    }
}

#[test]
fn rejects_directory_without_sysfs() {
    let dir = scratch();
    let root = dir.path().to_str().expect("a path");
    for command in ["doctor", "topo", "fix", "undo", "snapshot"] {
        let args: &[&str] = match command {
            "snapshot" => &[command, "-o", "-", "--sysroot", root],
            _ => &[command, "--sysroot", root],
        };
        rejected(args, &[root, "neither sys/ nor proc/"]);
    }
    fs::create_dir(dir.path().join("proc")).expect("a directory");
    gdr(&["undo", "--list", "--sysroot", root]).assert_code(0);
}

#[test]
fn reports_truncated_snapshot() {
    let dir = scratch();
    let machine = Machine::load("sound").laid_out();
    let whole = dir.path().join("whole.zst");
    let taken = Gdr::new().sysroot(machine.path()).args(["snapshot", "-o"]).args([&whole]).run();
    taken.assert_code(0);
    let bytes = fs::read(&whole).expect("a snapshot");
    let file = dir.path().join("part.zst");
    for length in [4, 6, 8, 20, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).expect("a part of it");
        let run = gdr(&["topo", "--from", file.to_str().expect("a path")]);
        run.assert_code(2);
        let wanted = format!(
            "gdr: --from {}: the Zstandard data ends too early: the file is truncated\n",
            file.display()
        );
        assert_eq!(run.stderr, wanted, "{length} bytes");
    }
    let mut corrupt = bytes.clone();
    for byte in &mut corrupt[10..40] {
        *byte = 0xff;
    }
    fs::write(&file, corrupt).expect("a file");
    let run = gdr(&["topo", "--from", file.to_str().expect("a path")]);
    run.assert_code(2);
    assert!(run.stderr.ends_with(": the Zstandard data is corrupt\n"), "{}", run.stderr);
}

#[test]
fn undo_without_journal_changes_nothing() {
    let dir = scratch();
    fs::create_dir(dir.path().join("proc")).expect("a directory");
    let root = dir.path().to_str().expect("a path");
    for args in [&["undo"][..], &["undo", "--yes"], &["undo", "-y", "3"], &["undo", "--list"]] {
        let run = gdr(&[args, &["--sysroot", root]].concat());
        run.assert_code(if args.contains(&"--list") { 0 } else { 2 });
        let names: Vec<_> = fs::read_dir(dir.path())
            .expect("a directory")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, ["proc"], "{args:?}");
    }
    rejected(&["undo", "--yes", "--list"], &["cannot be used with"]);
}

/// The answer of a user without rights.
fn as_nobody(args: &[&str]) -> Run {
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its permissions");
    let binary = dir.path().join("gdr");
    // By another process: a file that is open for writing in a child forked meanwhile cannot be started.
    let copied =
        Command::new("cp").args([env!("CARGO_BIN_EXE_gdr").as_ref(), binary.as_os_str()]).status();
    assert!(copied.expect("cp").success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).args(args);
    let output = command.stdin(Stdio::null()).output().expect("setpriv comes with util-linux");
    Run {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

#[test]
#[ignore = "needs root"]
fn ordinary_user_sees_one_root_hint() {
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its permissions");
    fs::create_dir_all(dir.path().join("proc")).expect("a directory");
    let state = dir.path().join("var/lib/gdr");
    fs::create_dir_all(&state).expect("a directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("its permissions");
    let root = dir.path().to_str().expect("a path");
    let run = as_nobody(&["undo", "--sysroot", root]);
    run.assert_code(2);
    assert_eq!(
        run.stderr,
        "gdr: cannot open /var/lib/gdr: Permission denied. Run it as root: sudo gdr undo\n"
    );
    let run = as_nobody(&["fix", "memlock"]);
    run.assert_code(3);
    run.assert_stderr("root is required");
    assert!(run.stderr.ends_with("Run: sudo gdr fix memlock\n"), "{}", run.stderr);
    let run = as_nobody(&["fix", "memlock", "--yes"]);
    assert!(run.stderr.ends_with("Run: sudo gdr fix memlock --yes\n"), "{}", run.stderr);
}

#[test]
fn unwritable_help_is_an_error() {
    for args in
        [&["--help"][..], &["-h"], &["--version"], &["doctor", "--help"], &["doctor", "--list"]]
    {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let mut command = Gdr::new().args(args).command();
        let output = command.stdout(full).output().expect("gdr starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            text.contains("cannot write the output: No space left on device"),
            "{args:?}: {text}"
        );
    }
}

#[test]
#[ignore = "needs bash"]
fn bash_completes_names() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/gdr.bash");
    let completed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., before, last] = words.as_slice() else {
            panic!("two words");
        };
        let program = format!(
            "source '{}' && COMP_WORDS=({line}) && COMP_CWORD={} && _gdr gdr '{last}' '{before}' && printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.len() - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &program]).output().expect("bash");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("gdr doctor --only pcie.a"), ["pcie.acs", "pcie.acs-vm", "pcie.ats"]);
    assert_eq!(completed("gdr doctor --skip limi")[0], "limits");
    assert_eq!(completed("gdr doctor --profile gd"), ["gdrcopy"]);
    assert_eq!(completed("gdr probe copy --profile m"), ["mpi"]);
    assert_eq!(completed("gdr fix mem"), ["memlock"]);
    assert_eq!(completed("gdr fix memlock ac"), ["acs"]);
}

/// Commands for people, for a machine that is read and for one that is simulated.
const PAGES: &[&[&str]] = &[
    &["doctor"],
    &["doctor", "--verbose", "--profile", "all"],
    &["topo", "--nvme"],
    &["topo", "--pairs"],
    &["topo", "--path", "GPU0", "NIC0"],
    &["probe", "copy"],
    &["probe", "host"],
    &["probe", "p2p"],
    &["probe", "rdma"],
    &["probe", "async"],
    &["probe", "mp"],
    &["fix", "--dry-run"],
    &["fix-acs", "--dry-run", "--all-bridges"],
    &["undo", "--list"],
];

/// The command of a next step.
fn is_step(line: &str) -> bool {
    let numbered = line.trim_start().split_once(". ");
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    line.starts_with("Next step: ") || numbered.is_some_and(|(number, _)| is_number(number))
}

/// A single word that is wider than the rest of a line, or a command to copy, is never broken.
fn fits(line: &str, width: usize) -> bool {
    let is_command = line.starts_with("env ")
        || line.starts_with("export ")
        || line.contains(") exec env ")
        || line.trim_start().starts_with("fix:")
        || line.trim_start().starts_with("by hand:")
        || is_step(line)
        || line.trim_start().starts_with("| ");
    let is_word = line.split_whitespace().count() <= 2;
    line.chars().count() <= width || is_command || is_word
}

fn check(what: &str, run: &Run, width: usize) {
    // Where nothing is to be fixed, the plan is empty.
    assert!(!run.stdout.is_empty() || run.code != 0 || what.contains("--dry-run"), "{what}");
    for line in run.stdout.lines() {
        assert!(fits(line, width), "{what} at {width}: {line}\n{}", run.stdout);
    }
}

#[test]
#[ignore = "slow: hundreds of runs"]
fn machine_pages_fit_terminal() {
    for name in names() {
        let dir = Machine::load(&name).laid_out();
        for page in PAGES {
            for width in [80, 60] {
                let run = Gdr::new()
                    .sysroot(dir.path())
                    .args(*page)
                    .env("COLUMNS", width.to_string())
                    .run();
                check(&format!("{name}: {page:?}"), &run, width);
            }
        }
    }
}

#[test]
fn other_pages_fit_terminal() {
    let pages: [&[&str]; 6] = [
        &["doctor", "--list"],
        &["fix", "--list"],
        &["explain", "--no-run", "pcie.acs"],
        &["probe", "host", "--sim", "--quick"],
        &["doctor", "--help"],
        &["--help"],
    ];
    for page in pages {
        let run = Gdr::new().args(page).env("COLUMNS", "60").run();
        check(&format!("{page:?}"), &run, 60);
    }
}

#[test]
fn long_help_has_man_sections() {
    let run = gdr(&["fix", "--help"]);
    run.assert_code(0);
    let at = |heading: &str| {
        run.stdout.find(heading).unwrap_or_else(|| panic!("no {heading} in {}", run.stdout))
    };
    assert!(at("\nExamples:\n") < at("\nFiles:\n") && at("\nFiles:\n") < at("\nExit status:\n"));
    assert!(at("\nExit status:\n") < at("\nSee also:\n"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man/gdr-fix.1");
    let page = fs::read_to_string(page).expect("a man page");
    for heading in ["EXAMPLES", "FILES", "EXIT STATUS", "SEE ALSO"] {
        assert!(page.contains(&format!("\n.SH {heading}\n")), "{heading}");
    }
    // The short help stays short.
    assert!(!gdr(&["fix", "-h"]).stdout.contains("Examples:"));
}
