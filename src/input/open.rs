//! Opens files without touching devices, and pipes with a timeout.

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Timeout for data from a named pipe.
const PIPE_TIMEOUT: Duration = Duration::from_secs(60);

/// An open file or pipe.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// Timeout of a pipe.
    silence: Option<Duration>,
}

/// Opens a regular file or a pipe for reading. It never opens a device, because that can have effects (a watchdog
/// starts).
pub fn open(path: &Path) -> io::Result<Input> {
    open_with(path, PIPE_TIMEOUT)
}

fn open_with(path: &Path, silence: Duration) -> io::Result<Input> {
    is_readable(&std::fs::metadata(path)?)?;
    // Without NONBLOCK the call blocks until a pipe has a writer.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    // The path may point to something else by now.
    let metadata = file.metadata()?;
    is_readable(&metadata)?;
    Ok(Input { file, silence: metadata.file_type().is_fifo().then_some(silence) })
}

fn is_readable(metadata: &Metadata) -> io::Result<()> {
    let kind: FileType = metadata.file_type();
    let what = if kind.is_file() || kind.is_fifo() {
        return Ok(());
    } else if kind.is_dir() {
        "it is a directory"
    } else if kind.is_char_device() || kind.is_block_device() {
        "it is a device; '-' reads standard input"
    } else {
        "it is neither a file nor a pipe"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(silence) = self.silence else {
            return self.file.read(out);
        };
        loop {
            let mut waiting = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: i64::try_from(silence.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: silence.subsec_nanos().into(),
            };
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) => {
                    let what = format!("no data from this pipe for {} s", silence.as_secs_f64());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, what));
                }
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            match self.file.read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => return answer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::fs::{CWD, Mode, mknodat};

    use super::*;

    fn pipe(directory: &Path) -> std::path::PathBuf {
        let path = directory.join("pipe");
        mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        path
    }

    #[test]
    fn silent_pipe_times_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(directory.path());
        let start = Instant::now();
        let mut input = open_with(&path, Duration::from_millis(100)).expect("it opens");
        let error = input.read(&mut [0; 10]).expect_err("silence");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // A silent writer times out too.
        let _writer = File::options().write(true).open(&path).expect("the other end");
        let error = input.read(&mut [0; 10]).expect_err("silence");
        assert_eq!(error.to_string(), "no data from this pipe for 0.1 s");
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn reads_pipe_to_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(directory.path());
        let mut input = open(&path).expect("it opens");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut file = File::options().write(true).open(path).expect("the other end");
            for part in ["one ", "two"] {
                std::io::Write::write_all(&mut file, part.as_bytes()).expect("written");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let mut text = String::new();
        input.read_to_string(&mut text).expect("all of it");
        assert_eq!(text, "one two");
        writer.join().expect("it wrote");
    }

    #[test]
    fn rejects_devices_directories_and_sockets() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for (path, what) in [
            (Path::new("/dev/zero"), "it is a device"),
            (directory.path(), "it is a directory"),
            (&socket, "it is neither a file nor a pipe"),
        ] {
            let error = open(path).expect_err("no file").to_string();
            assert!(error.starts_with(what), "{error}");
        }
        assert_eq!(
            open(Path::new("/no/such/file")).expect_err("none").kind(),
            io::ErrorKind::NotFound
        );
    }
}
