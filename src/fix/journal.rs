//! The journals of repairs, in `/var/lib/gdr/journal`: one file for each repair, written whole before every step. What a
//! repair replaces is kept beside them, in `/var/lib/gdr/saved`.

use std::path::Path;

use super::Error;
use crate::model::{Digest, Entry, JOURNAL_SCHEMA, Journal, JournalState, Progress};
use crate::world::{Executor, FileError, LARGEST, Lock, Locked, PrivateDirectory};

const STATE: &str = "/var/lib/gdr";
const JOURNALS: &str = "journal";
const SAVED: &str = "saved";
const LOCK: &str = "lock";

/// The largest journal that is read, and so the largest that an undo writes.
const LARGEST_READ: u64 = 8 << 20;
/// The largest journal of a repair that is being made: its undo writes a few bytes more for each step.
const LARGEST_MADE: u64 = 7 << 20;

/// The journals of a machine. Everything in them belongs to this user, and nobody else may write to it.
pub struct Journals {
    state: PrivateDirectory,
    journals: PrivateDirectory,
    saved: PrivateDirectory,
}

impl Journals {
    /// Those of a machine; `None` where no repair was ever made.
    pub fn open(executor: &Executor) -> Result<Option<Self>, Error> {
        let Some(state) = executor.private(Path::new(STATE))? else {
            return Ok(None);
        };
        match (state.inner(JOURNALS)?, state.inner(SAVED)?) {
            (Some(journals), Some(saved)) => Ok(Some(Self {
                state,
                journals,
                saved,
            })),
            _ => Ok(None),
        }
    }

    /// The same, for a repair that is about to be made.
    pub fn create(executor: &Executor) -> Result<Self, Error> {
        let state = executor.make_private(Path::new(STATE))?;
        Ok(Self {
            // The second exists wherever the first does, for `open` asks for both.
            saved: state.make_inner(SAVED)?,
            journals: state.make_inner(JOURNALS)?,
            state,
        })
    }

    /// The right to change the machine, held until the lock is dropped.
    pub fn lock(&self) -> Result<Lock, Error> {
        match self.state.lock(LOCK)? {
            Locked::Ours(lock) => Ok(lock),
            Locked::Theirs(holders) => Err(Error::Busy {
                lock: self.state.path(LOCK),
                holders,
            }),
        }
    }

