//! A buffered stream with lookahead.

use std::io::{self, Read};

const CHUNK: u64 = 128 << 10;

pub struct Lookahead<'a> {
    stream: &'a mut dyn Read,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes consumed so far.
    pub taken: u64,
}

impl<'a> Lookahead<'a> {
    pub fn new(stream: &'a mut dyn Read) -> Self {
        Self { stream, buffer: Vec::new(), at: 0, taken: 0 }
    }

    /// The buffered bytes; empty only at the end.
    pub fn buffered(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() {
            self.more()?;
        }
        Ok(&self.buffer[self.at..])
    }

    /// Reads more into the buffer; false at the end.
    pub fn more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let mut chunk = (&mut *self.stream).take(CHUNK);
        Ok(chunk.read_to_end(&mut self.buffer)? > 0)
    }

    /// The next bytes; fewer at the end.
    pub fn peek(&mut self, length: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.at < length && self.more()? {}
        let rest = &self.buffer[self.at..];
        Ok(&rest[..length.min(rest.len())])
    }

    /// Skips buffered bytes.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.buffer.len() - self.at);
        self.at += count;
        self.taken += count as u64;
    }
}

impl Read for Lookahead<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let buffered = self.buffered()?;
        let count = buffered.len().min(out.len());
        out[..count].copy_from_slice(&buffered[..count]);
        self.consume(count);
        Ok(count)
    }
}

pub fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file is truncated")
}

/// Reads all of `out`, or fails with [`truncated`].
pub fn fill(stream: &mut dyn Read, out: &mut [u8]) -> io::Result<()> {
    stream.read_exact(out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated(),
        _ => error,
    })
}

pub fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
