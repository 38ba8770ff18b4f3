//! Journals of repairs, in `/var/lib/gdr/journal`: one file per repair, rewritten before every step.
//! Replaced files are kept in `/var/lib/gdr/saved`.

use std::path::Path;

use super::Error;
use crate::model::{Digest, Entry, JOURNAL_SCHEMA, Journal, JournalState, Progress};
use crate::world::{Executor, FileError, LARGEST, Lock, Locked, PrivateDirectory};

const STATE: &str = "/var/lib/gdr";
const JOURNALS: &str = "journal";
const SAVED: &str = "saved";
const LOCK: &str = "lock";

/// Limit for reading, and for the journals that an undo writes.
const LARGEST_READ: u64 = 8 << 20;
/// Limit for a repair in progress; leaves room for what an undo adds to each step.
const LARGEST_MADE: u64 = 7 << 20;

/// The journals of a machine, writable by this user alone.
pub struct Journals {
    state: PrivateDirectory,
    journals: PrivateDirectory,
    saved: PrivateDirectory,
}

impl Journals {
    /// `None` if no repair was ever made.
    pub fn open(executor: &Executor) -> Result<Option<Self>, Error> {
        let Some(state) = executor.private(Path::new(STATE))? else {
            return Ok(None);
        };
        match (state.inner(JOURNALS)?, state.inner(SAVED)?) {
            (Some(journals), Some(saved)) => Ok(Some(Self { state, journals, saved })),
            _ => Ok(None),
        }
    }

    /// Creates the directories if needed.
    pub fn create(executor: &Executor) -> Result<Self, Error> {
        let state = executor.make_private(Path::new(STATE))?;
        Ok(Self {
            // Created first, because `open` needs both directories.
            saved: state.make_inner(SAVED)?,
            journals: state.make_inner(JOURNALS)?,
            state,
        })
    }

    /// Locks the machine against other repairs.
    pub fn lock(&self) -> Result<Lock, Error> {
        match self.state.lock(LOCK)? {
            Locked::Ours(lock) => Ok(lock),
            Locked::Theirs(holders) => Err(Error::Busy { lock: self.state.path(LOCK), holders }),
        }
    }