    /// The numbers of all repairs, in order.
    pub fn numbers(&self) -> Result<Vec<u32>, Error> {
        let names = self.journals.list()?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The number of the next repair.
    pub fn next(&self) -> Result<u32, Error> {
        let last = self.numbers()?.last().copied().unwrap_or(0);
        last.checked_add(1)
            .ok_or_else(|| Error::Numbers(self.journals.path(&name(last))))
    }

    /// A journal; `None` where there is none of this number.
    pub fn read(&self, number: u32) -> Result<Option<Journal>, Error> {
        let name = name(number);
        let unusable = |why: String| Error::Journal {
            path: self.journals.path(&name),
            why,
        };
        let Some(text) = self.journals.read(&name, LARGEST_READ)? else {
            return Ok(None);
        };
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        match journal.schema == JOURNAL_SCHEMA && journal.number == number {
            true => Ok(Some(journal)),
            false => Err(unusable(format!(
                "it is not {JOURNAL_SCHEMA} number {number}"
            ))),
        }
    }

    /// Writes a journal; it is on the disk when this returns.
    pub fn write(&self, journal: &Journal) -> Result<(), Error> {
        let text = text(journal, LARGEST_MADE)?;
        Ok(self.journals.replace(&name(journal.number), text)?)
    }

    /// The same for one whose steps are being undone.
    pub fn write_undone(&self, journal: &Journal) -> Result<(), Error> {
        let text = text(journal, LARGEST_READ)?;
        Ok(self.journals.replace(&name(journal.number), text)?)
    }

    /// Writes the first text of a journal: one that is there already is never replaced by another repair's.
    pub fn begin(&self, journal: &Journal) -> Result<(), Error> {
        Ok(self
            .journals
            .create(&name(journal.number), text(journal, LARGEST_MADE)?)?)
    }

    /// Keeps the content of a file that a repair replaces; it is on the disk when this returns.
    pub fn save(&self, number: u32, content: &[u8]) -> Result<(), Error> {
        Ok(self
            .saved
            .replace(&saved(number, &Digest::of(content)), content.to_vec())?)
    }

    /// The content of a file that a repair replaced, as it was.
    pub fn saved(&self, number: u32, digest: &Digest) -> Result<Vec<u8>, Error> {
        let name = saved(number, digest);
        let unusable = |why: &str| Error::Saved {
            path: self.saved.path(&name),
            why: why.to_owned(),
        };
        match self.saved.read(&name, LARGEST)? {
            None => Err(unusable("it is gone")),
            Some(content) if Digest::of(&content) != *digest => Err(unusable("it was changed")),
            Some(content) => Ok(content),
        }
    }

    /// Removes what a repair kept: nobody will ask for it again.
    pub fn discard(&self, number: u32) -> Result<(), FileError> {
        let prefix = format!("{number}-");
        for name in self
            .saved
            .list()?
            .iter()
            .filter(|name| name.starts_with(&prefix))
        {
            self.saved.remove(name)?;
        }
        Ok(())
    }

    /// Removes the journals of earlier boots of which this one has nothing left: every step was such that a reboot undoes
    /// it. A repair that is made again at every boot would leave one each time, and one that was interrupted by the end of a
    /// boot would stand in the way of all others.
    pub fn forget(&self, boot: Option<&str>, is_volatile: fn(&Entry) -> bool) -> Result<(), Error> {
        for number in self.numbers()? {
            // One that cannot be read is not ours to remove.
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

    /// The newest repair that was interrupted, if any was.
    pub fn unfinished(&self) -> Result<Option<u32>, Error> {
        for number in self.numbers()?.into_iter().rev() {
            if self
                .read(number)?
                .is_some_and(|journal| is_interrupted(&journal))
            {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// Whether something of a repair that did not end well may still be there.
pub fn is_interrupted(journal: &Journal) -> bool {
    let touched = |progress| matches!(progress, Progress::Begun | Progress::Done);
    matches!(journal.state, JournalState::Open | JournalState::Stopped(_))
        && journal.entries.iter().any(|entry| touched(entry.progress))
}

fn text(journal: &Journal, largest: u64) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(journal).map_err(|error| Error::Surprise(error.to_string()))?;
    match u64::try_from(text.len()).is_ok_and(|size| size <= largest) {
        true => Ok(text),
        false => Err(Error::Surprise(format!(
            "the journal of this repair would have {} bytes, and {largest} is the most: make fewer fixes at once",
            text.len()
        ))),
    }
}

fn name(number: u32) -> String {
    format!("{number}.json")
}

/// The number in a journal's name. Any other name is not a journal's.
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

    /// A journal of so many of the shortest steps there are.
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
    fn a_journal_that_may_be_made_can_be_undone_and_read() {
        let size = |steps| {
            text(&journal(steps, Progress::Done), u64::MAX)
                .expect("a text")
                .len()
        };
        let most = usize::try_from(LARGEST_MADE).expect("a size") / (size(2) - size(1)) - 10;
        text(&journal(most, Progress::Done), LARGEST_MADE).expect("it may be made");
        let undone = Journal {
            state: JournalState::Stopped("x".repeat(10_000)),
            ..journal(most, Progress::Undone)
        };
        let undone = text(&undone, LARGEST_READ).expect("it is written");
        assert!(undone.len() as u64 <= LARGEST_READ);
        let error =
            text(&journal(most + 20, Progress::Done), LARGEST_MADE).expect_err("it is too large");
        assert!(
            error.to_string().contains("make fewer fixes at once"),
            "{error}"
        );
    }
}
