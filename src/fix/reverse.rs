//! Undoes one step, as far as the present state allows it: see [`Chain`].

use std::path::Path;

use super::chain::{Chain, Standing, is_covered};
use super::command::{Reversal, command, reversal};
use super::journal::Journals;
use super::register::{Register, name, value};
use super::step::{ended, is_enabled, is_loaded, start};
use super::{Error, Report};
use crate::model::{
    AttributeWrite, ConfigWrite, DeviceNode, Digest, Entry, FileChange, FileMeta, FileRecord,
    ImageChange, Journal, Mutation, Operation, Progress,
};
use crate::world::{CommandLine, Executor, FileImage, Ran};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// The previous state is restored.
    Restored,
    /// It was in its previous state already.
    Already,
    /// A reboot reset it.
    Reset,
    /// There is nothing to undo.
    Nothing,
    /// The user has to run this command.
    Printed(String),
    /// Counted as undone because of --force, although gdr cannot verify it, for this reason.
    Accepted(String),
    /// Restored by force; what else the user should know.
    RestoredBut(String),
    /// Not undone, for this reason; --force overrides it.
    Refused(String),
    /// Not undone, because this failed.
    Failed(String),
}

impl Back {
    /// True if the step is not undone.
    pub fn is_left(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Failed(_))
    }
}

pub struct Undo<'a> {
    pub executor: &'a Executor,
    /// Where replaced files are kept.
    pub journals: &'a Journals,
    /// The machine rebooted since: volatile changes are gone.
    pub rebooted: bool,
    /// Restore also what others changed since.
    pub force: bool,
}

pub fn is_volatile(entry: &Entry) -> bool {
    match &entry.mutation {
        Mutation::WriteConfig(_) | Mutation::WriteAttribute(_) => true,
        Mutation::ReplaceFile(_) | Mutation::RebuildImage(_) => false,
        Mutation::Run(operation) => matches!(reversal(operation), Reversal::UntilReboot(_)),
    }
}

/// The name of what a step changes.
pub fn target(mutation: &Mutation) -> String {
    match mutation {
        Mutation::WriteConfig(write) => name(write),
        Mutation::ReplaceFile(change) => change.path.to_string(),
        Mutation::WriteAttribute(write) => write.path.to_string(),
        Mutation::RebuildImage(image) => image.build.path.to_string(),
        Mutation::Run(operation) => command(operation).to_string(),
    }
}

pub fn reverse(
    undo: &Undo<'_>,
    journal: &Journal,
    at: usize,
    report: Report<'_>,
) -> Result<Back, Error> {
    let Some(entry) = journal.entries.get(at) else {
        return Ok(Back::Nothing);
    };
    match &entry.mutation {
        Mutation::WriteConfig(write) => undo.config(&journal.entries, at, write),
        Mutation::WriteAttribute(write) => undo.attribute(&journal.entries, at, write),
        Mutation::ReplaceFile(change) => undo.file(journal, at, change),
        // gdr only printed the command.
        Mutation::RebuildImage(_) if entry.progress == Progress::Printed => Ok(Back::Nothing),
        Mutation::RebuildImage(image) => undo.image(image),
        Mutation::Run(operation) => undo.run(operation, entry.progress, report),
    }
}

