//! Ranks that meet in a directory which all of them see. A rank writes a file for each exchange, under another name first.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Bootstrap, Error, MAX_BYTES, Pause, check, names};

/// A rank that meets the others in a directory of its user.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    rank: u32,
    size: u32,
    round: u64,
    failed: bool,
}

impl Files {
    /// Uses a new directory, which the first rank creates with mode 0700. It may exist, if it is this user's alone and no rank has used
    /// it. The last rank to end removes it.
    ///
    /// # Errors
    ///
    /// [`Error::Directory`], [`Error::Value`], [`Error::Io`].
    pub fn new(directory: impl Into<PathBuf>, rank: u32, size: u32) -> Result<Self, Error> {
        check(rank, size)?;
        let path = directory.into();
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io(format!("create {}", path.display()))(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&path);
        let found = found.map_err(Error::io(format!("read {}", path.display())))?;
        let unusable = |why| Error::Directory { path: path.clone(), why };
        if !found.is_dir() {
            return Err(unusable("it is not a directory"));
        }
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(unusable(
                "other users may write to it; use a directory of this user with mode 0700",
            ));
        }
        let files = Self { directory: path.clone(), rank, size, round: 0, failed: false };
        let failed = || Error::io(format!("read {}", path.display()));
        for entry in fs::read_dir(&path).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            if Path::new(&name).extension() == Some(rank.to_string().as_ref()) {
                return Err(unusable(
                    "it holds files of an earlier run; remove it, or use another one",
                ));
            }
        }
        Ok(files)
    }

    fn file(&self, round: u64, rank: u32) -> PathBuf {
        self.directory.join(format!("{round}.{rank}"))
    }

    /// Writes a file and renames it.
    fn write(&self, to: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = self.directory.join(format!("draft.{}", self.rank));
        let failed = || Error::io(format!("write {}", to.display()));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&draft);
        file.and_then(|mut file| file.write_all(bytes)).map_err(failed())?;
        fs::rename(&draft, to).map_err(failed())
    }

    fn exchange(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let round = self.round;
        self.write(&self.file(round, self.rank), bytes)?;
        let pause = Pause::new(timeout);
        let mut found: Vec<Option<Vec<u8>>> = vec![None; self.size as usize];
        let mut room = MAX_BYTES;
        loop {
            for (rank, slot) in (0..).zip(&mut found) {
                if slot.is_none() {
                    *slot = read(&self.file(round, rank), rank, &mut room)?;
                }
            }
            if found.iter().all(Option::is_some) {
                break;
            }
            if !pause.pause() {
                let missing = (0..).zip(&found).filter(|(_, found)| found.is_none());
                let who = names(missing.map(|(rank, _)| rank));
                return Err(Error::TimedOut { who, timeout });
            }
        }
        self.round += 1;
        // Every rank has read the files of the round before, or it would not have written this round's.
        if let Some(before) = round.checked_sub(1) {
            let _ = fs::remove_file(self.file(before, self.rank));
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// A rank's file, if it exists.
fn read(path: &Path, rank: u32, room: &mut usize) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::io(format!("read {}", path.display()))(source);
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(*room as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    *room = room
        .checked_sub(bytes.len())
        .ok_or(Error::Malformed { who: names([rank].into_iter()), what: "too many bytes" })?;
    Ok(Some(bytes))
}

impl Bootstrap for Files {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_gather(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let exchanged = self.exchange(bytes, timeout);
        self.failed = exchanged.is_err();
        exchanged
    }
}

impl Drop for Files {
    /// The last rank to end removes the directory. Errors are ignored: a rank that failed leaves it for inspection.
    fn drop(&mut self) {
        let ended = |rank| self.directory.join(format!("ended.{rank}"));
        if self.failed || self.write(&ended(self.rank), &[]).is_err() {
            return;
        }
        if (0..self.size).all(|rank| ended(rank).exists()) {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
