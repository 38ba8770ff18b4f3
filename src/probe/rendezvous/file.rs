//! A rendezvous through a shared file: rank 0 listens on a free port and writes its address and a secret, rank 1 waits for the
//! file. A file of an earlier run or of another user is not used.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mp::session::random;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::Conditions;
use super::connect::{Attempt, attempt, pause};
use super::error::Error;
use super::link::Link;
use super::listen::Listener;
use super::private::{self, Links, Privacy};
use super::secret::{SECRET_VARIABLE, Secret};

/// How often it is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long the server that a file names may take to answer: the file may be an earlier run's.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Stands for a missing value in the file.
const NO_VALUE: &str = "-";

/// Content of the file, one line: `host port secret job`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RendezvousFile {
    /// Host of rank 0.
    pub host: String,
    pub port: u16,
    /// The secret; `-` in the file if both ranks have it from elsewhere.
    pub secret: Option<Secret>,
    /// The launcher's name of this run; `-` in the file if there is none.
    pub job: Option<String>,
}

impl RendezvousFile {
    /// Parses the text of a file; none if it is incomplete or invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.strip_suffix('\n')?;
        let words: Vec<&str> = line.split(' ').collect();
        let [host, port, secret, job] = words.as_slice() else {
            return None;
        };
        let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic());
        if !words.iter().copied().all(plain) {
            return None;
        }
        Some(Self {
            host: (*host).to_owned(),
            port: port.parse().ok().filter(|port| *port != 0)?,
            secret: match *secret {
                NO_VALUE => None,
                digits => Some(Secret::parse(digits)?),
            },
            job: (*job != NO_VALUE).then(|| (*job).to_owned()),
        })
    }

    /// As the file has it.
    pub fn text(&self) -> String {
        let secret = self.secret.as_ref().map_or(NO_VALUE.to_owned(), Secret::text);
        let job = self.job.as_deref().unwrap_or(NO_VALUE);
        format!("{} {} {secret} {job}\n", self.host, self.port)
    }
}

/// Connects two processes through a file. Rank 0 listens at `address` on a free port; if that is the unspecified address, the file
/// has its host name. `job` is the launcher's name of the run, if any. Without a shared secret rank 0 generates one, and only this
/// user may read the file.
pub fn connect_by_file<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    (rank, job): (u32, Option<&str>),
    address: IpAddr,
    given: Option<&Secret>,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let job = job.map(to_token);
    match rank {
        0 => listen_by_file(path, job, address, given, conditions, note),
        1 => wait_for_file(path, job.as_deref(), given, conditions, note).map(|(link, _)| link),
        rank => Err(Error::Rank { rank }),
    }
}

/// Makes a name fit a field of the file.
pub(super) fn to_token(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    let word: String = name.chars().take(200).map(plain).collect();
    if word.is_empty() || word == NO_VALUE { "_".to_owned() } else { word }
}

/// The file is private if it holds the secret.
pub(super) fn privacy(given: Option<&Secret>) -> Privacy {
    match given {
        Some(_) => Privacy::NotNeeded,
        None => Privacy::Required,
    }
}

/// Opens the directory of a path, checks it, and returns it with the file's name.
fn open_directory(path: &Path, privacy: Privacy) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, flags, Mode::empty())?;
    if privacy == Privacy::Required {
        private::check_directory(&folder)?;
    }
    Ok((folder, name))
}

/// Rank 0: writes its address, and removes the file once rank 1 is connected.
fn listen_by_file<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    job: Option<String>,
    address: IpAddr,
    given: Option<&Secret>,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let secret = match given {
        Some(secret) => secret.clone(),
        None => generate()?,
    };
    let listener = Listener::bind(SocketAddr::new(address, 0), &secret)?;
    let host = if address.is_unspecified() { host_name()? } else { address.to_string() };
    let meeting = RendezvousFile {
        host,
        port: listener.address().port(),
        secret: given.is_none().then_some(secret),
        job,
    };
    let _written = WrittenFile::new(path, meeting.text(), privacy(given)).map_err(|error| {
        Error::File { path: path.to_owned(), why: format!("it cannot be written ({error})") }
    })?;
    listener.accept(conditions, note).map_err(|error| match error {
        Error::NoClient { address, waited, rejected } => Error::File {
            path: path.to_owned(),
            why: format!(
                "rank 1 did not connect to {address} within {}{rejected}",
                super::error::format_duration(waited)
            ),
        },
        other => other,
    })
}

/// A new secret.
pub(super) fn generate() -> Result<Secret, Error> {
    Secret::generate().map_err(|error| Error::System {
        what: "cannot generate a secret".to_owned(),
        why: error.to_string(),
    })
}

