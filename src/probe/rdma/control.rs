//! What the two ends say to each other.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::purpose::Purpose;
use crate::probe::channel::Channel;
use crate::probe::failure::StepError;

/// One thing that an end says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What its port and memory are: both say it, first.
    Offer(Offer),
    /// The one that leads: what comes next.
    Step(Step),
    /// Its queue pairs, and its memory if the other end needs the rkey: both send it, after [`Step::Connect`].
    #[serde(rename = "pairs")]
    QueuePairs(Vec<Endpoint>, Option<Window>),
    /// The one that follows: the seconds that one of its own requests took, after [`Step::Both`].
    Took(f64),
    /// It is prepared for the step.
    Ready,
    /// It has done its part of the step.
    Done,
    /// The one that follows: what it found where the bytes arrived; none where all are right.
    Found(Option<String>),
}

/// A port and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The port's local identifier.
    pub lid: u16,
    pub gid: Option<Ipv6Addr>,
    /// The payload of its packets.
    pub mtu: u32,
    /// Reads that it has in progress at once.
    pub reads: u8,
    /// Its link is Ethernet.
    pub ethernet: bool,
    /// Half of its memory's bytes: the largest message, and a little.
    pub half: u64,
    /// Its memory is a GPU's, which a copy engine fills and empties through pinned memory.
    pub staged: bool,
    /// Pinned memory stands between the NIC and a GPU's, or could.
    pub pinned: bool,
    /// The CPU sees each byte of its memory arrive.
    pub seen: bool,
    /// Its memory is a simulated GPU's.
    pub simulated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub queue_pair: u32,
    /// The PSN of its first packet: random.
    pub psn: u32,
    pub qkey: u32,
}

/// Memory that the other end may use during the test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub address: u64,
    pub rkey: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub kind: Kind,
    /// The size of each.
    pub bytes: usize,
    /// How many over each queue pair.
    pub count: u32,
    /// How many at once, of each queue pair.
    pub depth: u32,
    /// The pattern that is sent, and the one that is there before; without it nothing is compared.
    pub seeds: Option<[u64; 2]>,
    /// How long all of it may take, beyond the timeout of either end.
    pub time: Duration,
}

/// A step of the work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Connect for a test case.
    Connect(Purpose),
    /// Destroy what was made for the test case, and say that it is done.
    Disconnect,
    /// So many bytes of a pattern are moved once, and compared.
    Verify {
        kind: Kind,
        /// How many; 8 of atomic operations.
        bytes: usize,
        /// The pattern that is sent, and the one that is there before.
        seeds: [u64; 2],
    },
    /// Requests one after the other, many at once.
    Stream(Flow),
    /// The same from both ends at once; of writes alone.
    Both(Flow),
    /// The same from GPU memory to GPU memory by copies through pinned memory.
    Staged(Flow),
    /// There and back again, so many times; of reads there alone.
    #[serde(rename = "turns")]
    PingPong {
        kind: Kind,
        /// The size of each.
        bytes: usize,
        count: u32,
        /// How long all of it may take, beyond the timeout of either end.
        time: Duration,
    },
    End,
}

/// How the ends talk.
pub type Control = Channel<Message>;

/// Receives this message, and nothing else.
pub fn expect(control: &mut Control, expected: &Message, time: Duration) -> Result<(), StepError> {
    match control.receive(time)? {
        message if message == *expected => Ok(()),
        _ => Err(StepError::OutOfStep),
    }
}
