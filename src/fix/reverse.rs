//! Undoes one step. Steps that change the same file, attribute or register form a chain of states.
//! Comparing the present state with the chain shows what is already undone and what others changed.

use std::path::Path;

use super::command::{Reversal, command, reversal};
use super::journal::Journals;
use super::register::{Register, name, value};
use super::step::{ended, is_enabled, is_loaded, start};
use super::{Error, Report};
use crate::model::{
    AttributeWrite, ConfigWrite, DeviceNode, Digest, Entry, FileChange, FileMeta, FilePath,
    FileRecord, ImageChange, Journal, Mutation, Operation, Progress,
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
    /// Not undone, for this reason.
    Refused(String),
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
        Mutation::WriteConfig(write) => undo.config(&others(journal, at), write),
        Mutation::WriteAttribute(write) => undo.attribute(&others(journal, at), write),
        Mutation::ReplaceFile(change) => undo.file(&others(journal, at), change, journal.number),
        // gdr only printed the command.
        Mutation::RebuildImage(_) if entry.progress == Progress::Printed => Ok(Back::Nothing),
        Mutation::RebuildImage(image) => undo.image(image),
        Mutation::Run(operation) => undo.run(operation, entry.progress, report),
    }
}

/// The steps before and after one step.
struct Others<'a> {
    before: &'a [Entry],
    after: &'a [Entry],
}

fn others(journal: &Journal, at: usize) -> Others<'_> {
    Others {
        before: &journal.entries[..at],
        after: &journal.entries[at + 1..],
    }
}

/// The present state relative to one step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// As before this step, or earlier.
    Back,
    /// As this step or a later one left it.
    Ours,
    /// Changed by others.
    Foreign,
}

/// Classifies the present state. `before` precedes the step, `earlier` are the states before that,
/// `later` those after the step and its successors.
fn standing<T>(
    is_now: impl Fn(&T) -> bool,
    before: &T,
    earlier: impl IntoIterator<Item = T>,
    later: impl IntoIterator<Item = T>,
) -> Standing {
    if is_now(before) {
        return Standing::Back;
    }
    if later.into_iter().any(|state| is_now(&state)) {
        return Standing::Ours;
    }
    match earlier.into_iter().any(|state| is_now(&state)) {
        true => Standing::Back,
        false => Standing::Foreign,
    }
}

