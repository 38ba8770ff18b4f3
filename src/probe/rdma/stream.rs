//! Bandwidth: requests one after the other, many at once, timed while they flow.

use std::time::Instant;

use verbs::{Piece, Request, Work};

use super::control::{Control, Kind};
use super::end::{BUFFERS, End, Joined, Waiting};
use crate::probe::trouble::Trouble;

/// Seconds for one request, a sample for every `depth` of them: from one completion to the one so many later, so that neither
/// the begin nor the end of the flow is part of it. The first is not counted.
pub fn drive(
    end: &End,
    joined: &mut Joined,
    kind: Kind,
    bytes: usize,
    (count, depth): (u32, u32),
    control: &mut dyn Control,
) -> Result<Vec<f64>, Trouble> {
    let pieces = [end.region.piece(0, bytes)?];
    let inline = bytes <= joined.pair.inline_bytes() as usize && kind != Kind::Read;
    // One in four is told: the others are done when a later one is.
    let told = (depth / 4).max(1);
    let (mut posted, mut done) = (0, 0);
    let mut marks = vec![];
    let mut waiting = Waiting::new(end.patience);
    while done < count {
        while posted < count && posted - done < depth {
            posted += 1;
            let request = Request {
                signalled: posted % told == 0 || posted == count,
                inline,
                ..Request::new(u64::from(posted), work(kind, joined), &pieces)
            };
            joined.pair.send(&request)?;
        }
        let last = joined
            .sent
            .look()?
            .iter()
            .flatten()
            .next_back()
            .map(|completion| completion.id);
        let Some(last) = last else {
            waiting.look("the completion of a request", control)?;
            continue;
        };
        let before = done / depth;
        done = last as u32;
        if done / depth > before {
            marks.push((Instant::now(), done));
        }
        waiting = Waiting::new(end.patience);
    }
    let seconds = |pair: &[(Instant, u32)]| {
        let time = pair[1].0.duration_since(pair[0].0);
        time.as_secs_f64() / f64::from(pair[1].1 - pair[0].1)
    };
    Ok(marks.windows(2).map(seconds).collect())
}

/// The other side of it: buffers for what is received.
pub struct Receiving {
    posted: u32,
    received: u32,
    count: u32,
}

impl Receiving {
    /// Posts as many as there is room for.
    pub fn begin(end: &End, joined: &mut Joined, bytes: usize, count: u32) -> Result<Self, Trouble> {
        let mut receiving = Self {
            posted: 0,
            received: 0,
            count,
        };
        let piece = end.region.piece(0, bytes)?;
        while receiving.posted < count.min(BUFFERS) {
            receiving.post(joined, piece)?;
        }
        Ok(receiving)
    }

    /// Takes all, and posts a buffer again for each.
    pub fn finish(
        mut self,
        end: &End,
        joined: &mut Joined,
        bytes: usize,
        control: &mut dyn Control,
    ) -> Result<(), Trouble> {
        let piece = end.region.piece(0, bytes)?;
        while self.received < self.count {
            let arrived = joined.received.wait(control)?.len() as u32;
            self.received += arrived;
            for _ in 0..arrived {
                if self.posted < self.count {
                    self.post(joined, piece)?;
                }
            }
        }
        Ok(())
    }

    fn post(&mut self, joined: &mut Joined, piece: Piece<'_>) -> Result<(), Trouble> {
        self.posted += 1;
        Ok(joined.pair.receive(u64::from(self.posted), &[piece])?)
    }
}

/// The immediate data of a request that has some.
pub const SAID: u32 = 0x0067_6472;

/// What a request of a kind does.
pub fn work(kind: Kind, joined: &Joined) -> Work<'static> {
    match kind {
        Kind::Write => Work::Write(joined.remote, None),
        Kind::WriteImmediate => Work::Write(joined.remote, Some(SAID)),
        Kind::Read => Work::Read(joined.remote),
        Kind::Send => Work::Send(None),
        Kind::SendImmediate => Work::Send(Some(SAID)),
        Kind::FetchAdd => Work::FetchAdd(joined.remote, 1),
        Kind::CompareSwap => Work::CompareSwap {
            remote: joined.remote,
            compare: 0,
            swap: 0,
        },
    }
}
