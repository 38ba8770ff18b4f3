//! Processes of this machine, read from /proc: the children of this one, and what a dead keeper left.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Most bytes of an environment: the kernel allows about 6 MiB of arguments and variables.
const MAX_ENVIRONMENT: u64 = 8 << 20;

/// A process, as /proc/PID/stat describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Process {
    pid: Pid,
    parent: i32,
    /// When it started, in clock ticks after the boot.
    start: u64,
}

/// The children of this process, on kernels without CONFIG_PROC_CHILDREN too.
pub fn children() -> io::Result<Vec<Pid>> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => Ok(list.split_whitespace().filter_map(number).collect()),
        Err(_) => by_parent(),
    }
}

fn by_parent() -> io::Result<Vec<Pid>> {
    let parent = getpid().as_raw_pid();
    let all = processes()?;
    Ok(all.filter(|process| process.parent == parent).map(|process| process.pid).collect())
}

/// When a process started, also one that has ended and was not waited for.
pub fn start(pid: Pid) -> Option<u64> {
    Some(read(pid)?.start)
}

/// Kills the processes of this PID namespace that started at or after this time and inherited this variable. Returns how many.
///
/// It reads no older process's environment: that waits for a process that hangs in the driver.
pub fn kill_inheritors(since: u64, variable: &str, value: &str) -> io::Result<usize> {
    let variable = format!("{variable}={value}");
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    let inherited = |process: &Process| {
        let directory = directory(process.pid);
        fs::read_link(directory.join("ns/pid")).is_ok_and(|other| other == namespace)
            && has_variable(&directory, variable.as_bytes())
    };
    let own = getpid();
    let started = processes()?.filter(|process| process.start >= since && process.pid != own);
    // It fails only for one that has ended, or that belongs to another user.
    Ok(started.filter(inherited).filter(|it| kill_process(it.pid, Signal::KILL).is_ok()).count())
}

fn has_variable(directory: &Path, variable: &[u8]) -> bool {
    let mut environment = Vec::new();
    File::open(directory.join("environ"))
        .and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(&mut environment))
        .is_ok_and(|_| environment.split(|byte| *byte == 0).any(|other| other == variable))
}

/// All processes; there are at most as many as the kernel has PIDs.
fn processes() -> io::Result<impl Iterator<Item = Process>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| number(std::str::from_utf8(name.as_bytes()).ok()?));
    Ok(pids.filter_map(read))
}

fn read(pid: Pid) -> Option<Process> {
    parse(pid, &fs::read(directory(pid).join("stat")).ok()?)
}

fn directory(pid: Pid) -> PathBuf {
    format!("/proc/{}", pid.as_raw_pid()).into()
}

fn number(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// The name, in parentheses, can contain anything.
fn parse(pid: Pid, stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some(Process { pid, parent, start })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn parses_stat_with_any_name() {
        let stat =
            b"42 (a) R 1 \xff(b) S 7 42 42 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 987654 10 20 30";
        let pid = Pid::from_raw(42).expect("a number");
        assert_eq!(parse(pid, stat), Some(Process { pid, parent: 7, start: 987_654 }));
        for broken in [&b""[..], b"42 (a) S", b"42 (a) S x 1", b"42 a S 7 42"] {
            assert_eq!(parse(pid, broken), None);
        }
    }

    struct Sleeps(Child);

    impl Drop for Sleeps {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleep(value: &str) -> Sleeps {
        let mut command = Command::new("/bin/sleep");
        Sleeps(command.arg("600").env("GDR_TEST_INHERITS", value).spawn().expect("sleep starts"))
    }

    #[test]
    fn finds_children_without_the_list_of_the_kernel() {
        let child = sleep("");
        let pid = Pid::from_child(&child.0);
        assert!(by_parent().expect("/proc").contains(&pid));
        assert!(start(pid).expect("its start") >= start(getpid()).expect("its start"));
    }

    #[test]
    fn kills_only_what_inherited_the_variable_and_is_no_older() {
        let value = std::process::id().to_string();
        let (mut marked, mut other) = (sleep(&value), sleep(&format!("{value}0")));
        let since = start(Pid::from_child(&marked.0)).expect("its start");
        let kill = |since| kill_inheritors(since, "GDR_TEST_INHERITS", &value).expect("/proc");
        assert_eq!(kill(since + 1_000_000), 0);
        // Until exec, it has the environment of this process.
        while kill(since) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!marked.0.wait().expect("its end").success());
        assert_eq!(other.0.try_wait().expect("its state"), None);
        assert_eq!(kill(since), 0);
    }
}
