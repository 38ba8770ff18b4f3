//! The ranks: of an MPI library, or two threads in a simulation. Every wait ends: a rank that has died answers nothing.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use mp::mpi::{Communicator, Request};

use super::buffer::Buffer;
use super::message::{FRAME, Hello, Message, shortened};
use crate::probe::failure::StepError;

/// How long a rank may be silent, beyond the time that a message takes.
pub const SILENCE: Duration = Duration::from_millis(2500);
/// How long the ranks may take to exchange what they are, after all have called MPI_Init.
const EXCHANGE: Duration = Duration::from_secs(5);
/// How long a rank may take to receive the reason of a failure.
const FAILURE: Duration = Duration::from_millis(100);
/// What a byte takes at most: 50 MB/s.
const BYTE: Duration = Duration::from_nanos(20);
/// Polls between two looks at the clock.
const POLLS: u32 = 1024;

pub enum Ranks {
    Mpi(Communicator),
    Sim(SimRank),
}

/// One of two simulated ranks: messages are copied through channels.
pub struct SimRank {
    rank: u32,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

/// Both simulated ranks.
pub fn simulated() -> [Ranks; 2] {
    let ((to_second, from_first), (to_first, from_second)) = (channel(), channel());
    [(0, to_second, from_second), (1, to_first, from_first)]
        .map(|(rank, to, from)| Ranks::Sim(SimRank { rank, to, from }))
}

/// What a message takes at most.
pub fn message_time(bytes: usize) -> Duration {
    BYTE * u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A message in flight.
pub enum Pending<'b> {
    Mpi(Request),
    Done,
    /// A simulated message that has not arrived.
    Sim(&'b Buffer),
}

/// A rank, with its memory for messages of [`super::message`].
pub struct MeasuredRank {
    ranks: Ranks,
    out: Buffer,
    into: Buffer,
    /// Polls between two yields of the CPU.
    polls: u32,
}

impl MeasuredRank {
    pub fn new(ranks: Ranks) -> Result<Self, StepError> {
        if let Ranks::Mpi(communicator) = &ranks {
            communicator.return_errors()?;
        }
        Ok(Self { ranks, out: Buffer::on_host(FRAME)?, into: Buffer::on_host(FRAME)?, polls: 1 })
    }

    pub fn rank(&self) -> u32 {
        match &self.ranks {
            Ranks::Mpi(communicator) => communicator.rank(),
            Ranks::Sim(sim) => sim.rank,
        }
    }

    pub fn size(&self) -> u32 {
        match &self.ranks {
            Ranks::Mpi(communicator) => communicator.size(),
            Ranks::Sim(_) => 2,
        }
    }

    /// Exchanges what each rank is, by rank. With more ranks on a host than CPUs each wait yields.
    pub fn exchange(&mut self, own: &Hello) -> Result<Vec<Hello>, StepError> {
        let text = crate::model::to_json(own).map_err(|_| StepError::OutOfStep)?.into_bytes();
        let all = match &mut self.ranks {
            Ranks::Mpi(communicator) => communicator.all_gather(&text, EXCHANGE)?,
            Ranks::Sim(sim) => {
                let first = sim.rank == 0;
                sim.to.send(text.clone()).map_err(|_| StepError::OutOfStep)?;
                let theirs = sim.from.recv_timeout(EXCHANGE);
                let theirs = theirs.map_err(|_| StepError::OutOfStep)?;
                if first { vec![text, theirs] } else { vec![theirs, text] }
            }
        };
        let hello = |text: Vec<u8>| serde_json::from_slice(&text).map_err(|_| StepError::OutOfStep);
        let hellos: Vec<Hello> = all.into_iter().map(hello).collect::<Result<_, _>>()?;
        let neighbors = hellos.iter().filter(|hello| own.is_same_host(hello)).count();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.polls = if cpus > neighbors { POLLS } else { 16 };
        Ok(hellos)
    }

    pub fn send(
        &self,
        buffer: &Buffer,
        bytes: usize,
        to: u32,
    ) -> Result<Pending<'static>, StepError> {
        match &self.ranks {
            Ranks::Mpi(communicator) => {
                Ok(Pending::Mpi(communicator.isend(&buffer.memory, (0, bytes), to)?))
            }
            Ranks::Sim(sim) => match sim.to.send(buffer.read(bytes)?) {
                Ok(()) => Ok(Pending::Done),
                Err(_) => Err(self.silent(to, Duration::ZERO)),
            },
        }
    }

    pub fn receive<'b>(
        &self,
        buffer: &'b Buffer,
        bytes: usize,
        from: u32,
    ) -> Result<Pending<'b>, StepError> {
        match &self.ranks {
            Ranks::Mpi(communicator) => {
                Ok(Pending::Mpi(communicator.irecv(&buffer.memory, (0, bytes), from)?))
            }
            Ranks::Sim(_) => Ok(Pending::Sim(buffer)),
        }
    }

    /// Waits for messages from and to a rank, in order. `time` is what each may take.
    pub fn wait(
        &self,
        pending: &mut [Pending<'_>],
        rank: u32,
        time: Duration,
    ) -> Result<(), StepError> {
        self.wait_within(pending, rank, time + SILENCE)
    }

    fn wait_within(
        &self,
        pending: &mut [Pending<'_>],
        rank: u32,
        timeout: Duration,
    ) -> Result<(), StepError> {
        let mut polls = 0_u32;
        for message in pending {
            let mut begun = None;
            while !self.is_done(message, rank)? {
                polls += 1;
                if !polls.is_multiple_of(self.polls) {
                    continue;
                }
                std::thread::yield_now();
                let begun = *begun.get_or_insert_with(Instant::now);
                if begun.elapsed() > timeout {
                    return Err(self.silent(rank, timeout));
                }
            }
        }
        Ok(())
    }

    fn is_done(&self, message: &mut Pending<'_>, rank: u32) -> Result<bool, StepError> {
        let arrived = match (&mut *message, &self.ranks) {
            (Pending::Mpi(request), _) => return Ok(request.is_done()?),
            (Pending::Sim(buffer), Ranks::Sim(sim)) => match sim.from.try_recv() {
                Ok(bytes) => buffer.write(&bytes).map(|()| true)?,
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => return Err(self.silent(rank, Duration::ZERO)),
            },
            (Pending::Done, _) | (Pending::Sim(_), Ranks::Mpi(_)) => true,
        };
        if arrived {
            *message = Pending::Done;
        }
        Ok(arrived)
    }

    fn silent(&self, rank: u32, timeout: Duration) -> StepError {
        StepError::Rank { rank, timeout }
    }

    /// Sends a message to a rank.
    pub fn send_message(&self, to: u32, message: &Message) -> Result<(), StepError> {
        self.send_message_within(to, message, SILENCE)
    }

    /// Says that this rank failed, if the other one still listens.
    pub fn send_failure(&self, to: u32, failure: &StepError) {
        let message = Message::Failed(shortened(&gpu::sentence(failure)));
        // Ignored: it notices the silence.
        let _ = self.send_message_within(to, &message, FAILURE);
    }

    fn send_message_within(
        &self,
        to: u32,
        message: &Message,
        timeout: Duration,
    ) -> Result<(), StepError> {
        let mut text =
            crate::model::to_json(message).map_err(|_| StepError::OutOfStep)?.into_bytes();
        if text.len() > FRAME {
            return Err(StepError::OutOfStep);
        }
        text.resize(FRAME, b' ');
        self.out.write(&text)?;
        let sent = self.send(&self.out, FRAME, to)?;
        self.wait_within(&mut [sent], to, timeout)
    }

    /// Receives a message of a rank, which may take `time` to begin it.
    pub fn receive_message(&self, from: u32, time: Duration) -> Result<Message, StepError> {
        let arriving = self.receive(&self.into, FRAME, from)?;
        self.wait(&mut [arriving], from, time)?;
        match serde_json::from_slice(&self.into.read(FRAME)?) {
            Ok(Message::Failed(reason)) => Err(StepError::RankFailed { rank: from, reason }),
            Ok(message) => Ok(message),
            Err(_) => Err(StepError::OutOfStep),
        }
    }
}
