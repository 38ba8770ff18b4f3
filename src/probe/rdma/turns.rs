//! Latency: one message there, one back, over and over, each answered as soon as it is seen.

use std::time::Instant;

use verbs::{Request, Work};

use super::control::{Control, Kind};
use super::end::{BUFFERS, End, Joined, Waiting};
use super::stream::work;
use crate::probe::trouble::Trouble;

/// Who begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// This end.
    We,
    /// The other.
    They,
}

/// Seconds from one turn's begin to the next's. What is read is read by one end; the other does nothing.
pub fn play(
    end: &End,
    joined: &mut Joined,
    kind: Kind,
    (bytes, count): (usize, u32),
    first: First,
    control: &mut dyn Control,
) -> Result<Vec<f64>, Trouble> {
    match kind {
        Kind::Write => written(end, joined, bytes, count, first, control),
        Kind::Read | Kind::FetchAdd | Kind::CompareSwap => fetched(end, joined, kind, bytes, count, control),
        Kind::Send | Kind::SendImmediate | Kind::WriteImmediate => {
            sent(end, joined, kind, bytes, count, first, control)
        }
    }
}

/// Buffers for what is received, before the other end may send.
pub fn prepare(end: &End, joined: &mut Joined, kind: Kind, bytes: usize, count: u32) -> Result<(), Trouble> {
    // The half that is written to by the other end.
    end.buffer.fill(end.buffer.len() / 2, end.buffer.len() / 2, 0)?;
    if kind.is_received() {
        let piece = end.region.piece(end.region.len() / 2, bytes)?;
        for id in 0..count.min(BUFFERS) {
            joined.pair.receive(u64::from(id), &[piece])?;
        }
    }
    Ok(())
}

/// The last byte of a message tells that it is there: a card writes in order.
fn written(
    end: &End,
    joined: &mut Joined,
    bytes: usize,
    count: u32,
    first: First,
    control: &mut dyn Control,
) -> Result<Vec<f64>, Trouble> {
    let half = end.buffer.len() / 2;
    let pieces = [end.region.piece(0, bytes)?];
    let inline = bytes <= joined.pair.inline_bytes() as usize;
    let request = Request {
        inline,
        ..Request::new(0, Work::Write(joined.remote.offset(half as u64), None), &pieces)
    };
    let mut times = Vec::with_capacity(count as usize);
    let mut begun = Instant::now();
    for turn in 1..=count {
        // Never what is there: the one before it, or 0.
        let mark = (turn % 255 + 1) as u8;
        let arrives = |joined: &mut Joined, control: &mut dyn Control| -> Result<(), Trouble> {
            let mut waiting = Waiting::new(end.patience);
            while end.buffer.load(half + bytes - 1)? != mark {
                waiting.look("a write of the other end", control)?;
                if waiting.is_long() {
                    // A request that failed tells why.
                    joined.sent.look()?;
                }
            }
            Ok(())
        };
        if first == First::They {
            arrives(joined, control)?;
        }
        end.buffer.store(bytes - 1, mark)?;
        joined.pair.send(&request)?;
        joined.sent.wait(control)?;
        if first == First::We {
            arrives(joined, control)?;
        }
        let now = Instant::now();
        times.push(now.duration_since(begun).as_secs_f64());
        begun = now;
    }
    Ok(times)
}

fn sent(
    end: &End,
    joined: &mut Joined,
    kind: Kind,
    bytes: usize,
    count: u32,
    first: First,
    control: &mut dyn Control,
) -> Result<Vec<f64>, Trouble> {
    let half = end.region.len() / 2;
    let (pieces, into) = ([end.region.piece(0, bytes)?], end.region.piece(half, bytes)?);
    let work = match kind {
        Kind::WriteImmediate => Work::Write(joined.remote.offset(half as u64), Some(0)),
        kind => work(kind, joined),
    };
    let request = Request {
        inline: bytes <= joined.pair.inline_bytes() as usize,
        ..Request::new(0, work, &pieces)
    };
    let mut posted = count.min(BUFFERS);
    let mut times = Vec::with_capacity(count as usize);
    let mut begun = Instant::now();
    for _ in 0..count {
        let mut arrives = |joined: &mut Joined, control: &mut dyn Control| -> Result<(), Trouble> {
            joined.received.wait(control)?;
            if posted < count {
                posted += 1;
                joined.pair.receive(0, &[into])?;
            }
            Ok(())
        };
        if first == First::They {
            arrives(joined, control)?;
        }
        joined.pair.send(&request)?;
        joined.sent.wait(control)?;
        if first == First::We {
            arrives(joined, control)?;
        }
        let now = Instant::now();
        times.push(now.duration_since(begun).as_secs_f64());
        begun = now;
    }
    Ok(times)
}

fn fetched(
    end: &End,
    joined: &mut Joined,
    kind: Kind,
    bytes: usize,
    count: u32,
    control: &mut dyn Control,
) -> Result<Vec<f64>, Trouble> {
    let pieces = [end.region.piece(0, bytes)?];
    let request = Request::new(0, work(kind, joined), &pieces);
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let begun = Instant::now();
        joined.pair.send(&request)?;
        joined.sent.wait(control)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(times)
}
