//! What the ranks say to each other over MPI itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::figure::mpi::MessageMemory;

/// Bytes of a message between ranks: JSON, padded with spaces.
pub const FRAME: usize = 1024;
/// Most characters of a reason.
const LONGEST: usize = 400;

/// What a rank is; all ranks exchange it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub host: String,
    /// The kernel's boot id: two hosts may have one name.
    pub boot: String,
    /// Its GPU, if its library takes GPU memory.
    pub gpu: Option<String>,
    /// Its largest message.
    pub room: usize,
    /// Its library.
    pub version: String,
}

impl Hello {
    pub fn is_same_host(&self, other: &Self) -> bool {
        (&self.host, &self.boot) == (&other.host, &other.boot)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From rank 0: what the receiver does next.
    Step(Step),
    /// The answer to [`Step::Verify`]: the error in the bytes that arrived; none if they are right.
    Found(Option<String>),
    /// The sender failed.
    Failed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Receives a pattern, answers with [`Message::Found`], and sends the second pattern.
    Verify {
        memory: MessageMemory,
        bytes: usize,
        seeds: [u64; 2],
    },
    /// Sends each message back.
    PingPong {
        memory: MessageMemory,
        bytes: usize,
        count: u32,
    },
    /// Receives windows of messages, and answers each window with a message of one byte.
    Stream {
        memory: MessageMemory,
        bytes: usize,
        windows: u32,
    },
    /// Others are measured for at most this time.
    Wait(Duration),
    End,
}

/// A reason, shortened for a message.
pub fn shortened(reason: &str) -> String {
    reason.chars().take(LONGEST).collect()
}

/// A pair of ranks that is measured: rank 0 and another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPair {
    pub rank: u32,
    pub same_host: bool,
}

/// Rank 0 with the first rank of its own host, and with the first one of another.
pub fn pairs(hellos: &[Hello]) -> Vec<RankPair> {
    let Some((first, others)) = hellos.split_first() else {
        return Vec::new();
    };
    let find = |same_host: bool| {
        let mut ranks = (1..).zip(others);
        let found = ranks.find(|(_, other)| first.is_same_host(other) == same_host);
        found.map(|(rank, _)| RankPair { rank, same_host })
    };
    [find(true), find(false)].into_iter().flatten().collect()
}

/// Number of hosts.
pub fn hosts(hellos: &[Hello]) -> u32 {
    let is_new = |(at, hello): &(usize, &Hello)| {
        !hellos[..*at].iter().any(|earlier| earlier.is_same_host(hello))
    };
    hellos.iter().enumerate().filter(is_new).count() as u32
}
