//! Undoes a repair, last step first. Every undone step is recorded, so an interrupted undo can be
//! repeated.

use super::command::{Reversal, command, expected, reversal};
use super::journal::Journals;
use super::reverse::{self, Back, rerun, reverse};
use super::{Error, Report};
use crate::model::{Journal, JournalState, Mutation, Operation, Progress};
use crate::world::Executor;

#[derive(Debug, Clone)]
pub struct UndoReport {
    /// The journal after the undo.
    pub journal: Journal,
    /// The steps tried, by index in the journal, in the order of the undo.
    pub steps: Vec<(usize, Back)>,
    pub whole: bool,
}

#[derive(Debug, Clone, Default)]
pub struct UndoOptions {
    /// The repair's number; `None` selects the newest that is not undone.
    pub number: Option<u32>,
    /// The present boot (`/proc/sys/kernel/random/boot_id`), if known.
    pub boot: Option<String>,
    /// Restore also what others changed since.
    pub force: bool,
}

/// The journal of the repair that [`undo`] undoes: by its number, else the newest that is not undone.
pub fn find(executor: &Executor, number: Option<u32>) -> Result<Journal, Error> {
    read(&open(executor, number)?, number)
}

fn open(executor: &Executor, number: Option<u32>) -> Result<Journals, Error> {
    let none = number.map_or(Error::NothingToUndo, Error::NoSuchRepair);
    Journals::open(executor)?.ok_or(none)
}

fn read(journals: &Journals, number: Option<u32>) -> Result<Journal, Error> {
    match number {
        Some(number) => journals.read(number)?.ok_or(Error::NoSuchRepair(number)),
        None => newest(journals),
    }
}

/// Undoes a repair. Commands are reported before they run.
pub fn undo(
    executor: &Executor,
    options: &UndoOptions,
    report: Report<'_>,
) -> Result<UndoReport, Error> {
    let journals = open(executor, options.number)?;
    let _lock = journals.lock()?;
    let mut journal = read(&journals, options.number)?;
    let undo = reverse::Undo {
        executor,
        journals: &journals,
        rebooted: matches!((&journal.boot, &options.boot), (Some(then), Some(now)) if then != now),
        force: options.force,
    };
    let mut steps = Vec::new();
    let mut rebuilds: Vec<Operation> = Vec::new();
    for at in (0..journal.entries.len()).rev() {
        if journal.entries[at].progress == Progress::Undone {
            continue;
        }
        if let Some(operation) = rebuild(&journal.entries[at].mutation) {
            if !rebuilds.contains(operation) {
                rebuilds.insert(0, operation.clone());
            }
            continue;
        }
        // A step that cannot be undone does not stop the others.
        let back = match reverse(&undo, &journal, at, report) {
            Ok(back) => back,
            Err(error) => Back::Refused(error.to_string()),
        };
        if !matches!(back, Back::Refused(_)) {
            journal.entries[at].progress = Progress::Undone;
            journals.write_undone(&journal).map_err(interrupted)?;
        }
        steps.push((at, back));
    }
    for operation in rebuilds {
        let back = rerun(executor, &command(&operation), expected(&operation), report);
        for (at, entry) in journal.entries.iter_mut().enumerate() {
            if entry.progress != Progress::Undone && rebuild(&entry.mutation) == Some(&operation) {
                if !matches!(back, Back::Refused(_)) {
                    entry.progress = Progress::Undone;
                }
                steps.push((at, back.clone()));
            }
        }
        journals.write_undone(&journal).map_err(interrupted)?;
    }
    let whole = journal
        .entries
        .iter()
        .all(|entry| entry.progress == Progress::Undone);
    if whole && journal.state != JournalState::Undone {
        journal.state = JournalState::Undone;
        journals.write_undone(&journal).map_err(interrupted)?;
    }
    if whole {
        // Ignored: the rest is removed with the journal.
        let _ = journals.discard(journal.number);
    }
    Ok(UndoReport {
        journal,
        steps,
        whole,
    })
}

/// The operation of a step whose undo is to run it again.
fn rebuild(mutation: &Mutation) -> Option<&Operation> {
    match mutation {
        Mutation::Run(operation) if reversal(operation) == Reversal::Rerun => Some(operation),
        _ => None,
    }
}

fn interrupted(error: Error) -> Error {
    Error::Interrupted(Box::new(error))
}

/// The newest repair that is not fully undone.
fn newest(journals: &Journals) -> Result<Journal, Error> {
    for number in journals.numbers()?.into_iter().rev() {
        if let Some(journal) = journals.read(number)?
            && journal.state != JournalState::Undone
        {
            return Ok(journal);
        }
    }
    Err(Error::NothingToUndo)
}
