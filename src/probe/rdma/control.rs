//! What the two ends say to each other, and over what.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use verbs::Transport;

/// One thing that an end says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What its port and memory are: both say it, first.
    Offer(Offer),
    /// The one that leads: what comes next.
    Step(Step),
    /// The queue pairs it has made: both say it, after [`Step::Connect`].
    Pair(Endpoint),
    /// It is prepared for the step.
    Ready,
    /// It has done its part of the step.
    Done,
    /// The one that follows: what it found where the bytes arrived; none where all are right.
    Found(Option<String>),
    /// It cannot go on, and why.
    Failed(String),
}

/// A port and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The port's local identifier.
    pub lid: u16,
    /// Its GID.
    pub gid: Option<Ipv6Addr>,
    /// The payload of its packets.
    pub mtu: u32,
    /// Reads that it has under way at once.
    pub reads: u8,
    /// Its link is Ethernet.
    pub ethernet: bool,
    /// Where its memory is.
    pub address: u64,
    /// The key to it.
    pub rkey: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// A queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its number.
    pub queue_pair: u32,
    /// The number that its first packet has.
    pub first_packet: u32,
}

/// What moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// RDMA write.
    Write,
    /// RDMA write that tells the far side.
    WriteImmediate,
    /// RDMA read.
    Read,
    /// A message.
    Send,
    /// A message with immediate data.
    SendImmediate,
    /// 64-bit atomic addition.
    FetchAdd,
    /// 64-bit atomic compare and swap.
    CompareSwap,
}

impl Kind {
    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::WriteImmediate => "write-imm",
            Self::Read => "read",
            Self::Send => "send",
            Self::SendImmediate => "send-imm",
            Self::FetchAdd => "fetch-add",
            Self::CompareSwap => "compare-swap",
        }
    }

    /// It is about one word.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Immediate data goes with it.
    pub fn has_immediate(self) -> bool {
        matches!(self, Self::WriteImmediate | Self::SendImmediate)
    }

    /// The far side must have a buffer posted.
    pub fn is_received(self) -> bool {
        matches!(self, Self::WriteImmediate | Self::Send | Self::SendImmediate)
    }
}

/// A step of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A new connection, instead of the last.
    Connect(#[serde(with = "transport")] Transport),
    /// So many bytes of a pattern are moved once, and compared.
    Verify {
        /// How.
        kind: Kind,
        /// How many; 8 of atomic operations.
        bytes: usize,
        /// The pattern that is sent, and the one that is there before.
        seeds: [u64; 2],
    },
    /// So many requests one after the other, `depth` at once.
    Stream {
        /// How.
        kind: Kind,
        /// The size of each.
        bytes: usize,
        /// How many.
        count: u32,
        /// How many at once.
        depth: u32,
    },
    /// There and back again, so many times; of reads there alone.
    Turns {
        /// How.
        kind: Kind,
        /// The size of each.
        bytes: usize,
        /// How many.
        count: u32,
    },
    /// That was all.
    End,
}

/// How the ends talk.
pub trait Control {
    /// Says something.
    fn tell(&mut self, message: Message) -> Result<(), Gone>;

    /// Hears what the other end says, which may take so long.
    fn hear(&mut self, patience: Duration) -> Result<Message, Gone>;

    /// Whether the other end goes on, without waiting for it: [`Gone`], or why it cannot.
    fn look(&mut self) -> Result<Option<String>, Gone>;
}

/// The other end does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// It has ended.
    #[error("the other end has ended")]
    Ended,
    /// It says nothing.
    #[error("the other end said nothing for {} s", .0.as_secs())]
    Silent(Duration),
}

/// Two ends of one process.
pub struct Here {
    to: Sender<Message>,
    from: Receiver<Message>,
    /// What was said already, and not heard yet.
    said: Option<Message>,
    patience: Duration,
}

impl Here {
    /// Both sides of the way between them; they wait this long for each other, beyond what a step takes.
    pub fn pair(patience: Duration) -> (Self, Self) {
        let ((to_far, from_near), (to_near, from_far)) = (channel(), channel());
        let side = |to, from| Self {
            to,
            from,
            said: None,
            patience,
        };
        (side(to_far, from_far), side(to_near, from_near))
    }
}

impl Control for Here {
    fn tell(&mut self, message: Message) -> Result<(), Gone> {
        self.to.send(message).map_err(|_| Gone::Ended)
    }

    fn hear(&mut self, patience: Duration) -> Result<Message, Gone> {
        if let Some(message) = self.said.take() {
            return Ok(message);
        }
        let patience = patience + self.patience;
        self.from.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => Gone::Silent(patience),
            RecvTimeoutError::Disconnected => Gone::Ended,
        })
    }

    fn look(&mut self) -> Result<Option<String>, Gone> {
        if self.said.is_none() {
            self.said = match self.from.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Gone::Ended),
            };
        }
        Ok(match &self.said {
            Some(Message::Failed(why)) => Some(why.clone()),
            _ => None,
        })
    }
}

/// Crate verbs knows nothing of JSON.
mod transport {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use verbs::Transport;

    use super::super::lead::name;

    pub fn serialize<S: Serializer>(transport: &Transport, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name(*transport))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transport, D::Error> {
        let text = String::deserialize(from)?;
        [Transport::Rc, Transport::Uc, Transport::Ud]
            .into_iter()
            .find(|transport| name(*transport) == text)
            .ok_or_else(|| D::Error::custom(format!("there is no transport '{text}'")))
    }
}