    pub fn numbers(&self) -> Result<Vec<u32>, Error> {
        let names = self.journals.list()?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub fn next(&self) -> Result<u32, Error> {
        let last = self.numbers()?.last().copied().unwrap_or(0);
        last.checked_add(1).ok_or_else(|| Error::Numbers(self.journals.path(&name(last))))
    }

    pub fn read(&self, number: u32) -> Result<Option<Journal>, Error> {
        let name = name(number);
        let unusable = |why: String| Error::Journal { path: self.journals.path(&name), why };
        let Some(text) = self.journals.read(&name, LARGEST_READ)? else {
            return Ok(None);
        };
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        if journal.schema == JOURNAL_SCHEMA && journal.number == number {
            Ok(Some(journal))
        } else {
            Err(unusable(format!("not {JOURNAL_SCHEMA} number {number}")))
        }
    }

    /// Writes a journal and syncs it to disk.
    pub fn write(&self, journal: &Journal) -> Result<(), Error> {
        let text = text(journal, LARGEST_MADE)?;
        Ok(self.journals.replace(&name(journal.number), text)?)
    }

    /// Like `write`, during an undo.
    pub fn write_undone(&self, journal: &Journal) -> Result<(), Error> {
        let text = text(journal, LARGEST_READ)?;
        Ok(self.journals.replace(&name(journal.number), text)?)
    }

    /// Writes a new journal; fails if one of this number exists.
    pub fn begin(&self, journal: &Journal) -> Result<(), Error> {
        Ok(self.journals.create(&name(journal.number), text(journal, LARGEST_MADE)?)?)
    }

    /// Saves the content of a file before it is replaced, and syncs it to disk.
    pub fn save(&self, number: u32, content: &[u8]) -> Result<(), Error> {
        Ok(self.saved.replace(&saved(number, &Digest::of(content)), content.to_vec())?)
    }

    /// The saved content of a replaced file.
    pub fn saved(&self, number: u32, digest: &Digest) -> Result<Vec<u8>, Error> {
        let name = saved(number, digest);
        let unusable =
            |why: &str| Error::Saved { path: self.saved.path(&name), why: why.to_owned() };
        match self.saved.read(&name, LARGEST)? {
            None => Err(unusable("it is gone")),
            Some(content) if Digest::of(&content) != *digest => Err(unusable("it was changed")),
            Some(content) => Ok(content),
        }
    }

    /// Removes the saved files of a repair.
    pub fn discard(&self, number: u32) -> Result<(), FileError> {
        let prefix = format!("{number}-");
        for name in self.saved.list()?.iter().filter(|name| name.starts_with(&prefix)) {
            self.saved.remove(name)?;
        }
        Ok(())
    }

    /// Removes journals of earlier boots whose every step was reset by the reboot. Otherwise a repair
    /// repeated at every boot would leave one journal each time, and an interrupted one would block
    /// all others.
    pub fn forget(&self, boot: Option<&str>, is_volatile: fn(&Entry) -> bool) -> Result<(), Error> {
        for number in self.numbers()? {
            // Leave unreadable journals alone.
            let Ok(Some(journal)) = self.read(number) else {
                continue;
            };
            let earlier =
                matches!((journal.boot.as_deref(), boot), (Some(then), Some(now)) if then != now);
            if earlier && journal.entries.iter().all(is_volatile) {
                self.journals.remove(&name(number))?;
                self.discard(number)?;
            }
        }
        Ok(())
    }

    /// The newest interrupted repair.
    pub fn unfinished(&self) -> Result<Option<u32>, Error> {
        for number in self.numbers()?.into_iter().rev() {
            if self.read(number)?.is_some_and(|journal| is_interrupted(&journal)) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// True if a failed repair may have left changes.
pub fn is_interrupted(journal: &Journal) -> bool {
    let touched = |progress| matches!(progress, Progress::Started | Progress::Done);
    matches!(journal.state, JournalState::Open | JournalState::Stopped(_))
        && journal.entries.iter().any(|entry| touched(entry.progress))
}

fn text(journal: &Journal, largest: u64) -> Result<Vec<u8>, Error> {
    let text = crate::model::to_json(journal)
        .map_err(|error| Error::Unexpected(error.to_string()))?
        .into_bytes();
    if u64::try_from(text.len()).is_ok_and(|size| size <= largest) {
        Ok(text)
    } else {
        Err(Error::Unexpected(format!(
            "the journal of this repair would have {} bytes, the limit is {largest}: apply fewer fixes at once",
            text.len()
        )))
    }
}

fn name(number: u32) -> String {
    format!("{number}.json")
}

/// The repair's number, if this is a journal's file name.
fn number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".json")?.parse().ok()?;
    (self::name(number) == name).then_some(number)
}

fn saved(number: u32, digest: &Digest) -> String {
    format!("{number}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mutation, Operation};

    /// A journal of many short steps.
    fn journal(steps: usize, progress: Progress) -> Journal {
        let entry = Entry {
            fix: String::new(),
            about: String::new(),
            mutation: Mutation::Run(Operation::UpdateGrub),
            progress,
        };
        Journal {
            schema: JOURNAL_SCHEMA.to_owned(),
            number: 1,
            gdr: String::new(),
            taken: String::new(),
            boot: None,
            state: JournalState::Open,
            steps,
            entries: vec![entry; steps],
        }
    }

    #[test]
    fn undo_of_largest_journal_is_readable() {
        let size = |steps| text(&journal(steps, Progress::Done), u64::MAX).expect("a text").len();
        let most = usize::try_from(LARGEST_MADE).expect("a size") / (size(2) - size(1)) - 10;
        text(&journal(most, Progress::Done), LARGEST_MADE).expect("within the limit");
        let undone = Journal {
            state: JournalState::Stopped("x".repeat(10_000)),
            ..journal(most, Progress::Undone)
        };
        let undone = text(&undone, LARGEST_READ).expect("within the limit");
        assert!(undone.len() as u64 <= LARGEST_READ);
        let error = text(&journal(most + 20, Progress::Done), LARGEST_MADE).expect_err("too large");
        assert!(error.to_string().contains("apply fewer fixes at once"), "{error}");
    }
}