impl Undo<'_> {
    fn file(&self, journal: &Journal, at: usize, change: &FileChange) -> Result<Back, Error> {
        let back = self.content(journal, at, change)?;
        if !back.is_left() {
            for directory in change.created.iter().rev() {
                self.executor.remove_directory(Path::new(directory.as_str()))?;
            }
        }
        Ok(back)
    }

    fn content(&self, journal: &Journal, at: usize, change: &FileChange) -> Result<Back, Error> {
        let path = Path::new(change.path.as_str());
        self.executor.sweep(path)?;
        let now = match self.executor.file(path) {
            Ok(now) => now,
            Err(error) if !self.force => return Ok(Back::Refused(error.sentence())),
            Err(error) => return Err(error.into()),
        };
        let digest = now.as_ref().map(|now| Digest::of(&now.content));
        let is_now = |state: &Option<&FileRecord>| match (state, &now, &digest) {
            (None, None, _) => true,
            (Some(record), Some(now), Some(digest)) => {
                record.sha256 == *digest && owner(&record.meta) == owner(&now.meta)
            }
            _ => false,
        };
        let chain = Chain::of(&journal.entries, at, |mutation| match mutation {
            Mutation::ReplaceFile(other) if other.path == change.path => {
                Some((other.before.as_ref(), other.after.as_ref()))
            }
            _ => None,
        });
        let Some(chain) = chain else {
            return Ok(Back::Nothing);
        };
        match chain.standing(is_now) {
            Standing::Back => return Ok(Back::Already),
            // The undo of an earlier step removed the directory that it had created: that state is older, and stays.
            _ if now.is_none() && self.is_directory_undone(journal, at, path)? => {
                return Ok(Back::Already);
            }
            Standing::Ours => {}
            Standing::Foreign if self.force => {}
            Standing::Foreign => {
                let state = match now {
                    Some(_) => "is not what gdr wrote",
                    None => "is gone",
                };
                return Ok(Back::Refused(format!("{} {state}: it was changed since", change.path)));
            }
        }
        match chain.goal {
            Some(record) => {
                let image = FileImage {
                    content: self.journals.saved(journal.number, &record.sha256)?,
                    meta: record.meta.clone(),
                    links: 1,
                };
                self.executor.replace(path, &image)?;
            }
            None if now.is_some() => self.executor.remove(path)?,
            None => {}
        }
        Ok(Back::Restored)
    }

    /// True if the file's directory is missing, and a step before `at` created it.
    fn is_directory_undone(
        &self,
        journal: &Journal,
        at: usize,
        path: &Path,
    ) -> Result<bool, Error> {
        let Some(directory) = path.parent() else {
            return Ok(false);
        };
        let creates = |entry: &Entry| match &entry.mutation {
            Mutation::ReplaceFile(change) => {
                let mut created = change.created.iter();
                created.any(|created| Path::new(created.as_str()) == directory)
            }
            _ => false,
        };
        let before = journal.entries.get(..at).unwrap_or_default();
        Ok(before.iter().any(creates) && !self.executor.is_there(directory)?)
    }

    fn attribute(
        &self,
        entries: &[Entry],
        at: usize,
        write: &AttributeWrite,
    ) -> Result<Back, Error> {
        let path = Path::new(write.path.as_str());
        self.executor.sweep(path)?;
        let now = match self.executor.attribute(path) {
            Ok(now) => now,
            Err(error) if error.is_absent() => return Ok(Back::Reset),
            Err(error) => return Err(error.into()),
        };
        let chain = Chain::of(entries, at, |mutation| match mutation {
            Mutation::WriteAttribute(other) if other.path == write.path => {
                Some((&other.old, &other.new))
            }
            _ => None,
        });
        let Some(chain) = chain else {
            return Ok(Back::Nothing);
        };
        match chain.standing(|state| **state == now) {
            Standing::Back => Ok(self.already()),
            Standing::Foreign if !self.force => Ok(Back::Refused(format!(
                "{path} reads '{now}', which gdr did not write: it was changed since",
                path = write.path
            ))),
            Standing::Ours | Standing::Foreign => {
                self.executor.write_attribute(path, chain.goal)?;
                Ok(Back::Restored)
            }
        }
    }

    fn config(&self, entries: &[Entry], at: usize, write: &ConfigWrite) -> Result<Back, Error> {
        let register = match Register::find(self.executor, write) {
            Ok(register) => register,
            Err(Error::File(error)) if error.is_absent() => {
                return Ok(if self.rebooted {
                    Back::Reset
                } else {
                    Back::Refused(format!("{} is gone", write.bdf))
                });
            }
            Err(error) => return Err(error),
        };
        let now = register.read(self.executor)?;
        // The bits of this step say nothing about who changed them while a later step has its own in them.
        if is_covered(entries, at, write) {
            return Ok(Back::Refused(format!(
                "a later step changed the same bits of {}, and is not undone",
                name(write)
            )));
        }
        let chain = Chain::of_register(entries, at, write);
        match chain.standing(|state| now & write.mask == state & write.mask) {
            Standing::Back => return Ok(self.already()),
            // After a reboot the value comes from the firmware and the kernel, not from this repair.
            _ if self.rebooted => return Ok(Back::Reset),
            Standing::Ours => {}
            Standing::Foreign if self.force => {}
            Standing::Foreign => {
                return Ok(Back::Refused(format!(
                    "{} reads {}, but gdr wrote {}: another tool changed it, or the kernel did after a device reset",
                    name(write),
                    value(write, now),
                    value(write, write.new)
                )));
            }
        }
        let now = register.set(self.executor, write.mask, chain.goal)?;
        if now & write.mask == write.old & write.mask {
            Ok(Back::Restored)
        } else {
            Ok(Back::Failed(format!(
                "{} was written {} and reads {}: the device ignores the write",
                name(write),
                value(write, write.old),
                value(write, now)
            )))
        }
    }

    fn image(&self, change: &ImageChange) -> Result<Back, Error> {
        let (path, kept) = (&change.build.path, change.build.kept());
        self.executor.sweep(Path::new(&kept))?;
        if self.executor.digest(Path::new(&kept))?.as_ref() != Some(&change.before) {
            // Not kept yet, or already put back.
            return match self.executor.digest(Path::new(path.as_str()))? {
                Some(now) if now == change.before => Ok(Back::Already),
                _ => Ok(Back::Failed(format!("{kept}, the previous image, is gone"))),
            };
        }
        let now = self.executor.digest(Path::new(path.as_str()))?;
        let is_rebuilt = matches!((&change.after, &now), (Some(after), Some(now))
            if after != now && *now != change.before);
        if is_rebuilt && !self.force {
            return Ok(Back::Refused(format!(
                "{path} was rebuilt since: the previous image is {kept}"
            )));
        }
        // As gdr built it, or incomplete.
        self.executor.put_back(Path::new(&kept), Path::new(path.as_str()))?;
        Ok(if is_rebuilt {
            Back::RestoredBut(format!(
                "{path} was rebuilt since, and the previous image may have options that no file has any more: 'gdr doctor --only \
                 param.drift' compares them"
            ))
        } else {
            Back::Restored
        })
    }

    fn run(
        &self,
        operation: &Operation,
        progress: Progress,
        report: Report<'_>,
    ) -> Result<Back, Error> {
        let opposite = match reversal(operation) {
            Reversal::Rerun => {
                return Ok(Back::Refused(format!(
                    "{} has to run again after the steps before it are undone",
                    command(operation)
                )));
            }
            Reversal::By(opposite) => opposite,
            Reversal::UntilReboot(_) if self.rebooted => return Ok(Back::Reset),
            Reversal::UntilReboot(opposite) => opposite,
        };
        if progress != Progress::Printed && self.is_undone(operation, progress)? {
            return Ok(Back::Already);
        }
        let command = command(&opposite);
        match start(self.executor, &command, report) {
            Ran::Ended { code: 0, .. } => Ok(Back::Restored),
            Ran::Printed => Ok(Back::Printed(command.to_string())),
            // The operation may have done nothing, all, or part of its work.
            other if progress == Progress::Started && self.force => {
                Ok(Back::Accepted(ended(&command, &other)))
            }
            other if progress == Progress::Started => Ok(Back::Refused(format!(
                "{}; gdr cannot determine how much the step did before it ended",
                ended(&command, &other)
            ))),
            other => Ok(Back::Failed(ended(&command, &other))),
        }
    }

    /// True if the effect of an operation is visibly gone.
    fn is_undone(&self, operation: &Operation, progress: Progress) -> Result<bool, Error> {
        let node = || self.executor.device_node(Path::new(DeviceNode::PATH));
        Ok(match operation {
            Operation::LoadModule { module } => !is_loaded(self.executor, module)?,
            // One of its links shows nothing about the others if systemctl failed half way.
            Operation::EnableUnit { .. } | Operation::DisableUnit { .. }
                if progress == Progress::Started =>
            {
                false
            }
            Operation::EnableUnit { unit } => !is_enabled(self.executor, unit)?,
            Operation::DisableUnit { unit } => is_enabled(self.executor, unit)?,
            Operation::MakeNode(_) => node()?.is_none(),
            Operation::RemoveNode(before) => node()? == Some(*before),
            Operation::SetNodeMode { old, .. } => node()?.is_none_or(|node| node.mode == *old),
            _ => false,
        })
    }

    fn already(&self) -> Back {
        if self.rebooted { Back::Reset } else { Back::Already }
    }
}

/// Runs a rebuild or reload again, after its input files are restored.
pub fn rerun(
    executor: &Executor,
    command: &CommandLine,
    expected: &[i32],
    report: Report<'_>,
) -> Back {
    match start(executor, command, report) {
        ran if super::step::is_success(&ran, expected) => Back::Restored,
        Ran::Printed => Back::Printed(command.to_string()),
        other => Back::Failed(ended(command, &other)),
    }
}

fn owner(meta: &FileMeta) -> (u32, u32, u32) {
    (meta.mode, meta.uid, meta.gid)
}
