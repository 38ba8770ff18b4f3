//! Programs that change a machine, run with a deadline: the machine's own, or for a laid-out one those that stand in for
//! them, or those that take a root.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::child::Running;
use super::tools::Tools;

/// What came of running a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// It ended with this status and printed this, errors included; -1 where a signal ended it.
    Ended {
        /// The exit status.
        code: i32,
        /// The last of what it printed.
        said: String,
    },
    /// It is not installed. A shell ends with 127 for it.
    Missing(String),
    /// It was not run: no program stands in for it on this laid-out machine.
    Printed,
    /// It could not be run, or did not end in time.
    Failed(String),
}

/// Where programs come from.
pub struct Programs {
    root: Option<PathBuf>,
    tools: Option<PathBuf>,
    patience: Duration,
}

/// What systemctl does to a root; of all others it says that they cannot be used with one.
const OFFLINE: [&str; 4] = ["enable", "disable", "mask", "unmask"];

/// How much of what a program printed is shown.
const SHOWN: usize = 2000;

impl Programs {
    /// Those of the machine gdr runs on.
    pub fn live(patience: Duration) -> Self {
        Self {
            root: None,
            tools: None,
            patience,
        }
    }

    /// Those for a machine laid out in a directory.
    pub fn laid_out(root: &Path, tools: Option<&Path>, patience: Duration) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self {
            root: Some(absolute(root)),
            tools: tools.map(absolute),
            patience,
        }
    }

    /// Runs a program by its name.
    pub fn run(&self, argv: &[String]) -> Ran {
        let Some((name, arguments)) = argv.split_first() else {
            return Ran::Failed("there is no program to run".to_owned());
        };
        let mut command = match &self.root {
            None => match found(name) {
                Some(path) => Command::new(path),
                None => return Ran::Missing(name.clone()),
            },
            Some(root) => match self.stand_in(name, arguments.first(), root) {
                Some(command) => command,
                None => return Ran::Printed,
            },
        };
        command.args(arguments).env("LC_ALL", "C");
        match self.output(&mut command) {
            Ok((code, said)) => Ran::Ended { code, said },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ran::Failed(format!(
                "{name} did not end within {} s and was stopped",
                self.patience.as_secs()
            )),
            Err(error) => Ran::Failed(format!("{name} could not be run: {error}")),
        }
    }

    /// What is run in a program's place for a laid-out machine.
    fn stand_in(&self, name: &str, verb: Option<&String>, root: &Path) -> Option<Command> {
        if let Some(tools) = &self.tools {
            let program = tools.join(name);
            if program.is_file() {
                let mut command = Command::new(program);
                command.env("GDR_ROOT", root);
                return Some(command);
            }
        }
        // What takes a root is run on this one.
        if name == "systemctl"
            && verb.is_some_and(|verb| OFFLINE.contains(&verb.as_str()))
            && let Some(path) = found(name)
        {
            let mut command = Command::new(path);
            command.arg(format!("--root={}", root.display()));
            return Some(command);
        }
        None
    }

    fn output(&self, command: &mut Command) -> io::Result<(i32, String)> {
        // Both streams in one file: it holds however much is printed, and needs nobody to read along.
        let file = tempfile::tempfile()?;
        command
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file.try_clone()?));
        let status = Running::spawn(command, self.patience)?.status()?;
        let mut said = Vec::new();
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(0))?;
        io::Read::read_to_end(&mut io::Read::take(file, 1 << 20), &mut said)?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let from = said.char_indices().rev().take(SHOWN).last().map_or(0, |(at, _)| at);
        Ok((status.code().unwrap_or(-1), said[from..].to_owned()))
    }
}

/// A program of the machine gdr runs on.
fn found(name: &str) -> Option<PathBuf> {
    let directories = Tools::DIRECTORIES.iter().map(Path::new);
    directories
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}
