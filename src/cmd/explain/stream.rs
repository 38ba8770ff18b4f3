//! Reads an input of any size for symptoms and for a job at once. The symptoms are searched in a thread of their own, which takes as long
//! as the job.

use std::io::{self, Read};
use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::explain::{MAX_BYTES, Matcher, Reading};
use crate::input::Lookahead;
use crate::job::JobReader;

/// Blocks that wait for the search, and their size.
const MAX_WAITING: usize = 8;
const BLOCK: usize = 128 << 10;

/// Searches the start of the input for symptoms, and reads all of it for a job; with it, whether the input is longer than its start.
pub fn read(
    content: &mut Lookahead<'_>,
    matcher: &Matcher,
    job: &mut JobReader,
) -> io::Result<(Reading, bool)> {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    thread::scope(|scope| {
        let search =
            scope.spawn(move || matcher.read(Blocks { receiver, block: Vec::new(), at: 0 }));
        // The sender is dropped with the last block, or with an error: then the search ends.
        let more = read_start(content, job, sender).and_then(|()| {
            let more = !content.buffered()?.is_empty();
            if job.has_lines() {
                read_rest(content, job)?;
            }
            Ok(more)
        });
        let reading = search.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        Ok((reading?, more?))
    })
}

fn read_start(
    content: &mut Lookahead<'_>,
    job: &mut JobReader,
    sender: SyncSender<Vec<u8>>,
) -> io::Result<()> {
    let mut left = MAX_BYTES as usize;
    while left > 0 {
        let bytes = content.buffered()?;
        let bytes = &bytes[..bytes.len().min(BLOCK).min(left)];
        if bytes.is_empty() {
            break;
        }
        // Fails if the search has ended with an error, which is reported.
        let _ = sender.send(bytes.to_vec());
        job.feed(bytes);
        let count = bytes.len();
        content.consume(count);
        left -= count;
    }
    Ok(())
}

/// Shows the job's reader what is left of the input.
pub fn read_rest(content: &mut Lookahead<'_>, job: &mut JobReader) -> io::Result<()> {
    loop {
        let bytes = content.buffered()?;
        if bytes.is_empty() {
            return Ok(());
        }
        job.feed(bytes);
        let count = bytes.len();
        content.consume(count);
    }
}

/// The blocks of an input, as one stream.
struct Blocks {
    receiver: Receiver<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
}

impl Read for Blocks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            // Without a sender the input has ended.
            (self.block, self.at) = (self.receiver.recv().unwrap_or_default(), 0);
        }
        let rest = &self.block[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::shipped;

    /// NCCL's lines over three blocks, and behind them a failure.
    fn log() -> Vec<u8> {
        let line = b"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
        let mut log = line.repeat(3 * BLOCK / line.len() + 1);
        log.extend_from_slice(b"NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.\n");
        log
    }

    fn read_from(mut input: impl Read) -> (io::Result<(Reading, bool)>, JobReader) {
        let matcher = Matcher::new(shipped().expect("the shipped table")).expect("its patterns");
        let mut job = JobReader::default();
        let read = read(&mut Lookahead::new(&mut input), &matcher, &mut job);
        (read, job)
    }

    #[test]
    fn both_readers_get_the_whole_input() {
        let log = log();
        let (read, job) = read_from(log.as_slice());
        let (reading, more) = read.expect("the input");
        assert_eq!((reading.bytes, more), (log.len() as u64, false));
        assert_eq!(reading.matches[0].symptom.as_deref(), Some("gpu-lost"));
        let job = job.finish_in(&Default::default()).expect("a job");
        assert_eq!(job.communicators[0].paths[0].transport, "P2P/CUMEM");
    }

    #[test]
    fn an_error_of_the_input_ends_both() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("unplugged"))
            }
        }
        let log = log();
        let (read, _) = read_from(log.as_slice().chain(Broken));
        assert_eq!(read.err().map(|error| error.to_string()).as_deref(), Some("unplugged"));
    }
}
