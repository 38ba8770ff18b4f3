//! The process between gdr and a child that loads vendor libraries. What a library starts ends with the child, also in a session of
//! its own. It loads no library and reads nothing.
//!
//! A library that kills its parent kills this process; then gdr ends what inherited the variable that names it.

mod processes;

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getppid, kill_process,
    kill_process_group, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, wait, waitid,
};
use signal_hook::consts::{SIGCHLD, SIGTERM};
use signal_hook::{flag, low_level};

/// The hidden subcommand of this process.
const KEEPER: &str = "__keep";

/// This program, even if its file was replaced or its path is not visible here.
const PROGRAM: &str = "/proc/self/exe";

/// The name of the program in ps, top and nvidia-smi, which would otherwise be that of [`PROGRAM`].
const NAME: &CStr = c"gdr";
const ARGUMENT_0: &str = "gdr";

/// The variable that tells a child its keeper. Everything that the child starts inherits it.
const KEPT_BY: &str = "GDR_KEEPER";

/// How long killed processes may take to end. One that is stuck in the kernel dies later.
const TO_DIE: Duration = Duration::from_millis(500);

/// Added to a signal's number if the signal does not end this process.
const BY_SIGNAL: u8 = 128;

/// A command that runs this program with more arguments below a keeper, in a process group of its own.
pub fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg0(ARGUMENT_0).arg(KEEPER).arg(std::process::id().to_string()).process_group(0);
    command
}

/// Ends this process with the keeper or the gdr that started it: without it the answer is useless.
pub fn end_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(NAME)?;
    let keeper = std::env::var(KEPT_BY).ok();
    let parent = getppid().map(|parent| parent.as_raw_pid().to_string());
    if keeper.is_none() || keeper == parent {
        Ok(())
    } else {
        // It died before the signal was asked for.
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// The exit status of a child that leads a process group, if it has ended; what is left of its group is killed then, and what a
/// keeper left that a signal ended.
pub fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // Before it is reaped, its number cannot be that of another group or keeper.
    if let Ok(Some(status)) = waitid(WaitId::Pid(pid), options) {
        // Fails if the group is empty.
        let _ = kill_process_group(pid, Signal::KILL);
        if !status.exited() {
            end_orphans(pid);
        }
    }
    child.try_wait()
}

/// Kills what a dead keeper left: its orphans are children of init, in sessions of their own.
fn end_orphans(keeper: Pid) {
    let Some(since) = processes::start(keeper) else {
        return;
    };
    let keeper = keeper.as_raw_pid().to_string();
    let begun = Instant::now();
    // One may have forked before it was killed.
    while matches!(processes::kill_inheritors(since, KEPT_BY, &keeper), Ok(1..))
        && begun.elapsed() < TO_DIE
    {}
}

/// Ends a child that leads a process group, with everything that it started.
pub fn end(child: &mut Child) {
    let pid = Pid::from_child(child);
    if matches!(try_wait(child), Ok(Some(_))) {
        return;
    }
    // A keeper ends the others first. Both fail only if the child has ended.
    let _ = kill_process(pid, Signal::TERM);
    if !ends_within(child, TO_DIE + TO_DIE / 2) {
        let _ = kill_process_group(pid, Signal::KILL);
        ends_within(child, TO_DIE);
    }
}

/// Like [`end`], without waiting: closing a GPU takes the kernel milliseconds.
pub fn end_meanwhile(child: &mut Child) {
    if matches!(try_wait(child), Ok(None)) {
        // Fails only if it has ended.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
}

fn ends_within(child: &mut Child, time: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match try_wait(child) {
            Ok(None) if begun.elapsed() < time => std::thread::sleep(Duration::from_millis(1)),
            ended => return matches!(ended, Ok(Some(_))),
        }
    }
}

/// Keeps a child, if this process was started to; returns when the child and everything it started has ended. `arguments`
/// exclude the program's name.
pub fn keep(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    if arguments.next()? != KEEPER {
        return None;
    }
    let parent = arguments.next()?.to_str()?.parse().ok()?;
    let kept = run(parent, arguments);
    Some(kept.unwrap_or(ExitCode::FAILURE))
}

fn run(parent: i32, arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    rustix::thread::set_name(NAME)?;
    let (woken, waking) = UnixStream::pair()?;
    let stop = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, Arc::clone(&stop))?;
    for signal in [SIGTERM, SIGCHLD] {
        low_level::pipe::register(signal, waking.try_clone()?)?;
    }
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        // It died before it could be watched.
        return Ok(ExitCode::FAILURE);
    }
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut command = Command::new(PROGRAM);
    command.arg0(ARGUMENT_0).args(arguments).env(KEPT_BY, std::process::id().to_string());
    let child = Pid::from_child(&command.spawn()?);
    // Only the child's copies are left, so that both ends see when it closes them.
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    loop {
        let ended = reap(child);
        if ended.is_some() || stop.load(Ordering::Relaxed) {
            end_all(ended.is_none().then_some(child));
            return Ok(ended.map_or(ExitCode::FAILURE, repeat));
        }
        let mut buffer = [0; 64];
        match io::Read::read(&mut &woken, &mut buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// Reaps what has ended; returns the status of the child if it is among them.
fn reap(child: Pid) -> Option<ExitStatus> {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            return Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    None
}

/// Kills the child, unless it has ended, and all other descendants: those of a killed process become children of this one.
fn end_all(child: Option<Pid>) {
    let begun = Instant::now();
    loop {
        for pid in processes::children().unwrap_or_else(|_| child.into_iter().collect()) {
            // Fails only if it has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if begun.elapsed() < TO_DIE => std::thread::sleep(Duration::from_millis(1)),
            // None is left, or one is stuck.
            _ => return,
        }
    }
}

/// Ends as the child did, so that gdr sees the same status.
fn repeat(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // The child has left its core file, if any.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        // Returns only if it does not know the signal.
        let _ = low_level::emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(signal).map_or(BY_SIGNAL, |signal| BY_SIGNAL + signal));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
