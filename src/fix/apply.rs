//! Makes a plan true, a step at a time: each is written down before it is done and read back after it.

use super::Error;
use super::journal::{Journals, is_cut_short};
use super::step::{Acted, act, look};
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
    journal.entries[at].progress = match act(hands, &action, &before)? {
        Acted::Done => Progress::Done,
        Acted::Printed => Progress::Printed,
    };
    Ok(())
}

/// A repair that met something else than planned. Where nothing was begun, nothing is left of it.
fn stopped(journals: &Journals<'_>, mut journal: Journal, error: Error) -> Result<Journal, Error> {
    journal.state = JournalState::Stopped(error.to_string());
    if !is_cut_short(&journal) {
        return Err(error);
    }
    // Where this cannot be written either, the journal on the disk still says what was begun.
    let _ = journals.write(&journal);
    Ok(journal)
}
