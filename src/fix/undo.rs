//! Takes a repair back, the last step first. What is there already is left alone, so that an undo that was cut short is
//! simply made again.

use super::Error;
use super::journal::Journals;
use super::step::{Back, again, reverse};
use crate::model::{Action, Journal, JournalState, Progress, Reversal};
use crate::world::Hands;

/// What came of taking a repair back.
#[derive(Debug, Clone)]
pub struct Undone {
    /// The journal, as it stands now.
    pub journal: Journal,
    /// Each step that was looked at, by its place in the journal, in the order in which they were taken back, and what
    /// became of it.
    pub steps: Vec<(usize, Back)>,
    /// Whether all of it is back.
    pub whole: bool,
}

/// Takes a repair back: the one with this number, else the newest that was not taken back yet. `boot` is the present boot.
pub fn undo(hands: &Hands, number: Option<u32>, boot: Option<&str>, force: bool) -> Result<Undone, Error> {
    let journals = Journals::of(hands);
    let _lock = journals.lock()?;
    let mut journal = match number {
        Some(number) => journals.read(number)?,
        None => newest(&journals)?,
    };
    let rebooted = match (journal.boot.as_deref(), boot) {
        (Some(then), Some(now)) => then != now,
        _ => false,
    };
    let mut steps = Vec::new();
    let mut rebuilt: Vec<(Vec<String>, Vec<i32>)> = Vec::new();
    for at in (0..journal.entries.len()).rev() {
        let entry = &journal.entries[at];
        if matches!(entry.progress, Progress::Planned | Progress::Undone) {
            continue;
        }
        if let Action::RunCommand {
            argv,
            undo: Reversal::Again,
            expected,
        } = &entry.step.action
        {
            if !rebuilt.iter().any(|(there, _)| there == argv) {
                rebuilt.insert(0, (argv.clone(), expected.clone()));
            }
            continue;
        }
        // One that cannot be taken back keeps none of the others.
        let back = match reverse(hands, entry, rebooted, force) {
            Ok(back) => back,
            Err(error) => Back::Refused(error.to_string()),
        };
        if !matches!(back, Back::Refused(_)) {
            journal.entries[at].progress = Progress::Undone;
        }
        steps.push((at, back));
    }
    for (argv, expected) in rebuilt {
        let back = again(hands, &argv, &expected)?;
        for (at, entry) in journal.entries.iter_mut().enumerate() {
            let is_it = matches!(&entry.step.action, Action::RunCommand { argv: its, undo: Reversal::Again, .. } if *its == argv);
            if is_it && !matches!(entry.progress, Progress::Planned | Progress::Undone) {
                if !matches!(back, Back::Refused(_)) {
                    entry.progress = Progress::Undone;
                }
                steps.push((at, back.clone()));
            }
        }
    }
    let whole = !steps.iter().any(|(_, back)| matches!(back, Back::Refused(_)));
    if whole {
        journal.state = JournalState::Undone;
    }
    journals.write(&journal)?;
    Ok(Undone { journal, steps, whole })
}

/// The newest repair of which something may still be there.
fn newest(journals: &Journals<'_>) -> Result<Journal, Error> {
    for number in journals.numbers()?.into_iter().rev() {
        let journal = journals.read(number)?;
        if journal.state != JournalState::Undone {
            return Ok(journal);
        }
    }
    Err(Error::NothingToUndo)
}
