//! How ranks find each other: an all-gather of bytes. Only connecting, windows and the end use it; messages do not.

mod files;
mod local;
mod mpi;
mod tcp;

pub use crate::connect::give_up;
pub use files::Files;
pub use local::Local;
pub use mpi::Mpi;
pub use tcp::{Secret, Tcp};

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::launcher::{self, LaunchedProcess};

/// The ranks of a program, and an exchange of bytes among them.
///
/// Every rank makes the same calls in the same order.
pub trait Bootstrap: Debug + Send {
    /// This rank, from 0.
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// The bytes of all ranks, by rank. Lengths may differ. Returns once every rank has called it.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if a rank has not; errors of the medium. Later calls then fail too.
    fn all_gather(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error>;

    /// Waits for all ranks.
    ///
    /// # Errors
    ///
    /// As [`Self::all_gather`].
    fn barrier(&mut self, timeout: Duration) -> Result<(), Error> {
        self.all_gather(&[], timeout).map(drop)
    }
}

/// Why ranks could not exchange bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank did not take part in time.
    #[error("no answer from {who} within {} ms: check that all ranks run and make the same calls", .timeout.as_millis())]
    TimedOut {
        /// The missing ranks.
        who: String,
        /// The timeout.
        timeout: Duration,
    },
    /// A rank ended, or closed its connection.
    #[error("rank {rank} has ended")]
    Gone {
        /// The rank.
        rank: u32,
    },
    /// An operation on files or sockets failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation and its subject.
        what: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What arrived is not what a rank of this program sends.
    #[error("malformed data from {who}: {what}")]
    Malformed {
        /// The sender.
        who: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The directory holds files of an earlier run, or other users may write to it.
    #[error("{} cannot be used: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// Rank and size, or a variable.
    #[error("invalid {what}: {why}")]
    Value {
        /// The value.
        what: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// An earlier exchange failed.
    #[error("an earlier exchange between the ranks failed")]
    Failed,
    /// A variable of a launcher is invalid.
    #[error(transparent)]
    Launcher(#[from] launcher::Error),
    /// MPI failed.
    #[error(transparent)]
    Mpi(#[from] crate::mpi::Error),
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }

    fn value(what: impl Into<String>, why: impl Into<String>) -> Self {
        let (what, why) = (what.into(), why.into());
        Self::Value { what, why }
    }
}

/// Most bytes of one exchange, of all ranks together.
const MAX_BYTES: usize = 256 << 20;

/// The bootstrap that the environment describes, for `timeout` to find the others.
///
/// Rank and size are `MP_RANK` and `MP_SIZE`, or those of srun, mpirun or mpiexec. The ranks meet at `MP_ADDRESS` (HOST:PORT, where rank 0
/// listens; with `MP_SECRET` unless that is a loopback address) or in `MP_DIRECTORY`, a new directory that all ranks see. Without either
/// they meet at the first node of a Slurm step if `MP_SECRET` is set, else in a directory of the working directory that is named after the
/// launcher's run.
///
/// # Errors
///
/// [`Error::Value`] without a launcher; errors of [`Tcp`] and [`Files`].
pub fn from_environment(
    variables: launcher::Variables<'_>,
    timeout: Duration,
) -> Result<Box<dyn Bootstrap>, Error> {
    let text = |name: &str| variables(name).filter(|value| !value.is_empty());
    let place = launcher::from_environment(variables)?;
    let number = |name: &str, launched: Option<u32>| {
        match text(name) {
        Some(value) => value
            .parse()
            .map_err(|_| Error::value(name, format!("{value:?} is not a number"))),
        None => launched.ok_or_else(|| {
            Error::value(name, "not set, and no launcher (srun, mpirun, mpiexec) has set a rank and a number of ranks")
        }),
    }
    };
    let rank: u32 = number("MP_RANK", place.as_ref().map(|place| place.rank))?;
    let size: u32 = number("MP_SIZE", place.as_ref().and_then(|place| place.size))?;
    let secret = match text("MP_SECRET") {
        Some(text) => Secret::parse(&text)?,
        None => Secret::none(),
    };
    if let Some(address) = text("MP_ADDRESS") {
        return Ok(Box::new(Tcp::new(&address, rank, size, &secret, timeout)?));
    }
    if let Some(directory) = text("MP_DIRECTORY") {
        return Ok(Box::new(Files::new(directory, rank, size)?));
    }
    if let Some(LaunchedProcess { host: Some(host), port: Some(port), .. }) = &place
        && !secret.is_none()
    {
        let address = format!("{host}:{port}");
        return Ok(Box::new(Tcp::new(&address, rank, size, &secret, timeout)?));
    }
    let Some(job) = place.as_ref().and_then(LaunchedProcess::job_name) else {
        return Err(Error::value(
            "place of the ranks",
            "set MP_ADDRESS=HOST:PORT, or MP_DIRECTORY to a new directory that all ranks see",
        ));
    };
    Ok(Box::new(Files::new(format!("mp-{job}"), rank, size)?))
}

fn check(rank: u32, size: u32) -> Result<(), Error> {
    if rank < size {
        Ok(())
    } else {
        Err(Error::value(format!("rank {rank}"), format!("there are {size} ranks, from 0")))
    }
}

/// The ranks in a message: "rank 3", "ranks 1, 2 and 4 more".
fn names(ranks: impl Iterator<Item = u32>) -> String {
    const SHOWN: usize = 8;
    let ranks: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
    let (shown, more) = ranks.split_at(ranks.len().min(SHOWN));
    let list = shown.join(", ");
    match (shown.len(), more.len()) {
        (1, 0) => format!("rank {list}"),
        (_, 0) => format!("ranks {list}"),
        (_, more) => format!("ranks {list} and {more} more"),
    }
}

/// Pauses between looks at a medium that does not wake its reader: short ones first.
struct Pause {
    start: Instant,
    timeout: Duration,
}

impl Pause {
    fn new(timeout: Duration) -> Self {
        let start = Instant::now();
        Self { start, timeout }
    }

    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.start.elapsed())
    }

    /// Pauses; false if the time is over.
    fn pause(&self) -> bool {
        let (waited, left) = (self.start.elapsed(), self.left());
        let pause = (waited / 16).clamp(Duration::from_micros(50), Duration::from_millis(10));
        std::thread::sleep(pause.min(left));
        !left.is_zero()
    }
}
