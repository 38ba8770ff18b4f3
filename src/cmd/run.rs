//! `gdr run`: starts a job with a log of NCCL in files of its own, and reports the paths that it used. The job has gdr's standard
//! input and output, its exit status is gdr's, and signals reach it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{
    Pid, Signal, geteuid, getppid, kill_process, set_parent_process_death_signal,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level};
use tempfile::TempDir;

use super::{ERROR, remark};
use crate::cli::{Global, Run, style};
use crate::job::JobReader;
use crate::model::Job;
use crate::output;
use crate::render;

/// The hidden subcommand that becomes the job.
const BECOME: &str = "__run";

/// This program, even if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// Exit statuses of a command that cannot be started, as of a shell.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Start and end of the names of NCCL's logs. The user's settings may put logs of other libraries beside them, which end alike.
const LOG: &str = "nccl.";
const LOGS: &str = ".log";

/// Start of the names of temporary directories, and the file in them that is locked while they are in use.
const TEMPORARY: &str = "gdr-run-";
const LOCK: &str = "lock";

const SUBSYSTEMS: &str = "INIT,BOOTSTRAP,ENV,GRAPH,NET,P2P,SHM";

/// Variables with a rank and with the number of ranks, of Slurm, Open MPI, MPICH and torchrun.
const RANKS: [(&str, &str); 4] = [
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("RANK", "WORLD_SIZE"),
];

pub fn run(global: &Global, options: &Run, err: &mut dyn Write) -> anyhow::Result<u8> {
    let place = LogDirectory::new(options.log.as_deref())?;
    let signals = Signals::catch().context("cannot catch signals")?;
    let mut command = Command::new(PROGRAM);
    command.arg(BECOME).arg(std::process::id().to_string()).args(&options.command);
    for note in place.set(&mut command) {
        remark(err, &note);
    }
    let mut child = command.spawn().context("cannot start the job")?;
    let status = wait(&mut child, &signals, |err| place.report(global, None, err), err)?;
    // A program that could not start has said so.
    let has_started =
        ![NOT_FOUND, NOT_EXECUTABLE].map(i32::from).contains(&status.code().unwrap_or(0));
    if place.reports() && (has_started || place.has_logs()) {
        place.report(global, Some(status), err);
    }
    // Removes the logs; exit() would not.
    drop(place);
    match (status.code(), status.signal()) {
        // A status above 128 of a job that no signal ended.
        (Some(code), _) => std::process::exit(code),
        (None, Some(signal)) => Ok(u8::try_from(128 + signal).unwrap_or(ERROR)),
        (None, None) => Ok(ERROR),
    }
}

/// Becomes the job, if this process was started to; returns only if it was not, or with an error. `arguments` exclude the
/// program's name.
pub fn become_job(
    arguments: impl Iterator<Item = OsString>,
    err: &mut dyn Write,
) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    if arguments.next()? != BECOME {
        return None;
    }
    let parent: i32 = arguments.next()?.to_str()?.parse().ok()?;
    let program = arguments.next()?;
    // A job must not outlive a gdr that was killed.
    let watched = set_parent_process_death_signal(Some(Signal::KILL));
    if watched.is_err() || getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Some(ExitCode::FAILURE);
    }
    let error = Command::new(&program).args(arguments).exec();
    remark(err, &format!("cannot run '{}': {error}", program.to_string_lossy()));
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Some(ExitCode::from(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }))
}

/// Where the logs are.
struct LogDirectory {
    directory: PathBuf,
    /// Removes it, and shows with a lock until then that it is in use.
    _temporary: Option<(TempDir, File)>,
    is_kept: bool,
    begun: SystemTime,
}

impl LogDirectory {
    fn new(kept: Option<&Path>) -> anyhow::Result<Self> {
        // File systems may store whole seconds.
        let begun = SystemTime::now() - Duration::from_secs(1);
        let Some(kept) = kept else {
            remove_left(&std::env::temp_dir());
            let temporary = tempfile::Builder::new().prefix(TEMPORARY).tempdir();
            let temporary =
                temporary.context("cannot make a directory for logs; --log names one")?;
            let directory = temporary.path().to_owned();
            let lock = locked(&directory)
                .context("cannot lock the directory for logs; --log names one")?;
            return Ok(Self {
                directory,
                _temporary: Some((temporary, lock)),
                is_kept: false,
                begun,
            });
        };
        let shown = kept.to_string_lossy().into_owned();
        // The job may change its directory before it opens the log.
        let directory = std::path::absolute(kept).with_context(|| format!("--log {shown}"))?;
        fs::create_dir_all(&directory).with_context(|| format!("cannot make '{shown}'"))?;
        if !directory.is_dir() {
            bail!("'{shown}' is not a directory");
        }
        Ok(Self { directory, _temporary: None, is_kept: true, begun })
    }

    /// Sets the variables that ask NCCL for its log; returns what is left as it is. A log that the user asked for stays where it is.
    fn set(&self, command: &mut Command) -> Vec<String> {
        let own = |name: &str| std::env::var_os(name);
        for name in ["NCCL_DEBUG", "NCCL_DEBUG_FILE"] {
            if let Some(value) = own(name) {
                let value = value.to_string_lossy();
                return vec![format!(
                    "{name}={value} is set and stays: NCCL's log is where the job writes it, and gdr explain LOG shows its paths"
                )];
            }
        }
        let mut file = Vec::new();
        for byte in self.directory.as_os_str().as_bytes() {
            // NCCL replaces %h and %p.
            file.extend(if *byte == b'%' { &b"%%"[..] } else { std::slice::from_ref(byte) });
        }
        file.extend_from_slice(format!("/{LOG}%h.%p{LOGS}").as_bytes());
        command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_FILE", OsString::from_vec(file));
        match own("NCCL_DEBUG_SUBSYS") {
            None => {
                command.env("NCCL_DEBUG_SUBSYS", SUBSYSTEMS);
                Vec::new()
            }
            Some(value) => {
                let value = value.to_string_lossy();
                vec![format!(
                    "NCCL_DEBUG_SUBSYS={value} is set and stays: the log may lack paths or reasons"
                )]
            }
        }
    }

