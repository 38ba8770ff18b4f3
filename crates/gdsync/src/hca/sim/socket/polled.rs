//! A socket that is polled before a thread sleeps until data arrives.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

#[derive(Debug)]
pub(super) struct Polled {
    stream: UnixStream,
    spin: Duration,
}

impl Polled {
    pub(super) fn new(stream: UnixStream, spin: Duration) -> Self {
        Self { stream, spin }
    }
}

impl Read for Polled {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        while begun.elapsed() < self.spin {
            match recv(&self.stream, &mut *room, RecvFlags::DONTWAIT) {
                Ok((read, _)) => return Ok(read),
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        self.stream.read(room)
    }
}
