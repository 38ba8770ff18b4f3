//! Undoes a repair, the last step first. Each step is recorded as it is undone, and what is undone already is left alone,
//! so that an undo that was interrupted is simply made again.

use super::command::{Reversal, command, expected, reversal};
use super::journal::Journals;
use super::reverse::{self, Back, again, reverse};
use super::{Error, Report};
use crate::model::{Journal, JournalState, Mutation, Operation, Progress};
use crate::world::Executor;

/// What came of undoing a repair.
#[derive(Debug, Clone)]
pub struct Undone {
    /// The journal, as it stands now.
    pub journal: Journal,
    /// Each step that was looked at, by its place in the journal, in the order in which they were undone, and what became
    /// of it.
    pub steps: Vec<(usize, Back)>,
    /// Whether all of it is undone.
    pub whole: bool,
}

/// Which repair is undone, and how.
#[derive(Debug, Clone, Default)]
pub struct UndoOptions {
    /// Its number; without it the newest that is not undone yet.
    pub number: Option<u32>,
    /// The present boot (`/proc/sys/kernel/random/boot_id`), where it is known.
    pub boot: Option<String>,
    /// Restores also what somebody else has changed since.
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
) -> Result<Undone, Error> {
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
        // One that cannot be undone keeps none of the others.
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
        let back = again(executor, &command(&operation), expected(&operation), report);
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
        // Ignored: what stays is removed with the journal.
        let _ = journals.discard(journal.number);
    }
    Ok(Undone {
        journal,
        steps,
        whole,
    })
}

/// The operation of a step that is undone by making it again.
fn rebuild(mutation: &Mutation) -> Option<&Operation> {
    match mutation {
        Mutation::Run(operation) if reversal(operation) == Reversal::Again => Some(operation),
        _ => None,
    }
}

fn interrupted(error: Error) -> Error {
    Error::Interrupted(Box::new(error))
}

/// The newest repair of which something may still be there.
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
