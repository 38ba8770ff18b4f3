//! Programs that change a machine, run with a timeout. For a machine in a directory: stand-ins, or programs that
//! accept a root directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::world::child::Running;
use crate::world::command::{DIRECTORIES, with_clean_environment};

/// All programs that a repair or an undo may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Permissions of a device node.
    Chmod,
    /// Builds initramfs images (Red Hat, SUSE).
    Dracut,
    /// Writes GRUB's configuration (Red Hat, SUSE).
    Grub2Mkconfig,
    GrubMkconfig,
    /// Changes the command line of installed kernels.
    Grubby,
    /// Makes boot loader entries.
    KernelInstall,
    /// Builds initramfs images (Arch).
    Mkinitcpio,
    /// Makes a device node.
    Mknod,
    /// Sets an mlx5 NIC's firmware parameters (MFT).
    Mlxconfig,
    Modprobe,
    /// Sets an mlx5 NIC's firmware parameters (mstflint).
    Mstconfig,
    /// Sets a GPU's persistence mode.
    NvidiaSmi,
    /// Removes a device node.
    Rm,
    /// Removes a kernel module.
    Rmmod,
    Systemctl,
    Udevadm,
    /// Writes GRUB's configuration (Debian, Ubuntu).
    UpdateGrub,
    /// Builds initramfs images (Debian, Ubuntu).
    UpdateInitramfs,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chmod => "chmod",
            Self::Dracut => "dracut",
            Self::Grub2Mkconfig => "grub2-mkconfig",
            Self::GrubMkconfig => "grub-mkconfig",
            Self::Grubby => "grubby",
            Self::KernelInstall => "kernel-install",
            Self::Mkinitcpio => "mkinitcpio",
            Self::Mknod => "mknod",
            Self::Mlxconfig => "mlxconfig",
            Self::Modprobe => "modprobe",
            Self::Mstconfig => "mstconfig",
            Self::NvidiaSmi => "nvidia-smi",
            Self::Rm => "rm",
            Self::Rmmod => "rmmod",
            Self::Systemctl => "systemctl",
            Self::Udevadm => "udevadm",
            Self::UpdateGrub => "update-grub",
            Self::UpdateInitramfs => "update-initramfs",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: Program,
    pub arguments: Vec<String>,
}

impl CommandLine {
    pub fn new<T: Into<String>>(program: Program, arguments: impl IntoIterator<Item = T>) -> Self {
        Self { program, arguments: arguments.into_iter().map(Into::into).collect() }
    }

    pub fn words(&self) -> Vec<String> {
        let name = std::iter::once(self.program.name().to_owned());
        name.chain(self.arguments.iter().cloned()).collect()
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// Exit status, or -1 after a signal, and the output including standard error.
    Ended {
        code: i32,
        /// The last part of it.
        output: String,
    },
    /// Not installed; a shell exits with 127.
    Missing,
    /// Not run, because this machine is a directory without a stand-in.
    Printed,
    /// Could not be run, or timed out.
    Failed(String),
}

pub(super) struct Programs {
    root: Option<PathBuf>,
    tools: Option<PathBuf>,
    timeout: Duration,
}

/// The verbs of systemctl that accept a root directory.
const OFFLINE: [&str; 2] = ["enable", "disable"];

/// Limit of shown output.
const SHOWN: usize = 2000;

impl Programs {
    pub fn live(timeout: Duration) -> Self {
        Self { root: None, tools: None, timeout }
    }

    pub fn laid_out(root: &Path, tools: Option<&Path>, timeout: Duration) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { root: Some(absolute(root)), tools: tools.map(absolute), timeout }
    }

    pub fn run(&self, line: &CommandLine) -> Ran {
        let mut command = match &self.root {
            None => match installed(line.program) {
                Some(path) => with_clean_environment(&path),
                None => return Ran::Missing,
            },
            Some(root) => match self.stand_in(line, root) {
                Some(command) => command,
                None => return Ran::Printed,
            },
        };
        command.args(&line.arguments);
        let name = line.program.name();
        match self.output(&mut command) {
            Ok((code, output)) => Ran::Ended { code, output },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ran::Failed(format!(
                "{name} timed out after {} s and was stopped",
                self.timeout.as_secs()
            )),
            Err(error) => Ran::Failed(format!("cannot run {name}: {error}")),
        }
    }

    /// The command to run for a machine in a directory.
    fn stand_in(&self, line: &CommandLine, root: &Path) -> Option<Command> {
        if let Some(tools) = &self.tools {
            let program = tools.join(line.program.name());
            if program.is_file() {
                let mut command = with_clean_environment(&program);
                command.env("GDR_ROOT", root);
                return Some(command);
            }
        }
        // Programs that accept a root run from this machine.
        let verb = line.arguments.first()?;
        if line.program == Program::Systemctl
            && OFFLINE.contains(&verb.as_str())
            && let Some(path) = installed(line.program)
        {
            let mut command = with_clean_environment(&path);
            command.arg(format!("--root={}", root.display()));
            return Some(command);
        }
        None
    }

    fn output(&self, command: &mut Command) -> io::Result<(i32, String)> {
        // Both streams go to one file, which needs no reader while the program runs.
        let file = tempfile::tempfile()?;
        command.stdout(Stdio::from(file.try_clone()?)).stderr(Stdio::from(file.try_clone()?));
        let status = Running::spawn_group(command, self.timeout)?.status()?;
        let mut printed = Vec::new();
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(0))?;
        io::Read::read_to_end(&mut io::Read::take(file, 1 << 20), &mut printed)?;
        let printed = String::from_utf8_lossy(&printed).trim().to_owned();
        let from = printed.char_indices().rev().take(SHOWN).last().map_or(0, |(at, _)| at);
        Ok((status.code().unwrap_or(-1), printed[from..].to_owned()))
    }
}

/// The program's path on this machine.
fn installed(program: Program) -> Option<PathBuf> {
    let directories = DIRECTORIES.iter().map(Path::new);
    directories.map(|directory| directory.join(program.name())).find(|path| path.is_file())
}
