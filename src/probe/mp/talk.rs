//! What the two ranks say to each other over a [`Channel`](crate::probe::channel::Channel): steps, and the exchanges of the crate `mp`.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mp::{Bootstrap, bootstrap};
use serde::{Deserialize, Serialize};

use super::task::Side;
use crate::probe::channel::{Channel, ChannelError};
use crate::probe::failure::StepError;

/// A message to the other rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A part of an exchange of the crate `mp`.
    Bytes(Vec<u8>),
    /// From the client: the next step.
    Step(Step),
    /// From the server: it is prepared for the step.
    Ready,
    /// From the client: its puts or gets are complete.
    Done,
    /// From the server: what is wrong in its memory after the step.
    Found(Option<String>),
    /// From the client: no more steps.
    End,
}

/// A batch of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub kind: Kind,
    /// Bytes of each message.
    pub bytes: usize,
    pub count: u32,
    /// Seed of the first message of the client; those of the server have the other half of the numbers.
    pub seed: u64,
}

/// What is done with the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Each is answered before the next one is sent.
    PingPong(Drive),
    /// All are sent to the server.
    Messages,
    /// The client writes the server's window.
    Put,
    /// The client reads the server's window.
    Get,
}

/// What sends and waits, at both ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drive {
    Cpu,
    Stream,
    Kernel,
}

/// The other rank.
#[derive(Clone)]
pub struct Peer(Arc<Mutex<Channel<Message>>>);

impl Peer {
    pub fn new(channel: Channel<Message>) -> Self {
        Self(Arc::new(Mutex::new(channel)))
    }

    fn with<R>(&self, body: impl FnOnce(&mut Channel<Message>) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn send(&self, message: Message) -> Result<(), StepError> {
        Ok(self.with(|channel| channel.send(message))?)
    }

    /// Sends the reason why this rank failed.
    pub fn fail(&self, why: String) {
        // Ignored: the other process has ended.
        let _ = self.with(|channel| channel.fail(why));
    }

    /// Receives a message of the other rank, whose step may take `time`.
    pub fn receive(&self, time: Duration) -> Result<Message, StepError> {
        Ok(self.with(|channel| channel.receive(time))?)
    }

    /// Receives this message; another one is an error.
    pub fn expect(&self, expected: &Message, time: Duration) -> Result<(), StepError> {
        match self.receive(time)? {
            message if message == *expected => Ok(()),
            _ => Err(StepError::OutOfStep),
        }
    }

    /// Why the other rank failed or ended, if that arrives within `time`.
    pub fn failure(&self, time: Duration) -> Option<StepError> {
        self.with(|channel| channel.failure(time)).map(StepError::from)
    }
}

/// The exchanges of the crate `mp`, over the channel.
pub struct Exchange {
    pub peer: Peer,
    pub side: Side,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("side", &self.side).finish_non_exhaustive()
    }
}

impl Bootstrap for Exchange {
    fn rank(&self) -> u32 {
        u32::from(self.side == Side::Server)
    }

    fn size(&self) -> u32 {
        2
    }

    fn all_gather(
        &mut self,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, bootstrap::Error> {
        let other = 1 - self.rank();
        let failed = |error| match error {
            ChannelError::Ended => bootstrap::Error::Gone { rank: other },
            ChannelError::Silent(timeout) => {
                bootstrap::Error::TimedOut { who: format!("rank {other}"), timeout }
            }
            ChannelError::Failed(why) => bootstrap::Error::Io {
                what: format!("continue, because rank {other} failed"),
                source: io::Error::other(why),
            },
        };
        let own = bytes.to_vec();
        let received = self.peer.with(|channel| {
            channel.send(Message::Bytes(own.clone()))?;
            channel.receive(timeout)
        });
        match (received.map_err(failed)?, self.side) {
            (Message::Bytes(theirs), Side::Client) => Ok(vec![own, theirs]),
            (Message::Bytes(theirs), Side::Server) => Ok(vec![theirs, own]),
            _ => Err(bootstrap::Error::Malformed {
                who: format!("rank {other}"),
                what: "it is out of step",
            }),
        }
    }
}