/// The rendezvous file. It is removed on drop, if its text is unchanged.
pub(super) struct WrittenFile {
    folder: OwnedFd,
    name: OsString,
    text: String,
}

impl WrittenFile {
    /// Writes a temporary file of mode 0600 and renames it, so that readers never see a partial file.
    pub(super) fn new(path: &Path, text: String, privacy: Privacy) -> io::Result<Self> {
        let (folder, name) = open_directory(path, privacy)?;
        let number = random::<8>()?;
        let temporary: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let temporary = format!(".gdr-{temporary}");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let write = || {
            // Before the secret is written.
            if privacy == Privacy::Required {
                private::check_written(&file)?;
            }
            let mut file = fs::File::from(file);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&folder, &temporary, &folder, name)?)
        };
        write().inspect_err(|_: &io::Error| {
            // Ignored: the first error is the cause.
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        })?;
        Ok(Self { name: name.to_owned(), folder, text })
    }
}

impl Drop for WrittenFile {
    fn drop(&mut self) {
        let now =
            private::read(&self.folder, Path::new(&self.name), Links::Refuse, Privacy::NotNeeded);
        if now.is_ok_and(|text| text == self.text) {
            // Ignored: readers detect a stale file.
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// How long a process waits for the other one before it says so.
const QUIET: Duration = Duration::from_secs(5);

/// Rank 1: waits for a file whose writer answers. Returns the secret of both too.
pub(super) fn wait_for_file<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    path: &Path,
    job: Option<&str>,
    given: Option<&Secret>,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<(Link<'a, M>, Secret), Error> {
    // Waiting does not make a directory safe.
    if let Err(error) = open_directory(path, privacy(given))
        && error.kind() == io::ErrorKind::Other
    {
        return Err(Error::File {
            path: PathBuf::from(path),
            why: format!("it is not used ({error})"),
        });
    }
    let begun = Instant::now();
    let mut last_note = String::new();
    loop {
        let why = match read_meeting(path, job, given) {
            Ok((RendezvousFile { host, port, .. }, secret)) => {
                let until = conditions.until.min(Instant::now() + CONNECT_TIMEOUT);
                let why = match attempt(&host, port, &secret, conditions, until) {
                    Attempt::Connected(link) => return Ok((link, secret)),
                    Attempt::Failed(error @ (Error::Interrupted | Error::Protocol { .. })) => {
                        return Err(error);
                    }
                    Attempt::Failed(error) => error.to_string(),
                    Attempt::Retry(why) => why,
                };
                format!("it names {host}:{port}, where rank 0 of this run does not answer ({why})")
            }
            Err(why) => why,
        };
        // A launcher starts the processes one after another. A file that does not lead to rank 0 is reported at once.
        let is_early = begun.elapsed() < QUIET && !path.exists();
        if !is_early && why != last_note {
            note(format!("waiting for {}: {why}", path.display()));
            last_note.clone_from(&why);
        }
        pause(POLL_INTERVAL, conditions)?;
        if Instant::now() >= conditions.until {
            return Err(Error::File { path: PathBuf::from(path), why });
        }
    }
}

/// Reads the address of rank 0 and the secret. The error says why the file is not used.
fn read_meeting(
    path: &Path,
    job: Option<&str>,
    given: Option<&Secret>,
) -> Result<(RendezvousFile, Secret), String> {
    let privacy = privacy(given);
    let read = || {
        let (folder, name) = open_directory(path, privacy)?;
        private::read(&folder, Path::new(name), Links::Refuse, privacy)
    };
    let text = read().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "rank 0 has not written it".to_owned(),
        _ => format!("it is not used ({error})"),
    })?;
    let meeting =
        RendezvousFile::parse(&text).ok_or("its content was not written by this version of gdr")?;
    if let (Some(ours), Some(theirs)) = (job, meeting.job.as_deref())
        && ours != theirs
    {
        return Err(format!("it belongs to another run ({theirs}, not {ours})"));
    }
    match (given, meeting.secret.clone()) {
        (Some(given), None) => Ok((meeting, given.clone())),
        (None, Some(secret)) => Ok((meeting, secret)),
        (None, None) => Err(format!(
            "rank 0 has a secret, and this process has none: export {SECRET_VARIABLE} to both"
        )),
        (Some(_), Some(_)) => Err(format!(
            "this process has a secret, and rank 0 has none: export {SECRET_VARIABLE} to both"
        )),
    }
}

/// The host name of this machine.
pub fn host_name() -> Result<String, Error> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| Error::System {
        what: "cannot read this machine's name".to_owned(),
        why: error.to_string(),
    })?;
    Ok(to_token(name.trim()))
}
