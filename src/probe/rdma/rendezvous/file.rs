//! A shared file as the meeting point of two processes that know nothing of each other's machine: rank 0 listens on a port
//! that is free and writes where, rank 1 waits for the file. What an earlier run left there is not believed.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Conditions;
use super::connect::{Attempt, attempt, pause};
use super::error::Error;
use super::link::Link;
use super::listen::Listener;

/// No such file is longer.
const LONGEST: u64 = 1024;
/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a listening side that a file names may take: it may be an earlier run's.
const ANSWER: Duration = Duration::from_secs(3);

/// What the file says, in one line: `host port token job`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// Where rank 0 is.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What rank 1 must know to be taken.
    pub token: String,
    /// The launcher's name for this run, where it has one; `-` in the file where not.
    pub job: Option<String>,
}

impl Meeting {
    /// Reads one; none where it is not whole.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.strip_suffix('\n')?;
        let words: Vec<&str> = line.split(' ').collect();
        let [host, port, token, job] = words.as_slice() else {
            return None;
        };
        let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic());
        if !words.iter().copied().all(plain) {
            return None;
        }
        Some(Self {
            host: (*host).to_owned(),
            port: port.parse().ok().filter(|port| *port != 0)?,
            token: (*token).to_owned(),
            job: (*job != "-").then(|| (*job).to_owned()),
        })
    }

    /// As the file has it.
    pub fn text(&self) -> String {
        let job = self.job.as_deref().unwrap_or("-");
        format!("{} {} {} {job}\n", self.host, self.port, self.token)
    }
}

/// Meets the other process by a file. Rank 0 listens at `address` on a port that is free; where that is all addresses, it
/// writes its machine's name into the file. `job` is what the launcher calls this run on both sides, where it calls it
/// anything. A token in the terms is not used: rank 0 makes one.
pub fn meet_by_file<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    rank: u32,
    job: Option<&str>,
    address: IpAddr,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let job = job.map(word);
    match rank {
        0 => first(path, job, address, terms, note),
        1 => second(path, job.as_deref(), terms, note),
        rank => Err(Error::Rank { rank }),
    }
}

/// A name as a word of the file.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    let word: String = name.chars().take(200).map(plain).collect();
    if word.is_empty() || word == "-" {
        "_".to_owned()
    } else {
        word
    }
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        why: format!("{what} ({error})"),
    }
}

/// Rank 0: writes where it is, and takes the file away again once it is met.
fn first<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    job: Option<String>,
    address: IpAddr,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let listener = Listener::bind(SocketAddr::new(address, 0))?;
    let host = match address.is_unspecified() {
        true => host_name()?,
        false => address.to_string(),
    };
    let meeting = Meeting {
        host,
        port: listener.address().port(),
        token: token()?,
        job,
    };
    let _written = Written::new(path, meeting.text())?;
    let terms = Conditions {
        token: Some(meeting.token.clone()),
        ..terms.clone()
    };
    listener.accept(&terms, note).map_err(|error| match error {
        Error::NobodyCame {
            address,
            waited,
            turned_away,
        } => Error::File {
            path: path.to_owned(),
            why: format!(
                "rank 1 did not come to {address} within {}{turned_away}",
                super::error::span(waited)
            ),
        },
        other => other,
    })
}

/// A file that is taken away when it is no longer wanted, if it is still the same.
struct Written {
    path: PathBuf,
    text: String,
}

impl Written {
    /// Writes it beside its place, for its owner alone, and moves it there: nobody reads half of it.
    fn new(path: &Path, text: String) -> Result<Self, Error> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".gdr-").tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)
        };
        write().map_err(|error| failed(path, "it cannot be written", &error))?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if read(&self.path).is_ok_and(|text| text == self.text) {
            // What is left is stale, and not believed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Rank 1: waits for a file whose writer answers.
fn second<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    job: Option<&str>,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let mut told = String::new();
    loop {
        let why = match look(path, job) {
            Ok(meeting) => {
                let terms = Conditions {
                    token: Some(meeting.token.clone()),
                    ..terms.clone()
                };
                let until = terms.until.min(Instant::now() + ANSWER);
                let why = match attempt(&meeting.host, meeting.port, &terms, until) {
                    Attempt::Linked(link) => return Ok(link),
                    Attempt::Never(error @ (Error::Interrupted | Error::Protocol { .. })) => return Err(error),
                    Attempt::Never(error) => error.to_string(),
                    Attempt::NotYet(why) => why,
                };
                format!(
                    "it names {}:{}, where this run's other process does not answer ({why})",
                    meeting.host, meeting.port
                )
            }
            Err(why) => why,
        };
        if why != told {
            note(format!("waiting for {}: {why}", path.display()));
            told.clone_from(&why);
        }
        pause(PAUSE, terms)?;
        if Instant::now() >= terms.until {
            return Err(Error::File {
                path: path.to_owned(),
                why,
            });
        }
    }
}

/// What the file says now; an error says why that is nothing to go by.
fn look(path: &Path, job: Option<&str>) -> Result<Meeting, String> {
    let text = read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "rank 0 has not written it".to_owned(),
        _ => format!("it cannot be read ({error})"),
    })?;
    let meeting = Meeting::parse(&text).ok_or("what is in it was not written by gdr")?;
    match (job, meeting.job.as_deref()) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(format!("it is of another run ({theirs}, not {ours})")),
        _ => Ok(meeting),
    }
}

/// The text of a file that is one: a pipe of that name would be waited for.
fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The name of this machine, by which the other one is to find it.
fn host_name() -> Result<String, Error> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| Error::System {
        what: "this machine's name cannot be read".to_owned(),
        why: error.to_string(),
    })?;
    Ok(word(name.trim()))
}

/// What nobody guesses.
fn token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::System {
        what: "/dev/urandom cannot be read".to_owned(),
        why: error.to_string(),
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