    /// True if this process prints a report at the end: of the ranks of a launcher, the first, unless the logs are merged later.
    fn reports(&self) -> bool {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let ranks = RANKS.iter().filter_map(|(rank, ranks)| Some((number(rank)?, number(ranks)?)));
        ranks.into_iter().find(|(_, ranks)| *ranks > 1).is_none_or(|(rank, _)| rank == 0)
    }

    fn has_logs(&self) -> bool {
        self.logs().is_ok_and(|logs| !logs.is_empty())
    }

    /// Reports the job as far as the logs have it, with its status if it has ended. Errors do not change that status.
    fn report(&self, global: &Global, ended: Option<ExitStatus>, err: &mut dyn Write) {
        let shown = self.directory.to_string_lossy();
        match self.read() {
            Ok(Some(job)) => {
                // Ignored: stderr is gone.
                let _ = write!(err, "\n{}", render::job::page(&job, style(global.color)));
                if let Some(status) = ended.filter(|status| !status.success())
                    && job.failures.is_empty()
                {
                    remark(
                        err,
                        &format!(
                            "the job failed ({status}), and its logs do not say why: gdr explain reads the job's own output"
                        ),
                    );
                }
            }
            Ok(None) => remark(err, "no process of the job has written a log that shows a path"),
            Err(error) => remark(err, &format!("cannot read the logs in '{shown}': {error}")),
        }
        if self.is_kept && self.has_logs() {
            remark(
                err,
                &format!("the logs are in '{shown}': gdr explain --job DIR shows all ranks"),
            );
        }
    }

    /// NCCL's logs, and those that other libraries have written since this process began.
    fn logs(&self) -> io::Result<Vec<PathBuf>> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), entry.path());
            let is_new = || {
                let changed = fs::metadata(&path).and_then(|of| of.modified());
                changed.is_ok_and(|changed| changed >= self.begun)
            };
            if name.as_bytes().ends_with(LOGS.as_bytes())
                && path.is_file()
                && (name.as_bytes().starts_with(LOG.as_bytes()) || is_new())
            {
                logs.push(path);
            }
        }
        logs.sort();
        Ok(logs)
    }

    fn read(&self) -> io::Result<Option<Job>> {
        let mut reader = JobReader::default();
        let mut buffer = vec![0; 64 << 10];
        for file in self.logs()? {
            let mut file = File::open(file)?;
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => reader.feed(&buffer[..count]),
                }
            }
            reader.next_log();
        }
        Ok(reader.finish())
    }
}

/// Makes the lock of a directory. It gets its name when it is locked: another gdr that begins now would remove a directory whose lock is free.
fn locked(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join("unlocked");
    let file = File::create(&unnamed)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(unnamed, directory.join(LOCK))?;
    Ok(file)
}

/// Removes the logs of a gdr of this user that was killed: nobody holds the lock of their directory.
fn remove_left(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_own = entry.file_name().as_bytes().starts_with(TEMPORARY.as_bytes())
            && entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == geteuid().as_raw());
        if is_own
            && let Ok(lock) = File::open(entry.path().join(LOCK))
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // Another gdr removes it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The signals that arrived.
struct Signals {
    woken: UnixStream,
    forwarded: Vec<(i32, Signal, Arc<AtomicBool>)>,
    report: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        let (woken, waking) = UnixStream::pair()?;
        woken.set_nonblocking(false)?;
        let mut forwarded = Vec::new();
        for (number, signal) in [
            (SIGINT, Signal::INT),
            (SIGQUIT, Signal::QUIT),
            (SIGTERM, Signal::TERM),
            (SIGHUP, Signal::HUP),
            (SIGUSR2, Signal::USR2),
        ] {
            let arrived = Arc::new(AtomicBool::new(false));
            flag::register(number, Arc::clone(&arrived))?;
            low_level::pipe::register(number, waking.try_clone()?)?;
            forwarded.push((number, signal, arrived));
        }
        let report = Arc::new(AtomicBool::new(false));
        flag::register(SIGUSR1, Arc::clone(&report))?;
        for number in [SIGUSR1, SIGCHLD] {
            low_level::pipe::register(number, waking.try_clone()?)?;
        }
        Ok(Self { woken, forwarded, report })
    }

    /// Passes signals on to the job. A key of the terminal has reached it already.
    fn forward(&self, child: &Child) {
        for (number, signal, arrived) in &self.forwarded {
            if arrived.swap(false, Ordering::SeqCst) {
                let is_key = [SIGINT, SIGQUIT].contains(number) && output::is_foreground();
                if !is_key {
                    // Fails if the job has just ended.
                    let _ = kill_process(Pid::from_child(child), *signal);
                }
            }
        }
    }
}

/// Waits for the job; a signal is passed on, and SIGUSR1 asks for a report.
fn wait(
    child: &mut Child,
    signals: &Signals,
    report: impl Fn(&mut dyn Write),
    err: &mut dyn Write,
) -> anyhow::Result<ExitStatus> {
    loop {
        signals.forward(child);
        if let Some(status) = child.try_wait().context("cannot wait for the job")? {
            return Ok(status);
        }
        if signals.report.swap(false, Ordering::SeqCst) {
            report(err);
        }
        let mut buffer = [0; 64];
        match (&signals.woken).read(&mut buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error).context("cannot wait for signals");
            }
            _ => {}
        }
    }
}
