//! Undoes a repair, last step first. Every undone step is recorded, so an interrupted undo can be
//! repeated.

use super::command::{Reversal, command, expected, is_source, reversal};
use super::journal::Journals;
use super::reverse::{self, Back, rerun, reverse, target};
use super::{Error, Report};
use crate::model::{Entry, Journal, JournalState, Mutation, Operation, Progress};
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
    reopen(&mut journal);
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
            Err(error) => Back::Failed(error.to_string()),
        };
        if !back.is_left() {
            journal.entries[at].progress = Progress::Undone;
            journals.write_undone(&journal).map_err(interrupted)?;
        }
        steps.push((at, back));
    }
    for operation in rebuilds {
        let back = rebuilt(&undo, &journal, &operation, report);
        for (at, entry) in journal.entries.iter_mut().enumerate() {
            if entry.progress != Progress::Undone && rebuild(&entry.mutation) == Some(&operation) {
                if !back.is_left() {
                    entry.progress = Progress::Undone;
                }
                steps.push((at, back.clone()));
            }
        }
        journals.write_undone(&journal).map_err(interrupted)?;
    }
    let whole = journal.entries.iter().all(|entry| entry.progress == Progress::Undone);
    if whole && journal.state != JournalState::Undone {
        journal.state = JournalState::Undone;
        journals.write_undone(&journal).map_err(interrupted)?;
    }
    if whole {
        // Ignored: the rest is removed with the journal.
        let _ = journals.discard(journal.number);
    }
    Ok(UndoReport { journal, steps, whole })
}

/// Runs a rebuild once more. It counts only if everything that it is made of is restored.
fn rebuilt(
    undo: &reverse::Undo<'_>,
    journal: &Journal,
    operation: &Operation,
    report: Report<'_>,
) -> Back {
    let (restored, left): (Vec<&Entry>, Vec<&Entry>) =
        sources(journal, operation).partition(|source| source.progress == Progress::Undone);
    let is_not_restored = |source: &Entry| {
        let name = target(&source.mutation);
        format!("{name}, which it reads, is not restored")
    };
    // What it is made of has not changed.
    if let (Some(source), true) = (left.first(), restored.is_empty()) {
        return Back::Refused(is_not_restored(source));
    }
    let back = rerun(undo.executor, &command(operation), expected(operation), report);
    match left.first() {
        Some(source) if !back.is_left() => {
            Back::Refused(format!("{}: the next undo runs it again", is_not_restored(source)))
        }
        _ => back,
    }
}

/// Rebuilds run again as long as something that they are made of is not restored.
fn reopen(journal: &mut Journal) {
    for at in 0..journal.entries.len() {
        let entry = &journal.entries[at];
        let is_stale = rebuild(&entry.mutation).is_some_and(|operation| {
            sources(journal, operation).any(|source| source.progress != Progress::Undone)
        });
        if is_stale && entry.progress == Progress::Undone {
            journal.entries[at].progress = Progress::Started;
        }
    }
}

/// The steps that change what a rebuild is made of.
fn sources<'j>(journal: &'j Journal, operation: &'j Operation) -> impl Iterator<Item = &'j Entry> {
    let entries = journal.entries.iter();
    entries.filter(|entry| is_source(operation, &entry.mutation))
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
