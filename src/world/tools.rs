//! Read-only command-line tools of the machine.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Files;
use super::child::Running;
use super::command::{DIRECTORIES, with_clean_environment};
use crate::model::{Fact, LibraryAnswer, ToolOutput, Why};

/// Finds tools in the standard directories and runs those that only read. Ignores the caller's PATH, which often
/// lacks sbin.
pub struct Tools {
    source: Source,
    record: Option<ToolAnswers>,
}

enum Source {
    /// Run on this machine with this timeout.
    Live(Duration),
    /// Recorded answers, by command line; empty for a directory.
    Recorded(BTreeMap<String, LibraryAnswer<ToolOutput>>),
}

/// The answers recorded so far.
#[derive(Clone, Default)]
pub struct ToolAnswers(Arc<Mutex<BTreeMap<String, LibraryAnswer<ToolOutput>>>>);

impl ToolAnswers {
    pub fn take(&self) -> BTreeMap<String, LibraryAnswer<ToolOutput>> {
        // Each answer is one assignment, so a panic leaves no partial state.
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tools {
    /// The tools of this machine with this timeout.
    pub fn live(timeout: Duration) -> Self {
        Self { source: Source::Live(timeout), record: None }
    }

    /// The tools of a machine in a directory; `gdr/tools.json` may contain answers, by command line.
    pub fn laid_out(read: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let answers = read("/gdr/tools.json").and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self::recorded(answers.unwrap_or_default())
    }

    pub fn recorded(answers: BTreeMap<String, LibraryAnswer<ToolOutput>>) -> Self {
        Self { source: Source::Recorded(answers), record: None }
    }

    /// Records all answers.
    pub fn recording(self, answers: ToolAnswers) -> Self {
        Self { record: Some(answers), ..self }
    }

    /// Runs a read-only tool by its absolute path, without input or the caller's environment, until the deadline.
    /// Returns what `keep` returns of its standard output (it must be idempotent) and its exit status; `None` if
    /// it is not installed.
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
        let line =
            std::iter::once(name).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ");
        let answer = match &self.source {
            Source::Live(timeout) => match run(&path, arguments, *timeout) {
                Ok(output) => {
                    LibraryAnswer::Answered(ToolOutput { text: keep(&output.text), ..output })
                }
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

    /// The tool's path; `None` if it is not installed. Unknown if none of the directories was recorded, or if the tool was not
    /// found and may be where gdr could not look.
    pub fn locate(&self, files: &dyn Files, name: &str) -> Fact<Option<PathBuf>> {
        let directories: Vec<&Path> = DIRECTORIES
            .iter()
            .map(Path::new)
            .filter(|directory| match files.exists(directory) {
                Ok(exists) => exists,
                Err(error) => error.why() != Why::NotCovered,
            })
            .collect();
        if directories.is_empty() {
            return Fact::Unknown(Why::NotCovered);
        }
        let mut hidden = None;
        for path in directories.iter().map(|directory| directory.join(name)) {
            match files.exists(&path) {
                Ok(true) => return Fact::Known(Some(path)),
                // Not in this snapshot.
                Err(error) if error.why() == Why::NotCovered => {
                    return Fact::Unknown(Why::NotCovered);
                }
                Err(error) => hidden = hidden.or(Some(error.why())),
                Ok(false) => {}
            }
        }
        hidden.map_or(Fact::Known(None), Fact::Unknown)
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
            format!("'{line}' timed out after {} s and was stopped", timeout.as_secs_f64()),
        ),
        io::ErrorKind::PermissionDenied => (Why::Denied, format!("cannot run '{line}': {error}")),
        _ => (Why::Broken, format!("cannot run '{line}': {error}")),
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
    fn records_and_replays_tool_output() {
        let (world, tools) = live(10_000);
        let answers = ToolAnswers::default();
        let tools = tools.recording(answers.clone());
        let upper = |text: &str| text.to_uppercase();
        let output = tools.output(world.files.as_ref(), "sh", &["-c", "echo x; exit 3"], &upper);
        let expected = ToolOutput { code: Some(3), text: "X\n".to_owned() };
        assert_eq!(output, Ok(Fact::Known(Some(expected.clone()))));
        let replayed = Tools::recorded(answers.take());
        let output = replayed.output(world.files.as_ref(), "sh", &["-c", "echo x; exit 3"], &upper);
        assert_eq!(output, Ok(Fact::Known(Some(expected))));
        let other = replayed.output(world.files.as_ref(), "sh", &["-c", "true"], &upper);
        assert_eq!(other, Ok(Fact::Unknown(Why::NotCovered)));
    }

    #[test]
    fn clears_caller_environment() {
        assert!(std::env::var_os("HOME").is_some(), "the test needs a variable to leave out");
        let (world, tools) = live(10_000);
        let all = |text: &str| text.to_owned();
        let printed = tools.output(world.files.as_ref(), "env", &[], &all);
        let Ok(Fact::Known(Some(printed))) = printed else {
            panic!("{printed:?}");
        };
        let mut names: Vec<&str> =
            printed.text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["LC_ALL", "PATH"]);
    }

    #[test]
    fn stops_hanging_tool_and_missing_tool_is_none() {
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
