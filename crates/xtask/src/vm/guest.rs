//! A running guest: start, supervision, end, and its files from /out.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::image::Image;
use super::job::Job;
use super::machine::Machine;
use super::outcome::GuestOutcome;
use super::qemu::{self, Files};
use super::{overlay, tool};

/// Name of the console log among a guest's files.
pub const CONSOLE: &str = "console.txt";

/// Maximum size of a guest's output; the file is sparse.
const OUTBOX_SIZE: u64 = 256 << 20;

/// How long the second guest waits for the first guest's network socket.
const CABLE_DEADLINE: Duration = Duration::from_secs(10);

/// A QEMU process, killed when dropped.
pub struct Guest {
    number: u8,
    process: Child,
    directory: PathBuf,
}

/// Console message of a kernel whose CPU got no timer interrupts for 21 s.
const LOST_TIMER: &str = "rcu_preempt kthread timer wakeup didn't happen";

/// Console message of a kernel one of whose CPUs has run one task for 21 s or more; the number of seconds and "s!" follow.
const LOCKUP: &str = "soft lockup - CPU#";

/// Seconds of a lockup after which the guest does not recover. A busy host alone causes shorter ones.
const LOCKUP_LIMIT: u64 = 60;

/// Failures of the emulator, which do not depend on the guest.
#[derive(Debug)]
pub enum Fault {
    /// Killed by a signal.
    Crash(ExitStatus),
    /// Lost an interrupt, so that the guest's kernel hangs. The console's line about it.
    Hang(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crash(status) => write!(f, "QEMU crashed: {status}"),
            Self::Hang(line) => write!(f, "the guest's kernel hangs: {line}"),
        }
    }
}

impl std::error::Error for Fault {}

impl Guest {
    /// Starts guest `number` in its own directory below `work`.
    pub fn start(
        machine: &Machine,
        number: u8,
        image: &Image,
        job: &Job,
        work: &Path,
    ) -> Result<Self> {
        let directory = work.join(format!("guest{number}"));
        fs::create_dir(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let (initramfs, console) = (directory.join("initramfs"), directory.join(CONSOLE));
        let (outbox, cable) = (directory.join("outbox"), work.join("cable"));
        overlay::write(&initramfs, image, machine, number, job)?;
        File::create(&outbox)
            .and_then(|file| file.set_len(OUTBOX_SIZE))
            .with_context(|| format!("cannot create {}", outbox.display()))?;

        let files = Files {
            initramfs: &initramfs,
            console: &console,
            outbox: &outbox,
            disk: job.disk.as_deref(),
            cable: &cable,
        };
        let errors = File::create(directory.join("qemu.txt"))
            .context("QEMU's messages have no file to go to")?;
        let process = qemu::command(machine, number, image, &files)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| tool::missing("qemu-system-x86_64", error))?;
        let mut guest = Self { number, process, directory };
        if machine.guests > 1 && number == 1 {
            guest.await_cable(&cable)?;
        }
        Ok(guest)
    }

    /// Name of this guest's directory.
    pub fn name(&self) -> String {
        format!("guest{}", self.number)
    }

    /// True while it runs; an error if QEMU rejected its arguments or failed with a [`Fault`].
    pub fn running(&mut self) -> Result<bool> {
        match self.process.try_wait().context("cannot wait for QEMU")? {
            None => match hang(&self.console()) {
                Some(line) => Err(Fault::Hang(line.to_owned()).into()),
                None => Ok(true),
            },
            Some(status) if status.success() => Ok(false),
            Some(status) if status.signal().is_some() => Err(Fault::Crash(status).into()),
            Some(status) => bail!("QEMU ended with {status}: {}", self.text("qemu.txt").trim()),
        }
    }

    /// Console output so far.
    pub fn console(&self) -> String {
        self.text(CONSOLE)
    }

    /// Ends it if it runs, and unpacks its output into `files`.
    pub fn finish(self, files: &Path) -> Result<GuestOutcome> {
        let (number, directory) = (self.number, self.directory.clone());
        drop(self);
        fs::create_dir_all(files).with_context(|| format!("cannot create {}", files.display()))?;
        fs::copy(directory.join(CONSOLE), files.join(CONSOLE))
            .context("the guest left no console")?;
        let outbox = directory.join("outbox");
        if was_written(&outbox)? {
            let mut unpack = Command::new("tar");
            unpack.args(["--no-same-owner", "-xf"]).arg(&outbox).arg("-C").arg(files);
            tool::output(&mut unpack)
                .context("the guest returned an incomplete archive; did /out outgrow it?")?;
        }
        GuestOutcome::read(number, files)
    }

    /// Waits for the first guest's socket, without which the second would exit.
    fn await_cable(&mut self, cable: &Path) -> Result<()> {
        let start = Instant::now();
        while !cable.exists() {
            if !self.running()? || start.elapsed() > CABLE_DEADLINE {
                bail!(
                    "the first guest opened no network socket for the second: {}",
                    self.text("qemu.txt").trim()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> String {
        fs::read(self.directory.join(name))
            .map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The console line that shows that the kernel does not go on.
fn hang(console: &str) -> Option<&str> {
    console
        .lines()
        .map(str::trim_end)
        .find(|line| line.contains(LOST_TIMER) || lockup(line) >= Some(LOCKUP_LIMIT))
}

/// Seconds of a lockup: "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [task:71]".
fn lockup(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(LOCKUP)?;
    let (_, rest) = rest.split_once(" stuck for ")?;
    rest.split_once("s!")?.0.parse().ok()
}

/// True if the outbox has an archive: a guest that was stopped early leaves zeros.
fn was_written(outbox: &Path) -> Result<bool> {
    let mut first = [0];
    File::open(outbox)
        .and_then(|mut file| file.read_exact(&mut first))
        .with_context(|| format!("cannot read {}", outbox.display()))?;
    Ok(first != [0])
}

#[cfg(test)]
mod tests {
    use super::hang;

    #[test]
    fn recognizes_hanging_kernel() {
        let lockup = |seconds| {
            format!(
                "[  1.0] ok\r\n[  728.4] watchdog: BUG: soft lockup - CPU#1 stuck for {seconds}s! [cryptomgr_test:71]\r\n"
            )
        };
        assert_eq!(hang(&lockup(22)), None);
        assert!(hang(&lockup(678)).is_some_and(|line| line.ends_with("[cryptomgr_test:71]")));
        assert!(
            hang("rcu: rcu_preempt kthread timer wakeup didn't happen for 5252 jiffies!").is_some()
        );
        assert_eq!(hang("soft lockup - CPU#"), None);
    }
}