impl Undo<'_> {
    fn file(&self, others: &Others<'_>, change: &FileChange, number: u32) -> Result<Back, Error> {
        let back = self.content(others, change, number)?;
        if !matches!(back, Back::Refused(_)) {
            for directory in change.created.iter().rev() {
                self.executor
                    .remove_directory(Path::new(directory.as_str()))?;
            }
        }
        Ok(back)
    }

    fn content(
        &self,
        others: &Others<'_>,
        change: &FileChange,
        number: u32,
    ) -> Result<Back, Error> {
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
        let earlier = changes(others.before, &change.path).map(|other| other.before.as_ref());
        let later = changes(others.after, &change.path).map(|other| other.after.as_ref());
        let later = std::iter::once(change.after.as_ref()).chain(later);
        let standing = standing(is_now, &change.before.as_ref(), earlier, later);
        match standing {
            Standing::Back => return Ok(Back::Already),
            Standing::Ours => {}
            Standing::Foreign if self.force => {}
            Standing::Foreign => {
                let state = match now {
                    Some(_) => "is not what gdr wrote",
                    None => "is gone",
                };
                return Ok(Back::Refused(format!(
                    "{} {state}: it was changed since",
                    change.path
                )));
            }
        }
        match &change.before {
            Some(record) => {
                let image = FileImage {
                    content: self.journals.saved(number, &record.sha256)?,
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

    fn attribute(&self, others: &Others<'_>, write: &AttributeWrite) -> Result<Back, Error> {
        let path = Path::new(write.path.as_str());
        self.executor.sweep(path)?;
        let now = match self.executor.attribute(path) {
            Ok(now) => now,
            Err(error) if error.is_absent() => return Ok(Back::Reset),
            Err(error) => return Err(error.into()),
        };
        let same = |entry: &Entry| match &entry.mutation {
            Mutation::WriteAttribute(other) if other.path == write.path => {
                Some((other.old.clone(), other.new.clone()))
            }
            _ => None,
        };
        let earlier = others.before.iter().filter_map(same).map(|(old, _)| old);
        let later = others.after.iter().filter_map(same).map(|(_, new)| new);
        let later = std::iter::once(write.new.clone()).chain(later);
        match standing(|state| *state == now, &write.old, earlier, later) {
            Standing::Back => Ok(self.already()),
            Standing::Foreign if !self.force => Ok(Back::Refused(format!(
                "{path} reads '{now}', which gdr did not write: it was changed since",
                path = write.path
            ))),
            Standing::Ours | Standing::Foreign => {
                self.executor.write_attribute(path, &write.old)?;
                Ok(Back::Restored)
            }
        }
    }

    fn config(&self, others: &Others<'_>, write: &ConfigWrite) -> Result<Back, Error> {
        let register = match Register::find(self.executor, write) {
            Ok(register) => register,
            Err(Error::File(error)) if error.is_absent() => {
                return Ok(match self.rebooted {
                    true => Back::Reset,
                    false => Back::Refused(format!("{} is gone", write.bdf)),
                });
            }
            Err(error) => return Err(error),
        };
        let now = register.read(self.executor)?;
        let place = |write: &ConfigWrite| (write.bdf, write.capability, write.offset, write.width);
        let same = |entry: &Entry| match &entry.mutation {
            Mutation::WriteConfig(other) if place(other) == place(write) => {
                Some((other.old, other.new))
            }
            _ => None,
        };
        let earlier = others.before.iter().filter_map(same).map(|(old, _)| old);
        let later = others.after.iter().filter_map(same).map(|(_, new)| new);
        let later = std::iter::once(write.new).chain(later);
        match standing(
            |state| now & write.mask == state & write.mask,
            &write.old,
            earlier,
            later,
        ) {
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
        let now = register.set(self.executor, write.mask, write.old)?;
        match now & write.mask == write.old & write.mask {
            true => Ok(Back::Restored),
            false => Ok(Back::Refused(format!(
                "{} was written {} and reads {}: the device ignores the write",
                name(write),
                value(write, write.old),
                value(write, now)
            ))),
        }
    }

    fn image(&self, change: &ImageChange) -> Result<Back, Error> {
        let (path, kept) = (&change.build.path, change.build.kept());
        self.executor.sweep(Path::new(&kept))?;
        if self.executor.digest(Path::new(&kept))?.as_ref() != Some(&change.before) {
            // Not kept yet, or already put back.
            return match self.executor.digest(Path::new(path.as_str()))? {
                Some(now) if now == change.before => Ok(Back::Already),
                _ => Ok(Back::Refused(format!(
                    "{kept}, the previous image, is gone"
                ))),
            };
        }
        let now = self.executor.digest(Path::new(path.as_str()))?;
        match (&change.after, now) {
            (Some(after), Some(now)) if *after != now && now != change.before && !self.force => {
                Ok(Back::Refused(format!(
                    "{path} was rebuilt since: the previous image is {kept}"
                )))
            }
            // As gdr built it, or incomplete.
            _ => {
                self.executor
                    .put_back(Path::new(&kept), Path::new(path.as_str()))?;
                Ok(Back::Restored)
            }
        }
    }

    fn run(
        &self,
        operation: &Operation,
        progress: Progress,
        report: Report<'_>,
    ) -> Result<Back, Error> {
        let opposite = match reversal(operation) {
            // Run once, after all other steps.
            Reversal::Rerun => return Ok(Back::Nothing),
            Reversal::By(opposite) => opposite,
            Reversal::UntilReboot(_) if self.rebooted => return Ok(Back::Reset),
            Reversal::UntilReboot(opposite) => opposite,
        };
        if progress != Progress::Printed && self.is_undone(operation)? {
            return Ok(Back::Already);
        }
        let command = command(&opposite);
        match start(self.executor, &command, report) {
            Ran::Ended { code: 0, .. } => Ok(Back::Restored),
            Ran::Printed => Ok(Back::Printed(command.to_string())),
            // The operation may never have run.
            Ran::Ended { .. } if progress == Progress::Started => Ok(Back::Nothing),
            other => Ok(Back::Refused(ended(&command, &other))),
        }
    }

    /// True if the effect of an operation is visibly gone.
    fn is_undone(&self, operation: &Operation) -> Result<bool, Error> {
        let node = || self.executor.device_node(Path::new(DeviceNode::PATH));
        Ok(match operation {
            Operation::LoadModule { module } => !is_loaded(self.executor, module)?,
            Operation::EnableUnit { unit } => !is_enabled(self.executor, unit)?,
            Operation::DisableUnit { unit } => is_enabled(self.executor, unit)?,
            Operation::MakeNode(_) => node()?.is_none(),
            Operation::RemoveNode(before) => node()? == Some(*before),
            Operation::SetNodeMode { old, .. } => node()?.is_none_or(|node| node.mode == *old),
            _ => false,
        })
    }

    fn already(&self) -> Back {
        match self.rebooted {
            true => Back::Reset,
            false => Back::Already,
        }
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
        other => Back::Refused(ended(command, &other)),
    }
}

fn changes<'a>(entries: &'a [Entry], path: &'a FilePath) -> impl Iterator<Item = &'a FileChange> {
    entries
        .iter()
        .filter_map(move |entry| match &entry.mutation {
            Mutation::ReplaceFile(change) if change.path == *path => Some(change),
            _ => None,
        })
}

fn owner(meta: &FileMeta) -> (u32, u32, u32) {
    (meta.mode, meta.uid, meta.gid)
}
