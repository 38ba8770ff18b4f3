//! The journals of repairs, in `/var/lib/gdr/journal`: one file a repair, written whole before every step.

use std::path::{Path, PathBuf};

use super::Error;
use crate::model::{FileImage, Hex, JOURNAL_SCHEMA, Journal, JournalState, Progress};
use crate::world::{Hands, Lock};

const DIRECTORY: &str = "/var/lib/gdr/journal";
const LOCK: &str = "/var/lib/gdr/lock";

/// The journals of a machine.
pub struct Journals<'h> {
    hands: &'h Hands,
}

impl<'h> Journals<'h> {
    /// Those of a machine.
    pub fn of(hands: &'h Hands) -> Self {
        Self { hands }
    }

    /// The right to change the machine, held until the lock is dropped.
    pub fn lock(&self) -> Result<Lock, Error> {
        let directory = Path::new(DIRECTORY);
        for missing in self.hands.missing_above(directory)? {
            // What lies above /var/lib/gdr is everybody's.
            let mode = if missing.ends_with("gdr") { 0o700 } else { 0o755 };
            self.hands.make_directory(&missing, mode)?;
        }
        self.hands.make_directory(directory, 0o700)?;
        self.hands.lock(Path::new(LOCK))?.ok_or(Error::Busy(LOCK))
    }

    /// The numbers that there are, in order.
    pub fn numbers(&self) -> Result<Vec<u32>, Error> {
        let names = self.hands.list(Path::new(DIRECTORY))?;
        let number = |name: &String| name.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A journal.
    pub fn read(&self, number: u32) -> Result<Journal, Error> {
        let path = path(number);
        let image = self.hands.file(&path)?.ok_or(Error::NoSuchRepair(number))?;
        let trouble = |why: String| Error::Journal {
            path: path.display().to_string(),
            why,
        };
        let journal: Journal = serde_json::from_slice(&image.content.0).map_err(|error| trouble(error.to_string()))?;
        match journal.schema == JOURNAL_SCHEMA && journal.number == number {
            true => Ok(journal),
            false => Err(trouble(format!(
                "it says {} number {}, and {JOURNAL_SCHEMA} number {number} is wanted",
                journal.schema, journal.number
            ))),
        }
    }

    /// Writes a journal; it is on the disk when this returns.
    pub fn write(&self, journal: &Journal) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(journal).map_err(|error| Error::Journal {
            path: path(journal.number).display().to_string(),
            why: error.to_string(),
        })?;
        let (uid, gid) = owner();
        let image = FileImage {
            content: Hex(text),
            mode: 0o600,
            uid,
            gid,
        };
        Ok(self.hands.replace(&path(journal.number), &image)?)
    }

    /// Takes away the journals of earlier boots of which this one has nothing left: every step was such that a reboot takes
    /// it back. A repair that is made again at every boot would leave one each time, and one that was cut short by the end
    /// of a boot would stand in the way of all others.
    pub fn forget(&self, boot: Option<&str>) -> Result<(), Error> {
        for number in self.numbers()? {
            // One that cannot be read is not ours to take away.
            let Ok(journal) = self.read(number) else {
                continue;
            };
            let earlier = matches!((journal.boot.as_deref(), boot), (Some(then), Some(now)) if then != now);
            if earlier && journal.entries.iter().all(|entry| entry.step.action.is_volatile()) {
                self.hands.remove(&path(number))?;
            }
        }
        Ok(())
    }

    /// The newest repair that was cut short; none where all ended.
    pub fn unfinished(&self) -> Result<Option<u32>, Error> {
        for number in self.numbers()?.into_iter().rev() {
            let journal = self.read(number)?;
            if is_cut_short(&journal) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// Whether something of a repair that did not end well is still there.
pub fn is_cut_short(journal: &Journal) -> bool {
    let touched = |progress| matches!(progress, Progress::Begun | Progress::Done);
    matches!(journal.state, JournalState::Open | JournalState::Stopped(_))
        && journal.entries.iter().any(|entry| touched(entry.progress))
}

fn path(number: u32) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{number}.json"))
}

/// Whom new files belong to.
pub fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}
