//! Command-line tools of the machine: where they are, and what they answer.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Files;
use super::child::Running;
use super::command::with_clean_environment;
use crate::model::{Fact, LibraryAnswer, ToolOutput, Why};

/// Finds tools by name in the directories where a distribution puts them, and runs those that only read.
///
/// The caller's PATH is not asked: as an ordinary user it often lacks the sbin directories where setpci lives.
pub struct Tools {
    source: Source,
    record: Option<ToolAnswers>,
}

enum Source {
    /// Run on the machine gdr runs on; each may take so long.
    Live(Duration),
    /// What they answered when the snapshot was taken, by command line; nothing for a machine laid out in a directory.
    Recorded(BTreeMap<String, LibraryAnswer<ToolOutput>>),
}

/// What the tools of a recorded world answered so far.
#[derive(Clone, Default)]
pub struct ToolAnswers(Arc<Mutex<BTreeMap<String, LibraryAnswer<ToolOutput>>>>);

impl ToolAnswers {
    pub fn take(&self) -> BTreeMap<String, LibraryAnswer<ToolOutput>> {
        // Each answer is written in one assignment: what a panic left is whole.
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tools {
    /// Where a distribution puts tools.
    pub(super) const DIRECTORIES: [&'static str; 6] = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];

    /// Those of the machine gdr runs on; each may take so long.
    pub fn live(timeout: Duration) -> Self {
        Self {
            source: Source::Live(timeout),
            record: None,
        }
    }

    /// Those of a machine laid out in a directory: `gdr/tools.json` holds what they answered there, by command line, where
    /// somebody wrote it down.
    pub fn laid_out(read: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let answers = read("/gdr/tools.json").and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self::recorded(answers.unwrap_or_default())
    }

    /// Those of a recorded machine, by what they answered.
    pub fn recorded(answers: BTreeMap<String, LibraryAnswer<ToolOutput>>) -> Self {
        Self {
            source: Source::Recorded(answers),
            record: None,
        }
    }

    /// The same, writing down what they answer.
    pub fn recording(self, answers: ToolAnswers) -> Self {
        Self {
            record: Some(answers),
            ..self
        }
    }

    /// What a tool that only reads prints to standard output, as far as `keep` keeps it (what is kept, kept again, is the
    /// same), and how it ends; none where it is not installed. An error is why there is no answer, and a sentence about it.
    ///
    /// It is started by its absolute path, without input and without the caller's environment, and killed at the deadline.
    pub fn output(
        &self,
        files: &dyn Files,
        name: &str,
        arguments: &[&str],
        keep: &dyn Fn(&str) -> String,
    ) -> Result<Fact<Option<ToolOutput>>, (Why, String)> {
        let path = match self.locate(files, name) {
            Fact::Known(Some(path)) => path,
            Fact::Known(None) => return Ok(Fact::Known(None)),
            Fact::Unknown(why) => return Ok(Fact::Unknown(why)),
        };
        let line = std::iter::once(name)
            .chain(arguments.iter().copied())
            .collect::<Vec<_>>()
            .join(" ");
        let answer = match &self.source {
            Source::Live(timeout) => match run(&path, arguments, *timeout) {
                Ok(output) => LibraryAnswer::Answered(ToolOutput {
                    text: keep(&output.text),
                    ..output
                }),
                Err(error) => failed(&line, &error, *timeout),
            },
            Source::Recorded(answers) => match answers.get(&line) {
                Some(answer) => answer.clone(),
                None => return Ok(Fact::Unknown(Why::NotCovered)),
            },
        };
        if let Some(ToolAnswers(record)) = &self.record {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.insert(line, answer.clone());
        }
        match answer {
            LibraryAnswer::Answered(output) => Ok(Fact::Known(Some(output))),
            LibraryAnswer::Failed { why, message } => Err((why, message)),
        }
    }

    /// The tool's path; none where it is not installed. A machine recorded without any of the directories does not tell.
    pub fn locate(&self, files: &dyn Files, name: &str) -> Fact<Option<PathBuf>> {
        let there: Vec<&Path> = Self::DIRECTORIES
            .iter()
            .map(Path::new)
            .filter(|directory| files.exists(directory).unwrap_or(false))
            .collect();
        if there.is_empty() {
            return Fact::Unknown(Why::NotCovered);
        }
        for path in there.iter().map(|directory| directory.join(name)) {
            match files.exists(&path) {
                Ok(true) => return Fact::Known(Some(path)),
                // A record of a machine on which nobody asked for this tool.
                Err(error) if error.why() == Why::NotCovered => {
                    return Fact::Unknown(Why::NotCovered);
                }
                _ => {}
            }
        }
        Fact::Known(None)
    }
}

fn run(path: &Path, arguments: &[&str], timeout: Duration) -> io::Result<ToolOutput> {
    let mut command = with_clean_environment(path);
    let mut running = Running::start(command.args(arguments), timeout)?;
    let text = String::from_utf8_lossy(&running.output()?).into_owned();
    let code = running.status()?.code();
    Ok(ToolOutput { code, text })
}

fn failed(line: &str, error: &io::Error, timeout: Duration) -> LibraryAnswer<ToolOutput> {
    let (why, message) = match error.kind() {
        io::ErrorKind::TimedOut => (
            Why::TimedOut,
            format!(
                "'{line}' did not end within {} s and was stopped",
                timeout.as_secs_f64()
            ),
        ),
        io::ErrorKind::PermissionDenied => {
            (Why::Denied, format!("'{line}' could not be run: {error}"))
        }
        _ => (Why::Broken, format!("'{line}' could not be run: {error}")),
    };
    LibraryAnswer::Failed { why, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    fn live(timeout: u64) -> (World, Tools) {
        let world = World::live(Duration::from_secs(1)).expect("this machine");
        (world, Tools::live(Duration::from_millis(timeout)))
    }

    #[test]
    fn a_tool_is_run_recorded_and_replayed() {
        let (world, tools) = live(10_000);
        let answers = ToolAnswers::default();
        let tools = tools.recording(answers.clone());
        let upper = |text: &str| text.to_uppercase();
        let output = tools.output(
            world.files.as_ref(),
            "sh",
            &["-c", "echo x; exit 3"],
            &upper,
        );
        let wanted = ToolOutput {
            code: Some(3),
            text: "X\n".to_owned(),
        };
        assert_eq!(output, Ok(Fact::Known(Some(wanted.clone()))));
        let replayed = Tools::recorded(answers.take());
        let output = replayed.output(
            world.files.as_ref(),
            "sh",
            &["-c", "echo x; exit 3"],
            &upper,
        );
        assert_eq!(output, Ok(Fact::Known(Some(wanted))));
        let other = replayed.output(world.files.as_ref(), "sh", &["-c", "true"], &upper);
        assert_eq!(other, Ok(Fact::Unknown(Why::NotCovered)));
    }

    #[test]
    fn a_tool_gets_nothing_of_the_callers_environment() {
        assert!(
            std::env::var_os("HOME").is_some(),
            "the test needs a variable to leave out"
        );
        let (world, tools) = live(10_000);
        let all = |text: &str| text.to_owned();
        let printed = tools.output(world.files.as_ref(), "env", &[], &all);
        let Ok(Fact::Known(Some(printed))) = printed else {
            panic!("{printed:?}");
        };
        let mut names: Vec<&str> = printed
            .text
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["LC_ALL", "PATH"]);
    }

    #[test]
    fn a_tool_that_hangs_is_stopped_and_one_that_is_not_there_is_none() {
        let (world, tools) = live(100);
        let all = |text: &str| text.to_owned();
        let hung = tools.output(world.files.as_ref(), "sleep", &["60"], &all);
        assert!(
            matches!(&hung, Err((Why::TimedOut, message)) if message.contains("'sleep 60'")),
            "{hung:?}"
        );
        let none = tools.output(world.files.as_ref(), "no-such-tool-anywhere", &[], &all);
        assert_eq!(none, Ok(Fact::Known(None)));
    }
}
