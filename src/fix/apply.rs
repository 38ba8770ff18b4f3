//! Makes a plan true, a step at a time: each is written down before it is done and read back after it.

use super::Error;
use super::journal::Journals;
use super::step::{Acted, Back, act, look, reverse};
use crate::model::{Entry, JOURNAL_SCHEMA, Journal, JournalState, Plan, Progress};
use crate::world::Hands;

/// When and where a repair is made.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// The time (UTC, RFC 3339).
    pub taken: String,
    /// The boot (`/proc/sys/kernel/random/boot_id`), where it is known.
    pub boot: Option<String>,
}

/// Makes a plan true. The journal says how far it came; an error means that nothing was changed.
pub fn apply(hands: &Hands, plan: &Plan, moment: &Moment) -> Result<Journal, Error> {
    let journals = Journals::of(hands);
    let _lock = journals.lock()?;
    let number = journals.numbers()?.last().map_or(1, |last| last.saturating_add(1));
    journals.forget(moment.boot.as_deref())?;
    if let Some(number) = journals.unfinished()? {
        return Err(Error::Unfinished(number));
    }
    let mut journal = Journal {
        schema: JOURNAL_SCHEMA.to_owned(),
        number,
        gdr: env!("CARGO_PKG_VERSION").to_owned(),
        taken: moment.taken.clone(),
        boot: moment.boot.clone(),
        state: JournalState::Open,
        entries: plan
            .steps()
            .map(|(fix, step)| Entry {
                fix: fix.to_owned(),
                step: step.clone(),
                progress: Progress::Planned,
                before: Default::default(),
            })
            .collect(),
    };
    for at in 0..journal.entries.len() {
        if let Err(error) = one(hands, &journals, &mut journal, at) {
            return stopped(&journals, journal, error);
        }
    }
    journal.state = JournalState::Applied;
    match journals.write(&journal) {
        Ok(()) => Ok(journal),
        Err(error) => stopped(&journals, journal, error),
    }
}

fn one(hands: &Hands, journals: &Journals<'_>, journal: &mut Journal, at: usize) -> Result<(), Error> {
    let action = journal.entries[at].step.action.clone();
    let before = look(hands, &action)?;
    journal.entries[at].before = before.clone();
    journal.entries[at].progress = Progress::Begun;
    if let Err(error) = journals.write(journal) {
        // It was not begun: on the disk it never will have been.
        journal.entries[at].progress = Progress::Planned;
        return Err(error);
    }
    match act(hands, &action, &before) {
        Ok(Acted::Done) => journal.entries[at].progress = Progress::Done,
        Ok(Acted::Printed) => journal.entries[at].progress = Progress::Printed,
        Err(error) => {
            // Nobody else was at it since: what this step left half done is taken back at once.
            let back = reverse(hands, &journal.entries[at], false, true);
            if back.is_ok_and(|back| !matches!(back, Back::Refused(_))) {
                journal.entries[at].progress = Progress::Planned;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// A repair that met something else than planned. Where nothing is left of it, it is as if it had not been begun.
fn stopped(journals: &Journals<'_>, mut journal: Journal, error: Error) -> Result<Journal, Error> {
    let touched = journal.entries.iter().any(|entry| entry.progress != Progress::Planned);
    let begun = journals
        .numbers()
        .is_ok_and(|numbers| numbers.contains(&journal.number));
    journal.state = match touched {
        true => JournalState::Stopped(error.to_string()),
        false => JournalState::Undone,
    };
    if begun {
        // Where this cannot be written, the journal on the disk still says what was begun.
        let _ = journals.write(&journal);
    }
    match touched {
        true => Ok(journal),
        false => Err(error),
    }
}
